"""Steps of stochastic gradient descent on blocks of features, with a constant step and averaged iterates.

    w <- (1 - eta alpha) w - eta c l'(w.x + b, y) x,   b <- b - eta c l'(w.x + b, y)     c: weight of the row
    W_n = W_{n-1} + 2/(n+1) (w_n - W_{n-1}),   n = 1, 2, ...                         every 256 rows

W weights iterate n by n (Lacoste-Julien, Schmidt & Bach 2012), so the influence of the start vanishes without a tuning
parameter. Tasks exchange only the small state, not rows. Losses are as in scikit-learn's SGD: l(p, y) with y = -1, +1
for classification, half the squared error for regression (`dkdist._numba.sgd`).
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
from dkdist.linear._tuning import MAX_SCORE, N_LAST_ROWS, N_MONITOR_ROWS, ROWS_PER_AVERAGE
from dkdist.linear.rows import F, LazyRows, RowBatch, RowLabels, check_rows, exclude, no_rows, tiles


class Loss(NamedTuple):
    """Integer code of a loss in compiled functions, and its default step in units of 1 / R^2."""

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
    """Return the mean loss of the best constant model, summed over one-vs-rest functions (0 for regression)."""
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
    """Return probabilities (n, n_classes) for decision values (n,) or (n, n_classes); rows sum to 1.

    Log loss: the logistic function; modified Huber: (clip(p, -1, 1) + 1) / 2 (Zhang 2002). With more than two
    classes, one-vs-rest probabilities are divided by their sum; if all are 0, classes get equal probabilities.
    """
    p = expit(scores) if loss == "log_loss" else (np.clip(scores, -1.0, 1.0) + 1.0) / 2.0
    if p.ndim == 1:
        return np.column_stack([1.0 - p, p])
    total = p.sum(axis=1, keepdims=True)
    is_zero = total <= 0.0
    return np.asarray(np.where(is_zero, 1.0 / p.shape[1], p / np.where(is_zero, 1.0, total)))


@serializable("Objective")
@dataclass(frozen=True)
class Objective:
    """Objective, the mean of l(w.x + b, y) + alpha/2 |w|^2, and step eta.

    ``n_classes`` is 0 for regression, 2 for one decision function, K > 2 for K one-vs-rest functions. ``epsilon`` is
    the residual above which the Huber loss is linear.
    """

    loss: str
    alpha: float
    eta0: float
    n_classes: int = 0
    average: bool = True
    epsilon: float = 1.0

    @property
    def n_outputs(self) -> int:
        """Number of decision functions."""
        return self.n_classes if self.n_classes > 2 else 1


@serializable("State")
@dataclass(frozen=True)
class State:
    """State of a model: last iterate, averaged iterate, and sums of the losses in this epoch.

    ``coef`` and ``mean_coef`` have shape (n_outputs, n_features) and the dtype of the features; the intercepts
    (n_outputs,) are float64. ``n_averaged`` is the number of averaged iterates. ``sums`` (4,) are the training loss and
    the weight of its rows, then the held-out loss and the weight of its rows.
    """

    coef: F
    intercept: F64
    mean_coef: F
    mean_intercept: F64
    n_averaged: I64
    sums: F64

    @classmethod
    def start(cls, n_outputs: int, n_features: int, dtype: np.dtype[Any]) -> State:
        """Return the initial model, with all values 0."""
        W, b = np.zeros((n_outputs, n_features), dtype), np.zeros(n_outputs)
        return cls(W, b, W, b, np.zeros((), np.int64), np.zeros(4))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays by field name; ``State(**arrays)`` restores the state."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def losses(self) -> tuple[float, float]:
        """Return the mean training and held-out losses of the epoch so far; NaN without rows."""
        return mean_losses(self.sums)

    def next_epoch(self) -> State:
        """Return the state with sums of losses set to 0."""
        return replace(self, sums=np.zeros(4))


@dataclass(frozen=True)
class Batch:
    """Rows (n, D), their labels, indices of training rows in the order of the steps, and indices of held-out rows.

    ``skipped`` are the positions of skipped rows in the whole collection.
    """

    X: F | LazyRows
    labels: RowLabels
    train_rows: I64
    held_out_rows: I64
    skipped: I64 = field(default_factory=no_rows)

    def __sizeof__(self) -> int:
        return self.X.nbytes if isinstance(self.X, np.ndarray) else self.X.__sizeof__()

    @property
    def weights(self) -> F64:
        """Weights (n,) that multiply the steps."""
        weights = self.labels.weights
        return np.ones(len(self.labels.targets)) if weights is None else weights

    @property
    def monitor_rows(self) -> I64:
        """Training rows whose loss is measured before the steps; they do not depend on the training order."""
        is_trained = np.zeros(len(self.labels.targets), np.bool_)
        is_trained[self.train_rows] = True
        return np.flatnonzero(is_trained)[_evenly_spaced(len(self.train_rows))]

    def weighted(self, column: int) -> Batch:
        """Return the batch with one column of its weights."""
        weights = self.labels.weights
        return (
            self
            if weights is None
            else replace(self, labels=self.labels._replace(weights=weights[:, column]))
        )


@lru_cache(maxsize=16)
def _evenly_spaced(n: int) -> I64:
    """Return `N_MONITOR_ROWS` evenly spaced indices below n, or all."""
    return read_only(np.linspace(0, n - 1, min(N_MONITOR_ROWS, n)).astype(np.int64))


def mean_losses(sums: F64) -> tuple[float, float]:
    """Return the mean training and held-out losses from ``State.sums``."""
    total, rows, held_total, held_rows = (float(v) for v in sums)
    return total / rows if rows else np.nan, held_total / held_rows if held_rows else np.nan


def step_size(loss: str, X: F) -> float:
    """Return the constant step eta = c(loss) / R^2 for rows X (n, D): 0.5 to 4 at unit norm.

    Let R^2 = E q^2 / E q with q = |x|^2 + 1 (1 for the intercept). For steps below 1 / R^2 the squared error contracts
    on average (Bach & Moulines 2013, assumption A6). c is the inverse of the largest curvature of the loss, twice that
    for the log loss. Raises ValueError if rows are too large for a positive step.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        q = np.einsum("ij,ij->i", X, X, dtype=np.float64) + 1.0
        eta0 = float(LOSSES[loss].step * q.sum() / (q @ q))
    if not eta0 > 0:
        raise ValueError(
            f"X must have rows of moderate norm; got values up to {np.abs(X).max():.3g}, too large for a gradient "
            "step. Scale the rows to about unit norm."
        )
    return eta0


