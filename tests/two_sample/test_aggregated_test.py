"""The two-sample test without a bandwidth: level at any size, power, statistics by brute force, inputs."""

from __future__ import annotations

from itertools import combinations

import dask.array as da
import numpy as np
import pytest
import zarr
from scipy.spatial.distance import cdist
from scipy.stats import binomtest

import dkdist as dk
from dkdist.two_sample import two_sample_test as testing
from dkdist.two_sample.pooled_statistics import MAX_PAIRS, _pairs, pooled_statistics
from dkdist.two_sample.samples import sample_of
from dkdist.two_sample.two_sample_test import WEIGHTS

RNG = np.random.default_rng(0)
P, Q = RNG.random((300, 2)), RNG.random((250, 2)) ** 1.5


def p_value(x, y, seed=0, n_permutations=99):
    return dk.two_sample_test(x, y, n_permutations=n_permutations, random_state=seed).p_value


NORMAL = np.random.Generator.normal
CAUCHY = np.random.Generator.standard_cauchy


def tied(rng, size):
    return rng.integers(0, 3, size=size)


@pytest.mark.parametrize(
    ("n", "m", "d", "bins", "draw"),
    [
        (8, 6, 1, 4096, NORMAL),
        (2, 9, 3, 4096, CAUCHY),
        (60, 45, 2, 16, NORMAL),  # bins of six points, with remaining points
        (10, 90, 1, 24, tied),  # ties
    ],
)
def test_the_level_is_exact_at_any_size(monkeypatch, n, m, d, bins, draw):
    if bins < n + m:
        monkeypatch.setattr(testing, "MAX_BINS", bins)
        monkeypatch.setattr(testing, "MAX_DENSE_POINTS", 50)
    rng = np.random.default_rng([n, m])
    p = np.array([p_value(draw(rng, size=(n, d)), draw(rng, size=(m, d)), i, 19) for i in range(250)])
    for level in (0.05, 0.2):  # exact for a continuous statistic, conservative with ties
        assert binomtest(int((p <= level).sum()), len(p), level, alternative="greater").pvalue > 1e-3


NULL_CASES = [  # n, m, d, draw: sizes, dimensions, ties and tails; the last one is permuted by bins
    (50, 50, 1, NORMAL),
    (20, 80, 2, NORMAL),
    (50, 50, 10, CAUCHY),
    (30, 40, 100, NORMAL),
    (60, 60, 1, CAUCHY),
    (15, 90, 10, NORMAL),
    (60, 50, 2, lambda rng, size: rng.integers(0, 10, size=size)),
    (400, 300, 2, NORMAL),
]


@pytest.mark.slow
def test_the_level_of_2000_null_runs():
    rng, p = np.random.default_rng(1), []
    for i in range(2000):
        n, m, d, draw = NULL_CASES[i % len(NULL_CASES)]
        p.append(p_value(draw(rng, size=(n, d)), draw(rng, size=(m, d)), i, 59))
    assert 0.04 <= (np.array(p) <= 0.05).mean() <= 0.06


@pytest.mark.parametrize("difference", ["shift", "scale", "waves"])
def test_power_where_the_median_bandwidth_has_little(difference):
    rng, result = np.random.default_rng(2), []
    for i in range(20):
        x, y = rng.random((400, 1)), rng.random((1600, 1))
        y = {
            "shift": y[:400] + 0.1,
            "scale": 0.5 + 1.3 * (y[:400] - 0.5),
            "waves": y[rng.random(1600) < (1 + 0.9 * np.sin(16 * np.pi * y[:, 0])) / 2][:400],
        }[difference]
        result.append([p_value(x, y, i), dk.two_sample_test(x, y, sigma="median", n_permutations=99).p_value])
    ours, median = (np.array(result) <= 0.05).mean(axis=0)
    assert ours >= 0.9
    if difference == "waves":
        assert median < 0.5


