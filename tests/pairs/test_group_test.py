"""The permutation test of groups of sets: its level, its power, its laws, and brute force."""

from __future__ import annotations

import dask.array as da
import numpy as np
import pandas as pd
import pytest
from scipy.stats import binomtest, kstest

import dkdist as dk
from dkdist.pairs.groups import permutations
from dkdist.pairs.groups.permutations import p_value, permuted, standardised_statistics

RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(30, 3)).astype("f4")
GROUPS, ONE = np.arange(30) % 3, np.zeros(30, np.int64)
SETS = [RNG.normal(size=(6, 2)) for _ in range(8)]


def donors(rng, n, draw, d=1, size=60):
    """Sets that lie apart as patients do, each about its own place."""
    return [draw(rng, (size, d)) + rng.normal(size=d) for _ in range(n)]


def rejected(draw, n_trials, d=1):
    """The share of trials in which twelve sets are told from twelve Gaussian ones."""
    rng, found = np.random.default_rng(1), []
    for i in range(n_trials):
        sets = donors(rng, 12, lambda r, s: r.normal(size=s), d) + donors(rng, 12, draw, d)
        found.append(dk.group_test(sets, [0] * 12 + [1] * 12, 99, random_state=i).p_value <= 0.05)
    return np.mean(found)


def levels(n_trials):
    """p-values of unequal groups of one distribution over sets of unequal sizes."""
    rng, found = np.random.default_rng(2), []
    for i in range(n_trials):
        sets = [
            rng.normal(rng.normal(size=2), rng.gamma(2), size=(rng.integers(5, 30), 2)) for _ in range(14)
        ]
        found.append(dk.group_test(sets, [0] * 9 + [1] * 5, 99, random_state=i).p_value)
    return np.array(found)


def test_the_level():
    p = levels(100)
    assert binomtest(int((p <= 0.25).sum()), len(p), 0.25).pvalue > 1e-3
    assert kstest(p, "uniform").pvalue > 1e-3  # of hundredths, to a hundredth


@pytest.mark.slow
def test_the_level_at_length():
    p = levels(2000)
    assert 0.04 <= (p <= 0.05).mean() <= 0.06


def test_pooled_points_would_reject_what_is_true():
    """The reason for the test: of ten sets that each lie about their own place the points tell two groups apart."""
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
        (lambda r, s: r.laplace(0, np.sqrt(0.5), size=s), 1),  # of the same mean and variance
        (lambda r, s: r.multivariate_normal([0, 0], [[1, 0.6], [0.6, 1]], len(r.normal(size=s))), 2),
    ],
    ids=["location", "spread", "shape", "dependence"],
)
def test_power(draw, d):
    assert rejected(draw, 12, d) >= 0.75


def test_what_differs_is_named():
    rng = np.random.default_rng(3)
    sets = donors(rng, 20, lambda r, s: r.normal(size=s)) + donors(rng, 20, lambda r, s: r.normal(0, 2, s))
    found = dk.group_test(sets, ["a"] * 20 + ["b"] * 20, 99, random_state=0)
    assert found.statistic == max(found.statistics.values())
    assert max(found.statistics, key=found.statistics.get) in ("spread", "distribution")
    assert found.p_value == 0.01
    assert found.n_permutations == 99


def brute_force(rows, labels, strata):
    """T by its definition, with the kernel of features about the means of strata."""
    x = rows.astype(np.float64)
    d = np.linalg.norm(x[:, None] - x, axis=2)
    sigma = np.median(d[np.triu_indices(len(x), 1)])
    K = np.exp(-(d**2) / (2 * sigma**2))
    H = np.eye(len(x)) - np.array([(strata == s) / (strata == s).sum() for s in strata])
    K = H @ K @ H
    return sum(K[np.ix_(labels == g, labels == g)].sum() / (labels == g).sum() for g in np.unique(labels))


