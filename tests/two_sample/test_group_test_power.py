"""`group_test_power`: power by closed form, level, pilots, and invalid draws."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binomtest, ncf
from scipy.stats import f as f_distribution

import dkdist as dk

OPTIONS = {"statistic": "location", "random_state": 0}


def constant_sets(rows):
    """Return sets of two equal points, so that the statistic is the F statistic of one column."""
    return dk.SampleSets.from_arrays([np.full((2, 1), r) for r in rows])


def test_power_is_that_of_the_f_test():
    """Normal set means that differ by 1.2 standard deviations; 5 standard errors of 300 studies."""

    def draw(n, rng):
        groups = np.arange(2 * n) % 2
        return {"sets": constant_sets(rng.normal(size=2 * n) + 1.2 * groups), "groups": groups}

    curve = dk.group_test_power(draw, [12, 5], n_repetitions=300, n_permutations=99, **OPTIONS)
    assert curve.sizes.tolist() == [5, 12]
    for n, power, low, high in zip(curve.sizes, curve.power, curve.low, curve.high, strict=True):
        expected = ncf.sf(f_distribution.isf(0.05, 1, 2 * n - 2), 1, 2 * n - 2, n / 2 * 1.2**2)
        assert abs(power - expected) < 5 * np.sqrt(expected * (1 - expected) / 300)
        assert low < power < high


def test_power_of_a_contrast_in_donors_is_that_of_the_paired_test():
    """Six donors at three visits, whose second visit differs in mean; F with 1 and 10 degrees of freedom."""

    def draw(n, rng):
        donor, visit = np.repeat(np.arange(n), 3), np.tile([0, 1, 2], n)
        y = 5 * rng.normal(size=n)[donor] + rng.normal(size=3 * n) + 0.7 * visit + 4 * (visit == 1)
        return {"sets": constant_sets(y), "groups": visit, "blocks": donor}

    contrast = {0: -1, 1: 0, 2: 1}
    power = dk.group_test_power(
        draw, [6], n_repetitions=300, n_permutations=99, contrast=contrast, **OPTIONS
    ).power
    expected = ncf.sf(f_distribution.isf(0.05, 1, 10), 1, 10, 6 * 1.4**2 / 2)
    assert abs(power[0] - expected) < 5 * np.sqrt(expected * (1 - expected) / 300)


def test_pilots_of_both_groups_keep_the_level_and_own_pilots_do_not():
    """Ten pilot sets per group without a difference; a new pilot for each of 200 studies of 40 sets per group."""

    def draw(n, rng, n_pilots):
        pilot, groups = rng.normal(size=(n_pilots, 10)), np.repeat([0, 1], n)
        return {
            "sets": constant_sets(pilot[groups % n_pilots, rng.integers(10, size=2 * n)]),
            "groups": groups,
        }

    rejected = [
        dk.group_test_power(
            lambda n, rng, k=n_pilots: draw(n, rng, k), [40], n_repetitions=200, n_permutations=99, **OPTIONS
        ).power[0]
        for n_pilots in (1, 2)
    ]
    assert binomtest(round(200 * rejected[0]), 200, 0.05).pvalue > 1e-3
    # the difference of two pilots adds 2 / 10 to a variance of 2 / 40, so that z is sqrt(5) times as large
    assert rejected[1] >= 0.25


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"draw": 3}, r"draw must be a function draw\(n, rng\) that returns a study; got 3"),
        ({"draw": lambda n, rng: [0, 1]}, r"draw\(n, rng\) must return a dict .*; got list"),
        (
            {"draw": lambda n, rng: {"groups": [0, 1]}},
            r"draw\(n, rng\) must return a dict .*; got \['groups'\]",
        ),
        ({"sizes": []}, "sizes must contain at least one number of sets"),
        ({"sizes": [1]}, "sizes must be an integer >= 2"),
        ({"level": 0.001}, r"level must be at least 1 / \(1 \+ n_permutations\)"),
        ({"n_repetitions": 0}, "n_repetitions must be"),
        ({"contrast": {0: 1, 3: -1}}, "contrast must have labels of groups"),
    ],
)
def test_bad_input_is_refused_by_name(arguments, message):
    def draw(n, rng):
        return {"sets": constant_sets(rng.normal(size=2 * n)), "groups": [0, 1] * n}

    with pytest.raises(ValueError, match=message):
        dk.group_test_power(**{"draw": draw, "sizes": [3], **arguments})
