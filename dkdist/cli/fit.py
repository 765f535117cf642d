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
from dkdist.cli.console import print_pairs, scheduler, stopwatch, wants_progress
from dkdist.cli.model import feature_steps, pipeline, target_of, task_of
from dkdist.cli.scores import score_line


def embed(args: Namespace) -> None:
    """Fit the embedding on the store and write the rows it makes."""
    sets, watch = dkdist.open_sets(args.store), stopwatch()
    with scheduler(args):
        features = make_pipeline(*feature_steps(args)).fit(sets).transform(sets)
        verbose = wants_progress(args)
        stored = dkdist.write_features(args.output, features, overwrite=args.overwrite, verbose=verbose)
    n, m = stored.shape
    print(f"wrote {n:,} rows of {m:,} features to {args.output} in {watch():.1f} s")


def fit(args: Namespace) -> None:
    """Train, report, save."""
    require_folder(args.model)
    sets = dkdist.open_sets(args.store)
    targets = target_of(sets, args.target)
    task = task_of(args, targets)
    train, test = _split(targets, task, args.train_fraction, args.seed)
    model, watch = pipeline(args, task, verbose=wants_progress(args)), stopwatch()
    with scheduler(args):
        model.fit(sets[train], targets[train])
        pairs: list[tuple[str, object]] = [
            ("task", f"{task} {args.target!r} with {args.learner}"),
            ("trained on", f"{len(train):,} sets in {watch():.1f} s"),
        ]
        dkdist.save_model(model, args.model)
        if len(test):
            pairs += [("held out", score_line(model, targets[test], model.predict(sets[test])))]
    print_pairs([*pairs, ("model", args.model)])


def require_folder(path: str) -> None:
    """Refuse a file that could not be written, before any work starts."""
    if Path(path).is_dir() or not Path(path).parent.is_dir():
        raise ValueError(f"{path} cannot be written: expected a file in a directory that is there")


def _split(
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
