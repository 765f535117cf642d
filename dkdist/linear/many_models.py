"""Simultaneous fits of many linear models on the same blocks, with the results of separate fits.

    features of a block, leaf by leaf ──> models of each leaf: SGD states, or sums for ridge regression

A leaf is one feature map of the data. Its features are computed once for all its models; all models see the rows in the
same order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkdist._numba.arrays import F64, I64
from dkdist.linear.ridge_statistics import Statistics, add_rows, merge
from dkdist.linear.rows import RowBatch, check_block, decision_values, exclude
from dkdist.linear.sgd_steps import Batch, Objective, State, learn

OutputIterator = Iterator[tuple[int, Any]]
FeatureFunction = Callable[[Any, int, NDArray[np.bool_] | None], OutputIterator]
"""(block, position of its first row, mask of the rows or None) -> iterator of (leaf, features)."""


@dataclass(frozen=True)
class ModelGroup:
    """k models that differ only in step (k,) and penalty (k,); ``weighting`` is their column of the row weights."""

    leaf: int
    weighting: int
    objective: Objective
    eta0: F64
    alpha: F64
    n_batches: int


@dataclass(frozen=True)
class ModelBatchState:
    """Number of finished batches, and the stacked states of each `ModelGroup`."""

    n_batches_done: int
    states: tuple[State, ...]


def prepare_outputs(
    features: FeatureFunction, dtype: np.dtype[Any], blocks: Iterator[Any], rows: RowBatch
) -> dict[int, Batch]:
    """Return the batch of every leaf, in the same shuffled order; validate features while they are in the CPU cache."""
    parts_by_leaf: dict[int, list[tuple[NDArray[Any], I64]]] = {}
    for block, (start, span) in zip(blocks, rows.parts(), strict=True):
        for leaf, X in features(block, start, None):
            X, invalid = check_block(X, dtype, start, (span.stop - span.start, X.shape[1]), skip=rows.skip)
            parts_by_leaf.setdefault(leaf, []).append((X, span.start + invalid))
        del block
    train_rows, held_out_rows = rows.split()
    batches = {}
    for leaf in list(parts_by_leaf):
        parts, invalid_parts = zip(*parts_by_leaf.pop(leaf), strict=True)
        invalid = np.concatenate(invalid_parts)
        X = parts[0] if len(parts) == 1 else np.concatenate(parts)
        batches[leaf] = Batch(X, rows.labels, exclude(train_rows, invalid), exclude(held_out_rows, invalid))
    return batches


def step_all(
    groups: Sequence[ModelGroup], progress: ModelBatchState, batches: dict[int, Batch]
) -> ModelBatchState:
    """Fit every unfinished model to the batch of its leaf."""
    states = tuple(
        learn(group.objective, state, batches[group.leaf].weighted(group.weighting), group.eta0, group.alpha)
        if progress.n_batches_done < group.n_batches
        else state
        for group, state in zip(groups, progress.states, strict=True)
    )
    return ModelBatchState(progress.n_batches_done + 1, states)


def select_model(state: State, i: int, n_outputs: int) -> State:
    """Return model i of the models stacked in a state."""
    rows = slice(i * n_outputs, (i + 1) * n_outputs)
    return replace(
        state, coef=state.coef[rows], intercept=state.intercept[rows], mean_coef=state.mean_coef[rows],
        mean_intercept=state.mean_intercept[rows],
    )  # fmt: skip


GramKey = tuple[int, bool, int]
"""(leaf, whether the models have an intercept, column of weights)."""
StatisticsByKey = dict[GramKey, Statistics]


def accumulate_outputs(
    features: FeatureFunction,
    dtype: np.dtype[Any],
    keys: Sequence[GramKey],
    blocks: Iterator[Any],
    rows: RowBatch,
) -> StatisticsByKey:
    """Return the statistics of the training rows of several blocks, with one leaf in memory at a time."""
    statistics: StatisticsByKey = {}
    for block, (start, span) in zip(blocks, rows.parts(), strict=True):
        batch_labels = rows.labels.part(span)
        train = batch_labels.present & ~batch_labels.held_out
        batch_labels = batch_labels.part(train)
        for leaf, X in features(block, start, train):
            size = len(batch_labels.targets), X.shape[1]
            X, bad = check_block(X, dtype, start, size, skip=rows.skip)
            good = exclude(np.arange(len(X)), bad)
            X, valid_labels = X[good] if len(bad) else X, batch_labels.part(good)
            for key in keys:
                if key[0] == leaf:
                    before = statistics.get(key) or Statistics.empty(
                        X.shape[1], batch_labels.targets.shape[1]
                    )
                    weights = None if valid_labels.weights is None else valid_labels.weights[:, key[2]]
                    statistics[key] = add_rows(before, X, valid_labels.targets, weights, key[1])
        del block
    return statistics


def merge_outputs(a: StatisticsByKey, b: StatisticsByKey) -> StatisticsByKey:
    """Merge the statistics of every key."""
    return {key: merge(a[key], b[key]) for key in a}


@dataclass(frozen=True)
class LinearModel:
    """Linear model of one leaf, with decision values X W' + b."""

    leaf: int
    W: NDArray[Any]
    b: NDArray[Any]


def held_out_values(
    features: FeatureFunction, models: Sequence[LinearModel], block: Any, rows: tuple[int, NDArray[np.bool_]]
) -> list[F64]:
    """Return decision values (n_held_out, n_outputs) of every model on held-out rows; NaN for rows with NaN."""
    start, held = rows
    values_by_model: list[Any] = [np.empty((0, len(model.W))) for model in models]
    if not held.any():
        return values_by_model
    for leaf, X in features(block, start, held):
        model_indices = [i for i, model in enumerate(models) if model.leaf == leaf]
        W = np.concatenate([models[i].W for i in model_indices]).astype(X.dtype, copy=False)
        b = np.concatenate([models[i].b for i in model_indices])
        with np.errstate(invalid="ignore", over="ignore"):
            values = decision_values(X, W, b).astype(np.float64)
        ends = np.cumsum([len(models[i].W) for i in model_indices])
        for i, part in zip(model_indices, np.split(values, ends[:-1], axis=1), strict=True):
            values_by_model[i] = part
    return values_by_model
