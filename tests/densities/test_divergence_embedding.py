"""Distances of embedded sets compared with numerical integration of the same densities; options and errors."""

import warnings

import numpy as np
import pytest
from oracles import (
    gaussian_mixtures,
    kronecker_lattice,
    panels,
    rms_errors,
    series_density,
    squared_distances,
)
from scipy.fft import dctn

import dkdist as dk
from dkdist.embeddings._density_numba import degree_for, term_table
from dkdist.embeddings.divergence_params import ball_of_degrees
from dkdist.embeddings.divergences import divergence

NAMES = ("jensen-shannon", "hellinger", "chi2", "total-variation")
FINE = {1: (40, 12), 2: (8, 12), 3: (2, 14)}  # panels and nodes of the reference integral


def scaled(sets, spec):
    low, high = np.array(spec.domain.low), np.array(spec.domain.high)
    return [(x.astype(np.float64) - low) / (high - low) for x in sets]


def densities(sets, spec, grid):
    degrees = [degree_for(h) for h in spec.bandwidth]
    return np.array([series_density(x, degrees, spec.bandwidth, grid) for x in scaled(sets, spec)])


def integrals(kappa, p, weights, i, j):
    return np.array([weights @ kappa(p[a], p[b]) for a, b in zip(i, j, strict=True)])


def random_pairs(n_sets, n_pairs, seed=1):
    i, j = np.triu_indices(n_sets, 1)
    chosen = np.random.default_rng(seed).choice(len(i), n_pairs, replace=False)
    return i[chosen], j[chosen]


@pytest.fixture(scope="module")
def problems():
    """Return for each d: sets, pairs, and densities on the fine grid for the default bandwidth and domain."""
    problem_by_dimension = {}
    for d, n_sets, n_pairs in ((1, 120, 1000), (2, 120, 1000), (3, 30, 200)):
        sets = dk.SampleSets.from_arrays(gaussian_mixtures(n_sets, d, 200, seed=d))
        spec = dk.DivergenceEmbedding().fit(sets).spec_
        grid, w = panels(*FINE[d])
        weights = np.prod(np.meshgrid(*[w] * d, indexing="ij"), axis=0).ravel()
        problem_by_dimension[d] = (
            sets,
            spec,
            densities(sets, spec, grid),
            weights,
            random_pairs(n_sets, n_pairs),
        )
    return problem_by_dimension


@pytest.mark.parametrize("d", [1, 2, 3])
@pytest.mark.parametrize("name", NAMES)
def test_default_distances_match_the_integral(problems, name, d):
    sets, spec, p, weights, (i, j) = problems[d]
    embedding = dk.DivergenceEmbedding(name)
    rows = embedding.fit_transform(sets)
    assert (embedding.spec_.bandwidth, embedding.spec_.domain) == (spec.bandwidth, spec.domain)
    expected = integrals(divergence(name).kappa, p, weights, i, j)
    # documented accuracy of n_basis="auto" below its limit
    bound = 0.03 if name == "total-variation" else 0.01
    bound = bound if embedding.resolved_ else 0.05
    assert embedding.resolved_ == (d < 3)
    rms, relative = rms_errors(squared_distances(rows, i, j), expected)
    assert rms < bound
    assert relative < bound


@pytest.mark.parametrize("rule", ["gauss", "stratified"])
def test_other_frequency_rules_match_the_integral(problems, rule):
    sets, _, p, weights, (i, j) = problems[2]
    rows = dk.DivergenceEmbedding("jensen-shannon", frequencies=rule).fit_transform(sets)
    expected = integrals(divergence("jensen-shannon").kappa, p, weights, i, j)
    assert rms_errors(squared_distances(rows, i, j), expected)[0] < 0.02


