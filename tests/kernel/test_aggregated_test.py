"""The two-sample test without a bandwidth: its level at any size, its power, its sums by brute force, what it reads."""

from __future__ import annotations

from itertools import combinations

import dask.array as da
import numpy as np
import pytest
import zarr
from numpy.polynomial.hermite_e import hermeval
from scipy.stats import binomtest, norm

import dkdist as dk
from dkdist.kernel.comparing import aggregated_test as testing
from dkdist.kernel.comparing.kernel_family import MOST_PAIRS, _pairs, kernel_family, shared_frequencies
from dkdist.kernel.comparing.samples import Held, Look, in_units
from dkdist.kernel.sums.random_loops import waves_of

RNG = np.random.default_rng(0)
P, Q = RNG.random((300, 2)), RNG.random((250, 2)) ** 1.5


def p_value(x, y, seed=0, n_permutations=99):
    return dk.two_sample_test(x, y, n_permutations=n_permutations, random_state=seed).p_value


@pytest.mark.parametrize(
    ("n", "m", "d", "bins", "draw"),
    [
        (8, 6, 1, 4096, lambda r, s: r.normal(size=s)),
        (2, 9, 3, 4096, lambda r, s: r.standard_cauchy(size=s)),
        (60, 45, 2, 16, lambda r, s: r.normal(size=s)),  # bins of six points, some points left over
        (10, 90, 1, 24, lambda r, s: r.integers(0, 3, size=s)),  # ties, and points that stay where they are
    ],
)
def test_the_level_is_exact_at_any_size(monkeypatch, n, m, d, bins, draw):
    monkeypatch.setattr(testing, "MOST_BINS", bins)
    rng = np.random.default_rng([n, m])
    p = np.array([p_value(draw(rng, (n, d)), draw(rng, (m, d)), i, 19) for i in range(250)])
    for level in (0.05, 0.2):  # of a continuous statistic exactly, of one with ties at most
        assert binomtest(int((p <= level).sum()), len(p), level, alternative="greater").pvalue > 1e-3


@pytest.mark.slow
def test_the_level_at_length():
    rng = np.random.default_rng(1)
    p = np.array([p_value(*rng.normal(size=(2, 50, 2)), i) for i in range(1000)])
    assert 0.03 <= (p <= 0.05).mean() <= 0.07


@pytest.mark.parametrize("difference", ["shift", "scale", "waves"])
def test_power_where_one_bandwidth_has_little(difference):
    rng, found = np.random.default_rng(2), []
    for i in range(20):
        x, y = rng.random((400, 1)), rng.random((1600, 1))
        y = {
            "shift": y[:400] + 0.1,
            "scale": 0.5 + 1.3 * (y[:400] - 0.5),
            "waves": y[rng.random(1600) < (1 + 0.9 * np.sin(16 * np.pi * y[:, 0])) / 2][:400],
        }[difference]
        found.append([p_value(x, y, i), dk.two_sample_test(x, y, sigma="median", n_permutations=99).p_value])
    ours, median = (np.array(found) <= 0.05).mean(axis=0)
    assert ours >= 0.9
    if difference == "waves":
        assert median < 0.5


