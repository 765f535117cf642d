"""Distant parts of point sets, and blocks of cells, compared with all pairs."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dkdist._numba.weighted_points import WeightedPoints
from dkdist.kernels._cells_numba import MAX_SIDE_CELLS, block_energy, kernel_blocks, kernel_cells
from dkdist.kernels._exact_numba import (
    blockwise_energy,
    connected_components,
    cutoff_radius,
    is_connected_by_bins,
)
from dkdist.kernels.kernel_sums import energy, scaled


def all_pairs(x, z, sigma):
    k = np.exp(-((x[:, None] - x) ** 2).sum(axis=2) / (2 * sigma**2))
    return float(np.einsum("ic,ij,jc->", z, k, z))


@given(st.integers(0, 2**32), st.integers(1, 5), st.sampled_from([0.01, 0.3, 2.0]))
@settings(max_examples=60, deadline=None)
def test_connected_components_are_beyond_reach(seed, d, reach):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((rng.integers(1, 60), d)) * 10.0 ** rng.uniform(-2, 2, (1, d))
    x = np.round(x) if seed % 3 == 0 else x
    points = WeightedPoints.of(x, np.ones((len(x), 1)))
    order, firsts = connected_components(points, reach)
    if is_connected_by_bins(points, reach):
        assert len(firsts) == 2
    assert np.array_equal(np.sort(order), np.arange(len(x)))
    assert firsts[0] == 0
    assert firsts[-1] == len(x)
    assert (np.diff(firsts) > 0).all()
    part = np.repeat(np.arange(len(firsts) - 1), np.diff(firsts))
    y = x[order]
    is_apart = np.abs(y[:, None] - y).max(axis=2) > reach
    assert is_apart[part[:, None] != part].all()
    for a, b in pairwise(firsts):  # no part can be split along an axis
        assert (np.diff(np.sort(y[a:b], axis=0), axis=0) <= reach).all()


def test_cutoff_radius_matches_the_kernel():
    for eps in (1e-3, 1e-12):
        assert np.exp(-((cutoff_radius(0.7, eps) / 0.7) ** 2) / 2) == pytest.approx(eps, rel=1e-9)
    assert np.isfinite(cutoff_radius(1.0, 0.0))


def test_blockwise_energy_sums_spans_separately():
    rng = np.random.default_rng(0)
    x, z = rng.standard_normal((90, 3)), rng.standard_normal((90, 2))
    spans = np.array([[0, 1], [1, 70], [70, 90]])
    expected = sum(all_pairs(x[a:b], z[a:b], 0.8) for a, b in spans)
    assert blockwise_energy(scaled(x, 0.8), z, spans) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("eps", [1e-1, 1e-4, 1e-9])
@pytest.mark.parametrize("d", [1, 2, 3])
def test_block_energy_is_within_the_error_of_cells(d, eps):
    rng = np.random.default_rng(d)
    sigma = 0.3
    cloud, line = rng.standard_normal((80, d)), np.linspace(0, 400, 200)[:, None] * np.ones(d)
    x, z = np.concatenate([cloud, line]), rng.standard_normal((280, 2))
    widths = x.max(axis=0) - x.min(axis=0)
    cells = kernel_cells(widths, sigma, eps)
    blocks = kernel_blocks(x, cells)
    W = np.sqrt((z**2).sum(axis=1)).sum()
    error = abs(block_energy(z, sigma, cells, blocks) - all_pairs(x, z, sigma))
    assert error <= cells.error * W**2 + 1e-13 * W**2
    if d > 1:
        assert blocks.n_cells < cells.n_cells / 4  # empty space is omitted


@pytest.mark.parametrize("x", [np.zeros((5, 3)), np.array([[0.0, 3, 0], [0, 4, 0], [0, 4.1, 0]])])
def test_flat_boxes_have_blocks(x):
    cells, z = kernel_cells(np.ptp(x, axis=0), 1.0, 1e-9), np.ones((len(x), 1))
    result = block_energy(z, 1.0, cells, kernel_blocks(x, cells))
    assert result == pytest.approx(energy(WeightedPoints.of(x, z), 1.0), rel=1e-8)


def test_too_many_cells_have_no_blocks():
    x = np.array([[0.0], [4.0 * MAX_SIDE_CELLS]])
    assert kernel_blocks(x, kernel_cells(np.ptp(x, axis=0), 1.0, 1e-3)) is None


def test_weight_statistics_are_kept_by_transforms():
    rng = np.random.default_rng(0)
    sets, weights = (rng.random((40, 2)), rng.random((60, 2))), (rng.random(40), rng.random(60))
    points = WeightedPoints(sets, weights, (1.0, -1.0))
    statistics = points.mass, points.size, points.total, points.square, points.largest, len(points)
    moved = points.with_transform(middle=np.ones(2)).scale_by(4.0)
    signed = np.concatenate([weights[0], -weights[1]])
    np.testing.assert_allclose(moved.mass, np.abs(signed).sum(), rtol=1e-14)
    np.testing.assert_allclose(moved.total, signed.sum(), rtol=1e-13)
    assert (moved.mass, moved.size, moved.total, moved.square, moved.largest, len(moved)) == statistics
    np.testing.assert_array_equal(moved.bounds[0], 4 * (points.bounds[0] - 1))
    assert moved.select_set(0).mass != moved.mass
