"""Levenshtein distance against the plain table and rapidfuzz, and its properties; all comparisons are exact."""

from __future__ import annotations

import itertools
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dkdist as dk
from dkdist.distances.distance_embedding_params import DISTANCE_FACTORIES
from dkdist.distances.strings import _fast_path as few
from dkdist.distances.strings import levenshtein
from dkdist.distances.strings._banded_numba import LEVENSHTEIN, unbanded_distance
from dkdist.distances.strings._bit_parallel_numba import MAX_BANDED_CHAINS, N_CHAINS, text_pair_distance
from dkdist.distances.strings._fast_path import small_string_matrix
from dkdist.distances.strings.levenshtein import Levenshtein

strings_of = st.one_of(
    st.text("ab", max_size=140), st.text("abcdefgh", max_size=70), st.text("a", max_size=200)
)


def flat(strings, dtype=np.uint8):
    codes = np.array([ord(symbol) for string in strings for symbol in string], dtype).reshape(-1, 1)
    return codes, np.cumsum([0, *(len(string) for string in strings)])


def distances(objects, omegas, normalize=False, dtypes=(np.uint8, np.uint8), cutoff=None):
    distance = Levenshtein(normalize, cutoff)
    packed = distance.prepare(*flat(omegas, dtypes[1]), None)
    assert packed.n_omegas == len(omegas)
    out = np.full((len(objects), len(omegas)), np.nan, np.float32)
    distance.fill(pickle.loads(pickle.dumps(packed)), *flat(objects, dtypes[0]), None, out)
    return out


def table(x, y):
    row = list(range(len(y) + 1))
    for i, a in enumerate(x):
        last, row = row, [i + 1]
        for j, b in enumerate(y):
            row.append(min(last[j] + (a != b), last[j + 1] + 1, row[j] + 1))
    return row[-1]


def tables(objects, omegas):
    return np.array([[table(x, y) for y in omegas] for x in objects])


def random_strings(lengths, alphabet, seed=0):
    rng = np.random.default_rng(seed)
    return ["".join(chr(c) for c in rng.integers(0, alphabet, n)) for n in lengths]


@pytest.mark.parametrize("alphabet", [1, 2, 4, 40, 250])
def test_equals_the_table_at_every_length(alphabet):
    objects = random_strings([0, 1, 2, 3, 4, 5, 33, 66], alphabet)
    edges = [0, 1, 2, 3, 30, 31, 32, 61, 62, 63, 64, 65, 125, 126, 127, 128, 129, 189, 190, 260]
    omegas = random_strings(edges, alphabet, seed=1)
    np.testing.assert_array_equal(distances(objects, omegas), tables(objects, omegas))


def test_large_alphabets_and_symbols_missing_from_omegas():
    objects = random_strings([40, 50], 55_000)
    omegas = [objects[0][:30], objects[1][5:] * 2, *random_strings([20, 90], 55_000, seed=1)]
    wide = (np.uint16, np.uint16)
    expected = tables(objects, omegas)
    assert expected[0, 0] == 10
    np.testing.assert_array_equal(distances(objects, omegas, dtypes=wide), expected)
    np.testing.assert_array_equal(distances(["xyz"], ["ab", "y" * 70], dtypes=wide), [[3, 69]])
    some = ["abc", "b" * 80]
    np.testing.assert_array_equal(
        distances(objects, some, dtypes=(np.uint16, np.uint8)), tables(objects, some)
    )


def test_normalised_by_the_longer_string():
    objects, omegas = random_strings([0, 1, 20], 3), random_strings([0, 7, 100], 3, seed=1)
    longer = np.maximum(np.array([[0], [1], [20]]), np.array([0, 7, 100])).astype(np.float32)
    longer[0, 0] = 1
    expected = tables(objects, omegas).astype(np.float32) / longer
    np.testing.assert_array_equal(distances(objects, omegas, normalize=True), expected)


