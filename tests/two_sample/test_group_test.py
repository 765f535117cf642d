"""The permutation test of groups of sets: level, power, invariance, and statistics by brute force."""

from __future__ import annotations

import dask.array as da
import numpy as np
import pandas as pd
import pytest
from scipy.stats import binomtest, f_oneway, kstest, pearson3, skew

import dkdist as dk
from dkdist.two_sample import permutations
from dkdist.two_sample.combined_p_values import combine_p_values, log_p_values
from dkdist.two_sample.group_rows import axis_summaries
from dkdist.two_sample.moderated_f import MAX_PRIOR_DEGREES, fit_prior, max_f_statistic
from dkdist.two_sample.permutations import iter_labellings, kernel_statistic, p_value, permuted_statistics

RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(30, 3)).astype("f4")
GROUPS, ONE = np.arange(30) % 3, np.zeros(30, np.int64)
SETS = [RNG.normal(size=(6, 2)) for _ in range(8)]


def donors(rng, n, draw, d=1, size=60):
    """Return sets with random locations, like patients."""
    return [draw(rng, (size, d)) + rng.normal(size=d) for _ in range(n)]


def rejected(draw, n_trials, d=1):
    """Return the rejection rate of tests between twelve sets and twelve Gaussian ones."""
    rng, result = np.random.default_rng(1), []
    for i in range(n_trials):
        sets = donors(rng, 12, lambda r, s: r.normal(size=s), d) + donors(rng, 12, draw, d)
        result.append(dk.group_test(sets, [0] * 12 + [1] * 12, 99, random_state=i).p_value <= 0.05)
    return np.mean(result)


def null_p_values(n_trials):
    """Return p-values under the null hypothesis, for unequal groups and sets of unequal sizes."""
    rng, result = np.random.default_rng(2), []
    for i in range(n_trials):
        sets = [
            rng.normal(rng.normal(size=2), rng.gamma(2), size=(rng.integers(5, 30), 2)) for _ in range(14)
        ]
        result.append(dk.group_test(sets, [0] * 9 + [1] * 5, 99, random_state=i).p_value)
    return np.array(result)


def test_null_p_values_are_uniform():
    p = null_p_values(100)
    assert binomtest(int((p <= 0.25).sum()), len(p), 0.25).pvalue > 1e-3
    assert kstest(p, "uniform").pvalue > 1e-3  # p-values are multiples of 0.01


@pytest.mark.slow
def test_the_level_of_2000_null_runs():
    p = null_p_values(2000)
    assert 0.04 <= (p <= 0.05).mean() <= 0.06


def test_pooled_points_reject_a_true_null_hypothesis_but_sets_do_not():
    """The reason for this test: random locations of ten sets make pooled points of two groups differ."""
    rng = np.random.default_rng(0)
    sets = [rng.normal(2 * rng.normal(size=2), 1, size=(60, 2)) for _ in range(10)]
    pooled = dk.two_sample_test(
        np.concatenate(sets[:5]), np.concatenate(sets[5:]), sigma="median", n_permutations=99, random_state=0
    )
    assert pooled.p_value == 0.01
    assert dk.group_test(sets, [0] * 5 + [1] * 5, 99, random_state=0).p_value > 0.05


@pytest.mark.parametrize(
    ("draw", "d"),
    [
        (lambda r, s: r.normal(1.5, size=s), 1),
        (lambda r, s: r.normal(0, 1.4, size=s), 1),
        (lambda r, s: r.laplace(0, np.sqrt(0.5), size=s), 1),  # equal mean and variance
        (lambda r, s: r.multivariate_normal([0, 0], [[1, 0.6], [0.6, 1]], len(r.normal(size=s))), 2),
    ],
    ids=["location", "spread", "shape", "dependence"],
)
def test_power_against_typical_alternatives(draw, d):
    assert rejected(draw, 12, d) >= 0.75


def test_the_largest_statistic_names_the_difference():
    rng = np.random.default_rng(3)
    sets = donors(rng, 20, lambda r, s: r.normal(size=s)) + donors(rng, 20, lambda r, s: r.normal(0, 2, s))
    result = dk.group_test(sets, ["a"] * 20 + ["b"] * 20, 99, random_state=0)
    assert list(result.statistics) == ["distribution", "location", "spread", "shape", "extremes"]
    assert max(result.statistics, key=result.statistics.get) == "spread"
    assert 0 < result.statistic < max(result.statistics.values())
    assert result.p_value == 0.01
    assert result.n_permutations == 99


