"""`DistanceEmbedding` and `distance_matrix`: features against single distances, samplers, strings, invalid input."""

import warnings

import numpy as np
import pytest
from scipy.spatial.distance import cdist

import dkdist as dk
from dkdist.distances.landmarks import SAMPLERS

RNG = np.random.default_rng(0)
SETS = dk.SampleSets.from_arrays(
    [RNG.normal(i % 3, 1, (n, 2)) for i, n in enumerate(RNG.integers(3, 20, 40))]
)
WORDS = ["".join(RNG.choice(list("ACGT"), n)) for n in RNG.integers(2, 20, 30)]


def edit_distance(a, b):
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        above, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            above, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, above + (x != y))
    return row[-1]


def warping(a, b):
    ground, D = cdist(a, b, "sqeuclidean"), np.full((len(a) + 1, len(b) + 1), np.inf)
    D[0, 0] = 0
    for i in range(len(a)):
        for j in range(len(b)):
            D[i + 1, j + 1] = ground[i, j] + min(D[i, j], D[i, j + 1], D[i + 1, j])
    return D[-1, -1]


def modified_hausdorff(a, b):
    ground = cdist(a, b)
    return max(ground.min(axis=1).mean(), ground.min(axis=0).mean())


def table(function, objects, others):
    return np.array([[function(a, b) for b in others] for a in objects])


CASES = {
    "dtw": (SETS, warping),
    "modified-hausdorff": (SETS, modified_hausdorff),
    "levenshtein": (dk.SampleSets.from_strings(WORDS), edit_distance),
}


def as_objects(sets):
    return list(sets) if sets.alphabet is None else sets.strings()