@settings(deadline=None, max_examples=60)
@given(st.lists(strings_of, min_size=3, max_size=7))
def test_it_is_a_metric(strings):
    D = distances(strings, strings)
    np.testing.assert_array_equal(D, tables(strings, strings))
    np.testing.assert_array_equal(D, D.T)
    same = [[x == y for y in strings] for x in strings]
    np.testing.assert_array_equal(D == 0, same)
    assert (D[:, None, :] <= D[:, :, None] + D[None, :, :]).all()


@pytest.mark.parametrize("normalize", [False, True])
def test_entries_do_not_depend_on_other_rows_and_columns(normalize):
    rng = np.random.default_rng(0)
    objects = random_strings(rng.integers(0, 90, 8), 4)
    omegas = random_strings([*rng.integers(0, 64, 500), *rng.integers(64, 200, N_CHAINS + 5)], 4, seed=1)
    D = distances(objects, omegas, normalize)
    for i in (0, 3, 7):
        np.testing.assert_array_equal(distances(objects[i : i + 1], omegas, normalize), D[i : i + 1])
    order = rng.permutation(len(omegas))
    np.testing.assert_array_equal(distances(objects, [omegas[j] for j in order], normalize), D[:, order])
    for some in (order[:1], order[:40]):
        np.testing.assert_array_equal(distances(objects, [omegas[j] for j in some], normalize), D[:, some])


def by_rows(x, y):
    """Compute the plain table by rows; insertions are a running minimum."""
    x, y = (np.array([ord(symbol) for symbol in text]) for text in (x, y))
    place = np.arange(len(y) + 1)
    row = place
    for i, symbol in enumerate(x, 1):
        best = np.concatenate([[i], np.minimum(row[:-1] + (y != symbol), row[1:] + 1)])
        row = np.minimum.accumulate(best - place) + place
    return int(row[-1])


def edited(text, n_edits, rng, alphabet):
    text = list(text)
    for place, kind in zip(rng.integers(0, len(text), n_edits), rng.integers(0, 3, n_edits), strict=True):
        symbol = [chr(rng.integers(0, alphabet))] if kind else []
        text[place : place + (kind < 2)] = symbol
    return "".join(text)


@pytest.mark.parametrize("alphabet", [1, 2, 30])
@pytest.mark.parametrize("n_omegas", [3, MAX_BANDED_CHAINS + 3])
def test_long_strings_in_bands_equal_the_table(alphabet, n_omegas):
    """Few omegas use bands only, many only if nearly equal; distances above a cutoff are returned as cutoff + 1."""
    rng = np.random.default_rng(alphabet)
    (text,) = random_strings([1100], alphabet, seed=9)
    objects = [text, *random_strings([1, 70, 1030], alphabet), edited(text, 30, rng, alphabet)]
    omegas = [edited(text, k, rng, alphabet) for k in np.geomspace(1, 400, n_omegas - 2).astype(int)]
    omegas += random_strings([64, 1090], alphabet, seed=2)
    expected = np.array([[by_rows(x, y) for y in omegas] for x in objects])
    np.testing.assert_array_equal(expected[:3, 1:2], tables(objects[:3], omegas[1:2]))
    np.testing.assert_array_equal(distances(objects, omegas), expected)
    for cutoff in (0, 31, 64, 500):
        result = distances(objects, omegas, cutoff=cutoff)
        np.testing.assert_array_equal(result, np.minimum(expected, cutoff + 1))


@settings(deadline=None, max_examples=60)
@given(st.text("ab", min_size=64, max_size=300), st.integers(0, 40), st.integers(0, 300), st.integers(0, 99))
def test_bands_and_cutoffs_equal_the_table_for_any_strings(text, n_edits, cutoff, seed):
    other = edited(text, n_edits, np.random.default_rng(seed), 99)
    for x, y in ((text, other + "a" * 64), (other, text), (text[::2], text)):
        expected = by_rows(x, y)
        np.testing.assert_array_equal(distances([x], [y]), [[expected]])
        np.testing.assert_array_equal(distances([x], [y], cutoff=cutoff), [[min(expected, cutoff + 1)]])


