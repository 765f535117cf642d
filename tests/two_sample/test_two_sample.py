"""The witness function and the two-sample test with a bandwidth, against brute force; level and ties."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.distance import pdist

import dkdist as dk

RNG = np.random.default_rng(0)
P, Q = RNG.random((60, 2)) + 1e5, RNG.random((40, 2)) + 1e5 + 0.2


def test_witness_equals_brute_force():
    u, w = RNG.random((70, 2)) + 1e5, RNG.standard_normal(60)
    k = lambda x: np.exp(-((u[:, None] - x) ** 2).sum(axis=2) / (2 * 0.3**2))  # noqa: E731
    result = dk.witness(P, Q, u, sigma=0.3, weights=(w, None))
    np.testing.assert_allclose(result, k(P) @ w - k(Q).mean(axis=1), atol=1e-10)


@pytest.mark.parametrize("kernel", ["gaussian", "laplacian", "epanechnikov"])
def test_mean_witness_difference_is_the_squared_distance(kernel):
    at = [dk.witness(P, Q, x, sigma=0.3, kernel=kernel).mean() for x in (P, Q)]
    assert at[0] - at[1] == pytest.approx(dk.kernel_distance(P, Q, sigma=0.3, squared=True, kernel=kernel))


def test_the_statistic_is_the_squared_distance_and_results_are_reproducible():
    result = dk.two_sample_test(P, Q, h=0.18, n_permutations=99, random_state=3)
    assert result.sigma == pytest.approx(0.3)
    assert result.statistic == pytest.approx(dk.kernel_distance(P, Q, sigma=0.3, squared=True))
    assert result.p_value == 0.01
    assert dk.two_sample_test(P, Q, h=0.18, n_permutations=99, random_state=3) == result


def test_null_p_values_are_uniform():
    """For samples of one distribution, p-values are uniform on 1/20 .. 20/20."""
    rng = np.random.default_rng(0)
    p = [
        dk.two_sample_test(
            rng.normal(size=(8, 1)), rng.normal(size=(6, 1)), sigma=1.0, n_permutations=19, random_state=i
        ).p_value
        for i in range(400)
    ]
    counts = np.bincount(np.rint(20 * np.array(p)).astype(int), minlength=21)
    assert counts[0] == 0
    assert 8 <= counts[1] <= 36  # 20 expected
    assert abs(np.mean(p) - 0.525) < 0.045


def test_equal_sets_and_ties_are_never_significant():
    x = np.array([[0.0], [1.0]] * 5)
    assert dk.two_sample_test(x, x, sigma=1.0, n_permutations=50, random_state=0).p_value == 1


@pytest.mark.parametrize("n", [2, 500, 900])
def test_the_median_bandwidth_does_not_depend_on_the_split(n):
    x = np.concatenate([np.random.default_rng(0).normal(size=(500, 1)), np.arange(10.0, 460.0)[:, None]])
    result = dk.two_sample_test(x[:n], x[n:], sigma="median", n_permutations=1, random_state=0)
    assert result.sigma == pytest.approx(np.median(pdist(x)))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: dk.witness(P, Q, [[0.0]], sigma=1), "queries must have the 2 dimensions of P; got 1"),
        (lambda: dk.witness(P, Q, [[np.inf, 0]], sigma=1), "queries must be finite; got .* at point 0"),
        (lambda: dk.witness(dk.Curve(P), dk.Curve(Q), P, sigma=1), "got shapes"),
        (lambda: dk.two_sample_test(P, Q[:1], sigma=1), "got 60 and 1"),
        (lambda: dk.two_sample_test(P, Q, sigma=1, n_permutations=0), "n_permutations must be"),
    ],
)
def test_bad_input_is_refused_by_name(call, message):
    with pytest.raises(ValueError, match=message):
        call()
