"""``dkdist predict`` and ``dkdist score``: a saved model on the sets of a store, some thousand at a time."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

import dkdist
from dkdist._runtime.progress import Progress
from dkdist.cli.console import is_progress_shown, print_result, scheduler_session, stopwatch
from dkdist.cli.model import read_target
from dkdist.cli.prediction_table import STANDARD_OUTPUT, Predictions, check_output, write_predictions
from dkdist.cli.scores import format_score, score_document
from dkdist.cli.streams import require_encodable

PREDICT_BATCH_SETS = 2**14


def predict(args: Namespace) -> None:
    """Write the predictions of every set."""
    if args.json and args.output == STANDARD_OUTPUT:
        raise ValueError("--json and --output - would both write to standard output: give --output a file")
    check_output(args.output, probabilities=args.probabilities, overwrite=args.overwrite)
    sets, watch = dkdist.open_sets(args.store), stopwatch()
    model = dkdist.load_model(args.model)
    asked = [require_learner(model, args.model).predict]
    if args.probabilities:
        asked.append(_require_probabilities(model, args.model))
    ids = np.arange(len(sets)) if sets.ids is None else sets.ids
    classes = model.classes_ if hasattr(model, "classes_") else None
    if args.output == STANDARD_OUTPUT:
        require_encodable("--output -", map(str, [*ids, *([] if classes is None else classes)]))
    predicted, *probabilities = _predict_in_batches(args, asked, sets)
    found = Predictions(ids, predicted, probabilities[0] if probabilities else None, classes)
    write_predictions(args.output, found, overwrite=args.overwrite)
    if args.output == STANDARD_OUTPUT:
        return
    document = {
        "n_sets": len(sets),
        "output": args.output,
        "columns": list(found.columns),
        "classes": classes,
        "seconds": watch(),
    }
    print_result(
        args,
        document,
        f"wrote {len(predicted):,} predictions to {args.output} in {document['seconds']:.1f} s",
    )


def score(args: Namespace) -> None:
    """Print how well the predictions agree with a target."""
    sets = dkdist.open_sets(args.store)
    truth, model = read_target(sets, args.target), dkdist.load_model(args.model)
    (predicted,) = _predict_in_batches(args, [require_learner(model, args.model).predict], sets)
    found = score_document(model, truth, predicted)
    print_result(args, found, format_score(found))


def require_learner(model: Any, path: str) -> Any:
    """Return the model; raise ValueError if its last step is no learner."""
    if not hasattr(model, "predict"):
        last = model.steps[-1][1] if hasattr(model, "steps") else model
        raise ValueError(
            f"--model {path} cannot predict: its last step is {last!r:.200}. Fit a model with a learner as last step."
        )
    return model


def _require_probabilities(model: Any, path: str) -> Callable[[Any], NDArray[Any]]:
    if not hasattr(model, "predict_proba"):
        raise ValueError(
            f"the model {path} gives no probabilities: it predicts numbers, or was trained with a loss that has none. "
            "Leave --probabilities out, or train a classifier"
        )
    asked: Callable[[Any], NDArray[Any]] = model.predict_proba
    return asked


def _predict_in_batches(
    args: Namespace, asked: Sequence[Callable[[Any], NDArray[Any]]], sets: Any
) -> list[NDArray[Any]]:
    """What each of the functions says of all sets, some thousand of them at a time."""
    parts: list[list[NDArray[Any]]] = [[] for _ in asked]
    starts = range(0, len(sets), PREDICT_BATCH_SETS)
    progress = Progress(len(starts), "predict", show=is_progress_shown(args))
    with scheduler_session(args):
        for start in starts:
            some = sets[start : start + PREDICT_BATCH_SETS]
            for found, function in zip(parts, asked, strict=True):
                found.append(function(some))
            progress.advance(1)
    progress.close()
    return [np.concatenate(found) for found in parts]
