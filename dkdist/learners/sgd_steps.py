"""Stochastic gradient descent on blocks of features: constant step, averaged weights, pass after pass.

    w <- (1 - eta alpha) w - eta c l'(w.x + b, y) x,   b <- b - eta c l'(w.x + b, y)     c: the row's weight
    W_n = W_{n-1} + 2/(n+1) (w_n - W_{n-1}),   n = 1, 2, ...                         every 256 rows

W weighs the n-th iterate by n, which forgets the start without being told when to. An average every 256
rows is as accurate as one every row and costs nothing. The state is small and travels; rows stay where they
are made.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkdist.learners.descent import LOSSES, descend
from dkdist.learners.rows import F, Known, Rows, checked, no_rows, without
from dkdist.loops.array_types import F64, I64
from dkdist.loops.points import read_only
from dkdist.plain.kept import kept

AVERAGE_ROWS = 256  # rows between two terms of the averaged weights
PROBE_ROWS = (
    128  # training rows of a batch whose loss is measured before they are used: evenly spaced as stored
)
LARGEST_SCORE = 1e8


@kept
@dataclass(frozen=True)
class Objective:
    """What is minimised, mean of l(w.x + b, y) + alpha/2 |w|^2, and the step eta it is minimised with.

    ``n_classes`` 0 means regression, 2 one decision function, K > 2 one against the rest for each class.
    ``epsilon`` is where the Huber loss turns from a square to a line.
    """

    loss: str
    alpha: float
    eta0: float
    n_classes: int = 0
    average: bool = True
    epsilon: float = 1.0

    @property
    def n_outputs(self) -> int:
        """Decision functions that are fitted."""
        return self.n_classes if self.n_classes > 2 else 1


@kept
@dataclass(frozen=True)
class State:
    """A model on its way: last iterate, averaged iterate, and the losses measured in this epoch.

    ``coef`` and ``mean_coef`` have shape (n_outputs, n_features) and the dtype of the features, the
    intercepts (n_outputs,) are float64. ``n_averaged`` counts the terms of the average, ``sums`` are training
    loss, the weight of its rows, held-out loss, the weight of its rows.
    """

    coef: F
    intercept: F64
    mean_coef: F
    mean_intercept: F64
    n_averaged: I64
    sums: F64

    @classmethod
    def start(cls, n_outputs: int, n_features: int, dtype: np.dtype[Any]) -> State:
        """The model before it has seen a row: all zero."""
        W, b = np.zeros((n_outputs, n_features), dtype), np.zeros(n_outputs)
        return cls(W, b, W, b, np.zeros((), np.int64), np.zeros(4))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The state as named arrays; ``State(**arrays)`` is it again."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def losses(self) -> tuple[float, float]:
        """Mean training and held-out loss of the epoch so far, NaN where nothing was measured."""
        total, rows, held_total, held_rows = (float(v) for v in self.sums)
        return total / rows if rows else np.nan, held_total / held_rows if held_rows else np.nan

    def next_epoch(self) -> State:
        """The same model with nothing measured yet."""
        return replace(self, sums=np.zeros(4))


@dataclass(frozen=True)
class Batch:
    """Rows as they are stored, (n, D), and what is known of them; which to train on, in their order; and the held-out.

    ``skipped`` are rows that are used for neither, counted in the whole collection.
    """

    X: F
    known: Known
    order: I64
    held: I64
    skipped: I64 = field(default_factory=no_rows)

    @property
    def weights(self) -> F64:
        """(n,): by how much a row's step is longer than others."""
        weights = self.known.weights
        return np.ones(len(self.X)) if weights is None else weights

    @property
    def probe(self) -> I64:
        """Training rows that are measured before they are used: the same ones whatever the order of training."""
        there = np.sort(self.order)
        return there[np.linspace(0, len(there) - 1, min(PROBE_ROWS, len(there))).astype(np.int64)]

    def weighted(self, column: int) -> Batch:
        """The batch with one of several weightings."""
        weights = self.known.weights
        return (
            self if weights is None else replace(self, known=self.known._replace(weights=weights[:, column]))
        )


def step_size(loss: str, X: F) -> float:
    """The constant step eta = c(loss) / R^2 for rows like those of X (n, D): .5 and 4 at unit norm.

    R^2 = E q^2 / E q with q = |x|^2 + 1 (the 1 is the intercept's) bounds the steps with which the squared
    error contracts on average (Bach & Moulines 2013, assumption A6); c is the inverse of the loss's largest
    curvature, twice that for the log loss.
    """
    q = np.einsum("ij,ij->i", X, X, dtype=np.float64) + 1.0
    return float(LOSSES[loss].step * q.sum() / (q @ q))


def prepare(dtype: np.dtype[Any], blocks: Iterator[Any], rows: Rows) -> Batch:
    """The rows of one or more blocks, to be used in one shuffled order, with the held-out ones set apart.

    A single block is used where it lies; several are moved into one array, and each is let go before the next is made.
    """
    order, held = rows.order()
    parts = list(rows.parts())
    X = np.empty((rows.n_rows if len(parts) > 1 else 0, rows.n_features), dtype)
    lost, skipped = [], []
    for block, (start, here) in zip(blocks, parts, strict=True):
        expected = here.stop - here.start, rows.n_features
        made, bad = checked(block, dtype, start, expected, skip=rows.skip)
        if len(parts) > 1:
            X[here] = made
        else:
            X = made
        lost.append(here.start + bad)
        skipped.append(start + bad)
        del block, made
    bad = np.concatenate(lost)
    return Batch(X, rows.known, without(order, bad), without(held, bad), np.concatenate(skipped))


