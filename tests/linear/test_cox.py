"""Penalised Cox regression and concordance, compared with textbook formulas, closed forms and scikit-survival."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from scipy.optimize import brentq, minimize

from dkdist.linear import cox
from dkdist.linear._tuning import COX_RTOL
from dkdist.linear.concordance import comparable_pairs, concordance
from dkdist.linear.cox import ArrayRows, Curvature, Survival, fit_cox, fit_kernel_cox


def survival(event: Any, time: Any, weights: Any = None) -> Survival:
    time = np.asarray(time, float)
    return Survival(np.asarray(event, bool), time, np.ones(len(time)) if weights is None else weights)


def simulate(n: int, p: int, seed: int, weighted: bool = True) -> tuple[np.ndarray, Survival]:
    """Return rows and times with ties, of which about a third are censored."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p))
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    death, end = rng.exponential(np.exp(-X[:, :2].sum(axis=1))), rng.exponential(2, n)
    time = np.round(np.minimum(death, end) + 0.05, 1)
    return X, survival(death <= end, time, rng.uniform(0.5, 2, n) if weighted else None)


def textbook_log_likelihood(y: Survival, f: np.ndarray) -> float:
    """Return sum over events of m_i (f_i - log of the sum of m_j exp(f_j) over rows at risk)."""
    return sum(
        y.weights[i] * (f[i] - np.log(sum(y.weights[j] * np.exp(f[j]) for j in np.flatnonzero(y.time >= y.time[i]))))
        for i in np.flatnonzero(y.event)
    )  # fmt: skip


def textbook_concordance(y: Survival, risk: np.ndarray) -> float:
    concordant = total = 0.0
    for i in np.flatnonzero(y.event):
        for j in range(len(risk)):
            if y.time[j] > y.time[i] or (y.time[j] == y.time[i] and not y.event[j]):
                weight = y.weights[i] * y.weights[j]
                total += weight
                concordant += weight * ((risk[i] > risk[j]) + 0.5 * (risk[i] == risk[j]))
    return concordant / total


def test_partial_likelihood_matches_the_textbook_formula() -> None:
    X, y = simulate(40, 3, 0)
    f = X @ [1.0, -2.0, 0.5]
    assert y.log_likelihood(f) == pytest.approx(textbook_log_likelihood(y, f), rel=1e-12)


def test_residuals_are_the_gradient_of_the_partial_likelihood() -> None:
    X, y = simulate(30, 2, 1)
    f, step = X @ [1.0, -1.0], 1e-5
    gradient = [
        (textbook_log_likelihood(y, f + d) - textbook_log_likelihood(y, f - d)) / (2 * step)
        for d in step * np.eye(30)
    ]
    # central differences: step^2 / 6 times third derivatives, and rounding of a likelihood of about 100 over step
    np.testing.assert_allclose(y.residuals(f), gradient, atol=1e-8)
    assert abs(y.residuals(f).sum()) < 1e-12


def test_null_residuals_are_events_minus_nelson_aalen_estimates() -> None:
    y = survival([1, 0, 1, 1], [1, 2, 2, 5])
    # hazards 1/4 at time 1, 1/3 at time 2 (the censored row is at risk), 1 at time 5
    hazards = np.array([1 / 4, 1 / 4 + 1 / 3, 1 / 4 + 1 / 3, 1 / 4 + 1 / 3 + 1])
    np.testing.assert_allclose(y.null_residuals(), [1, 0, 1, 1] - hazards, rtol=1e-14)


def test_three_rows_by_hand() -> None:
    # rows 1, 0, 0 with events at 1, 2 and censoring at 3: l(w) = w - log(e^w + 2) - log 2,
    # l'(w) = 2 / (e^w + 2), so the minimum of -l + w^2 / 2 solves w (e^w + 2) = 2
    y = survival([1, 1, 0], [1, 2, 3])
    w, f = fit_cox(ArrayRows(np.array([[1.0], [0.0], [0.0]])), y, 1.0)
    assert w[0] == pytest.approx(brentq(lambda w: w * (np.exp(w) + 2) - 2, 0, 1, xtol=1e-14), abs=1e-9)
    np.testing.assert_array_equal(f, [w[0], 0, 0])
    np.testing.assert_allclose(y.baseline(f), np.cumsum([1 / (np.exp(w[0]) + 2), 1 / 2]), rtol=1e-14)


