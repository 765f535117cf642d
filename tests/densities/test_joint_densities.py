"""Joint densities in four to six dimensions: densities on the grid, accuracy of d^2, index sets, limits.

References are kernel estimates by sums of images (`oracles.reflected_density`), integrated on a Kronecker lattice.
"""

import warnings
from functools import partial, reduce

import numpy as np
import pytest
from oracles import (
    gaussian_mixtures,
    kronecker_lattice,
    reflected_density,
    rms_errors,
    series_density,
    squared_distances,
)
from scipy.stats import truncnorm

import dkdist as dk
from dkdist.embeddings._grid_numba import grid_densities, node_tables
from dkdist.embeddings._tuning import RESOLVED_GRID_BANDWIDTH_PER_SPACING
from dkdist.embeddings.divergence_params import DivergenceSpec
from dkdist.embeddings.divergences import divergence
from dkdist.embeddings.grid_densities import GridDensitySpec
from dkdist.embeddings.nodes import axis_tables, folded_lattice, index_set

NAMES = ("hellinger", "jensen-shannon", "total-variation")
DEFAULT_NODES_PER_DIM = {4: 6, 5: 4, 6: 3}


def unit_sets(n_sets, d, n, seed=0):
    return [np.clip(x, 0.01, 0.99) for x in gaussian_mixtures(n_sets, d, n, seed)]


def grid_points(q, d):
    return (np.stack(np.meshgrid(*[np.arange(q)] * d, indexing="ij"), -1).reshape(-1, d) + 0.5) / q


@pytest.fixture(scope="module", params=[4, 5, 6])
def problem(request):
    """Return d, sets, the smallest resolved bandwidth, pairs, and d^2 by divergence, integrated with 2^13 nodes."""
    d = request.param
    sets = unit_sets(6, d, 40, d)
    h = RESOLVED_GRID_BANDWIDTH_PER_SPACING / DEFAULT_NODES_PER_DIM[d]
    nodes = kronecker_lattice(2**13, d)
    p = np.array([reflected_density(x, (h,) * d, nodes) for x in sets])
    i, j = np.triu_indices(len(sets), 1)
    d2 = {name: divergence(name).kappa(p[i], p[j]).mean(axis=1) for name in NAMES}
    return d, sets, h, (i, j), d2


@pytest.mark.parametrize(("d", "q"), [(4, 3), (5, 2), (6, 3)])
@pytest.mark.parametrize("weighted", [False, True])
def test_grid_densities_match_sums_of_images(d, q, weighted):
    rng = np.random.default_rng(d)
    x, bandwidth = rng.random((300, d)).astype(np.float32), tuple(rng.uniform(0.1, 0.4, d))
    w = rng.random((300, 1)).astype(np.float32) if weighted else None
    spans = np.array([[0, 300], [0, 1], [1, 40]])
    result = grid_densities(x, spans, w, np.zeros(d, "f4"), np.ones(d, "f4"), node_tables(q, bandwidth))
    for row, (a, b) in zip(result, spans, strict=True):
        expected = reflected_density(x[a:b], bandwidth, grid_points(q, d), None if w is None else w[a:b, 0])
        # each Gaussian omits degrees damped to 3e-4, of at most a few 1e-4 of its peak in sum
        peak = np.prod(1 / np.sqrt(2 * np.pi) / np.array(bandwidth)) * 2**d
        assert np.abs(row - expected).max() < 1e-3 * peak
        np.testing.assert_allclose(row, expected, rtol=0.01, atol=2e-3 * max(1, expected.max()))


def test_grid_densities_equal_the_series_of_each_dimension():
    x, h = np.random.default_rng(0).random((200, 4)), (0.15, 0.3, 0.2, 0.25)
    tables, spans, x32 = node_tables(3, h), np.array([[0, 200]]), x.astype(np.float32)
    result = grid_densities(x32, spans, None, np.zeros(4, "f4"), np.ones(4, "f4"), tables)
    degrees = [int(np.flatnonzero(np.abs(t).max(axis=0))[-1]) + 1 for t in tables]
    expected = series_density(x, degrees, h, (np.arange(3) + 0.5) / 3, floor=-np.inf)
    np.testing.assert_allclose(result[0], expected, atol=2e-5 * expected.max())


@pytest.mark.parametrize("name", NAMES)
def test_default_nodes_integrate_d2_within_two_percent(problem, name):
    d, sets, h, (i, j), expected = problem
    embedding = dk.DivergenceEmbedding(name, structure="joint", bandwidth=h * 1.0001, domain="unit").fit(sets)
    assert embedding.n_basis_ == DEFAULT_NODES_PER_DIM[d]
    assert embedding.resolved_
    d2 = squared_distances(embedding.transform(sets), i, j)
    assert rms_errors(d2, expected[name])[1] < 0.02


