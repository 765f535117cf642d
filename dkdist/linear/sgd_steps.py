"""Stochastic gradient descent on blocks of features: constant step, averaged weights, pass after pass.

    w <- (1 - eta alpha) w - eta c l'(w.x + b, y) x,   b <- b - eta c l'(w.x + b, y)     c: the row's weight
    W_n = W_{n-1} + 2/(n+1) (w_n - W_{n-1}),   n = 1, 2, ...                         every 256 rows

W weighs the n-th iterate by n, which forgets the start without being told when to. An average every 256
rows is as accurate as one every row and costs nothing. The state is small and travels; rows stay where they
are made.

Losses are those of scikit-learn's SGD: l(p, y) with y = -1, +1 for classes, half the squared error for numbers; their
formulas are in `descent_loops`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import entr, expit

from dkdist._numba.arrays import F64, I64, LARGE
from dkdist._numba.points import read_only
from dkdist._numba.sgd import (
    HINGE,
    HUBER,
    LOG,
    MODIFIED_HUBER,
    SQUARED_ERROR,
    SQUARED_HINGE,
    LossMonitor,
    SGDParams,
    SGDState,
    add_losses,
    descend,
    fill_scores,
)
from dkdist._utils.serialization import serializable
from dkdist.linear.rows import F, LazyRows, RowBatch, RowLabels, checked_rows, no_rows, tiles, without

AVERAGE_ROWS = 256  # rows between two terms of the averaged weights
N_MONITOR_ROWS = (
    128  # training rows of a batch whose loss is measured before they are used: evenly spaced as stored
)
LARGEST_SCORE = 1e8
LAST_ROWS = 16  # of a batch, by which it is seen whether the model has run away: at most those of a tile


class Loss(NamedTuple):
    """The ``number`` that loops know it by, and the ``step`` that times 1/R^2 is the default one."""

    number: int
    step: float


LOSSES = {
    "log_loss": Loss(LOG, 8.0),
    "hinge": Loss(HINGE, 1.0),
    "squared_hinge": Loss(SQUARED_HINGE, 0.5),
    "modified_huber": Loss(MODIFIED_HUBER, 0.5),
    "squared_error": Loss(SQUARED_ERROR, 1.0),
    "huber": Loss(HUBER, 1.0),
}
CLASSIFIER_LOSSES = ("log_loss", "hinge", "squared_hinge", "modified_huber")
REGRESSOR_LOSSES = ("squared_error", "huber")
PROBABILITY_LOSSES = ("log_loss", "modified_huber")


def constant_loss(
    loss: str, targets: NDArray[Any], weights: NDArray[Any] | None, n_classes: int, epsilon: float
) -> float:
    """Mean loss of the best constant model (of 0 for targets of mean 0), summed over one-against-rest functions."""
    if n_classes == 0:
        size = np.abs(targets)
        if loss == "huber":
            size = np.where(size > epsilon, np.sqrt(2 * epsilon * np.maximum(size - epsilon / 2, 0)), size)
        return float(np.average(size**2 / 2, weights=weights))
    counts = np.bincount(targets, weights, n_classes)
    p = counts[1:] / counts.sum() if n_classes == 2 else counts / counts.sum()
    if loss == "log_loss":
        return float((entr(p) + entr(1 - p)).sum())
    return float((2 * np.minimum(p, 1 - p) if loss == "hinge" else 4 * p * (1 - p)).sum())


def probabilities(loss: str, scores: NDArray[Any]) -> NDArray[Any]:
    """Class probabilities (n, n_classes) from decision values (n,) or (n, n_classes); rows sum to one.

    Log loss: the logistic function; modified Huber: (clip(p, -1, 1) + 1) / 2 (Zhang 2002). With more than two
    classes, each against the rest and then divided by the sum (all equal where every class is refused).
    """
    p = expit(scores) if loss == "log_loss" else (np.clip(scores, -1.0, 1.0) + 1.0) / 2.0
    if p.ndim == 1:
        return np.column_stack([1.0 - p, p])
    total = p.sum(axis=1, keepdims=True)
    none = total <= 0.0
    return np.asarray(np.where(none, 1.0 / p.shape[1], p / np.where(none, 1.0, total)))


@serializable("Objective")
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


@serializable("State")
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
        return mean_losses(self.sums)

    def next_epoch(self) -> State:
        """The same model with nothing measured yet."""
        return replace(self, sums=np.zeros(4))


@dataclass(frozen=True)
class Batch:
    """Rows as they are stored or made, (n, D), what is known of them; which to train on, in order; and the held-out.

    ``skipped`` are rows that are used for neither, counted in the whole collection.
    """

    X: F | LazyRows
    known: RowLabels
    order: I64
    held: I64
    skipped: I64 = field(default_factory=no_rows)

    def __sizeof__(self) -> int:
        return self.X.nbytes if isinstance(self.X, np.ndarray) else self.X.__sizeof__()

    @property
    def weights(self) -> F64:
        """(n,): by how much a row's step is longer than others."""
        weights = self.known.weights
        return np.ones(len(self.known.targets)) if weights is None else weights

    @property
    def probe(self) -> I64:
        """Training rows that are measured before they are used: the same ones whatever the order of training."""
        trained = np.zeros(len(self.known.targets), np.bool_)
        trained[self.order] = True
        return np.flatnonzero(trained)[_evenly_spaced(len(self.order))]

    def weighted(self, column: int) -> Batch:
        """The batch with one of several weightings."""
        weights = self.known.weights
        return (
            self if weights is None else replace(self, known=self.known._replace(weights=weights[:, column]))
        )


