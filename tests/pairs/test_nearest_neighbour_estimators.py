"""Entropies and divergences from nearest neighbours: closed forms, brute force, and convergence in n."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import digamma, gamma
from sklearn.feature_selection import mutual_info_classif

from dkdist._numba.ranks import NeighbourTree
from dkdist.pairwise_matrices import neighbour_ratios as ratios
from dkdist.pairwise_matrices.entropy import (
    knn_jensen_shannon,
    neighbour_entropy,
    spacing_entropy,
    spacings,
)


def sorted_distances(x, y):
    return np.sort(np.linalg.norm(x[:, None] - y[None], axis=-1), axis=1)


def log_ratios(p, q, k):
    return ratios.log_ratios(p.own_distances(k), p.distances(q, k), p.n_dims, len(q))


def gaussian_kl(mu, s, d):
    """Return KL(N(0, 1) || N(mu, s^2)), with mean mu in each of d dimensions."""
    return d * ((1 + mu**2) / s**2 - 1 + 2 * np.log(s)) / 2


def gaussian_renyi(mu, s, d, a):
    """Return the Renyi divergence of order a of the same distributions (Gil, Alajaji, Linder 2013)."""
    mixed = a * s**2 + 1 - a
    return d * (a * mu**2 / (2 * mixed) - np.log(mixed / s ** (2 * a)) / (2 * (a - 1)))


def gaussian_js(mu, s):
    """Return the Jensen-Shannon divergence of N(0, 1) and N(mu, s^2) by quadrature."""

    def density(x, m, t):
        return np.exp(-(((x - m) / t) ** 2) / 2) / (t * np.sqrt(2 * np.pi))

    def integrand(x):
        p, q = density(x, 0, 1), density(x, mu, s)
        return (p * np.log(2 * p / (p + q)) + q * np.log(2 * q / (p + q))) / 2

    return quad(integrand, -12, 12, limit=200)[0]


def test_neighbour_tree_matches_brute_force():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(60, 3)).astype("f4"), rng.normal(size=(45, 3)).astype("f4")
    p, q = NeighbourTree(x), NeighbourTree(y)
    x, y = x.astype("f8"), y.astype("f8")
    np.testing.assert_allclose(p.own_distances(4), sorted_distances(x, x)[:, 4], rtol=1e-12)
    np.testing.assert_allclose(p.distances(q, 4), sorted_distances(x, y)[:, 3], rtol=1e-12)
    radius = sorted_distances(x, x)[:, 4:5]
    np.testing.assert_array_equal(p.counts(q, 4), (sorted_distances(x, y) <= radius).sum(1))
    np.testing.assert_array_equal(p.own_counts(4), 4)


@pytest.mark.parametrize(("d", "k"), [(1, 1), (1, 4), (2, 4), (3, 3)])
def test_entropy_of_a_gaussian_from_neighbours(d, k):
    rng = np.random.default_rng(1)
    factor = np.tril(np.full((d, d), 0.5)) + np.eye(d)
    truth = d / 2 * np.log(2 * np.pi * np.e) + np.log(np.abs(np.linalg.det(factor)))
    result = [
        neighbour_entropy(NeighbourTree(rng.normal(size=(2000, d)) @ factor.T).own_distances(k), k, d)
        for _ in range(10)
    ]
    assert abs(np.mean(result) - truth) < 0.02 * d


@pytest.mark.parametrize("m", [1, 4, 12])
def test_spacing_entropy_is_unbiased_for_uniform_density(m):
    rng = np.random.default_rng(2)
    result = [spacing_entropy(spacings(5 * rng.random(40), m), m) for _ in range(4000)]
    assert abs(np.mean(result) - np.log(5)) < 5 * np.std(result) / np.sqrt(len(result))
    assert np.std(result) / np.sqrt(len(result)) < 0.004


def test_entropy_of_a_gaussian_from_spacings():
    rng = np.random.default_rng(3)
    result = [spacing_entropy(spacings(3 * rng.normal(size=2000), 4), 4) for _ in range(10)]
    assert abs(np.mean(result) - np.log(3 * np.sqrt(2 * np.pi * np.e))) < 0.02


@pytest.mark.parametrize(
    ("n", "m", "mu", "s"), [(800, 800, 0.0, 1.0), (800, 800, 1.0, 2.0), (900, 150, 2.0, 1.0)]
)
def test_jensen_shannon_of_gaussians(n, m, mu, s):
    rng = np.random.default_rng(4)
    result = [
        knn_jensen_shannon(
            NeighbourTree(rng.normal(0, 1, (n, 1))), NeighbourTree(rng.normal(mu, s, (m, 1))), 4
        )
        for _ in range(30)
    ]
    assert abs(np.mean(result) - gaussian_js(mu, s)) < 4 * np.std(result) / np.sqrt(30) + 0.003


def test_error_of_jensen_shannon_decreases_with_n():
    rng = np.random.default_rng(5)
    errors = []
    for n in (50, 400, 3200):
        result = [
            knn_jensen_shannon(
                NeighbourTree(rng.normal(0, 1, (n, 1))), NeighbourTree(rng.normal(1, 1, (n, 1))), 4
            )
            for _ in range(20)
        ]
        errors.append(np.sqrt(np.mean((np.array(result) - gaussian_js(1, 1)) ** 2)))
    assert errors[0] > 2 * errors[1] > 4 * errors[2]


def test_jensen_shannon_matches_sum_of_entropies():
    """For equal sizes: k-NN entropies of the sets and of the mixture at the same radii."""
    rng = np.random.default_rng(6)
    x, y, k = rng.normal(size=(70, 2)), rng.normal(size=(70, 2)) + 1, 3
    radii = [sorted_distances(x, x)[:, k], sorted_distances(y, y)[:, k]]
    pooled = sorted_distances(np.concatenate([x, y]), np.concatenate([x, y]))
    in_ball = (pooled <= np.concatenate(radii)[:, None] * (1 + 1e-9)).sum(1) - 1
    log_ball = np.log(np.pi)
    entropies = [neighbour_entropy(r, k, 2) for r in radii]
    mixture = (
        np.log(2 * 1.0)
        + digamma(70)
        + log_ball
        + np.mean(2 * np.log(np.concatenate(radii)) - digamma(in_ball))
    )
    result = knn_jensen_shannon(NeighbourTree(x), NeighbourTree(y), k)
    np.testing.assert_allclose(result, mixture - np.mean(entropies), rtol=1e-10)


def test_jensen_shannon_matches_mutual_information():
    """Compare with scikit-learn (Ross 2014), which estimates the entropy of labels by psi(2 n) - psi(n)."""
    rng = np.random.default_rng(11)
    n, k = 300, 4
    x, y = rng.normal(0, 1, (n, 1)), rng.normal(1.5, 1, (n, 1))
    result = mutual_info_classif(
        np.concatenate([x, y]), np.repeat([0, 1], n), discrete_features=False, n_neighbors=k, random_state=0
    )
    expected = result[0] - (digamma(2 * n) - digamma(n) - np.log(2))
    np.testing.assert_allclose(knn_jensen_shannon(NeighbourTree(x), NeighbourTree(y), k), expected, rtol=1e-6)


def test_jensen_shannon_between_its_limits():
    rng = np.random.default_rng(7)
    x = rng.random((100, 2))
    assert knn_jensen_shannon(NeighbourTree(x), NeighbourTree(x + 10), 4) == np.log(2)
    result = [
        knn_jensen_shannon(NeighbourTree(rng.random((200, 2))), NeighbourTree(rng.random((200, 2))), 4)
        for _ in range(40)
    ]
    assert abs(np.mean(result)) < 0.01
    assert min(result) < 0  # unbiased, so not clipped at zero


def test_jensen_shannon_of_atoms():
    """Ties are counted, which leaves the divergence of the frequencies."""
    x, y = np.repeat([0.0, 1.0], [500, 500])[:, None], np.repeat([0.0, 1.0], [900, 100])[:, None]
    p, q = np.array([0.5, 0.5]), np.array([0.9, 0.1])
    truth = (p @ np.log(2 * p / (p + q)) + q @ np.log(2 * q / (p + q))) / 2
    assert abs(knn_jensen_shannon(NeighbourTree(x), NeighbourTree(y), 4) - truth) < 0.003
    rng = np.random.default_rng(12)
    result = [
        knn_jensen_shannon(
            NeighbourTree(rng.integers(0, 4, (60, 1))), NeighbourTree(rng.integers(0, 4, (60, 1))), 4
        )
        for _ in range(200)
    ]
    assert abs(np.mean(result)) < 0.008  # equal frequencies


@pytest.mark.parametrize(("d", "mu", "s", "n", "m"), [(1, 0.5, 1.0, 1000, 1000), (2, 1.0, 1.5, 1500, 900)])
def test_kullback_leibler_and_renyi_of_gaussians(d, mu, s, n, m):
    rng = np.random.default_rng(8)
    orders = (0.5, 0.8, 1.5)
    result = []
    for _ in range(15):
        p, q = NeighbourTree(rng.normal(0, 1, (n, d))), NeighbourTree(rng.normal(mu, s, (m, d)))
        ratio = log_ratios(p, q, 4)
        result.append([ratios.kullback_leibler(ratio), *(ratios.renyi(ratio, a, 4) for a in orders)])
    truth = np.array([gaussian_kl(mu, s, d), *(gaussian_renyi(mu, s, d, a) for a in orders)])
    np.testing.assert_allclose(np.mean(result, axis=0), truth, atol=0.05 * d)


def test_log_alpha_integral_is_bias_corrected():
    """int p^a p^(1-a) = 1; without the factor B the mean of the moments differs."""
    rng = np.random.default_rng(9)
    for a in (0.3, 0.5, 1.7):
        result = [
            ratios.log_alpha_integral(
                log_ratios(NeighbourTree(rng.random((500, 2))), NeighbourTree(rng.random((500, 2))), 3), a, 3
            )
            for _ in range(20)
        ]
        b = gamma(3) ** 2 / (gamma(4 - a) * gamma(2 + a))
        assert abs(np.mean(result)) < 0.03
        assert abs(np.mean(result) - np.log(b)) > 0.02 or abs(np.log(b)) < 0.03


def test_hellinger_of_gaussians():
    rng = np.random.default_rng(10)
    result = [
        ratios.hellinger(
            log_ratios(
                NeighbourTree(rng.normal(0, 1, (1000, 1))), NeighbourTree(rng.normal(1, 1, (1000, 1))), 4
            ),
            4,
        )
        for _ in range(15)
    ]
    assert abs(np.mean(result) - (1 - np.exp(-1 / 8))) < 0.015
