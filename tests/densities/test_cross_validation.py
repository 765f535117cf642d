"""Cross-validation of bandwidths against direct sums over pairs, known densities, and its laws."""

import numpy as np
import pytest

import dkdist as dk
from dkdist.embeddings.cross_validation import best_bandwidth, coefficient_sums, distinct_points


def places(x, w=None):
    return distinct_points(np.asarray(x, np.float32), np.array([0, len(x)]), w)


@pytest.mark.parametrize(
    ("d", "structure", "degrees"), [(1, "tensor", 9), (2, "tensor", 6), (3, "tensor", 4), (4, "ball", 3.5)]
)
def test_sums_are_those_over_pairs_of_different_points(d, structure, degrees):
    rng = np.random.default_rng(d)
    x, w = rng.random((25, d)), rng.random(25).astype(np.float32)
    sums = coefficient_sums(places(x, w), structure, (degrees,) * d)
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
    single = (u**2).sum()
    unbiased = (pairs.sum((0, 1)) - np.einsum("iia->a", pairs)) / (1 - single)
    damping = np.exp(-((np.pi * sums.exponents / degrees) ** 2).sum(axis=1) / 2)
    energy = max(1.0, damping @ unbiased)
    np.testing.assert_allclose(sums.unbiased * energy, unbiased, atol=2e-5)  # cosines are float32
    np.testing.assert_allclose(sums.squares * energy, weighted.sum(0) ** 2, atol=2e-5)


def test_the_score_estimates_the_integrated_squared_error():
    """Of p = 1 + cos(pi x) / 2, drawn by rejection: its mean over sets is the error but for int p^2."""
    rng, h = np.random.default_rng(0), 0.12
    output, errors = [], []
    a = np.arange(24)
    b, c = np.exp(-((np.pi * a * h) ** 2) / 2), np.where(a == 1, 0.5**1.5, 1.0 * (a == 0))
    for _ in range(400):
        x = rng.random(400)
        x = x[rng.random(400) * 1.5 < 1 + np.cos(np.pi * x) / 2][:150]
        C = np.cos(np.pi * np.outer(a, x)).mean(axis=1) * np.where(a > 0, 2**0.5, 1)
        errors.append(((b * C - c) ** 2).sum() - (c**2).sum())
        sums = coefficient_sums(places(x[:, None]), "tensor", (24,))
        output.append(sums.scores(np.array([h]))[0] / sums.squares[0])  # C_0 = 1: what all are divided by
    spread = np.std(np.subtract(output, errors)) / np.sqrt(len(output))
    assert abs(np.mean(output) - np.mean(errors)) < 4 * spread


def test_scores_along_a_dimension_are_those_of_all():
    sums = coefficient_sums(places(np.random.default_rng(0).beta(2, 5, (80, 2))), "tensor", (16, 16))
    candidates = np.array([0.2, 0.1, 0.07])
    together = [sums.scores_along(1, np.full(2, h), candidates)[k] for k, h in enumerate(candidates)]
    np.testing.assert_allclose(together, sums.scores(candidates), rtol=1e-10)


def test_each_dimension_has_its_own():
    rng = np.random.default_rng(0)
    x = np.column_stack([rng.normal(0.5, 0.02, 400), rng.random(400)])
    h = best_bandwidth(coefficient_sums(places(x), "tensor", (64, 64)), 0.25 * 2.0 ** (-np.arange(33) / 8))
    assert h[0] < 0.02 < 0.2 < h[1]


def test_equal_points_are_one_and_atoms_and_points_outside_are_left_out():
    x = np.array([[0.1], [0.1], [0.3], [0.4], [0.5], [0.5], [2.0]] + [[0.01 * i + 0.6] for i in range(30)])
    w = np.ones(len(x), np.float32)
    w[:2] = 9  # a fourth of the whole at one place
    output = places(x, w)
    assert output.n_points == 33
    assert output.points.min() == pytest.approx(0.3)
    u = output.weights
    np.testing.assert_allclose(u / u.min(), np.where(output.points[:, 0] == np.float32(0.5), 2, 1))
    assert places(np.full((9, 2), 0.5)) is None


