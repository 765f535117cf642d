"""Theorems of the paper on its kernel (P2): the error of R random objects, and the limit of large gamma.

Short random strings are enumerated, so the kernel is known exactly.
"""

from __future__ import annotations

from functools import cache
from itertools import product

import numpy as np
import pytest

import dkdist as dk

WORDS = ["AACBA", "ABCA", "CCB", "BABAB", "A", "CACACA"]
LONGEST, GAMMA = 3, 0.4


@cache
def edits(a, b):
    """Edit distance by its recursive definition."""
    if not a or not b:
        return len(a) + len(b)
    if a[-1] == b[-1]:
        return edits(a[:-1], b[:-1])
    return 1 + min(edits(a[:-1], b), edits(a, b[:-1]), edits(a[:-1], b[:-1]))


def enumerate_strings():
    """Return (strings, probabilities): a length from 1 to LONGEST, then that many of three symbols."""
    omegas = ["".join(s) for n in range(1, LONGEST + 1) for s in product("ABC", repeat=n)]
    return omegas, np.array([3.0 ** -len(omega) / LONGEST for omega in omegas])


def exact_kernel(gamma):
    """Return the kernel, and the variance of the contribution of one random object."""
    omegas, p = enumerate_strings()
    phi = np.exp(-gamma * np.array([[edits(x, omega) for omega in omegas] for x in WORDS]))
    kernel = (phi * p) @ phi.T
    return kernel, (phi**2 * p) @ (phi**2).T - kernel**2


def rows(gamma, R, seed):
    embedding = dk.DistanceEmbedding(
        "levenshtein", "uniform", R, gamma, lengths=(1, LONGEST), random_state=seed
    )
    return embedding.fit_transform(WORDS).astype(np.float64)


def test_error_decreases_as_inverse_root():
    kernel, variance = exact_kernel(GAMMA)
    sizes, errors = (16, 64, 256, 1024), []
    for R in sizes:
        result = [rows(GAMMA, R, seed) for seed in range(20)]
        squares = np.mean([(A @ A.T - kernel) ** 2 for A in result], axis=0)
        assert squares.mean() == pytest.approx(variance.mean() / R, rel=0.5)  # independent and unbiased
        errors.append(np.mean([np.abs(A @ A.T - kernel).max() for A in result]))
    slope = np.polyfit(np.log(sizes), np.log(errors), 1)[0]
    assert slope == pytest.approx(-0.5, abs=0.06)


def test_mean_over_seeds_matches_the_kernel():
    kernel, variance = exact_kernel(GAMMA)
    result = np.mean([(A := rows(GAMMA, 256, seed)) @ A.T for seed in range(40)], axis=0)
    assert np.abs(result - kernel).max() < 4 * np.sqrt(variance.max() / (256 * 40))


def softmin(gamma, R):
    """Return -(1 / gamma) log k(x, y), and d(x, omega) + d(y, omega) for each random string omega."""
    embedding = dk.DistanceEmbedding("levenshtein", "uniform", R, gamma, lengths=(1, LONGEST), random_state=0)
    A = embedding.fit_transform(WORDS).astype(np.float64)
    alphabet = embedding.omegas_.alphabet
    omegas = ["".join(alphabet[int(c)] for c in omega[:, 0]) for omega in embedding.omegas_]
    D = np.array([[edits(x, omega) for omega in omegas] for x in WORDS])
    return -np.log(A @ A.T) / gamma, D[:, None] + D


def test_minus_log_kernel_converges_to_shortest_path():
    R, previous_value, previous_kernel = 200, np.inf, np.inf
    for gamma in (0.5, 1.0, 2.0, 4.0, 6.0):
        value, path_lengths = softmin(gamma, R)
        shortest, n_shortest_paths = (
            path_lengths.min(axis=2),
            (path_lengths == path_lengths.min(axis=2, keepdims=True)).sum(axis=2),
        )
        assert (value >= shortest - 1e-5).all()
        assert (value <= shortest + np.log(R / n_shortest_paths) / gamma + 1e-5).all()
        assert (value < previous_value + 1e-5).all()  # the soft minimum decreases with gamma
        kernel = np.exp(-gamma * value)
        assert (kernel < previous_kernel).all()
        previous_value, previous_kernel = value, kernel
    # only the shortest paths count
    np.testing.assert_allclose(value, shortest + np.log(R / n_shortest_paths) / gamma, atol=0.02)
    assert kernel[shortest > 0].max() < 1e-2  # the kernel itself vanishes


def test_limit_is_a_metric_if_objects_are_their_own_landmarks():
    """By the triangle inequality, no path from x to y is shorter than the path through x."""
    gamma = 6.0
    A = dk.DistanceEmbedding("levenshtein", "object", len(WORDS), gamma, random_state=0).fit_transform(WORDS)
    value = -np.log(A.astype(np.float64) @ A.T.astype(np.float64)) / gamma
    D = np.array([[edits(x, y) for y in WORDS] for x in WORDS])
    assert (value >= D - 1e-5).all()
    assert (value <= D + np.log(len(WORDS)) / gamma + 1e-5).all()


@pytest.mark.parametrize("gamma", [0.1, 1.0, 5.0])
def test_linear_functions_of_rows_are_lipschitz_continuous_in_a_metric(gamma):
    """Proposition 1: |f(x) - f(y)| <= |w| gamma d(x, y), because the slope of exp(-gamma d) is at most gamma."""
    A = rows(gamma, 100, seed=0)
    distances = np.linalg.norm(A[:, None] - A, axis=2)
    D = np.array([[edits(x, y) for y in WORDS] for x in WORDS])
    assert (distances <= gamma * D + 1e-6).all()
    w = np.random.default_rng(0).standard_normal(A.shape[1])
    f = A @ w
    assert (np.abs(f[:, None] - f) <= np.linalg.norm(w) * (gamma * D + 1e-6)).all()
