"""`MomentEmbedding`: means and covariances, independent of the units of the points."""

import numpy as np
import pytest
from oracles import gaussian_mixtures

import dkdist as dk


def test_rows_match_moments_of_standardised_points():
    arrays = [x.astype(np.float32) for x in gaussian_mixtures(12, 3, 50, 0)]
    embedding = dk.MomentEmbedding(degree=2).fit(arrays)
    pooled = np.concatenate(arrays).astype(np.float64)
    np.testing.assert_allclose(embedding.scale_, pooled.std(axis=0), rtol=1e-6)
    assert (np.abs(embedding.centre_ - pooled.mean(axis=0)) < 1e-3 * embedding.scale_).all()
    upper = np.triu_indices(3)
    for x, row in zip(arrays, embedding.transform(arrays), strict=True):
        y = (x.astype(np.float64) - embedding.centre_) / embedding.scale_
        C = np.cov(y.T, bias=True)[upper] * np.where(upper[0] == upper[1], 1, np.sqrt(2))
        np.testing.assert_allclose(row, [*y.mean(axis=0), *C], atol=1e-6)
    first_moments = dk.MomentEmbedding().fit_transform(arrays)
    np.testing.assert_array_equal(first_moments, embedding.transform(arrays)[:, :3])


def test_sets_have_equal_weight_for_centre_and_scale():
    arrays = [np.zeros((1000, 1)), np.full((1, 1), 2.0)]
    embedding = dk.MomentEmbedding().fit(arrays)
    np.testing.assert_allclose([embedding.centre_[0], embedding.scale_[0]], [1, 1])


def test_rows_do_not_depend_on_units():
    arrays = gaussian_mixtures(20, 3, 50, 0)
    rows = dk.MomentEmbedding(degree=2).fit_transform(arrays)
    units = [x * [1e-4, 1.0, 1e5] + [0.0, 300.0, -1e6] for x in arrays]
    np.testing.assert_allclose(dk.MomentEmbedding(degree=2).fit_transform(units), rows, atol=2e-3)


def test_rows_are_accurate_far_from_the_origin():
    # integers are exact in float32 at 1e6
    near = [np.round(x * 64) for x in gaussian_mixtures(10, 2, 300, 0)]
    far = [x + 1e6 for x in near]
    near_rows, far_rows = (dk.MomentEmbedding(degree=2).fit_transform(sets) for sets in (near, far))
    np.testing.assert_allclose(far_rows - far_rows[0], near_rows - near_rows[0], atol=1e-6)


def test_weights_match_repetitions():
    rng = np.random.default_rng(0)
    arrays, counts = [rng.normal(size=(30, 2)) for _ in range(6)], [rng.integers(1, 5, 30) for _ in range(6)]
    weighted = dk.SampleSets.from_arrays(arrays, counts)
    repeated = [np.repeat(x, n, axis=0) for x, n in zip(arrays, counts, strict=True)]
    for degree in (1, 2):
        rows = dk.MomentEmbedding(degree).fit_transform(weighted)
        np.testing.assert_allclose(rows, dk.MomentEmbedding(degree).fit_transform(repeated), atol=1e-6)


def test_hundreds_of_dimensions_and_a_constant_one():
    arrays = [np.random.default_rng(i).normal(size=(40, 300)) for i in range(4)]
    for x in arrays:
        x[:, 7] = 5.0
    embedding = dk.MomentEmbedding(degree=2).fit(arrays)
    assert embedding.scale_[7] == 1
    rows = embedding.transform(arrays)
    assert rows.shape == (4, 300 + 300 * 301 // 2)
    y = (arrays[2].astype(np.float32).astype(np.float64) - embedding.centre_) / embedding.scale_
    upper = np.triu_indices(300)
    expected = np.cov(y.T, bias=True)[upper] * np.where(upper[0] == upper[1], 1, np.sqrt(2))
    np.testing.assert_allclose(rows[2, 300:], expected, atol=1e-6)


@pytest.mark.parametrize("degree", [0, 3, "2", None])
def test_invalid_degrees_raise(degree):
    with pytest.raises(ValueError, match="degree must be one of 1, 2; got"):
        dk.MomentEmbedding(degree).fit(gaussian_mixtures(3, 2, 5, 0))