@pytest.mark.parametrize("name", ["jensen-shannon", "chi2", "total-variation"])
def test_random_frequencies_are_unbiased_over_seeds(name):
    sets = dk.SampleSets.from_arrays(gaussian_mixtures(6, 1, 200, 0))
    i, j = np.triu_indices(6, 1)
    result, n_seeds = [], 300
    for seed in range(n_seeds):
        embedding = dk.DivergenceEmbedding(
            name, frequencies="random", n_frequencies=5, random_state=seed, bandwidth=0.1
        )
        result.append(squared_distances(embedding.fit_transform(sets), i, j))
    n_nodes = embedding.spec_.n_basis
    p = densities(sets, embedding.spec_, (np.arange(n_nodes) + 0.5) / n_nodes)
    expected = integrals(divergence(name).kappa, p, np.full(n_nodes, 1 / n_nodes), i, j)
    z = (np.mean(result, axis=0) - expected) / (np.std(result, axis=0, ddof=1) / np.sqrt(n_seeds))
    assert np.abs(z).max() < 4
    spread = np.std(result, axis=0) / expected
    assert spread.min() > 0.02  # random frequencies vary between seeds
    with_more = dk.DivergenceEmbedding(
        name, frequencies="random", n_frequencies=5000, random_state=0, bandwidth=0.1
    )
    assert rms_errors(squared_distances(with_more.fit_transform(sets), i, j), expected)[0] < 0.1


def custom_jensen_shannon(x, y):
    m = np.where(x + y > 0, (x + y) / 2, 1.0)
    return sum(np.where(z > 0, z, 0) * np.log(np.where(z > 0, z, m) / m) for z in (x, y)) / 2


CUSTOM_KAPPAS = {
    "jensen-shannon": custom_jensen_shannon,
    "hellinger": lambda x, y: (np.sqrt(x) - np.sqrt(y)) ** 2 / 2,
    "chi2": lambda x, y: (x - y) ** 2 / np.where(x + y > 0, x + y, 1.0),
    "total-variation": lambda x, y: np.abs(x - y),
}


@pytest.mark.parametrize("name", NAMES)
def test_custom_kappa_matches_built_in(name):
    sets = gaussian_mixtures(20, 2, 100, 0)
    i, j = np.triu_indices(20, 1)
    custom, built_in = (
        squared_distances(dk.DivergenceEmbedding(kappa).fit_transform(sets), i, j)
        for kappa in (CUSTOM_KAPPAS[name], name)
    )
    assert rms_errors(custom, built_in)[1] < (0.02 if name == "total-variation" else 1e-3)


def test_sum_of_kappas_matches_sum_of_distances():
    def sum_of_two(x, y):  # half of Jensen-Shannon and half of Hellinger
        return (divergence("jensen-shannon").kappa(x, y) + divergence("hellinger").kappa(x, y)) / 2

    sets = gaussian_mixtures(20, 1, 100, 0)
    i, j = np.triu_indices(20, 1)
    js, hellinger, mixed = (
        squared_distances(dk.DivergenceEmbedding(k).fit_transform(sets), i, j)
        for k in ("jensen-shannon", "hellinger", sum_of_two)
    )
    assert rms_errors(mixed, (js + hellinger) / 2)[1] < 2e-3


@pytest.mark.parametrize(("d", "bandwidth"), [(4, "auto"), (5, "auto"), (6, "auto"), (4, 0.18)])
@pytest.mark.parametrize("name", ["jensen-shannon", "total-variation"])
def test_joint_embedding_in_many_dimensions_matches_the_integral(name, d, bandwidth):
    sets = dk.SampleSets.from_arrays(gaussian_mixtures(12, d, 200, d))
    embedding = dk.DivergenceEmbedding(name, structure="joint", bandwidth=bandwidth).fit(sets)
    spec = embedding.spec_
    exponents, _, _ = ball_of_degrees(spec.bandwidth)
    C = []
    for x in scaled(sets, spec):
        product = np.ones((len(x), len(exponents)))
        for j in range(d):
            product *= np.cos(np.pi * np.outer(x[:, j], np.arange(exponents.max() + 1)))[:, exponents[:, j]]
        C.append(product.mean(axis=0))
    nodes = kronecker_lattice(2**13, d)
    p = np.maximum(np.array(C) @ term_table(nodes, exponents, np.array(spec.bandwidth)), 1e-6)
    i, j = np.triu_indices(12, 1)
    expected = integrals(divergence(name).kappa, p, np.full(len(nodes), 1 / len(nodes)), i, j)
    d2 = squared_distances(embedding.transform(sets), i, j)
    assert rms_errors(d2, expected)[0] < 0.02
    assert d2.max() < 1.05 * 2 * divergence(name).total  # disjoint sets have twice the total mass


