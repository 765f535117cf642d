"""Cross-validation of bandwidths compared with sums over pairs and known densities."""

import numpy as np
import pytest

import dkdist as dk
from dkdist.embeddings.cross_validation import best_bandwidth, coefficient_sums, distinct_points


def distinct(x, w=None):
    return distinct_points(np.asarray(x, np.float32), np.array([0, len(x)]), w)


@pytest.mark.parametrize(
    ("d", "structure", "degrees"), [(1, "tensor", 9), (2, "tensor", 6), (3, "tensor", 4), (4, "ball", 3.5)]
)
def test_coefficient_sums_match_sums_over_pairs(d, structure, degrees):
    rng = np.random.default_rng(d)
    x, w = rng.random((25, d)), rng.random(25).astype(np.float32)
    sums = coefficient_sums(distinct(x, w), structure, (degrees,) * d)
    u = w / w.sum(dtype=float)
    phi = np.prod(
        [
            np.cos(np.pi * np.outer(x[:, j], a)) * np.where(a > 0, 2**0.5, 1)
            for j, a in enumerate(sums.exponents.T)
        ],
        axis=0,
    )
    weighted = u[:, None] * phi
    pairs = np.einsum("ia,ka->ika", weighted, weighted)
    squared_weights = (u**2).sum()
    unbiased = (pairs.sum((0, 1)) - np.einsum("iia->a", pairs)) / (1 - squared_weights)
    damping = np.exp(-((np.pi * sums.exponents / degrees) ** 2).sum(axis=1) / 2)
    energy = max(1.0, damping @ unbiased)
    np.testing.assert_allclose(sums.unbiased * energy, unbiased, atol=2e-5)  # cosines have float32 precision
    np.testing.assert_allclose(sums.squares * energy, weighted.sum(0) ** 2, atol=2e-5)


def test_score_estimates_the_integrated_squared_error():
    """For p = 1 + cos(pi x) / 2, drawn by rejection, the mean score over sets is the error minus int p^2."""
    rng, h = np.random.default_rng(0), 0.12
    scores, errors = [], []
    a = np.arange(24)
    b, c = np.exp(-((np.pi * a * h) ** 2) / 2), np.where(a == 1, 0.5**1.5, 1.0 * (a == 0))
    for _ in range(400):
        x = rng.random(400)
        x = x[rng.random(400) * 1.5 < 1 + np.cos(np.pi * x) / 2][:150]
        C = np.cos(np.pi * np.outer(a, x)).mean(axis=1) * np.where(a > 0, 2**0.5, 1)
        errors.append(((b * C - c) ** 2).sum() - (c**2).sum())
        sums = coefficient_sums(distinct(x[:, None]), "tensor", (24,))
        scores.append(sums.scores(np.array([h]))[0] / sums.squares[0])  # C_0 = 1, the scale of all scores
    spread = np.std(np.subtract(scores, errors)) / np.sqrt(len(scores))
    assert abs(np.mean(scores) - np.mean(errors)) < 4 * spread


def test_scores_along_a_dimension_match_scores():
    sums = coefficient_sums(distinct(np.random.default_rng(0).beta(2, 5, (80, 2))), "tensor", (16, 16))
    candidates = np.array([0.2, 0.1, 0.07])
    along = [sums.scores_along(1, np.full(2, h), candidates)[k] for k, h in enumerate(candidates)]
    np.testing.assert_allclose(along, sums.scores(candidates), rtol=1e-10)


def test_bandwidths_differ_between_dimensions():
    rng = np.random.default_rng(0)
    x = np.column_stack([rng.normal(0.5, 0.02, 400), rng.random(400)])
    h = best_bandwidth(coefficient_sums(distinct(x), "tensor", (64, 64)), 0.25 * 2.0 ** (-np.arange(33) / 8))
    assert h[0] < 0.02 < 0.2 < h[1]


def test_distinct_points_merge_equal_points_and_omit_atoms_and_points_outside():
    x = np.array([[0.1], [0.1], [0.3], [0.4], [0.5], [0.5], [2.0]] + [[0.01 * i + 0.6] for i in range(30)])
    w = np.ones(len(x), np.float32)
    w[:2] = 9  # a quarter of the weight at one position
    result = distinct(x, w)
    assert result.n_points == 33
    assert result.points.min() == pytest.approx(0.3)
    u = result.weights
    np.testing.assert_allclose(u / u.min(), np.where(result.points[:, 0] == np.float32(0.5), 2, 1))
    assert distinct(np.full((9, 2), 0.5)) is None


