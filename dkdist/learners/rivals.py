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

from dkdist.learners.ridge import Statistics, add_rows, merge
from dkdist.learners.rows import Rows, checked, without
from dkdist.learners.sgd import Batch, Objective, State, learn, prepare

Leaves = Iterator[tuple[int, Any]]
Features = Callable[[Any, int, NDArray[np.bool_] | None], Leaves]
"""(block, index of its first row, mask of the rows to take or None) -> (leaf, features) one after another."""


@dataclass(frozen=True)
class Rival:
    """A model in the making: on which features, to what end, and for how many batches."""

    leaf: int
    objective: Objective
    n_batches: int


@dataclass(frozen=True)
class Race:
    """How far all are: batches done, and the state of every rival."""

    done: int
    states: tuple[State, ...]


def prepare_leaves(
    features: Features, dtype: np.dtype[Any], blocks: Iterator[Any], rows: Rows
) -> dict[int, Batch]:
    """The batch of every leaf, in one shuffled order; blocks that are mixed are made one at a time."""
    made: dict[int, list[Any]] = {}
    for block, start in zip(blocks, rows.starts, strict=True):
        for leaf, X in features(block, start, None):
            made.setdefault(leaf, []).append(X)
        del block
    batches = {}
    for leaf in list(made):
        parts = made.pop(leaf)
        own = replace(rows, n_features=parts[0].shape[1])
        batches[leaf] = prepare(dtype, iter(parts), own)
    return batches


def step_all(rivals: Sequence[Rival], race: Race, batches: dict[int, Batch]) -> Race:
    """Every rival that is not done yet learns from the batch of its own features."""
    states = tuple(
        learn(rival.objective, state, batches[rival.leaf]) if race.done < rival.n_batches else state
        for rival, state in zip(rivals, race.states, strict=True)
    )
    return Race(race.done + 1, states)


Sums = dict[tuple[int, bool], Statistics]
"""Statistics by leaf, and by whether they are taken about the mean (of a model with an intercept)."""


def accumulate_leaves(
    features: Features,
    dtype: np.dtype[Any],
    wanted: Sequence[tuple[int, bool]],
    blocks: Iterator[Any],
    rows: Rows,
) -> Sums:
    """Statistics of the training rows of several blocks, for every leaf; one set of features is alive at a time."""
    found: Sums = {}
    for block, (start, here) in zip(blocks, rows.parts(), strict=True):
        train = ~rows.held_out[here]
        targets = rows.targets[here][train]
        for leaf, X in features(block, start, train):
            size = len(targets), X.shape[1]
            X, bad = checked(X, dtype, start, size, skip=rows.skip)
            good = without(np.arange(len(X)), bad)
            for key in wanted:
                if key[0] == leaf:
                    before = found.get(key) or Statistics.empty(X.shape[1], targets.shape[1])
                    found[key] = add_rows(before, X[good] if len(bad) else X, targets[good], key[1])
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
) -> list[NDArray[np.float64]]:
    """Decision values of every model on the held-out rows of a block: each (n_held, n_outputs); NaN where X is."""
    start, held = rows
    found: list[Any] = [np.empty((0, len(model.W))) for model in models]
    if not held.any():
        return found
    for leaf, X in features(block, start, held):
        for i, model in enumerate(models):
            if model.leaf == leaf:
                with np.errstate(invalid="ignore", over="ignore"):
                    found[i] = np.asarray(X @ model.W.T + model.b, np.float64)
    return found
