"""Kernel ridge regression compared with scikit-learn, and cross-validated values compared with refits."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import Ridge
from sklearn.metrics.pairwise import euclidean_distances, rbf_kernel

from dkdist.auto.representation_rows import PairwiseRows, RowKernel
from dkdist.linear.kernel_ridge import (
    INTERCEPT_KERNEL,
    cross_validated_values,
    duals,
    folds_by_length,
    squared_distances,
)

RNG = np.random.default_rng(0)
A = RNG.normal(size=(60, 5))
Y = np.stack([A[:, 0] ** 2 - A[:, 1], np.sin(A[:, 2])], axis=1) + 3.0
W = RNG.integers(1, 4, 60).astype(float)
FOLDS = [np.arange(k, 60, 7) for k in range(7)]
K = rbf_kernel(A, gamma=0.1)


def test_duals_match_scikit_learn() -> None:
    reference = KernelRidge(alpha=0.3, kernel="precomputed").fit(K + INTERCEPT_KERNEL, Y, sample_weight=W)
    np.testing.assert_allclose(duals(K, Y, W, 0.3), reference.dual_coef_, rtol=1e-6, atol=1e-8)


def test_constant_kernel_acts_as_intercept() -> None:
    a = duals(A @ A.T, Y, W, 2.0)
    reference = Ridge(alpha=2.0).fit(A, Y, sample_weight=W)
    # the penalty of the intercept, 1 / CONSTANT of its square, changes it by about 2 / (1000 * 60)
    np.testing.assert_allclose((A @ A.T + INTERCEPT_KERNEL) @ a, reference.predict(A), atol=1e-3)


def test_weights_count_as_repeated_rows() -> None:
    repeats = np.repeat(np.arange(60), W.astype(int))
    weighted = (K + INTERCEPT_KERNEL) @ duals(K, Y, W, 0.3)
    repeated = (K[:, repeats] + INTERCEPT_KERNEL) @ duals(
        K[np.ix_(repeats, repeats)], Y[repeats], np.ones(len(repeats)), 0.3
    )
    np.testing.assert_allclose(weighted, repeated, atol=1e-6)


def test_cross_validated_values_match_refits() -> None:
    result, a = cross_validated_values(
        K, Y, W, 0.3, folds_by_length([FOLDS, [np.array([i]) for i in range(60)]])
    )
    np.testing.assert_allclose(a, duals(K, Y, W, 0.3), rtol=1e-6, atol=1e-8)
    for r, folds in enumerate((FOLDS, [np.array([i]) for i in range(60)])):
        for fold in folds[:7]:
            train = np.setdiff1d(np.arange(60), fold)
            a = duals(K[np.ix_(train, train)], Y[train], W[train], 0.3)
            np.testing.assert_allclose(
                result[r, fold], (K[np.ix_(fold, train)] + INTERCEPT_KERNEL) @ a, atol=1e-6
            )


def test_squared_distances_match_scikit_learn() -> None:
    far = A + 1e4
    np.testing.assert_allclose(
        squared_distances(far, far[:9]), euclidean_distances(A, A[:9], squared=True), atol=1e-8
    )


def test_kernel_matrices_of_float32_rows() -> None:
    rows = (A + 100).astype(np.float32)
    rows[7] = rows[3]
    (result,) = PairwiseRows([rows]).matrices([RowKernel(1.0)])
    # 5 products of float32 about the mean, 6e-8 each, of squared lengths up to 30
    np.testing.assert_allclose(result, rbf_kernel(rows.astype(np.float64), gamma=0.5), rtol=0, atol=1e-5)
    assert result[3, 7] == result[7, 3] == 1
    np.testing.assert_array_equal(np.diag(result), 1)


@pytest.mark.parametrize("images", [1, 3])
def test_kernel_gradients_match_central_differences(images: int) -> None:
    rows = [np.asarray(A[:, RNG.permutation(5)], np.float32) for _ in range(images)]
    a, x, centre = RNG.normal(size=(60, 2)), RNG.normal(size=5), A.mean(axis=0)
    for kernel in PairwiseRows(rows).kernels():
        value = lambda x, kernel=kernel: kernel.of(x[None], rows, centre)[0] @ a  # noqa: E731
        step = 1e-5 * np.eye(5)
        # central differences: the error is about step^2 times the third derivative, plus rounding / step
        expected = np.stack([(value(x + h) - value(x - h)) / 2e-5 for h in step])
        np.testing.assert_allclose(kernel.gradient(x, rows, a, centre), expected, rtol=1e-5, atol=1e-6)


def test_kernel_averaged_over_permutations_is_invariant() -> None:
    swapped = A[:, ::-1].copy()
    kernel = RowKernel(1.0)
    np.testing.assert_allclose(
        kernel.of(A, [A, swapped], None), kernel.of(swapped, [A, swapped], None), atol=1e-12
    )
