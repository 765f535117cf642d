"""`GaussianEmbedding`: compared with covariances of scikit-learn and matrix logarithms of SciPy."""

import numpy as np
import pytest
from scipy.linalg import logm
from sklearn.covariance import LedoitWolf, shrunk_covariance

import dkdist as dk
from dkdist.embeddings.gaussian_fits import fit_gaussians

# Float32 rows have a relative error of 2**-24; the logarithm magnifies that of float64 covariances by 1 / reg_covar.
ATOL = 2e-6


def collection(d, sizes=(2, 3, 12, 60, 300), seed=0):
    rng = np.random.default_rng(seed)
    return [
        (rng.normal(size=(n, d)) @ rng.normal(size=(d, d)) + rng.normal(size=d)).astype(np.float32)
        for n in sizes
    ]


def fits(arrays, shrinkage=None, weights=None):
    d = arrays[0].shape[1]
    sets = dk.SampleSets.from_arrays([x.astype(np.float32) for x in arrays], weights)
    mean, S = fit_gaussians(sets, shrinkage, np.zeros(d), np.ones(d))
    return mean + sets.origin, S


@pytest.mark.parametrize("d", [1, 2, 5, 8, 9, 40])
def test_covariances_match_scikit_learn(d):
    arrays = collection(d)
    mean, S = fits(arrays)
    _, fixed = fits(arrays, 0.3)
    for x, m, ledoit_wolf, shrunk in zip(arrays, mean, S, fixed, strict=True):
        x = x.astype(np.float64)
        np.testing.assert_allclose(m, x.mean(axis=0), atol=1e-6)
        scale = np.abs(ledoit_wolf).max()
        np.testing.assert_allclose(ledoit_wolf, LedoitWolf().fit(x).covariance_, atol=1e-12 * scale)
        expected = shrunk_covariance(np.cov(x.T, bias=True).reshape(d, d), 0.3)
        np.testing.assert_allclose(shrunk, expected, atol=1e-12 * scale)


@pytest.mark.parametrize("d", [1, 3, 10])
def test_rows_are_means_and_matrix_logarithms(d):
    arrays = collection(d)
    embedding = dk.GaussianEmbedding().fit(arrays)
    i, j = np.triu_indices(d)
    for row, x in zip(embedding.transform(arrays), arrays, strict=True):
        y = (x - embedding.centre_) / embedding.scale_
        S = LedoitWolf().fit(y).covariance_ + 1e-6 * np.eye(d)
        expected = logm(S)[i, j] * np.where(i == j, 1, np.sqrt(2))
        np.testing.assert_allclose(row, [*y.mean(axis=0), *expected], rtol=1e-6, atol=ATOL)


def test_equal_and_scaled_weights_change_nothing():
    arrays = collection(3)
    expected = fits(arrays)
    for factor in (0.25, 7.0):
        weighted = fits(arrays, weights=[np.full(len(x), factor) for x in arrays])
        for a, b in zip(weighted, expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)


def test_points_of_weight_zero_do_not_count():
    arrays = collection(3)
    padded = [np.concatenate([[[9.0, -9.0, 1e4]], x]) for x in arrays]
    weights = [np.r_[0.0, np.full(len(x), 2.0)] for x in arrays]
    for a, b in zip(fits(padded, weights=weights), fits(arrays), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)  # another origin rounds the float32 points


def test_weights_without_shrinkage_match_repetitions():
    arrays = collection(3)
    counts = [np.random.default_rng(i).integers(1, 4, len(x)) for i, x in enumerate(arrays)]
    repeated = [np.repeat(x, n, axis=0) for x, n in zip(arrays, counts, strict=True)]
    for a, b in zip(fits(arrays, 0.0, counts), fits(repeated, 0.0), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-6)