def robust(points):
    """Return (x - median) / s clipped to [-2, 2], and s, the lower 0.9 quantile of |x - median|, by column."""
    centre = np.median(points, axis=0)
    scale = np.quantile(np.abs(points - centre), 0.9, axis=0, method="lower")
    return np.clip((points - centre) / scale, -2, 2), scale


def brute_force(labels, points, pooled):
    """Compute all statistics (n_statistics, b) of labels (b, N) of points (N, d) by definition."""
    n = labels[0].sum()
    z = np.where(labels, 1 / n, -1 / (len(points) - n))
    g, scale = robust(points)
    R, L1 = (cdist(g * scale, g * scale, metric) / scale.max() for metric in ("euclidean", "cityblock"))
    forms = [np.exp(-(R**2) / (2 * s**2)) for s in pooled.gaussian]
    forms += [*(np.exp(-L1 / s) for s in pooled.laplace), -R]
    kernels = [np.einsum("bi,bi->b", z @ form, z) for form in forms]
    moments = [g, g**2, (g**2).sum(axis=1, keepdims=True)]
    if g.shape[1] > 1:
        moments.append(np.stack([g[:, j] * g[:, k] for j, k in combinations(range(g.shape[1]), 2)], axis=1))
    return np.stack([*kernels, *(((z @ part) ** 2).sum(axis=1) for part in moments)])


@pytest.mark.parametrize("by", ["all pairs", "frequencies"])
def test_a_difference_in_correlation_is_found_by_products(monkeypatch, by):
    if by == "frequencies":
        monkeypatch.setattr(testing, "MAX_DENSE_POINTS", 100)
    rng = np.random.default_rng(5)
    x, y = rng.normal(size=(2, 150, 3))
    y[:, 2] = 0.8 * y[:, 0] + 0.6 * y[:, 2]
    result = dk.two_sample_test(x, y, random_state=0)
    assert result.kernel == "products"
    assert result.p_value == 0.001
    line = dk.two_sample_test(x[:, :1], y[:, 2:], random_state=0)
    assert line.kernel != "products"
    assert line.p_value > 0.01


