"""Unrestricted Damerau-Levenshtein distance: breadth-first search, the full table, rapidfuzz; metric properties."""

from __future__ import annotations

import itertools
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dkdist as dk


def strings_one_edit_away(text, alphabet):
    """Yield all strings at one edit from a string."""
    for i in range(len(text) + 1):
        yield from (text[:i] + a + text[i:] for a in alphabet)
    for i in range(len(text)):
        yield text[:i] + text[i + 1 :]
        yield from (text[:i] + a + text[i + 1 :] for a in alphabet)
        yield text[:i] + text[i + 1 : i + 2] + text[i] + text[i + 2 :]


def breadth_first_distances(text, alphabet, longest):
    """Return the minimum number of edits to every string of at most ``longest`` symbols, by breadth-first search."""
    result, last = {text: 0}, [text]
    while last:
        last = [
            y
            for x in last
            for y in strings_one_edit_away(x, alphabet)
            if len(y) <= longest and y not in result and not result.update({y: result[x] + 1})
        ]
    return result


def table(x, y):
    """Fill the table of Lowrance and Wagner, which allows edits between two transposed symbols."""
    far = len(x) + len(y)
    D = {(-1, -1): far}
    for i in range(len(x) + 1):
        D[i, -1], D[i, 0] = far, i
    for j in range(len(y) + 1):
        D[-1, j], D[0, j] = far, j
    rows = {}
    for i, a in enumerate(x, 1):
        column = 0
        for j, b in enumerate(y, 1):
            k, l = rows.get(b, 0), column  # noqa: E741
            D[i, j] = min(
                D[i - 1, j - 1] + (a != b),
                D[i - 1, j] + 1,
                D[i, j - 1] + 1,
                D[k - 1, l - 1] + (i - k - 1) + 1 + (j - l - 1),
            )
            if a == b:
                column = j
        rows[a] = i
    return D[len(x), len(y)]


def distances(objects, omegas, dtype=np.uint16, **options):
    distance = dk.DamerauLevenshtein(**options)
    flat = [
        (
            np.array([ord(a) for text in texts for a in text], dtype).reshape(-1, 1),
            np.cumsum([0, *map(len, texts)]),
        )
        for texts in (objects, omegas)
    ]
    packed = pickle.loads(pickle.dumps(distance.prepare(*flat[1])))
    assert packed.n_omegas == len(omegas)
    out = np.full((len(objects), len(omegas)), np.nan, np.float32)
    distance.fill(packed, *flat[0], None, out)
    return out


def words(lengths, alphabet, seed=0):
    rng = np.random.default_rng(seed)
    return ["".join(chr(33 + c) for c in rng.integers(0, alphabet, n)) for n in lengths]


def test_equals_breadth_first_search_over_edits():
    """All strings of at most 4 symbols over 3 letters; paths through strings longer than 5 are never shorter."""
    texts = ["".join(p) for n in range(5) for p in itertools.product("abc", repeat=n)]
    expected = {x: breadth_first_distances(x, "abc", 5) for x in texts[::3]}
    result = distances(texts[::3], texts)
    np.testing.assert_array_equal(result, [[expected[x][y] for y in texts] for x in texts[::3]])


@pytest.mark.parametrize("alphabet", [1, 2, 3, 26, 3000])
def test_equals_the_table_at_every_length_in_every_type(alphabet):
    edges = [0, 1, 2, 3, 15, 16, 17, 31, 61, 62, 63, 64, 130]
    objects, omegas = words([0, 1, 2, 5, 40, 70, 100], alphabet), words(edges * 3, alphabet, seed=1)
    omegas += [text[::-1] for text in objects]
    np.testing.assert_array_equal(
        distances(objects, omegas), [[table(x, y) for y in omegas] for x in objects]
    )


