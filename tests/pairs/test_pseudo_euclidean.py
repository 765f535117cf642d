"""Coordinates from distance matrices: exact for Euclidean distances, with a signature for all others."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist
from scipy.spatial.transform import Rotation
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import RidgeClassifier
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline

import dkdist as dk

X = np.random.default_rng(0).standard_normal((30, 3))
WORDS = ["ACGT" * k + "GATTACA"[k:] + "C" * (k % 3) for k in range(7)] + ["TTTT", "ACAC", "GATTACA"]


def euclidean(D, X, **options):
    return dk.PseudoEuclideanEmbedding(**options).fit(D).transform(X)


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 2**31), st.integers(4, 25), st.integers(1, 3))
def test_euclidean_distances_are_recovered_exactly(seed, n, d):
    rng = np.random.default_rng(seed)
    x, new = 5 + rng.standard_normal((n, d)), 5 + rng.standard_normal((4, d))
    D, to = cdist(x, x), cdist(new, x)
    model = dk.PseudoEuclideanEmbedding(d).fit(D)
    z, z_new = model.transform(D), model.transform(to)
    np.testing.assert_allclose(cdist(z, z), D, atol=1e-7 * D.max())
    np.testing.assert_allclose(cdist(z_new, z), to, atol=1e-6 * to.max())
    assert (model.signature_ == 1).all()


def test_points_are_recovered_up_to_a_rigid_motion():
    """The error of B = Z Z' is at most N eps |B|; divide by the smallest singular value for that of Z."""
    z = euclidean(cdist(X, X), cdist(X, X), n_components=3)
    centred = X - X.mean(axis=0)
    mirrored = np.sign(np.linalg.det(np.linalg.lstsq(z, centred, rcond=None)[0]))
    z[:, 0] *= mirrored
    # the returned residual is the root of a difference, dominated by rounding
    rotation, _ = Rotation.align_vectors(centred, z)
    roots = np.linalg.svd(centred, compute_uv=False)
    rounding = len(X) * np.finfo(float).eps * roots[0] ** 2 / roots[-1]
    np.testing.assert_allclose(rotation.apply(z), centred, rtol=0, atol=rounding)


def test_components_match_pca():
    D = cdist(X, X)
    model = dk.PseudoEuclideanEmbedding(2).fit(D)
    values = np.linalg.eigvalsh(np.cov(X.T, bias=True))[::-1] * len(X)
    np.testing.assert_allclose(model.eigenvalues_, values[:2])
    assert model.transform(D).shape == (30, 2)


def test_three_objects_without_the_triangle_inequality():
    """d = 1, 1, 4: coordinates (-2, 0, 2) and, negative, (a, -2a, a) / 6 with 4 - (3 a / 6)^2 = 1."""
    D = np.array([[0.0, 1, 4], [1, 0, 1], [4, 1, 0]])
    model = dk.PseudoEuclideanEmbedding().fit(D)
    z = model.transform(D)
    np.testing.assert_array_equal(model.signature_, [1, -1])
    np.testing.assert_allclose(model.eigenvalues_, [8, -2])
    np.testing.assert_allclose(np.abs(z[:, 0]), [2, 0, 2], atol=1e-12)
    a = 2 * np.sqrt(3) / 6
    np.testing.assert_allclose(np.abs(z[:, 1]), [a, 2 * a, a])
    assert dk.PseudoEuclideanEmbedding(negative=False).fit(D).transform(D).shape == (3, 1)


def test_distances_are_recovered_with_the_signature():
    D = dk.distance_matrix(WORDS, distance="levenshtein")
    model = dk.PseudoEuclideanEmbedding().fit(D)
    z = model.transform(D)
    squared = ((z[:, None] - z) ** 2) @ model.signature_
    np.testing.assert_allclose(squared, D**2, atol=1e-9)
    assert set(model.signature_) == {1, -1}
    assert (np.diff(np.abs(model.eigenvalues_)) <= 0).all()


def test_row_does_not_depend_on_other_rows():
    D = cdist(X, X) + 0.5 * (1 - np.eye(30))
    model = dk.PseudoEuclideanEmbedding(7).fit(D)
    z, order = model.transform(D), np.random.default_rng(1).permutation(30)
    np.testing.assert_array_equal(model.transform(D[order]), z[order])
    np.testing.assert_array_equal(np.concatenate([model.transform(D[i : i + 1]) for i in range(30)]), z)


def test_scikit_learn_conventions():
    D, y = cdist(X, X), (X[:, 0] > 0).astype(int)
    model = dk.PseudoEuclideanEmbedding(3, negative=False)
    assert clone(model).get_params() == {"n_components": 3, "negative": False}
    with pytest.raises(NotFittedError):
        model.transform(D)
    restored = pickle.loads(pickle.dumps(model.fit(D)))
    np.testing.assert_array_equal(restored.transform(D), model.fit_transform(D))
    assert model.n_features_in_ == 30
    assert list(model.get_feature_names_out()) == [f"pseudoeuclideanembedding{k}" for k in range(3)]
    pipeline = make_pipeline(dk.PseudoEuclideanEmbedding(3), RidgeClassifier())
    scores = cross_val_score(pipeline, D, y, cv=3)  # splits rows and columns
    assert scores.mean() > 0.85


def test_model_file_round_trip(tmp_path):
    D = cdist(X, X)
    model = dk.PseudoEuclideanEmbedding(2).fit(D)
    dk.save_model(model, tmp_path / "model.npz")
    np.testing.assert_array_equal(dk.load_model(tmp_path / "model.npz").transform(D), model.transform(D))


def distances_with_entry(i, j, value):
    D = cdist(X, X)
    D[i, j] = value
    return D


@pytest.mark.parametrize(
    ("D", "options", "message"),
    [
        (np.zeros((2, 3)), {}, r"\(N, N\); got shape \(2, 3\)"),
        (np.zeros(4), {}, r"nonempty matrix; got shape \(4,\)"),
        (distances_with_entry(1, 2, np.nan), {}, r"got nan at \(1, 2\)"),
        (distances_with_entry(1, 2, -1.0), {}, r"got -1\.0 at \(1, 2\)"),
        (distances_with_entry(1, 2, 100.0), {}, r"symmetric; got 100 at \(1, 2\)"),
        (distances_with_entry(2, 2, 1.0), {}, r"must be 0 on the diagonal; got 1 at \(2, 2\)"),
        (np.zeros((3, 3)), {}, "got distance 0 for all 3 objects"),
        (cdist(X, X), {"n_components": 4}, "at most 3, the number of components above rounding; got 4"),
        (cdist(X, X), {"n_components": 0}, "an integer >= 1; got 0"),
    ],
)
def test_invalid_input_raises(D, options, message):
    with pytest.raises(ValueError, match=message):
        dk.PseudoEuclideanEmbedding(**options).fit(D)


def test_distances_to_other_objects_raise():
    model = dk.PseudoEuclideanEmbedding().fit(cdist(X, X))
    with pytest.raises(ValueError, match=r"X has 29 features, but .* expecting 30"):
        model.transform(cdist(X, X[:29]))


@pytest.mark.parametrize("unit", [1e-200, 1e200])
def test_underflowing_or_overflowing_distances_raise(unit):
    D = unit * (1 - np.eye(4))
    with pytest.raises(ValueError, match=r"the largest distance must be .*; got 1e.200"):
        dk.PseudoEuclideanEmbedding().fit(D)
    with pytest.raises(ValueError, match="real numbers"):
        dk.PseudoEuclideanEmbedding().fit(D + 1j)
