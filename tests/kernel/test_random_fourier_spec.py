"""Random Fourier features as estimators of the Gaussian kernel: bias, convergence and order of methods."""

import pickle

import numpy as np
import pytest

from dkdist.kernels.random_fourier_params import METHODS, FourierParameters, FourierSpec

PAIRS = np.triu_indices(6, 1)


def points(m, seed=0):
    """Return six rows at distances around 1.4, where the kernel is steep."""
    return (np.random.default_rng(seed).standard_normal((6, m)) / np.sqrt(m)).astype(np.float32)


def kernel(X, sigma=1.0):
    X = X.astype(np.float64)
    return np.exp(-((X[:, None] - X[None]) ** 2).sum(axis=-1) / (2 * sigma**2))[PAIRS]


def errors(method, m, D, n_seeds, sigma=1.0):
    """Return z(x) . z(y) - k(x, y) for all pairs, one row per seed."""
    X = points(m)
    rows = (
        FourierParameters(FourierSpec(m, D, sigma, method, s)).transform(X * sigma) for s in range(n_seeds)
    )
    grams = [(z @ z.T)[PAIRS] for z in (r.astype(np.float64) for r in rows)]
    return np.array(grams) - kernel(X)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("m", "D", "sigma"), [(3, 64, 1.0), (20, 64, 0.1), (64, 128, 30.0)])
def test_kernel_is_unbiased_over_seeds(method, m, D, sigma):
    e = errors(method, m, D, 300, sigma)
    standard_error = e.std(axis=0, ddof=1) / np.sqrt(len(e))
    assert np.abs(e.mean(axis=0) / standard_error).max() < 4.5
    assert np.abs(e.mean(axis=0)).max() < 0.03


@pytest.mark.parametrize("method", METHODS)
def test_error_decreases_as_inverse_root(method):
    sizes = np.array([64, 256, 1024, 4096])
    rms = [np.sqrt((errors(method, 16, D, 60) ** 2).mean()) for D in sizes]
    assert np.polyfit(np.log(sizes), np.log(rms), 1)[0] == pytest.approx(-0.5, abs=0.1)
    assert (rms < 1 / np.sqrt(sizes)).all()  # the documented bound


@pytest.mark.parametrize("m", [16, 64])
def test_orthogonal_and_structured_have_less_variance_than_independent(m):
    variance = {method: (errors(method, m, 8 * m, 100) ** 2).mean() for method in METHODS}
    assert variance["orthogonal"] < 0.7 * variance["iid"]
    assert variance["structured"] < 0.7 * variance["iid"]


@pytest.mark.parametrize("method", METHODS)
def test_features_are_sines_then_cosines(method):
    spec = FourierSpec(5, 80, 1.0, method, 0)
    z = spec.materialize().transform(np.zeros((1, 5), np.float32))[0]
    np.testing.assert_array_equal(z[:40], 0)
    np.testing.assert_allclose(z[40:], 1 / np.sqrt(40), rtol=1e-6)
    x = points(5)
    z, minus = spec.materialize().transform(x), spec.materialize().transform(-x)
    np.testing.assert_allclose(minus[:, :40], -z[:, :40], atol=1e-6)
    np.testing.assert_allclose(minus[:, 40:], z[:, 40:], atol=1e-6)
    np.testing.assert_allclose((z.astype(np.float64) ** 2).sum(axis=1), 1, atol=1e-6)
    np.testing.assert_allclose(z[:, :40] ** 2 + z[:, 40:] ** 2, 1 / 40, atol=1e-7)


@pytest.mark.parametrize("method", METHODS)
def test_frequencies_depend_on_the_spec_only(method):
    spec, X = FourierSpec(7, 60, 2.0, method, 3), points(7)
    sent = pickle.dumps(spec.materialize())
    assert len(sent) < 400
    assert pickle.loads(sent) is spec.materialize()
    np.testing.assert_array_equal(FourierParameters(spec).transform(X), FourierParameters(spec).transform(X))
    other = FourierSpec(7, 60, 2.0, method, 4).materialize().transform(X)
    assert np.abs(other - spec.materialize().transform(X)).max() > 0.05


@pytest.mark.parametrize("method", METHODS)
def test_sigma_scales_the_input(method):
    X = points(9)
    wide = FourierParameters(FourierSpec(9, 60, 4.0, method, 0)).transform(4 * X)
    np.testing.assert_allclose(
        wide, FourierParameters(FourierSpec(9, 60, 1.0, method, 0)).transform(X), atol=1e-6
    )


@pytest.mark.parametrize("method", METHODS)
def test_memory_layout_and_dtype_of_input(method):
    X = np.random.default_rng(0).standard_normal((300, 20))
    parameters = FourierSpec(20, 60, 1.0, method, 0).materialize()
    expected = parameters.transform(X.astype(np.float32))
    for other in (X, np.asfortranarray(X), np.repeat(X, 2, axis=0)[::2]):
        np.testing.assert_array_equal(parameters.transform(other), expected)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("m", [3, 70])
def test_fill_matches_transform(method, m):
    X = np.random.default_rng(0).standard_normal((100, m)).astype(np.float32)
    parameters = FourierSpec(m, 600, 1.0, method, 0).materialize()
    expected = parameters.transform(X)
    chosen = np.random.default_rng(1).permutation(100)[:37]
    for n in (1, 3, 32, 37):
        out = np.full((n, 600), np.nan, np.float32)
        parameters.fill(X, chosen[:n], out)
        np.testing.assert_array_equal(out, expected[chosen[:n]])
