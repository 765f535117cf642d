"""Losses of `SetRegressor` other than the squared error: the Poisson deviance of counts, and quantiles.

Representations, kernels and penalties are selected by the squared error of transformed targets. Members of the final
ensemble are refitted by iteratively reweighted kernel ridge regression: Poisson regression with logarithmic link by
Fisher scoring (McCullagh, Nelder: Generalized linear models, 1989, section 2.5), and quantile regression by
majorisation of the pinball loss (Hunter, Lange: Quantile regression via an MM algorithm, 2000),

    4 rho_q(r) <= r^2 / a + (4 q - 2) r + a,    a = |r| at the previous step.

Penalties keep their meaning, because weights have mean 1 (Poisson), or are 1 for residuals of one standard deviation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import xlogy

from dkdist._base.parameter_checks import check_choice, check_positive
from dkdist._numba.arrays import F64
from dkdist._utils.serialization import serializable
from dkdist.auto import _tuning
from dkdist.linear.kernel_ridge import INTERCEPT_KERNEL, duals


@serializable("PoissonLoss")
@dataclass(frozen=True)
class PoissonLoss:
    """Poisson deviance of counts. Targets and values of a selection are ``(log(count + 1/2) - centre) / scale``."""

    centre: F64
    scale: F64
    name = "squared error of log(count + 1/2)"
    score_name = "D^2 of the Poisson deviance"

    @staticmethod
    def encode(counts: F64) -> F64:
        """Return log(count + 1/2); ValueError for negative numbers."""
        if counts.min() < 0:
            i = int(np.argmin(counts.min(axis=1)))
            raise ValueError(
                f"y must not be negative with loss='poisson'; got {counts[i].min():g} (set {i}). Use another loss."
            )
        if not counts.any(axis=0).all():
            raise ValueError("y must have a count above 0 with loss='poisson'; got only zeros. Check y.")
        return np.log(counts + 0.5)

    @staticmethod
    def decode(values: F64) -> F64:
        """Return means of counts from values on the scale of their logarithm."""
        return np.exp(np.clip(values, -_tuning.MAX_LOG_MEAN, _tuning.MAX_LOG_MEAN))

    def duals(self, K: F64, y: F64, weights: F64, alpha: float) -> F64:
        """Return dual coefficients (n, t) of Poisson regressions, as `kernel_ridge.duals`."""
        counts, columns = self._counts(y), []
        for j, scale in enumerate(self.scale):
            rate = np.full(len(y), np.average(counts[:, j], weights=weights))
            for _ in range(_tuning.MAX_IRLS_STEPS):
                eta = np.log(rate)
                working = (eta + counts[:, j] / rate - 1 - self.centre[j]) / scale
                a = duals(K, working[:, None], weights * rate / np.average(rate, weights=weights), alpha)
                step = self.centre[j] + scale * (K @ a + INTERCEPT_KERNEL * a.sum())[:, 0] - eta
                rate = np.exp(eta + np.clip(step, -_tuning.MAX_LOG_MEAN_STEP, _tuning.MAX_LOG_MEAN_STEP))
                if np.abs(step).max() < _tuning.IRLS_ATOL * scale:
                    break
            columns.append(a)
        return np.concatenate(columns, axis=1)

    def working_response(self, y: F64, values: F64, weights: F64) -> tuple[F64, F64]:
        """Return working responses (n, t) and weights (n,) for held-out values (n, t), after their calibration.

        The mean of a count is exp(a + b value), with a and b >= 0 of a Poisson regression.
        """
        from sklearn.linear_model import PoissonRegressor

        counts, working, rates = self._counts(y), np.empty_like(y), np.empty_like(y)
        for j, scale in enumerate(self.scale):
            eta = np.full(len(y), np.log(np.average(counts[:, j], weights=weights)))
            if np.ptp(values[:, j]) > 0:
                line = PoissonRegressor(alpha=0, solver="newton-cholesky")
                line.fit(values[:, [j]], counts[:, j], weights)
                eta = line.intercept_ + line.coef_[0] * values[:, j] if line.coef_[0] > 0 else eta
            rates[:, j] = np.exp(eta)
            working[:, j] = (eta + counts[:, j] / rates[:, j] - 1 - self.centre[j]) / scale
        return working, weights * rates.mean(axis=1)

    def shift(self, y: F64, values: F64, weights: F64) -> F64:
        """Return the constants (t,) that minimise the loss if added to values (n, t) of a selection."""
        rates = self.decode(values * self.scale + self.centre)
        return np.asarray(np.log(weights @ self._counts(y) / (weights @ rates)) / self.scale)

    def errors(self, y: F64, values: F64) -> F64:
        """Return the deviance (n,) of values (n_repeats, n, t), summed over targets and averaged over repeats."""
        rates = self.decode(values * self.scale + self.centre)
        return np.asarray(np.mean([_deviances(self._counts(y), rate).sum(axis=1) for rate in rates], axis=0))

    def score(self, true: F64, predicted: F64) -> float:
        """Return the mean D^2 of counts and means (n, t)."""
        return _d_squared(_deviances(true, predicted), _deviances(true, true.mean(axis=0)))

    def _counts(self, y: F64) -> F64:
        return np.maximum(np.exp(y * self.scale + self.centre) - 0.5, 0)


@serializable("QuantileLoss")
@dataclass(frozen=True)
class QuantileLoss:
    """Pinball loss of a quantile."""

    quantile: float
    name = "squared error"

    @property
    def score_name(self) -> str:
        """Name of the score in summaries."""
        return f"D^2 of the pinball loss at {self.quantile:g}"

    @staticmethod
    def encode(targets: F64) -> F64:
        """Return the targets."""
        return targets

    @staticmethod
    def decode(values: F64) -> F64:
        """Return the values."""
        return values

    def duals(self, K: F64, y: F64, weights: F64, alpha: float) -> F64:
        """Return dual coefficients (n, t) of quantile regressions, as `kernel_ridge.duals`."""
        columns = []
        for j in range(y.shape[1]):
            a = duals(K, y[:, [j]], weights, alpha)
            fitted = K @ a + INTERCEPT_KERNEL * a.sum()
            deviation = np.sqrt(np.average((y[:, j] - fitted[:, 0]) ** 2, weights=weights))
            for _ in range(_tuning.MAX_IRLS_STEPS if deviation > 0 else 0):
                size = np.maximum(np.abs(y[:, [j]] - fitted), _tuning.MIN_RELATIVE_RESIDUAL * deviation)
                working = y[:, [j]] + (2 * self.quantile - 1) * size
                a = duals(K, working, weights * deviation / size[:, 0], alpha)
                previous, fitted = fitted, K @ a + INTERCEPT_KERNEL * a.sum()
                if np.abs(fitted - previous).max() < _tuning.IRLS_ATOL * deviation:
                    break
            columns.append(a)
        return np.concatenate(columns, axis=1)

    def shift(self, y: F64, values: F64, weights: F64) -> F64:
        """Return the constants (t,) that minimise the loss if added to values (n, t)."""
        return np.array([_quantile(r, self.quantile, weights) for r in (y - values).T])

    def score(self, true: F64, predicted: F64) -> float:
        """Return the mean D^2 of targets and quantiles (n, t)."""
        constant = np.quantile(true, self.quantile, axis=0)
        return _d_squared(self._losses(true, predicted), self._losses(true, constant))

    def _losses(self, true: F64, predicted: F64) -> F64:
        r = true - predicted
        return np.maximum(self.quantile * r, (self.quantile - 1) * r)


Loss = PoissonLoss | QuantileLoss


def _deviances(counts: F64, rates: F64) -> F64:
    """Return Poisson deviances; infinite for a positive count and rate 0."""
    ratio = np.divide(
        counts, rates, out=np.where(counts > 0, np.inf, 1.0), where=np.broadcast_to(rates, counts.shape) > 0
    )
    return np.asarray(2 * (xlogy(counts, ratio) - counts + rates))


def _d_squared(losses: F64, constant_losses: F64) -> float:
    """Return 1 - loss / loss of the best constant, averaged over targets, from losses (n, t).

    A constant target scores 1 if it is predicted exactly and 0 otherwise; a single row gives NaN.
    """
    if len(losses) < 2:
        return float("nan")
    loss, total = losses.sum(axis=0), constant_losses.sum(axis=0)
    return float(np.where(total > 0, 1 - loss / np.where(total > 0, total, 1), loss == 0).mean())


def _quantile(values: F64, quantile: float, weights: F64) -> Any:
    return np.quantile(values, quantile, weights=weights, method="inverted_cdf")


def make_loss(loss: Any, quantile: Any, centre: F64 | None = None, scale: F64 | None = None) -> Loss | None:
    """Return the loss of `SetRegressor` with selection targets of this centre and scale (t,); None if squared."""
    check_choice("loss", loss, ("squared_error", "poisson", "quantile"))
    level = check_positive("quantile", quantile)
    if level >= 1:
        raise ValueError(f"quantile must be between 0 and 1; got {quantile!r:.200}.")
    if loss == "quantile":
        return QuantileLoss(level)
    if loss == "squared_error":
        return None
    return PoissonLoss(np.ones(1) if centre is None else centre, np.ones(1) if scale is None else scale)


def d2_score(loss: Loss, y: Any, predicted: F64, weights: Any) -> float:
    """Return D^2 of targets y and predictions, as in scikit-learn."""
    from sklearn.metrics import d2_pinball_score, d2_tweedie_score

    if isinstance(loss, PoissonLoss):
        parts = zip(
            np.reshape(y, (len(predicted), -1)).T, predicted.reshape(len(predicted), -1).T, strict=True
        )
        return float(np.mean([d2_tweedie_score(t, p, sample_weight=weights, power=1) for t, p in parts]))
    return float(d2_pinball_score(y, predicted, sample_weight=weights, alpha=loss.quantile))


def with_working_response(data: Any, pilot: Any) -> Any:
    """Return counts with the working response of one step of Fisher scoring from predictions of a selected model.

    Predictions are held-out ones of the selection; of the model itself for sets that were not compared.
    """
    from dkdist.auto.successive_halving import best_average

    rows = np.searchsorted(data.positions, pilot.evaluation.rows)
    values = np.zeros_like(data.y)
    if not pilot.is_constant:  # noise would spread each target to the working responses of other folds
        if len(rows) < len(data):
            values = pilot.fold_predictions(data.sets).ensemble
        values[rows] = best_average(pilot.trials, pilot.evaluation).values.mean(axis=0)
    working, weights = data.fit_loss.working_response(data.y, values, data.weights)
    return replace(data, working=working, working_weights=weights)


def shift_trials(trials: Sequence[Any], evaluation: Any, loss: Loss) -> Sequence[Any]:
    """Return trials whose values, which were fitted by squared error, have the shift of the smallest loss."""
    if isinstance(loss, PoissonLoss):  # values of working responses are log means
        return trials
    y, weights = evaluation.y, evaluation.weights
    return [
        replace(trial, values=np.stack([v + loss.shift(y, v, weights) for v in trial.values]))
        for trial in trials
    ]
