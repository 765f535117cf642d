"""Stochastic gradient descent on blocks of features: constant step, averaged weights, pass after pass.

    w <- (1 - eta alpha) w - eta l'(w.x + b, y) x,   b <- b - eta l'(w.x + b, y)     scikit-learn's inner loop
    W_n = W_{n-1} + 2/(n+1) (w_n - W_{n-1}),   n = 1, 2, ...                         every 256 rows

W weighs the n-th iterate by n, which forgets the start without being told when to. An average every 256
rows is as accurate as one every row and costs nothing. The state is small and travels; rows stay where they
are made.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from itertools import islice
from typing import Any

import numpy as np
import sklearn
from numpy.typing import NDArray
from sklearn.linear_model import SGDClassifier, SGDRegressor

from dkdist.learners.losses import F64, LOSSES
from dkdist.learners.rows import F, Rows, checked

AVERAGE_ROWS = 256  # rows between two terms of the averaged weights
PROBE_ROWS = 128  # training rows of a batch whose loss is measured before they are used
LARGEST_SCORE = 1e8


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


@dataclass(frozen=True)
class State:
    """A model on its way: last iterate, averaged iterate, and the losses measured in this epoch.

    ``coef`` and ``mean_coef`` have shape (n_outputs, n_features) and the dtype of the features, the
    intercepts (n_outputs,) are float64. ``n_averaged`` counts the terms of the average, ``sums`` are training
    loss, its rows, held-out loss, its rows.
    """

    coef: F
    intercept: F64
    mean_coef: F
    mean_intercept: F64
    n_averaged: NDArray[np.int64]
    sums: NDArray[np.float64]

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
    """Training rows in the order they are used, and held-out rows, with their targets."""

    X: F
    y: NDArray[Any]
    X_held: F
    y_held: NDArray[Any]


def step_size(loss: str, X: F) -> float:
    """The constant step eta = c(loss) / R^2 for rows like those of X (n, D): .5 and 4 at unit norm.

    R^2 = E q^2 / E q with q = |x|^2 + 1 (the 1 is the intercept's) bounds the steps with which the squared
    error contracts on average (Bach & Moulines 2013, assumption A6); c is the inverse of the loss's largest
    curvature, twice that for the log loss.
    """
    q = np.einsum("ij,ij->i", X, X, dtype=np.float64) + 1.0
    return float(LOSSES[loss].step * q.sum() / (q @ q))


def prepare(dtype: np.dtype[Any], blocks: Iterator[Any], rows: Rows) -> Batch:
    """The rows of one or more blocks, shuffled together, with the held-out ones set apart.

    Every block is let go before the next is made: one block and one batch are alive.
    """
    n_train = int(rows.n_rows - rows.held_out.sum())
    order = np.random.default_rng(rows.seed).permutation(rows.n_rows)
    place = np.empty(rows.n_rows, np.int64)
    place[order[~rows.held_out[order]]] = np.arange(n_train)
    place[rows.held_out] = np.arange(rows.n_rows - n_train)
    X: F = np.empty((n_train, rows.n_features), dtype)
    X_held: F = np.empty((rows.n_rows - n_train, rows.n_features), dtype)
    for block, (start, here) in zip(blocks, rows.parts(), strict=True):
        made = checked(block, dtype, start, (here.stop - here.start, rows.n_features))
        held = rows.held_out[here]
        X[place[here][~held]] = made[~held] if held.any() else made
        X_held[place[here][held]] = made[held]
        del made, block
    y = np.empty_like(rows.targets, shape=n_train)
    y[place[~rows.held_out]] = rows.targets[~rows.held_out]
    return Batch(X, y, X_held, rows.targets[rows.held_out])


def step(objective: Objective, state: State, batch: Batch) -> State:
    """Measure the model of this moment on rows that are new to it, then fit the batch's training rows."""
    sums = state.sums + np.array(
        [
            *_loss_sum(objective, state, batch.X[:PROBE_ROWS], batch.y[:PROBE_ROWS]),
            *_loss_sum(objective, state, batch.X_held, batch.y_held),
        ]
    )
    return replace(_fit(objective, state, batch.X, batch.y), sums=sums)


def fit_lane(
    objective: Objective, dtype: np.dtype[Any], blocks: Iterator[Any], work: tuple[State, Sequence[Rows]]
) -> State:
    """One lane's share of a round in a single task: its batches are made and fitted one after another."""
    state, batches = work
    for rows in batches:
        state = step(objective, state, prepare(dtype, islice(blocks, len(rows.starts)), rows))
    return state


def merge(states: Sequence[State]) -> State:
    """The mean of lanes that began an epoch together; what they measured is added up."""
    if len(states) == 1:
        return states[0]
    mean = {
        name: np.mean([getattr(s, name) for s in states], axis=0, dtype=np.float64).astype(first.dtype)
        for name, first in states[0].arrays().items()
        if name not in ("n_averaged", "sums")
    }
    n_averaged = np.asarray(sum(int(s.n_averaged) for s in states) // len(states), np.int64)
    return State(**mean, n_averaged=n_averaged, sums=np.sum([s.sums for s in states], axis=0))


def _fit(objective: Objective, state: State, X: F, y: NDArray[Any]) -> State:
    if len(X) == 0:
        return state
    model = _stepper(objective, state)
    W, b, n = state.mean_coef.copy(), state.mean_intercept.copy(), int(state.n_averaged)
    with sklearn.config_context(assume_finite=True, skip_parameter_validation=True):
        for a in range(0, len(X), AVERAGE_ROWS):
            try:
                model.partial_fit(X[a : a + AVERAGE_ROWS], y[a : a + AVERAGE_ROWS])
            except ValueError as overflow:
                raise _diverged(objective.eta0) from overflow
            n += 1
            rate = 2.0 / (n + 1.0) if objective.average else 1.0
            W += W.dtype.type(rate) * (model.coef_.reshape(W.shape) - W)
            b += rate * (model.intercept_ - b)
    if not _bounded(model, X[-PROBE_ROWS:]):
        raise _diverged(objective.eta0)
    return State(model.coef_.reshape(W.shape), model.intercept_, W, b, np.asarray(n, np.int64), state.sums)


def _stepper(objective: Objective, state: State) -> Any:
    """A scikit-learn model that continues from a copy of the state (its inner loop works in place)."""
    kind = SGDClassifier if objective.n_classes else SGDRegressor
    model = kind(
        loss=objective.loss, alpha=objective.alpha, epsilon=objective.epsilon,
        learning_rate="constant", eta0=objective.eta0, shuffle=False, average=False,
    )  # fmt: skip
    model.n_features_in_ = state.coef.shape[1]
    model.t_ = 1.0
    model.coef_ = state.coef.copy() if objective.n_classes else state.coef[0].copy()
    model.intercept_ = state.intercept.copy()
    if objective.n_classes:
        model.classes_ = np.arange(objective.n_classes)
    return model


def _bounded(model: Any, X: F) -> bool:
    """Targets are of order one: scores so large that float32 cannot tell them one apart have run away."""
    with np.errstate(over="ignore", invalid="ignore"):
        scores = np.abs(X @ np.atleast_2d(model.coef_).T + model.intercept_)
    return bool((scores <= LARGEST_SCORE).all())


def _diverged(eta0: float) -> ValueError:
    return ValueError(
        f"the coefficients grow without bound with the constant step eta0={eta0:.3g}: "
        "scale the features to rows of about unit norm, or lower eta0"
    )


def _loss_sum(objective: Objective, state: State, X: F, y: NDArray[Any]) -> tuple[float, int]:
    """Loss of the averaged model over the rows, summed over decision functions, and the number of rows."""
    if len(X) == 0:
        return 0.0, 0
    with np.errstate(over="ignore"):
        scores = (X @ state.mean_coef.T + state.mean_intercept).astype(np.float64)
        truth = signs(y, objective.n_classes) if objective.n_classes else y[:, None]
        return float(LOSSES[objective.loss].value(scores, truth, objective.epsilon).sum()), len(X)


def signs(y: NDArray[Any], n_classes: int) -> NDArray[np.float64]:
    """Class indices (n,) as targets -1 and +1: one column for two classes, else one a class."""
    positive = y[:, None] == (np.arange(n_classes) if n_classes > 2 else [1])
    return np.where(positive, 1.0, -1.0)