def test_marginal_distance_is_the_sum_over_dimensions(problems):
    sets = problems[3][0]
    i, j = np.triu_indices(30, 1)
    marginal = squared_distances(
        dk.DivergenceEmbedding("chi2", 20, structure="marginal").fit_transform(sets), i, j
    )
    single_dimensions = [
        dk.DivergenceEmbedding("chi2", 20).fit_transform(
            dk.SampleSets(sets.points[:, k : k + 1], sets.offsets)
        )
        for k in range(3)
    ]
    np.testing.assert_allclose(
        marginal, sum(squared_distances(a, i, j) for a in single_dimensions), rtol=1e-4
    )


@pytest.mark.parametrize(
    ("d", "structure", "resolved"),
    [
        (1, "auto", "tensor"),
        (3, "auto", "tensor"),
        (4, "auto", "marginal"),
        (2, "marginal", "marginal"),
        (4, "joint", "grid"),
    ],
)
def test_auto_structure_depends_on_the_dimension(d, structure, resolved):
    sets = [np.random.default_rng(i).random((30, d)) for i in range(3)]
    assert dk.DivergenceEmbedding(structure=structure).fit(sets).spec_.structure == resolved


# ---- weights


@pytest.mark.parametrize("d", [1, 2, 4])
def test_integer_weights_match_repeated_points(d):
    rng = np.random.default_rng(d)
    arrays, counts = gaussian_mixtures(8, d, 50, d), rng.integers(1, 4, (8, 50))
    weighted = dk.SampleSets.from_arrays(arrays, weights=list(counts))
    repeated = [np.repeat(x, c, axis=0) for x, c in zip(arrays, counts, strict=True)]
    embedding = dk.DivergenceEmbedding(bandwidth=0.12).fit(weighted)
    np.testing.assert_allclose(embedding.transform(weighted), embedding.transform(repeated), atol=1e-4)


def test_rows_ignore_scale_of_weights_and_points_of_weight_zero():
    arrays, rng = gaussian_mixtures(8, 2, 50, 0), np.random.default_rng(0)
    weights = [rng.random(50) + 0.01 for _ in arrays]
    embedding = dk.DivergenceEmbedding("jensen-shannon")
    rows = embedding.fit_transform(dk.SampleSets.from_arrays(arrays, weights=weights))
    scaled_up = dk.SampleSets.from_arrays(arrays, weights=[w * 1e3**i for i, w in enumerate(weights)])
    np.testing.assert_allclose(embedding.transform(scaled_up), rows, atol=2e-5)
    np.testing.assert_allclose(
        dk.DivergenceEmbedding("jensen-shannon").fit(scaled_up).bandwidth_, embedding.bandwidth_, rtol=1e-5
    )
    padded = [np.concatenate([x, x[::-1]]) for x in arrays]
    with_zeros = dk.SampleSets.from_arrays(padded, weights=[np.append(w, 0 * w) for w in weights])
    np.testing.assert_allclose(embedding.transform(with_zeros), rows, atol=2e-5)


def test_invalid_weights_raise():
    arrays = [np.zeros((2, 1)), np.ones((3, 1))]
    for weights, message in (
        ([[1, 1], [1, -2, 1]], r"weight of point 1 of set 1 is -2"),
        ([[1, 1], [0, 0, 0]], r"weights of set 1 must have a positive sum"),
    ):
        sets = dk.SampleSets.from_arrays(arrays, weights=weights)
        with pytest.raises(dk.SampleSetError, match=message):
            dk.DivergenceEmbedding().fit(sets)
        fitted = dk.DivergenceEmbedding().fit(arrays)
        with pytest.raises(dk.SampleSetError, match=message):
            fitted.transform(sets)


# ---- domain


