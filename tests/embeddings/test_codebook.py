"""`CodebookEmbedding`: rows match histograms of nearest words in NumPy, and divergences in closed form."""

import numpy as np
import pytest
from oracles import gaussian_mixtures, squared_distances
from scipy.special import rel_entr

import dkdist as dk
from dkdist.embeddings._tuning import POINTS_PER_WORD

EPS = 2.0**-24  # rounding error of float32
KAPPAS = {  # in closed form, from their definitions
    "hellinger": lambda p, q: (np.sqrt(p) - np.sqrt(q)) ** 2 / 2,
    "jensen-shannon": lambda p, q: (rel_entr(p, (p + q) / 2) + rel_entr(q, (p + q) / 2)) / 2,
    "chi2": lambda p, q: (p - q) ** 2 / np.where(p + q > 0, p + q, 1),
    "total-variation": lambda p, q: np.abs(p - q),
}


def weighted_sets(n_sets, d, weighted=True, seed=0):
    arrays, rng = gaussian_mixtures(n_sets, d, 150, seed), np.random.default_rng(seed)
    arrays = [x[: rng.integers(1, 150)] for x in arrays]
    return dk.SampleSets.from_arrays(arrays, [rng.random(len(x)) for x in arrays] if weighted else None)


def nearest_word_fractions(sets, words):
    """Return the fractions (n_sets, n_words) by brute force in float64; the nearest word must be unambiguous."""
    fractions = np.empty((len(sets), len(words)))
    for i, x in enumerate(sets):
        squares = ((x[:, None].astype(np.float64) - words) ** 2).sum(axis=2)
        smallest, second = np.sort(squares, axis=1)[:, :2].T
        # in float32, d differences, their squares and d - 1 sums are each rounded once
        assert (second - smallest > (x.shape[1] + 2) * EPS * (second + smallest)).all()
        w = np.ones(len(x)) if sets.weights is None else sets.weights_of(i).ravel().astype(np.float64)
        fractions[i] = np.bincount(squares.argmin(axis=1), w, len(words)) / w.sum()
    return fractions


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("d", "n_words"), [(1, 3), (2, 16), (3, 70), (17, 20)])
def test_rows_are_fractions_at_the_nearest_words(d, n_words, weighted):
    sets = weighted_sets(40, d, weighted)
    embedding = dk.CodebookEmbedding(n_words, random_state=0).fit(sets)
    rows = embedding.transform(sets)
    assert (rows.dtype, rows.shape, embedding.words_.shape) == (np.float32, (40, n_words), (n_words, d))
    np.testing.assert_allclose(rows, nearest_word_fractions(sets, embedding.words_), rtol=2 * EPS)


@pytest.mark.parametrize("name", KAPPAS)
def test_squared_distances_are_divergences_of_fractions(name):
    sets = weighted_sets(40, 3)
    p = dk.CodebookEmbedding(20, random_state=0).fit_transform(sets).astype(np.float64)
    rows = dk.CodebookEmbedding(20, name, random_state=0).fit_transform(sets)
    i, j = np.triu_indices(40, 1)
    exact = KAPPAS[name](p[i], p[j]).sum(axis=1)
    errors = squared_distances(rows, i, j) - exact
    # the errors of the map that HistogramEmbedding states; Hellinger only rounds
    bound = {"hellinger": 20 * 4 * EPS, "total-variation": 0.05}.get(name, 2.5e-3)
    assert np.sqrt(np.mean(errors**2)) < bound * max(1.0, exact.mean())


def test_intersection_is_the_inner_product_of_rows():
    sets = weighted_sets(30, 2)
    p = dk.CodebookEmbedding(12, random_state=0).fit_transform(sets).astype(np.float64)
    rows = dk.CodebookEmbedding(12, "intersection", random_state=0).fit_transform(sets).astype(np.float64)
    exact = np.minimum(p[:, None], p).sum(axis=2)
    assert np.sqrt(np.mean((rows @ rows.T - exact) ** 2)) < 0.02


def test_words_are_the_means_of_separate_clusters():
    rng = np.random.default_rng(0)
    centres = 10.0 * np.arange(5)[:, None] + [0, 100]
    sets = [centres[rng.integers(5, size=40)] + rng.normal(0, 0.1, (40, 2)) for _ in range(50)]
    words = dk.CodebookEmbedding(5, random_state=0).fit(sets).words_
    # 400 points per cluster have a standard error of 0.005; means over batches of 1,024 have about twice that
    np.testing.assert_allclose(words[words[:, 0].argsort()], centres, atol=0.05)


