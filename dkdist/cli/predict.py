"""``dkdist predict`` and ``dkdist score``: a saved model on the sets of a store, some thousand at a time."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

import dkdist
from dkdist._runtime.progress import Progress
from dkdist.cli.console import answer, scheduler, stopwatch, wants_progress
from dkdist.cli.model import target_of
from dkdist.cli.prediction_table import STANDARD_OUTPUT, Predictions, require_output, write_predictions
from dkdist.cli.scores import line_of, score_document
from dkdist.cli.streams import require_encodable

SETS_AT_ONCE = 2**14


def predict(args: Namespace) -> None:
    """Write the predictions of every set."""
    if args.json and args.output == STANDARD_OUTPUT:
        raise ValueError("--json and --output - would both write to standard output: give --output a file")
    require_output(args.output, probabilities=args.probabilities, overwrite=args.overwrite)
    sets, watch = dkdist.open_sets(args.store), stopwatch()
    model = dkdist.load_model(args.model)
    asked = [require_learner(model, args.model).predict]
    if args.probabilities:
        asked.append(_probabilities_of(model, args.model))
    ids = np.arange(len(sets)) if sets.ids is None else sets.ids
    classes = model.classes_ if hasattr(model, "classes_") else None
    if args.output == STANDARD_OUTPUT:
        require_encodable("--output -", map(str, [*ids, *([] if classes is None else classes)]))
    predicted, *probabilities = _of_all(args, asked, sets)
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
    answer(
        args,
        document,
        f"wrote {len(predicted):,} predictions to {args.output} in {document['seconds']:.1f} s",
    )


def score(args: Namespace) -> None:
    """Print how well the predictions agree with a target."""
    sets = dkdist.open_sets(args.store)
    truth, model = target_of(sets, args.target), dkdist.load_model(args.model)
    (predicted,) = _of_all(args, [require_learner(model, args.model).predict], sets)
    found = score_document(model, truth, predicted)
    answer(args, found, line_of(found))


def require_learner(model: Any, path: str) -> Any:
    """Return the model; raise ValueError if its last step is no learner."""
    if not hasattr(model, "predict"):
        last = model.steps[-1][1] if hasattr(model, "steps") else model
        raise ValueError(
            f"--model {path} cannot predict: its last step is {last!r:.200}. Fit a model with a learner as last step."
        )
    return model


def _probabilities_of(model: Any, path: str) -> Callable[[Any], NDArray[Any]]:
    if not hasattr(model, "predict_proba"):
        raise ValueError(
            f"the model {path} gives no probabilities: it predicts numbers, or was trained with a loss that has none. "
            "Leave --probabilities out, or train a classifier"
        )
    asked: Callable[[Any], NDArray[Any]] = model.predict_proba
    return asked


def _of_all(args: Namespace, asked: Sequence[Callable[[Any], NDArray[Any]]], sets: Any) -> list[NDArray[Any]]:
    """What each of the functions says of all sets, some thousand of them at a time."""
    parts: list[list[NDArray[Any]]] = [[] for _ in asked]
    starts = range(0, len(sets), SETS_AT_ONCE)
    progress = Progress(len(starts), "predict", show=wants_progress(args))
    with scheduler(args):
        for start in starts:
            some = sets[start : start + SETS_AT_ONCE]
            for found, function in zip(parts, asked, strict=True):
                found.append(function(some))
            progress.advance(1)
    progress.close()
    return [np.concatenate(found) for found in parts]