def test_domain_options():
    sets = [np.array([[0.25, 0.5], [0.5, 0.75]]), np.array([[0.375, 0.125]])]
    for domain, low, high, fixed in (
        ("data", (0.25, 0.125), (0.5, 0.75), False),
        ("unit", (0, 0), (1, 1), True),
        ((0, 2), (0, 0), (2, 2), True),
        (([-1, 0], [3, 5]), (-1, 0), (3, 5), True),
    ):
        result = dk.DivergenceEmbedding(domain=domain).fit(sets).spec_.domain
        assert (result.low, result.high, result.fixed) == (low, high, fixed)


def test_distances_do_not_depend_on_units():
    arrays = gaussian_mixtures(6, 2, 60, 0)
    moved = [x * [1000, 0.01] + [5e4, -3] for x in arrays]
    i, j = np.triu_indices(6, 1)
    # cross-validation may select another of two equally good candidates, which differ by 9 %
    embedding = dk.DivergenceEmbedding(bandwidth="scott")
    d2, other = (squared_distances(embedding.fit_transform(a), i, j) for a in (arrays, moved))
    np.testing.assert_allclose(other, d2, rtol=0.01)


@pytest.fixture
def sets_with_one_point_outside():
    arrays = [np.random.default_rng(i).random((5, 2)) for i in range(700)]
    arrays[612][3, 1] = 1.5
    return arrays


OUTSIDE = r"point 3 of set 612 is 1\.5 in column 1, outside the given domain \[0\.0, 1\.0\]"


def test_points_outside_a_given_domain_raise(sets_with_one_point_outside):
    with pytest.raises(dk.SampleSetError, match=OUTSIDE):
        dk.DivergenceEmbedding(domain="unit").fit(sets_with_one_point_outside)
    embedding = dk.DivergenceEmbedding(domain="unit").fit(sets_with_one_point_outside[:600])
    with pytest.raises(dk.SampleSetError, match=OUTSIDE):
        embedding.transform(sets_with_one_point_outside)


def test_points_outside_are_reported_by_position_in_the_store(sets_with_one_point_outside, tmp_path):
    dk.write_sets(tmp_path / "sets.zarr", sets_with_one_point_outside)
    store = dk.open_sets(tmp_path / "sets.zarr", block_sets=100)
    with pytest.raises(dk.SampleSetError, match=OUTSIDE):
        dk.DivergenceEmbedding(domain="unit").fit(store)
    lazy = dk.DivergenceEmbedding(domain="unit").fit(store[:600]).transform(store)
    with pytest.raises(dk.SampleSetError, match=OUTSIDE):
        lazy.compute(scheduler="sync")


def test_points_outside_the_data_are_clipped_and_counted_in_a_warning(sets_with_one_point_outside):
    sets_with_one_point_outside[650][:, 0] = -7
    embedding = dk.DivergenceEmbedding(domain="data").fit(sets_with_one_point_outside[:600])
    with pytest.warns(UserWarning, match=r"points in \d+ sets \(first: set \d+\) are outside") as caught:
        rows = embedding.transform(sets_with_one_point_outside)
    assert len(caught) == 1
    low, high = (np.array(side) for side in (embedding.spec_.domain.low, embedding.spec_.domain.high))
    n_outside = sum(
        int(((x < low) | (x > high)).any(axis=1).sum()) for x in np.float32(sets_with_one_point_outside)
    )
    assert str(caught[0].message).startswith(f"{n_outside} points in ")
    clipped = [np.clip(np.float32(x), *np.float32([low, high])) for x in sets_with_one_point_outside]
    np.testing.assert_array_equal(rows, embedding.transform(clipped))


