"""`group_test` with blocks and nuisance columns: statistics by least squares, enumeration, level and power."""

from __future__ import annotations

from itertools import combinations, permutations, product

import numpy as np
import pytest
from scipy.stats import binomtest

import dkdist as dk
from dkdist._base.design_columns import StudyDesign
from dkdist.two_sample.moderated_f import max_f_statistic
from dkdist.two_sample.permutation_design import design_permutations
from dkdist.two_sample.permutations import iter_labellings, kernel_statistic, permuted_statistics

LOCATION = {"statistic": "location", "random_state": 0}


def with_targets(rows, **targets):
    """Return sets of two equal points, so that the only differing statistic is the mean of one axis."""
    return dk.SampleSets.from_arrays([np.full((2, 1), r) for r in rows], targets=targets)


def residual_sum(design, y):
    return ((y - design @ np.linalg.lstsq(design, y, rcond=None)[0]) ** 2).sum()


def permuted_f(y, nuisance, groups, orders):
    """Return the F statistics of residual group indicators, permuted, after nuisance columns, by regressions."""
    small = np.column_stack([np.ones(len(y)), nuisance])
    indicators = np.column_stack([groups == g for g in np.unique(groups)[1:]]).astype(float)
    residual = indicators - small @ np.linalg.lstsq(small, indicators, rcond=None)[0]
    values = []
    for order in orders:
        full = np.column_stack([small, residual[order]])
        rest, n_residual = residual_sum(full, y), len(y) - np.linalg.matrix_rank(full)
        values.append((residual_sum(small, y) - rest) / residual.shape[1] / (rest / n_residual))
    return np.array(values)


