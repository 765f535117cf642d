"""Warnings of automatic models about equal sets and groups on both sides of a split."""

import warnings

import numpy as np
import pytest

import dkdist as dk
from dkdist.auto.leakage import label_equal_sets

SEEDS = range(10)


def collection(seed: int, n: int = 40) -> tuple[list[np.ndarray], np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.normal(0, 1 + (i % 2), (rng.integers(5, 30), 2)) for i in range(n)], np.arange(n) % 2


def quick() -> dk.SetClassifier:
    return dk.SetClassifier(["moments"], cv=3, random_state=0)


@pytest.mark.parametrize("seed", SEEDS)
def test_equal_sets_in_any_order_are_reported(seed):
    sets, y = collection(seed)
    rng = np.random.default_rng(seed)
    copies = [rng.permutation(one) for one in sets[:10]]
    # copies in the same fold as their original are no leakage
    with pytest.warns(
        UserWarning, match=r"\d+ of 50 sets \(sets \d+, \d+, \d+, \.\.\.\) have the points of a set"
    ):
        quick().fit(sets + copies, np.concatenate([y, y[:10]]), groups=np.arange(50))


class Splitter:
    """Every fifth set is in the same fold; groups are ignored."""

    def split(self, X, y=None, groups=None):
        for k in range(5):
            yield np.flatnonzero(np.arange(len(X)) % 5 != k), np.arange(k, len(X), 5)


@pytest.mark.parametrize("seed", SEEDS)
def test_groups_that_a_splitter_divides_are_reported(seed):
    sets, y = collection(seed)
    model = dk.SetClassifier(["moments"], cv=Splitter(), random_state=0)
    with pytest.warns(UserWarning, match="have the group of a set on the other side of a split"):
        model.fit(sets, y, groups=np.arange(40) // 2)


@pytest.mark.parametrize("seed", SEEDS)
def test_clean_collections_have_no_warning(seed, tmp_path):
    sets, y = collection(seed)
    rng = np.random.default_rng(seed)
    dice = [rng.integers(1, 7, (rng.integers(1, 4), 1)).astype(float) for _ in range(40)]
    store = dk.write_sets(tmp_path / "sets.zarr", sets)
    undivided = sets + sets[:10], np.concatenate([y, y[:10]]), np.concatenate([np.arange(40), np.arange(10)])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        quick().fit(sets, y)
        quick().fit(dk.open_sets(tmp_path / "sets.zarr") if store is None else store, y)
        quick().fit(dice, y)
        quick().fit(undivided[0], undivided[1], groups=undivided[2])


def test_labels_are_those_of_a_comparison_of_all_pairs(tmp_path):
    rng = np.random.default_rng(0)
    sets = [rng.integers(0, 9, (12, 3)).astype(np.float32) for _ in range(30)]
    sets += [rng.permutation(sets[3]), sets[7].copy(), -0.0 * sets[2], 0.0 * sets[2]]
    ordered = [one[np.lexsort(one.T)] for one in sets]
    expected = [
        next(j for j in range(len(sets)) if np.array_equal(ordered[i], ordered[j])) for i in range(34)
    ]
    assert label_equal_sets(dk.SampleSets.from_arrays(sets)).tolist() == expected
    dk.write_sets(tmp_path / "sets.zarr", sets)
    assert label_equal_sets(dk.open_sets(tmp_path / "sets.zarr")).tolist() == expected


def test_sets_with_other_weights_differ():
    rng = np.random.default_rng(0)
    points, weights = rng.normal(size=(10, 1)), np.arange(1.0, 11)
    pairs = dk.SampleSets(np.tile(points, (2, 1)), [0, 10, 20], weights=np.concatenate([weights, weights]))
    others = dk.SampleSets(
        np.tile(points, (2, 1)), [0, 10, 20], weights=np.concatenate([weights, weights[::-1]])
    )
    assert label_equal_sets(pairs).tolist() == [0, 0]
    assert label_equal_sets(others).tolist() == [0, 1]
