"""How kernels become one test: scores of ranks, waves over ranks, harmonic means of p-values, by definition."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm, rankdata

import dkdist as dk
from dkdist.kernel.comparing import aggregated_test as testing
from dkdist.kernel.comparing.kernel_family import MANY_DIMENSIONS, NARROW, OF_SHAPES, SHARES, kernel_family
from dkdist.kernel.comparing.ranks.normal_scores import normal_scores
from dkdist.kernel.comparing.ranks.rank_waves import rank_waves
from dkdist.kernel.comparing.shares_of_level import combined, evidence, standardised

RNG = np.random.default_rng(0)


def test_scores_are_normal_quantiles_of_ranks_and_equal_values_share_theirs():
    x = np.stack([RNG.normal(size=40), RNG.integers(0, 4, size=40), np.ones(40)], axis=1)
    scores = normal_scores(x)
    np.testing.assert_allclose(scores.of(x), norm.ppf((rankdata(x, axis=0) - 0.5) / 40), atol=1e-12)
    np.testing.assert_array_equal(normal_scores(np.exp(x)).of(np.exp(x)), scores.of(x))
    far = scores.of(np.array([[-1e30, -1.0, 0.0], [1e30, 9.0, 2.0]]))
    np.testing.assert_allclose(far[:, 0], norm.ppf([0.5 / 40, 39.5 / 40]))
    assert (far[:, 2] == 0).all()


@pytest.mark.parametrize(("d", "kernels"), [(1, 8), (2, 32), (3, 72)])
def test_waves_over_ranks_are_one_of_a_coordinate_and_two_of_a_pair(d, kernels):
    waves = rank_waves(d)
    assert len(waves.firsts) == kernels
    assert len(waves.W) == 8 * d + 32 * (d * (d - 1) // 2)
    turns = waves.W / (2 * np.pi)
    np.testing.assert_allclose(turns, np.rint(turns))
    assert len(np.unique(np.concatenate([turns, -turns]), axis=0)) == 2 * len(turns)
    assert rank_waves(4) is None


def test_what_rounding_leaves_of_zero_is_zero():
    T = np.r_[RNG.chisquare(1, size=300), np.zeros(5)][None]
    rounded = T + np.r_[np.zeros(300), 1e-8, -1e-8, 3e-7, 1e-6, 0][None]
    np.testing.assert_array_equal(
        standardised(rounded)[:, 300:], standardised(rounded)[:, [304]].repeat(5, axis=1)
    )
    np.testing.assert_allclose(standardised(rounded), standardised(T), atol=1e-6)


def test_the_statistic_is_the_harmonic_mean_of_p_values():
    T = RNG.chisquare(3, size=(3, 500))
    t, shares = standardised(T), np.array([0.5, 0.5, 0.0])
    p = 1 / (shares @ (1 / norm.sf(t)))
    found = evidence(t, shares)
    np.testing.assert_allclose(combined(found), norm.isf(p), rtol=1e-9, atol=1e-12)
    assert (found[2] == -np.inf).all()
    np.testing.assert_allclose(combined(evidence(t[:1], np.ones(1))), t[0], atol=1e-9)
    assert np.isfinite(combined(evidence(np.array([[-40.0, 40.0]]), np.ones(1)))).all()


def test_what_does_not_vary_is_no_evidence():
    t = standardised(np.stack([np.full(50, 7.0), np.zeros(50), RNG.random(50)]))
    assert (t[:2] == 0).all()
    assert t[2].std() == pytest.approx(1)


@pytest.mark.parametrize("d", [1, 2, 3])
def test_waves_share_by_their_length(d):
    """By definition: 1 / sqrt(k) of one coordinate, 1 / sqrt(k l) of two, in the order of the family."""
    parts = [1 / np.sqrt(k) for _ in range(d) for k in range(1, 9)]
    parts += [1 / np.sqrt(k * m) for _ in range(d * (d - 1) // 2) for k in range(1, 5) for m in range(1, 5)]
    np.testing.assert_allclose(rank_waves(d).shares, np.array(parts) / sum(parts))


@pytest.mark.parametrize("d", [1, 2, 3, 4, 30])
def test_shares_are_the_whole_level_in_any_dimension(d):
    family = kernel_family(RNG.normal(size=(50, d)))
    assert family.shares.sum() == pytest.approx(1)
    assert len(family.shares) == len(family.names)
    assert (family.shares[:NARROW] > 0).all()
    assert (family.shares[NARROW : len(family.sigmas)] == 0).all()  # the wide ones are in the sums
    assert ("mixed" in family.names) == (d > 3)
    assert (family.shares[family.names.index("energy")] > 0) == (d <= 3)
    assert ("waves" in family.names) == (d <= 3)
    assert ("products" in family.names) == (d > 1)


@pytest.mark.parametrize("d", [1, 2, 3])
def test_kernels_of_one_name_have_its_share_together(d):
    """As the tables say, made one together, of a union that looks normal."""
    family = kernel_family(RNG.normal(size=(400, d)))
    names, traces = np.array(family.names), family.traces
    rough = np.clip(traces.roughness / 5, 0, 1)
    grows = {"gaussian": rough, "waves": rough, **{k: getattr(traces, k) for k in traces._fields[:3]}}
    given = SHARES | {name: OF_SHAPES[name][0] + OF_SHAPES[name][1] * grows[name] for name in OF_SHAPES}
    given = {name: share for name, share in given.items() if name in names}
    total = sum(given.values())
    found = {name: family.shares[names == name].sum() for name in given}
    assert found == pytest.approx({name: share / total for name, share in given.items()})
    assert found["energy"] + found["means"] > 0.65  # what little is seen of shapes in normal points


@pytest.mark.parametrize("d", [4, 30, 300])
def test_shares_in_many_dimensions_are_always_the_same(d):
    family = kernel_family(RNG.normal(size=(60, d)))
    names = np.array(family.names)
    given = {name: MANY_DIMENSIONS.get(name, 0.0) for name in set(names)}
    total = sum(given.values())
    found = {name: family.shares[names == name].sum() for name in given}
    assert found == pytest.approx({name: share / total for name, share in given.items()})
    assert found["mixed"] > 0.9
    assert ("whitened" in names) == (d <= 256)


def test_shares_of_waves_follow_those_in_the_union():
    x = RNG.random((6000, 1))
    wavy = x[2 * RNG.random(6000) < 1 + 0.6 * np.sin(10 * np.pi * x[:, 0])][:1000]
    family, normal = kernel_family(wavy), kernel_family(RNG.normal(size=(1000, 1)))
    waves = np.array(family.names) == "waves"
    assert family.shares[waves].sum() > 20 * normal.shares[waves].sum()
    assert family.shares[waves][4] > 3 * family.shares[waves][1]  # five periods, not two


def test_the_energy_kernel_is_a_mixture_of_the_gaussian_ones():
    """Of the samples as they are and permuted, against all distances between points: nearly one statistic."""
    u = RNG.normal(size=(80, 2))
    family = kernel_family(u)
    R = np.sqrt(((u[:, None] - u) ** 2).sum(axis=2))
    z = np.stack([RNG.permutation(np.repeat([1 / 40, -1 / 40], 40)) for _ in range(300)])
    energy = np.einsum("bi,bi->b", z @ -R, z)
    gaussian = np.stack([np.einsum("bi,bi->b", z @ np.exp(-(R**2) / (2 * s**2)), z) for s in family.sigmas])
    features = np.zeros((300, family.features(u).shape[1]))
    found = family.distances(gaussian, features)[family.names.index("energy")]
    assert np.corrcoef(found, energy)[0, 1] > 0.999


@pytest.mark.parametrize("d", [2, 4])
def test_what_all_points_share_is_no_evidence(monkeypatch, d):
    """Coordinates of two values, some of whose waves are the same at all points, in whatever order they are added."""
    x = RNG.integers(0, 2, size=(60, d)).astype(float)
    family = kernel_family(x)
    for limit in (1024, 50):
        monkeypatch.setattr(testing, "SAMPLE", limit)
        seen = []
        monkeypatch.setattr(testing, "standardised", lambda T, seen=seen: seen.append(T) or standardised(T))
        dk.two_sample_test(x[:30], x[30:], n_permutations=99, random_state=0)
        T = seen[0]
        tiny = (T.max(axis=1) < 1e-9) & (T.max(axis=1) > 0)
        assert not tiny.any(), np.array(family.names)[tiny]
