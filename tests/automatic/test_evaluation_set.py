"""Losses of predictions: log loss compared with SciPy, significance of differences, R^2."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax
from sklearn.metrics import r2_score

from dkdist.auto.scoring import EvaluationSet, log_losses
from dkdist.auto.set_regressor import mean_r2

RNG = np.random.default_rng(0)
N = 200


def decision_values(t: int) -> tuple[np.ndarray, np.ndarray]:
    classes = RNG.integers(0, max(t, 2), N)
    values = RNG.normal(size=(2, N, t))
    if t == 1:
        values[..., 0] += 2 * classes - 1
    else:
        values[:, np.arange(N), classes] += 1
    return values, classes


@pytest.mark.parametrize("t", [1, 4])
def test_log_losses_use_the_best_scale(t: int) -> None:
    values, classes = decision_values(t)
    weights = RNG.uniform(0.5, 1.5, N)
    logits = np.concatenate([-values, values], axis=2) if t == 1 else values
    K = logits.shape[2]
    targets = np.full((N, K), 1 / (N + 2) / (K - 1))
    targets[np.arange(N), classes] = 1 - 1 / (N + 2)

    def losses(beta: float) -> np.ndarray:
        return np.asarray(-(targets * log_softmax(beta * logits, axis=2)).sum(axis=2))

    best = minimize_scalar(
        lambda beta: float((losses(beta) @ weights).sum()), bounds=(0, 50), method="bounded"
    )
    # a relative error of 1e-3 in beta changes each loss by about 1e-3 of its logits, and the mean by its square
    result = log_losses(values, classes, weights)
    np.testing.assert_allclose(result, losses(best.x).mean(axis=0), atol=1e-3)
    assert result @ weights == pytest.approx(losses(best.x).mean(axis=0) @ weights, rel=1e-6)


@pytest.mark.parametrize("t", [1, 4])
def test_loss_does_not_depend_on_scale_of_decision_values(t: int) -> None:
    values, classes = decision_values(t)
    evaluation = EvaluationSet(values[0], np.ones(N), [], np.arange(N), classes)
    assert evaluation.loss(3 * values) == pytest.approx(evaluation.loss(values), rel=1e-5)


def test_losses_of_separated_classes_are_finite() -> None:
    classes = np.arange(N) % 3
    values = np.where(np.arange(3) == classes[:, None], 1e3, -1e3)[None].astype(float)
    result = log_losses(values, classes, np.ones(N))
    assert np.isfinite(result).all()
    assert np.isfinite(log_losses(-values, classes, np.ones(N))).all()
    assert result.max() < 0.05


def test_regression_loss_and_significance() -> None:
    y = RNG.normal(size=(N, 2))
    evaluation = EvaluationSet(y, np.ones(N), [], np.arange(N))
    near, far = (y + scale * RNG.normal(size=(2, N, 2)) for scale in (0.1, 1.0))
    assert evaluation.loss(near) == pytest.approx(((near - y) ** 2).sum(axis=2).mean())
    assert evaluation.is_significantly_worse(far, near)
    assert not evaluation.is_significantly_worse(near, far)
    assert not evaluation.is_significantly_worse(near, near)


@pytest.mark.parametrize("constant", [False, True])
def test_r2_matches_scikit_learn(constant: bool) -> None:
    rng = np.random.default_rng(0)
    true, predicted = rng.normal(size=(2, 20, 3))
    if constant:
        true[:, 1] = predicted[:, 1] = true[:, 2] = 0.5  # predicted exactly, and not
    assert mean_r2(true, predicted) == pytest.approx(r2_score(true, predicted), rel=1e-12)
    assert np.isnan(mean_r2(true[:1], predicted[:1]))
