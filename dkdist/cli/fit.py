"""``dkdist embed``, features of every set on disk; ``dkdist fit``, a model of one target that is saved as one file.

``dkdist fit --automatic``: a model without choices, of which the best candidate alone goes into a model file.
"""

from __future__ import annotations

import math
from argparse import Namespace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline

import dkdist
from dkdist.cli.console import is_progress_shown, print_result, scheduler_session, stopwatch
from dkdist.cli.fit_plan import require_fit_memory
from dkdist.cli.model import build_feature_steps, build_pipeline, infer_task, read_target
from dkdist.cli.options import DEFAULT_FEATURE_OPTIONS
from dkdist.cli.output import require_output_file, require_output_folder, require_output_store
from dkdist.cli.scores import format_score, score_document
from dkdist.cli.text import escape_controls
from dkdist.io.feature_writer import find_features

MANUAL_OPTIONS = (*DEFAULT_FEATURE_OPTIONS, "learner", "alphas", "epochs", "checkpoint")


class TrainedModel(NamedTuple):
    """What is saved; of an automatic model its name among the candidates, what was tried, and that in words."""

    model: Any
    saved: str | None
    leaderboard: list[dict[str, Any]] | None
    summary: str | None


def check_automatic_options(args: Namespace) -> None:
    """Refuse choices beside ``--automatic``, which makes them, and a budget without it."""
    if not args.automatic:
        if args.budget is not None:
            raise ValueError("--budget is for --automatic: give both, or leave it out")
        return
    given = [name for name in MANUAL_OPTIONS if getattr(args, name) is not None]
    if given:
        named = ", ".join("--" + name.replace("_", "-") for name in given)
        raise ValueError(f"--automatic chooses by itself: leave out {named}, or --automatic")
    if args.progress:
        raise ValueError("--automatic shows no progress: leave out --progress")


def fit_automatic(args: Namespace, task: str, sets: Any, targets: NDArray[Any]) -> TrainedModel:
    """Try what the sets allow; what is told is of the average of the best, what a file can hold the best one alone."""
    kind = dkdist.SetClassifier if task == "classify" else dkdist.SetRegressor
    tried = kind(budget=args.budget, random_state=args.seed).fit(sets, targets)
    try:
        best = tried.best_estimator_
    except AttributeError as error:
        print(escape_controls(tried.summary()))
        raise ValueError(
            f"there is no model to save: {error}. Nothing else predicts as well; leave out --automatic to train a "
            "model of your choice"
        ) from error
    return TrainedModel(best, tried.best_name_, tried.leaderboard_, tried.summary())


def embed(args: Namespace) -> None:
    """Fit the embedding on the store and write the rows it makes."""
    require_output_store("OUTPUT", args.output, staged=args.overwrite)
    _require_no_features(args.output, overwrite=args.overwrite)
    sets, watch = dkdist.open_sets(args.store), stopwatch()
    with scheduler_session(args):
        features = make_pipeline(*build_feature_steps(args)).fit(sets).transform(sets)
        verbose = is_progress_shown(args)
        stored = dkdist.write_features(args.output, features, overwrite=args.overwrite, verbose=verbose)
    n, m = stored.shape
    print(f"wrote {n:,} rows of {m:,} features to {args.output} in {watch():.1f} s")


def fit(args: Namespace) -> None:
    """Train, report, save."""
    require_output_file("--model", args.model, overwrite=args.overwrite)
    if args.checkpoint is not None:
        require_output_folder("--checkpoint", args.checkpoint)
    check_automatic_options(args)
    sets = dkdist.open_sets(args.store)
    targets = read_target(sets, args.target)
    task = infer_task(args, targets)
    train, test = split_train_test(targets, task, args.train_fraction, args.seed)
    watch = stopwatch()
    with scheduler_session(args):
        chosen = _train_model(args, task, sets[train], targets[train])
        seconds = watch()
        dkdist.save_model(chosen.model, args.model, overwrite=args.overwrite)
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
        *([] if held_out is None else [("held out", format_score(held_out))]),
    ]
    print_result(args, document, [*pairs, ("model", args.model)])


def _require_no_features(output: str, *, overwrite: bool) -> None:
    """Refuse finished features, or another store, before any work starts; unfinished ones are gone on with."""
    found = None if overwrite else find_features(output)
    if found is not None and found.complete:
        raise FileExistsError(f"{output} already holds features: give --overwrite, or another place")


def _train_model(args: Namespace, task: str, sets: Any, targets: NDArray[Any]) -> TrainedModel:
    if args.automatic:
        return fit_automatic(args, task, sets, targets)
    require_fit_memory(args, sets, targets, task)
    model = build_pipeline(args, task, verbose=is_progress_shown(args)).fit(sets, targets)
    return TrainedModel(model, None, None, None)


def _require_both_parts(targets: NDArray[Any], task: str, fraction: float) -> None:
    """Refuse a fraction that leaves nothing to train on or to score, or not one set of every class."""
    n, n_classes = len(targets), 1
    if task == "classify":
        classes, counts = np.unique(targets, return_counts=True)
        if counts.min() < 2:
            only = classes[np.argmin(counts)]
            raise ValueError(
                f"--train-fraction {fraction:g} needs 2 sets of every class; class {str(only)!r} has one. Leave it out "
                "to train on all sets"
            )
        n_classes = len(classes)
    n_train = math.floor(fraction * n)
    if min(n_train, n - n_train) < n_classes:
        raise ValueError(
            f"--train-fraction {fraction:g} leaves {n_train} of {n} sets to train on and {n - n_train} to score: "
            f"each needs at least {n_classes}. Give another fraction, or 1 to train on all sets"
        )


def split_train_test(
    targets: NDArray[Any], task: str, fraction: float, seed: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(train, test) positions in the order of the store; of every class the same share."""
    everything = np.arange(len(targets))
    if fraction == 1:
        return everything, everything[:0]
    _require_both_parts(targets, task, fraction)
    train, test = train_test_split(
        everything, train_size=fraction, random_state=seed, stratify=targets if task == "classify" else None
    )
    return np.sort(train), np.sort(test)