@lru_cache(maxsize=16)
def _evenly_spaced(n: int) -> I64:
    """`N_MONITOR_ROWS` places of n, or all."""
    return read_only(np.linspace(0, n - 1, min(N_MONITOR_ROWS, n)).astype(np.int64))


def mean_losses(sums: F64) -> tuple[float, float]:
    """Mean training and held-out loss, from sums as those of a `State`."""
    total, rows, held_total, held_rows = (float(v) for v in sums)
    return total / rows if rows else np.nan, held_total / held_rows if held_rows else np.nan


def step_size(loss: str, X: F) -> float:
    """The constant step eta = c(loss) / R^2 for rows like those of X (n, D): .5 and 4 at unit norm.

    R^2 = E q^2 / E q with q = |x|^2 + 1 (the 1 is the intercept's) bounds the steps with which the squared
    error contracts on average (Bach & Moulines 2013, assumption A6); c is the inverse of the loss's largest
    curvature, twice that for the log loss. ValueError for rows so large that it is no number above 0.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        q = np.einsum("ij,ij->i", X, X, dtype=np.float64) + 1.0
        eta0 = float(LOSSES[loss].step * q.sum() / (q @ q))
    if not eta0 > 0:
        raise ValueError(
            f"features up to {np.abs(X).max():.3g} are too large for a step of gradient descent: scale them to rows of "
            "about unit norm"
        )
    return eta0


def prepare(dtype: np.dtype[Any], blocks: Iterator[Any], rows: RowBatch) -> Batch:
    """The rows of one or more blocks, to be used in one shuffled order, with the held-out ones set apart.

    A single block is used where it lies; several are moved into one array, and each is let go before the next is made.
    """
    order, held = rows.order()
    parts = list(rows.parts())
    made: list[Any] = []
    lost, skipped = [], []
    for block, (start, here) in zip(blocks, parts, strict=True):
        expected = here.stop - here.start, rows.n_features
        X, bad = checked_rows(block, dtype, start, expected, skip=rows.skip, at_once=rows.at_once)
        if len(parts) == 1 or not isinstance(X, np.ndarray):
            made.append(X)
        else:
            made = made or [LARGE.empty((rows.n_rows, rows.n_features), dtype)]
            made[0][here] = X
        lost.append(here.start + bad)
        skipped.append(start + bad)
        del block, X
    whole = made[0].joined(made[1:]) if len(made) > 1 else made[0]
    bad = np.concatenate(lost)
    return Batch(whole, rows.known, without(order, bad), without(held, bad), np.concatenate(skipped))


def step(objective: Objective, state: State, batch: Batch) -> State:
    """Measure the model of this moment on rows that are new to it, then fit the batch's training rows."""
    order, means = batch.order, (read_only(state.mean_coef), read_only(state.mean_intercept))
    probed = np.zeros(len(batch.known.targets), np.bool_)
    probed[batch.probe] = True
    looks = LossMonitor(
        probed[order], *means, np.zeros(2), np.empty((min(LAST_ROWS, len(order)), len(means[1])))
    )
    held = np.zeros(2)
    if len(batch.held):
        of_held = _steps(objective, batch, batch.held, 1)
        for X, places, here in tiles(batch.X, batch.held):
            add_losses(read_only(X), places, np.arange(here.start, here.stop), of_held, *means, held)
    after = learn(objective, state, batch, np.array([objective.eta0]), np.array([objective.alpha]), looks)
    with np.errstate(invalid="ignore"):
        if not (np.abs(looks.last) <= LARGEST_SCORE).all():  # float32 cannot tell targets of order one apart
            raise _diverged(objective.eta0)
    return replace(after, sums=state.sums + np.concatenate([looks.sums, held]))