def test_equals_rapidfuzz():
    process = pytest.importorskip("rapidfuzz.process")
    scorer = pytest.importorskip("rapidfuzz.distance").DamerauLevenshtein
    rng = np.random.default_rng(0)
    for alphabet, most, n in ((2, 62, 300), (26, 90, 300), (4, 700, 40), (30_000, 300, 50)):
        objects, omegas = (
            words(rng.integers(1, most, 20), alphabet),
            words(rng.integers(1, most, n), alphabet, seed=1),
        )
        expected = process.cdist(objects, omegas, scorer=scorer.distance, dtype=np.int32, workers=1)
        np.testing.assert_array_equal(distances(objects, omegas), expected)
        np.testing.assert_array_equal(distances(objects, omegas, cutoff=20), np.minimum(expected, 21))


def test_strings_too_large_for_int16_tables():
    """A string longer than int16 can index, and a string with more distinct symbols than int16 can hold."""
    rng = np.random.default_rng(1)
    (long,) = words([16_400], 3)
    many = "".join(chr(40 + c) for c in rng.permutation(33_000))
    objects = [long[20:30] + long[31] + long[30], many[40:30:-1] + many[-2:]]
    expected = [[table(x, y) for y in (long, many)] for x in objects]
    np.testing.assert_array_equal(distances(objects, [long, many]), expected)


@settings(deadline=None, max_examples=60)
@given(st.lists(st.text("abc", max_size=9), min_size=3, max_size=7))
def test_it_is_a_metric_at_most_osa_and_at_least_the_length_difference(texts):
    D = distances(texts, texts)
    np.testing.assert_array_equal(D, D.T)
    np.testing.assert_array_equal(D == 0, [[x == y for y in texts] for x in texts])
    assert (D[:, None, :] <= D[:, :, None] + D[None, :, :]).all()
    sizes = np.array([len(text) for text in texts])
    assert (abs(sizes[:, None] - sizes) <= D).all()
    full = [text + "z" for text in texts]  # a collection must not contain empty strings
    assert (dk.distance_matrix(full, distance="osa", random_state=0) >= D).all()
    np.testing.assert_array_equal(distances(full, full), D)  # a common suffix does not change the distance


def test_triangle_inequality_holds_here_but_not_for_osa():
    texts = ["ca", "ac", "abc"]
    osa, whole = (dk.distance_matrix(texts, distance=name) for name in ("osa", "damerau-levenshtein"))
    assert osa[0, 2] == 3 > osa[0, 1] + osa[1, 2]
    assert whole[0, 2] == 2 == whole[0, 1] + whole[1, 2]


@pytest.mark.parametrize("normalize", [False, True])
def test_entries_do_not_depend_on_other_rows_and_columns(normalize):
    rng = np.random.default_rng(0)
    objects, omegas = (
        words(rng.integers(0, 90, 8), 4),
        words([*rng.integers(0, 63, 300), *rng.integers(63, 200, 50)], 4),
    )
    D = distances(objects, omegas, normalize=normalize)
    for some in (slice(0, 1), slice(40, 310)):
        np.testing.assert_array_equal(distances(objects, omegas[some], normalize=normalize), D[:, some])
    np.testing.assert_array_equal(distances(objects[3:4], omegas, normalize=normalize), D[3:4])
    if normalize:
        longer = np.maximum([[len(x)] for x in objects], [len(y) for y in omegas])
        plain = distances(objects, omegas) / np.maximum(longer, 1).astype(np.float32)
        np.testing.assert_array_equal(D, plain)


def test_invalid_options_points_and_weights_are_refused():
    with pytest.raises(ValueError, match="cutoff must be an integer"):
        dk.DamerauLevenshtein(cutoff=-1)
    with pytest.raises(TypeError, match="normalize"):
        dk.DamerauLevenshtein(normalize="no")
    with pytest.raises(dk.SampleSetError, match="DamerauLevenshtein compares strings"):
        dk.distance_matrix([np.zeros((3, 2))], distance="damerau-levenshtein")
    with pytest.raises(ValueError, match="weights"):
        dk.DamerauLevenshtein().prepare(np.zeros((3, 1), np.uint8), np.array([0, 3]), np.ones(3, np.float32))
