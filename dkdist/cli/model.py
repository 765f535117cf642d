"""From options to estimators."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline, make_pipeline

import dkdist
from dkdist.cli.options import DEFAULT_FEATURE_OPTIONS, MAX_SEED

CLASS_KINDS, FLOAT_KINDS = "biuU", "f"


def build_feature_steps(args: Namespace) -> list[Any]:
    """The divergence embedding and, unless ``--features 0``, random features of it."""
    asked = resolve_feature_options(args)
    D, sigma = asked.pop("features"), asked.pop("sigma")
    embedding = dkdist.DivergenceEmbedding(**asked, random_state=args.seed)
    if D == 0:
        if args.sigma is not None:
            raise ValueError(
                "--sigma is for random features, and --features 0 makes none: leave one of them out"
            )
        return [embedding]
    return [embedding, dkdist.RandomFourierFeatures(D, sigma=sigma, random_state=args.seed)]


def resolve_feature_options(args: Namespace) -> dict[str, Any]:
    """What is asked of features, by name: as the user said, else the usual."""
    given = {name: getattr(args, name) for name in DEFAULT_FEATURE_OPTIONS}
    return DEFAULT_FEATURE_OPTIONS | {name: value for name, value in given.items() if value is not None}


def build_pipeline(args: Namespace, task: str, *, verbose: bool) -> Pipeline:
    """The features and the learner that the options ask for."""
    return make_pipeline(*build_feature_steps(args), build_learner(args, task, verbose=verbose))


def build_learner(args: Namespace, task: str, *, verbose: bool) -> Any:
    """The learner alone."""
    if args.seed > MAX_SEED:
        raise ValueError(f"--seed must be at most {MAX_SEED} for a learner; got {args.seed}")
    return _LEARNERS[args.learner or "ridge"](args, task, verbose)


def infer_task(args: Namespace, targets: NDArray[Any]) -> str:
    """Whether to classify or regress; ValueError where the target does not suit ``--task``."""
    if args.task == "regress" and targets.dtype.kind not in "biuf":
        raise ValueError(
            f"--task regress needs numbers, but target {args.target!r} holds text. Use --task classify, or leave it out"
        )
    if args.task == "classify" and targets.dtype.kind == "f" and np.any(targets != np.floor(targets)):
        value = targets[targets != np.floor(targets)][0]
        raise ValueError(
            f"--task classify needs classes, but target {args.target!r} holds fractions such as {value:.6g}. Use "
            "--task regress, or leave it out"
        )
    if args.task is not None:
        return str(args.task)
    if targets.dtype.kind not in CLASS_KINDS + FLOAT_KINDS:
        raise ValueError(
            f"--target {args.target} has dtype {targets.dtype}: expected numbers, booleans or text"
        )
    return "classify" if targets.dtype.kind in CLASS_KINDS else "regress"


def read_target(sets: Any, name: str) -> NDArray[Any]:
    """A target of a store by name; ValueError if sets lack it."""
    if name not in sets.targets:
        known = ", ".join(sets.targets) or "none at all"
        raise ValueError(f"--target {name}: the store has no target {name!r}; it has {known}")
    values: NDArray[Any] = sets.targets[name]
    if values.dtype.kind == "f":
        lost = np.flatnonzero(np.isnan(values.reshape(len(values), -1)).any(axis=1))
        if len(lost):
            first = int(lost[0]) if sets.ids is None else sets.ids[lost[:1]].tolist()[0]
            raise ValueError(
                f"target {name!r} is missing for {len(lost)} of the {len(sets)} sets of the store: {first!r}"
                f"{'' if len(lost) == 1 else ' first'}. Leave these sets out: import them with --missing-targets drop, "
                "or write those that have it by dkdist.compact(sets[known], to=PLACE)"
            )
    return values


def _build_ridge(args: Namespace, task: str, verbose: bool) -> Any:
    given = [o for o, v in (("--epochs", args.epochs), ("--checkpoint", args.checkpoint)) if v is not None]
    if given:
        raise ValueError(f"{' and '.join(given)} is for --learner sgd; ridge makes one pass. Leave it out")
    if args.alphas is not None and np.min(args.alphas) == 0:
        raise ValueError(
            "--alpha must be above 0 for --learner ridge; got 0. Give a small number such as 1e-6"
        )
    kind = dkdist.IncrementalRidgeClassifier if task == "classify" else dkdist.IncrementalRidge
    alphas = {} if args.alphas is None else {"alphas": args.alphas}
    return kind(**alphas, random_state=args.seed, verbose=verbose)


def _build_sgd(args: Namespace, task: str, verbose: bool) -> Any:
    if isinstance(args.alphas, tuple):
        raise ValueError(
            f"--learner sgd takes one --alpha, found {len(args.alphas)}: choose one, or use ridge"
        )
    kind = dkdist.IncrementalSGDClassifier if task == "classify" else dkdist.IncrementalSGDRegressor
    given = {"alpha": args.alphas, "n_epochs": args.epochs, "checkpoint": args.checkpoint}
    chosen = {name: value for name, value in given.items() if value is not None}
    return kind(**chosen, random_state=args.seed, verbose=verbose)


_LEARNERS = {"ridge": _build_ridge, "sgd": _build_sgd}
