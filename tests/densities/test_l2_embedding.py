"""`L2Embedding`: rows are series coefficients, distances are integrals of squared differences of densities."""

import itertools
from functools import partial

import numpy as np
import pytest
from oracles import coefficients, gaussian_mixtures, panels, reflected_density, squared_distances

import dkdist as dk
from dkdist.embeddings.coefficients import iter_tiles, merge_specs


def unit_sets(n_sets, d, n=200, seed=0):
    return [np.clip(x, 0, 1).astype(np.float32) for x in gaussian_mixtures(n_sets, d, n, seed)]


def pairs(n):
    return np.triu_indices(n, 1)


def expected_row(x, exponents, h, weights=None):
    """Return C_a prod sqrt(2)^[a_j > 0] exp(-(pi a_j h_j)^2 / 2), in float64."""
    C = coefficients(x, exponents.max(axis=0) + 1, weights)[tuple(exponents.T)]
    return C * np.prod(
        np.where(exponents > 0, np.sqrt(2), 1) * np.exp(-((np.pi * exponents * h) ** 2) / 2), axis=1
    )


@pytest.mark.parametrize(("d", "q"), [(1, 40), (2, 24)])
def test_distances_match_integrals_of_squared_differences(d, q):
    arrays, h = unit_sets(8, d), np.array([0.08, 0.12])[:d]
    rows = dk.L2Embedding(n_basis=24, bandwidth=h, domain="unit").fit_transform(arrays)
    x, w = panels(q // 8, 8)
    nodes = np.stack(np.meshgrid(*[x] * d, indexing="ij"), axis=-1).reshape(-1, d)
    weights = np.prod(np.meshgrid(*[w] * d, indexing="ij"), axis=0).ravel()
    p = np.array([reflected_density(a, h, nodes) for a in arrays])
    i, j = pairs(8)
    np.testing.assert_allclose(squared_distances(rows, i, j), (p[i] - p[j]) ** 2 @ weights, rtol=2e-3)
    np.testing.assert_allclose((rows.astype(np.float64) ** 2).sum(axis=1), p**2 @ weights, rtol=2e-3)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("bandwidth", [0, 0.1])
@pytest.mark.parametrize(
    ("d", "options"),
    [
        (1, {"n_basis": 13}),
        (2, {"index_set": "tensor"}),
        (3, {"n_basis": 5, "index_set": "total-degree"}),
        (3, {"n_basis": 6, "index_set": ("sobolev", 1)}),
        (4, {"n_basis": 6, "structure": "joint"}),
        (5, {"n_basis": 4, "structure": "joint", "index_set": "tensor"}),
        (4, {"structure": "marginal", "n_basis": 9}),
    ],
)
def test_rows_match_the_coefficients(d, options, bandwidth, weighted):
    arrays = unit_sets(6, d)
    weights = [np.random.default_rng(i).random(len(x)) for i, x in enumerate(arrays)] if weighted else None
    sets = dk.SampleSets.from_arrays(arrays, weights)
    embedding = dk.L2Embedding(bandwidth=bandwidth, domain="unit", **options).fit(sets)
    exponents = embedding.spec_.exponents
    for i, row in enumerate(embedding.transform(sets)):
        np.testing.assert_allclose(
            row, expected_row(sets[i], exponents, bandwidth, sets.weights_of(i)), atol=3e-5
        )


def test_domain_is_scaled_to_the_unit_cube():
    arrays = unit_sets(5, 2)
    expected = dk.L2Embedding(bandwidth=0.1, domain="unit").fit_transform(arrays)
    low, width = np.array([-3.0, 100.0]), np.array([2.0, 50.0])
    moved = [low + width * x for x in arrays]
    result = dk.L2Embedding(bandwidth=0.1, domain=(low, low + width)).fit_transform(moved)
    np.testing.assert_allclose(result, expected, atol=1e-4)


@pytest.mark.parametrize("d", [2, 3, 4])
@pytest.mark.parametrize(
    ("index_set", "inside"),
    [
        ("tensor", lambda a, n: a.max() < n),
        ("total-degree", lambda a, n: a.sum() < n),
        (("sobolev", 1), lambda a, n: (a**2).sum() <= (n - 1) ** 2),
        (("sobolev", 2), lambda a, n: (a**4).sum() <= (n - 1) ** 4),
        (("sobolev", 0.5), lambda a, n: a.sum() < n),
        (("sobolev", 0.25), lambda a, n: np.sqrt(a).sum() <= np.sqrt(n - 1) + 1e-9),
        (("sobolev", 0.01), lambda a, n: (a > 0).sum() <= 1),
    ],
)
def test_index_sets_match_their_definition(d, index_set, inside):
    n = 6
    embedding = dk.L2Embedding(n, index_set=index_set, structure="joint", domain="unit").fit(unit_sets(3, d))
    expected = [a for a in itertools.product(range(n), repeat=d) if inside(np.array(a), n)]
    # the last dimension varies fastest
    assert embedding.spec_.exponents.tolist() == [list(a) for a in expected]
    assert len(embedding.get_feature_names_out()) == len(expected)


def test_auto_index_set_depends_on_the_dimension():
    for d, index_set in ((3, "tensor"), (4, ("sobolev", 1))):
        arrays = unit_sets(3, d)
        one, other = (
            dk.L2Embedding(5, index_set=s, structure="joint").fit(arrays).spec_ for s in ("auto", index_set)
        )
        assert one == other


def test_scott_bandwidth_has_no_minimum():
    arrays = unit_sets(20, 2)
    std = np.median([x.std(axis=0) for x in arrays], axis=0)
    embedding = dk.L2Embedding(bandwidth="scott", domain="unit").fit(arrays)
    np.testing.assert_allclose(embedding.bandwidth_, std * 200 ** (-1 / 6), rtol=1e-5)
    marginal = dk.L2Embedding(bandwidth="scott", domain="unit", structure="marginal").fit(arrays)
    np.testing.assert_allclose(marginal.bandwidth_, std * 200 ** (-1 / 5), rtol=1e-5)
    points = dk.L2Embedding(bandwidth="scott", domain="unit").fit([x[:1] for x in arrays])
    assert points.bandwidth_.tolist() == [0, 0]
    assert np.isfinite(points.transform(arrays)).all()


def test_marginal_distances_are_sums_over_dimensions():
    arrays = unit_sets(6, 4)
    i, j = pairs(6)
    options = {"bandwidth": 0.1, "domain": "unit"}
    joint = squared_distances(dk.L2Embedding(**options).fit_transform(arrays), i, j)
    single_dimensions = [
        dk.L2Embedding(**options).fit_transform([x[:, [k]] for x in arrays]) for k in range(4)
    ]
    np.testing.assert_allclose(
        joint, sum(squared_distances(rows, i, j) for rows in single_dimensions), rtol=1e-5
    )


@pytest.mark.parametrize("d", [1, 2, 4])
def test_squared_distances_of_several_scales_are_averaged(d):
    arrays, scales = unit_sets(7, d), (0.05, 0.1, 0.3)
    i, j = pairs(7)
    make = partial(dk.L2Embedding, 10, domain="unit", structure="marginal" if d > 3 else "joint")
    embedding = make(bandwidth=[[h] for h in scales]).fit(arrays)
    assert embedding.bandwidth_.shape == (3, d)
    single_scale_rows = [make(bandwidth=h).fit_transform(arrays) for h in scales]
    result = embedding.transform(arrays)
    np.testing.assert_allclose(result, np.concatenate(single_scale_rows, axis=1) / np.sqrt(3), rtol=1e-6)
    mean = np.mean([squared_distances(rows, i, j) for rows in single_scale_rows], axis=0)
    np.testing.assert_allclose(squared_distances(result, i, j), mean, rtol=1e-5)


def test_shared_coefficients_serve_both_kinds_of_embeddings():
    sets = dk.SampleSets.from_arrays(unit_sets(70, 2))
    fitted = [
        dk.L2Embedding(7, bandwidth=[[0.1], [0.2]], domain="unit").fit(sets),
        dk.L2Embedding(30, bandwidth=0, domain="unit", index_set="total-degree").fit(sets),
        dk.DivergenceEmbedding("chi2", bandwidth=0.09, domain="unit").fit(sets),
    ]
    wide = merge_specs([e.spec_.coefficients for e in fitted])
    C = np.concatenate([wide.materialize().of(sets, spans) for _, spans in iter_tiles(sets)])
    for embedding in fitted:
        rows = embedding.spec_.materialize().rows(C, wide)
        # otherwise sums in another order, under a root
        exact = not getattr(embedding.spec_, "is_direct", False)
        np.testing.assert_allclose(rows, embedding.transform(sets), rtol=0, atol=0 if exact else 2e-4)


def test_large_sets_use_a_grid():
    arrays = [x.astype(np.float32) for x in np.random.default_rng(0).beta(2, 3, (3, 5000, 2))]
    embedding = dk.L2Embedding(bandwidth=0.1, domain="unit").fit(arrays)
    for x, row in zip(arrays, embedding.transform(arrays), strict=True):
        np.testing.assert_allclose(row, expected_row(x, embedding.spec_.exponents, 0.1), atol=0.01)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_basis": 1}, "n_basis must be an integer >= 2"),
        ({"bandwidth": -0.1}, "bandwidth must be a number >= 0 or 2 of them"),
        ({"bandwidth": [[0.1], [0.1, 0.2]]}, "a nested sequence of these"),
        ({"bandwidth": [[0.1, 0.1, 0.1]]}, "a nested sequence of these"),
        ({"bandwidth": []}, "bandwidth must be"),
        ({"bandwidth": [[[0.1]]]}, "bandwidth must be"),
        ({"bandwidth": "silverman"}, "bandwidth must be one of 'auto', 'scott'"),
        ({"index_set": "ball"}, "index_set must be one of 'auto', 'tensor', 'total-degree'"),
        ({"index_set": ("sobolev", 0.003)}, r"\('sobolev', s\) with s >= 0.01; got \('sobolev', 0.003\)"),
        ({"index_set": ("sobolev", "1")}, "must be a positive number"),
        ({"index_set": 3}, "index_set must be one of"),
        ({"structure": "full"}, "structure must be one of"),
        ({"n_basis": 2000}, "cosine coefficients; got 2000 x 2000.*reduce n_basis"),
        ({"on_error": "ignore"}, "on_error must be one of"),
        ({"domain": (1, 0)}, "domain must have finite low < high"),
    ],
)
def test_invalid_options_raise(options, message):
    with pytest.raises(ValueError, match=message):
        dk.L2Embedding(**options).fit(unit_sets(3, 2))


@pytest.mark.parametrize("index_set", ["auto", "tensor", "total-degree", ("sobolev", 3)])
def test_too_many_functions_raise(index_set):
    with pytest.raises(ValueError, match="at most 4096 functions; n_basis=50 gives more in 6 dimensions"):
        dk.L2Embedding(50, structure="joint", index_set=index_set).fit(unit_sets(3, 6))