def step(objective: Objective, state: State, batch: Batch) -> State:
    """Measure the model of this moment on rows that are new to it, then fit the batch's training rows."""
    new = (_loss_sum(objective, state, batch, rows) for rows in (batch.probe, batch.held))
    return replace(_fit(objective, state, batch), sums=state.sums + np.concatenate(list(new)))


def fit_lane(
    objective: Objective, dtype: np.dtype[Any], blocks: Iterator[Any], work: tuple[State, Sequence[Rows]]
) -> tuple[State, I64]:
    """One lane's share of a round in a single task: its batches are made and fitted one after another.

    Gives the state after them, and the rows that were skipped.
    """
    state, batches = work
    skipped = no_rows()
    for rows in batches:
        batch = prepare(dtype, islice(blocks, len(rows.starts)), rows)
        state, skipped = step(objective, state, batch), np.append(skipped, batch.skipped)
        del batch
    return state, skipped


def meet(common: State, lanes: Sequence[State], velocity: F64, momentum: float) -> tuple[State, F64]:
    """Where lanes that began at ``common`` go on together, and with what velocity (n_outputs, n_features + 1).

        v <- m v + (mean of the lanes - common),    next common = common + v

    Their mean alone would be as far as one lane is; with m = 1 - 1/L the steps of L lanes add up as if they had
    been taken one after another (Chen & Huo 2016, block momentum). Averaged weights are averaged.
    """
    W, b, n = common.coef, common.intercept, len(lanes)
    moved = np.column_stack(
        [
            np.sum([lane.coef - W for lane in lanes], axis=0, dtype=np.float64) / n,
            np.sum([lane.intercept - b for lane in lanes], axis=0) / n,
        ]
    )
    velocity = momentum * velocity + moved
    mean_W = np.mean([lane.mean_coef for lane in lanes], axis=0, dtype=np.float64).astype(W.dtype)
    mean_b = np.mean([lane.mean_intercept for lane in lanes], axis=0)
    n_averaged = np.asarray(sum(int(lane.n_averaged) for lane in lanes) // n, np.int64)
    coef = (W + velocity[:, :-1]).astype(W.dtype)
    return State(coef, b + velocity[:, -1], mean_W, mean_b, n_averaged, added(common, lanes)), velocity


def added(common: State, lanes: Sequence[State]) -> F64:
    """What was measured before the lanes parted, and by all of them since."""
    return np.asarray(common.sums + np.sum([lane.sums - common.sums for lane in lanes], axis=0))


def learn(objective: Objective, state: State, batch: Batch, eta0: F64, alpha: F64) -> State:
    """Fit the batch's training rows; whether the model stays bounded is for the caller to see.

    ``eta0`` and ``alpha`` (k,) make the state k models of the same loss, side by side: (k n_outputs, n_features).
    """
    if len(batch.order) == 0:
        return state
    w, b, W, B = (a.copy() for a in (state.coef, state.intercept, state.mean_coef, state.mean_intercept))
    truth, K = _truth(objective, batch.known.targets), objective.n_outputs
    n = descend(
        read_only(batch.X), batch.order, np.tile(truth, len(alpha)), batch.weights, LOSSES[objective.loss].number,
        objective.epsilon, np.repeat(eta0, K), np.repeat(alpha, K), w, b, W, B, int(state.n_averaged), AVERAGE_ROWS,
    )  # fmt: skip
    if not objective.average:
        W, B = w, b
    return State(w, b, W, B, np.asarray(n, np.int64), state.sums)


def _fit(objective: Objective, state: State, batch: Batch) -> State:
    after = learn(objective, state, batch, np.array([objective.eta0]), np.array([objective.alpha]))
    if len(batch.order) and not _bounded(after, batch.X[batch.order[-PROBE_ROWS:]]):
        raise _diverged(objective.eta0)
    return after


def _truth(objective: Objective, targets: NDArray[Any]) -> F64:
    """Targets (n, n_outputs) of the loss: -1 and +1 for classes."""
    if objective.n_classes:
        return signs(targets, objective.n_classes)
    return np.asarray(targets, np.float64)[:, None]


def _bounded(state: State, X: F) -> bool:
    """Targets are of order one: scores so large that float32 cannot tell them one apart have run away."""
    with np.errstate(over="ignore", invalid="ignore"):
        scores = np.abs(X @ state.coef.T + state.intercept)
    return bool((scores <= LARGEST_SCORE).all())


def _diverged(eta0: float) -> ValueError:
    return ValueError(
        f"the coefficients grow without bound with the constant step eta0={eta0:.3g}: "
        "scale the features to rows of about unit norm, or lower eta0"
    )


def _loss_sum(objective: Objective, state: State, batch: Batch, rows: I64) -> F64:
    """Weighted loss of the averaged model over some rows, summed over decision functions, and the rows' weight."""
    if len(rows) == 0:
        return np.zeros(2)
    with np.errstate(over="ignore"):
        scores = (batch.X[rows] @ state.mean_coef.T + state.mean_intercept).astype(np.float64)
        truth = _truth(objective, batch.known.targets[rows])
        loss = LOSSES[objective.loss].value(scores, truth, objective.epsilon).sum(axis=1)
        weights = batch.weights[rows]
        return np.array([float(weights @ loss), float(weights.sum())])


def signs(y: NDArray[Any], n_classes: int) -> F64:
    """Class indices (n,) as targets -1 and +1: one column for two classes, else one a class."""
    positive = y[:, None] == (np.arange(n_classes) if n_classes > 2 else [1])
    return np.where(positive, 1.0, -1.0)
