"""What the paper proves of its kernel (P2): the error of R random objects, and the limit of large gamma.

The law of short random strings is a sum over few, so the kernel itself is known exactly.
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


def law():
    """(strings, probabilities): a length from 1 to LONGEST, then that many symbols of three."""
    omegas = ["".join(s) for n in range(1, LONGEST + 1) for s in product("ABC", repeat=n)]
    return omegas, np.array([3.0 ** -len(omega) / LONGEST for omega in omegas])


def exact(gamma):
    """The kernel, and the variance of one random object's share of it."""
    omegas, p = law()
    phi = np.exp(-gamma * np.array([[edits(x, omega) for omega in omegas] for x in WORDS]))
    kernel = (phi * p) @ phi.T
    return kernel, (phi**2 * p) @ (phi**2).T - kernel**2


def rows(gamma, R, seed):
    embedding = dk.DistanceEmbedding(
        "levenshtein", "uniform", R, gamma, lengths=(1, LONGEST), random_state=seed
    )
    return embedding.fit_transform(WORDS).astype(np.float64)


def test_the_kernel_is_approached_as_one_over_root_of_R():
    kernel, variance = exact(GAMMA)
    sizes, errors = (16, 64, 256, 1024), []
    for R in sizes:
        result = [rows(GAMMA, R, seed) for seed in range(20)]
        squares = np.mean([(A @ A.T - kernel) ** 2 for A in result], axis=0)
        assert squares.mean() == pytest.approx(variance.mean() / R, rel=0.5)  # independent, without bias
        errors.append(np.mean([np.abs(A @ A.T - kernel).max() for A in result]))
    slope = np.polyfit(np.log(sizes), np.log(errors), 1)[0]
    assert slope == pytest.approx(-0.5, abs=0.06)


def test_the_mean_over_seeds_is_the_kernel():
    kernel, variance = exact(GAMMA)
    result = np.mean([(A := rows(GAMMA, 256, seed)) @ A.T for seed in range(40)], axis=0)
    assert np.abs(result - kernel).max() < 4 * np.sqrt(variance.max() / (256 * 40))


def softmin(gamma, R):
    """-(1 / gamma) log k(x, y), and d(x, omega) + d(y, omega) by omega, over the same random strings."""
    embedding = dk.DistanceEmbedding("levenshtein", "uniform", R, gamma, lengths=(1, LONGEST), random_state=0)
    A = embedding.fit_transform(WORDS).astype(np.float64)
    alphabet = embedding.omegas_.alphabet
    omegas = ["".join(alphabet[int(c)] for c in omega[:, 0]) for omega in embedding.omegas_]
    D = np.array([[edits(x, omega) for omega in omegas] for x in WORDS])
    return -np.log(A @ A.T) / gamma, D[:, None] + D


def test_minus_log_of_the_kernel_tends_to_the_shortest_way_through_a_random_object():
    R, before, kernel_before = 200, np.inf, np.inf
    for gamma in (0.5, 1.0, 2.0, 4.0, 6.0):
        value, through = softmin(gamma, R)
        shortest, ways = through.min(axis=2), (through == through.min(axis=2, keepdims=True)).sum(axis=2)
        assert (value >= shortest - 1e-5).all()
        assert (value <= shortest + np.log(R / ways) / gamma + 1e-5).all()
        assert (value < before + 1e-5).all()  # a soft minimum falls with gamma
        kernel = np.exp(-gamma * value)
        assert (kernel < kernel_before).all()
        before, kernel_before = value, kernel
    np.testing.assert_allclose(value, shortest + np.log(R / ways) / gamma, atol=0.02)  # no other way is left
    assert kernel[shortest > 0].max() < 1e-2  # the kernel itself vanishes


def test_a_metric_is_the_limit_where_objects_are_their_own_random_objects():
    """By the triangle inequality no way from x to y is shorter than through x."""
    gamma = 6.0
    A = dk.DistanceEmbedding("levenshtein", "object", len(WORDS), gamma, random_state=0).fit_transform(WORDS)
    value = -np.log(A.astype(np.float64) @ A.T.astype(np.float64)) / gamma
    D = np.array([[edits(x, y) for y in WORDS] for x in WORDS])
    assert (value >= D - 1e-5).all()
    assert (value <= D + np.log(len(WORDS)) / gamma + 1e-5).all()