@pytest.mark.parametrize("name", CASES)
def test_features_equal_their_formula_of_reference_distances(name):
    sets, function = CASES[name]
    embedding = dk.DistanceEmbedding(name, n_components=9, gamma=0, random_state=0).fit(sets)
    D = table(function, as_objects(sets), as_objects(embedding.omegas_))
    np.testing.assert_allclose(embedding.transform(sets), D, rtol=1e-5, atol=1e-5)
    several = dk.DistanceEmbedding(name, n_components=9, gamma=[0.5, 0, 2], random_state=0).fit(sets)
    A = several.transform(sets)
    np.testing.assert_allclose(A[:, :9], np.exp(-0.5 * D) / np.sqrt(27), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(A[:, 9:18], D, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(A[:, 18:], np.exp(-2 * D) / np.sqrt(27), rtol=1e-4, atol=1e-6)
    median = dk.DistanceEmbedding(name, n_components=9, gamma="median", random_state=0).fit(sets)
    assert median.gamma_ == pytest.approx(1 / np.median(D[D > 0]), rel=1e-4)
    assert median.transform(sets).max() <= 1 / 3


@pytest.mark.parametrize("name", CASES)
def test_matrices_equal_reference_distances(name):
    sets, function = CASES[name]
    objects = as_objects(sets)
    D = dk.distance_matrix(sets, distance=name)
    np.testing.assert_allclose(D, table(function, objects, objects), rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(D, D.T)
    np.testing.assert_array_equal(dk.distance_matrix(sets, sets[:7], distance=name)[7:], D[7:, :7])


def test_stores_give_bit_identical_matrices(tmp_path):
    store = dk.write_sets(tmp_path / "s", SETS)
    D = dk.distance_matrix(SETS, distance="energy")
    np.testing.assert_array_equal(dk.distance_matrix(store, distance="energy"), D)
    np.testing.assert_array_equal(dk.distance_matrix(store, SETS[:5], distance="energy"), D[:, :5])


def test_standardised_columns_have_mean_zero_and_deviation_one(tmp_path):
    embedding = dk.DistanceEmbedding("chamfer", n_components=20, standardize=True, random_state=0)
    A = embedding.fit_transform(SETS)
    np.testing.assert_allclose(A.mean(axis=0), 0, atol=1e-5)
    np.testing.assert_allclose(A.std(axis=0), 1, atol=1e-5)
    store = dk.write_sets(tmp_path / "s", SETS, chunk_rows=16)
    np.testing.assert_array_equal(embedding.fit(store).transform(store).compute(), A)


def test_a_constant_feature_is_zero_when_standardised():
    embedding = dk.DistanceEmbedding(
        dk.pairwise(lambda a, b: 2.0), n_components=3, standardize=True, random_state=0
    )
    np.testing.assert_array_equal(embedding.fit_transform(SETS), 0)


def test_strings_in_stores_and_lists_have_the_same_rows(tmp_path):
    embedding = dk.DistanceEmbedding("levenshtein", n_components=50, random_state=0)
    A = embedding.fit_transform(WORDS)
    store = dk.write_sets(tmp_path / "s", WORDS)
    np.testing.assert_array_equal(embedding.fit(store).transform(store).compute(), A)
    # another alphabet gives other codes, not other distances
    np.testing.assert_array_equal(embedding.transform(dk.SampleSets.from_strings(WORDS[5:], "TGCA")), A[5:])


# modules of rapidfuzz, except for the distance that this file computes itself
PEER_BY_DISTANCE = {
    "osa": "OSA", "indel": "Indel", "damerau-levenshtein": "DamerauLevenshtein", "jaro-winkler": "JaroWinkler",
}  # fmt: skip
UNKNOWN_WORDS = ["GNT", "NN", "XY", "YX", "gat", "GATTACA"]  # N, X, Y and lower case do not occur in WORDS


@pytest.mark.parametrize("name", ["levenshtein", *PEER_BY_DISTANCE])
def test_an_unknown_symbol_differs_from_all_others(name, tmp_path):
    if name == "levenshtein":
        distance = edit_distance
    else:
        peers = pytest.importorskip("rapidfuzz.distance", reason="needs rapidfuzz")
        distance = getattr(peers, PEER_BY_DISTANCE[name]).distance
    embedding = dk.DistanceEmbedding(name, n_components=8, gamma=0, random_state=0).fit(WORDS)
    rows = embedding.transform(UNKNOWN_WORDS)
    expected = table(distance, UNKNOWN_WORDS, embedding.omegas_.strings())
    np.testing.assert_allclose(rows, expected, rtol=0, atol=1e-6)  # float32 fractions of at most 1
    store = dk.write_sets(tmp_path / "words", UNKNOWN_WORDS)
    np.testing.assert_array_equal(embedding.transform(store).compute(), rows)
    # the columns lack the symbols of most rows, and the rows lack those of most columns
    D = dk.distance_matrix(UNKNOWN_WORDS, ["NX", "XN", "zz", "ta"], distance=name)
    expected = table(distance, UNKNOWN_WORDS, ["NX", "XN", "zz", "ta"])
    np.testing.assert_allclose(D, expected, rtol=0, atol=1e-6)


def test_unknown_symbols_raise_on_request():
    refusing = dk.DistanceEmbedding("levenshtein", n_components=8, unknown_symbols="raise", random_state=0)
    with pytest.raises(
        dk.SampleSetError, match="symbol 1 of set 2 must occur in the strings passed to fit; got 'N'"
    ):
        refusing.fit(WORDS).transform(["A", "C", "GNT"])
    skipping = dk.DistanceEmbedding(
        "levenshtein", n_components=8, unknown_symbols="raise", on_error="skip", random_state=0
    ).fit(WORDS)
    with pytest.warns(UserWarning, match="1 invalid set"):
        rows = skipping.transform(["A", "GNT"])
    assert np.isnan(rows[1]).all()
    assert np.isfinite(rows[0]).all()


def test_a_pairwise_function_receives_unknown_symbols_unchanged():
    received = set()

    def distance(a, b):
        received.add(a)
        return edit_distance(a, b)

    embedding = dk.DistanceEmbedding(
        dk.pairwise(distance, symmetric=False), n_components=8, gamma=0, random_state=0
    ).fit(WORDS)
    received.clear()
    rows = embedding.transform(UNKNOWN_WORDS)
    assert received == set(UNKNOWN_WORDS)
    np.testing.assert_array_equal(rows, table(edit_distance, UNKNOWN_WORDS, embedding.omegas_.strings()))


def test_a_pairwise_function_receives_strings_as_str():
    def lengths(a, b):
        assert isinstance(a, str)
        assert isinstance(b, str)
        return float(abs(len(a) - len(b)))

    embedding = dk.DistanceEmbedding(dk.pairwise(lengths), n_components=5, gamma=0, random_state=0).fit(WORDS)
    expected = table(lengths, WORDS, embedding.omegas_.strings())
    np.testing.assert_array_equal(embedding.transform(WORDS), expected)


def test_weights_count_as_repeated_points():
    sizes = RNG.integers(1, 4, (12, 5))
    points = RNG.normal(size=(12, 5, 2))
    weighted = dk.SampleSets.from_arrays(list(points), weights=list(sizes.astype(float)))
    repeated = [np.repeat(p, n, axis=0) for p, n in zip(points, sizes, strict=True)]
    for distance in ("energy", "modified-hausdorff", "chamfer", "sliced-wasserstein"):
        one = dk.distance_matrix(weighted, distance=distance, random_state=0)
        np.testing.assert_allclose(
            one, dk.distance_matrix(repeated, distance=distance, random_state=0), atol=1e-5
        )
    A = dk.DistanceEmbedding("energy", n_components=6, random_state=0).fit_transform(weighted)
    assert np.isfinite(A).all()


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_samplers_draw_objects_of_the_documented_kind(sampler):
    text = sampler in ("uniform", "markov")
    sets = dk.SampleSets.from_strings(WORDS) if text else SETS
    lengths = "auto" if sampler in ("element", "object", "leverage", "supervised") else (2, 7)
    y = np.arange(len(sets)) % 2  # only the supervised sampler uses targets
    distance = "levenshtein" if text else "dtw"
    output, again = (
        dk.DistanceEmbedding(distance, sampler, 30, lengths=lengths, random_state=3).fit(sets, y).omegas_
        for _ in range(2)
    )
    np.testing.assert_array_equal(output.points, again.points)
    assert len(output) == 30
    if lengths != "auto" and sampler != "mixed":
        assert set(output.sizes.tolist()) == set(range(2, 8))
    objects = as_objects(sets)
    if sampler in ("object", "leverage", "supervised", "mixed"):
        assert len({tuple(o.ravel()) for o in output} & {tuple(o.ravel()) for o in objects}) == 30
    elif sampler in ("subsample", "segment", "element"):
        assert all(any(is_piece(o, x, sampler == "segment") for x in objects) for o in output)
        assert sampler != "element" or set(output.sizes.tolist()) == {1}
    elif sampler == "sphere":
        np.testing.assert_allclose(
            np.linalg.norm(output.points, axis=1), np.sqrt((SETS.points**2).sum(1).mean()), rtol=1e-5
        )
    elif sampler == "ball":
        assert (
            np.linalg.norm(output.points, axis=1).max() <= np.linalg.norm(SETS.points, axis=1).max() * 1.00001
        )
    elif text:
        assert set("".join(output.strings())) == set("ACGT")


def is_piece(piece, whole, contiguous):
    """Return whether the rows of ``piece`` are rows of ``whole``, in order."""
    if contiguous:
        starts = range(len(whole) - len(piece) + 1)
        return any(np.array_equal(whole[a : a + len(piece)], piece) for a in starts)
    rest = iter(whole.tolist())
    return all(row in rest for row in piece.tolist())


def test_markov_sampler_draws_only_observed_transitions():
    words = ["ABABABABAB", "BABABABA"] * 5
    output = (
        dk.DistanceEmbedding("levenshtein", "markov", 50, lengths=(5, 9), random_state=0).fit(words).omegas_
    )
    assert all("AA" not in word and "BB" not in word for word in output.strings())


def test_options_of_a_distance_object_are_used():
    band = dk.DistanceEmbedding(dk.DynamicTimeWarping(band=0.0, root=True), n_components=4, random_state=0)
    assert not np.array_equal(
        band.fit_transform(SETS),
        dk.DistanceEmbedding("dtw", n_components=4, random_state=0).fit_transform(SETS),
    )


def test_models_with_named_distances_are_saved_but_user_functions_refused(tmp_path):
    embedding = dk.DistanceEmbedding("levenshtein", n_components=8, standardize=True, random_state=0).fit(
        WORDS
    )
    dk.save_model(embedding, tmp_path / "m.npz")
    loaded = dk.load_model(tmp_path / "m.npz")
    np.testing.assert_array_equal(loaded.transform(WORDS), embedding.transform(WORDS))
    own = dk.DistanceEmbedding(dk.pairwise(lambda a, b: 1.0), n_components=2, random_state=0).fit(SETS)
    with pytest.raises(ValueError, match="a model file cannot hold"):
        dk.save_model(own, tmp_path / "own.npz")


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"distance": "dwt"}, "distance must be one of 'dtw', .*'levenshtein'.*got 'dwt'"),
        ({"distance": len}, r"Pass pairwise\(function\)"),
        ({"distance": dk.Chamfer}, "distance must be a name"),
        ({"sampler": "segments"}, "sampler must be one of 'auto', 'subsample'.*got 'segments'"),
        ({"sampler": "markov"}, "got 'markov', a sampler of strings"),
        ({"sampler": "object", "n_components": 41}, "at most 40, the number of sampled objects, .*; got 41"),
        ({"sampler": "object", "lengths": (1, 2)}, "has no effect"),
        ({"lengths": (5, 90)}, "at most 19, the size of the longest of 40 sampled objects; got \\(5, 90\\)"),
        ({"lengths": (5, 4)}, "min <= max"),
        ({"lengths": 5}, r"\(min, max\); got 5"),
        ({"lengths": "long"}, "got 'long'"),
        ({"gamma": -1}, "gamma must be 'auto', 'median', a number from 0"),
        ({"gamma": [1.0, 1e200]}, "gamma must be 'auto', 'median', a number from 0"),
        ({"gamma": "mean"}, "gamma must be one of 'auto', 'median'"),
        ({"standardize": "no"}, "standardize must be .*; got 'no'"),
        ({"standardize": 1}, "standardize must be .*; got 1"),
        ({"n_components": 0}, "n_components must be an integer >= 1"),
        ({"unknown_symbols": "drop"}, "'differ', 'raise'"),
        (
            {"distance": "levenshtein"},
            "Levenshtein compares strings; got real-valued points of 2",
        ),
        ({"distance": dk.pairwise(lambda a, b: -1.0)}, "got -1.0 for sets 0 and 0"),
        ({"distance": dk.pairwise(lambda a, b: np.nan)}, "got nan for sets 0 and 0"),
        ({"distance": dk.pairwise(lambda a, b: float(len(a)))}, "function must be symmetric"),
    ],
)
def test_invalid_parameters_are_refused_by_name(parameters, message):
    choices = {"distance": "dtw", "n_components": 4, "random_state": 0, **parameters}
    with pytest.raises((ValueError, TypeError), match=message):
        dk.DistanceEmbedding(**choices).fit(SETS)


