"""Sufficient statistics of ridge regression: sums, shifts and errors, compared with plain linear algebra."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dkdist.linear.ridge_rows import LeaveOneOutPass, accumulate, add_leave_one_out_errors
from dkdist.linear.ridge_statistics import (
    COLUMNS_PER_PRODUCT,
    Statistics,
    add_rows,
    held_out_errors,
    invert,
    merge,
    normal_equations,
    recenter,
    solve,
    spectrum,
)
from dkdist.linear.rows import RowBatch, RowLabels


def rows_for(y: Any, sizes: tuple[int, ...], d: int, held: Any = None) -> RowBatch:
    starts = tuple(np.cumsum((0, *sizes[:-1])).tolist())
    return RowBatch(starts, sizes, d, RowLabels(y, np.zeros(len(y), bool) if held is None else held))


def sums(X: Any, y: Any, centre: bool = True) -> Statistics:
    return accumulate(X.dtype, centre, False, None, iter([X]), rows_for(y, (len(X),), X.shape[1])).parts[0]


def upper(A: Any) -> Any:
    return np.triu(A)


def problem(n: int = 1300, d: int = 7, k: int = 2, offset: float = 0.0, seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) @ rng.standard_normal((d, d)) + offset * rng.random(d)
    return X, X @ rng.standard_normal((d, k)) + rng.standard_normal((n, k)) + 3.0


def exact(X: Any, y: Any, alpha: float) -> tuple[Any, Any]:
    mx, my = X.mean(axis=0), y.mean(axis=0)
    w = np.linalg.solve((X - mx).T @ (X - mx) + alpha * np.eye(X.shape[1]), (X - mx).T @ (y - my))
    return w, my - mx @ w


@pytest.mark.parametrize("d", [7, 600])  # one panel, and more than one
def test_statistics_match_their_definition(d: int) -> None:
    X, y = problem(1300, d)
    s = sums(X, y)
    Z = X - s.shift
    np.testing.assert_allclose(upper(s.zz), upper(Z.T @ Z), rtol=1e-9, atol=1e-7 * len(X))
    np.testing.assert_allclose(s.zy, Z.T @ y, rtol=1e-9, atol=1e-7 * len(X))
    np.testing.assert_allclose(s.sum_z, Z.sum(axis=0), atol=1e-6 * len(X))
    assert s.n == len(X)


def test_sums_of_float32_are_accurate() -> None:
    D = COLUMNS_PER_PRODUCT + 30
    X = np.random.default_rng(0).random((5000, D), np.float32)  # positive values lose most digits
    s = sums(X, np.zeros((5000, 1)), centre=False)
    exact = X.T.astype("f8") @ X
    error = (s.zz - exact)[np.triu_indices(D)] / exact.max()
    # four roundings: sums of up to 400 terms, then of about ten partial sums
    assert np.sqrt((error**2).mean()) < 2.5e-7
    assert not np.tril(s.zz, -COLUMNS_PER_PRODUCT).any()  # the lower half is not computed


def test_statistics_do_not_depend_on_blocks() -> None:
    X = np.random.default_rng(0).standard_normal((5000, 40)).astype(np.float32)
    y, sizes = X[:, :1].astype(np.float64), (7, 1500, 3000, 493)
    pieces = np.split(X, np.cumsum(sizes)[:-1])
    blockwise = accumulate(X.dtype, False, False, None, iter(pieces), rows_for(y, sizes, 40)).parts[0]
    whole = sums(X, y, centre=False)
    np.testing.assert_array_equal(blockwise.zz, whole.zz)
    np.testing.assert_array_equal(blockwise.zy, whole.zy)
    rounding = 2**-24 * 1024 * np.abs(X).sum(axis=0)  # sums of up to 1,024 terms
    assert (np.abs(blockwise.sum_z - whole.sum_z) <= 2 * rounding).all()
    assert (blockwise.n, len(X)) == (whole.n, 5000)


def test_weights_beyond_float32() -> None:
    X = np.random.default_rng(0).standard_normal((300, 5)).astype(np.float32)
    y, w, far = X[:, :1].astype(np.float64), np.linspace(0.5, 2, 300), 2.0**70
    usual = add_rows(Statistics.empty(5, 1), X, y, w, True)
    heavy = add_rows(Statistics.empty(5, 1), X / np.float32(far), y / far, w * far**2, True)
    np.testing.assert_array_equal(heavy.zz, usual.zz)
    np.testing.assert_array_equal(heavy.zy, usual.zy)
    np.testing.assert_array_equal(heavy.sum_z, usual.sum_z * far)
    assert heavy.n == usual.n * far**2


@settings(max_examples=25)
@given(st.integers(1, 40), st.integers(1, 40), st.floats(-1e3, 1e3), st.integers(0, 1000))
def test_merge_gives_the_statistics_of_all_rows(n: int, m: int, offset: float, seed: int) -> None:
    X, y = problem(n + m, 3, offset=offset, seed=seed)
    a, b = sums(X[:n], y[:n]), sums(X[n:], y[n:])
    before_merge = pickle.dumps((a, b))
    ab, whole = merge(a, b), recenter(sums(X, y), a.shift)
    scale = np.abs(X - a.shift).max() ** 2 * (n + m)
    np.testing.assert_allclose(upper(ab.zz), upper(whole.zz), atol=1e-11 * scale)
    np.testing.assert_allclose(ab.zy, whole.zy, atol=1e-11 * scale * max(1.0, np.abs(y).max()))
    assert pickle.dumps((a, b)) == before_merge
    assert merge(Statistics.empty(3, 2), b) is b


def test_training_and_held_out_rows_have_separate_sums() -> None:
    X, y = problem(1300)
    held = np.arange(1300) % 5 == 2
    rows = rows_for(y, (700, 600), 7, held)
    train, held_out = accumulate(X.dtype, True, True, None, iter([X[:700], X[700:]]), rows).parts
    assert (train.n, held_out.n) == (1040, 260)
    for s, part in ((train, ~held), (held_out, held)):
        C = np.cov(X[part].T, bias=True) * part.sum()
        np.testing.assert_allclose(upper(normal_equations(s, True).C), upper(C), rtol=1e-9, atol=1e-8)


def coefficients(equations: Any, alpha: float) -> Any:
    return solve(equations, invert(equations, alpha))


@pytest.mark.parametrize(("dtype", "tolerance"), [("f8", 1e-9), ("f4", 2e-4)])
def test_large_offset_is_accurate(dtype: str, tolerance: float) -> None:
    X, y = problem(1300, offset=1e3)
    X = X.astype(dtype)
    w, b = coefficients(normal_equations(merge(sums(X[:500], y[:500]), sums(X[500:], y[500:])), True), 0.3)
    expected, intercept = exact(X.astype("f8"), y, 0.3)
    np.testing.assert_allclose(w, expected, atol=tolerance)
    np.testing.assert_allclose(b, intercept, atol=tolerance * 1e4)


def test_rows_are_not_centred_without_intercept() -> None:
    X, y = problem(offset=2.0)
    w, b = coefficients(normal_equations(sums(X, y, centre=False), False), 0.3)
    np.testing.assert_allclose(w, np.linalg.solve(X.T @ X + 0.3 * np.eye(7), X.T @ y), rtol=1e-8)
    assert (b == 0).all()


def test_tiny_alpha_is_solved_by_eigenvalues() -> None:
    X, y = problem(50, 7)
    X = np.concatenate([X, X], axis=1).astype("f4")  # singular: C is not positive definite in float32
    equations = normal_equations(sums(X, y), True)
    equations.C[3, 3] -= 1e-3  # simulates rounding
    w, b = coefficients(equations, 1e-9)
    fitted, truth = X @ w + b, X[:, :7] @ exact(X[:, :7].astype("f8"), y, 0.0)[0]
    assert np.isfinite(w).all()
    assert np.abs((fitted - fitted.mean(axis=0)) - (truth - truth.mean(axis=0))).max() < 0.05


def test_held_out_errors_from_statistics() -> None:
    X, y = problem(900, offset=30.0)
    alphas = np.array([1e-2, 1.0, 300.0])
    errors = held_out_errors(normal_equations(sums(X[:700], y[:700]), True), sums(X[700:], y[700:]), alphas)
    for alpha, error in zip(alphas, errors, strict=True):
        w, b = exact(X[:700], y[:700], alpha)
        assert error == pytest.approx(((y[700:] - X[700:] @ w - b) ** 2).mean(), rel=1e-9)


def test_leave_one_out_errors_match_refits() -> None:
    X, y = problem(40, 5)
    alphas, rows = np.array([0.1, 10.0]), rows_for(y, (40,), 5)
    equations = normal_equations(sums(X, y), True)
    known = LeaveOneOutPass.of(equations, spectrum(equations), alphas, X.dtype, True)
    total = add_leave_one_out_errors(known, None, iter([X]), rows)
    for alpha, result in zip(alphas, total, strict=True):
        errors = []
        for i in range(40):
            w, b = exact(np.delete(X, i, 0), np.delete(y, i, 0), alpha)
            errors.append(y[i] - X[i] @ w - b)
        assert result == pytest.approx((np.array(errors) ** 2).sum(), rel=1e-8)


@pytest.mark.parametrize(("large", "of"), [(1e160, "X"), (1e160, "y")])
def test_overflowing_sums_of_squares_raise(large: float, of: str) -> None:
    X, y = problem(40)
    X, y = (large * X, y) if of == "X" else (X, large * y)
    with pytest.raises(ValueError, match="finite sums of squares"):
        normal_equations(sums(X, y), True)
