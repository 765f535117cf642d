"""Edit distances with custom costs against the plain table and rapidfuzz: transpositions, indels, weights, pairs."""

from __future__ import annotations

import itertools
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dkdist as dk
from dkdist.distances.strings._bit_parallel_numba import MAX_BANDED_CHAINS, N_CHAINS

EDGES = [1, 2, 3, 31, 32, 61, 62, 63, 64, 65, 126, 127, 128, 188, 189, 190, 252, 253, 254]
INDEL, OSA = dk.Levenshtein(substitution=2), dk.Levenshtein(transposition=1)
WEIGHTS = [
    (1, 1, 1),
    (1, 1, 2),
    (1, 2, 2),
    (3, 3, 2),
    (1, 2, 4),
    (30, 21, 40),
    (5, 1, 6),
    (0, 1, 1),
    (2, 3, 1),
]


def table(x, y, distance, pairs=None):
    """Return the distance from the plain table; ``pairs`` maps (a, b) in both orders to a substitution cost."""
    D = np.zeros((len(x) + 1, len(y) + 1))
    D[:, 0] = distance.deletion * np.arange(len(x) + 1)
    D[0] = distance.insertion * np.arange(len(y) + 1)
    for i, j in itertools.product(range(1, len(x) + 1), range(1, len(y) + 1)):
        a, b = x[i - 1], y[j - 1]
        changed = 0 if a == b else (pairs or {}).get((a, b), distance.substitution)
        D[i, j] = min(
            D[i - 1, j - 1] + changed, D[i - 1, j] + distance.deletion, D[i, j - 1] + distance.insertion
        )
        crosswise = i > 1 and j > 1 and a == y[j - 2] and x[i - 2] == b
        if crosswise and distance.transposition is not None:
            D[i, j] = min(D[i, j], D[i - 2, j - 2] + distance.transposition)
    return D[-1, -1]


def tables(objects, omegas, distance, pairs=None):
    return np.array([[table(x, y, distance, pairs) for y in omegas] for x in objects])


def words(lengths, alphabet, seed=0):
    rng = np.random.default_rng(seed)
    return ["".join(chr(97 + c) for c in rng.integers(0, alphabet, n)) for n in lengths]


