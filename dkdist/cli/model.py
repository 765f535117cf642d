"""Estimators and targets of the options of a command."""

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
    """Return the divergence embedding and, unless ``--features 0``, random features of it."""
    options = resolve_feature_options(args)
    n_features, sigma = options.pop("features"), options.pop("sigma")
    embedding = dkdist.DivergenceEmbedding(**options, random_state=args.seed)
    if n_features == 0:
        if args.sigma is not None:
            raise ValueError("--sigma requires random features; got --features 0. Omit one of them")
        return [embedding]
    return [embedding, dkdist.RandomFourierFeatures(n_features, sigma=sigma, random_state=args.seed)]


def resolve_feature_options(args: Namespace) -> dict[str, Any]:
    """Return the values of the feature options by name, defaults included."""
    values = {name: getattr(args, name) for name in DEFAULT_FEATURE_OPTIONS}
    return DEFAULT_FEATURE_OPTIONS | {name: value for name, value in values.items() if value is not None}


def build_pipeline(args: Namespace, task: str, *, verbose: bool) -> Pipeline:
    """Return the pipeline of features and learner."""
    return make_pipeline(*build_feature_steps(args), build_learner(args, task, verbose=verbose))


def build_learner(args: Namespace, task: str, *, verbose: bool) -> Any:
    """Return the learner."""
    if args.seed > MAX_SEED:
        raise ValueError(f"--seed must be at most {MAX_SEED} for a learner; got {args.seed}")
    return _LEARNERS[args.learner or "ridge"](args, task, verbose)


def infer_task(args: Namespace, targets: NDArray[Any]) -> str:
    """Return "classify" or "regress"; ValueError if ``--task`` does not suit the target."""
    if args.task == "regress" and targets.dtype.kind not in "biuf":
        raise ValueError(
            f"--task regress needs numbers, but target {args.target!r} contains text. Use --task classify, or omit it"
        )
    if args.task == "classify" and targets.dtype.kind == "f" and np.any(targets != np.floor(targets)):
        value = targets[targets != np.floor(targets)][0]
        raise ValueError(
            f"--task classify needs classes, but target {args.target!r} contains fractions such as {value:.6g}. Use "
            "--task regress, or omit it"
        )
    if args.task is not None:
        return str(args.task)
    if targets.dtype.kind not in CLASS_KINDS + FLOAT_KINDS:
        raise ValueError(
            f"--target must be a target of numbers, booleans or text; got {args.target!r} with dtype {targets.dtype}"
        )
    return "classify" if targets.dtype.kind in CLASS_KINDS else "regress"


def read_target(sets: Any, name: str) -> NDArray[Any]:
    """Return a target of a store; ValueError if it is missing, as a whole or for some sets."""
    if name not in sets.targets:
        names = ", ".join(sets.targets) or "no targets"
        raise ValueError(f"--target {name}: the store has no target {name!r}; it has {names}")
    values: NDArray[Any] = sets.targets[name]
    if values.dtype.kind == "f":
        missing = np.flatnonzero(np.isnan(values.reshape(len(values), -1)).any(axis=1))
        if len(missing):
            first = int(missing[0]) if sets.ids is None else sets.ids[missing[:1]].tolist()[0]
            raise ValueError(
                f"target {name!r} is missing for {len(missing)} of {len(sets)} sets (first: {first!r})."
                " Import the sets with --missing-targets drop, or write the others with "
                "dkdist.compact(sets[known], to=PATH)"
            )
    return values


def _build_ridge(args: Namespace, task: str, verbose: bool) -> Any:
    sgd_values = {"--epochs": args.epochs, "--checkpoint": args.checkpoint}
    sgd_options = [option for option, value in sgd_values.items() if value is not None]
    if sgd_options:
        raise ValueError(f"{' and '.join(sgd_options)} is for --learner sgd; ridge makes one pass. Omit it")
    if args.alphas is not None and np.min(args.alphas) == 0:
        raise ValueError(
            "--alpha must be above 0 for --learner ridge; got 0. Pass a small number such as 1e-6"
        )
    kind = dkdist.IncrementalRidgeClassifier if task == "classify" else dkdist.IncrementalRidge
    alphas = {} if args.alphas is None else {"alphas": args.alphas}
    return kind(**alphas, random_state=args.seed, verbose=verbose)


def _build_sgd(args: Namespace, task: str, verbose: bool) -> Any:
    if isinstance(args.alphas, tuple):
        raise ValueError(
            f"--learner sgd takes one --alpha; got {len(args.alphas)}. Pass one, or use --learner ridge"
        )
    kind = dkdist.IncrementalSGDClassifier if task == "classify" else dkdist.IncrementalSGDRegressor
    values = {"alpha": args.alphas, "n_epochs": args.epochs, "checkpoint": args.checkpoint}
    params = {name: value for name, value in values.items() if value is not None}
    return kind(**params, random_state=args.seed, verbose=verbose)


_LEARNERS = {"ridge": _build_ridge, "sgd": _build_sgd}