@dataclass(frozen=True)
class LocalSGDUpdate:
    """What ``n`` lanes have come to since they parted: sums over them, in which any two groups can be merged.

    ``moved`` and ``means`` (n_outputs, n_features + 1) are float64, intercepts last: by how much coefficients have
    changed, and averaged ones. ``sums`` are what was measured since, ``skipped`` the rows that were left out.
    """

    n: int
    moved: F64
    means: F64
    n_averaged: int
    sums: F64
    skipped: I64

    @classmethod
    def of(cls, common: State, state: State, skipped: I64) -> LocalSGDUpdate:
        """One lane that began at ``common`` and is now at ``state``."""
        moved = np.column_stack([state.coef - common.coef, state.intercept - common.intercept])
        means = np.column_stack([state.mean_coef, state.mean_intercept])
        return cls(1, moved, means, int(state.n_averaged), state.sums - common.sums, skipped)

    def merged(self, other: LocalSGDUpdate) -> LocalSGDUpdate:
        """Both groups together."""
        return LocalSGDUpdate(
            self.n + other.n, self.moved + other.moved, self.means + other.means,
            self.n_averaged + other.n_averaged, self.sums + other.sums, np.append(self.skipped, other.skipped),
        )  # fmt: skip


def fit_replica(
    objective: Objective,
    dtype: np.dtype[Any],
    common: State,
    blocks: Iterator[Any],
    batches: Sequence[RowBatch],
) -> LocalSGDUpdate:
    """One lane's share of a round in a single task: its batches are made and fitted one after another."""
    state, skipped = common, no_rows()
    for rows in batches:
        batch = prepare(dtype, islice(blocks, len(rows.starts)), rows)
        state, skipped = step(objective, state, batch), np.append(skipped, batch.skipped)
        del batch
    return LocalSGDUpdate.of(common, state, skipped)


