"""Parts of points and the kernels that tell them: by definition, over all parts, and for points of known kinds."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from scipy.spatial.distance import pdist, squareform

from dkdist.kernel.comparing.kernel_family import kernel_family
from dkdist.kernel.comparing.parts_of_points import told, wideness

RNG = np.random.default_rng(0)


def apart_of(x, width=1.0):
    return -np.expm1(-pdist(x, "sqeuclidean") / (2 * width**2))


def parts_of(n, size):
    for of_one in combinations(range(n), size):
        inside = np.zeros(n, bool)
        inside[list(of_one)] = True
        yield inside


@pytest.mark.parametrize("size", [3, 4, 6])
def test_over_all_parts_the_mean_is_nought(size):
    x = RNG.normal(size=(9, 3))
    apart, k = apart_of(x), np.exp(-squareform(pdist(x, "sqeuclidean")) / 2)
    found, distances = [], []
    for inside in parts_of(9, size):
        found.append(told(apart, inside))
        z = np.where(inside, 1 / size, -1 / (9 - size))
        distances.append(z @ k @ z)
    assert np.mean(found) == pytest.approx(0, abs=1e-10)
    from_mean = np.array(distances) - np.mean(distances)
    np.testing.assert_allclose(found, from_mean / np.std(distances) * np.std(found), atol=1e-9)


def test_the_deviation_is_that_over_parts():
    """Of 200 points to a tenth: 4,000 parts tell a deviation to sqrt((kurtosis - 1) / 4,000) / 2 of it, some .02 here,
    and z is normal but for 1 / n."""
    apart = apart_of(RNG.normal(size=(200, 4)), 1.5)
    own = np.arange(200) < 80
    found = np.std([told(apart, RNG.permutation(own)) for _ in range(4000)])
    assert found == pytest.approx(1, rel=0.1)


def test_a_part_and_the_rest_are_told_alike():
    x = RNG.normal(size=(30, 4))
    inside = x[:, 0] > 0.3
    assert told(apart_of(x), inside) == pytest.approx(told(apart_of(x), ~inside))
    order = RNG.permutation(30)
    assert told(apart_of(x[order]), inside[order]) == pytest.approx(told(apart_of(x), inside))
    assert told(apart_of(x + 2 * inside[:, None]), inside) > 5  # two groups
    assert told(np.zeros(435), inside) == 0


def factors(n):
    """Ten coordinates that follow two factors."""
    loadings = np.random.default_rng(1).normal(size=(2, 10))
    return RNG.normal(size=(n, 2)) @ loadings + 0.5 * RNG.normal(size=(n, 10))


def groups(n):
    """Twelve groups of points about the corners of a cube."""
    corners = np.random.default_rng(2).choice([-2.0, 2.0], (12, 10))
    return corners[RNG.integers(12, size=n)] + 0.5 * RNG.normal(size=(n, 10))


def test_factors_ask_for_wide_kernels_and_groups_for_narrow_ones():
    assert np.mean([wideness(factors(120)) for _ in range(20)]) > 0.2
    assert np.mean([wideness(groups(120)) for _ in range(20)]) < -0.8
    alone = [wideness(RNG.normal(size=(120, 10))) for _ in range(20)]
    assert np.abs(alone).max() < 0.2  # no coordinate says anything


@pytest.mark.parametrize("n", [100, 700])
def test_neither_order_nor_unit_of_the_points_matters(n):
    """So that who knows how wide the kernels are does not know whose the points are."""
    x = np.concatenate([groups(n), factors(n)]) if n == 100 else factors(n)
    found = wideness(x)
    assert wideness(RNG.permutation(x)) == found
    assert wideness(64 * x) == pytest.approx(found, abs=1e-9)
    assert kernel_family(x).wideness == pytest.approx(kernel_family(RNG.permutation(x)).wideness, abs=1e-9)


@pytest.mark.parametrize("d", [2, 4, 5, 50])
def test_any_points_have_a_wideness(d):
    """Few values, coordinates that do not vary, points that are equal."""
    few = RNG.integers(0, 2, size=(40, d)).astype(float)
    flat = np.where(np.arange(d) < d // 2, few, 7.0)
    rare = np.zeros((40, d))
    rare[0] = 1
    for x in (few, flat, rare, np.ones((40, d)), RNG.normal(size=(2, d)), RNG.normal(size=(3, d))):
        assert -1 <= wideness(x) <= 1
