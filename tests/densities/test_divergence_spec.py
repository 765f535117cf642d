"""Divergence parameters: plain values, cached tables, and rows that depend on their own set only."""

import json
import pickle
from dataclasses import asdict, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles import gaussian_mixtures, series_density, squared_distances

from dkdist._base.params import Domain
from dkdist.embeddings._binning_numba import MIN_BINNED_POINTS_BY_DIM
from dkdist.embeddings._density_numba import degree_for
from dkdist.embeddings.coefficients import MIN_SETS_PER_TILE
from dkdist.embeddings.divergence_params import (
    MAX_BALL_TERMS,
    DivergenceSpec,
    ball_of_degrees,
    lattice_size,
    min_ball_bandwidth,
)
from dkdist.sets import SampleSets

FREQUENCIES = ((0.0, 0.8), (0.2, 0.3))


def unit(d):
    return Domain((0.0,) * d, (1.0,) * d, fixed=True)


def make_spec(structure, d, n_basis=4, bandwidth=0.25):
    return DivergenceSpec(unit(d), (bandwidth,) * d, structure, n_basis, *FREQUENCIES)


SPECS = [
    make_spec("tensor", 1),
    make_spec("tensor", 2),
    make_spec("tensor", 3),
    make_spec("marginal", 3),
    make_spec("grid", 4),
    make_spec("grid", 5, n_basis=3, bandwidth=0.3),
    make_spec("ball", 4),
    make_spec("ball", 5, bandwidth=0.3),
]
for_each_spec = pytest.mark.parametrize("spec", SPECS, ids=lambda s: f"{s.structure}-{s.n_dims}")


def random_sets(sizes, d, seed=0):
    rng = np.random.default_rng(seed)
    return SampleSets.from_arrays([rng.random((n, d)) for n in sizes])


@for_each_spec
def test_spec_is_serializable(spec):
    assert json.loads(json.dumps(asdict(spec)))["structure"] == spec.structure
    assert pickle.loads(pickle.dumps(spec)) == spec
    assert hash(pickle.loads(pickle.dumps(spec))) == hash(spec)


@for_each_spec
def test_tables_are_cached_and_pickled_by_parameters(spec):
    parameters = spec.materialize()
    assert pickle.loads(pickle.dumps(spec)).materialize() is parameters
    sent = pickle.dumps(parameters)
    assert len(sent) < 1000
    assert pickle.loads(sent) is parameters


@for_each_spec
def test_shape_of_rows(spec):
    rows = spec.materialize().embed(random_sets([3, 50, 1], spec.n_dims))
    assert rows.shape == (3, spec.n_features)
    assert rows.dtype == np.float32
    assert np.isfinite(rows).all()
    assert spec.n_features == 3 * spec.n_nodes  # one zero and one nonzero frequency
    grid = spec.n_basis**spec.n_dims
    nodes = {"tensor": grid, "grid": grid, "marginal": 4 * spec.n_dims, "ball": 64}[spec.structure]
    assert spec.n_nodes == nodes


@pytest.mark.parametrize(("n_basis", "nodes"), [(4, 64), (10, 1024), (16, 4096), (8, 512)])
def test_lattice_size_is_a_power_of_two(n_basis, nodes):
    assert lattice_size(n_basis) == nodes


@for_each_spec
def test_squared_norm_is_the_mass(spec):
    # |p^(1/2 + i l)|^2 = p, whose integral is 1; 0.5 is the mass of the measure
    rows = spec.materialize().embed(random_sets([200] * 5, spec.n_dims)).astype(np.float64)
    copies = spec.n_dims if spec.structure == "marginal" else 1
    tolerance = 0.03 if spec.structure == "ball" else 2e-4
    np.testing.assert_allclose((rows**2).sum(axis=1), 0.5 * copies, rtol=tolerance)


@for_each_spec
@given(seed=st.integers(0, 2**31), data=st.data())
def test_row_depends_on_its_own_set_only(spec, seed, data):
    sizes = data.draw(st.lists(st.sampled_from([1, 20, 200, 300, 1100]), min_size=2, max_size=6))
    sets, parameters = random_sets(sizes, spec.n_dims, seed), spec.materialize()
    rows = parameters.embed(sets)
    np.testing.assert_array_equal(parameters.embed(sets[::-1])[::-1], rows)
    for i in range(len(sets)):
        np.testing.assert_array_equal(parameters.embed(sets[i : i + 1])[0], rows[i])


@for_each_spec
def test_rows_do_not_depend_on_position_in_the_block(spec):
    sets = random_sets([5 + i % 40 for i in range(2 * MIN_SETS_PER_TILE + 9)], spec.n_dims)
    parameters = spec.materialize()
    rows = parameters.embed(sets)
    shifted = parameters.embed(sets[7:])
    np.testing.assert_array_equal(rows[7:], shifted)


