"""Strings as sets of codes: round trips of text and codes, and refused input."""

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dkdist.sets import SampleSetError, SampleSets, as_sample_sets
from dkdist.sets.strings import translate_codes

TEXTS = st.lists(st.text(min_size=1, max_size=8), min_size=1, max_size=6)


@given(TEXTS, st.text(max_size=5))
def test_text_round_trips(strings, beginning):
    given_alphabet = "".join(dict.fromkeys(beginning)) or None
    sets = SampleSets.from_strings(strings, given_alphabet)
    assert sets.strings() == strings
    assert sets.alphabet.startswith(given_alphabet or "")
    assert set(sets.alphabet) == set("".join(strings)) | set(given_alphabet or "")
    assert [len(s) for s in sets] == list(map(len, strings))
    assert pickle.loads(pickle.dumps(sets)).strings() == strings
    assert sets[::-1].strings() == strings[::-1]
    assert sets[:1].alphabet == sets.alphabet


@given(TEXTS, TEXTS)
def test_a_translation_changes_no_text(some, others):
    source, target = SampleSets.from_strings(some), SampleSets.from_strings(others)
    table = translate_codes(source.alphabet, target.alphabet)
    for symbol, code in zip(source.alphabet, table, strict=True):
        assert code == target.alphabet.find(symbol)


def test_codes_are_as_narrow_as_the_alphabet_allows():
    wide = "".join(map(chr, range(100, 400)))
    assert SampleSets.from_strings(["abc"]).points_dtype == np.uint8
    assert SampleSets.from_strings([wide]).points_dtype == np.uint16
    assert SampleSets.from_strings([wide]).strings() == [wide]


@pytest.mark.parametrize(
    "strings", [[b"\x00\xff", b"a"], [[0, 255], (97,)], [np.array([0, 255]), np.array([97], np.uint8)]]
)
def test_bytes_and_integers_are_codes(strings):
    sets = as_sample_sets(strings)
    assert sets.points_dtype == np.uint8
    assert sets.alphabet is None
    assert [s[:, 0].tolist() for s in sets] == [[0, 255], [97]]
    with pytest.raises(SampleSetError, match="have no alphabet"):
        sets.strings()


def test_large_codes_take_two_bytes_and_arrays_of_points_stay_points():
    assert as_sample_sets([[1, 2], [65_535]]).points_dtype == np.uint16
    assert as_sample_sets([[[1, 2]], [[3, 4]]]).n_dims == 2


@pytest.mark.parametrize(
    ("strings", "message"),
    [
        (["a", ""], r"string 1 \(set 1\) is empty"),
        ([[1], []], r"string 1 \(set 1\) is empty"),
        (["a", b"b"], r"one type; got str \(set 0\) and bytes \(set 1\)"),
        (["a", [1]], r"one type; got str \(set 0\) and sequence of integers \(set 1\)"),
        ([[1], [2, 70_000]], r"got 70000 \(symbol 1 of set 1\)"),
        ([[1], [-2]], r"got -2 \(symbol 0 of set 1\)"),
        ([[1], [0.5]], r"an array of dtype float64 and shape .* \(set 1\)"),
        (["".join(map(chr, range(70_000)))], "at most 65536 distinct characters; got 70000"),
    ],
)
def test_invalid_strings_are_refused(strings, message):
    with pytest.raises(SampleSetError, match=message):
        as_sample_sets(strings)


def test_invalid_alphabets_are_refused():
    with pytest.raises(SampleSetError, match="distinct characters; got 'aa'"):
        SampleSets.from_strings(["a"], "aa")
    with pytest.raises(SampleSetError, match="at least one"):
        SampleSets.from_strings([])
    codes = np.array([[0], [1], [2]], np.uint8)
    assert SampleSets(codes, [0, 1, 3], alphabet="abc").strings() == ["a", "bc"]
    with pytest.raises(SampleSetError, match=r"codes must be below 2, .*; got 2 \(symbol 1 of set 1\)"):
        SampleSets(codes, [0, 1, 3], alphabet="ab")
    with pytest.raises(SampleSetError, match="requires uint8 or uint16 codes"):
        SampleSets([[0.0]], [0, 1], alphabet="ab")
