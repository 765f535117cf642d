"""Contrasts of groups in `group_test`: closed forms, enumeration, invariance to other differences, and level."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from scipy.stats import binomtest

import dkdist as dk
from dkdist._base.design_columns import StudyDesign
from dkdist.two_sample.moderated_f import max_f_statistic
from dkdist.two_sample.permutation_design import design_permutations
from dkdist.two_sample.permutations import permuted_statistics

LOCATION = {"statistic": "location", "random_state": 0}
GROUPS = np.repeat([0, 1, 2, 3], [3, 4, 5, 6])
NO_COLUMNS = StudyDesign({}, 0)


def constant_sets(rows):
    """Return sets of two equal points, so that the only differing statistic is the mean of one axis."""
    return dk.SampleSets.from_arrays([np.full((2, 1), r) for r in rows])


def observed_f(y, groups, weights, blocks=None, **columns):
    """Return the F statistic of one column for the observed groups."""
    design = design_permutations(groups, blocks, StudyDesign(columns, 0), np.array(weights, float))
    rows = design.unit_rows(y[:, None])
    statistic = max_f_statistic(rows, design.strata, design.n_contrasts, design.nuisance)
    values = permuted_statistics({"F": statistic}, design.basis, design.exchangeable, 1, 0, design.nuisance)
    return values["F"][0]


@pytest.mark.parametrize("weights", [[-3, -1, 1, 3], [-1, 0, 0, 1], [1, -0.25, -0.25, -0.5]])
def test_f_is_the_squared_t_statistic_of_the_contrast(weights):
    y = np.random.default_rng(0).normal(size=18) + GROUPS**2
    means, sizes = np.array([y[g == GROUPS].mean() for g in range(4)]), np.bincount(GROUPS)
    variance = ((y - means[GROUPS]) ** 2).sum() / (18 - 4)
    t = weights @ means / np.sqrt(variance * (np.square(weights) / sizes).sum())
    assert observed_f(y, GROUPS, weights) == pytest.approx(t**2, rel=1e-9)


def test_f_in_blocks_is_that_of_two_way_analysis_of_variance():
    rng, weights = np.random.default_rng(1), np.array([-1.0, 0.0, 1.0])
    Y = rng.normal(size=(7, 3)) + rng.normal(0, 5, (7, 1))  # 7 patients at 3 times
    rest = Y - Y.mean(axis=0) - Y.mean(axis=1, keepdims=True) + Y.mean()
    F = 7 * (weights @ Y.mean(axis=0)) ** 2 / (weights @ weights) / ((rest**2).sum() / (6 * 2))
    groups, blocks = np.tile([0, 1, 2], 7), np.repeat(np.arange(7), 3)
    assert observed_f(Y.ravel(), groups, weights, blocks) == pytest.approx(F, rel=1e-9)


def residual_sum(X, y):
    return ((y - X @ np.linalg.lstsq(X, y, rcond=None)[0]) ** 2).sum()


def test_the_p_value_is_that_of_all_permutations():
    """All 5,040 permutations of the part of the groups that other differences and age do not explain."""
    rng, groups = np.random.default_rng(2), np.array([0, 0, 1, 1, 2, 2, 2])
    age = rng.normal(size=7)
    y = groups + age + rng.normal(size=7)
    small = np.column_stack([np.ones(7), groups == 1, age]).astype(float)  # groups 0 and 2 have equal means
    column = (groups == 2) - small @ np.linalg.lstsq(small, (groups == 2).astype(float), rcond=None)[0]
    explained = np.array(
        [residual_sum(np.column_stack([small, column[list(o)]]), y) for o in permutations(range(7))]
    )
    exact = (explained <= explained[0] * (1 + 1e-9)).mean()
    sets = constant_sets(y).labelled(targets={"age": age})
    result = dk.group_test(sets, groups, 9999, adjust=["age"], contrast={0: -1, 1: 0, 2: 1}, **LOCATION)
    assert 0.01 < exact < 0.99
    assert abs(result.p_value - exact) < 5 * np.sqrt(exact * (1 - exact) / 9999) + 1e-4
    assert result.design == "labels of 7 sets permuted, adjusted for age, contrast -1 0 +0 1 +1 2"


@pytest.mark.parametrize("blocks", [None, np.arange(24) // 3, np.arange(24) // 2 % 4])
def test_a_contrast_of_two_groups_is_the_test_of_their_sets(blocks):
    rng, labels = np.random.default_rng(3), np.tile(["before", "after", "later"], 8)
    sets = [rng.normal(rng.normal(), 1, (9, 2)) for _ in range(24)]
    for used in (labels != "later", labels != "before"):
        first, second = np.unique(labels[used])
        of_all = dk.group_test(
            sets, labels, 99, blocks=blocks, contrast={first: 2, second: -2}, random_state=0
        )
        strata = None if blocks is None else blocks[used]
        subset = [x for x, keep in zip(sets, used, strict=True) if keep]
        plain = dk.group_test(subset, labels[used], 99, blocks=strata, random_state=0)
        both = dk.group_test(
            subset, labels[used], 99, blocks=strata, contrast={first: -1, second: 1}, random_state=0
        )
        assert (of_all.p_value, of_all.statistics) == (plain.p_value, plain.statistics)
        assert (both.p_value, both.statistics) == (plain.p_value, plain.statistics)


@pytest.mark.parametrize("blocks", [None, np.arange(24) // 4])
def test_other_differences_between_groups_do_not_matter(blocks):
    """Means that satisfy the hypothesis change residuals by rounding only."""
    rng, groups = np.random.default_rng(8), np.arange(24) % 4
    y, contrast = rng.normal(size=24), {0: -3, 1: -1, 2: 1, 3: 3}
    tests = [
        dk.group_test(
            constant_sets(y + means[groups]), groups, 199, blocks=blocks, contrast=contrast, **LOCATION
        )
        for means in (np.zeros(4), np.array([1.0, -1, -1, 1]), np.array([0.0, 4, -2, 2]))
    ]
    assert {test.p_value for test in tests} == {tests[0].p_value}
    assert 0.02 < tests[0].p_value < 0.98


def test_whole_blocks_are_compared_by_their_means():
    rng, groups = np.random.default_rng(5), np.arange(12) % 3
    visits = rng.normal(size=(12, 2))
    contrast = {0: -1, 1: 0, 2: 1}
    of_visits = dk.group_test(
        constant_sets(visits.ravel()), np.repeat(groups, 2), 199, blocks=np.repeat(np.arange(12), 2),
        contrast=contrast, **LOCATION,
    )  # fmt: skip
    means = visits.astype("f4").astype(float).mean(axis=1)
    assert (
        of_visits.p_value
        == dk.group_test(constant_sets(means), groups, 199, contrast=contrast, **LOCATION).p_value
    )
    assert of_visits.design == "labels of 12 whole blocks permuted, contrast -1 0 +0 1 +1 2"


def test_a_trend_keeps_its_level_if_time_has_another_effect():
    """100 trials at level 0.1 in patients with random shifts; all groups differ in each trial."""
    rng, rejected = np.random.default_rng(6), np.zeros(2)
    patient, time = np.arange(24) // 4, np.arange(24) % 4
    for i in range(100):
        centres = 3 * rng.normal(size=6)[patient] + 3 * np.array([1, -1, -1, 1])[time] + rng.normal(size=24)
        sets = [rng.normal(c, 1, (5, 1)) for c in centres]
        for k, contrast in enumerate(({0: -3, 1: -1, 2: 1, 3: 3}, None)):
            test = dk.group_test(sets, time, 99, random_state=i, blocks=patient, contrast=contrast)
            rejected[k] += test.p_value <= 0.1
    assert binomtest(int(rejected[0]), 100, 0.1).pvalue > 1e-3
    assert rejected[1] >= 90


def test_stores_give_the_same_result_as_memory(tmp_path):
    rng, groups = np.random.default_rng(7), np.arange(20) % 4
    sets = dk.SampleSets.from_arrays(list(rng.normal(size=(20, 5, 2))), targets={"donor": np.arange(20) // 4})
    store = dk.write_sets(tmp_path / "s.zarr", sets)
    for contrast in ({0: -1, 1: 0.5, 2: 0.5}, {1: -1, 3: 1}):
        results = [
            dk.group_test(s, groups, 49, random_state=0, blocks="donor", contrast=contrast)
            for s in (sets, store)
        ]
        assert results[0] == results[1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"contrast": ["a", "b"]}, r"contrast must be a dict from labels .*; got \['a', 'b'\]"),
        ({"contrast": {"a": -1, "d": 1}}, r"contrast must have labels of groups, \['a', 'b', 'c'\]; got 'd'"),
        ({"contrast": {"a": -1, "b": np.nan}}, "contrast must have finite numbers as weights; got nan for 'b'"),
        ({"contrast": {"a": -1, "b": "1"}}, "contrast must have finite numbers as weights; got '1' for 'b'"),
        ({"contrast": {"a": 0, "b": 0}}, "contrast must have weights other than 0"),
        ({"contrast": {}}, "contrast must have weights other than 0"),
        ({"contrast": {"a": -1, "b": 2}}, "contrast must have weights that sum to 0; got a sum of 1"),
        (
            {"contrast": {"a": -1, "b": 1, "c": 0}, "blocks": [0, 1, 0, 0, 1, 0, 2, 2, 2]},
            "contrast must compare groups within blocks",
        ),
        (
            {"contrast": {"a": -1, "b": 1, "c": 0}, "adjust": ["is a"]},
            "adjust must not determine the groups; got 'is a'",
        ),
    ],
)  # fmt: skip
def test_bad_contrasts_are_refused_by_name(arguments, message):
    labels = np.array(list("abcabcacc"))
    sets = constant_sets(np.arange(9.0)).labelled(targets={"is a": labels == "a"})
    with pytest.raises(ValueError, match=message):
        dk.group_test(sets, labels, **arguments)


def test_errors_note_that_positions_count_the_sets_of_the_contrast():
    with pytest.raises(ValueError, match="got only set 2 in its group") as error:
        dk.group_test(constant_sets(range(7)), list("acacbaa"), contrast={"a": 1, "b": -1})
    assert error.value.__notes__ == [
        "The positions of sets and blocks count only the groups with a weight in contrast."
    ]