@pytest.mark.parametrize("d", [2, 3])
def test_binned_densities_match_the_series(d):
    points = np.random.default_rng(d).beta(2, 3, (1200, d))  # enough points for binning
    spec = make_spec("tensor", d, n_basis=10, bandwidth=0.1)
    degrees = (degree_for(0.1),) * d
    row = spec.materialize().embed(SampleSets.from_arrays([points]))[0].astype(np.float64)
    density = (row[: 10**d] / np.sqrt(0.2)) ** 2 * 10**d
    expected = series_density(points, degrees, (0.1,) * d, (np.arange(10) + 0.5) / 10)
    assert MIN_BINNED_POINTS_BY_DIM[d] <= 1200
    assert np.abs(density - expected).max() < 0.01 * expected.max()


def test_marginal_distance_is_the_sum_over_dimensions():
    sets = SampleSets.from_arrays([np.clip(x, 0, 1) for x in gaussian_mixtures(6, 4, 100, 0)])
    bandwidth = (0.1, 0.15, 0.2, 0.3)
    spec = DivergenceSpec(unit(4), bandwidth, "marginal", 10, *FREQUENCIES)
    i, j = np.triu_indices(6, 1)
    total = 0.0
    for k in range(4):
        column = SampleSets(sets.points[:, k : k + 1], sets.offsets)
        column_spec = DivergenceSpec(unit(1), bandwidth[k : k + 1], "tensor", 10, *FREQUENCIES)
        total += squared_distances(column_spec.materialize().embed(column), i, j)
    np.testing.assert_allclose(squared_distances(spec.materialize().embed(sets), i, j), total, rtol=1e-5)


@pytest.mark.parametrize("d", [1, 2, 3])
def test_constant_dimensions_and_single_points_have_finite_rows(d):
    domain = Domain((2.0,) * d, (2.0,) + (3.0,) * (d - 1), fixed=False)
    sets = SampleSets.from_arrays([np.full((5, d), 2.0), np.full((1, d), 2.0)])
    rows = replace(make_spec("tensor", d), domain=domain).materialize().embed(sets)
    assert np.isfinite(rows).all()
    np.testing.assert_allclose(rows[0], rows[1], atol=1e-4)


@pytest.mark.parametrize("width", [0.0, 1e-45, 1e-38, 1e-30, 1e30])
def test_domains_of_any_width(width):
    domain = Domain((0.0,), (float(np.float32(width)),), fixed=False)
    sets = SampleSets.from_arrays([np.float32([[0.0], [0.25 * width]]), np.float32([[width]])])
    assert np.isfinite(replace(make_spec("tensor", 1), domain=domain).materialize().embed(sets)).all()


def test_count_outside_per_set():
    sets = SampleSets.from_arrays([[[0.5, 0.5]], [[-0.1, 0.5], [0.5, 1.1], [1, 0]], [[2, 2], [0, 0]]])
    assert make_spec("tensor", 2).domain.count_outside(sets).tolist() == [0, 2, 1]


def test_too_small_bandwidth_raises():
    with pytest.raises(ValueError, match=r"cosine coefficients; got 1284 x 1284.*Increase bandwidth"):
        make_spec("tensor", 2, bandwidth=0.001).materialize()


@pytest.mark.parametrize("d", [4, 5, 6])
@pytest.mark.parametrize("h", [0.01, 0.1, 0.2, 0.5])
def test_ball_holds_the_least_damped_terms(d, h):
    bandwidth = tuple(h * s for s in (1.0, 1.5, 0.8, 1.2, 1.0, 2.0)[:d])
    exponents, terms, r = ball_of_degrees(bandwidth)
    assert len(exponents) == len(terms) <= MAX_BALL_TERMS
    exponent = np.linalg.norm(np.pi * exponents * bandwidth, axis=1)
    assert exponent.max() <= r * (1 + 1e-9)
    assert (
        r == pytest.approx(np.sqrt(2 * np.log(1 / 3e-4)), rel=1e-6) or len(exponents) > MAX_BALL_TERMS * 0.9
    )


@pytest.mark.parametrize(("d", "h"), [(4, 0.0985), (5, 0.147), (6, 0.19)])
def test_finest_bandwidth(d, h):
    assert min_ball_bandwidth(d) == pytest.approx(h, rel=0.01)
    exponents, _, r = ball_of_degrees((min_ball_bandwidth(d) * 1.001,) * d)
    assert np.exp(-(r**2) / 2) <= 0.0101
    assert len(exponents) <= MAX_BALL_TERMS
