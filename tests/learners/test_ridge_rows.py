"""Ridge regression with fewer rows than features, compared with scikit-learn and with refits without a row."""

import numpy as np
import pytest
from sklearn.linear_model import Ridge, RidgeCV

import dkdist as dk
from dkdist.linear.ridge_rows import DualProblem, SampledRows

ALPHAS = np.array([1e-4, 1e-2, 1.0, 100.0])


def problem(n=40, D=300, k=2, seed=0, offset=5.0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, D)) + offset
    return X, X[:, :3] @ rng.standard_normal((3, k)) + 0.1 * rng.standard_normal((n, k)) + 7.0


def sampled_rows(X, y):
    return SampledRows(
        X, y, np.zeros(len(X), np.bool_), np.ones(len(X)), np.zeros(len(X)), np.zeros(0, np.int64)
    )


@pytest.mark.parametrize("centre", [True, False])
@pytest.mark.parametrize("alpha", ALPHAS)
def test_solution_matches_scikit_learn(centre, alpha):
    X, y = problem()
    w, b = DualProblem.of(sampled_rows(X, y), centre).solution(float(alpha))
    model = Ridge(alpha, fit_intercept=centre, solver="svd").fit(X, y)
    np.testing.assert_allclose(w.T, model.coef_, atol=1e-9 * np.abs(model.coef_).max())
    np.testing.assert_allclose(b, model.intercept_, atol=1e-9 * np.abs(y).max())


@pytest.mark.parametrize("centre", [True, False])
def test_leave_one_out_errors_match_refits(centre):
    X, y = problem(15, 30)
    errors = DualProblem.of(sampled_rows(X, y), centre).leave_one_out_errors(ALPHAS)
    for alpha, error in zip(ALPHAS, errors, strict=True):
        errors_of_refits = []
        for i in range(len(X)):
            others = np.arange(len(X)) != i
            model = Ridge(alpha, fit_intercept=centre, solver="svd").fit(X[others], y[others])
            errors_of_refits.append(y[i] - model.predict(X[i : i + 1])[0])
        np.testing.assert_allclose(error, np.mean(np.square(errors_of_refits)), rtol=1e-7)


def test_equal_rows_and_constant_features():
    """K is singular: the solution has minimum norm."""
    X, y = problem(20, 50)
    X, y = np.repeat(X, 2, axis=0), np.repeat(y, 2, axis=0)
    X[:, 7] = 3.0
    w, _ = DualProblem.of(sampled_rows(X, y), True).solution(1e-12)
    expected = np.linalg.lstsq(X - X.mean(axis=0), y - y.mean(axis=0), rcond=1e-10)[0]
    np.testing.assert_allclose(w, expected, atol=1e-6)
    assert np.isfinite(DualProblem.of(sampled_rows(X, y), True).leave_one_out_errors(ALPHAS)).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_primal_and_dual_solutions_match_ridge_cv(dtype):
    X, y = problem(61, 60, offset=0.0)
    dual, primal = (
        dk.IncrementalRidge(ALPHAS, selection="leave-one-out").fit(X[:n].astype(dtype), y[:n])
        for n in (60, 61)
    )
    for n, model in ((60, dual), (61, primal)):
        oracle = RidgeCV(ALPHAS).fit(X[:n], y[:n])
        assert model.alpha_ == oracle.alpha_
        scale = np.abs(oracle.coef_).max()
        np.testing.assert_allclose(
            model.coef_, oracle.coef_, atol=(1e-2 if dtype == np.float32 else 1e-8) * scale
        )


def test_blocks_and_skipped_rows_do_not_change_the_fit():
    da = pytest.importorskip("dask.array")
    X, y = problem(50, 120, k=1)
    X[[3, 30], 5] = np.nan
    whole = dk.IncrementalRidge(on_error="skip", random_state=0)
    with pytest.warns(UserWarning, match="left out of fit"):
        whole.fit(X, y[:, 0])
    with pytest.warns(UserWarning, match="left out of fit"):
        lazy = dk.IncrementalRidge(on_error="skip", random_state=0).fit(
            da.from_array(X, chunks=(7, 120)), y[:, 0]
        )
    np.testing.assert_array_equal(lazy.skipped_, [3, 30])
    np.testing.assert_array_equal(lazy.coef_, whole.coef_)
    np.testing.assert_array_equal(lazy.alpha_errors_, whole.alpha_errors_)


@pytest.mark.parametrize("selection", ["held-out", "leave-one-out"])
@pytest.mark.parametrize(("of_X", "of_y"), [(1e200, 1.0), (1.0, 1e200)])
def test_overflowing_squares_raise(selection, of_X, of_y):
    X, y = problem(30, 60, k=1)
    with pytest.raises(ValueError, match="finite sums of squares"):
        dk.IncrementalRidge(selection=selection, random_state=0).fit(X * of_X, of_y * y[:, 0])
