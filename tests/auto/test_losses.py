"""Poisson and quantile regression: optimality conditions, scores of scikit-learn, and agreement with its models."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.linear_model import PoissonRegressor, QuantileRegressor
from sklearn.metrics import d2_pinball_score, d2_tweedie_score, mean_pinball_loss, mean_poisson_deviance

import dkdist as dk
from dkdist.auto.losses import PoissonLoss, QuantileLoss
from dkdist.linear.kernel_ridge import INTERCEPT_KERNEL, duals


def sets_with_means(rng, n):
    """Return sets of ten points, and their means (n, 3)."""
    sets = [rng.normal(m, 0.3, (10, 3)) for m in rng.normal(size=(n, 3))]
    return sets, np.array([x.mean(axis=0) for x in sets])


def kernel(rng, n):
    X = rng.normal(size=(n, 3))
    return X @ X.T / 3, X


def test_poisson_members_satisfy_the_optimality_condition():
    """At the optimum alpha a_i = w_i (y_i - mu_i) / (scale mean(mu)), with the weighted mean."""
    rng = np.random.default_rng(0)
    K, X = kernel(rng, 80)
    counts, w, alpha = rng.poisson(np.exp(1 + X[:, :1])), rng.uniform(0.5, 1.5, 80), 0.3
    logs = PoissonLoss.encode(counts.astype(float))
    loss = PoissonLoss(logs.mean(axis=0), logs.std(axis=0))
    a = loss.duals(K, (logs - loss.centre) / loss.scale, w, alpha)[:, 0]
    mu = np.exp(loss.centre + loss.scale * (K @ a + INTERCEPT_KERNEL * a.sum()))
    expected = w * (counts[:, 0] - mu) / (loss.scale * np.average(mu, weights=w))
    np.testing.assert_allclose(alpha * a, expected, atol=0.02 * np.abs(expected).max())
    assert np.average(mu, weights=w) == pytest.approx(np.average(counts[:, 0], weights=w), rel=0.01)


@pytest.mark.parametrize("q", [0.2, 0.9])
def test_quantile_members_minimise_the_penalised_loss(q):
    """The objective is 2 s sum w_i rho(r_i) + alpha |b|^2 / 2 for f = F b, with the deviation s of ridge residuals."""
    rng = np.random.default_rng(1)
    K, X = kernel(rng, 120)
    y, w = X[:, [0]] + rng.normal(size=(120, 1)), rng.uniform(0.5, 1.5, 120)
    F = np.column_stack([X / np.sqrt(3), np.full(120, np.sqrt(INTERCEPT_KERNEL))])
    ridge = duals(K, y, w, 0.5)
    s = np.sqrt(np.average((y - F @ (F.T @ ridge))[:, 0] ** 2, weights=w))

    def objective(b):
        r = y[:, 0] - F @ b
        return 2 * s * (w * np.maximum(q * r, (q - 1) * r)).sum() + 0.25 * b @ b

    own = F.T @ QuantileLoss(q).duals(K, y, w, 0.5)[:, 0]
    best = min(
        minimize(objective, own, method=m, options={"maxiter": 9999}).fun for m in ("Powell", "Nelder-Mead")
    )
    assert objective(own) <= 1.01 * best  # residuals below s / 100 are smoothed


def test_scores_equal_scikit_learn():
    rng = np.random.default_rng(2)
    counts, rates = rng.poisson(2.0, (50, 1)).astype(float), rng.uniform(1, 3, (50, 1))
    loss = PoissonLoss(np.zeros(1), np.ones(1))
    assert loss.score(counts, rates) == pytest.approx(d2_tweedie_score(counts[:, 0], rates[:, 0], power=1))
    errors = loss.errors(PoissonLoss.encode(counts), np.log(rates)[None])
    assert errors.mean() == pytest.approx(mean_poisson_deviance(counts[:, 0], rates[:, 0]))
    y, v = rng.normal(size=(51, 1)), rng.normal(size=(51, 1))
    assert QuantileLoss(0.3).score(y, v) == pytest.approx(d2_pinball_score(y, v, alpha=0.3))


def test_shifts_minimise_the_loss():
    rng = np.random.default_rng(3)
    counts, w = rng.poisson(3.0, (40, 1)).astype(float), rng.uniform(0.5, 1.5, 40)
    loss = PoissonLoss(np.array([0.3]), np.array([2.0]))
    y, values = (PoissonLoss.encode(counts) - 0.3) / 2, rng.normal(size=(40, 1)) / 4
    shifts = loss.shift(y, values, w) + np.linspace(-0.1, 0.1, 41)
    losses = [w @ loss.errors(y, (values + s)[None]) for s in shifts]
    assert np.argmin(losses) == 20
    r = rng.normal(size=(40, 1))
    (c,) = QuantileLoss(0.7).shift(r, np.zeros((40, 1)), w)
    assert c in r
    assert w[r[:, 0] < c].sum() <= 0.7 * w.sum() <= w[r[:, 0] <= c].sum()


@pytest.mark.parametrize("n", [400])
def test_counts_are_predicted_as_by_scikit_learn(n):
    rng = np.random.default_rng(104)
    sets, X = sets_with_means(rng, n + 2000)
    y = rng.poisson(np.exp(1 + X @ [0.7, -0.5, 0]))
    model = dk.SetRegressor(["means"], loss="poisson", budget=1e6, random_state=0).fit(sets[:n], y[:n])
    peer = PoissonRegressor(alpha=1e-3, max_iter=1000).fit(X[:n], y[:n])
    own, other = (mean_poisson_deviance(y[n:], p) for p in (model.predict(sets[n:]), peer.predict(X[n:])))
    assert own <= other + 0.01
    assert model.score(sets[n:], y[n:]) == pytest.approx(
        d2_tweedie_score(y[n:], model.predict(sets[n:]), power=1)
    )
    assert "D^2 of the Poisson deviance" in model.summary()
    scores = {entry["name"]: entry["score"] for entry in model.leaderboard_}
    assert scores["this model"] > 0.6
    assert abs(scores["constant"]) < 0.02
    low, high = model.predict_interval(sets[n:], 0.9).T
    assert 0.86 <= ((low <= y[n:]) & (y[n:] <= high)).mean() <= 0.97


def test_quantiles_are_predicted_as_by_scikit_learn():
    rng = np.random.default_rng(105)
    n = 400
    sets, X = sets_with_means(rng, n + 2000)
    y = X @ [0.7, -0.5, 0] + np.exp(X[:, 2] / 2) * rng.normal(size=len(X))
    model = dk.SetRegressor(["means"], loss="quantile", quantile=0.9, random_state=0)
    model.fit(sets[:n], y[:n])
    peer = QuantileRegressor(quantile=0.9, alpha=0).fit(X[:n], y[:n])
    own, other = (
        mean_pinball_loss(y[n:], p, alpha=0.9) for p in (model.predict(sets[n:]), peer.predict(X[n:]))
    )
    assert own <= other + 0.01
    assert (y[n:] <= model.predict(sets[n:])).mean() == pytest.approx(0.9, abs=0.04)
    assert model.score(sets[n:], y[n:]) == pytest.approx(
        d2_pinball_score(y[n:], model.predict(sets[n:]), alpha=0.9)
    )


def test_models_of_noise_predict_the_best_constant_and_are_saved(tmp_path):
    rng = np.random.default_rng(4)
    sets = list(rng.normal(size=(60, 5, 2)))
    y = rng.poisson(3.0, 60)
    for loss, constant in (("poisson", y.mean()), ("quantile", np.median(y))):
        model = dk.SetRegressor(["means"], loss=loss, random_state=0).fit(sets, y)
        if model.fallback_ == "constant":
            np.testing.assert_allclose(model.predict(sets), constant, rtol=1e-3)
        dk.save_model(model, tmp_path / "m.npz")
        loaded = dk.load_model(tmp_path / "m.npz")
        np.testing.assert_array_equal(loaded.predict(sets), model.predict(sets))
        assert loaded.score(sets, y) == model.score(sets, y)


def test_several_targets_are_fitted_by_column():
    rng = np.random.default_rng(5)
    sets, X = sets_with_means(rng, 60)
    y = rng.poisson(np.exp(1 + X[:, :2]))
    model = dk.SetRegressor(["means"], loss="poisson", cv=2, random_state=0).fit(sets, y)
    predicted = model.predict(sets)
    assert predicted.shape == (60, 2)
    assert np.corrcoef(predicted[:, 0], X[:, 0])[0, 1] > 0.7
    assert np.corrcoef(predicted[:, 1], X[:, 1])[0, 1] > 0.7


@pytest.mark.parametrize(
    ("arguments", "y", "message"),
    [
        (
            {"loss": "poisson"},
            np.arange(24) - 3,
            "must not be negative with loss='poisson'; got -3 \\(set 0\\)",
        ),
        ({"loss": "poisson"}, np.zeros(24), "y must have a count above 0"),
        ({"loss": "huber"}, np.arange(24), "loss must be one of"),
        ({"loss": "quantile", "quantile": 1}, np.arange(24), "quantile must be between 0 and 1"),
        ({"loss": "quantile", "quantile": 0}, np.arange(24), "quantile must be a positive number"),
    ],
)
def test_bad_targets_and_losses_are_refused_by_name(arguments, y, message):
    with pytest.raises(ValueError, match=message):
        dk.SetRegressor(**arguments).fit([np.zeros((2, 1))] * 24, y)
