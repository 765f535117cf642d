"""`PositionEmbedding`: columns of scikit-learn's one-hot encoder."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.preprocessing import OneHotEncoder

import dkdist as dk

RNG = np.random.default_rng(0)
TRAIN = ["".join(RNG.choice(list("ACGTß"), 6)) for _ in range(90)]
TEST = ["".join(RNG.choice(list("ACGTNX"), 6)) for _ in range(30)]  # N and X are unknown


def one_hot(train: list[str], test: list[str]) -> np.ndarray:
    """Return rows of scikit-learn's encoder with all symbols of ``train`` at each position."""
    categories = [sorted(set("".join(train)))] * len(train[0])
    encoder = OneHotEncoder(categories=categories, handle_unknown="ignore", sparse_output=False)
    return np.asarray(encoder.fit([list(s) for s in train]).transform([list(s) for s in test]))


def test_rows_match_scikit_learn() -> None:
    embedding = dk.PositionEmbedding().fit(TRAIN)
    for strings in (TRAIN, TEST):
        rows = embedding.transform(strings)
        assert rows.dtype == np.float32
        np.testing.assert_array_equal(rows, one_hot(TRAIN, strings))


def test_shorter_strings_have_zeros_and_longer_strings_are_cut() -> None:
    embedding = dk.PositionEmbedding().fit(TRAIN)
    whole = embedding.transform(TRAIN)
    width = whole.shape[1] // 6
    short = embedding.transform([string[:4] for string in TRAIN])
    np.testing.assert_array_equal(short[:, : 4 * width], whole[:, : 4 * width])
    assert not short[:, 4 * width :].any()
    np.testing.assert_array_equal(embedding.transform([string + "AC" for string in TRAIN]), whole)
    np.testing.assert_array_equal(dk.PositionEmbedding(4).fit_transform(TRAIN), whole[:, : 4 * width])
    # the longest string determines the number of positions
    assert dk.PositionEmbedding().fit([*TRAIN, "ACGTACGT"]).spec_.n_positions == 8


def test_squared_distances_are_twice_the_hamming_distance() -> None:
    rows = dk.PositionEmbedding().fit_transform(TRAIN)
    squares = ((rows[:, None] - rows) ** 2).sum(axis=2)
    hamming = [[sum(a != b for a, b in zip(s, t, strict=True)) for t in TRAIN] for s in TRAIN]
    np.testing.assert_array_equal(squares, 2 * np.array(hamming))


def test_alphabets_and_codes_do_not_change_rows() -> None:
    embedding = dk.PositionEmbedding().fit(TRAIN)
    rows = embedding.transform(TEST)
    np.testing.assert_array_equal(embedding.transform(dk.SampleSets.from_strings(TEST, "XTNGCA")), rows)
    np.testing.assert_array_equal(embedding.transform([[ord(c) for c in s] for s in TEST]), rows)
    codes = [np.array(list(map(ord, s)), np.uint8) for s in TRAIN]
    assert dk.PositionEmbedding().fit(codes).spec_ == embedding.spec_


def test_a_store_gives_identical_rows(tmp_path: Path) -> None:
    dk.write_sets(tmp_path / "s.zarr", dk.SampleSets.from_strings(TRAIN))
    stored = dk.open_sets(tmp_path / "s.zarr", block_sets=25)
    embedding, memory = dk.PositionEmbedding().fit(stored), dk.PositionEmbedding().fit(TRAIN)
    assert embedding.spec_ == memory.spec_
    lazy, rows = embedding.transform(stored), memory.transform(TRAIN)
    assert lazy.chunks == ((25, 25, 25, 15), (rows.shape[1],))
    np.testing.assert_array_equal(lazy.compute(), rows)
    np.testing.assert_array_equal(memory.transform(TRAIN[5:6])[0], rows[5])
    assert len(embedding.get_feature_names_out()) == rows.shape[1]


def test_damaged_sets_raise_or_are_skipped(tmp_path: Path) -> None:
    dk.write_sets(tmp_path / "s.zarr", dk.SampleSets.from_strings(["ab", "cd", "ef"]))
    stored = dk.open_sets(tmp_path / "s.zarr")
    for chunk in (tmp_path / "s.zarr" / "points" / "c").rglob("*"):
        if chunk.is_file():
            chunk.write_bytes(b"damaged")
    with pytest.raises(dk.StoreFormatError, match="set 0 cannot be read"):
        dk.PositionEmbedding().fit(stored)
    with pytest.raises(dk.SampleSetError, match="none of the 3 sets can be embedded"):
        dk.PositionEmbedding(on_error="skip").fit(stored)


def test_a_model_file_keeps_rows(tmp_path: Path) -> None:
    embedding = dk.PositionEmbedding(5).fit(TRAIN)
    dk.save_model(embedding, tmp_path / "m.npz")
    loaded = dk.load_model(tmp_path / "m.npz")
    assert loaded.spec_ == embedding.spec_
    np.testing.assert_array_equal(loaded.transform(TEST), embedding.transform(TEST))
    assert clone(embedding).get_params() == embedding.get_params()
    copy = pickle.loads(pickle.dumps(embedding))
    np.testing.assert_array_equal(copy.transform(TEST), embedding.transform(TEST))


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"n_positions": 0}, "n_positions must be an integer >= 1; got 0"),
        ({"n_positions": 2.5}, "n_positions must be an integer"),
        ({"n_positions": 2**20}, r"at most 1048576 columns; got 1048576 positions of 5 symbols"),
        ({"on_error": "ignore"}, "on_error"),
    ],
)
def test_invalid_parameters_raise(params: Any, message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        dk.PositionEmbedding(**params).fit(TRAIN)


def test_points_and_weights_raise() -> None:
    with pytest.raises(dk.SampleSetError, match=r"PositionEmbedding takes strings, but .*points of 2 dim"):
        dk.PositionEmbedding().fit([np.zeros((3, 2))])
    with pytest.raises(dk.SampleSetError, match="takes strings"):
        dk.PositionEmbedding().fit(TRAIN).transform([np.zeros((3, 1))])
    weighted = dk.SampleSets(np.zeros((3, 1), np.uint8), [0, 3], np.ones(3))
    with pytest.raises(dk.SampleSetError, match="takes no weights"):
        dk.PositionEmbedding().fit(weighted)