def test_invalid_sets_are_refused_by_name():
    embedding = dk.DistanceEmbedding("dtw", n_components=4, random_state=0)
    with pytest.raises(dk.SampleSetError, match="set 1 must have 2 dimensions, as set 0; got 3"):
        embedding.fit([np.zeros((4, 2)), np.zeros((4, 3))])
    with pytest.raises(dk.SampleSetError, match="point 2 of set 1 is nan"):
        embedding.fit([np.zeros((4, 1)), np.array([[0.0], [1], [np.nan]])])
    with pytest.raises(dk.SampleSetError, match=r"got strings of characters .* Use 'levenshtein'"):
        embedding.fit(WORDS)
    with pytest.raises(dk.SampleSetError, match="does not use weights"):
        embedding.fit(dk.SampleSets.from_arrays([np.zeros((3, 1))] * 5, weights=[np.ones(3)] * 5))
    with pytest.raises(dk.SampleSetError, match=r"string 1 \(set 1\) is empty"):
        dk.DistanceEmbedding("levenshtein").fit(["a", ""])
    fitted = dk.DistanceEmbedding("levenshtein", n_components=4, random_state=0).fit(WORDS)
    with pytest.raises(dk.SampleSetError, match="as in fit; got points or codes without an alphabet"):
        fitted.transform([b"ACGT"])
    with pytest.raises(dk.SampleSetError, match=r"Embed them with DistanceEmbedding\('levenshtein'\)"):
        dk.DivergenceEmbedding().fit(WORDS)
    with pytest.raises(ValueError, match="1 number per pair; DirectedModifiedHausdorff gives 2"):
        dk.distance_matrix(SETS, distance="directed-modified-hausdorff")