def test_the_sample_per_word_is_large_enough():
    """New points are nearly as close to the words as if k-means had used four times as many points."""
    sets = gaussian_mixtures(300, 2, 300, 0)
    new = np.concatenate(gaussian_mixtures(100, 2, 300, 1))

    def distortion(n_words_of_sample):
        points = np.concatenate(sets)[: POINTS_PER_WORD * n_words_of_sample]
        words = dk.CodebookEmbedding(32, random_state=0).fit([points]).words_
        return ((new[:, None] - words) ** 2).sum(axis=2).min(axis=1).mean()

    assert distortion(32) < 1.1 * distortion(128)


@pytest.mark.parametrize("exponent", [-100, 100])
def test_units_of_points_change_nothing(exponent):
    """Squares of the points would underflow or overflow in float32."""
    arrays = [x - 0.5 for x in gaussian_mixtures(20, 2, 50, 0)]
    expected = dk.CodebookEmbedding(8, random_state=0).fit_transform(arrays)
    scaled = [x * 2.0**exponent for x in arrays]
    np.testing.assert_array_equal(dk.CodebookEmbedding(8, random_state=0).fit_transform(scaled), expected)


def test_distant_points_have_a_nearest_word():
    embedding = dk.CodebookEmbedding(2, random_state=0).fit([[[0.0], [1.0]]])
    np.testing.assert_array_equal(embedding.transform([[[1e30], [-1e30]]]).sum(axis=1), [1])


def test_points_of_weight_zero_have_no_word():
    points = np.array([[0.0], [1.0], [50.0]])
    sets = dk.SampleSets(points, [0, 3], [1.0, 1.0, 0.0])
    embedding = dk.CodebookEmbedding(2, random_state=0).fit(sets)
    assert sorted(embedding.words_[:, 0]) == [0, 1]
    with pytest.raises(ValueError, match="n_words must be at most 2, the number of distinct points"):
        dk.CodebookEmbedding(3).fit(sets)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"n_words": 0}, "n_words must be an integer >= 1; got 0"),
        ({"n_words": 2.5}, "n_words must be an integer >= 1; got 2.5"),
        ({"n_words": 9}, "n_words must be at most 8, the number of distinct points in a sample of 16; got 9"),
        ({"divergence": "kullback"}, "divergence must be one of 'linear', .*'hellinger'.* got 'kullback'"),
        ({"random_state": -1}, "random_state must be None, an integer >= 0"),
        ({"on_error": "drop"}, "on_error must be one of 'raise', 'skip'"),
    ],
)
def test_invalid_parameters_raise(params, message):
    points = np.repeat(np.arange(8.0), 2)[:, None]
    with pytest.raises(ValueError, match=message):
        dk.CodebookEmbedding(**{"n_words": 4} | params).fit([points[:5], points[5:]])


def test_invalid_sets_raise():
    embedding = dk.CodebookEmbedding(2, random_state=0)
    with pytest.raises(dk.SampleSetError, match="all sets are strings"):
        embedding.fit(["abc", "abd"])
    with pytest.raises(dk.SampleSetError, match=r"all sets must have 1 dimension\(s\), as in fit; got 2"):
        embedding.fit([[[0.0], [1.0]]]).transform([[[0.0, 1.0]]])


def test_influence_is_the_derivative_of_the_row():
    """(row of (1 - t) P + t delta) - row, over t, for weights of points of the set."""
    sets = weighted_sets(5, 2)
    one, w = sets[2:3], sets.weights_of(2).ravel().astype(np.float64)
    for name in ("linear", "hellinger", "jensen-shannon"):
        parameters = dk.CodebookEmbedding(6, name, random_state=0).fit(sets).spec_.materialize()
        gradient = np.random.default_rng(0).normal(size=(parameters.spec.n_features, 1))
        influence = parameters.influence(one, one.relative, gradient)[:, 0]
        influence -= w / w.sum() @ influence
        t = 2.0**-8
        for i in (0, 3):
            moved = [
                dk.SampleSets(
                    one.relative, one.offsets, w + sign * t * (w.sum() * (np.arange(len(w)) == i) - w)
                )
                for sign in (1, -1)
            ]
            above, below = (parameters.embed(m)[0].astype(np.float64) @ gradient[:, 0] for m in moved)
            # central differences: third derivatives times t^2, and rounding of rows over t
            np.testing.assert_allclose((above - below) / (2 * t), influence[i], rtol=0.02, atol=2e-3)