@pytest.mark.parametrize(("choice", "tolerance"), [(("sobolev", 1), 0.02), ("total-degree", 0.03)])
@pytest.mark.parametrize("name", ["hellinger", "jensen-shannon"])
def test_default_index_sets_keep_d2_of_smooth_divergences(problem, name, choice, tolerance):
    _, sets, h, (i, j), expected = problem
    options = {"structure": "joint", "bandwidth": h * 1.0001, "domain": "unit", "index_set": choice}
    embedding = dk.DivergenceEmbedding(name, **options).fit(sets)
    rows = embedding.transform(sets)
    assert rows.shape[1] == len(embedding.get_feature_names_out())
    assert rows.shape[1] // embedding.spec_.features_per_node <= 1331
    assert rms_errors(squared_distances(rows, i, j), expected[name])[1] < tolerance


@pytest.mark.parametrize("d", [4, 5, 6])
@pytest.mark.parametrize("choice", ["tensor", "total-degree", ("sobolev", 1), ("sobolev", 0.25)])
def test_rows_are_coefficients_of_the_index_set(d, choice):
    sets, n = unit_sets(3, d, 30), 3
    options = {"n_basis": n, "bandwidth": 0.3, "structure": "joint", "domain": "unit"}
    nodal = dk.DivergenceEmbedding(**options).fit_transform(sets)
    embedding = dk.DivergenceEmbedding(index_set=choice, **options).fit(sets)
    u = grid_points(n, d)
    a = index_set(d, n, embedding.spec_.order)
    axes = [np.cos(np.pi * np.outer(u[:, k], a[:, k])) * np.sqrt(1 + (a[:, k] > 0)) for k in range(d)]
    phi = np.prod(axes, axis=0)
    np.testing.assert_allclose(embedding.transform(sets), nodal @ (phi / np.sqrt(n**d)), atol=2e-6)


def test_products_of_tables_act_like_one_table_per_dimension():
    rng = np.random.default_rng(0)
    shapes = (2, 3), (3, 2), (2, 2), (1, 3), (2, 4)
    tables = [rng.standard_normal(shape).astype(np.float32) for shape in shapes]
    for n in range(1, 6):
        products = axis_tables(tables[:n])
        assert len(products) <= 3
        np.testing.assert_allclose(reduce(np.kron, products), reduce(np.kron, tables[:n]), rtol=1e-5)


def test_several_scales_are_averaged():
    sets = unit_sets(4, 4, 50)
    make = {"structure": "joint", "domain": "unit", "n_basis": 4}
    single = [dk.DivergenceEmbedding(bandwidth=h, **make).fit_transform(sets) for h in (0.2, 0.35)]
    both = dk.DivergenceEmbedding(bandwidth=[[0.2], [0.35]], **make).fit_transform(sets)
    np.testing.assert_allclose(both, np.concatenate(single, axis=1) / np.sqrt(2), rtol=1e-6)


def test_lattices_of_earlier_model_files_keep_their_rows():
    domain = dk.DivergenceEmbedding(domain="unit").fit(unit_sets(3, 4, 20)).spec_.domain
    x = np.random.default_rng(0).random((200, 4)).astype(np.float32)
    old = DivergenceSpec(domain, (0.3,) * 4, "ball", 4, (0.0,), (0.5,)).materialize()
    expected = reflected_density(x, (0.3,) * 4, folded_lattice(64, 4))
    row = old.embed(dk.SampleSets.from_arrays([x]))[0]
    np.testing.assert_allclose(row**2 * 2 * 64, expected, rtol=0.02)


def test_random_nodes_have_index_sets():
    sets = unit_sets(4, 4, 60)
    options = {"structure": "joint", "bandwidth": 0.3, "domain": "unit", "n_basis": 4}
    make = partial(dk.DivergenceEmbedding, index_set=("sobolev", 1), **options)
    exact = make().fit_transform(sets).astype(np.float64)
    sampled = make(nodes="uniform", n_nodes=20_000, random_state=0).fit_transform(sets)
    assert sampled.shape == exact.shape
    # the standard error of a coefficient is at most (2^4 / 20,000)^(1/2) of the norm (1 / 2)^(1/2) of p^(1/2)
    assert np.abs(sampled - exact).max() < 5 * np.sqrt(2**4 / 20_000 / 2)


