"""Kernel ridge regression with landmarks compared with dense solutions in float64."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import dkdist as dk
from dkdist.auto._tuning import LANDMARK_JITTER
from dkdist.auto.landmark_ridge import (
    LandmarkData,
    LandmarkKernel,
    LandmarkModels,
    _kernel_columns,
    sum_landmark_statistics,
)
from dkdist.auto.representation_rows import RowKernel, leaf_rows
from dkdist.auto.selection import landmark_count
from dkdist.linear.feature_trees import Node, SearchData, SharedFeatureGraph
from dkdist.linear.search_training import SearchProblem

RNG = np.random.default_rng(0)
N, M = 90, 25
SETS = dk.SampleSets.from_arrays([RNG.normal(i % 3, 1, (12, 2)) for i in range(N)])
Y = RNG.normal(size=(N, 2)) + np.arange(N)[:, None] % 3
WEIGHTS = RNG.uniform(0.5, 1.5, N)
HELD_OUT = np.arange(N) % 4 == 1
SPEC = dk.MomentEmbedding(2).fit(SETS).spec_
GRAPH = SharedFeatureGraph((Node(SPEC, (), 0),))
ROWS = leaf_rows(SearchData(SETS, GRAPH, [SPEC.n_features], False), [0])[0]
IMAGES = (ROWS[:M], ROWS[:M][:, [1, 0, *range(2, SPEC.n_features)]])


def models(sets: dk.SampleSets, kernels: list[LandmarkKernel]) -> list[LandmarkModels]:
    data = LandmarkData(sets, GRAPH, [M] * len(kernels), False, tuple(kernels))
    problem = SearchProblem(Y, None, WEIGHTS, HELD_OUT, 0, False)
    return sum_landmark_statistics(data, problem, {0: ROWS[HELD_OUT]})


def solution(kernel: LandmarkKernel, rows: np.ndarray, alpha: float) -> tuple[np.ndarray, np.ndarray]:
    """Return values (N, 2) of the minimiser over the ``rows``, from its normal equations with an intercept column."""
    images = [image.astype(float) for image in kernel.images]
    centre = images[0].mean(axis=0)
    K = np.c_[kernel.kernel.of(ROWS.astype(float), images, centre), np.ones(N)]
    penalty = np.zeros((M + 1, M + 1))
    P = kernel.kernel.of(images[0], images, centre)
    penalty[:M, :M] = (P + P.T) / 2 + LANDMARK_JITTER * np.eye(M)
    A = (K[rows] * WEIGHTS[rows, None]).T @ K[rows] + alpha * penalty
    return K, np.linalg.solve(A, (K[rows] * WEIGHTS[rows, None]).T @ Y[rows])


def values_of(kernel: LandmarkKernel, fit: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    (K,) = _kernel_columns(ROWS, [kernel])
    return K @ fit[0] + fit[1]


KERNELS = [
    LandmarkKernel(0, RowKernel(2.0), IMAGES[:1]),
    LandmarkKernel(0, RowKernel(3.0), IMAGES),
    LandmarkKernel(0, RowKernel(None, 2.5), IMAGES[:1]),
]


@pytest.mark.parametrize("kernel", KERNELS)
def test_models_minimise_the_penalised_squared_error(kernel: LandmarkKernel) -> None:
    """Kernels are float32: relative errors of 1e-6 change values by up to 1e-6 of the sum of coefficients."""
    (model,) = models(SETS, [kernel])
    alphas = [1.0, 30.0]
    held_out_values = model.held_out_values(alphas)
    for (a, b), alpha, held_out in zip(
        model.fit_without_held_out(alphas), alphas, held_out_values, strict=True
    ):
        values = values_of(kernel, (a, b))
        K, expected = solution(kernel, ~HELD_OUT, alpha)
        tolerance = 1e-5 * np.abs(expected).sum(axis=0).max()
        np.testing.assert_allclose(values, K @ expected, rtol=0, atol=tolerance)
        np.testing.assert_allclose(held_out, values[HELD_OUT], rtol=0, atol=tolerance)
        assert a.shape == (M, 2)
        assert b.shape == (2,)


def test_the_final_model_includes_held_out_rows() -> None:
    (model,) = models(SETS, KERNELS[1:2])
    K, expected = solution(KERNELS[1], np.ones(N, np.bool_), 3.0)
    values = values_of(KERNELS[1], model.fit_all(3.0))
    np.testing.assert_allclose(values, K @ expected, rtol=0, atol=1e-5 * np.abs(expected).sum(axis=0).max())


def test_kernels_of_one_leaf_have_the_same_models_alone(tmp_path: Path) -> None:
    """Also from a store: columns are computed row by row, and the sums have a fixed order."""
    pair = [KERNELS[0], LandmarkKernel(0, RowKernel(5.0), IMAGES[:1])]
    store = dk.write_sets(tmp_path / "s.zarr", SETS)
    for kernel, together, stored in zip(pair, models(SETS, pair), models(store, pair), strict=True):
        (alone,) = models(SETS, [kernel])
        fits = [model.fit_all(1.0) for model in (alone, together, stored)]
        expected, values, stored_values = (values_of(kernel, fit) for fit in fits)
        np.testing.assert_allclose(values, expected, rtol=0, atol=1e-5 * np.abs(fits[0][0]).sum())
        np.testing.assert_array_equal(stored_values, values)


def test_a_linear_model_of_random_features_has_the_values_of_landmarks() -> None:
    rng = np.random.default_rng(1)
    y = np.arange(200) % 2
    sets = [rng.normal(0, 1 + c, (30, 2)) for c in y]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dkdist.auto._tuning.MAX_EXACT_SETS", 100)
        patch.setattr("dkdist.auto._tuning.N_LANDMARKS", 50)
        model = dk.SetClassifier(["moments"], random_state=0).fit(sets[:150], y[:150])
    (part,) = {len(part.duals) for part in model.machine_.parts}
    assert part == 50
    agreement = model.best_estimator_.predict(sets[150:]) == model.predict(sets[150:])
    assert agreement.mean() >= 0.9


@pytest.mark.parametrize(
    ("n_sets", "n_landmarks"), [(4001, 1024), (2**14, 1024), (2**15, 724), (2**16, 512), (10**6, 512)]
)
def test_number_of_landmarks_falls_with_the_number_of_sets(n_sets: int, n_landmarks: int) -> None:
    assert landmark_count(n_sets, 2000) == n_landmarks
    assert landmark_count(n_sets, 300) == 300


def test_blocks_of_large_sets_in_memory_have_few_points() -> None:
    """Scalers and principal components copy the points of a block: a block has 16 sets of 2^21 bytes."""
    sets = dk.SampleSets(np.zeros((20 * 2**12, 128), np.float32), np.arange(21) * 2**12)
    for simultaneous in (False, True):
        blocks = SearchData(sets, GRAPH, [10], False).blocks([0], simultaneous=simultaneous)
        assert np.diff(blocks.bounds).max() == 16
