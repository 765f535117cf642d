"""``dkdist embed`` writes the features of every set; ``dkdist fit`` trains a model of one target and saves it.

``dkdist fit --automatic`` fits an automatic model and saves its best candidate.
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
    """Model to save; for an automatic model also the name of the saved candidate, the leaderboard and the summary."""

    model: Any
    candidate: str | None
    leaderboard: list[dict[str, Any]] | None
    summary: str | None


def check_automatic_options(args: Namespace) -> None:
    """Raise for manual options with ``--automatic``, and for a budget without it."""
    if not args.automatic:
        if args.budget is not None:
            raise ValueError("--budget requires --automatic. Pass both, or omit --budget")
        return
    options = ["--" + name.replace("_", "-") for name in MANUAL_OPTIONS if getattr(args, name) is not None]
    if options:
        raise ValueError(
            f"--automatic selects these values itself. Omit {', '.join(options)}, or --automatic"
        )
    if args.progress:
        raise ValueError("--automatic shows no progress. Omit --progress")


def fit_automatic(args: Namespace, task: str, sets: Any, targets: NDArray[Any]) -> TrainedModel:
    """Fit an automatic model: the leaderboard and summary are of the ensemble, the model is its best candidate."""
    kind = dkdist.SetClassifier if task == "classify" else dkdist.SetRegressor
    automatic = kind(budget=args.budget, random_state=args.seed).fit(sets, targets)
    try:
        best = automatic.best_estimator_
    except AttributeError as error:
        print(escape_controls(automatic.summary()))
        raise ValueError(
            f"--automatic found no model to save: {str(error).removesuffix('.')}. Omit --automatic to train a model of "
            "your choice"
        ) from error
    return TrainedModel(best, automatic.best_name_, automatic.leaderboard_, automatic.summary())


def embed(args: Namespace) -> None:
    """Fit the embedding on the store and write the features."""
    require_output_store("OUTPUT", args.output, staged=args.overwrite)
    _require_no_features(args.output, overwrite=args.overwrite)
    sets, watch = dkdist.as_sets(args.store), stopwatch()
    with scheduler_session(args):
        features = make_pipeline(*build_feature_steps(args)).fit(sets).transform(sets)
        verbose = is_progress_shown(args)
        stored = dkdist.write_features(args.output, features, overwrite=args.overwrite, verbose=verbose)
    n, m = stored.shape
    print(f"wrote {n:,} rows of {m:,} features to {args.output} in {watch():.1f} s")


def fit(args: Namespace) -> None:
    """Train a model, save it, and print the score on the held-out sets."""
    require_output_file("--model", args.model, overwrite=args.overwrite)
    if args.checkpoint is not None:
        require_output_folder("--checkpoint", args.checkpoint)
    check_automatic_options(args)
    sets = dkdist.as_sets(args.store)
    targets = read_target(sets, args.target)
    task = infer_task(args, targets)
    train, test = split_train_test(targets, task, args.train_fraction, args.seed)
    watch = stopwatch()
    with scheduler_session(args):
        trained = _train_model(args, task, sets[train], targets[train])
        seconds = watch()
        dkdist.save_model(trained.model, args.model, overwrite=args.overwrite)
        held_out = None
        if len(test):
            held_out = score_document(trained.model, targets[test], trained.model.predict(sets[test]))
    learner = "automatic" if args.automatic else args.learner or "ridge"
    document = {
        "task": task,
        "target": args.target,
        "learner": learner,
        "n_train": len(train),
        "seconds": seconds,
        "held_out": held_out,
        "model": args.model,
        "saved": trained.candidate,
        "leaderboard": trained.leaderboard,
    }
    if trained.summary is not None and not args.json:
        print(escape_controls(trained.summary), end="\n\n")
    pairs: list[tuple[str, object]] = [
        ("task", f"{task} {args.target!r} with {learner}"),
        ("trained on", f"{len(train):,} sets in {seconds:.1f} s"),
        *([] if trained.candidate is None else [("saved", f"the best candidate: {trained.candidate}")]),
        *([] if held_out is None else [("held out", format_score(held_out))]),
    ]
    print_result(args, document, [*pairs, ("model", args.model)])


def _require_no_features(output: str, *, overwrite: bool) -> None:
    """Raise for complete features or another store before any work; incomplete features are resumed."""
    existing = None if overwrite else find_features(output)
    if existing is not None and existing.complete:
        raise FileExistsError(f"OUTPUT {output} already holds features. Pass --overwrite or another path")


def _train_model(args: Namespace, task: str, sets: Any, targets: NDArray[Any]) -> TrainedModel:
    if args.automatic:
        return fit_automatic(args, task, sets, targets)
    require_fit_memory(args, sets, targets, task)
    model = build_pipeline(args, task, verbose=is_progress_shown(args)).fit(sets, targets)
    return TrainedModel(model, None, None, None)


def _require_both_parts(targets: NDArray[Any], task: str, fraction: float) -> None:
    """Require training and test sets, for a classification at least one of each per class."""
    n, n_classes = len(targets), 1
    if task == "classify":
        classes, counts = np.unique(targets, return_counts=True)
        if counts.min() < 2:
            rarest = classes[np.argmin(counts)]
            raise ValueError(
                f"--train-fraction {fraction:g} requires at least 2 sets of every class; class {str(rarest)!r} has 1. "
                "Omit it to train on all sets"
            )
        n_classes = len(classes)
    n_train = math.floor(fraction * n)
    if min(n_train, n - n_train) < n_classes:
        raise ValueError(
            f"--train-fraction {fraction:g} leaves {n_train} of {n} sets to train on and {n - n_train} to score: "
            f"each needs at least {n_classes}. Pass another fraction, or 1 to train on all sets"
        )


def split_train_test(
    targets: NDArray[Any], task: str, fraction: float, seed: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return sorted (train, test) indices, stratified by class."""
    indices = np.arange(len(targets))
    if fraction == 1:
        return indices, indices[:0]
    _require_both_parts(targets, task, fraction)
    train, test = train_test_split(
        indices, train_size=fraction, random_state=seed, stratify=targets if task == "classify" else None
    )
    return np.sort(train), np.sort(test)