@pytest.mark.parametrize(("n", "p", "alpha"), [(60, 3, 0.1), (60, 3, 10.0), (25, 40, 1.0), (300, 5, 1.0)])
def test_solutions_match_a_general_minimiser_of_the_textbook_formula(n: int, p: int, alpha: float) -> None:
    X, y = simulate(n, p, n + p)
    at_risk = y.time[None, :] >= y.time[y.event][:, None]

    def objective(w: np.ndarray) -> tuple[float, np.ndarray]:
        f = X @ w
        risk = at_risk * (y.weights * np.exp(f))
        means = risk @ X / risk.sum(axis=1)[:, None]
        loss = alpha / 2 * w @ w - y.weights[y.event] @ (f[y.event] - np.log(risk.sum(axis=1)))
        return loss, alpha * w - y.weights[y.event] @ (X[y.event] - means)

    reference = minimize(
        objective, np.zeros(p), jac=True, tol=1e-14, options={"gtol": 1e-9, "maxiter": 10_000}
    ).x
    w, f = fit_cox(ArrayRows(X), y, alpha)
    # strongly convex: the distance is at most |gradient| / alpha, of the reference and of the result
    bound = (np.linalg.norm(objective(reference)[1]) + np.linalg.norm(objective(w)[1])) / alpha
    assert bound < 1e-4
    np.testing.assert_allclose(w, reference, atol=bound)
    a, g = fit_kernel_cox(X @ X.T, y, alpha)
    np.testing.assert_allclose(g, f, atol=1e-6)
    np.testing.assert_allclose(X.T @ a, w, atol=1e-5)
    assert abs(a.sum()) < 1e-8


@pytest.mark.parametrize("alpha", [0.1, 1.0, 10.0])
def test_coefficients_match_scikit_survival(alpha: float) -> None:
    linear_model = pytest.importorskip("sksurv.linear_model")
    X, y = simulate(200, 6, 5, weighted=False)
    records = np.array(list(zip(y.event, y.time, strict=True)), dtype=[("event", bool), ("time", float)])
    reference = linear_model.CoxPHSurvivalAnalysis(alpha=alpha, ties="breslow", tol=1e-12).fit(X, records)
    np.testing.assert_allclose(fit_cox(ArrayRows(X), y, alpha)[0], reference.coef_, atol=1e-6)


def test_the_bound_of_the_hessian_is_exact_with_few_event_times_and_above_it_otherwise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    X, y = simulate(80, 3, 2)
    f = X @ [1.0, -1.0, 0.5]
    gradients = [X.T @ y.residuals(f + s * 1e-6 * X[:, j]) for j in range(3) for s in (1, -1)]
    hessian = np.array([(gradients[2 * j + 1] - gradients[2 * j]) / 2e-6 for j in range(3)])
    for n_intervals in (64, 4):
        monkeypatch.setattr(cox, "MAX_TIME_INTERVALS", n_intervals)
        curvature = y.curvature(f)
        excess = curvature.matrix(*curvature.sums(X)) - hessian
        if n_intervals == 64:
            np.testing.assert_allclose(excess, 0, atol=1e-6)
        else:
            assert np.linalg.eigvalsh((excess + excess.T) / 2).min() > -1e-6
            assert excess.trace() > 0.01


@dataclass(frozen=True)
class BlockRows:
    """Rows in blocks of unequal sizes, as of a store."""

    blocks: list[np.ndarray]

    @property
    def n_columns(self) -> int:
        return self.blocks[0].shape[1]

    def products(self, w: np.ndarray) -> np.ndarray:
        return np.concatenate([block @ w for block in self.blocks])

    def sums(self, residuals: np.ndarray, curvature: Curvature) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        p, B = self.n_columns, len(curvature.events)
        total, start = [np.zeros(p), np.zeros((p, p)), np.zeros((B, p))], 0
        for block in self.blocks:
            rows = slice(start, start + len(block))
            for sums, part in zip(
                total, (block.T @ residuals[rows], *curvature.take(rows).sums(block)), strict=True
            ):
                sums += part
            start += len(block)
        return total[0], total[1], total[2]


