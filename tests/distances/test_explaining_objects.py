"""Landmarks selected by targets: against ridge regressions solved one by one, and their effect on accuracy."""

from __future__ import annotations

import numpy as np
import pytest

import dkdist as dk
from dkdist.distances.landmark_selection import RELATIVE_PENALTY, select_landmarks, target_matrix


def penalized_residual(F, T, chosen, penalty):
    """Return the penalised residual sum of squares of ridge regression on these columns."""
    S = F[:, chosen]
    W = np.linalg.solve(S.T @ S + penalty * np.eye(len(chosen)), S.T @ T)
    return ((T - S @ W) ** 2).sum() + penalty * (W**2).sum()


@pytest.mark.parametrize("k", [1, 3])
def test_each_selected_column_minimizes_the_penalized_residual(k):
    """Solve every ridge regression of every step; two columns are equal and one is constant."""
    rng = np.random.default_rng(k)
    F = np.exp(-rng.random((40, 14)) * 3)
    F[:, 5], F[:, 9] = F[:, 2], 1.0
    T = np.sin(rng.normal(size=(40, k)) + F[:, :1])
    chosen = select_landmarks(F, T, 10)
    F, T = F - F.mean(axis=0), T - T.mean(axis=0)
    penalty = RELATIVE_PENALTY * (F**2).sum(axis=0).mean()
    assert len(set(chosen.tolist())) == 10
    for j in range(10):
        free = [c for c in range(14) if c not in chosen[:j]]
        least = min(penalized_residual(F, T, [*chosen[:j], c], penalty) for c in free)
        # rounding of about 40 products, divided by a column residual that is at least the penalty
        assert penalized_residual(F, T, chosen[: j + 1], penalty) == pytest.approx(least, rel=1e-9)


def test_targets_are_scaled_numbers_or_one_hot_classes():
    sets = dk.SampleSets.from_arrays([np.zeros((1, 1))] * 4)
    np.testing.assert_allclose(target_matrix(sets, [1.0, 2.0, 3.0, 2.0])[:, 0].std(), 1)
    np.testing.assert_array_equal(
        target_matrix(sets, list("abca")), [[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 0, 0]]
    )
    np.testing.assert_array_equal(
        target_matrix(sets, np.array([[3], [1], [1], [3]])), [[0, 1], [1, 0], [1, 0], [0, 1]]
    )
    assert target_matrix(sets, np.arange(8.0).reshape(4, 2)).shape == (4, 2)


def strings(n, seed=0):
    """Return random strings with one word that determines the class and one uninformative word; and classes."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 2
    words = (("GATTACA", "CCTTCCT"), ("AAAAAAAAAA", "TGTGTGTGTG", "CGCGCGCGCG", "TTTTTTTTTT"))
    ends = ["".join(rng.choice(list("ACGT"), 6)) for _ in range(n)]
    return [end + words[0][a] + words[1][rng.integers(4)] for end, a in zip(ends, y, strict=True)], y


def test_supervised_landmarks_beat_random_ones_on_new_strings():
    """3 landmarks of 300 strings, 20 seeds: the mean gain exceeds three standard errors."""
    (train, y), (new, truth) = strings(300), strings(300, 1)

    def score(sampler, seed):
        embedding = dk.DistanceEmbedding("levenshtein", sampler, 3, random_state=seed)
        A = embedding.fit_transform(train, y), embedding.transform(new)
        return dk.IncrementalRidgeClassifier(random_state=0).fit(A[0], y).score(A[1], truth)

    gains = [score("supervised", seed) - score("object", seed) for seed in range(20)]
    assert np.mean(gains) > 3 * np.std(gains) / np.sqrt(20)


@pytest.mark.parametrize("gamma", ["auto", 0, 0.5, [0.1, 1.0]])
def test_supervised_landmarks_are_sets_of_the_data_and_follow_joined_targets(gamma, tmp_path):
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(1)
    arrays = [rng.normal(i % 3, 1, (5, 2)) for i in range(60)]
    sets = dk.SampleSets.from_arrays(arrays, ids=[f"s{i}" for i in range(60)])
    y = np.arange(60) % 3
    embedding = dk.DistanceEmbedding("energy", "supervised", 12, gamma, random_state=0).fit(sets, y)
    kept = {x.tobytes() for x in sets}
    chosen = [embedding.omegas_[i].tobytes() for i in range(12)]
    assert len(set(chosen)) == 12
    assert set(chosen) <= kept
    shuffled = pd.Series(y, index=sets.ids).sample(frac=1, random_state=0)
    for targets, value in (
        (shuffled, sets),
        (y, dk.write_sets(tmp_path / "s", arrays)),
        (y.astype(str), sets),
    ):
        again = dk.DistanceEmbedding("energy", "supervised", 12, gamma, random_state=0).fit(value, targets)
        assert again.spec_ == embedding.spec_
    other = dk.DistanceEmbedding("energy", "supervised", 12, gamma, random_state=0).fit(
        sets, rng.permutation(y)
    )
    assert other.spec_ != embedding.spec_


def test_skipping_an_invalid_set_keeps_targets_aligned():
    rng = np.random.default_rng(2)
    arrays = [rng.normal(i % 2, 1, (4, 1)) for i in range(40)]
    weights, y = [np.ones(4)] * 40, np.arange(40) % 2
    options = {"sampler": "supervised", "n_components": 5, "on_error": "skip", "random_state": 0}
    clean = dk.SampleSets.from_arrays(arrays, weights)
    spoilt = dk.SampleSets.from_arrays(
        [*arrays[:7], arrays[0], *arrays[7:]], [*weights[:7], -np.ones(4), *weights[7:]]
    )
    expected = dk.DistanceEmbedding("energy", **options).fit(clean, y)
    with pytest.warns(UserWarning, match="set 7"):
        result = dk.DistanceEmbedding("energy", **options).fit(spoilt, np.insert(y, 7, 1))
    taken = [{float(x[0, 0]) for x in one.omegas_} for one in (expected, result)]
    assert taken[0] == taken[1]


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (None, r"y must not be None .*Call fit\(sets, y\)"),
        (np.arange(5), "each of 6 sets; got shape"),
        ([1.0, 2, np.nan, 1, 2, 3], "got nan as the target of set 2"),
        ([1] * 6, "y must have at least 2 distinct values"),
    ],
)
def test_missing_invalid_or_constant_targets_are_refused(y, message):
    sets = [np.full((2, 1), float(i)) for i in range(6)]
    with pytest.raises(ValueError, match=message):
        dk.DistanceEmbedding("energy", "supervised", 3, random_state=0).fit(sets, y)


def test_too_many_landmarks_and_distances_with_two_parts_are_refused():
    sets, y = [np.full((2, 1), float(i)) for i in range(6)], np.arange(6.0)
    with pytest.raises(ValueError, match="at most 6, the number of sampled objects"):
        dk.DistanceEmbedding("energy", "supervised", 7).fit(sets, y)
    with pytest.raises(ValueError, match="one number per pair"):
        dk.DistanceEmbedding("directed-modified-hausdorff", "supervised", 3).fit(sets, y)
