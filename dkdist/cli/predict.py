"""``dkdist predict`` and ``dkdist score``: a saved model on the sets of a store, some thousand at a time."""

from __future__ import annotations

import csv
import io
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

import dkdist
from dkdist.cli.console import scheduler, stopwatch, wants_progress
from dkdist.cli.fit import require_folder
from dkdist.cli.model import target_of
from dkdist.cli.scores import score_line
from dkdist.execution.progress import Progress
from dkdist.plain.files import replacing

SETS_AT_ONCE = 2**14


def predict(args: Namespace) -> None:
    """Write the predictions of every set."""
    suffix = Path(args.output).suffix
    if suffix not in _WRITERS:
        raise ValueError(f"{args.output} ends in {suffix!r}: expected one of {', '.join(_WRITERS)}")
    require_folder(args.output)
    sets, watch = dkdist.open_sets(args.store), stopwatch()
    predicted = _predictions(args, dkdist.load_model(args.model), sets)
    ids = np.arange(len(sets)) if sets.ids is None else sets.ids
    with replacing(args.output) as file:
        _WRITERS[suffix](file, ids, predicted)
    print(f"wrote {len(predicted):,} predictions to {args.output} in {watch():.1f} s")


def score(args: Namespace) -> None:
    """Print how well the predictions agree with a target."""
    sets = dkdist.open_sets(args.store)
    truth, model = target_of(sets, args.target), dkdist.load_model(args.model)
    print(score_line(model, truth, _predictions(args, model, sets)))


def _predictions(args: Namespace, model: Any, sets: Any) -> NDArray[Any]:
    parts, starts = [], range(0, len(sets), SETS_AT_ONCE)
    progress = Progress(len(starts), "predict", show=wants_progress(args))
    with scheduler(args):
        for start in starts:
            parts.append(model.predict(sets[start : start + SETS_AT_ONCE]))
            progress.advance(1)
    progress.close()
    return np.concatenate(parts)


def _write_csv(file: BinaryIO, ids: NDArray[Any], predicted: NDArray[Any]) -> None:
    columns = predicted[:, None] if predicted.ndim == 1 else predicted
    names = ["prediction"] if predicted.ndim == 1 else [f"prediction_{j}" for j in range(columns.shape[1])]
    with io.TextIOWrapper(file, encoding="utf-8", newline="") as text:
        writer = csv.writer(text)
        writer.writerow(["set", *names])
        writer.writerows([one, *row] for one, row in zip(ids.tolist(), columns.tolist(), strict=True))


_WRITERS: dict[str, Callable[[BinaryIO, NDArray[Any], NDArray[Any]], None]] = {
    ".csv": _write_csv,
    ".npz": lambda file, ids, found: np.savez(file, allow_pickle=False, ids=ids, prediction=found),
    ".npy": lambda file, ids, found: np.save(file, found, allow_pickle=False),
}