def test_constant_dimensions_do_not_change_distances():
    arrays = gaussian_mixtures(6, 1, 60, 0)
    with_constant = [np.column_stack([x, np.full(len(x), 7.0)]) for x in arrays]
    i, j = np.triu_indices(6, 1)
    # marginal: bandwidths are those of one dimension, and a constant dimension adds nothing
    d2 = squared_distances(dk.DivergenceEmbedding(structure="marginal").fit_transform(with_constant), i, j)
    np.testing.assert_allclose(
        d2, squared_distances(dk.DivergenceEmbedding().fit_transform(arrays), i, j), rtol=1e-4
    )
    joint = dk.DivergenceEmbedding(n_basis=10, bandwidth=0.1)
    expected = squared_distances(
        dk.DivergenceEmbedding(n_basis=10, bandwidth=0.1).fit_transform(arrays), i, j
    )
    np.testing.assert_allclose(
        squared_distances(joint.fit_transform(with_constant), i, j), expected, rtol=0.01
    )


# ---- options


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"divergence": "kl"}, r"divergence must be one of 'jensen-shannon'.*got 'kl'"),
        ({"n_basis": 1}, r"n_basis must be an integer >= 2; got 1"),
        ({"n_basis": 2.5}, r"n_basis must be an integer"),
        ({"n_frequencies": 0}, r"n_frequencies must be an integer >= 1; got 0"),
        ({"frequencies": "halton"}, r"frequencies must be one of 'auto', 'fitted'"),
        ({"bandwidth": "silverman"}, r"bandwidth must be one of 'auto', 'scott'"),
        ({"bandwidth": -1.0}, r"bandwidth must be a positive number or 2 of them"),
        ({"bandwidth": [0.1, 0.1, 0.1]}, r"bandwidth must be a positive number or 2 of them"),
        ({"bandwidth": None}, r"bandwidth must be a positive number or 2 of them"),
        (
            {"index_set": "ball"},
            r"index_set must be one of 'nodes', 'tensor', 'total-degree', or \('sobolev', s\)",
        ),
        ({"bandwidth": [[0.1], [0.0]]}, r"bandwidth must be a positive number or 2 of them"),
        (
            {"bandwidth": [[0.1], [0.1, 0.2]]},
            r"nested sequence of these for several scales \(\[\[0\.05\], \[0\.1\]\]\)",
        ),
        ({"domain": "sphere"}, r"domain must be one of 'robust', 'data', 'unit'"),
        ({"domain": (1, 0)}, r"domain must have finite low < high"),
        ({"domain": ([0, 0, 0], 1)}, r"domain must be 'robust', 'data', 'unit' or \(low, high\)"),
        ({"structure": "sparse"}, r"structure must be one of 'auto', 'joint', 'marginal'"),
        ({"frequencies": "random", "divergence": "chi2", "random_state": -1}, r"random_state must be None"),
        ({"divergence": lambda x, y: (x - y) ** 2}, r"homogeneous"),
    ],
)
def test_invalid_options_raise(options, message):
    with pytest.raises(ValueError, match=message):
        dk.DivergenceEmbedding(**options).fit([np.random.default_rng(0).random((9, 2))])


def test_sets_of_another_dimension_raise():
    embedding = dk.DivergenceEmbedding().fit([np.random.default_rng(0).random((9, 2))])
    with pytest.raises(dk.SampleSetError, match=r"must have 2 dimension\(s\), as in fit; got 3"):
        embedding.transform([np.zeros((4, 3))])


@pytest.mark.parametrize("X", [[], np.zeros((5, 2)), "sets", np.zeros((0, 3, 2))])
def test_invalid_collections_raise(X):
    with pytest.raises(dk.SampleSetError):
        dk.DivergenceEmbedding().fit(X)


@pytest.mark.parametrize("options", [{}, {"structure": "marginal"}, {"divergence": "total-variation"}])
def test_squared_distances_of_several_scales_are_averaged(problems, options):
    sets, *_, (i, j) = problems[2]
    scales = [[0.1, 0.15], [0.2, 0.2], [0.4, 0.3]]
    options = {"n_basis": 10, **options}
    embedding = dk.DivergenceEmbedding(bandwidth=scales, **options).fit(sets)
    np.testing.assert_array_equal(embedding.bandwidth_, scales)
    single_scale_rows = [dk.DivergenceEmbedding(bandwidth=h, **options).fit_transform(sets) for h in scales]
    rows = embedding.transform(sets)
    assert rows.shape[1] == 3 * single_scale_rows[0].shape[1] == len(embedding.get_feature_names_out())
    mean = np.mean([squared_distances(scale_rows, i, j) for scale_rows in single_scale_rows], axis=0)
    np.testing.assert_allclose(squared_distances(rows, i, j), mean, rtol=1e-4)


