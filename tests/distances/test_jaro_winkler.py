"""Jaro-Winkler distance against its definition (bit for bit), its published values and rapidfuzz."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dkdist as dk


def jaro(x, y):
    """Compute the definition: each symbol matches the first equal one that is unmatched and within the window."""
    if not x or not y:
        return float(not x and not y)
    reach = max(max(len(x), len(y)) // 2 - 1, 0)
    taken, mine = [False] * len(y), []
    for i, symbol in enumerate(x):
        near = range(max(0, i - reach), min(len(y), i + reach + 1))
        place = next((j for j in near if y[j] == symbol and not taken[j]), None)
        if place is not None:
            taken[place] = True
            mine.append(symbol)
    if not mine:
        return 0.0
    theirs = [symbol for symbol, flag in zip(y, taken, strict=True) if flag]
    c, others = len(mine), sum(a != b for a, b in zip(mine, theirs, strict=True))
    return (c / len(x) + c / len(y) + (c - others // 2) / c) / 3


def similarity(x, y, weight=0.1):
    result = jaro(x, y)
    head = next(
        (i for i, (a, b) in enumerate(zip(x[:4], y[:4], strict=False)) if a != b), min(len(x), len(y), 4)
    )
    return result + head * weight * (1 - result) if result > 0.7 else result


def words(lengths, alphabet, seed=0):
    rng = np.random.default_rng(seed)
    return ["".join(chr(97 + c) for c in rng.integers(0, alphabet, n)) for n in lengths]


def near(text, rng):
    output = list(text)
    for i in rng.integers(0, max(1, len(output) - 1), 1 + len(output) // 6):
        output[i : i + 2] = output[i : i + 2][::-1]
    return "".join(output)


def compared(objects, omegas, weight=0.1):
    distance, flat = dk.JaroWinkler(weight), []
    for side in (objects, omegas):
        codes = np.array([ord(symbol) for text in side for symbol in text], np.uint16).reshape(-1, 1)
        flat.append((codes, np.cumsum([0, *map(len, side)])))
    out = np.full((len(objects), len(omegas)), np.nan, np.float32)
    packed = pickle.loads(pickle.dumps(distance.prepare(*flat[1])))
    distance.fill(packed, *flat[0], None, out)
    return out


@pytest.mark.parametrize("alphabet", [1, 2, 5, 26, 3000])
@pytest.mark.parametrize("weight", [0.1, 0, 0.25])
def test_equals_the_definition_at_every_length_and_empty_strings(alphabet, weight):
    rng = np.random.default_rng(alphabet)
    objects = ["", *words([1, 2, 3, 4, 5, 7, 8, 31, 62, 63, 64, 65, 130], alphabet)]
    omegas = [
        *objects,
        *(near(x, rng) for x in objects),
        *words([1, 9, 63, 64, 127, 128, 200], alphabet, seed=1),
    ]
    expected = np.array([[1 - similarity(x, y, weight) for y in omegas] for x in objects])
    # the same operations in the same order; a fused multiply-add could change the last bit
    np.testing.assert_allclose(compared(objects, omegas, weight), expected, rtol=2**-23, atol=2**-50)


def test_equals_rapidfuzz():
    process = pytest.importorskip("rapidfuzz.process")
    metrics = pytest.importorskip("rapidfuzz.distance")
    rng = np.random.default_rng(0)
    for alphabet, most, n in ((2, 63, 200), (26, 90, 200), (4, 400, 40), (30_000, 300, 40), (8, 2500, 6)):
        objects = words(rng.integers(1, most, 20), alphabet)
        omegas = [*words(rng.integers(1, most, n), alphabet, seed=1), *(near(x, rng) for x in objects)]
        options = {"dtype": np.float64, "workers": 1}
        for weight in (0.1, 0.2):
            kwargs = {"prefix_weight": weight}
            theirs = process.cdist(
                objects, omegas, scorer=metrics.JaroWinkler.distance, scorer_kwargs=kwargs, **options
            )
            np.testing.assert_allclose(compared(objects, omegas, weight), theirs, rtol=2**-23, atol=2**-50)
        theirs = process.cdist(objects, omegas, scorer=metrics.Jaro.distance, **options)
        np.testing.assert_allclose(compared(objects, omegas, 0), theirs, rtol=2**-23, atol=2**-50)


def test_published_values():
    """Values of Winkler's papers: Jaro 0.944, 0.822, 0.767 and Winkler 0.961, 0.840, 0.813."""
    pairs = [("MARTHA", "MARHTA"), ("DWAYNE", "DUANE"), ("DIXON", "DICKSONX")]
    for weight, expected in ((0, [0.944, 0.822, 0.767]), (0.1, [0.961, 0.840, 0.813])):
        result = [1 - compared([x], [y], weight)[0, 0] for x, y in pairs]
        np.testing.assert_allclose(result, expected, atol=5.1e-4)