def prepare(dtype: np.dtype[Any], blocks: Iterator[Any], rows: RowBatch) -> Batch:
    """Return the rows of one or more blocks as a batch in shuffled order.

    A single block is not copied. Several blocks are copied to one array; each is released before the next is computed.
    """
    train_rows, held_out_rows = rows.split()
    parts = list(rows.parts())
    features: list[Any] = []
    invalid_rows, skipped = [], []
    for block, (start, span) in zip(blocks, parts, strict=True):
        expected = span.stop - span.start, rows.n_features
        X, invalid = check_rows(block, dtype, start, expected, skip=rows.skip, eager=rows.eager)
        if len(parts) == 1 or not isinstance(X, np.ndarray):
            features.append(X)
        else:
            features = features or [LARGE.empty((rows.n_rows, rows.n_features), dtype)]
            features[0][span] = X
        invalid_rows.append(span.start + invalid)
        skipped.append(start + invalid)
        del block, X
    X = features[0].joined(features[1:]) if len(features) > 1 else features[0]
    invalid = np.concatenate(invalid_rows)
    return Batch(
        X, rows.labels, exclude(train_rows, invalid), exclude(held_out_rows, invalid), np.concatenate(skipped)
    )


def step(objective: Objective, state: State, batch: Batch) -> State:
    """Measure the losses of the averaged model on the batch, then fit its training rows."""
    order, means = batch.train_rows, (read_only(state.mean_coef), read_only(state.mean_intercept))
    is_monitored = np.zeros(len(batch.labels.targets), np.bool_)
    is_monitored[batch.monitor_rows] = True
    monitor = LossMonitor(
        is_monitored[order], *means, np.zeros(2), np.empty((min(N_LAST_ROWS, len(order)), len(means[1])))
    )
    held_out_sums = np.zeros(2)
    if len(batch.held_out_rows):
        params = _sgd_params(objective, batch, batch.held_out_rows, 1)
        for X, indices, span in tiles(batch.X, batch.held_out_rows):
            add_losses(read_only(X), indices, np.arange(span.start, span.stop), params, *means, held_out_sums)
    fitted = learn(objective, state, batch, np.array([objective.eta0]), np.array([objective.alpha]), monitor)
    with np.errstate(invalid="ignore"):
        if not (np.abs(monitor.last) <= MAX_SCORE).all():
            raise _divergence_error(objective.eta0)
    return replace(fitted, sums=state.sums + np.concatenate([monitor.sums, held_out_sums]))


@dataclass(frozen=True)
class LocalSGDUpdate:
    """Sums over ``n`` lanes since the last averaging.

    ``sum_delta`` is the sum of the changes of the last iterates, ``sum_mean_coef`` the sum of the averaged iterates.
    Both are float64 (n_outputs, n_features + 1), with the intercepts last. ``sums`` are the new losses.
    """

    n: int
    sum_delta: F64
    sum_mean_coef: F64
    n_averaged: int
    sums: F64
    skipped: I64

    @classmethod
    def of(cls, common: State, state: State, skipped: I64) -> LocalSGDUpdate:
        """Return the update of one lane that started at ``common`` and ended at ``state``."""
        delta = np.column_stack([state.coef - common.coef, state.intercept - common.intercept])
        mean_coef = np.column_stack([state.mean_coef, state.mean_intercept])
        return cls(1, delta, mean_coef, int(state.n_averaged), state.sums - common.sums, skipped)

    def merge(self, other: LocalSGDUpdate) -> LocalSGDUpdate:
        """Return the update of both groups of lanes."""
        return LocalSGDUpdate(
            self.n + other.n, self.sum_delta + other.sum_delta, self.sum_mean_coef + other.sum_mean_coef,
            self.n_averaged + other.n_averaged, self.sums + other.sums, np.append(self.skipped, other.skipped),
        )  # fmt: skip


