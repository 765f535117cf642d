"""Densities at nodes computed from points, compared with the float64 series, and independence of sets."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles import series_density

from dkdist._base.params import Domain
from dkdist._numba.points import cache_lines
from dkdist.embeddings import divergence_params as divergence_spec
from dkdist.embeddings._density_numba import degree_for, densities_at_nodes, node_series
from dkdist.embeddings.divergence_params import DivergenceSpec
from dkdist.sets import SampleSets

SIZES = (1, 15, 16, 17, 31, 32, 33, 200, 255, 256, 257, 600)
UNIT = {d: (np.zeros(d, np.float32), np.ones(d, np.float32)) for d in (1, 2, 3)}


def spans_of(sizes):
    ends = np.cumsum(sizes)
    return np.stack([ends - sizes, ends], axis=1).astype(np.int64)


def cases(d):
    """Yield (q, bandwidth) with different ratios of degrees and nodes, odd and even q, unequal widths."""
    for q, h in ((2, 0.5), (3, 0.5), (4, 0.08), (5, 0.21), (7, 0.05), (10, 0.1), (11, 0.25)):
        yield q, tuple(h * (1 + 0.3 * j) for j in range(d))


def direct_densities(points, spans, weights, q, bandwidth):
    d, degrees = len(bandwidth), tuple(map(degree_for, bandwidth))
    return densities_at_nodes(points, spans, weights, *UNIT[d], node_series(q, degrees, bandwidth))


@pytest.mark.parametrize("d", [1, 2, 3])
@pytest.mark.parametrize("weighted", [False, True])
def test_direct_densities_match_the_series(d, weighted):
    rng, spans = np.random.default_rng(d), spans_of(SIZES)
    points = rng.random((spans[-1, 1], d)).astype(np.float32)
    weights = rng.random(len(points)).astype(np.float32) if weighted else None
    for q, bandwidth in cases(d):
        degrees, nodes = tuple(map(degree_for, bandwidth)), (np.arange(q) + 0.5) / q
        result = direct_densities(points, spans, weights, q, bandwidth)
        assert result.shape == (len(SIZES), q**d)
        assert result.dtype == np.float32
        peak = np.prod([1 / (np.sqrt(2 * np.pi) * h) for h in bandwidth])  # peak of a point in the middle
        for row, (a, b) in zip(result, spans, strict=True):
            weights_of_set = None if weights is None else weights[a:b]
            expected = series_density(points[a:b], degrees, bandwidth, nodes, weights_of_set, floor=-np.inf)
            # a cosine of degree a has an error of up to a^2 / 2 float32 units, which damping reduces
            error = d * sum((1 / h) ** 2 for h in bandwidth) * 2.0**-24 * 2**d * peak / np.sqrt(b - a)
            np.testing.assert_allclose(row, expected, rtol=0, atol=4 * error + 1e-6)


@pytest.mark.parametrize("d", [1, 2, 3])
@given(seed=st.integers(0, 2**31), data=st.data())
def test_set_does_not_depend_on_other_sets(d, seed, data):
    sizes = np.array(data.draw(st.lists(st.sampled_from(SIZES), min_size=1, max_size=5)))
    rng, spans = np.random.default_rng(seed), spans_of(sizes)
    points = rng.random((spans[-1, 1], d)).astype(np.float32)
    random_weights = rng.random(len(points)).astype(np.float32)
    for weights in (None, random_weights):
        joint = direct_densities(points, spans, weights, 5, (0.1,) * d)
        np.testing.assert_array_equal(
            direct_densities(points, spans[::-1], weights, 5, (0.1,) * d)[::-1], joint
        )
        for row, (a, b) in zip(joint, spans, strict=True):
            weights_of_set = None if weights is None else weights[a:b].copy()
            single = direct_densities(
                points[a:b].copy(), spans_of(np.array([b - a])), weights_of_set, 5, (0.1,) * d
            )
            np.testing.assert_array_equal(row, single[0])


@pytest.mark.parametrize("d", [2, 3])
def test_points_outside_are_clipped_and_constant_dimensions_use_the_lower_bound(d):
    rng = np.random.default_rng(d)
    low, scale = np.full(d, 2, np.float32), np.array([0.25] * (d - 1) + [0], np.float32)
    points = rng.uniform(0, 8, (100, d)).astype(np.float32)
    series = node_series(6, (12,) * d, (0.12,) * d)
    result = densities_at_nodes(points, spans_of(np.array([100])), None, low, scale, series)[0]
    unit = np.clip((points.astype(np.float64) - low) * scale, 0, 1)
    expected = series_density(unit, (12,) * d, (0.12,) * d, (np.arange(6) + 0.5) / 6, floor=-np.inf)
    np.testing.assert_allclose(result, expected, rtol=0, atol=1e-5 * expected.max())


@pytest.mark.parametrize("d", [2, 3])
def test_row_does_not_depend_on_binned_sets(d, monkeypatch):
    monkeypatch.setattr(divergence_spec, "MAX_DIRECT_POINTS", 256)
    domain = Domain((0.0,) * d, (1.0,) * d, fixed=True)
    fitted = DivergenceSpec(domain, (0.1,) * d, "tensor", 10, (0.0, 0.8), (0.2, 0.3)).materialize()
    rng = np.random.default_rng(d)
    sets = SampleSets.from_arrays([rng.beta(2, 3, (n, d)) for n in (5, 1200, 256, 257, 1100)])
    rows = fitted.embed(sets)
    for i in range(len(sets)):
        np.testing.assert_array_equal(fitted.embed(sets[i : i + 1])[0], rows[i])
    binned = fitted.densities(sets[1:2])[0, 0]
    monkeypatch.setattr(divergence_spec, "MAX_DIRECT_POINTS", 8192)
    direct_densities = fitted.densities(sets[1:2])[0, 0]
    assert np.abs(binned - direct_densities).max() < 0.01 * direct_densities.max()


@given(sizes=st.lists(st.integers(0, 100), max_size=6))
def test_cache_lines_are_aligned_and_do_not_overlap(sizes):
    arrays = cache_lines(*sizes)
    assert [len(array) for array in arrays] == sizes
    for k, array in enumerate(arrays):
        assert array.ctypes.data % 64 == 0
        array[:] = k
    assert all((array == k).all() for k, array in enumerate(arrays))
