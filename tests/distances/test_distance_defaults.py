"""Defaults of `DistanceEmbedding`: features match their formula, also from stores; doubtful guesses warn."""

import warnings

import numpy as np
import pytest
from sklearn.preprocessing import StandardScaler

import dkdist as dk

RNG = np.random.default_rng(0)
SETS = dk.SampleSets.from_arrays(
    [RNG.normal(i % 3, 1, (n, 2)) for i, n in enumerate(RNG.integers(3, 20, 40))]
)
WORDS = ["".join(RNG.choice(list("ACGT"), n)) for n in RNG.integers(5, 20, 30)]


def default(name, R, sets):
    return dk.DistanceEmbedding(name, n_components=R, random_state=0).fit(sets)


@pytest.mark.parametrize(("name", "sets"), [("energy", SETS), ("dtw", SETS), ("levenshtein", WORDS)])
def test_features_are_standardised_exponentials_of_the_distances(name, sets):
    embedding = default(name, 12, sets)
    D = dk.distance_matrix(sets, embedding.omegas_, name)
    share = 1.0 if name == "levenshtein" else 0.3
    assert embedding.gamma_ == pytest.approx(share / np.median(D[D > 0]), rel=1e-4)
    expected = StandardScaler().fit_transform(np.exp(-embedding.gamma_ * D)) / np.sqrt(12)
    A = embedding.transform(sets)
    np.testing.assert_allclose(A, expected, atol=1e-4)  # float32 rounding over deviations of about 0.1
    assert (A.astype(np.float64) ** 2).sum(axis=1).mean() == pytest.approx(1, abs=1e-4)


@pytest.mark.parametrize(("name", "sets"), [("energy", SETS), ("levenshtein", WORDS)])
def test_stores_give_bit_identical_rows(name, sets, tmp_path):
    store = dk.write_sets(tmp_path / "s", sets)
    lazy = default(name, 12, store).transform(store)
    np.testing.assert_array_equal(lazy.compute(), default(name, 12, sets).transform(sets))


def test_feature_scales_are_estimated_from_a_sample():
    """The sample has 256 of the 1500 sets, so that column deviations are off by a few percent."""
    sets = [RNG.normal(0, 1 + i % 2, (8, 1)) for i in range(1500)]
    A = default("energy", 16, sets).transform(sets)
    np.testing.assert_allclose(A.std(axis=0) * 4, 1, atol=0.25)
    np.testing.assert_allclose(A.mean(axis=0) * 4, 0, atol=0.25)  # four standard errors for 256 sets


def test_a_constant_feature_is_not_rescaled():
    embedding = default("energy", 4, [[[0.0]], [[0.0]], [[0.0]]])
    np.testing.assert_array_equal(embedding.transform([[[0.0]]]), 0)
    far = embedding.transform([[[50.0]]])
    assert np.isfinite(far).all()
    assert (np.abs(far) <= 1 / np.sqrt(4)).all()


def test_an_explicit_gamma_disables_standardization():
    for gamma in ("median", 0.1, 0, [0.1, 1.0]):
        remaining = dk.DistanceEmbedding("energy", n_components=6, gamma=gamma, random_state=0)
        plain = dk.DistanceEmbedding("energy", n_components=6, gamma=gamma, standardize=False, random_state=0)
        np.testing.assert_array_equal(remaining.fit_transform(SETS), plain.fit_transform(SETS))


def test_default_string_landmarks_are_whole_strings_then_substrings():
    few = default("levenshtein", 12, WORDS).omegas_.strings()
    assert set(few) <= set(WORDS)
    many = default("levenshtein", 50, WORDS).omegas_.strings()
    assert sorted(many[: len(WORDS)]) == sorted(WORDS)
    assert all(any(piece in word for word in WORDS) for piece in many)
    median = int(np.median([len(word) for word in WORDS]))
    assert {len(piece) for piece in many[len(WORDS) :]} <= set(range(-(-3 * median // 4), median + 1))
    pieces = dk.DistanceEmbedding("levenshtein", n_components=9, lengths=(2, 3), random_state=0).fit(WORDS)
    assert set(pieces.omegas_.sizes.tolist()) <= {2, 3}
    assert set(default("energy", 40, SETS).omegas_.sizes.tolist()) == set(SETS.sizes.tolist())
    sets = dk.DistanceEmbedding("energy", "mixed", 60, lengths=(1, 2), random_state=0).fit(SETS).omegas_
    assert set(sets.sizes[len(SETS) :].tolist()) == {1, 2}


def test_long_strings_get_short_landmarks_and_a_warning():
    long = ["".join(RNG.choice(list("AB"), 300)) for _ in range(12)]
    with pytest.warns(UserWarning, match=r"more than 300 points.*objects of 1 to 64 points.*lengths=\(min"):
        output = default("levenshtein", 8, long)
    assert output.omegas_.sizes.max() <= 64
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        dk.DistanceEmbedding("levenshtein", n_components=8, lengths=(20, 90), random_state=0).fit(long)
        dk.DistanceEmbedding("levenshtein", "object", n_components=8, random_state=0).fit(long)


def test_columns_of_different_scale_warn():
    wide = [x * [1.0, 1e4] for x in SETS]
    with pytest.warns(
        UserWarning, match=r"Energy uses one unit for all columns.*column 1 .*column 0 .*SetScaler"
    ):
        default("energy", 4, wide)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        default("energy", 4, dk.SetScaler().fit_transform(wide))
        default("energy", 4, [x * [1.0, 0.0] for x in SETS])  # a constant column does not count
        dk.DistanceEmbedding("energy", n_components=4, gamma=0, random_state=0).fit(wide)