# ---- as embeddings use it


def normal(n_sets, n, d=1, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.normal(0.5, 0.1, (n, d)).clip(0.001, 0.999) for _ in range(n_sets)]


@pytest.mark.parametrize(("n", "d"), [(50, 1), (1000, 1), (200, 2)])
def test_of_normal_densities_it_is_near_their_best(n, d):
    """Which is (4 / ((d + 2) n))^(1 / (d + 4)) sigma, asymptotically; within a fifth."""
    result = dk.DivergenceEmbedding(domain="unit").fit(normal(40, n, d)).bandwidth_
    np.testing.assert_allclose(result, 0.1 * (4 / ((d + 2) * n)) ** (1 / (d + 4)), rtol=0.2)


def test_nodes_follow_the_bandwidth_up_to_a_limit():
    few, many = (dk.DivergenceEmbedding(domain="unit").fit(normal(20, n)) for n in (30, 2000))
    assert 4 <= few.n_basis_ < many.n_basis_
    for one in (few, many):
        assert one.resolved_
        assert one.n_basis_ == np.ceil(0.5 / one.bandwidth_.min())
    bound = dk.DivergenceEmbedding(bandwidth="auto", n_basis=5, domain="unit").fit(normal(20, 2000))
    assert not bound.resolved_
    assert bound.bandwidth_ == pytest.approx(0.3 / 5)
    assert dk.L2Embedding(domain="unit").fit(normal(20, 2000)).n_basis_ > many.n_basis_
    with pytest.warns(UserWarning, match="too small for 36 nodes per dimension"):
        assert not dk.DivergenceEmbedding(bandwidth=0.01).fit(normal(3, 30, 2)).resolved_


def test_scotts_rule_at_ten_is_as_it_was():
    fitted = dk.DivergenceEmbedding(n_basis=10, bandwidth="scott", domain="unit").fit(normal(9, 2000))
    assert fitted.bandwidth_.tolist() == [0.08]
    assert dk.DivergenceEmbedding(bandwidth="scott", domain="unit").fit(normal(9, 2000)).bandwidth_ < 0.03


@pytest.mark.parametrize("structure", ["joint", "marginal"])
def test_the_same_from_memory_and_from_stores(tmp_path, structure):
    sets = dk.SampleSets.from_arrays(normal(90, 40, 2))
    store = dk.write_sets(tmp_path / "s.zarr", sets)
    for kind in (dk.DivergenceEmbedding, dk.L2Embedding):
        assert kind(structure=structure).fit(sets).spec_ == kind(structure=structure).fit(store).spec_


def test_equal_weights_and_repeated_points_change_nothing():
    sets = normal(20, 60, 2)
    plain = dk.DivergenceEmbedding(domain="unit").fit(sets)
    weighted = dk.SampleSets.from_arrays(sets, weights=[np.full(60, 3.0)] * 20)
    twice = [np.repeat(x, 2, axis=0) for x in sets]
    for same in (weighted, twice):
        assert (
            dk.DivergenceEmbedding(domain="unit").fit(same).bandwidth_.tolist() == plain.bandwidth_.tolist()
        )


def test_sets_of_single_points_have_a_bandwidth():
    fitted = dk.DivergenceEmbedding(domain="unit").fit([[[0.2, 0.4]], [[0.5, 0.5]]])
    assert fitted.bandwidth_.tolist() == [0.08, 0.08]


def test_divergences_of_large_sets_come_to_the_true_ones():
    """Jensen-Shannon of N(0, 1) and N(1/2, 1): .03031 by integration."""
    rng = np.random.default_rng(0)
    off = []
    for n in (1000, 20000):
        sets = [rng.normal((i % 2) / 2, 1, (n, 1)).clip(-6, 6.5) for i in range(12)]
        A = dk.DivergenceEmbedding("jensen-shannon", domain=(-6, 6.5)).fit_transform(sets).astype(float)
        off.append(((A[::2, None] - A[None, 1::2]) ** 2).sum(-1).mean() / 0.030311 - 1)
    assert abs(off[1]) < 0.05