def swap_and_delete(text, n_swaps, rng):
    """Return a text with some neighbours swapped and some symbols deleted."""
    output = list(text)
    for i in rng.integers(0, len(output) - 1, n_swaps):
        output[i], output[i + 1] = output[i + 1], output[i]
    for i in sorted(rng.integers(0, len(output), n_swaps // 4).tolist(), reverse=True):
        del output[i : i + 1]
    return "".join(output) or "a"


def task_distances(objects, omegas, distance):
    """Return distances computed as in a task: prepared, pickled, filled."""
    sets = [dk.SampleSets.from_strings(side, "abcdefghijklmnopqrstuvwxyz") for side in (objects, omegas)]
    distance = distance.for_alphabet("abcdefghijklmnopqrstuvwxyz")
    packed = distance.prepare(sets[1].points, sets[1].offsets)
    out = np.full((len(objects), len(omegas)), np.nan, np.float32)
    distance.fill(pickle.loads(pickle.dumps(packed)), sets[0].points, sets[0].offsets, None, out)
    return out


@pytest.mark.parametrize("distance", [OSA, INDEL], ids=["osa", "indel"])
@pytest.mark.parametrize("alphabet", [1, 2, 4, 26])
def test_bit_parallel_distances_equal_the_table_at_every_length(distance, alphabet):
    objects = words([1, 2, 3, 4, 5, 33, 66], alphabet)
    omegas = words(EDGES, alphabet, seed=1)
    expected = tables(objects, omegas, distance)
    np.testing.assert_array_equal(task_distances(objects, omegas, distance), expected)
    np.testing.assert_array_equal(task_distances(omegas, objects, distance), expected.T)


@pytest.mark.parametrize("weights", WEIGHTS)
def test_equals_rapidfuzz(weights):
    process = pytest.importorskip("rapidfuzz.process")
    scorer = pytest.importorskip("rapidfuzz.distance").Levenshtein
    distance = dk.Levenshtein(insertion=weights[0], deletion=weights[1], substitution=weights[2])
    rng = np.random.default_rng(0)
    for alphabet, most in ((2, 60), (4, 300), (26, 150)):
        objects = words(rng.integers(1, most, 9), alphabet)
        omegas = words(rng.integers(1, most, 150), alphabet, seed=1)
        options = {"dtype": np.int32, "workers": 1, "scorer_kwargs": {"weights": weights}}
        expected = process.cdist(objects, omegas, scorer=scorer.distance, **options)
        np.testing.assert_array_equal(task_distances(objects, omegas, distance), expected)
        np.testing.assert_array_equal(task_distances(objects, omegas[:2], distance), expected[:, :2])


@pytest.mark.parametrize(("distance", "name"), [(OSA, "OSA"), (INDEL, "Indel")])
def test_bit_parallel_distances_equal_rapidfuzz_in_words_chains_and_bands(distance, name):
    """A few long strings use bands, many use chains; a swap may cross the edge of a 64-bit word or of a band."""
    process = pytest.importorskip("rapidfuzz.process")
    scorer = getattr(pytest.importorskip("rapidfuzz.distance"), name)
    rng = np.random.default_rng(0)
    options = {"dtype": np.int32, "workers": 1}
    for alphabet, lengths in ((2, (1, 70)), (4, (50, 400)), (3, (900, 1500)), (26, (64, 300))):
        objects = words(rng.integers(*lengths, 6), alphabet)
        omegas = [
            swap_and_delete(x, int(rng.integers(1, len(x) // 2 + 2)), rng) for x in objects if len(x) > 1
        ]
        omegas += words(rng.integers(*lengths, N_CHAINS + 9), alphabet, seed=1)
        expected = process.cdist(objects, omegas, scorer=scorer.distance, **options)
        np.testing.assert_array_equal(task_distances(objects, omegas, distance), expected)
        for few in (omegas[:2], omegas[3 : 2 + MAX_BANDED_CHAINS]):
            result = task_distances(objects, few, distance)
            np.testing.assert_array_equal(
                result, process.cdist(objects, few, scorer=scorer.distance, **options)
            )
        kept = dk.Levenshtein(False, 37, 1, 1, distance.substitution, distance.transposition)
        np.testing.assert_array_equal(
            task_distances(objects, omegas[:9], kept), np.minimum(expected[:, :9], 38)
        )


@settings(deadline=None, max_examples=80)
@given(st.text("abc", min_size=64, max_size=300), st.integers(0, 99), st.integers(0, 2**20))
def test_bands_with_swaps_equal_chains(text, n_swaps, seed):
    other = swap_and_delete(text, n_swaps, np.random.default_rng(seed)) + "a" * 70
    for distance in (OSA, INDEL):
        by_band, in_chains = (
            task_distances([text], [other], distance),
            task_distances([text], [other] * 90, distance),
        )
        np.testing.assert_array_equal(in_chains, np.broadcast_to(by_band, (1, 90)))


def draw_distance(rng, numbers=(0, 0.25, 0.5, 1, 2, 3, 0.1, 0.377)):
    insertion, deletion = rng.choice(numbers, 2)
    transposition = None if rng.random() < 0.3 else float(rng.choice(numbers))
    return dk.Levenshtein(
        insertion=insertion,
        deletion=deletion or 1,
        substitution=rng.choice(numbers),
        transposition=transposition,
    )


@pytest.mark.parametrize("seed", range(12))
def test_any_costs_equal_the_table(seed):
    """Up to rounding: costs are multiples of 2^-28 of the largest, results are float32."""
    rng = np.random.default_rng(seed)
    distance, alphabet = draw_distance(rng), int(rng.integers(1, 6))
    objects = words([1, 4, 5, 6, 7, 23], alphabet, seed)
    omegas = words([1, 2, 9, 30, *rng.integers(1, 20, 150)], alphabet, seed + 1)
    expected = tables(objects, omegas, distance)
    np.testing.assert_allclose(task_distances(objects, omegas, distance), expected, rtol=2**-23, atol=2**-20)


@pytest.mark.parametrize("seed", range(12))
def test_costs_of_pairs_equal_the_table(seed):
    """Pairs may have symbols that occur only in rows, only in columns, or in no string."""
    rng = np.random.default_rng(seed)
    distance = draw_distance(rng)
    some = [pair for pair in itertools.permutations("abcdx", 2) if rng.random() < 0.5] or [("a", "b")]
    costs = {pair: float(rng.choice([0, 0.25, 1, 2.5, 0.61])) for pair in some}
    full = {(b, a): value for (a, b), value in costs.items()} | costs
    with_pairs = dk.Levenshtein(
        insertion=distance.insertion,
        deletion=distance.deletion,
        substitution=distance.substitution,
        transposition=distance.transposition,
        substitution_costs=costs,
    )
    objects, omegas = words([1, 5, 8, 20], 5, seed), words([1, 2, 7, 30, 12], 3, seed + 1)
    expected = tables(objects, omegas, distance, full)
    close = {"rtol": 2**-23, "atol": 2**-20}
    np.testing.assert_allclose(task_distances(objects, omegas, with_pairs), expected, **close)
    np.testing.assert_allclose(dk.distance_matrix(objects, omegas, with_pairs), expected, **close)
    as_bytes = [[x.encode() for x in side] for side in (objects, omegas)]
    np.testing.assert_allclose(dk.distance_matrix(*as_bytes, with_pairs), expected, **close)
    both = tables(objects, objects, distance, full)
    np.testing.assert_allclose(dk.distance_matrix(objects, distance=with_pairs), both, **close)
    assert with_pairs.symmetric == (
        distance.insertion == distance.deletion and all(full[b, a] == v for (a, b), v in full.items())
    )


def test_costs_as_matrix_and_as_dict_are_equivalent():
    matrix = np.array([[0, 0.5, 2], [0.5, 0, 1], [2, 1, 0]])
    pairs = {("a", "b"): 0.5, ("a", "c"): 2.0}
    given = [dk.Levenshtein(substitution_costs=costs) for costs in (("abc", matrix), pairs)]
    assert given[0] == given[1]
    assert hash(given[0]) == hash(given[1])
    codes = [[0, 1, 2, 2], [2, 1, 0], [5, 1]]
    texts = ["abcc", "cba", "xb"]
    D = dk.distance_matrix(codes, distance=dk.Levenshtein(substitution_costs=((0, 1, 2), matrix)))
    np.testing.assert_array_equal(D, dk.distance_matrix(texts, distance=given[0]))
    np.testing.assert_array_equal(
        D, tables(texts, texts, dk.Levenshtein(), {**pairs, ("b", "a"): 0.5, ("c", "a"): 2.0})
    )


def test_alphabets_of_hundreds_of_symbols_equal_the_table():
    rng = np.random.default_rng(0)
    texts = ["".join(map(chr, rng.integers(200, 900, n))) for n in (40, 50, 60, 70, 30)]
    texts += [texts[0][5:], texts[1][::-1]]
    distance = dk.Levenshtein(insertion=2, deletion=2, substitution=3, transposition=1)
    np.testing.assert_array_equal(
        dk.distance_matrix(texts, distance=distance), tables(texts, texts, distance)
    )


@settings(deadline=None, max_examples=60)
@given(st.lists(st.text("abc", min_size=1, max_size=80), min_size=3, max_size=5))
def test_bounds_between_levenshtein_osa_and_indel(texts):
    D = {name: dk.distance_matrix(texts, distance=name) for name in ("levenshtein", "osa", "indel")}
    same = [[x == y for y in texts] for x in texts]
    for result in D.values():
        np.testing.assert_array_equal(result, result.T)
        np.testing.assert_array_equal(result == 0, same)
    for metric in (D["levenshtein"], D["indel"]):
        assert (metric[:, None, :] <= metric[:, :, None] + metric[None, :, :]).all()
    assert (D["osa"] <= D["levenshtein"]).all()
    assert (D["levenshtein"] <= 2 * D["osa"]).all()
    assert (D["levenshtein"] <= D["indel"]).all()
    assert (D["indel"] <= 2 * D["levenshtein"]).all()


def test_osa_is_not_a_metric_and_equals_levenshtein_without_swaps():
    D = dk.distance_matrix(["ca", "ac", "abc"], distance="osa")
    assert D[0, 2] > D[0, 1] + D[1, 2]
    rng = np.random.default_rng(0)
    # nothing to swap
    apart = ["".join(chr(97 + c) for c in np.sort(rng.integers(0, 26, 90))) for _ in range(20)]
    np.testing.assert_array_equal(
        dk.distance_matrix(apart, distance="osa"), dk.distance_matrix(apart, distance="levenshtein")
    )


@pytest.mark.parametrize("distance", [OSA, INDEL, dk.Levenshtein(insertion=1, deletion=3, substitution=2.5)])
def test_entries_do_not_depend_on_other_rows_and_columns(distance):
    rng = np.random.default_rng(0)
    objects = words(rng.integers(1, 90, 8), 4)
    omegas = words([*rng.integers(1, 64, 300), *rng.integers(64, 200, N_CHAINS + 5)], 4, seed=1)
    D = task_distances(objects, omegas, distance)
    for i in (0, 3, 7):
        np.testing.assert_array_equal(task_distances(objects[i : i + 1], omegas, distance), D[i : i + 1])
    order = rng.permutation(len(omegas))
    for some in (order, order[:1], order[:40]):
        np.testing.assert_array_equal(
            task_distances(objects, [omegas[j] for j in some], distance), D[:, some]
        )


def test_unequal_insertion_and_deletion_give_an_asymmetric_distance():
    """D[i, j] is the cost of turning i into j; exchanging the two costs transposes D."""
    texts = words([3, 8, 70, 12], 3)
    one = dk.Levenshtein(insertion=1, deletion=2.5, substitution=2)
    other = dk.Levenshtein(insertion=2.5, deletion=1, substitution=2)
    D = dk.distance_matrix(texts, distance=one)
    assert not one.symmetric
    assert (D != D.T).any()
    np.testing.assert_array_equal(D, dk.distance_matrix(texts, distance=other).T)
    with pytest.raises(ValueError, match="symmetric"):
        dk.PseudoEuclideanEmbedding().fit(D)
    with pytest.raises(ValueError, match=r"leverage.*symmetric.*Levenshtein"):
        dk.DistanceEmbedding(one, "leverage", n_components=2).fit(texts)
    with pytest.raises(ValueError, match=r"nystroem.*symmetric.*Levenshtein"):
        dk.DistanceEmbedding(one, n_components=2, gamma=1, standardize="nystroem").fit(texts)


@pytest.mark.parametrize("weights", WEIGHTS)
def test_normalize_divides_by_the_largest_distance_for_both_lengths(weights):
    metrics = pytest.importorskip("rapidfuzz.distance").Levenshtein
    texts = [*words([1, 5, 20, 90, 64], 3), "zzzz"]
    distance = dk.Levenshtein(True, None, *weights)
    expected = [[metrics.normalized_distance(x, y, weights=weights) for y in texts] for x in texts]
    D = dk.distance_matrix(texts, distance=distance)
    np.testing.assert_allclose(D, expected, rtol=2**-23)
    assert D.max() == 1
    cut = dk.distance_matrix(texts, distance=dk.Levenshtein(False, 9, *weights))
    np.testing.assert_array_equal(
        cut, np.minimum(dk.distance_matrix(texts, distance=dk.Levenshtein(False, None, *weights)), 10)
    )


@pytest.mark.parametrize("name", ["osa", "indel", "typed"])
def test_embeddings_from_stores_and_model_files_are_identical(tmp_path, name):
    distance = (
        dk.Levenshtein(transposition=0.5, substitution_costs={("a", "b"): 0.5}) if name == "typed" else name
    )
    texts = words([12, 9, 30, 70, 5, 16, 20], 4)
    embedding = dk.DistanceEmbedding(distance, n_components=6, gamma=0, random_state=0).fit(texts)
    A = embedding.transform(texts)
    np.testing.assert_array_equal(A, dk.distance_matrix(texts, embedding.omegas_, distance))
    store = dk.write_sets(tmp_path / "s", texts)
    np.testing.assert_array_equal(embedding.transform(store).compute(), A)
    np.testing.assert_array_equal(
        dk.distance_matrix(store, distance=distance), dk.distance_matrix(texts, distance=distance)
    )
    dk.save_model(embedding, tmp_path / "model")
    np.testing.assert_array_equal(dk.load_model(tmp_path / "model").transform(texts), A)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"insertion": -1}, "insertion must be"),
        ({"deletion": np.nan}, "deletion must be"),
        ({"substitution": "1"}, "substitution must be"),
        ({"transposition": -0.5}, "transposition must be"),
        ({"transposition": True}, "transposition must be"),
        ({"insertion": 0, "deletion": 0}, "insertion and deletion must not both be 0"),
        ({"substitution_costs": 2.0}, "substitution_costs must be a dict of pairs"),
        ({"substitution_costs": {}}, "empty dict"),
        ({"substitution_costs": {"abc": 1}}, "keys of substitution_costs must be pairs of symbols.*'abc'"),
        ({"substitution_costs": {("a", "b"): -1}}, "the cost of 'a' for 'b' must be"),
        (
            {"substitution_costs": ("ab", [[0, 1]])},
            r"a row and a column for each of 2 symbols; got shape \(1, 2\)",
        ),
        ({"substitution_costs": ("aa", np.zeros((2, 2)))}, "must be distinct"),
        ({"substitution_costs": ("ab", np.ones((2, 2)))}, "must be 0 for equal symbols; got 1 for 'a'"),
    ],
)
def test_invalid_costs_are_refused(options, message):
    with pytest.raises((ValueError, TypeError), match=message):
        dk.Levenshtein(**options)


def test_costs_of_codes_are_refused_for_text():
    distance = dk.Levenshtein(substitution_costs={(0, 1): 0.5})
    assert dk.distance_matrix([[0, 1]], [[1, 1]], distance)[0, 0] == 0.5
    with pytest.raises(
        ValueError, match=r"must be costs of characters; got costs of codes.*strings of characters"
    ):
        dk.distance_matrix(["ab"], distance=distance)