def test_shrinkage_of_weighted_points_uses_the_effective_size():
    (x,) = collection(3, sizes=(50,))
    w = np.random.default_rng(1).random(50)
    u = w.astype(np.float32) / w.astype(np.float32).sum(dtype=np.float64)
    y = x - u @ x
    S = (y * u[:, None]).T @ y
    deviation = S - np.trace(S) / 3 * np.eye(3)
    error = (u @ ((y**2).sum(axis=1) ** 2) - (S**2).sum()) * (u @ u)
    expected = S - error / (deviation**2).sum() * deviation
    np.testing.assert_allclose(fits([x], weights=[w])[1][0], expected, rtol=1e-5)


@pytest.mark.parametrize("weighted", [False, True])
def test_equal_points_have_a_finite_row(weighted):
    arrays = [np.full((n, 2), 0.1 + n) for n in (1, 3, 50)] + collection(2)
    weights = [np.random.default_rng(0).random(len(x)) for x in arrays] if weighted else None
    rows = dk.GaussianEmbedding(reg_covar=1e-4).fit_transform(dk.SampleSets.from_arrays(arrays, weights))
    logarithm = np.float32(np.log(1e-4))
    np.testing.assert_array_equal(rows[:3, 2:], [[logarithm, 0, logarithm]] * 3)
    assert np.isfinite(rows).all()


def test_rows_do_not_depend_on_units():
    arrays = collection(3)
    rows = dk.GaussianEmbedding().fit_transform(arrays)
    units = [x * [1e-4, 1.0, 1e5] + [0.0, 300.0, -1e6] for x in arrays]
    np.testing.assert_allclose(dk.GaussianEmbedding().fit_transform(units), rows, rtol=1e-3, atol=2e-3)


def test_feature_names_contain_dimensions():
    sets = dk.SampleSets.from_arrays(collection(2), names=["age", "dose"])
    names = dk.GaussianEmbedding().fit(sets).get_feature_names_out().tolist()
    expected = ["mean_age", "mean_dose", "log_cov_age_age", "log_cov_age_dose", "log_cov_dose_dose"]
    assert names == expected


def test_numpy_numbers_are_shrinkage_fractions():
    sets = collection(2)
    expected = dk.GaussianEmbedding(shrinkage=0.5).fit_transform(sets)
    np.testing.assert_array_equal(
        dk.GaussianEmbedding(shrinkage=np.float32(0.5)).fit_transform(sets), expected
    )
    assert dk.GaussianEmbedding(shrinkage=np.int64(1)).fit(sets).spec_.shrinkage == 1


@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        ("shrinkage", [-0.1, 1.1, "auto", None, True, np.nan], "'ledoit-wolf' or a number from 0 to 1; got"),
        ("reg_covar", [0, -1e-6, np.inf, "1"], "a positive number; got"),
    ],
)
def test_invalid_parameters_raise(name, values, message):
    for value in values:
        with pytest.raises(ValueError, match=f"{name} must be {message}"):
            dk.GaussianEmbedding(**{name: value}).fit(collection(2))


def test_weighted_stores_give_identical_rows(tmp_path):
    arrays = collection(3) * 3
    weights = [np.random.default_rng(i).random(len(x)) for i, x in enumerate(arrays)]
    sets = dk.SampleSets.from_arrays(arrays, weights)
    dk.write_sets(tmp_path / "sets.zarr", sets)
    rows = dk.GaussianEmbedding().fit_transform(sets)
    lazy = dk.GaussianEmbedding().fit_transform(dk.open_sets(tmp_path / "sets.zarr", block_sets=4))
    np.testing.assert_array_equal(lazy.compute(), rows)


def test_float64_covariances_far_from_the_origin_and_of_narrow_sets():
    near = [np.round(x * 64) for x in collection(2, (30, 200))]  # integers are exact in float32 at 1e6
    for x in near:
        x[:, 1] = x[:, 0] + np.arange(len(x)) % 2  # nearly on a line
    (_, S), (_, far) = fits(near, 0.0), fits([x + 1e6 for x in near], 0.0)
    np.testing.assert_allclose(far, S, rtol=1e-12)
    assert (np.linalg.eigvalsh(S)[:, 0] > 0.05).all()