def brute_force(x, y, family, points):
    """The squared distances by all kernels, of points from the origin with ranks among ``points``: by definition."""
    gaussian = [dk.kernel_distance(x, y, sigma=s, squared=True) for s in family.sigmas]
    ratio = family.sigmas[1] / family.sigmas[0]
    shares = family.sigmas * np.log(ratio)
    shares[0], shares[-1] = shares[0] / 2 + family.sigmas[0], shares[-1] / 2 + family.sigmas[-1]
    d = x.shape[1]
    ranks = [
        [(sum(points[:, j] < t) + sum(points[:, j] <= t)) / (2 * len(points)) for t in z[:, j]]
        for z in (x, y)
        for j in range(d)
    ]
    U, V = np.transpose(ranks[:d]), np.transpose(ranks[d:])
    v, w = norm.ppf(U), norm.ppf(V)
    apart = lambda f: f(v).mean(axis=0) - f(w).mean(axis=0)  # noqa: E731
    squares = apart(lambda g: g**2)
    means, both_scores = apart(lambda g: g), np.concatenate([v, w])
    covariance = np.atleast_2d(np.cov(both_scores.T, bias=True))
    whitened = means @ np.linalg.solve(covariance + np.trace(covariance) / len(points) * np.eye(d), means)
    moments = [
        (means**2).sum(),
        *([whitened] if d > 1 else []),
        (squares**2).sum(),
        squares.sum() ** 2,
        (apart(lambda g: hermeval(g, [0, 0, 0, 1])) ** 2).sum(),
        (apart(lambda g: hermeval(g, [0, 0, 0, 0, 1])) ** 2).sum(),
    ]
    if d > 1:
        moments.append(sum(apart(lambda g: g[:, j] * g[:, k]) ** 2 for j, k in combinations(range(d), 2)))  # noqa: B023
    z = np.repeat([1 / len(x), -1 / len(y)], [len(x), len(y)])
    both = np.concatenate([U, V])
    gap = lambda j: both[:, None, j] - both[None, :, j]  # noqa: E731
    waves = [z @ np.cos(2 * np.pi * k * gap(j)) @ z for j in range(d) for k in range(1, 9)]
    waves += [
        2 * z @ (np.cos(2 * np.pi * k * gap(i)) * np.cos(2 * np.pi * m * gap(j))) @ z
        for i, j in combinations(range(d), 2)
        for k in range(1, 5)
        for m in range(1, 5)
    ]
    return np.array([*gaussian, shares @ gaussian, *moments, *waves])


@pytest.mark.parametrize("by", ["all pairs", "frequencies"])
def test_what_differs_in_the_correlation_alone_is_found_by_products(monkeypatch, by):
    if by == "frequencies":
        monkeypatch.setattr(testing, "SAMPLE", 100)
    rng = np.random.default_rng(5)
    x, y = rng.normal(size=(2, 150, 3))
    y[:, 2] = 0.8 * y[:, 0] + 0.6 * y[:, 2]
    found = dk.two_sample_test(x, y, random_state=0)
    assert found.kernel == "products"
    assert found.p_value == 0.001
    line = dk.two_sample_test(x[:, :1], y[:, 2:], random_state=0)
    assert line.kernel != "products"
    assert line.p_value > 0.01


@pytest.mark.parametrize("by", ["all pairs", "frequencies"])
def test_a_shift_across_what_coordinates_share_is_found_by_whitened_means(monkeypatch, by):
    if by == "frequencies":
        monkeypatch.setattr(testing, "SAMPLE", 100)
    rng = np.random.default_rng(6)
    x, y = (rng.normal(size=(150, 1)) + 0.2 * rng.normal(size=(150, 6)) for _ in range(2))
    y[:, 0] += 0.2
    found = dk.two_sample_test(x, y, random_state=0)
    assert found.kernel == "whitened"
    assert found.p_value == 0.001
    assert dk.two_sample_test(x, y, sigma="median", random_state=0).p_value > 0.05
    assert dk.two_sample_test(x[:, :1], y[:, 1:2], random_state=0).kernel != "whitened"


def test_a_shift_in_many_dimensions_is_found_by_the_mixed_kernel():
    rng = np.random.default_rng(7)
    x, y = rng.normal(size=(120, 10)), rng.normal(0.2, 1, (120, 10))
    found = dk.two_sample_test(x, y, random_state=0)
    assert (found.kernel, found.p_value) == ("mixed", 0.001)
    assert dk.two_sample_test(x[:, :3], y[:, :3], random_state=0).kernel != "mixed"