@pytest.mark.parametrize("d", [1, 2, 5, 23, 24, 60_000])
def test_pairs_of_coordinates_are_unique_and_limited(d):
    j, k = _pairs(d)
    assert len(j) == min(d * (d - 1) // 2, MAX_PAIRS) == len(set(zip(j.tolist(), k.tolist(), strict=True)))
    assert (j >= 0).all()
    assert (j < k).all()
    assert (k < d).all()


@pytest.mark.parametrize("d", [1, 2, 4])
def test_dense_statistics_equal_their_definition(d):
    """Observed and permuted labels; the energy statistic is approximated by a mixture of kernels."""
    points = np.random.default_rng(d).normal(size=(90, d)) * [1, 3, 0.5, 2][:d]
    pooled = pooled_statistics(points)
    seen, statistics = [], testing._dense_statistics(pooled, points, 40)

    def recorded(labels):
        seen.append(labels)
        return statistics(labels)

    T = testing.permuted_statistics(recorded, 40, 90, 300, np.random.default_rng(0))
    labels = np.concatenate(seen)
    np.testing.assert_array_equal(labels[0], np.arange(90) < 40)
    assert len(np.unique(labels, axis=0)) == 301
    assert (labels.sum(axis=1) == 40).all()
    exact, others = brute_force(labels, points, pooled), np.array(list(WEIGHTS))[: len(T)] != "energy"
    np.testing.assert_allclose(T[others], exact[others], rtol=1e-9, atol=1e-12)
    assert np.corrcoef(T[~others], exact[~others])[0, 1] > 0.99


@pytest.mark.parametrize("d", [1, 2, 4])
def test_random_features_represent_the_kernels(d):
    rng = np.random.default_rng(d)
    points = rng.normal(size=(400, d))
    points[:150] += 0.3
    pooled, labels = pooled_statistics(points).with_frequencies(200, 0), np.arange(400)[None] < 150
    bins = np.where(labels[0], 0, 1).astype(np.uint16)
    sums = sample_of("P", points).bin_sums(pooled, bins, 2) / [[150], [250]]
    result = pooled.from_features((sums[:1] - sums[1:]).astype(np.float64))
    z = np.where(labels, 1 / 150, -1 / 250)
    kernels = np.stack([((z @ kernel) * z).sum(axis=1) for kernel in pooled.kernels(points)])
    exact = pooled.from_kernels(kernels, z @ pooled.moments(points))
    np.testing.assert_allclose(result[21:], exact[21:], rtol=1e-3)
    np.testing.assert_allclose(result, exact, rtol=0.3, atol=2e-3)
    assert np.corrcoef(result[:20, 0], exact[:20, 0])[0, 1] > 0.99
    assert (pooled.weights >= 0).all()


def test_weights_of_the_kernels_sum_to_one():
    assert sum(WEIGHTS.values()) == pytest.approx(1)
    for d in (1, 2, 30):
        points = RNG.normal(size=(20, d))
        statistics = testing._dense_statistics(pooled_statistics(points), points, 10)
        # one dimension has no products
        assert len(statistics(np.arange(20)[None] < 10)) == len(WEIGHTS) - (d == 1)


def test_dense_and_random_feature_statistics_agree(monkeypatch):
    """The same points just below and above the limit for all pairs have nearly the same statistic."""
    rng = np.random.default_rng(4)
    x, y = rng.normal(size=(300, 2)), rng.normal([0.2, 0], 1, (280, 2))
    exact = dk.two_sample_test(x, y, random_state=0)
    monkeypatch.setattr(testing, "MAX_DENSE_POINTS", 579)
    by_frequencies = dk.two_sample_test(x, y, random_state=0)
    assert {exact.kernel, by_frequencies.kernel} <= {"energy", "means"}  # two kernels with similar statistics
    # other permutations: 3 / sqrt(999)
    assert by_frequencies.statistic == pytest.approx(exact.statistic, abs=0.3)


@pytest.mark.parametrize(
    ("n", "m"), [(2, 2), (5, 3000), (3000, 5), (5000, 4097), (10**7, 300), (10**6, 10**7)]
)
def test_bins_use_nearly_all_points_of_the_smaller_sample(n, m):
    size, of_P, of_Q = testing.bin_counts(n, m)
    assert size * of_P <= n
    assert size * of_Q <= m
    assert of_P + of_Q <= testing.MAX_BINS
    few, small = (of_P, n) if n <= m else (of_Q, m)
    assert size * few > 0.99 * small
    assert size == 1 if small <= testing.MAX_BINS // 2 else few > 1000


def test_permutations_exchange_bins(monkeypatch):
    """With bins of two points, every statistic is that of a partition that does not split bins."""
    x, y = RNG.normal(size=(10, 1)), RNG.normal(size=(8, 1))
    monkeypatch.setattr(testing, "MAX_BINS", 9)
    pooled = pooled_statistics(np.concatenate([x, y])).with_frequencies(51, 0)
    p, q = sample_of("P", x), sample_of("Q", y)
    counts = testing.bin_counts(10, 8)
    assert counts == (2, 5, 4)
    rng = np.random.default_rng(0)
    T = testing.permuted_statistics(testing._binned_statistics(pooled, p, q, counts, rng), 5, 9, 400, rng)
    rng = np.random.default_rng(0)
    bins = [p.bin_sums(pooled, testing._random_bins(10, 2, 5, rng), 6)[:-1]]
    bins = np.concatenate([*bins, q.bin_sums(pooled, testing._random_bins(8, 2, 4, rng), 5)[:-1]])
    means = [
        (bins[list(c)].sum(0) / 10, np.delete(bins, c, axis=0).sum(0) / 8) for c in combinations(range(9), 5)
    ]
    every = pooled.from_features(np.stack([a - b for a, b in means]).astype(np.float64))
    np.testing.assert_allclose(T[:, 0], every[:, 0], rtol=1e-4, atol=1e-7)
    nearest = np.abs(T[:, :, None] - every[:, None]).max(axis=0)
    assert nearest.min(axis=1).max() < 1e-4
    assert len(np.unique(nearest.argmin(axis=1))) > 100  # of 126


def test_numpy_dask_zarr_and_stores_give_the_same_result(tmp_path):
    x, y = RNG.normal(size=(9000, 2)), RNG.normal(size=(7000, 2)) + 0.03
    x, y = x.astype("f4").astype("f8"), y.astype("f4").astype("f8")
    own = dk.two_sample_test(x, y, n_permutations=99, random_state=0)
    z = zarr.create_array(tmp_path / "z.zarr", shape=x.shape, dtype="f8", chunks=(2500, 2))
    z[:] = x
    many = dk.write_sets(tmp_path / "many.zarr", np.split(y, [100, 2000, 6990]))
    one = dk.write_sets(tmp_path / "one.zarr", [y])
    lazy = da.from_array(x, chunks=(3100, 1))
    for other in ((lazy, y), (z, one), (x, many), (x, dk.SampleSets.from_arrays(np.split(y, [100])))):
        result = dk.two_sample_test(*other, n_permutations=99, random_state=0)
        assert result.p_value == pytest.approx(own.p_value, abs=0.011)  # sums in another order
        assert result.statistic == pytest.approx(own.statistic, rel=1e-4)
        assert (result.sigma, result.kernel) == (pytest.approx(own.sigma), own.kernel)


def test_the_test_is_scale_and_shift_invariant_and_robust_to_outliers():
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
        (lambda: dk.two_sample_test(P, Q[:1]), "got 300 and 1"),
        (
            lambda: dk.two_sample_test(P, Q[:, :1]),
            "P and Q must have the same number of dimensions; got 2 and 1",
        ),
        (lambda: dk.two_sample_test(P, Q, kernel="laplacian"), "kernel='laplacian' needs a bandwidth"),
        (lambda: dk.two_sample_test(P, np.full((3, 2), np.nan)), "Q must be finite; got .* at point 0"),
        (lambda: dk.two_sample_test(P, da.full((30, 2), np.inf)), "Q must be finite; got .* at point 0"),
        (lambda: dk.two_sample_test(dk.Curve(P), Q), "got a shape"),
        (
            lambda: dk.two_sample_test(dk.SampleSets.from_arrays([P], [np.ones(300)]), Q),
            "P must have no weights",
        ),
        (
            lambda: dk.two_sample_test(dk.SampleSets.from_strings(["a", "b"]), Q),
            "P must be a point set; got strings",
        ),
        (lambda: dk.two_sample_power(P, Q, [400]), "at most 300, the number of points of P; got 400"),
        (lambda: dk.two_sample_power(P, Q, []), "sizes must contain"),
        (lambda: dk.two_sample_power(P, Q, [1]), "sizes must be an integer >= 2"),
        (lambda: dk.two_sample_power(P, Q, [9], level=0.001), "level must be at least"),
        (lambda: dk.two_sample_power(lambda n, r: P, Q, [9]), "must return 9 points; got 300"),
        (lambda: dk.adjusted_p_values([0.5, 0.0]), "got 0.0 at position 1"),
        (lambda: dk.adjusted_p_values([[0.5]]), r"shape \(n,\); got \(1, 1\)"),
        (lambda: dk.adjusted_p_values([0.5], "sidak"), "method must be one of"),
    ],
)
def test_bad_input_is_refused_by_name(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_power_from_pilot_samples_and_from_functions_agree():
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
    for i in range(2):  # the intervals overlap up to the error of a pilot of 800 points
        assert by_pilot.low[i] - 0.1 <= by_function.high[i]
        assert by_function.low[i] - 0.1 <= by_pilot.high[i]
    assert by_function.power[0] < 0.6 < 0.85 < by_function.power[1]
    assert by_function.size_for(0.8) == 80
    with pytest.raises(ValueError, match="no size reached a power of 1"):
        dk.two_sample_power(
            P[:99], P[99:], [20], n_repetitions=9, n_permutations=19, random_state=0
        ).size_for(1)


def test_power_under_the_null_hypothesis_is_at_most_the_level():
    """Subsamples of two pilots of one distribution are rejected at most at the level, although pilots differ."""
    rng = np.random.default_rng(3)
    result = dk.two_sample_power(
        rng.normal(size=(2000, 1)),
        rng.normal(size=(2000, 1)),
        [400],
        n_repetitions=100,
        n_permutations=19,
        random_state=0,
    )
    assert result.low[0] <= 0.1


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


@pytest.mark.parametrize("by", ["all pairs", "frequencies"])
def test_a_shift_of_heavy_tailed_points_is_found(monkeypatch, by):
    if by == "frequencies":
        monkeypatch.setattr(testing, "MAX_DENSE_POINTS", 100)
    rng, rejected = np.random.default_rng(8), []
    for i in range(10):
        p, q = rng.standard_cauchy((150, 10)), rng.standard_cauchy((150, 10)) + 0.6
        tests = [
            dk.two_sample_test(p, q, sigma=s, n_permutations=99, random_state=i) for s in (None, "median")
        ]
        rejected.append([test.p_value <= 0.05 for test in tests])
    combined, median = np.mean(rejected, axis=0)
    assert combined >= 0.9
    assert median <= 0.5


def test_outliers_do_not_hide_a_shift():
    """1 of 20 points is 30 times as far out, and dominates the energy distance."""
    rng, rejected = np.random.default_rng(9), []
    for i in range(10):
        p, q = (rng.normal(size=(120, 10)) * np.where(rng.random((120, 1)) < 0.05, 30, 1) for _ in range(2))
        q += 0.25
        z = np.repeat([1 / 120, -1 / 120], 120)
        Z = np.stack([z, *(rng.permutation(z) for _ in range(99))])
        both = np.concatenate([p, q])
        energy = np.einsum("bi,bi->b", Z @ -cdist(both, both), Z)
        combined = dk.two_sample_test(p, q, n_permutations=99, random_state=i).p_value
        rejected.append([combined <= 0.05, (energy >= energy[0]).mean() <= 0.05])
    combined, energy = np.mean(rejected, axis=0)
    assert combined >= 0.9
    assert energy <= 0.5


@pytest.mark.parametrize("d", [2, 4])
@pytest.mark.parametrize("limit", [512, 50])
def test_constant_features_give_a_statistic_of_exactly_zero(monkeypatch, d, limit):
    """Binary coordinates have features that are constant; their statistic must not be a rounding error."""
    x = RNG.integers(0, 2, size=(60, d)).astype(float)
    monkeypatch.setattr(testing, "MAX_DENSE_POINTS", limit)
    seen = []
    permuted = testing.permuted_statistics
    monkeypatch.setattr(testing, "permuted_statistics", lambda *a: (seen.append(permuted(*a)), seen[-1])[1])
    dk.two_sample_test(x[:30], x[30:], n_permutations=99, random_state=0)
    largest = seen[0].max(axis=1)
    assert not ((largest < 1e-9) & (largest > 0)).any()


def test_differences_at_very_small_or_large_scales_are_found():
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
def test_extreme_float64_values_give_no_warning(x, y):
    result = dk.two_sample_test(np.array(x), np.array(y), n_permutations=19, random_state=0)
    assert 0 < result.sigma < np.inf
    assert 0 < result.p_value <= 1


def test_many_subnormal_values_give_no_warning():
    rng = np.random.default_rng(7)
    z = np.where(rng.random((3000, 1)) < 0.05, rng.random((3000, 1)) * 1e-310, rng.normal(size=(3000, 1)))
    assert 0.001 < dk.two_sample_test(z[:1500], z[1500:], n_permutations=99, random_state=0).p_value <= 1
