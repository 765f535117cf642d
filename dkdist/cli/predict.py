"""``dkdist predict`` and ``dkdist score``: predictions of a saved model for the sets of a store, in batches."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

import dkdist
from dkdist._runtime.progress import Progress
from dkdist.cli._tuning import PREDICT_BATCH_SETS
from dkdist.cli.console import is_progress_shown, print_result, scheduler_session, stopwatch
from dkdist.cli.model import read_target
from dkdist.cli.prediction_table import STANDARD_OUTPUT, Predictions, check_output, write_predictions
from dkdist.cli.scores import format_score, score_document
from dkdist.cli.streams import require_encodable


def predict(args: Namespace) -> None:
    """Write the predictions of every set."""
    if args.json and args.output == STANDARD_OUTPUT:
        raise ValueError("--json and --output - would both write to standard output. Pass a file to --output")
    check_output(args.output, probabilities=args.probabilities, overwrite=args.overwrite)
    sets, watch = dkdist.as_sets(args.store), stopwatch()
    model = dkdist.load_model(args.model)
    methods = [require_learner(model, args.model).predict]
    if args.probabilities:
        methods.append(_require_probabilities(model, args.model))
    ids = np.arange(len(sets)) if sets.ids is None else sets.ids
    classes = model.classes_ if hasattr(model, "classes_") else None
    if args.output == STANDARD_OUTPUT:
        require_encodable("--output -", map(str, [*ids, *([] if classes is None else classes)]))
    predicted, *probabilities = _predict_in_batches(args, methods, sets)
    predictions = Predictions(ids, predicted, probabilities[0] if probabilities else None, classes)
    write_predictions(args.output, predictions, overwrite=args.overwrite)
    if args.output == STANDARD_OUTPUT:
        return
    document = {
        "n_sets": len(sets),
        "output": args.output,
        "columns": list(predictions.columns),
        "classes": classes,
        "seconds": watch(),
    }
    print_result(
        args,
        document,
        f"wrote {len(predicted):,} predictions to {args.output} in {document['seconds']:.1f} s",
    )


def score(args: Namespace) -> None:
    """Print the score of the predictions against a target."""
    sets = dkdist.as_sets(args.store)
    truth, model = read_target(sets, args.target), dkdist.load_model(args.model)
    (predicted,) = _predict_in_batches(args, [require_learner(model, args.model).predict], sets)
    document = score_document(model, truth, predicted)
    print_result(args, document, format_score(document))


def require_learner(model: Any, path: str) -> Any:
    """Return the model; ValueError if its last step cannot predict."""
    if not hasattr(model, "predict"):
        last = model.steps[-1][1] if hasattr(model, "steps") else model
        raise ValueError(
            f"--model {path} cannot predict: its last step is {last!r:.200}. Fit a model with a learner as last step."
        )
    return model


def _require_probabilities(model: Any, path: str) -> Callable[[Any], NDArray[Any]]:
    if not hasattr(model, "predict_proba"):
        raise ValueError(
            f"--model {path} has no probabilities: it predicts numbers, or its loss defines none. Omit "
            "--probabilities, or train another classifier"
        )
    predict_proba: Callable[[Any], NDArray[Any]] = model.predict_proba
    return predict_proba


def _predict_in_batches(
    args: Namespace, methods: Sequence[Callable[[Any], NDArray[Any]]], sets: Any
) -> list[NDArray[Any]]:
    """Return the result of each method for all sets."""
    parts: list[list[NDArray[Any]]] = [[] for _ in methods]
    starts = range(0, len(sets), PREDICT_BATCH_SETS)
    with Progress(len(starts), "predict", show=is_progress_shown(args)) as progress, scheduler_session(args):
        for start in starts:
            batch = sets[start : start + PREDICT_BATCH_SETS]
            for results, method in zip(parts, methods, strict=True):
                results.append(method(batch))
            progress.advance(1)
    return [np.concatenate(results) for results in parts]
