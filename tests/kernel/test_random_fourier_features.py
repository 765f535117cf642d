"""`RandomFourierFeatures`: kernel approximation, options, Dask compared with NumPy, scikit-learn's estimator checks."""

import dask
import dask.array as da
import numpy as np
import pytest
from scipy.spatial.distance import pdist
from sklearn.utils.estimator_checks import parametrize_with_checks
from threadpoolctl import threadpool_limits

import dkdist as dk

METHODS = ("iid", "orthogonal", "structured")


REFUSED = "the check sets n_components = 1, and odd numbers are invalid"
SET_ONE_COMPONENT = (
    "check_dont_overwrite_parameters",
    "check_methods_sample_order_invariance",
    "check_methods_subset_invariance",
    "check_fit2d_1sample",
    "check_fit2d_1feature",
    "check_fit2d_predict1d",
)


@parametrize_with_checks(
    [dk.RandomFourierFeatures(64, random_state=0)],
    expected_failed_checks=lambda estimator: dict.fromkeys(SET_ONE_COMPONENT, REFUSED),
)
def test_scikit_learn_conventions(estimator, check):
    check(estimator)


def test_requirements_of_skipped_checks(X):
    features = dk.RandomFourierFeatures(64, random_state=0)
    attributes_before = set(vars(features))
    features.fit(X)
    assert all(name.endswith("_") for name in set(vars(features)) - attributes_before)
    z = features.transform(X)
    order = np.random.default_rng(0).permutation(len(X))
    np.testing.assert_array_equal(features.transform(X[order]), z[order])
    np.testing.assert_array_equal(
        np.concatenate([features.transform(X[i : i + 1]) for i in range(40)]), z[:40]
    )
    with pytest.raises(ValueError, match=r"1 sampled rows"):
        features.fit(X[:1])
    assert features.fit(X[:, :1]).transform(X[:, :1]).shape == (700, 64)
    with pytest.raises(ValueError, match=r"Reshape your data"):
        features.transform(X[:, 0])


@pytest.fixture
def X():
    return np.random.default_rng(0).standard_normal((700, 30)).astype(np.float32)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("sigma", [3.0, "median"])
def test_inner_products_match_the_kernel(X, method, sigma):
    features = dk.RandomFourierFeatures(20_000, sigma=sigma, method=method, random_state=0)
    z = features.fit_transform(X[:40]).astype(np.float64)
    kernel = np.exp(-pdist(X[:40].astype(np.float64), "sqeuclidean") / (2 * features.sigma_**2))
    np.testing.assert_allclose((z @ z.T)[np.triu_indices(40, 1)], kernel, atol=0.035)  # 5 / sqrt(D)


def test_sigma_is_the_median_distance(X):
    small_X = X[:200]  # fewer rows than the sample
    assert dk.RandomFourierFeatures(10).fit(small_X).sigma_ == pytest.approx(
        np.median(pdist(small_X)), rel=1e-5
    )
    assert dk.RandomFourierFeatures(10).fit(X).sigma_ == pytest.approx(np.median(pdist(X)), rel=0.01)
    assert dk.RandomFourierFeatures(10, sigma=2).fit(X).sigma_ == 2.0


def test_sigma_of_many_rows_uses_a_spread_sample(X):
    large_X = np.concatenate([X, X + 1, X - 2, X, X * 3]).astype(np.float32)
    result = dk.RandomFourierFeatures(10).fit(large_X).sigma_
    assert result == pytest.approx(np.median(pdist(large_X[::3])), rel=0.1)
    assert dk.RandomFourierFeatures(10).fit(da.from_array(large_X, chunks=(301, 30))).sigma_ == result


@pytest.mark.parametrize(("m", "method"), [(5, "orthogonal"), (64, "orthogonal"), (65, "structured")])
def test_auto_method_depends_on_number_of_columns(m, method):
    X = np.random.default_rng(0).random((5, m))
    assert dk.RandomFourierFeatures(10).fit(X).spec_.method == method


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("chunks", [(700, 30), (128, 30), (1, 30), ((13, 600, 87), 30), (200, 7)])
@pytest.mark.parametrize("scheduler", ["threads", "sync"])
def test_dask_and_numpy_are_bit_identical(X, method, chunks, scheduler):
    if chunks == (1, 30):
        X = X[:50]
    features = dk.RandomFourierFeatures(100, method=method, random_state=0).fit(X)
    lazy = features.transform(da.from_array(X, chunks=chunks))
    assert lazy.dtype == np.float32
    assert lazy.chunks[1] == (100,)
    with dask.config.set(scheduler=scheduler):
        np.testing.assert_array_equal(lazy.compute(), features.transform(X))


@pytest.mark.parametrize("method", METHODS)
def test_features_do_not_depend_on_blas_threads(method):
    X = np.random.default_rng(0).standard_normal((300, 700)).astype(np.float32)
    features = dk.RandomFourierFeatures(200, sigma=26.0, method=method, random_state=0).fit(X)
    with threadpool_limits(2):  # as in a compute() by the user
        lazy = features.transform(da.from_array(X, chunks=(90, 700)))
        np.testing.assert_array_equal(lazy.compute(), features.transform(X))


def test_row_chunks_and_graph_keys(X):
    features = dk.RandomFourierFeatures(100, random_state=0).fit(X)
    source = da.from_array(X, chunks=(300, 30))
    assert features.transform(source).chunks == ((300, 300, 100), (100,))
    assert features.transform(source).name == features.transform(source).name
    other = dk.RandomFourierFeatures(100, random_state=1).fit(X)
    assert features.transform(source).name != other.transform(source).name