@pytest.mark.parametrize("n_groups", [2, 3])
@pytest.mark.parametrize("strata", [np.zeros(18, np.int64), np.arange(18) // 6])
def test_adjusted_f_is_that_of_two_regressions(n_groups, strata):
    rng = np.random.default_rng(0)
    groups, age = np.arange(18) % n_groups, rng.normal(size=18)
    y = age + rng.normal(size=18)
    design = design_permutations(groups, strata if strata.any() else None, StudyDesign({"age": age}, 0))
    orders = np.concatenate(list(iter_labellings(np.arange(18), strata, 70, 5)), axis=1).T
    statistic = max_f_statistic(y[:, None], strata, design.n_contrasts, design.nuisance)
    result = permuted_statistics({"F": statistic}, design.basis, design.exchangeable, 70, 5, design.nuisance)[
        "F"
    ]
    nuisance = np.column_stack([age, strata == 1, strata == 2])
    np.testing.assert_allclose(result, permuted_f(y, nuisance, groups, orders), rtol=1e-6)


def test_the_adjusted_kernel_statistic_equals_brute_force():
    rng = np.random.default_rng(1)
    groups, age = np.arange(15) % 3, rng.normal(size=15)
    rows = (rng.normal(size=(15, 2)) + age[:, None]).astype("f4")
    design = design_permutations(groups, None, StudyDesign({"age": age}, 0))
    statistic = kernel_statistic(rows, np.zeros(15, np.int64), 5, design.nuisance)
    result = permuted_statistics({"T": statistic}, design.basis, design.exchangeable, 30, 5, design.nuisance)[
        "T"
    ]
    Z = np.column_stack([np.ones(15), age])
    M = np.eye(15) - Z @ np.linalg.pinv(Z)
    x = M @ rows
    d = np.linalg.norm(x[:, None] - x, axis=2)
    K = M @ np.exp(-(d**2) / (2 * np.median(d[np.triu_indices(15, 1)]) ** 2)) @ M
    orders = np.concatenate(list(iter_labellings(np.arange(15), design.strata, 30, 5)), axis=1).T
    A = M @ np.column_stack([groups == 1, groups == 2])
    for order, T in zip(orders, result, strict=True):
        B = M @ A[order]
        assert np.trace(B @ np.linalg.pinv(B) @ K) == pytest.approx(T, rel=1e-5)


def check_p_value(actual, statistics, observed):
    """Compare a p-value of 9,999 random permutations with that of all; 5 standard errors."""
    exact = (statistics >= observed * (1 - 1e-9)).mean()
    assert 0.01 < exact < 0.99
    assert abs(actual - exact) < 5 * np.sqrt(exact * (1 - exact) / 9999) + 1e-4


def test_the_adjusted_p_value_is_that_of_all_permutations():
    rng = np.random.default_rng(2)
    groups, age = np.array([0, 0, 0, 0, 1, 1, 1]), rng.normal(size=7)
    y = 3 * age + groups + rng.normal(size=7)
    F = permuted_f(y, age, groups, [list(order) for order in permutations(range(7))])
    actual = dk.group_test(with_targets(y, age=age), groups, 9999, adjust=["age"], **LOCATION)
    check_p_value(actual.p_value, F, F[0])


def test_pairs_are_permuted_within_pairs():
    """All 2^6 labellings of six pairs; F is a monotone function of the sum of differences."""
    rng = np.random.default_rng(3)
    y, pair = rng.normal(size=12) + 5 * np.arange(12) // 2, np.repeat(list("abcdef"), 2)
    difference = y[1::2] - y[::2]
    sums = np.array([abs(difference @ signs) for signs in product([1, -1], repeat=6)])
    actual = dk.group_test(with_targets(y, pair=pair), [0, 1] * 6, 9999, blocks="pair", **LOCATION)
    check_p_value(actual.p_value, sums, sums[0])
    assert actual.design == "labels permuted within 6 blocks"


def test_donors_with_repeated_visits_are_permuted_whole():
    """All 70 labellings of eight donors, by their means."""
    rng = np.random.default_rng(4)
    donor = np.repeat(np.arange(8), [1, 2, 3, 1, 2, 3, 2, 2])
    y, ill = rng.normal(size=16) + rng.normal(size=8)[donor], donor % 2
    means = np.array([y[donor == d].mean() for d in range(8)])
    gaps = np.array([abs(means[list(c)].sum() - means.sum() / 2) for c in combinations(range(8), 4)])
    actual = dk.group_test(with_targets(y), ill, 9999, blocks=donor, **LOCATION)
    check_p_value(actual.p_value, gaps, abs(means[1::2].sum() - means.sum() / 2))
    assert actual.design == "labels of 8 whole blocks permuted"


def test_visits_keep_their_level_as_blocks_and_not_alone():
    """100 trials at level 0.1: an exact test rejects 2 to 22, except for 1 seed in 1,000."""
    rng, donor, rejected = np.random.default_rng(5), np.repeat(np.arange(14), 3), np.zeros(2)
    for i in range(100):
        sets = [rng.normal(c, 1, (5, 1)) for c in rng.normal(0, 2, 14)[donor]]
        for k, blocks in enumerate((donor, None)):
            rejected[k] += dk.group_test(sets, donor % 2, 99, "location", i, blocks=blocks).p_value <= 0.1
    assert binomtest(int(rejected[0]), 100, 0.1).pvalue > 1e-3
    assert rejected[1] >= 35


@pytest.mark.parametrize(("blocks", "n"), [(None, 20), (np.arange(20) // 2, 20)])
def test_adjusted_tests_keep_their_level(blocks, n):
    """As above; age differs between the groups and shifts the sets by four standard deviations."""
    rng, rejected = np.random.default_rng(6), np.zeros(2)
    for i in range(100):
        groups = np.arange(n) % 2
        age = rng.normal(size=n) + groups
        sets = dk.SampleSets.from_arrays(
            [rng.normal(c, 1, (5, 1)) for c in 4 * age + rng.normal(size=n)], targets={"age": age}
        )
        for k, names in enumerate((["age"], None)):
            test = dk.group_test(sets, groups, 99, random_state=i, blocks=blocks, adjust=names)
            rejected[k] += test.p_value <= 0.1
    assert binomtest(int(rejected[0]), 100, 0.1).pvalue > 1e-3
    assert rejected[1] >= 40


def test_adjustment_for_a_batch_has_the_power_of_centring_by_hand():
    rng, rejected, batch = np.random.default_rng(7), np.zeros(3), np.repeat(["a", "b"], 12)
    for i in range(30):
        groups = rng.permutation(12) % 2
        groups = np.concatenate([groups, groups])
        x = [rng.normal(c, 1, (20, 1)) for c in 1.5 * groups + rng.normal(size=24)]
        shifted = [v + 6 * (b == "b") for v, b in zip(x, batch, strict=True)]
        sets = dk.SampleSets.from_arrays(shifted, targets={"batch": batch})
        rejected += [
            dk.group_test(s, groups, 99, random_state=i, adjust=names).p_value <= 0.05
            for s, names in ((sets, ["batch"]), (x, None), (sets, None))
        ]
    adjusted, without_batch, unadjusted = rejected
    assert adjusted >= without_batch - 4 >= 15
    assert unadjusted <= adjusted - 10


def test_labels_are_permuted_within_categories_and_block_sizes_if_enough_remain():
    site, groups = np.repeat(["a", "b"], 10), np.arange(20) % 2
    design = design_permutations(groups, None, StudyDesign({"site": site}, 0))
    np.testing.assert_array_equal(design.exchangeable, np.arange(20) // 10)  # 252^2 labellings
    few = design_permutations(groups[:8], None, StudyDesign({"site": site[6:14]}, 0))  # 6^2
    assert not few.exchangeable.any()
    donor = np.repeat(np.arange(20), np.repeat([2, 3], 10))
    design = design_permutations(donor % 2, donor, StudyDesign({}, 0))
    np.testing.assert_array_equal(design.exchangeable, np.arange(20) // 10)


def test_groups_with_different_numbers_of_visits_are_warned_of():
    donor = np.repeat(np.arange(16), np.tile([1, 3], 8))
    with pytest.warns(UserWarning, match="different numbers of sets per block, 1.0, 3.0 on average"):
        design_permutations(donor % 2, donor, StudyDesign({}, 0))


def test_adjusted_extremes_do_not_contain_the_distance_from_the_centre():
    """It is a bent function of the age if the sets move with it; sets of equal points have no other extremes."""
    rng = np.random.default_rng(11)
    groups, age = np.arange(20) % 4 // 3, rng.normal(size=20)
    sets = with_targets(2 * age + 8 * groups, age=age)
    p = [dk.group_test(sets, groups, 99, "extremes", 0, adjust=names).p_value for names in (None, ["age"])]
    assert p[0] <= 0.05
    assert p[1] == 1


def test_constant_columns_and_columns_constant_in_pairs_change_nothing():
    rng, pair = np.random.default_rng(8), np.arange(20) // 2
    sets = with_targets(rng.normal(size=20), one=np.ones(20), pair=pair, height=pair % 5)
    for blocks, name in ((None, "one"), ("pair", "height")):
        plain, adjusted = (
            dk.group_test(sets, [0, 1] * 10, 99, blocks=blocks, adjust=names, **LOCATION)
            for names in (None, [name])
        )
        assert adjusted.p_value == plain.p_value


def test_stores_give_the_same_result_as_memory(tmp_path):
    rng = np.random.default_rng(9)
    targets = {"age": rng.normal(size=12), "donor": np.repeat(np.arange(6), 2)}
    sets = dk.SampleSets.from_arrays(list(rng.normal(size=(12, 5, 2))), targets=targets)
    store = dk.write_sets(tmp_path / "s.zarr", sets)
    results = [
        dk.group_test(s, np.arange(12) // 2 % 2, 49, random_state=0, blocks="donor", adjust=["age"])
        for s in (sets, store)
    ]
    assert results[0] == results[1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"adjust": ["copy"]}, "adjust must not determine the groups; got 'copy'"),
        ({"adjust": ["sum", "rest"]}, "adjust must not determine the groups; got 'sum', 'rest'"),
        ({"adjust": ["id"]}, "adjust must not determine the groups; got 'id'"),
        ({"adjust": ["many"]}, "adjust must leave degrees of freedom; got 6 nuisance columns for 8 units"),
        ({"adjust": ["sex"]}, r"adjust must be targets of X, .*; got 'sex'"),
        ({"adjust": 3}, "adjust must be a list of names"),
        ({"blocks": "donor"}, r"blocks must be targets of X, .*; got 'donor'"),
        ({"blocks": [0, 1] * 4}, "at least 2 blocks each; got only block 0"),
    ],
)
def test_bad_designs_are_refused_by_name(arguments, message):
    groups, rest = np.array([0, 1] * 4), np.arange(8.0) ** 2
    many = np.array(list("aabcdefg"))
    sets = with_targets(
        np.arange(8.0), copy=np.array(["x", "y"] * 4), sum=groups + rest, rest=rest, id=np.array(list("abcdefgh")),
        many=many,
    )  # fmt: skip
    with pytest.raises(ValueError, match=message):
        dk.group_test(sets, groups, **arguments)