def test_blocks_of_rows_have_the_solution_of_all_rows() -> None:
    X, y = simulate(2000, 4, 3)
    y = survival(
        y.event, y.time + np.random.default_rng(0).uniform(0, 0.1, 2000), y.weights
    )  # 1,000 event times
    assert len(y.event_times) > 1000
    w, f = fit_cox(BlockRows(np.array_split(X, [100, 150, 1200])), y, 1.0)
    np.testing.assert_allclose(w, fit_cox(ArrayRows(X), y, 1.0)[0], rtol=1e-9)
    # the gradient is exact although the Hessian is a bound, so the criterion of convergence holds for the minimum
    gradient, H = X.T @ y.residuals(f) - w, y.curvature(f).matrix(*y.curvature(f).sums(X))
    assert gradient @ np.linalg.solve(H, gradient) < COX_RTOL * y.weights[y.event].sum()
    assert y.log_likelihood(f) == pytest.approx(y.log_likelihood(X @ w))


def test_hazard_ratio_of_exponential_times_is_found() -> None:
    rng = np.random.default_rng(4)
    x = rng.normal(size=4000)
    death, end = rng.exponential(np.exp(-0.7 * x)), rng.exponential(2, 4000)
    y = survival(death <= end, np.minimum(death, end))
    w, f = fit_cox(ArrayRows(x[:, None]), y, 1e-6)
    error = 1 / np.sqrt(y.curvature(f).matrix(*y.curvature(f).sums(x[:, None]))[0, 0])
    assert abs(w[0] - 0.7) < 4 * error < 0.1
    times = y.event_times[: int(0.9 * len(y.event_times))]
    # the true baseline is t; the standard error of the estimate is about sqrt(t / n at risk)
    np.testing.assert_allclose(y.baseline(f)[: len(times)], times, atol=0.15)


def test_huge_log_hazards_do_not_overflow() -> None:
    y = survival([1, 1, 0, 1], [1, 2, 3, 4])
    f = np.array([2000.0, -2000.0, 1500.0, 0.0])
    assert np.isfinite(y.log_likelihood(f))
    assert np.isfinite(y.residuals(f)).all()
    w, _ = fit_cox(ArrayRows(f[:, None]), y, 1e-3)
    assert np.isfinite(w).all()


@pytest.mark.parametrize("seed", range(20))
def test_concordance_matches_a_loop_over_pairs(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(4, 60))
    y = survival(rng.random(n) < 0.6, rng.integers(1, 9, n), rng.uniform(0.5, 2, n))
    risk = rng.integers(0, 7, n) * 1.0
    if comparable_pairs(y) > 0:
        assert concordance(y, risk) == pytest.approx(textbook_concordance(y, risk), rel=1e-12)
        assert concordance(y, np.zeros(n)) == pytest.approx(0.5, rel=1e-12)


def test_three_pairs_of_concordance_by_hand() -> None:
    # events at 1 and 2, censored at 2: pairs (0, 1), (0, 2), and (1, 2) as the event precedes censoring
    y = survival([1, 1, 0], [1, 2, 2])
    assert comparable_pairs(y) == 3
    assert concordance(y, np.array([3.0, 1.0, 2.0])) == pytest.approx(2 / 3)
    assert concordance(y, np.array([3.0, 1.0, 1.0])) == pytest.approx(2.5 / 3)
    assert concordance(survival([0, 0, 1], [1, 2, 3]), np.arange(3.0)) == 0.5  # no comparable pair


def test_a_weight_of_two_is_two_rows() -> None:
    X, y = simulate(50, 2, 7, weighted=False)
    weights = np.random.default_rng(0).integers(1, 3, 50)
    twice = np.repeat(np.arange(50), weights)
    w, f = fit_cox(ArrayRows(X), Survival(y.event, y.time, weights * 1.0), 1.0)
    repeated, _ = fit_cox(ArrayRows(X[twice]), y.take(twice), 1.0)
    np.testing.assert_allclose(w, repeated, rtol=1e-8)
    np.testing.assert_allclose(
        y.take(twice).baseline(f[twice]), Survival(y.event, y.time, weights * 1.0).baseline(f)
    )
