"""Many linear models learned from the same blocks: every one the model it would be if it were learned alone.

    a block's features, leaf by leaf ──> each leaf's own models: SGD states, or sums for ridge regression

A model sees the rows of its features in the order that all share; features are made once for all their models.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkdist._numba.arrays import F64, I64
from dkdist.linear.ridge_statistics import Statistics, add_rows, merge
from dkdist.linear.rows import RowBatch, checked, decision_values, without
from dkdist.linear.sgd_steps import Batch, Objective, State, learn

Leaves = Iterator[tuple[int, Any]]
Features = Callable[[Any, int, NDArray[np.bool_] | None], Leaves]
"""(block, index of its first row, mask of the rows to take or None) -> (leaf, features) one after another."""


@dataclass(frozen=True)
class ModelGroup:
    """Models that differ in step and penalty alone, (k,) each: they share rows, loss, weights and number of batches.

    ``weighting`` is the column of the rows' weights that counts for them.
    """

    leaf: int
    weighting: int
    objective: Objective
    eta0: F64
    alpha: F64
    n_batches: int


@dataclass(frozen=True)
class ModelBatchState:
    """How far all are: batches done, and for each `ModelGroup` their states side by side."""

    done: int
    states: tuple[State, ...]


def prepare_leaves(
    features: Features, dtype: np.dtype[Any], blocks: Iterator[Any], rows: RowBatch
) -> dict[int, Batch]:
    """The batch of every leaf, in one shuffled order; features are checked while they are in the cache."""
    made: dict[int, list[tuple[NDArray[Any], I64]]] = {}
    for block, (start, here) in zip(blocks, rows.parts(), strict=True):
        for leaf, X in features(block, start, None):
            X, bad = checked(X, dtype, start, (here.stop - here.start, X.shape[1]), skip=rows.skip)
            made.setdefault(leaf, []).append((X, here.start + bad))
        del block
    order, held = rows.order()
    batches = {}
    for leaf in list(made):
        parts, lost = zip(*made.pop(leaf), strict=True)
        bad = np.concatenate(lost)
        X = parts[0] if len(parts) == 1 else np.concatenate(parts)
        batches[leaf] = Batch(X, rows.known, without(order, bad), without(held, bad))
    return batches


def step_all(
    groups: Sequence[ModelGroup], reached: ModelBatchState, batches: dict[int, Batch]
) -> ModelBatchState:
    """All models that are not done yet learn from the batch of their own features."""
    states = tuple(
        learn(group.objective, state, batches[group.leaf].weighted(group.weighting), group.eta0, group.alpha)
        if reached.done < group.n_batches
        else state
        for group, state in zip(groups, reached.states, strict=True)
    )
    return ModelBatchState(reached.done + 1, states)


def one_of(state: State, i: int, n_outputs: int) -> State:
    """The i-th of the models side by side in a state."""
    own = slice(i * n_outputs, (i + 1) * n_outputs)
    return replace(
        state, coef=state.coef[own], intercept=state.intercept[own], mean_coef=state.mean_coef[own],
        mean_intercept=state.mean_intercept[own],
    )  # fmt: skip


GramKey = tuple[int, bool, int]
"""A leaf, whether sums are taken about the mean (of a model with an intercept), and the column of weights."""
Sums = dict[GramKey, Statistics]


def accumulate_leaves(
    features: Features,
    dtype: np.dtype[Any],
    wanted: Sequence[GramKey],
    blocks: Iterator[Any],
    rows: RowBatch,
) -> Sums:
    """Statistics of the training rows of several blocks, for every leaf; one set of features is alive at a time."""
    found: Sums = {}
    for block, (start, here) in zip(blocks, rows.parts(), strict=True):
        known = rows.known.part(here)
        train = known.present & ~known.held_out
        known = known.part(train)
        for leaf, X in features(block, start, train):
            size = len(known.targets), X.shape[1]
            X, bad = checked(X, dtype, start, size, skip=rows.skip)
            good = without(np.arange(len(X)), bad)
            X, of_good = X[good] if len(bad) else X, known.part(good)
            for key in wanted:
                if key[0] == leaf:
                    before = found.get(key) or Statistics.empty(X.shape[1], known.targets.shape[1])
                    weights = None if of_good.weights is None else of_good.weights[:, key[2]]
                    found[key] = add_rows(before, X, of_good.targets, weights, key[1])
        del block
    return found


def merge_leaves(a: Sums, b: Sums) -> Sums:
    """Each leaf's sums merged."""
    return {key: merge(a[key], b[key]) for key in a}


@dataclass(frozen=True)
class Linear:
    """A model on one leaf, with decision values X W' + b."""

    leaf: int
    W: NDArray[Any]
    b: NDArray[Any]


def held_out_values(
    features: Features, models: Sequence[Linear], block: Any, rows: tuple[int, NDArray[np.bool_]]
) -> list[F64]:
    """Decision values of every model on the held-out rows of a block: each (n_held, n_outputs); NaN where X is."""
    start, held = rows
    found: list[Any] = [np.empty((0, len(model.W))) for model in models]
    if not held.any():
        return found
    for leaf, X in features(block, start, held):
        of_leaf = [i for i, model in enumerate(models) if model.leaf == leaf]
        W = np.concatenate([models[i].W for i in of_leaf]).astype(X.dtype, copy=False)
        b = np.concatenate([models[i].b for i in of_leaf])
        with np.errstate(invalid="ignore", over="ignore"):
            values = decision_values(X, W, b).astype(np.float64)
        ends = np.cumsum([len(models[i].W) for i in of_leaf])
        for i, part in zip(of_leaf, np.split(values, ends[:-1], axis=1), strict=True):
            found[i] = part
    return found
