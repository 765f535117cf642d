"""``dkdist predict`` and ``dkdist score``: a saved model on the sets of a store, some thousand at a time."""

from __future__ import annotations

import csv
import os
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import dkdist
from dkdist.cli.console import Stopwatch, scheduler, wants_progress
from dkdist.cli.fit import require_folder
from dkdist.cli.model import target_of
from dkdist.cli.scores import score_line
from dkdist.execution.progress import Progress

SETS_AT_ONCE = 2**14


def predict(args: Namespace) -> None:
    """Write the predictions of every set."""
    suffix = Path(args.output).suffix
    if suffix not in _WRITERS:
        raise ValueError(f"{args.output} ends in {suffix!r}: expected one of {', '.join(_WRITERS)}")
    require_folder(args.output)
    sets, watch = dkdist.open_sets(args.store), Stopwatch()
    predicted = _predictions(args, dkdist.load_model(args.model), sets)
    ids = np.arange(len(sets)) if sets.ids is None else sets.ids
    beside = Path(f"{args.output}.{os.getpid()}.tmp")
    try:
        _WRITERS[suffix](beside, ids, predicted)
        os.replace(beside, args.output)
    finally:
        beside.unlink(missing_ok=True)
    print(f"wrote {len(predicted):,} predictions to {args.output} in {watch.lap():.1f} s")


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


def _write_csv(path: Path, ids: NDArray[Any], predicted: NDArray[Any]) -> None:
    columns = predicted[:, None] if predicted.ndim == 1 else predicted
    names = ["prediction"] if predicted.ndim == 1 else [f"prediction_{j}" for j in range(columns.shape[1])]
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["set", *names])
        writer.writerows([one, *row] for one, row in zip(ids.tolist(), columns.tolist(), strict=True))


def _write_npz(path: Path, ids: NDArray[Any], predicted: NDArray[Any]) -> None:
    with open(path, "wb") as file:
        np.savez(file, allow_pickle=False, ids=ids, prediction=predicted)


def _write_npy(path: Path, ids: NDArray[Any], predicted: NDArray[Any]) -> None:
    with open(path, "wb") as file:
        np.save(file, predicted, allow_pickle=False)


_WRITERS: dict[str, Callable[[Path, NDArray[Any], NDArray[Any]], None]] = {
    ".csv": _write_csv,
    ".npz": _write_npz,
    ".npy": _write_npy,
}