def test_an_invalid_distance_in_transform_names_the_set_and_object():
    embedding = dk.DistanceEmbedding(
        dk.pairwise(lambda a, b: np.nan if len(a) == 50 else 1.0), n_components=2, random_state=0
    ).fit(SETS)
    with pytest.raises(
        dk.SampleSetError, match=r"the distance of set 1 to random object 0 must be .*; got nan"
    ):
        embedding.transform([np.zeros((3, 2)), np.zeros((50, 2))])


def test_a_function_declared_asymmetric_needs_no_symmetry():
    ahead = dk.pairwise(lambda a, b: max(0.0, float(a.mean() - b.mean())), symmetric=False)
    D = dk.distance_matrix(SETS, distance=ahead)
    assert not np.array_equal(D, D.T)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        dk.DistanceEmbedding(ahead, n_components=4, random_state=0).fit_transform(SETS)


@pytest.mark.parametrize(
    "distance",
    ["dtw", "energy", "hausdorff", "chamfer", "modified-hausdorff", "directed-modified-hausdorff"],
)
def test_points_whose_squares_exceed_float32_are_refused(distance):
    """Otherwise their distances would be 0, infinity or NaN."""
    rng = np.random.default_rng(0)
    sets = [rng.normal(size=(n, 2)).astype("f4") for n in (3, 5, 4)]
    embedding = dk.DistanceEmbedding(distance, n_components=4, random_state=0)
    for unit in (1e-30, 1e-20, 1e20, 1e30):
        with pytest.raises(dk.SampleSetError, match=r"squares distances in float32 .* other units"):
            embedding.fit([unit * x for x in sets])
    far = [sets[0], 1e20 * sets[1]]
    with pytest.raises(
        dk.SampleSetError, match=r"point . of set 1 has a coordinate of .* requires coordinates <= 1e"
    ):
        embedding.fit(sets).transform(far)
    assert np.isfinite(embedding.transform([0 * x for x in sets])).all()
    degree = 2 if distance in ("dtw", "chamfer") else 1
    if distance != "directed-modified-hausdorff":
        expected = dk.distance_matrix(sets, distance=distance)
        for unit in (2.0**-40, 2.0**40):
            result = dk.distance_matrix([unit * x for x in sets], distance=distance)
            power = 0.5 if distance == "energy" else degree
            np.testing.assert_allclose(result, unit**power * expected, rtol=1e-6)
        with pytest.raises(dk.SampleSetError, match="squares distances in float32"):
            dk.distance_matrix([1e-30 * x for x in sets], distance=distance)


def test_a_matrix_refuses_negative_weights_and_different_dimensions():
    sets = dk.SampleSets.from_arrays([np.ones((2, 1)), np.zeros((2, 1))], [[1, 1], [1, -1]])
    with pytest.raises(dk.SampleSetError, match="weight of point 1 of set 1 is -1"):
        dk.distance_matrix(sets, distance="energy")
    with pytest.raises(dk.SampleSetError, match=r"all sets of other must have 1 dimension.*; got 2"):
        dk.distance_matrix(sets, [np.ones((2, 2))], distance="energy")