@pytest.mark.parametrize("d", [1, 2, 5, 23, 24, 60_000])
def test_pairs_of_coordinates_are_all_or_some_and_none_is_twice(d):
    j, k = _pairs(d)
    assert len(j) == min(d * (d - 1) // 2, MOST_PAIRS) == len(set(zip(j.tolist(), k.tolist(), strict=True)))
    assert (j >= 0).all()
    assert (j < k).all()
    assert (k < d).all()


def test_random_features_stand_for_the_kernels():
    """Squared distances by weighted frequencies, against all pairs; moments against their means."""
    points = np.concatenate([P, Q])
    centre, unit = np.median(points, axis=0), 0.5
    family = kernel_family(in_units(points, centre, unit), points)
    shared = shared_frequencies(family.sigmas, 2, 51, 0)
    look = Look(centre, unit, waves_of(shared.W, np.zeros(2)), len(shared.W), family)
    one = np.zeros(len(points), np.uint16)
    sums = [Held(x).bin_sums(look, one[: len(x)], 1)[0] / len(x) for x in (P, Q)]
    apart, F2 = (sums[0] - sums[1])[None], 2 * len(shared.W)
    found, exact = (
        shared.of_waves(apart[:, :F2])[:, 0],
        brute_force(*((x - centre) / unit for x in (P, Q)), family, (points - centre) / unit),
    )
    np.testing.assert_allclose(found, exact[:10], rtol=0.3, atol=2e-3)
    assert np.corrcoef(found, exact[:10])[0, 1] > 0.99
    others = family.distances(exact[:10, None], apart[:, F2:])[10:, 0]
    np.testing.assert_allclose(others, exact[10:], rtol=1e-3, atol=1e-6)
    assert len(others) == len(family.names) - 10 == len(family.shares) - 10
    assert (shared.weights >= 0).all()


def test_few_points_are_compared_by_all_pairs():
    """Of the samples as they are and permuted, against brute force by definition, for wide and narrow kernels."""
    x, y = RNG.normal(size=(5, 2)), RNG.normal(size=(4, 2)) + 0.3
    family = kernel_family(np.concatenate([x, y]))
    points = np.concatenate([x, y])
    found = testing._from_all_pairs(points, points, 5, family, 300, np.random.default_rng(0))
    of_P = [np.array(c) for c in combinations(range(9), 5)]
    every = np.stack(
        [brute_force(points[c], np.delete(points, c, axis=0), family, points) for c in of_P], axis=1
    )
    np.testing.assert_allclose(found[:, 0], every[:, 0], rtol=1e-5, atol=1e-9)
    apart = np.abs(np.cbrt(found[:, :, None]) - np.cbrt(np.maximum(every, 0))[:, None]).max(axis=0)
    assert apart.min(axis=1).max() < 1e-3
    assert len(np.unique(apart.argmin(axis=1))) > 100  # of 126


def test_all_pairs_and_frequencies_are_one_test(monkeypatch):
    """The same points below and above the number that is compared by all pairs: nearly the same score."""
    rng = np.random.default_rng(4)
    x, y = rng.normal(size=(300, 2)), rng.normal([0.2, 0], 1, (280, 2))
    exact = dk.two_sample_test(x, y, random_state=0)
    monkeypatch.setattr(testing, "SAMPLE", 579)
    by_frequencies = dk.two_sample_test(x, y, random_state=0)
    assert {exact.kernel, by_frequencies.kernel} <= {"energy", "means"}  # which are nearly alike
    assert by_frequencies.statistic == pytest.approx(
        exact.statistic, abs=0.3
    )  # other permutations: 3 / sqrt(999)


@pytest.mark.parametrize(
    ("n", "m"), [(2, 2), (5, 3000), (3000, 5), (5000, 4097), (10**7, 300), (10**6, 10**7)]
)
def test_bins_hold_nearly_all_of_the_smaller_sample(n, m):
    size, of_P, of_Q = testing.bins_of(n, m)
    assert size * of_P <= n
    assert size * of_Q <= m
    assert of_P + of_Q <= testing.MOST_BINS
    few, small = (of_P, n) if n <= m else (of_Q, m)
    assert size * few > 0.99 * small
    assert size == 1 if small <= testing.MOST_BINS // 2 else few > 1000


def test_permutations_exchange_points(monkeypatch):
    """What the test calls permuted samples are partitions of the points: sums of brute force, of bins of one point."""
    x, y = RNG.normal(size=(5, 1)), RNG.normal(size=(4, 1))
    seen = []
    family = kernel_family(np.concatenate([x, y]))
    shared = shared_frequencies(family.sigmas, 1, 51, 0)
    monkeypatch.setattr(
        type(shared), "of_waves", lambda self, apart: seen.append(apart) or np.zeros((10, len(apart)))
    )
    look = Look(np.zeros(1), 1.0, waves_of(shared.W, np.zeros(1)), len(shared.W), family)
    testing._from_frequencies(Held(x), Held(y), look, shared, 400, np.random.default_rng(0))
    columns = np.concatenate(seen)
    points = np.concatenate([x, y])
    phi = np.concatenate([np.sin(points @ shared.W.T), np.cos(points @ shared.W.T)], axis=1)
    F2 = phi.shape[1]
    np.testing.assert_allclose(columns[0, :F2], phi[:5].mean(axis=0) - phi[5:].mean(axis=0), atol=1e-5)
    every = np.array(
        [phi[list(c)].mean(0) - np.delete(phi, c, axis=0).mean(0) for c in combinations(range(9), 5)]
    )
    nearest = np.abs(columns[:, None, :F2] - every).max(axis=2)
    assert nearest.min(axis=1).max() < 1e-5
    assert len(np.unique(nearest.argmin(axis=1))) > 100  # of 126


def test_arrays_dask_arrays_and_stores_give_the_same(tmp_path):
    x, y = RNG.normal(size=(9000, 2)), RNG.normal(size=(7000, 2)) + 0.03
    x, y = x.astype("f4").astype("f8"), y.astype("f4").astype("f8")
    own = dk.two_sample_test(x, y, n_permutations=99, random_state=0)
    z = zarr.create_array(tmp_path / "z.zarr", shape=x.shape, dtype="f8", chunks=(2500, 2))
    z[:] = x
    many = dk.write_sets(tmp_path / "many.zarr", np.split(y, [100, 2000, 6990]))
    one = dk.write_sets(tmp_path / "one.zarr", [y])
    lazy = da.from_array(x, chunks=(3100, 1))
    for other in ((lazy, y), (z, one), (x, many), (x, dk.SampleSets.from_arrays(np.split(y, [100])))):
        found = dk.two_sample_test(*other, n_permutations=99, random_state=0)
        assert found.p_value == pytest.approx(own.p_value, abs=0.011)  # sums in another order
        assert found.statistic == pytest.approx(own.statistic, rel=1e-4)
        assert (found.sigma, found.kernel) == (pytest.approx(own.sigma), own.kernel)


def test_units_and_far_points_do_not_matter():
    own = dk.two_sample_test(P, Q, n_permutations=99, random_state=0)
    for scale, at in ((2.0**-1000, 0.0), (2.0**900, 0.0), (1.0, 2.0**20)):
        moved = dk.two_sample_test(P * scale + at, Q * scale + at, n_permutations=99, random_state=0)
        assert moved.p_value == own.p_value
        assert moved.sigma == pytest.approx(own.sigma * scale, rel=1e-4)
    with np.errstate(all="raise", under="ignore"):
        assert p_value(np.r_[P, [[1e308, -1e308]]], np.r_[Q, [[-1e308, 1e308]]]) <= 1


def test_equal_points_are_never_significant():
    for x in (np.zeros((5, 2)), np.repeat([[0.0], [1.0]], 6, axis=0)):
        assert p_value(x, x) == 1


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: dk.two_sample_test(P, Q[:1]), "found 300 and 1"),
        (lambda: dk.two_sample_test(P, Q[:, :1]), "P has 2 dimensions and Q has 1"),
        (lambda: dk.two_sample_test(P, Q, kernel="laplacian"), "kernel='laplacian' needs a bandwidth"),
        (lambda: dk.two_sample_test(P, np.full((3, 2), np.nan)), "point 0 of Q"),
        (lambda: dk.two_sample_test(P, da.full((30, 2), np.inf)), "point 0 of Q is"),
        (lambda: dk.two_sample_test(dk.Curve(P), Q), "not shapes"),
        (lambda: dk.two_sample_test(dk.SampleSets.from_arrays([P], [np.ones(300)]), Q), "P has weights"),
        (lambda: dk.two_sample_test(dk.SampleSets.from_strings(["a", "b"]), Q), "P holds strings"),
        (lambda: dk.two_sample_power(P, Q, [400]), "P has 300 points"),
        (lambda: dk.two_sample_power(P, Q, []), "sizes is empty"),
        (lambda: dk.two_sample_power(P, Q, [1]), "sizes must be a whole number >= 2"),
        (lambda: dk.two_sample_power(P, Q, [9], level=0.001), "level must be from"),
        (lambda: dk.two_sample_power(lambda n, r: P, Q, [9]), "was asked for 9 points and drew 300"),
        (lambda: dk.adjusted_p_values([0.5, 0.0]), "p-value 1 is 0.0"),
        (lambda: dk.adjusted_p_values([[0.5]]), "found shape"),
        (lambda: dk.adjusted_p_values([0.5], "sidak"), "method must be one of"),
    ],
)
def test_bad_input_is_refused_by_name(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_power_by_pilots_and_by_functions():
    draw = lambda n, rng: rng.normal(0.6, 1, (n, 1))  # noqa: E731
    by_function = dk.two_sample_power(
        lambda n, rng: rng.normal(size=(n, 1)),
        draw,
        [10, 80],
        n_repetitions=240,
        n_permutations=39,
        random_state=0,
    )
    rng = np.random.default_rng(5)
    by_pilot = dk.two_sample_power(
        rng.normal(size=(800, 1)),
        draw(800, rng),
        [80, 10],
        n_repetitions=240,
        n_permutations=39,
        random_state=0,
    )
    assert by_function.sizes.tolist() == by_pilot.sizes.tolist() == [10, 80]
    for i in range(2):  # intervals of both meet, but for the little that a pilot of 800 is off
        assert by_pilot.low[i] - 0.1 <= by_function.high[i]
        assert by_function.low[i] - 0.1 <= by_pilot.high[i]
    assert by_function.power[0] < 0.6 < 0.85 < by_function.power[1]
    assert by_function.size_for(0.8) == 80
    with pytest.raises(ValueError, match="no size reached a power of 1"):
        dk.two_sample_power(
            P[:99], P[99:], [20], n_repetitions=9, n_permutations=19, random_state=0
        ).size_for(1)


def test_no_power_against_what_is_true():
    """Parts of two pilots of one distribution are told apart as often as the level says, however many are drawn."""
    rng = np.random.default_rng(3)
    found = dk.two_sample_power(
        rng.normal(size=(2000, 1)),
        rng.normal(size=(2000, 1)),
        [400],
        n_repetitions=100,
        n_permutations=19,
        random_state=0,
    )
    assert found.low[0] <= 0.1


def test_adjusted_p_values_against_their_definitions():
    p = RNG.random(30) ** 3
    order = np.argsort(p)
    holm = np.empty(30)
    for rank, i in enumerate(order):
        holm[i] = min(1, max((30 - k) * p[order[k]] for k in range(rank + 1)))
    np.testing.assert_allclose(dk.adjusted_p_values(p), holm)
    bh = np.array(
        [min(min(1, 30 / (k + 1) * p[order[k]]) for k in range(list(order).index(i), 30)) for i in range(30)]
    )
    np.testing.assert_allclose(dk.adjusted_p_values(p, "benjamini-hochberg"), bh)
    assert (dk.adjusted_p_values(p, "benjamini-yekutieli") >= bh).all()
    assert dk.adjusted_p_values([]).shape == (0,)


def test_differences_that_are_far_below_the_unit_or_above_it_show_in_ranks():
    rng = np.random.default_rng(0)
    noise = 1e-20 * rng.normal(size=(2, 300, 2))
    wide = [np.c_[e, s * rng.normal(size=300)] for e, s in zip(noise, (1e15, 3e15), strict=True)]
    assert dk.two_sample_test(*wide, random_state=0).p_value < 0.01
    for tiny in (1e-20, 1e-40, 1e-200):
        some = [
            np.where(
                rng.random((300, 1)) < 0.6, tiny * rng.normal(size=(300, 1)), at + rng.normal(size=(300, 1))
            )
            for at in (5, 8)
        ]
        assert dk.two_sample_test(*some, random_state=0).p_value < 0.01


@pytest.mark.parametrize(
    ("x", "y"),
    [
        ([[1.7e308], [1e308]], [[-1.7e308], [-1e308], [0]]),
        ([[1.7e308, 0], [1, 2]], [[-1.7e308, 1], [2, 3], [0, 3]]),
        ([[5e-324], [0]], [[0], [1e-323], [0]]),
    ],
)
def test_values_at_the_ends_of_the_floats_are_compared_without_a_warning(x, y):
    found = dk.two_sample_test(np.array(x), np.array(y), n_permutations=19, random_state=0)
    assert 0 < found.sigma < np.inf
    assert 0 < found.p_value <= 1


def test_many_values_that_floats_cannot_divide_by_are_compared_without_a_warning():
    rng = np.random.default_rng(7)
    z = np.where(rng.random((3000, 1)) < 0.05, rng.random((3000, 1)) * 1e-310, rng.normal(size=(3000, 1)))
    assert 0.001 < dk.two_sample_test(z[:1500], z[1500:], n_permutations=99, random_state=0).p_value <= 1