def average_replicas(
    common: State, lanes: LocalSGDUpdate, velocity: F64, momentum: float
) -> tuple[State, F64]:
    """Where all lanes that began at ``common`` go on together, and with what velocity (n_outputs, n_features + 1).

        v <- m v + (mean of the lanes - common),    next common = common + v

    Their mean alone would be as far as one lane is; with m = 1 - 1/L the steps of L lanes add up as if they had
    been taken one after another (Chen & Huo 2016, block momentum). Averaged weights are averaged.
    """
    velocity, means, dtype = (
        momentum * velocity + lanes.moved / lanes.n,
        lanes.means / lanes.n,
        common.coef.dtype,
    )
    coef = (common.coef + velocity[:, :-1]).astype(dtype)
    n_averaged = np.asarray(lanes.n_averaged // lanes.n, np.int64)
    return State(
        coef, common.intercept + velocity[:, -1], means[:, :-1].astype(dtype), means[:, -1].copy(), n_averaged,
        common.sums + lanes.sums,
    ), velocity  # fmt: skip


def learn(
    objective: Objective,
    state: State,
    batch: Batch,
    eta0: F64,
    alpha: F64,
    looks: LossMonitor | None = None,
) -> State:
    """Fit the batch's training rows; whether the model stays bounded is for the caller to see.

    ``eta0`` and ``alpha`` (k,) make the state k models of the same loss, side by side: (k n_outputs, n_features).
    ``looks`` are measured on the way; without them rows are an array.
    """
    order, K = batch.order, objective.n_outputs
    if len(order) == 0:
        return state
    w, b, W, B = (a.copy() for a in (state.coef, state.intercept, state.mean_coef, state.mean_intercept))
    eta, alpha = np.repeat(eta0, K), np.repeat(alpha, K)
    steps = _steps(objective, batch, order, len(eta) // K)
    steps = steps._replace(eta=eta, decay=np.maximum(0.0, 1.0 - eta * alpha))
    iterate = SGDState(w, b, W, B, np.ones(len(w)))
    n = _descend(batch.X, order, steps, iterate, looks, int(state.n_averaged))
    if not objective.average:
        W, B = w, b
    return State(w, b, W, B, np.asarray(n, np.int64), state.sums)


def _steps(objective: Objective, batch: Batch, rows: I64, n_models: int) -> SGDParams:
    """What the steps by some rows of a batch need to know of them, for so many models; no steps yet."""
    truth, none = _truth(objective, batch.known.targets[rows]), np.zeros(0)
    number, epsilon = LOSSES[objective.loss].number, float(objective.epsilon)
    every = truth if n_models == 1 else np.tile(truth, n_models)
    return SGDParams(every, batch.weights[rows], number, epsilon, none, none, AVERAGE_ROWS)


def _descend(
    X: F | LazyRows,
    order: I64,
    steps: SGDParams,
    iterate: SGDState,
    looks: LossMonitor | None,
    n_averaged: int,
) -> int:
    """The steps over the rows of a batch, with a look at some of them; the number of terms of the average."""
    if not isinstance(X, np.ndarray):
        return X.descend(order, steps, iterate, looks, n_averaged)
    X = read_only(X)
    if looks is not None:
        probed = np.flatnonzero(looks.probed)
        add_losses(X, order[probed], probed, steps, looks.W, looks.b, looks.sums)
    n = int(descend(X, order, steps, iterate, n_averaged))
    if looks is not None:
        W, b = read_only(iterate.W), read_only(iterate.b)
        fill_scores(X, order[len(order) - len(looks.last) :], W, b, looks.last)
    return n


def _truth(objective: Objective, targets: NDArray[Any]) -> F64:
    """Targets (n, n_outputs) of the loss: -1 and +1 for classes."""
    if objective.n_classes:
        return signs(targets, objective.n_classes)
    return np.asarray(targets, np.float64)[:, None]


def _diverged(eta0: float) -> ValueError:
    return ValueError(
        f"the coefficients grow without bound with the constant step eta0={eta0:.3g}: "
        "scale the features to rows of about unit norm, or lower eta0"
    )


def signs(y: NDArray[Any], n_classes: int) -> F64:
    """Class indices (n,) as targets -1 and +1: one column for two classes, else one a class."""
    positive = y[:, None] == np.arange(n_classes) if n_classes > 2 else (y == 1)[:, None]
    return np.where(positive, 1.0, -1.0)