def test_too_many_nodes_raise():
    for d, n, maximum in ((4, 17, 16), (5, 10, 9), (6, 7, 6)):
        with pytest.raises(ValueError, match=rf"n_basis must be at most {maximum} for {d} .*got {n}.*pairs"):
            dk.DivergenceEmbedding(n_basis=n, structure="joint").fit(unit_sets(3, d, 20))
    domain = dk.DivergenceEmbedding(domain="unit").fit(unit_sets(3, 6, 20)).spec_.domain
    with pytest.raises(ValueError, match="n_basis must be at most 10 for 6 joint dimensions"):
        GridDensitySpec(domain, "grid", (8,) * 6, scales=((0.1,) * 6,), n_basis=11)


@pytest.mark.parametrize("embedding", [dk.DivergenceEmbedding, dk.L2Embedding])
def test_seven_dimensions_are_refused_with_alternatives(embedding):
    with pytest.raises(ValueError, match=r"at most 6 dimensions; got 7.*'pairs'.*MeanEmbedding"):
        embedding(structure="joint").fit(unit_sets(3, 7, 20))


def test_small_bandwidths_and_two_nodes_are_not_resolved():
    sets = unit_sets(3, 5, 20)
    with pytest.warns(UserWarning, match=r"too small for 4 nodes.*n_basis >= 8 or bandwidth >= 0\.188"):
        dk.DivergenceEmbedding(bandwidth=0.1, structure="joint").fit(sets)
    with pytest.warns(UserWarning, match=r"too small for 2 nodes per dimension.*Use n_basis >= 3\."):
        two = dk.DivergenceEmbedding(bandwidth=0.4, n_basis=2, structure="joint").fit(sets)
    assert not two.resolved_
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert dk.DivergenceEmbedding(bandwidth=0.2, structure="joint").fit(sets).resolved_


@pytest.mark.parametrize("d", [4, 5, 6])
def test_default_bandwidths_are_resolved(d):
    sets = unit_sets(5, d, 100)
    for choice in ("nodes", ("sobolev", 1)):
        assert dk.DivergenceEmbedding(structure="joint", index_set=choice).fit(sets).resolved_


@pytest.mark.parametrize("d", [4, 5, 6])
@pytest.mark.parametrize("choice", ["auto", "tensor", "total-degree", ("sobolev", 2)])
def test_l2_distances_match_the_integral(d, choice):
    sets, h = unit_sets(6, d, 40, d), {4: 0.15, 5: 0.2, 6: 0.25}[d]
    # reflected Gaussians are heat kernels: int K_h(x, a) K_h(x, b) dx = K_(sqrt(2) h)(a, b)
    wide = (h * np.sqrt(2),) * d
    products = np.array([[reflected_density(x, wide, y).mean() for y in sets] for x in sets])
    i, j = np.triu_indices(len(sets), 1)
    expected = products[i, i] + products[j, j] - 2 * products[i, j]
    rows = dk.L2Embedding(structure="joint", bandwidth=h, domain="unit", index_set=choice).fit_transform(sets)
    assert rms_errors(squared_distances(rows, i, j), expected)[1] < 0.01


@pytest.mark.parametrize(("d", "bias", "bias_of_index_set"), [(4, 0.3, 0.2), (5, 0.5, 0.37), (6, 0.7, 0.55)])
def test_smoothing_dominates_the_error_of_samples(d, bias, bias_of_index_set):
    rng, grid = np.random.default_rng(d), (np.arange(1000) + 0.5) / 1000
    mean, std = rng.uniform(0.2, 0.8, (2, 8, d)), rng.uniform(0.12, 0.35, (2, 8, d))
    axes = truncnorm(-mean / std, (1 - mean) / std, mean, std)
    first, second = axes.rvs((2000, 2, 8, d), random_state=rng).transpose(1, 2, 0, 3)
    # products of densities: 1 - prod_j int (p_j q_j)^(1/2)
    p, q = np.sqrt(axes.pdf(grid[:, None, None, None])).transpose(1, 0, 2, 3)
    expected = 1 - np.prod((p * q).mean(axis=0), axis=1)
    for choice, limit in (("nodes", bias), (("sobolev", 1), bias_of_index_set)):
        embedding = dk.DivergenceEmbedding(structure="joint", domain="unit", index_set=choice)
        rows = embedding.fit_transform([*first, *second])
        ratio = squared_distances(rows, range(8), range(8, 16)) / expected
        assert 1 - limit < ratio.mean() < 1


@pytest.mark.parametrize("name", NAMES)
def test_plugin_divergences_use_the_finest_grid(problem, name):
    _, sets, h, (i, j), expected = problem
    estimator = dk.PluginDivergence(bandwidth=h * 1.0001, domain="unit", structure="joint")
    matrix = dk.divergence_matrix(sets, name, estimator=estimator)
    # the reference has an error of up to 1.1 %
    assert rms_errors(matrix[i, j], expected[name])[1] < 0.012