# ---- bandwidths of embeddings


def normal(n_sets, n, d=1, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.normal(0.5, 0.1, (n, d)).clip(0.001, 0.999) for _ in range(n_sets)]


@pytest.mark.parametrize(("n", "d"), [(50, 1), (1000, 1), (200, 2)])
def test_bandwidth_of_normal_densities_is_near_the_optimum(n, d):
    """The asymptotic optimum is (4 / ((d + 2) n))^(1 / (d + 4)) sigma; tolerance 20 %."""
    result = dk.DivergenceEmbedding(domain="unit").fit(normal(40, n, d)).bandwidth_
    np.testing.assert_allclose(result, 0.1 * (4 / ((d + 2) * n)) ** (1 / (d + 4)), rtol=0.2)


def test_n_basis_depends_on_the_bandwidth():
    small, large = (dk.DivergenceEmbedding(domain="unit").fit(normal(20, n)) for n in (30, 2000))
    assert 4 <= small.n_basis_ < large.n_basis_
    for embedding in (small, large):
        assert embedding.resolved_
        assert embedding.n_basis_ == np.ceil(0.5 / embedding.bandwidth_.min())
    limited = dk.DivergenceEmbedding(bandwidth="auto", n_basis=5, domain="unit").fit(normal(20, 2000))
    assert not limited.resolved_
    assert limited.bandwidth_ == pytest.approx(0.3 / 5)
    assert dk.L2Embedding(domain="unit").fit(normal(20, 2000)).n_basis_ > large.n_basis_
    with pytest.warns(UserWarning, match="too small for 36 nodes per dimension"):
        assert not dk.DivergenceEmbedding(bandwidth=0.01).fit(normal(3, 30, 2)).resolved_


def test_scott_bandwidth_with_ten_nodes():
    fitted = dk.DivergenceEmbedding(n_basis=10, bandwidth="scott", domain="unit").fit(normal(9, 2000))
    assert fitted.bandwidth_.tolist() == [0.08]
    assert dk.DivergenceEmbedding(bandwidth="scott", domain="unit").fit(normal(9, 2000)).bandwidth_ < 0.03


@pytest.mark.parametrize("structure", ["joint", "marginal"])
def test_stores_give_identical_parameters(tmp_path, structure):
    sets = dk.SampleSets.from_arrays(normal(90, 40, 2))
    store = dk.write_sets(tmp_path / "s.zarr", sets)
    for kind in (dk.DivergenceEmbedding, dk.L2Embedding):
        assert kind(structure=structure).fit(sets).spec_ == kind(structure=structure).fit(store).spec_


def test_bandwidth_ignores_equal_weights_and_repetitions():
    sets = normal(20, 60, 2)
    plain = dk.DivergenceEmbedding(domain="unit").fit(sets)
    weighted = dk.SampleSets.from_arrays(sets, weights=[np.full(60, 3.0)] * 20)
    repeated = [np.repeat(x, 2, axis=0) for x in sets]
    for equivalent in (weighted, repeated):
        assert (
            dk.DivergenceEmbedding(domain="unit").fit(equivalent).bandwidth_.tolist()
            == plain.bandwidth_.tolist()
        )


def test_sets_of_single_points_have_a_bandwidth():
    fitted = dk.DivergenceEmbedding(domain="unit").fit([[[0.2, 0.4]], [[0.5, 0.5]]])
    assert fitted.bandwidth_.tolist() == [0.08, 0.08]


def test_divergences_of_large_sets_converge():
    """The Jensen-Shannon divergence of N(0, 1) and N(1/2, 1) is 0.03031, by integration."""
    rng = np.random.default_rng(0)
    relative_errors = []
    for n in (1000, 20000):
        sets = [rng.normal((i % 2) / 2, 1, (n, 1)).clip(-6, 6.5) for i in range(12)]
        A = dk.DivergenceEmbedding("jensen-shannon", domain=(-6, 6.5)).fit_transform(sets).astype(float)
        relative_errors.append(((A[::2, None] - A[None, 1::2]) ** 2).sum(-1).mean() / 0.030311 - 1)
    assert abs(relative_errors[1]) < 0.05