@settings(deadline=None, max_examples=60)
@given(st.lists(st.text("abé\U0001f600", min_size=1, max_size=90), min_size=2, max_size=6))
def test_symmetry_identity_range_and_effect_of_the_prefix(texts):
    D = dk.distance_matrix(texts, distance="jaro-winkler")
    np.testing.assert_array_equal(D, D.T)
    np.testing.assert_array_equal(D == 0, [[x == y for y in texts] for x in texts])
    assert (dk.distance_matrix(texts, distance=dk.JaroWinkler(0)) >= D).all()
    assert D.max() <= 1
    apart = [[not set(x) & set(y) for y in texts] for x in texts]
    assert (D[np.array(apart)] == 1).all()
    np.testing.assert_array_equal(D, dk.distance_matrix(texts, texts, "jaro-winkler"))


def test_triangle_inequality_is_violated():
    D = dk.distance_matrix(["aba", "abab", "bab"], distance="jaro-winkler")
    assert D[0, 2] > D[0, 1] + D[1, 2] + 0.5


def test_entries_do_not_depend_on_other_rows_and_columns():
    rng = np.random.default_rng(0)
    objects = words(rng.integers(1, 90, 12), 4)
    omegas = words([*rng.integers(1, 64, 300), *rng.integers(64, 200, 9)], 4, seed=1)
    D = compared(objects, omegas)
    for i in (0, 3, 7):
        np.testing.assert_array_equal(compared(objects[i : i + 1], omegas), D[i : i + 1])
    order = rng.permutation(len(omegas))
    for some in (order, order[:1], order[:40]):
        np.testing.assert_array_equal(compared(objects, [omegas[j] for j in some]), D[:, some])


def test_embeddings_from_stores_codes_and_model_files_are_identical(tmp_path):
    texts = words([12, 9, 30, 70, 5, 16, 20], 4)
    distance = dk.JaroWinkler(0.2)
    embedding = dk.DistanceEmbedding(distance, n_components=6, gamma=0, random_state=0).fit(texts)
    A = embedding.transform(texts)
    np.testing.assert_array_equal(A, dk.distance_matrix(texts, embedding.omegas_, distance))
    store = dk.write_sets(tmp_path / "s", texts)
    np.testing.assert_array_equal(embedding.transform(store).compute(), A)
    D = dk.distance_matrix(texts, distance=distance)
    np.testing.assert_array_equal(dk.distance_matrix(store, distance=distance), D)
    np.testing.assert_array_equal(dk.distance_matrix([x.encode() for x in texts], distance=distance), D)
    dk.save_model(embedding, tmp_path / "model")
    np.testing.assert_array_equal(dk.load_model(tmp_path / "model").transform(texts), A)


@pytest.mark.parametrize("weight", [-0.1, 0.3, np.nan, "0.1", True, None])
def test_invalid_prefix_weights_are_refused(weight):
    with pytest.raises(ValueError, match="prefix_weight must"):
        dk.JaroWinkler(weight)


def test_points_and_weights_are_refused():
    with pytest.raises(dk.SampleSetError, match="JaroWinkler compares strings"):
        dk.distance_matrix([np.zeros((2, 2))], distance="jaro-winkler")
    with pytest.raises(ValueError, match="weights"):
        dk.JaroWinkler().prepare(np.zeros((3, 1), np.uint8), np.array([0, 3]), np.ones(3, np.float32))