@pytest.mark.parametrize("dtype", [np.float64, np.int16])
def test_other_dtypes_are_converted_to_float32(X, dtype):
    typed = (X * 10).astype(dtype)
    features = dk.RandomFourierFeatures(60, random_state=0).fit(typed.astype(np.float32))
    expected = features.transform(typed.astype(np.float32))
    np.testing.assert_array_equal(features.transform(typed), expected)
    np.testing.assert_array_equal(features.transform(da.from_array(typed, chunks=100)).compute(), expected)


def test_large_input_gives_identical_rows(X):
    large_X = np.tile(X, (4, 1))
    features = dk.RandomFourierFeatures(200, random_state=0).fit(X)
    np.testing.assert_array_equal(features.transform(large_X), np.tile(features.transform(X), (4, 1)))


@pytest.mark.parametrize("seed", [3, np.random.default_rng(3), np.random.RandomState(3), None])
def test_random_state_of_any_kind(X, seed):
    features = dk.RandomFourierFeatures(40, random_state=seed).fit(X)
    np.testing.assert_array_equal(features.transform(X), features.transform(X))


def test_features_depend_on_the_seed(X):
    def features_of_seed(seed):
        return dk.RandomFourierFeatures(40, random_state=seed).fit_transform(X)

    np.testing.assert_array_equal(features_of_seed(1), features_of_seed(1))
    assert np.abs(features_of_seed(1) - features_of_seed(2)).max() > 0.1
    generator = np.random.default_rng(0)
    # a generator advances
    assert np.abs(features_of_seed(generator) - features_of_seed(generator)).max() > 0.1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_components": 7}, r"n_components must be even, half sines and half cosines; got 7. Use 8"),
        ({"n_components": 0}, r"n_components must be an integer >= 2"),
        ({"n_components": 10.0}, r"n_components must be an integer"),
        (
            {"method": "sobol"},
            r"method must be one of 'auto', 'iid', 'orthogonal', 'structured'; got 'sobol'",
        ),
        ({"sigma": 0}, r"sigma must be a positive number; got 0"),
        ({"sigma": "mean"}, r"sigma must be a positive number; got 'mean'"),
        ({"random_state": 1.5}, r"random_state must be None, an integer >= 0 or a numpy Generator"),
    ],
)
def test_invalid_options_raise(X, options, message):
    with pytest.raises(ValueError, match=message):
        dk.RandomFourierFeatures(**options).fit(X)


@pytest.mark.parametrize("value", [0.0, 0.1, -1e3])
def test_median_of_equal_rows_raises(value):
    with pytest.raises(ValueError, match=r"the 20 sampled rows are equal. Pass a number"):
        dk.RandomFourierFeatures(10).fit(np.full((20, 3), value))


def test_invalid_dask_arrays_raise(X):
    features = dk.RandomFourierFeatures(10, sigma=1.0).fit(X)
    with pytest.raises(ValueError, match=r"X has 29 features, but RandomFourierFeatures is expecting 30"):
        features.transform(da.from_array(X[:, :29]))
    with pytest.raises(ValueError, match=r"X must be a 2-D Dask array"):
        features.transform(da.from_array(X[:, 0]))
    unknown = da.from_array(X)[da.from_array(X[:, 0] > 0)]
    for call in (features.transform, dk.RandomFourierFeatures(10).fit):
        with pytest.raises(ValueError, match=r"known length.*Call X\.compute_chunk_sizes\(\)"):
            call(unknown)


@pytest.mark.parametrize("method", ["iid", "orthogonal", "structured"])
def test_rows_of_nan_do_not_change_other_rows(X, method):
    features = dk.RandomFourierFeatures(64, method=method, random_state=0).fit(X)
    expected, bad = features.transform(X), [0, 7, len(X) - 1]
    invalid = X.copy()
    invalid[bad[0]], invalid[bad[1], 3], invalid[bad[2], -1] = np.nan, np.nan, np.nan
    good = np.setdiff1d(np.arange(len(X)), bad)
    for rows in (
        features.transform(invalid),
        features.transform(da.from_array(invalid, chunks=(13, 11))).compute(),
    ):
        assert np.isnan(rows[bad]).all()
        np.testing.assert_array_equal(rows[good], expected[good])
    assert np.isnan(features.transform(invalid[:1])).all()


def test_median_ignores_rows_of_nan(X):
    X = X[:200]
    invalid = np.concatenate([X[:50], np.full((5, X.shape[1]), np.nan), X[50:]])
    expected = dk.RandomFourierFeatures(10, random_state=0).fit(X).sigma_
    for form in (invalid, da.from_array(invalid, chunks=(13, -1))):
        assert dk.RandomFourierFeatures(10, random_state=0).fit(form).sigma_ == expected
    for n in (1, 0):
        invalid[n:] = np.nan
        with pytest.raises(ValueError, match=f"the {n} sampled rows without NaN are equal. Pass a number"):
            dk.RandomFourierFeatures(10).fit(invalid)


@pytest.mark.parametrize("value", [np.inf, -np.inf, 1e39])
def test_infinite_values_raise(X, value):
    features = dk.RandomFourierFeatures(10, sigma=1.0, random_state=0).fit(X)
    invalid = X.astype(np.float64)
    invalid[17, 2], invalid[20, 1] = value, np.nan
    with np.errstate(over="ignore"), pytest.raises(ValueError, match="infinity or a value too large"):
        features.transform(invalid)
    lazy = da.from_array(invalid, chunks=(10, -1))
    for call in (features.transform(lazy).compute, lambda: dk.RandomFourierFeatures(10).fit(lazy[:500])):
        with pytest.raises(ValueError, match=r"X must be finite in float32.*got -?inf in row \d+, column 2"):
            call()
