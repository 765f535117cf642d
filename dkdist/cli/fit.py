"""``dkdist embed``, features of every set on disk; ``dkdist fit``, a model of one target that is saved as one file."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline

import dkdist
from dkdist.cli.console import escape_controls, scheduler, stopwatch, wants_progress
from dkdist.cli.machine.automatic import Chosen, automatic_model, require_no_choices
from dkdist.cli.model import feature_steps, pipeline, target_of, task_of
from dkdist.cli.output.answer import answer
from dkdist.cli.scores import line_of, score_document
from dkdist.store.features import find_features


def embed(args: Namespace) -> None:
    """Fit the embedding on the store and write the rows it makes."""
    _require_no_features(args.output, overwrite=args.overwrite)
    sets, watch = dkdist.open_sets(args.store), stopwatch()
    with scheduler(args):
        features = make_pipeline(*feature_steps(args)).fit(sets).transform(sets)
        verbose = wants_progress(args)
        stored = dkdist.write_features(args.output, features, overwrite=args.overwrite, verbose=verbose)
    n, m = stored.shape
    print(f"wrote {n:,} rows of {m:,} features to {args.output} in {watch():.1f} s")


def fit(args: Namespace) -> None:
    """Train, report, save."""
    require_new_file(args.model, overwrite=args.overwrite)
    require_no_choices(args)
    sets = dkdist.open_sets(args.store)
    targets = target_of(sets, args.target)
    task = task_of(args, targets)
    train, test = split(targets, task, args.train_fraction, args.seed)
    watch = stopwatch()
    with scheduler(args):
        chosen = _trained(args, task, sets[train], targets[train])
        seconds = watch()
        dkdist.save_model(chosen.model, args.model)
        held_out = None
        if len(test):
            held_out = score_document(chosen.model, targets[test], chosen.model.predict(sets[test]))
    name = "automatic" if args.automatic else args.learner or "ridge"
    document = {
        "task": task,
        "target": args.target,
        "learner": name,
        "n_train": len(train),
        "seconds": seconds,
        "held_out": held_out,
        "model": args.model,
        "saved": chosen.saved,
        "leaderboard": chosen.leaderboard,
    }
    if chosen.summary is not None and not args.json:
        print(escape_controls(chosen.summary), end="\n\n")
    pairs: list[tuple[str, object]] = [
        ("task", f"{task} {args.target!r} with {name}"),
        ("trained on", f"{len(train):,} sets in {seconds:.1f} s"),
        *([] if chosen.saved is None else [("saved", f"the best candidate alone: {chosen.saved}")]),
        *([] if held_out is None else [("held out", line_of(held_out))]),
    ]
    answer(args, document, [*pairs, ("model", args.model)])


def require_new_file(path: str, *, overwrite: bool) -> None:
    """Refuse, before any work starts, a file that could not be written or that is there and is to stay."""
    require_folder(path)
    if Path(path).exists() and not overwrite:
        raise FileExistsError(f"{path} is there already: give --overwrite, or another name")


def require_folder(path: str) -> None:
    """Refuse a file that could not be written, before any work starts."""
    if Path(path).is_dir() or not Path(path).parent.is_dir():
        raise ValueError(f"{path} cannot be written: expected a file in a directory that is there")


def _require_no_features(output: str, *, overwrite: bool) -> None:
    """Refuse finished features, or another store, before any work starts; unfinished ones are gone on with."""
    found = None if overwrite else find_features(output)
    if found is not None and found.complete:
        raise FileExistsError(f"{output} already holds features: give --overwrite, or another place")


def _trained(args: Namespace, task: str, sets: Any, targets: NDArray[Any]) -> Chosen:
    if args.automatic:
        return automatic_model(args, task, sets, targets)
    model = pipeline(args, task, verbose=wants_progress(args)).fit(sets, targets)
    return Chosen(model, None, None, None)


def split(
    targets: NDArray[Any], task: str, fraction: float, seed: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(train, test) positions in the order of the store; of every class the same share."""
    everything = np.arange(len(targets))
    if fraction == 1:
        return everything, everything[:0]
    if not 0 < fraction < 1:
        raise ValueError(f"--train-fraction must be above 0 and at most 1, found {fraction}")
    train, test = train_test_split(
        everything, train_size=fraction, random_state=seed, stratify=targets if task == "classify" else None
    )
    return np.sort(train), np.sort(test)
