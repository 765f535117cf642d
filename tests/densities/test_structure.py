"""Selection of pairs of dimensions, and concatenated rows of single dimensions and groups."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom, rankdata, t
from sklearn.pipeline import make_pipeline

import dkdist as dk
from dkdist._base.influence import point_influences
from dkdist.embeddings.pair_selection import _halves, compute_pair_tests, select_pairs
from dkdist.embeddings.structure import FeatureBlock, FeatureUnionParams

DOMAIN = (-4.0, 4.0)
KINDS = {
    "divergence": lambda **a: dk.DivergenceEmbedding("chi2", 6, bandwidth=0.15, domain=DOMAIN, outside="clip", **a),
    "l2": lambda **a: dk.L2Embedding(6, bandwidth=0.15, domain=DOMAIN, outside="clip", **a),
    "histogram": lambda **a: dk.HistogramEmbedding(4, domain=DOMAIN, outside="clip", **a),
}  # fmt: skip


def test_pair_tests_use_little_memory() -> None:
    """Cosines of all points together would need 72 bytes per coordinate."""
    sets = dk.SampleSets.from_arrays(np.random.default_rng(0).random((100, 60, 40)))
    compute_pair_tests(sets[:8])
    tracemalloc.start()
    compute_pair_tests(sets)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    matrices = 12 * 8 * (3 * sets.n_dims) ** 2
    assert peak < matrices + 16 * sets.points.size  # the halves, and the orders of their points


def classes(n: int, d: int, pairs: Any, n_points: int = 40, rho: float = 0.6, seed: int = 0) -> dk.SampleSets:
    """Return Gaussian sets with equal marginals; some pairs are correlated, with alternating signs."""
    rng = np.random.default_rng(seed)
    sets = rng.standard_normal((n, n_points, d))
    sign = np.where(np.arange(n) % 2, 1, -1)[:, None]
    for i, j in pairs:
        sets[:, :, j] = sign * rho * sets[:, :, i] + np.sqrt(1 - rho**2) * sets[:, :, j]
    return dk.SampleSets.from_arrays(list(sets))


def columns(sets: dk.SampleSets, dims: Any) -> dk.SampleSets:
    return dk.SampleSets(sets.points[:, list(dims)], sets.offsets, sets.weights)


def weighted(sets: dk.SampleSets, seed: int = 0) -> dk.SampleSets:
    return dk.SampleSets(sets.points, sets.offsets, np.random.default_rng(seed).random(sets.n_points))


# ---- selection of pairs


def test_pair_test_is_a_correlation_of_halves_over_sets() -> None:
    sets = classes(30, 3, [(0, 2)], rho=0.3)
    halves, T = list(_halves(sets)), []
    assert sorted(map(tuple, np.concatenate(halves))) == sorted(map(tuple, sets.points))
    for half in halves:
        u = (rankdata(half.astype(np.float64), axis=0) - 0.5) / len(half)
        f = np.cos(np.pi * u[:, :, None] * np.arange(1, 4))
        f -= f.mean(axis=0)
        T.append(np.einsum("nia,njb->ijab", f, f) / len(half))
    result = compute_pair_tests(sets)
    for k, (i, j) in enumerate(zip(*np.triu_indices(3, 1), strict=True)):
        first_half, second_half = (np.array(T[start::2])[:, i, j].reshape(30, 9) for start in (0, 1))
        r = max(np.corrcoef(first_half[:, ab], second_half[:, ab])[0, 1] for ab in range(9))
        expected = max(r, 0) * np.sqrt(28 / (1 - r**2))
        assert result.t[k] == pytest.approx(expected, abs=1e-8)
        assert result.p[k] == pytest.approx(min(1, 9 * t.sf(expected, 28)), rel=1e-6)


def test_same_copula_in_all_sets_is_not_significant() -> None:
    """Sets have the same strong dependence but different locations, scales and sizes: p-values are conservative."""
    min_p_values = []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        mix = rng.normal(size=(4, 4))
        arrays = [
            np.exp(rng.normal()) * rng.normal(size=(n, 4)) @ mix + rng.normal(size=4)
            for n in rng.integers(16, 60, 60)
        ]
        min_p_values.append(6 * compute_pair_tests(dk.SampleSets.from_arrays(arrays)).p.min())
    assert sum(p <= 0.1 for p in min_p_values) <= binom.ppf(0.9999, 60, 0.1)
    assert sum(p <= 0.01 for p in min_p_values) <= 3


def test_select_pairs_finds_exactly_the_planted_pairs() -> None:
    sets = classes(100, 7, [(1, 4), (5, 2)])
    assert sorted(select_pairs(sets)) == [(1, 4), (2, 5)]
    assert select_pairs(weighted(sets)) != []


def test_select_pairs_finds_nonlinear_dependence() -> None:
    rng = np.random.default_rng(1)
    arrays = []
    for i in range(100):
        x = rng.standard_normal((60, 4))
        if i % 2:  # a circle is uncorrelated
            angle = rng.uniform(0, 2 * np.pi, 60)
            x[:, 1], x[:, 3] = np.cos(angle), np.sin(angle)
        arrays.append(x)
    assert select_pairs(dk.SampleSets.from_arrays(arrays)) == [(1, 3)]


def test_pair_tests_do_not_depend_on_marginals() -> None:
    sets = classes(60, 4, [(0, 3)])
    rng = np.random.default_rng(0)
    transformed = [np.exp(x * rng.uniform(0.2, 1, 4)) + rng.normal(size=4) for x in sets]
    np.testing.assert_array_equal(
        compute_pair_tests(dk.SampleSets.from_arrays(transformed)).t, compute_pair_tests(sets).t
    )


@pytest.mark.parametrize(
    "arrays",
    [
        [np.zeros((1, 4))] * 50,
        [np.random.default_rng(i).normal(size=(7, 4)) for i in range(50)],
        [np.random.default_rng(i).normal(size=(50, 4)) for i in range(3)],
        [np.ones((20, 4))] * 50,
        [np.random.default_rng(0).normal(size=(20, 4))] * 50,
    ],
    ids=["one point", "few points", "few sets", "equal points", "equal sets"],
)
def test_uninformative_sets_have_no_pairs(arrays: Any) -> None:
    embedding = dk.DivergenceEmbedding(bandwidth=0.1).fit(arrays)
    assert (embedding.structure_, embedding.pairs_, embedding.n_pairs_found_) == ("marginal", (), 0)


# ---- rows


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("with_weights", [False, True])
def test_rows_of_groups_are_concatenated(kind: str, with_weights: bool) -> None:
    sets = classes(12, 4, [(1, 2)])
    sets = weighted(sets) if with_weights else sets
    groups = [(1, 2), (3, 0), (0, 1, 3)]
    embedding = KINDS[kind](structure=groups).fit(sets)
    parts = [KINDS[kind](structure="marginal").fit_transform(sets)]
    for dims in groups:
        parts.append(np.sqrt(4 / 3) * KINDS[kind](structure="joint").fit_transform(columns(sets, dims)))
    rows = embedding.transform(sets)
    np.testing.assert_allclose(rows, np.concatenate(parts, axis=1), rtol=1e-6, atol=1e-7)
    assert (embedding.structure_, embedding.pairs_, embedding.n_pairs_found_) == ("pairs", tuple(groups), 3)
    assert len(embedding.get_feature_names_out()) == rows.shape[1] == embedding.spec_.n_features
    d2 = ((rows[:1] - rows[1:]) ** 2).sum(axis=1)
    marginals, *joint = [((part[:1] - part[1:]) ** 2).sum(axis=1) for part in parts]
    np.testing.assert_allclose(d2, marginals + sum(joint), rtol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_structure_list_with_single_dimensions(kind: str) -> None:
    sets = classes(12, 5, [])
    embedding = KINDS[kind](structure=[3, (0,), (1, 4)]).fit(sets)
    single_rows = KINDS[kind](structure="marginal").fit_transform(columns(sets, (3, 0)))
    pair = KINDS[kind](structure="joint").fit_transform(columns(sets, (1, 4)))
    expected = np.concatenate([single_rows, np.sqrt(2) * pair], axis=1)
    np.testing.assert_allclose(embedding.transform(sets), expected, rtol=1e-6, atol=1e-7)
    moved = sets.points.copy()
    moved[:, 2] = 0  # an unused dimension
    changed_rows = embedding.transform(dk.SampleSets(moved, sets.offsets))
    np.testing.assert_array_equal(changed_rows, embedding.transform(sets))


@pytest.mark.parametrize("kind", KINDS)
def test_rows_without_pairs_are_marginal(kind: str) -> None:
    sets = classes(40, 4, [])
    for word in ("auto", "pairs"):
        result, marginal = (KINDS[kind](structure=s).fit(sets) for s in (word, "marginal"))
        assert result.spec_ == marginal.spec_
        np.testing.assert_array_equal(result.transform(sets), marginal.transform(sets))
        assert (result.structure_, result.pairs_, result.n_pairs_found_) == ("marginal", (), 0)


@pytest.mark.parametrize("kind", KINDS)
def test_auto_structure_uses_selected_pairs(kind: str, tmp_path: Any) -> None:
    sets = classes(80, 5, [(0, 3), (1, 2)])
    embedding = KINDS[kind]().fit(sets)
    assert (embedding.structure_, sorted(embedding.pairs_), embedding.n_pairs_found_) == (
        "pairs",
        [(0, 3), (1, 2)],
        2,
    )
    assert embedding.spec_ == KINDS[kind](structure=list(embedding.pairs_)).fit(sets).spec_
    dk.write_sets(tmp_path / "s.zarr", sets)
    for block_sets in (7, None):
        store = dk.open_sets(tmp_path / "s.zarr", block_sets=block_sets)
        refitted = KINDS[kind](structure="pairs").fit(store)
        assert refitted.spec_ == embedding.spec_
        np.testing.assert_array_equal(refitted.transform(store).compute(), embedding.transform(sets))
    two_dimensional = KINDS[kind]().fit(columns(sets, (0, 3)))
    assert (two_dimensional.structure_, two_dimensional.pairs_) == ("joint", ())


def test_strongest_pairs_are_kept_if_features_are_limited() -> None:
    sets = classes(80, 6, [(0, 3), (1, 2), (4, 5)])
    embedding = dk.DivergenceEmbedding(n_basis=64, bandwidth=0.1).fit(sets)
    assert embedding.n_pairs_found_ == 3
    assert embedding.pairs_ == tuple(select_pairs(sets)[:2])  # each pair has 4,096 nodes
    assert sum(len(part.dims) == 2 for part in embedding.spec_.parts) == 2
    assert len(dk.DivergenceEmbedding(n_basis=52, bandwidth=0.1).fit(sets).pairs_) == 3


def test_bandwidths_of_pairs() -> None:
    sets = classes(40, 4, [(0, 1)])
    auto = dk.DivergenceEmbedding(structure=[(0, 1)], domain=DOMAIN, outside="clip").fit(sets)
    pair_only = dk.DivergenceEmbedding(domain=DOMAIN, outside="clip").fit(columns(sets, (0, 1)))
    assert auto.spec_.parts[1].spec == pair_only.spec_
    h = [[0.1, 0.2, 0.3, 0.4], [0.2] * 4]
    fixed = dk.DivergenceEmbedding(structure=[(2, 0)], bandwidth=h).fit(sets)
    assert fixed.spec_.parts[1].spec.scales == ((0.3, 0.1), (0.2, 0.2))
    np.testing.assert_array_equal(fixed.bandwidth_, h)
    assert fixed.resolved_


def test_total_variation_doubles_nodes_of_single_dimensions_only() -> None:
    embedding = dk.DivergenceEmbedding("total-variation", 8, structure=[(0, 1)], bandwidth=0.1).fit(
        classes(9, 4, [])
    )
    assert [part.spec.n_basis for part in embedding.spec_.parts] == [16, 8]
    assert embedding.n_basis_ == 8


def test_uniform_nodes_of_groups_are_concatenated() -> None:
    sets = classes(12, 4, [(1, 2)])
    options: Any = {
        "nodes": "uniform",
        "n_nodes": 50,
        "bandwidth": 0.2,
        "random_state": 3,
        "domain": DOMAIN,
        "outside": "clip",
    }
    rows = dk.DivergenceEmbedding(structure=[(1, 2)], **options).fit_transform(sets)
    joint = dk.DivergenceEmbedding(**options).fit_transform(columns(sets, (1, 2)))
    np.testing.assert_allclose(rows[:, -50:], 2 * joint, rtol=1e-6)


def test_noise_is_summed_over_groups() -> None:
    sets = classes(30, 4, [(0, 1)])
    embedding = KINDS["divergence"](structure=[(0, 1)]).fit(sets)
    marginal = KINDS["divergence"](structure="marginal").fit(sets)
    pair = KINDS["divergence"]().fit(columns(sets, (0, 1)))
    expected = marginal.noise(sets) + 4 * pair.noise(columns(sets, (0, 1)))
    np.testing.assert_allclose(embedding.noise(sets), expected, rtol=1e-9)
    model = make_pipeline(embedding, dk.RandomFourierFeatures(2000, random_state=0)).fit(sets)
    assert dk.kernel_error(model, sets, n_pairs=50, random_state=0).distance_rms < 0.02


@pytest.mark.parametrize("kind", KINDS)
def test_influence_is_the_derivative_of_rows(kind: str) -> None:
    sets = classes(6, 4, [(0, 1)])
    tables = KINDS[kind](structure=[(0, 1), (1, 2, 3)]).fit(sets).spec_.materialize()
    gradient = np.random.default_rng(0).normal(size=(tables.spec.n_features, 2))
    one_set, point, step = sets[:1], sets[0][3:4], 1e-3
    result = point_influences(tables, one_set, gradient, point)[0]
    values = []
    for eps in (-step, step):  # (1 - t) P + t delta_x, x a point of P
        w = np.full(len(one_set.points) + 1, (1 - eps) / len(one_set.points))
        w[-1] = 0.0
        w[3] += eps
        moved_set = dk.SampleSets(np.concatenate([one_set.points, point]), [0, len(w)], w)
        values.append(tables.embed(moved_set)[0].astype(np.float64) @ gradient)
    np.testing.assert_allclose(result, (values[1] - values[0]) / (2 * step), rtol=2e-2, atol=2e-2)


def test_pipelines_searches_and_models_with_pairs(tmp_path: Any) -> None:
    sets, y = classes(40, 4, [(0, 1)]), np.arange(40) % 2
    embedding = KINDS["divergence"](structure=[(0, 1)])
    model = make_pipeline(embedding, dk.IncrementalRidgeClassifier(random_state=0))
    search = dk.OnePassSearch(model, {f"{model.steps[0][0]}__bandwidth": [0.1, 0.3]}, random_state=0).fit(
        sets, y
    )
    assert search.predict(sets[:5]).shape == (5,)
    dk.save_model(search.best_estimator_, tmp_path / "m.npz")
    loaded = dk.load_model(tmp_path / "m.npz")
    assert isinstance(loaded[0].spec_, FeatureUnionParams)
    assert loaded[0].pairs_ == ((0, 1),)
    points = dk.explain(search, sets[:2])
    np.testing.assert_allclose(
        [c.sum() for c in points], search.decision_function(sets[:2]) - loaded[-1].intercept_, atol=1e-4
    )
    invariant = dk.InvariantFeatures(embedding, axes=[0]).fit(sets)
    mirrored = [x * [-1, 1, 1, 1] for x in sets]
    np.testing.assert_allclose(invariant.transform(sets), invariant.transform(mirrored), atol=1e-4)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("structure", "message"),
    [
        ("tree", "structure must be one of 'auto', 'joint', 'marginal', 'pairs'"),
        ([], "or a list of distinct dimensions"),
        ([(0, 4)], r"dimensions \(0 to 3\).*; got"),
        ([(0, 0)], "list of distinct dimensions"),
        ([(0, 1), (1, 0)], "list of distinct dimensions"),
        ([(0, 1, 2, 3)], "groups of three"),
        ([(0.5, 1)], "list of distinct dimensions"),
        ([[0, [1, 2]]], "list of distinct dimensions"),
        (3, "list of distinct dimensions"),
        ([None], "list of distinct dimensions"),
    ],
)
def test_invalid_structures_raise(kind: str, structure: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        KINDS[kind](structure=structure).fit(classes(4, 4, []))


def test_too_few_or_too_many_dimensions_for_pairs_raise() -> None:
    with pytest.raises(ValueError, match=r"2 to 512 dimensions; got 1\. Use structure='marginal'"):
        dk.DivergenceEmbedding(structure="pairs").fit(classes(4, 1, []))
    with pytest.raises(ValueError, match=r"got 513\. List the pairs.*SetPCA"):
        dk.L2Embedding(structure="pairs").fit(classes(4, 513, []))
    wide = dk.HistogramEmbedding(2).fit(classes(4, 513, []))
    assert wide.structure_ == "marginal"


def test_invalid_feature_blocks_raise() -> None:
    spec = KINDS["l2"](structure=[(0, 1)]).fit(classes(4, 4, [])).spec_
    marginal, pair = spec.parts
    for make_invalid in (
        lambda: FeatureUnionParams(spec.domain, ()),
        lambda: FeatureUnionParams(spec.domain, (FeatureBlock((2, 9), pair.spec),)),
        lambda: FeatureUnionParams(spec.domain, (FeatureBlock((0, -1), pair.spec),)),
        lambda: FeatureUnionParams(replace(spec.domain, low=(-5.0,) * 4), (marginal, pair)),
        lambda: FeatureBlock((0, 0), pair.spec),
        lambda: FeatureBlock((0, 1, 2), pair.spec),
        lambda: FeatureBlock((0, 1), pair.spec, float("nan")),
        lambda: FeatureBlock((0, 1), pair.spec, -1.0),
    ):
        with pytest.raises(ValueError, match=r"dimensions|weight must be|parts must contain"):
            make_invalid()
