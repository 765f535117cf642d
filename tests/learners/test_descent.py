"""Compiled inner loop of stochastic gradient descent, compared with scikit-learn."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import SGDClassifier, SGDRegressor

from dkdist._numba.sgd import SGDParams, SGDState, descend
from dkdist.linear.sgd_steps import CLASSIFIER_LOSSES, LOSSES


def problem(n: int, D: int, seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, D)) / np.sqrt(D)
    return X, X @ rng.standard_normal(D)


def run(X: Any, Y: Any, loss: str, alpha: float, eta: float, epsilon: float = 0.1, every: int = 64) -> Any:
    K, D = Y.shape[1], X.shape[1]
    W, b = np.zeros((K, D), X.dtype), np.zeros(K)
    M, B = W.copy(), b.copy()
    step, decay = np.full(K, eta), np.full(K, max(0.0, 1.0 - eta * alpha))
    steps = SGDParams(Y, np.ones(len(X)), LOSSES[loss].number, epsilon, step, decay, every)
    n = descend(X, np.arange(len(X)), steps, SGDState(W, b, M, B, np.ones(K)), 0)
    return W, b, M, B, n


@pytest.mark.parametrize("dtype", ["f4", "f8"])
@pytest.mark.parametrize("alpha", [0.0, 1e-4, 0.3])
@pytest.mark.parametrize("loss", LOSSES)
def test_last_iterate_matches_scikit_learn(loss: str, alpha: float, dtype: str) -> None:
    X, y = problem(700, 37)
    estimator_class: Any = SGDClassifier if loss in CLASSIFIER_LOSSES else SGDRegressor
    target = np.sign(y) if estimator_class is SGDClassifier else y
    model = estimator_class(
        loss=loss, alpha=alpha, learning_rate="constant", eta0=0.5, epsilon=0.1, shuffle=False, max_iter=1, tol=None
    ).fit(X, target)  # fmt: skip
    W, b, *_ = run(X.astype(dtype), target[:, None], loss, alpha, 0.5)
    tolerance = 1e-9 if dtype == "f8" else 1e-3
    scale = np.abs(model.coef_).max()
    np.testing.assert_allclose(W[0], model.coef_.ravel(), atol=tolerance * scale)
    np.testing.assert_allclose(b, model.intercept_, atol=tolerance * max(scale, 1.0))


@pytest.mark.parametrize("strength", [0.9, 1.0, 3.0])
def test_strong_penalty_keeps_only_the_last_step(strength: float) -> None:
    """eta alpha >= 1 removes all earlier steps; 0.9 rescales the weights every few rows."""
    X, y = problem(300, 8)
    W, *_ = run(X, y[:, None], "squared_error", strength / 0.5, 0.5)
    w, b = np.zeros(8), 0.0
    for x, target in zip(X, y, strict=True):
        r = w @ x + b - target
        w, b = max(0.0, 1.0 - strength) * w - 0.5 * r * x, b - 0.5 * r
    np.testing.assert_allclose(W[0], w, rtol=1e-9)


@pytest.mark.parametrize(("n", "every"), [(256, 64), (300, 64), (5, 64), (10, 1)])
def test_average_weights_iterates_by_their_number(n: int, every: int) -> None:
    X, y = problem(n, 6)
    *_, M, B, count = run(X, y[:, None], "squared_error", 1e-2, 0.5, every=every)
    ends = sorted({*range(every, n + 1, every), n})
    iterates = [run(X[:end], y[:end, None], "squared_error", 1e-2, 0.5, every=n + 1)[:2] for end in ends]
    weights = np.arange(1, len(ends) + 1)
    assert count == len(ends)
    np.testing.assert_allclose(M, np.average([w for w, _ in iterates], axis=0, weights=weights), rtol=1e-9)
    np.testing.assert_allclose(B, np.average([b for _, b in iterates], axis=0, weights=weights), rtol=1e-9)


def test_functions_that_share_rows_match_separate_fits() -> None:
    X, y = problem(400, 20)
    X = X.astype("f4")
    Y = np.sign(np.stack([y, -y, y - 0.1], axis=1))
    joint = run(X, Y, "log_loss", 1e-3, 2.0)
    for k in range(3):
        single = run(X, np.ascontiguousarray(Y[:, k : k + 1]), "log_loss", 1e-3, 2.0)
        for a, b in zip(joint[:4], single[:4], strict=True):
            np.testing.assert_array_equal(a[k], b[0])


def test_functions_have_separate_steps_and_penalties() -> None:
    X, y = problem(300, 8)
    etas, alphas = np.array([0.5, 0.1, 0.5]), np.array([0.0, 1e-3, 1.9])
    W, b = np.zeros((3, 8)), np.zeros(3)
    M, B = W.copy(), b.copy()
    Y = np.tile(y[:, None], 3)
    decay = np.maximum(0.0, 1.0 - etas * alphas)
    steps = SGDParams(Y, np.ones(300), LOSSES["squared_error"].number, 0.1, etas, decay, 64)
    descend(X, np.arange(300), steps, SGDState(W, b, M, B, np.ones(3)), 0)
    for k in range(3):
        single = run(X, y[:, None], "squared_error", alphas[k], etas[k])
        for result, expected in zip((W[k], b[k], M[k], B[k]), single, strict=False):
            np.testing.assert_array_equal(result, np.squeeze(expected))


@pytest.mark.parametrize("n", [1, 3, 4, 41, 42, 43, 44])
@pytest.mark.parametrize("every", [64, 6, 4, 1])
def test_groups_of_four_rows_match_sequential_steps(n: int, every: int) -> None:
    """Covers long rows, incomplete groups of four, averages within a group, and weights or gradients of 0."""
    X, y = problem(n, 2500, seed=n)
    weights, alpha, eta = np.random.default_rng(n).choice([0.0, 0.5, 2.0], n), 1e-2, 0.5
    for loss, target in (("squared_error", y), ("hinge", np.sign(y))):
        w, b, M, count = np.zeros(2500), 0.0, np.zeros(2500), 0
        for t in range(n):
            p = w @ X[t] + b
            g = weights[t] * (p - target[t] if loss == "squared_error" else -target[t] * (target[t] * p <= 1))
            w, b = (1 - eta * alpha) * w - eta * g * X[t], b - eta * g
            if (t + 1) % every == 0 or t + 1 == n:
                count += 1
                M += 2 / (count + 1) * (w - M)
        result, mean = np.zeros((1, 2500)), np.zeros((1, 2500))
        steps = SGDParams(
            target[:, None],
            weights,
            LOSSES[loss].number,
            0.1,
            np.array([eta]),
            np.array([1 - eta * alpha]),
            every,
        )
        iterate = SGDState(result, np.zeros(1), mean, np.zeros(1), np.ones(1))
        assert descend(X, np.arange(n), steps, iterate, 0) == count
        np.testing.assert_allclose(result[0], w, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(mean[0], M, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(iterate.b[0], b, rtol=1e-9, atol=1e-12)
