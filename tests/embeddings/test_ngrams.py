"""`NGramEmbedding`: rows of scikit-learn's vectorizers, with another order of columns."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import RidgeClassifier

import dkdist as dk
from dkdist.embeddings import ngrams

RNG = np.random.default_rng(0)
SYLLABLES = ["an", "na", "bo", "ri", "ßü", "k", "le", "Ta", "o"]


def words(n: int, rng: Any) -> list[str]:
    return ["".join(rng.choice(SYLLABLES, rng.integers(1, 6))) for _ in range(n)]


TRAIN, TEST = words(300, np.random.default_rng(1)), words(60, np.random.default_rng(2))


def sort_columns(*rows: Any) -> list[Any]:
    """Return the rows with columns in an order that depends on their values only."""
    stacked = np.concatenate(rows).round(5)
    order = np.lexsort(stacked[::-1])
    return [part[:, order] for part in rows]


def vectorizer(boundaries: bool, ngram_range: tuple[int, int]) -> TfidfVectorizer:
    kind = "char_wb" if boundaries else "char"  # equivalent for strings without spaces
    return TfidfVectorizer(analyzer=kind, ngram_range=ngram_range, lowercase=False)


@pytest.mark.parametrize("boundaries", [True, False])
@pytest.mark.parametrize("ngram_range", [(1, 1), (1, 3), (2, 4), (3, 3)])
def test_rows_match_scikit_learn(boundaries: bool, ngram_range: tuple[int, int]) -> None:
    reference = vectorizer(boundaries, ngram_range)
    expected = reference.fit_transform(TRAIN).toarray(), reference.transform(TEST).toarray()
    if not boundaries:  # scikit-learn drops strings that are too short
        keep = [len(word) >= ngram_range[0] for word in TEST], [len(word) >= ngram_range[0] for word in TRAIN]
        train = [word for word, k in zip(TRAIN, keep[1], strict=True) if k]
        test = [word for word, k in zip(TEST, keep[0], strict=True) if k]
        reference.fit(train)
        expected = reference.transform(train).toarray(), reference.transform(test).toarray()
    else:
        train, test = TRAIN, TEST
    embedding = dk.NGramEmbedding(ngram_range, 10_000, boundaries).fit(train)
    rows = embedding.transform(train), embedding.transform(test)
    assert rows[0].dtype == np.float32
    assert rows[0].shape == expected[0].shape  # no two n-grams share a bucket
    for result, reference_rows in zip(sort_columns(*rows), sort_columns(*expected), strict=True):
        np.testing.assert_allclose(result, reference_rows, rtol=0, atol=2e-7)  # a few float32 units below 1


def test_short_strings_count_as_one_ngram() -> None:
    rows = dk.NGramEmbedding((5, 6)).fit_transform(["a", "ab", "a", "abcdefg"])
    reference_rows = TfidfVectorizer(analyzer="char_wb", ngram_range=(5, 6)).fit_transform(
        ["a", "ab", "a", "abcdefg"]
    )
    np.testing.assert_allclose(
        rows @ rows.T, (reference_rows @ reference_rows.T).toarray(), rtol=0, atol=1e-6
    )
    assert rows[0].max() == 1.0


def test_most_frequent_ngrams_are_kept() -> None:
    counts: dict[str, int] = {}
    for word in TRAIN:
        for gram in {word[i : i + 2] for i in range(len(word) - 1)} or {word}:
            counts[gram] = counts.get(gram, 0) + 1
    ranked = sorted(counts.values(), reverse=True)
    m = next(k for k in range(5, len(ranked)) if ranked[k - 1] > ranked[k])  # no tie at the end
    spec = dk.NGramEmbedding((2, 2), m, boundaries=False).fit(TRAIN).spec_
    frequencies = (1 + len(TRAIN)) / np.exp(np.array(spec.idf) - 1) - 1
    np.testing.assert_allclose(np.sort(frequencies)[::-1], ranked[:m], rtol=1e-9)


def test_alphabets_do_not_change_rows() -> None:
    embedding = dk.NGramEmbedding().fit(TRAIN)
    rows = embedding.transform(TEST)
    other = dk.SampleSets.from_strings(TEST, "zyxwvo")
    assert other.alphabet != dk.SampleSets.from_strings(TRAIN).alphabet
    np.testing.assert_array_equal(embedding.transform(other), rows)
    points = [[ord(c) for c in word] for word in TEST]
    np.testing.assert_array_equal(embedding.transform(points), rows)
    ascii_words = ["Anna", "Bob"]
    in_bytes = dk.NGramEmbedding().fit([word.encode() for word in ascii_words])
    assert in_bytes.spec_ == dk.NGramEmbedding().fit(ascii_words).spec_


def test_unseen_characters_are_ignored() -> None:
    embedding = dk.NGramEmbedding((2, 2), boundaries=False).fit(["ab", "abc"])
    np.testing.assert_array_equal(embedding.transform(["xyz"]), np.zeros((1, 2)))
    np.testing.assert_array_equal(embedding.transform(["xabz"]), embedding.transform(["ab"]))


def test_store_gives_identical_rows_in_one_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dk.write_sets(tmp_path / "s.zarr", dk.SampleSets.from_strings(TRAIN))
    stored = dk.open_sets(tmp_path / "s.zarr", block_sets=77)
    reads, read = [], type(stored).points_alone
    monkeypatch.setattr(
        type(stored), "points_alone", lambda self, first=0: reads.append(len(self)) or read(self)
    )
    embedding = dk.NGramEmbedding().fit(stored)
    assert sorted(reads) == [69, 77, 77, 77]
    memory = dk.NGramEmbedding().fit(TRAIN)
    assert embedding.spec_ == memory.spec_
    lazy = embedding.transform(stored)
    assert lazy.chunks == ((77, 77, 77, 69), (embedding.spec_.n_features,))
    rows = memory.transform(TRAIN)
    np.testing.assert_array_equal(lazy.compute(), rows)
    np.testing.assert_array_equal(memory.transform(TRAIN[5:6])[0], rows[5])
    assert len(embedding.get_feature_names_out()) == rows.shape[1]


def test_long_strings_are_hashed_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    embedding = dk.NGramEmbedding().fit(TRAIN)
    rows, calls = embedding.transform(TRAIN), []
    counted = ngrams._count_ngrams
    monkeypatch.setattr(ngrams, "MAX_SYMBOLS", 40)
    monkeypatch.setattr(
        ngrams, "_count_ngrams", lambda s, *more: calls.append(s.n_points) or counted(s, *more)
    )
    np.testing.assert_array_equal(embedding.transform(TRAIN), rows)
    longest = max(map(len, TRAIN))
    assert sum(calls) == sum(map(len, TRAIN))
    assert max(calls) < 40 + longest
    assert dk.NGramEmbedding().fit(TRAIN).spec_ == embedding.spec_


def test_damaged_sets_raise(tmp_path: Path) -> None:
    dk.write_sets(tmp_path / "s.zarr", dk.SampleSets.from_strings(["ab", "cd", "ef"]))
    stored = dk.open_sets(tmp_path / "s.zarr")
    for chunk in (tmp_path / "s.zarr" / "points" / "c").rglob("*"):
        if chunk.is_file():
            chunk.write_bytes(b"damaged")
    with pytest.raises(dk.StoreFormatError, match="set 0 cannot be read"):
        dk.NGramEmbedding().fit(stored)
    with pytest.raises(dk.SampleSetError, match="none of the 3 sets can be embedded"):
        dk.NGramEmbedding(on_error="skip").fit(stored)


def test_model_file_round_trip(tmp_path: Path) -> None:
    embedding = dk.NGramEmbedding((1, 3), 50).fit(TRAIN)
    dk.save_model(embedding, tmp_path / "m.npz")
    loaded = dk.load_model(tmp_path / "m.npz")
    assert loaded.spec_ == embedding.spec_
    np.testing.assert_array_equal(loaded.transform(TEST), embedding.transform(TEST))
    assert clone(embedding).get_params() == embedding.get_params()
    np.testing.assert_array_equal(
        pickle.loads(pickle.dumps(embedding)).transform(TEST), embedding.transform(TEST)
    )


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"ngram_range": (0, 2)}, r"ngram_range must be two integers.*got \(0, 2\)"),
        ({"ngram_range": (3, 2)}, r"ngram_range must be.*got \(3, 2\)"),
        ({"ngram_range": (1, 2.5)}, r"ngram_range must be.*got \(1, 2.5\)"),
        ({"ngram_range": 3}, r"ngram_range must be.*got 3"),
        ({"max_features": 0}, "max_features"),
        ({"boundaries": "yes"}, "boundaries"),
        ({"on_error": "ignore"}, "on_error"),
    ],
)
def test_invalid_parameters_raise(params: Any, message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        dk.NGramEmbedding(**params).fit(TRAIN)


def test_points_and_weights_raise() -> None:
    with pytest.raises(dk.SampleSetError, match=r"takes strings, but .*real-valued points of 2 dim"):
        dk.NGramEmbedding().fit([np.zeros((3, 2))])
    with pytest.raises(dk.SampleSetError, match="takes strings"):
        dk.NGramEmbedding().fit(TRAIN).transform([np.zeros((3, 1))])
    weighted = dk.SampleSets(np.zeros((3, 1), np.uint8), [0, 3], np.ones(3))
    with pytest.raises(dk.SampleSetError, match="takes no weights"):
        dk.NGramEmbedding().fit(weighted)


def test_ngrams_in_automatic_models() -> None:
    """The class of a word is determined by its ending."""
    rng = np.random.default_rng(3)
    y = rng.integers(0, 2, 120)
    texts = [word + ("a", "er")[c] for word, c in zip(words(120, rng), y, strict=True)]
    model = dk.SetClassifier(["ngrams"], random_state=0).fit(texts[:80], y[:80])
    rows = dk.NGramEmbedding().fit(texts[:80])
    linear = RidgeClassifier().fit(rows.transform(texts[:80]), y[:80])
    assert linear.score(rows.transform(texts[80:]), y[80:]) >= 0.95
    assert model.score(texts[80:], y[80:]) >= 0.9
    assert "character n-grams" in {entry["name"].split(";")[0].split(",")[0] for entry in model.leaderboard_}
    assert [len(c) for c in model.explain(texts[:3])] == [len(word) for word in texts[:3]]


def test_hashes_match_splitmix64():
    # First outputs of the reference code for seed 0: https://prng.di.unimi.it/splitmix64.c
    expected = [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]
    assert ngrams._splitmix64(np.arange(1, 4, dtype=np.uint64)).tolist() == expected