@pytest.mark.parametrize("d", [1, 2, 3])
def test_projections_match_cosine_transform_of_nodal_values(problems, d):
    sets = problems[d][0][:9]
    options = {"divergence": "chi2", "n_basis": 6, "bandwidth": 0.2}
    nodal = dk.DivergenceEmbedding(**options).fit_transform(sets)
    rows = dk.DivergenceEmbedding(index_set="tensor", **options).fit_transform(sets)
    grids = nodal.reshape(len(nodal), -1, *(6,) * d).astype(np.float64)
    expected = dctn(grids, axes=range(2, 2 + d), norm="ortho")
    np.testing.assert_allclose(rows, expected.reshape(rows.shape), atol=1e-6)
    i, j = np.triu_indices(9, 1)
    np.testing.assert_allclose(squared_distances(rows, i, j), squared_distances(nodal, i, j), rtol=1e-5)
    for index_set, order in (("total-degree", 1), (("sobolev", 1), 2)):
        embedding = dk.DivergenceEmbedding(index_set=index_set, **options).fit(sets)
        a = np.indices((6,) * d).reshape(d, -1)
        inside = (a**order).sum(axis=0) <= 5**order
        selected = rows.reshape(len(rows), -1, 6**d)[:, :, inside].reshape(len(rows), -1)
        np.testing.assert_array_equal(embedding.transform(sets), selected)
        assert len(embedding.get_feature_names_out()) == selected.shape[1]


def test_projections_of_marginal_structure_keep_distances(problems):
    sets, *_, (i, j) = problems[2]
    options = {"structure": "marginal", "bandwidth": [[0.1], [0.2]]}
    nodal = dk.DivergenceEmbedding(**options).fit_transform(sets)
    rows = dk.DivergenceEmbedding(index_set="total-degree", **options).fit_transform(sets)
    np.testing.assert_allclose(squared_distances(rows, i, j), squared_distances(nodal, i, j), rtol=1e-4)


def test_small_index_set_keeps_most_of_the_distance(problems):
    sets, *_, (i, j) = problems[2]
    nodal = squared_distances(dk.DivergenceEmbedding().fit_transform(sets), i, j)
    short = squared_distances(dk.DivergenceEmbedding(index_set="total-degree").fit_transform(sets), i, j)
    assert (short <= nodal * 1.00001).all()
    assert rms_errors(short, nodal)[0] < 0.01


def test_single_nested_scale_matches_plain_bandwidth(problems):
    sets = problems[2][0]
    plain = dk.DivergenceEmbedding(bandwidth=0.2).fit(sets)
    nested = dk.DivergenceEmbedding(bandwidth=[[0.2]]).fit(sets)
    assert nested.spec_ == plain.spec_
    assert nested.bandwidth_.shape == (2,)


def test_too_small_bandwidth_warns():
    sets = gaussian_mixtures(3, 1, 50, 0)
    with pytest.warns(UserWarning, match=r"bandwidth 0\.02 .*Use n_basis >= 25 or bandwidth >= 0\.05"):
        dk.DivergenceEmbedding(bandwidth=0.02, n_basis=10).fit(sets)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        dk.DivergenceEmbedding(bandwidth=0.02, n_basis=25).fit(sets)


def test_bandwidth_of_0_8_spacings_has_errors_below_0_25_percent(problems):
    sets = problems[1][0]
    embedding = dk.DivergenceEmbedding("jensen-shannon", n_basis=10, bandwidth=0.08, domain="data").fit(sets)
    grid, weights = panels(*FINE[1])
    i, j = problems[1][4]
    p = densities(sets, embedding.spec_, grid)
    expected = integrals(divergence("jensen-shannon").kappa, p, weights, i, j)
    assert rms_errors(squared_distances(embedding.transform(sets), i, j), expected)[1] < 0.0025