@pytest.mark.parametrize("strata", [ONE, np.arange(30) // 10])
def test_statistics_against_brute_force(strata):
    labels = np.concatenate(list(permuted(GROUPS, strata, 70, 5)), axis=1)
    assert (labels[:, 0] == GROUPS).all()
    for s in np.unique(strata):
        assert (np.sort(labels[strata == s], axis=0) == np.sort(GROUPS[strata == s])[:, None]).all()
    T = np.array([brute_force(ROWS, column, strata) for column in labels.T])
    found = standardised_statistics(ROWS, GROUPS, strata, 70, 5)
    np.testing.assert_allclose(found, (T - T.mean()) / T.std(), atol=1e-9)


def test_random_features_stand_for_the_kernel(monkeypatch):
    exact = standardised_statistics(ROWS, GROUPS, ONE, 50, 5)
    monkeypatch.setattr(permutations, "MOST_EXACT", 30 - 1)
    monkeypatch.setattr(permutations, "_median", lambda rows, seed: permutations.median_distance(rows))
    about = standardised_statistics(ROWS, GROUPS, ONE, 50, 5)
    assert np.corrcoef(exact, about)[0, 1] > 0.98


def test_equal_rows_and_ties_are_never_significant():
    sets = [np.array([[0.0], [1.0]])] * 6
    assert dk.group_test(sets, [0, 0, 0, 1, 1, 1], 50, random_state=0).p_value == 1
    assert p_value(np.zeros(9)) == 1
    two = [np.zeros((3, 1)), np.ones((3, 1))] * 4  # each group holds as many of either
    assert dk.group_test(two, [0, 0, 1, 1] * 2, 50, random_state=0).p_value == 1


def test_units_do_not_matter():
    sets = [x * 2.0 for x in SETS[:4]] + SETS[4:]
    own = dk.group_test(sets, [0] * 4 + [1] * 4, 99, random_state=0)
    other = dk.group_test([x * [64, 2**-9] for x in sets], [0] * 4 + [1] * 4, 99, random_state=0)
    assert other.p_value == own.p_value
    assert other.statistic == pytest.approx(own.statistic, rel=1e-4)


def test_strata_take_out_what_differs_between_batches():
    rng = np.random.default_rng(5)
    batch = np.arange(40) // 20
    group = (rng.random(40) < 0.2 + 0.6 * batch).astype(int)  # most of a batch are of one group
    sets = [rng.normal(3 * b, 1, size=(30, 2)) for b in batch]
    assert dk.group_test(sets, group, 99, random_state=0).p_value <= 0.05
    assert dk.group_test(sets, group, 99, random_state=0, blocks=batch).p_value > 0.05


def test_memory_stores_and_weights_give_the_same(tmp_path):
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


def test_rows_of_an_embedding():
    words = ["ab" * n for n in range(2, 8)] + ["ba" * n + "c" * 9 for n in range(2, 8)]
    embedding = dk.DistanceEmbedding("levenshtein", n_components=8, random_state=0)
    found = dk.group_test(words, [0] * 6 + [1] * 6, 99, statistic=embedding, random_state=0)
    assert found.p_value <= 0.02
    assert list(found.statistics) == ["embedding"]
    with pytest.raises(ValueError, match="strings"):
        dk.group_test(words, [0] * 6 + [1] * 6)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"groups": [0] * 8}, "single label"),
        ({"groups": [0] * 7 + [1]}, "set 7 a label that no other set has"),
        ({"groups": [0, 1] * 3}, "8 sets; found shape \\(6,\\)"),
        ({"groups": [0, 1, None, 1] * 2}, "no label for set 2"),
        ({"groups": [0, 1, np.nan, 1] * 2}, "no label for set 2"),
        ({"groups": pd.Series(["a", pd.NA] * 4)}, "no label for set 1"),
        ({"groups": np.array([0, "a"] * 4, object)}, "groups must be of one kind"),
        ({"groups": da.zeros((8, 2))}, "found shape"),
        ({"blocks": np.arange(8)}, "one group alone in every stratum"),
        ({"statistic": "mean"}, "statistic must be one of"),
        ({"statistic": 3}, "statistic must be"),
        ({"n_permutations": 0}, "n_permutations must be"),
        ({"sets": [*SETS[:7], np.full((3, 2), np.nan)]}, "set 7"),
    ],
)
def test_bad_input_is_refused_by_name(arguments, message):
    with pytest.raises(ValueError, match=message):
        dk.group_test(**{"sets": SETS, "groups": [0, 1] * 4, **arguments})
