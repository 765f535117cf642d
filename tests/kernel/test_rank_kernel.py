"""The kernel over ranks, and the sum of kernels that it is part of in many dimensions, by definition."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.distance import cdist, pdist
from scipy.stats import rankdata

import dkdist as dk
from dkdist.kernel.comparing import aggregated_test as testing
from dkdist.kernel.comparing.kernel_family import kernel_family, shared_frequencies
from dkdist.kernel.comparing.ranks.rank_kernel import rank_kernel, stretch_for
from dkdist.kernel.comparing.samples import Held, Look
from dkdist.kernel.comparing.sphere import radius_for, within
from dkdist.kernel.sums.random_loops import waves_of

RNG = np.random.default_rng(0)
x = np.concatenate([RNG.normal(0, [1, 3, 0.1, 1, 2], (40, 5)), RNG.standard_cauchy((30, 5))])
U = (rankdata(x, axis=0) - 0.5) / len(x)


@pytest.mark.parametrize(("wide", "width"), [(-1, 0.5), (-0.5, 0.6), (0, 0.7), (0.5, 0.85), (1, 1)])
def test_ranks_are_stretched_as_coordinates_are(wide, width):
    kernel = rank_kernel(stretch_for(x), U, wide)
    stretched = U * x.std(axis=0)
    R = cdist(stretched, stretched) / (width * np.median(pdist(stretched)))
    np.testing.assert_allclose(kernel.squares(U), R**2, atol=1e-9)
    pairs = np.exp(-(R[np.triu_indices(len(x), 1)] ** 2) / 2)
    assert kernel.noise == pytest.approx(1 - pairs.mean())
    of_others = rank_kernel(stretch_for(7 * x), U, wide)
    np.testing.assert_allclose(of_others.squares(U), kernel.squares(U))  # whatever the unit


def test_frequencies_stand_for_the_kernel():
    """E cos w . (U - U') = k: within four standard errors, (1 - k^2)^2 / 2 being the variance of one frequency."""
    kernel = rank_kernel(stretch_for(x), U, 0.0)
    k = np.exp(-kernel.squares(U) / 2)
    phases = U @ kernel.W.T
    found = (np.cos(phases) @ np.cos(phases).T + np.sin(phases) @ np.sin(phases).T) / len(kernel.W)
    error = np.abs(1 - k**2) / np.sqrt(2 * len(kernel.W))
    assert (np.abs(found - k) <= 5 * error + 1e-9).all()  # of some 2,400 pairs
    apart = RNG.normal(size=(3, 2 * len(kernel.W)))
    np.testing.assert_allclose(kernel.distances(apart)[0], (apart**2).sum(axis=1) / len(kernel.W))


@pytest.mark.parametrize("wide", [-1.0, -0.25, 0.0, 0.25, 1.0])
def test_the_mixed_kernel_is_the_sum_that_it_is_said_to_be(wide):
    """Each over its null mean: the energy distance with the third to seventh Gaussian kernel and four times the one
    over ranks; where narrow or wide ones see the points best, the second to fifth or the sixth to eighth, and six times
    the one over ranks."""
    n, family = 32, kernel_family(x)
    family = family._replace(wideness=wide, ranks=rank_kernel(stretch_for(within(x, family.radius)), U, wide))
    found = testing._from_all_pairs(x, x, n, family, 5, np.random.default_rng(0))
    z = np.repeat([1 / n, -1 / (len(x) - n)], [n, len(x) - n])
    inside = within(x, family.radius)
    assert 0 < (inside != x).sum() < x.size
    R = cdist(inside, inside)
    over_mean = lambda K: K / (K.diagonal().max() - K)[np.triu_indices(len(x), 1)].mean()  # noqa: E731
    gaussian = [np.exp(-(R**2) / (2 * s**2)) for s in family.sigmas]
    of_s = family.sigmas * np.log(family.sigmas[1] / family.sigmas[0])
    of_s[[0, -1]] = of_s[[0, -1]] / 2 + family.sigmas[[0, -1]]
    energy = sum(a * (K - 1) for a, K in zip(of_s, gaussian, strict=True))
    over_ranks = over_mean(np.exp(-family.ranks.squares(U) / 2))
    of_any = sum(over_mean(K) for K in gaussian[2:7]) + 4 * over_ranks
    of_these = sum(over_mean(K) for K in (gaussian[5:8] if wide > 0 else gaussian[1:5])) + 6 * over_ranks
    mixed = over_mean(energy) + (1 - abs(wide)) * of_any + abs(wide) * of_these
    assert found[family.names.index("mixed"), 0] == pytest.approx(z @ mixed @ z, rel=1e-5)
    assert found[family.names.index("energy"), 0] == pytest.approx(z @ energy @ z, rel=1e-5)


def test_all_pairs_and_frequencies_see_one_mixed_kernel():
    """Of the samples as they are: the distances by frequencies, against those by all pairs of points."""
    y = RNG.normal(size=(800, 5))
    y[:300] += 0.3
    family = kernel_family(y)
    shared = shared_frequencies(family.sigmas, 5, 400, 0)
    look = Look(np.zeros(5), 1.0, waves_of(shared.W, np.zeros(5)), len(shared.W), family)
    exact = testing._from_all_pairs(y, y, 300, family, 1, np.random.default_rng(0))
    found = testing._from_frequencies(Held(y[:300]), Held(y[300:]), look, shared, 1, np.random.default_rng(0))
    assert exact.shape == found.shape == (len(family.names), 2)
    place = family.names.index("mixed")
    assert found[place, 0] == pytest.approx(exact[place, 0], rel=0.2)


@pytest.mark.parametrize("by", ["all pairs", "frequencies"])
def test_a_shift_is_found_where_tails_hide_it_from_distances(monkeypatch, by):
    if by == "frequencies":
        monkeypatch.setattr(testing, "SAMPLE", 100)
    rng, found = np.random.default_rng(8), []
    for i in range(10):
        p, q = rng.standard_cauchy((150, 10)), rng.standard_cauchy((150, 10)) + 0.6
        tests = [
            dk.two_sample_test(p, q, sigma=s, n_permutations=99, random_state=i) for s in (None, "median")
        ]
        found.append([test.p_value <= 0.05 for test in tests])
    ours, median = np.mean(found, axis=0)
    assert ours >= 0.9
    assert median <= 0.5


def test_few_points_far_out_do_not_hide_a_shift_of_the_others():
    """One in twenty is thirty times as far out; the energy distance is one between these."""
    rng, found = np.random.default_rng(9), []
    for i in range(10):
        p, q = (rng.normal(size=(120, 10)) * np.where(rng.random((120, 1)) < 0.05, 30, 1) for _ in range(2))
        q += 0.25
        z = np.repeat([1 / 120, -1 / 120], 120)
        Z = np.stack([z, *(rng.permutation(z) for _ in range(99))])
        both = np.concatenate([p, q])
        energy = np.einsum("bi,bi->b", Z @ -cdist(both, both), Z)
        ours = dk.two_sample_test(p, q, n_permutations=99, random_state=i).p_value
        found.append([ours <= 0.05, (energy >= energy[0]).mean() <= 0.05])
    ours, energy = np.mean(found, axis=0)
    assert ours >= 0.9
    assert energy <= 0.5


def test_points_outside_of_a_sphere_are_moved_to_it():
    u = np.array([[0.0, 0.0], [3.0, 4.0], [30.0, 40.0]])
    np.testing.assert_allclose(within(u, 10.0), [[0, 0], [3, 4], [6, 8]])
    assert radius_for(np.array([[0.0], [-2.0], [2.0], [2.0]])) == 3.0