def statistics_of(statistic, strata, n_permutations):
    indicators = (GROUPS[:, None] == np.arange(3)) / np.sqrt(10)
    return permuted_statistics({"one": statistic}, indicators, strata, n_permutations, 5)["one"]


def brute_force(rows, labels, strata):
    """Compute T by definition, with the kernel centred within strata."""
    x = rows.astype(np.float64)
    d = np.linalg.norm(x[:, None] - x, axis=2)
    sigma = np.median(d[np.triu_indices(len(x), 1)])
    K = np.exp(-(d**2) / (2 * sigma**2))
    H = np.eye(len(x)) - np.array([(strata == s) / (strata == s).sum() for s in strata])
    K = H @ K @ H
    return sum(K[np.ix_(labels == g, labels == g)].sum() / (labels == g).sum() for g in np.unique(labels))


@pytest.mark.parametrize("strata", [ONE, np.arange(30) // 10])
def test_statistics_equal_brute_force(strata):
    labels = np.concatenate(list(iter_labellings(GROUPS, strata, 70, 5)), axis=1)
    assert (labels[:, 0] == GROUPS).all()
    for s in np.unique(strata):
        assert (np.sort(labels[strata == s], axis=0) == np.sort(GROUPS[strata == s])[:, None]).all()
    T = np.array([brute_force(ROWS, column, strata) for column in labels.T])
    result = statistics_of(kernel_statistic(ROWS, strata, 5), strata, 70)
    np.testing.assert_allclose(result, T, rtol=1e-9)


def test_random_features_approximate_the_kernel(monkeypatch):
    exact = statistics_of(kernel_statistic(ROWS, ONE, 5), ONE, 50)
    monkeypatch.setattr(permutations, "MAX_DENSE_ROWS", 30 - 1)
    monkeypatch.setattr(
        permutations, "_median_distance", lambda rows, seed: permutations.median_distance(rows)
    )
    about = statistics_of(kernel_statistic(ROWS, ONE, 5), ONE, 50)
    assert np.corrcoef(exact, about)[0, 1] > 0.98


def test_equal_rows_and_ties_are_never_significant():
    sets = [np.array([[0.0], [1.0]])] * 6
    assert dk.group_test(sets, [0, 0, 0, 1, 1, 1], 50, random_state=0).p_value == 1
    assert p_value(np.zeros(9)) == 1
    two = [np.zeros((3, 1)), np.ones((3, 1))] * 4  # both groups have the same sets
    assert dk.group_test(two, [0, 0, 1, 1] * 2, 50, random_state=0).p_value == 1


def test_the_test_is_scale_invariant():
    sets = [x * 2.0 for x in SETS[:4]] + SETS[4:]
    own = dk.group_test(sets, [0] * 4 + [1] * 4, 99, random_state=0)
    other = dk.group_test([x * [64, 2**-9] for x in sets], [0] * 4 + [1] * 4, 99, random_state=0)
    assert other.p_value == own.p_value
    assert other.statistic == pytest.approx(own.statistic, rel=1e-4)


def test_blocks_remove_differences_between_batches():
    rng = np.random.default_rng(5)
    batch = np.arange(40) // 20
    group = (rng.random(40) < 0.2 + 0.6 * batch).astype(int)  # batch and group are correlated
    sets = [rng.normal(3 * b, 1, size=(30, 2)) for b in batch]
    assert dk.group_test(sets, group, 99, random_state=0).p_value <= 0.05
    assert dk.group_test(sets, group, 99, random_state=0, blocks=batch).p_value > 0.05


def test_stores_and_weights_give_the_same_result_as_memory(tmp_path):
    weights = [np.arange(1.0, 7.0)] * 8
    for w in (None, weights):
        sets = dk.SampleSets.from_arrays(SETS, w)
        store = dk.write_sets(tmp_path / "s.zarr", sets, overwrite=True)
        own = dk.group_test(sets, [0, 1] * 4, 49, random_state=0)
        assert own == dk.group_test(
            dk.open_sets(store._address.label, block_sets=3), [0, 1] * 4, 49, random_state=0
        )
    repeated = [np.repeat(x, np.arange(1, 7), axis=0) for x in SETS]
    assert dk.group_test(repeated, [0, 1] * 4, 49, random_state=0).p_value == own.p_value


def test_an_embedding_can_be_the_statistic():
    words = ["ab" * n for n in range(2, 8)] + ["ba" * n + "c" * 9 for n in range(2, 8)]
    embedding = dk.DistanceEmbedding("levenshtein", n_components=8, random_state=0)
    result = dk.group_test(words, [0] * 6 + [1] * 6, 99, statistic=embedding, random_state=0)
    assert result.p_value <= 0.02
    assert list(result.statistics) == ["embedding"]
    with pytest.raises(ValueError, match="strings"):
        dk.group_test(words, [0] * 6 + [1] * 6)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"groups": [0] * 8}, "single label"),
        ({"groups": [0] * 7 + [1]}, "at least 2 sets each; got only set 7 in its group"),
        ({"groups": [0, 1] * 3}, "shape \\(8,\\); got \\(6,\\)"),
        ({"groups": [0, 1, None, 1] * 2}, "must have a label for each set; got none for set 2"),
        ({"groups": [0, 1, np.nan, 1] * 2}, "must have a label for each set; got none for set 2"),
        ({"groups": pd.Series(["a", pd.NA] * 4)}, "must have a label for each set; got none for set 1"),
        ({"groups": np.array([0, "a"] * 4, object)}, "groups must hold labels of one type"),
        ({"groups": da.zeros((8, 2))}, "got \\(8, 2\\)"),
        ({"statistic": "mean"}, "statistic must be one of"),
        ({"statistic": 3}, "statistic must be"),
        ({"n_permutations": 0}, "n_permutations must be"),
        ({"sets": [*SETS[:7], np.full((3, 2), np.nan)]}, "set 7"),
    ],
)
def test_bad_input_is_refused_by_name(arguments, message):
    with pytest.raises(ValueError, match=message):
        dk.group_test(**{"sets": SETS, "groups": [0, 1] * 4, **arguments})