def fit_replica(
    objective: Objective,
    dtype: np.dtype[Any],
    common: State,
    blocks: Iterator[Any],
    batches: Sequence[RowBatch],
) -> LocalSGDUpdate:
    """Compute and fit the batches of one lane until the next averaging, in one task."""
    state, skipped = common, no_rows()
    for rows in batches:
        batch = prepare(dtype, islice(blocks, len(rows.starts)), rows)
        state, skipped = step(objective, state, batch), np.append(skipped, batch.skipped)
        del batch
    return LocalSGDUpdate.of(common, state, skipped)


def average_replicas(
    common: State, lanes: LocalSGDUpdate, velocity: F64, momentum: float
) -> tuple[State, F64]:
    """Average lanes that started at ``common``; return the state and velocity (n_outputs, n_features + 1).

        v <- m v + sum_delta / L,    next iterate = common iterate + v,    next averaged iterate = sum_mean_coef / L

    The plain mean of L lanes makes as much progress as one lane. With m = 1 - 1/L the progress of L lanes adds up, as
    for sequential steps (Chen & Huo 2016, block momentum).
    """
    velocity = momentum * velocity + lanes.sum_delta / lanes.n
    means, dtype = lanes.sum_mean_coef / lanes.n, common.coef.dtype
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
    monitor: LossMonitor | None = None,
) -> State:
    """Fit the training rows of the batch, without a check for divergence.

    ``eta0`` (k,) and ``alpha`` (k,) are parameters of k models with the same loss, whose coefficients are stacked in
    the state: (k n_outputs, n_features). ``monitor`` accumulates losses; if None, rows must be an array.
    """
    order, K = batch.train_rows, objective.n_outputs
    if len(order) == 0:
        return state
    w, b, W, B = (a.copy() for a in (state.coef, state.intercept, state.mean_coef, state.mean_intercept))
    eta, alpha = np.repeat(eta0, K), np.repeat(alpha, K)
    params = _sgd_params(objective, batch, order, len(eta) // K)
    params = params._replace(eta=eta, decay=np.maximum(0.0, 1.0 - eta * alpha))
    sgd_state = SGDState(w, b, W, B, np.ones(len(w)))
    n = _descend(batch.X, order, params, sgd_state, monitor, int(state.n_averaged))
    if not objective.average:
        W, B = w, b
    return State(w, b, W, B, np.asarray(n, np.int64), state.sums)


def _sgd_params(objective: Objective, batch: Batch, rows: I64, n_models: int) -> SGDParams:
    """Return the step parameters for some rows of a batch and ``n_models`` models, without eta and decay."""
    targets, unset = _signed_targets(objective, batch.labels.targets[rows]), np.zeros(0)
    number, epsilon = LOSSES[objective.loss].number, float(objective.epsilon)
    if n_models > 1:
        targets = np.tile(targets, n_models)
    return SGDParams(targets, batch.weights[rows], number, epsilon, unset, unset, ROWS_PER_AVERAGE)


def _descend(
    X: F | LazyRows,
    order: I64,
    params: SGDParams,
    sgd_state: SGDState,
    monitor: LossMonitor | None,
    n_averaged: int,
) -> int:
    """Run the steps over the rows of a batch; return the number of averaged iterates."""
    if not isinstance(X, np.ndarray):
        return X.descend(order, params, sgd_state, monitor, n_averaged)
    X = read_only(X)
    if monitor is not None:
        monitored = np.flatnonzero(monitor.probed)
        add_losses(X, order[monitored], monitored, params, monitor.W, monitor.b, monitor.sums)
    n = int(descend(X, order, params, sgd_state, n_averaged))
    if monitor is not None:
        W, b = read_only(sgd_state.W), read_only(sgd_state.b)
        fill_scores(X, order[len(order) - len(monitor.last) :], W, b, monitor.last)
    return n


def _signed_targets(objective: Objective, targets: NDArray[Any]) -> F64:
    """Return targets (n, n_outputs) of the loss, -1 and +1 for classes."""
    if objective.n_classes:
        return signs(targets, objective.n_classes)
    return np.asarray(targets, np.float64)[:, None]


def _divergence_error(eta0: float) -> ValueError:
    return ValueError(
        f"eta0={eta0:.3g} is too large: the coefficients diverge. Scale the features to rows of about unit norm, or "
        "reduce eta0."
    )


def signs(y: NDArray[Any], n_classes: int) -> F64:
    """Encode class indices (n,) as targets -1 and +1: one column for two classes, else one per class."""
    positive = y[:, None] == np.arange(n_classes) if n_classes > 2 else (y == 1)[:, None]
    return np.where(positive, 1.0, -1.0)