@pytest.mark.parametrize("n", [1, 3, 63, 64, 65, 127, 128, 129, 190, 255, 256, 257, 300])
def test_two_texts_equal_the_table(n):
    """Lengths around multiples of 64 bits, of 4 columns, and around the threshold for bands."""
    rng, (text,) = np.random.default_rng(n), random_strings([n], 5)
    others = [edited(text, k, rng, 5) for k in (1, 4, n // 9, n)] + random_strings(
        [1, 7, n, n + 2, 2 * n], 5, seed=1
    )
    for x, y in [(text, other) for other in others] + [(other, text) for other in others] + [(text, text)]:
        expected = table(x, y)
        for shift in (0, 123):  # codes up to the end of ASCII
            x, y = (one.translate({code: code + shift for code in range(5)}) for one in (x, y))
            assert text_pair_distance((x + y).encode(), len(x), LEVENSHTEIN) == expected
            assert unbanded_distance((x + y).encode(), len(x)) == expected


def test_cutoff_applies_to_short_strings_and_before_normalization():
    objects, omegas = random_strings([0, 5, 40], 4), random_strings([3, 60, 90], 4, seed=1)
    kept = np.minimum(tables(objects, omegas), 11)
    np.testing.assert_array_equal(distances(objects, omegas, cutoff=10), kept)
    longer = np.maximum(np.array([[0], [5], [40]]), np.array([3, 60, 90])).astype(np.float32)
    np.testing.assert_array_equal(
        distances(objects, omegas, normalize=True, cutoff=10), kept.astype("f4") / longer
    )
    with pytest.raises(ValueError, match="cutoff must be an integer"):
        Levenshtein(cutoff=-1)


def test_equals_rapidfuzz():
    process = pytest.importorskip("rapidfuzz.process")
    scorer = pytest.importorskip("rapidfuzz.distance").Levenshtein
    rng = np.random.default_rng(0)
    for alphabet in (2, 4, 200):
        objects = random_strings(rng.integers(1, 150, 20), alphabet)
        omegas = random_strings(rng.integers(1, 150, 300), alphabet, seed=1)
        expected = process.cdist(objects, omegas, scorer=scorer.distance, dtype=np.int32, workers=1)
        np.testing.assert_array_equal(distances(objects, omegas), expected)


def test_invalid_codes_and_weights_are_refused():
    with pytest.raises(ValueError, match=r"codes.*uint8 of shape \(3, 2\)"):
        Levenshtein().prepare(np.zeros((3, 2), np.uint8), np.array([0, 3]))
    with pytest.raises(ValueError, match="float32"):
        Levenshtein().prepare(np.zeros((3, 1), np.float32), np.array([0, 3]))
    with pytest.raises(ValueError, match="weights"):
        Levenshtein().prepare(np.zeros((3, 1), np.uint8), np.array([0, 3]), np.ones(3, np.float32))


FAST_PATH_DISTANCES = (
    "levenshtein", "osa", "indel", Levenshtein(normalize=True), Levenshtein(cutoff=9), Levenshtein(transposition=1),
)  # fmt: skip


@pytest.fixture(params=[False, True], ids=["own code", "rapidfuzz"])
def rapidfuzz_or_own_code(request, monkeypatch):
    """Use rapidfuzz, or pretend that it is not installed."""
    if request.param:
        pytest.importorskip("rapidfuzz", reason="pip install 'dkdist[strings]'")
    else:
        monkeypatch.setattr(few, "PEER_FUNCTIONS", dict.fromkeys(few.PEER_FUNCTIONS))
        monkeypatch.setattr(levenshtein, "PEER_FUNCTIONS", few.PEER_FUNCTIONS)
        monkeypatch.setattr(few, "_load_peer", lambda name: None)


@pytest.mark.parametrize("distance", FAST_PATH_DISTANCES)
def test_fast_path_for_few_strings_equals_the_general_path(distance, rapidfuzz_or_own_code):
    """Surrogate pairs and larger inputs use the general path; random_state=0 forces it."""
    rng = np.random.default_rng(3)
    texts = [*random_strings([1, 40, 63, 300], 60_000), "\ud800b", "\udc00" * 3]
    texts.append(edited(texts[3], 20, rng, 99))
    for sets, other in (
        (texts[:4], None),
        (texts[:2], texts[2:]),
        (["a\U0001f600"], ["\U0001f600"]),
        (texts, texts),
        (["kitten", "é"], ["sitting"]),
        (["ab"], None),
    ):
        ordinary = dk.distance_matrix(sets, other, distance, random_state=0)
        np.testing.assert_array_equal(dk.distance_matrix(sets, other, distance), ordinary)
    assert (
        small_string_matrix(distance, texts[:4], None) is None,
        small_string_matrix(distance, texts, texts),
    ) == (
        False,
        None,
    )


@pytest.mark.parametrize("name", ["levenshtein", "osa", "indel", "damerau-levenshtein"])
def test_a_distance_of_two_strings_equals_the_matrix_entry(name, rapidfuzz_or_own_code):
    """All kinds of symbols, lengths around the limits for rapidfuzz; the result is a plain float."""
    distance = DISTANCE_FACTORIES[name](1, 0)
    rng = np.random.default_rng(4)
    texts = [*random_strings([1, 63, 64, 65, 200], 3), *random_strings([300, 2100], 100), "\ud800b", "naïve"]
    texts += ["a\U0001f600", edited(texts[6], 40, rng, 99), "x" * 20_000]
    for x, y in itertools.chain(itertools.product(texts[:5], texts), itertools.pairwise(texts)):
        result = distance(x, y)
        assert type(result) is float
        assert result == dk.distance_matrix([x], [y], name, random_state=0)[0, 0]


def test_calling_a_distance_equals_the_matrix_entry():
    rng = np.random.default_rng(5)
    x, y = rng.standard_normal((7, 2)), rng.standard_normal((9, 2)) + 100
    for distance in (
        dk.DynamicTimeWarping(),
        dk.Energy(),
        dk.ModifiedHausdorff(),
        dk.pairwise(lambda a, b: abs(a - b[:7]).sum()),
    ):
        assert distance(x, y) == dk.distance_matrix([x], [y], distance)[0, 0]
    for distance in (
        Levenshtein(normalize=True),
        Levenshtein(cutoff=1),
        Levenshtein(insertion=2),
        dk.JaroWinkler(),
    ):
        assert distance("kitten", "sitting") == dk.distance_matrix(["kitten"], ["sitting"], distance)[0, 0]
    codes = np.array([1, 2, 3]), np.array([1, 3])
    assert Levenshtein()(*codes) == 1
    assert pickle.loads(pickle.dumps(Levenshtein()))("ab", "b") == 1
    for distance, a, b, message in (
        (Levenshtein(), "", "a", "string 0 .* is empty"),
        (Levenshtein(), "a", b"a", "both contain characters or both contain codes"),
        (Levenshtein(), x, y, "Levenshtein compares strings; got real-valued points of 2 dimension"),
        (dk.Energy(), "a", "b", "Energy compares points; got strings"),
    ):
        with pytest.raises(dk.SampleSetError, match=message):
            distance(a, b)
    with pytest.raises(ValueError, match=r"1 number per pair; .* gives 2"):
        dk.DirectedModifiedHausdorff()(x, y)


def test_invalid_strings_leave_the_fast_path_and_are_refused():
    for sets, message in (
        ([""], "string 0 .* is empty"),
        (["a", b"a"], r"one type; got str \(set 0\) and bytes \(set 1\)"),
        (["a", ""], "string 1 .* is empty"),
        ([], "at least one set; got an empty list"),
        (["a", 1], r"one type; got str \(set 0\) and sequence of integers \(set 1\)"),
    ):
        assert small_string_matrix("levenshtein", sets, None) is None
        with pytest.raises(dk.SampleSetError, match=message):
            dk.distance_matrix(sets, distance="levenshtein")