def brute_force_f(columns, labels, strata):
    """Compute the F statistic of each column from sums of squares, centred within strata."""
    x = columns - np.array([columns[strata == s].mean(axis=0) for s in strata])
    between = sum(x[labels == g].sum(axis=0) ** 2 / (labels == g).sum() for g in np.unique(labels))
    n_groups, n_strata = len(np.unique(labels)), len(np.unique(strata))
    residual = (x**2).sum(axis=0) - between
    return between / (n_groups - 1) / (residual / (len(x) - n_strata - n_groups + 1))


@pytest.mark.parametrize("strata", [ONE, np.arange(30) // 10])
def test_the_largest_moderated_f_equals_brute_force(strata):
    labels = np.concatenate(list(iter_labellings(GROUPS, strata, 20, 5)), axis=1)
    x = ROWS.astype(np.float64)
    alone = statistics_of(max_f_statistic(x[:, :1], strata, 2), strata, 20)  # one column has no prior
    np.testing.assert_allclose(alone, [brute_force_f(x[:, :1], c, strata)[0] for c in labels.T], rtol=1e-9)
    n_free = 30 - len(np.unique(strata))
    centred = x - np.array([x[strata == s].mean(axis=0) for s in strata])
    total = (centred**2).sum(axis=0)
    d0, s0 = fit_prior(total / n_free, n_free)
    moderated = []
    for column in labels.T:
        plain, free = brute_force_f(x, column, strata), n_free - 2
        between = 2 * plain * total / (2 * plain + free)
        moderated.append((between / 2 / ((d0 * s0 + total - between) / (d0 + free))).max())
    np.testing.assert_allclose(statistics_of(max_f_statistic(x, strata, 2), strata, 20), moderated, rtol=1e-6)


def test_f_of_one_column_equals_scipy():
    result = statistics_of(max_f_statistic(ROWS[:, :1].astype(float), ONE, 2), ONE, 1)[0]
    assert result == pytest.approx(
        f_oneway(*(ROWS[g == GROUPS, 0].astype(float) for g in range(3))).statistic
    )


@pytest.mark.parametrize(("d0", "s0"), [(4.0, 2.0), (30.0, 0.1)])
def test_the_prior_of_variances_is_recovered(d0, s0):
    """Variances are s0 d0 / chi2(d0) times chi2(f) / f; 20,000 give log d0 a standard error of about 0.03."""
    rng, n_free = np.random.default_rng(0), 22
    variances = s0 * d0 / rng.chisquare(d0, 20_000) * rng.chisquare(n_free, 20_000) / n_free
    degrees, variance = fit_prior(variances, n_free)
    assert degrees == pytest.approx(d0, rel=0.15)
    assert variance == pytest.approx(s0, rel=0.03)
    assert fit_prior(np.ones(5), n_free) == (MAX_PRIOR_DEGREES, pytest.approx(1.02, abs=0.05))
    assert fit_prior(np.ones(1), n_free) == (0.0, 0.0)


def test_p_values_are_pearson_tails_fitted_to_the_other_labellings():
    T = np.random.default_rng(0).gamma(2.0, size=40)
    for i in (0, 7, int(T.argmax())):
        others = np.delete(T, i)
        expected = pearson3.logsf(T[i], skew(others), others.mean(), others.std())
        assert log_p_values(T)[i] == pytest.approx(expected, rel=1e-6)
    assert log_p_values(10 * T + 3) == pytest.approx(log_p_values(T))
    assert (log_p_values(np.ones(9)) == 0).all()


def test_p_values_are_combined_by_the_weighted_harmonic_mean():
    p = {"a": np.array([0.01, 0.5]), "b": np.array([0.4, 0.2])}
    result = combine_p_values(
        {name: np.log(values) for name, values in p.items()}, {"a": 0.3, "b": 0.1, "c": 9.0}
    )
    np.testing.assert_allclose(10.0**-result, 1 / (0.75 / p["a"] + 0.25 / p["b"]))


def test_axis_summaries_equal_numpy():
    weights = [np.array([1.0, 0, 2, 3, 1, 1])] * 8
    centre, scale = np.array([0.5, -1]), np.array([2.0, 0.25])
    for value in (None, weights):
        rows = axis_summaries(dk.SampleSets.from_arrays(SETS, value), centre, scale)
        for x, row in zip(SETS, rows.astype(float), strict=True):
            z, w = (x - centre) / scale, np.ones(6) if value is None else weights[0]
            mean = np.average(z, axis=0, weights=w)
            deviation = np.sqrt(np.average((z - mean) ** 2, axis=0, weights=w))
            counted = z[w > 0] - mean
            radius = np.linalg.norm(z[w > 0], axis=1).max()
            expected = np.concatenate([mean, deviation, counted.max(axis=0), -counted.min(axis=0), [radius]])
            np.testing.assert_allclose(row, expected, rtol=1e-4, atol=1e-5)


def sets_with_one_outlier(rng, n, far):
    sets = [rng.normal(rng.normal(size=4), 1, (60, 4)) for _ in range(n)]
    for x in sets:
        x[0, 2] = x[:, 2].mean() + far
    return sets


@pytest.mark.parametrize("n_groups", [2, 3])
def test_one_outlier_per_set_of_a_group_is_found(n_groups):
    """12 trials: a test with power 0.9 finds fewer than 7 for 1 seed in 2,000."""
    rng, actual = np.random.default_rng(4), []
    for i in range(12):
        sets = [rng.normal(rng.normal(size=4), 1, (60, 4)) for _ in range(12 * (n_groups - 1))]
        sets += sets_with_one_outlier(rng, 12, 5.0)
        result = dk.group_test(sets, np.repeat(np.arange(n_groups), 12), 99, random_state=i)
        actual.append(
            result.p_value <= 0.05 and max(result.statistics, key=result.statistics.get) == "extremes"
        )
    assert sum(actual) >= 7


def test_a_scale_difference_on_one_of_twenty_axes_is_found():
    """As above: 12 trials."""
    rng, result = np.random.default_rng(5), []
    for i in range(12):
        sets = [rng.normal(rng.normal(size=20), 1, (80, 20)) for _ in range(24)]
        sets[12:] = [x * (1 + 0.25 * (np.arange(20) == 3)) for x in sets[12:]]
        result.append(dk.group_test(sets, np.repeat([0, 1], 12), 99, random_state=i).p_value <= 0.05)
    assert sum(result) >= 7


def test_statistics_keep_their_level_with_three_groups_and_blocks():
    """60 trials at level 0.2: an exact test rejects 3 to 23 of them, except for 1 seed in 1,000."""
    rng, names = np.random.default_rng(6), ["auto", "location", "extremes"]
    rejected, strata = dict.fromkeys(names, 0), np.arange(18) // 9
    for i in range(60):
        sets = [rng.standard_t(3, (rng.integers(4, 20), 3)) + rng.normal(size=3) + 3 * s for s in strata]
        groups = np.concatenate([rng.permutation(np.repeat([0, 1, 2], 3)) for _ in range(2)])
        for name in names:
            p = dk.group_test(sets, groups, 19, statistic=name, random_state=i, blocks=strata).p_value
            rejected[name] += p <= 0.2
    for count in rejected.values():
        assert 3 <= count <= 23
