"""Registered kernels: sums over all pairs, mixtures and features, invalid kernels, compiled kernels."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.distance import cdist

import dkdist as dk
from dkdist.kernels.kernel_sums import scaled, sums_and_gradients
from dkdist.kernels.registry import KERNELS, get_kernel, names_with

RNG = np.random.default_rng(0)
P, Q = RNG.normal(0, 1, (300, 2)), RNG.normal(0.4, 1, (200, 2))


def two_width_value(r):
    return 0.25 * np.exp(-(r**2) / 2) + 0.75 * np.exp(-(r**2) / 18)


def sample_two_widths(rng, normals):
    return normals / np.where(rng.random(len(normals)) < 0.25, 1.0, 3.0)[:, None]


TWO_WIDTHS = dk.Kernel(
    "two-widths",
    two_width_value,
    lambda r: -r * (0.25 * np.exp(-(r**2) / 2) + 0.75 / 9 * np.exp(-(r**2) / 18)),
    sample_frequencies=sample_two_widths,
    gaussian_mixture=lambda R, error: dk.GaussianMixture(np.array([1.0, 3.0]), np.array([0.25, 0.75])),
)
ROUGH = dk.Kernel("rough", lambda r: np.exp(-r / 2), lambda r: -np.exp(-r / 2) / 2, metric="cityblock")


@pytest.fixture(autouse=True)
def registered():
    before = dict(KERNELS)
    dk.register_kernel(TWO_WIDTHS)
    dk.register_kernel(ROUGH)
    yield
    KERNELS.clear()
    KERNELS.update(before)


def dense(x, y, p, q, sigma, kernel):
    z, joint = np.concatenate([p, -q]), np.concatenate([x, y])
    metric = "cityblock" if kernel is ROUGH else "euclidean"
    return z @ kernel.value(cdist(joint, joint, metric) / sigma) @ z


@pytest.mark.parametrize("kernel", [TWO_WIDTHS, ROUGH], ids=lambda kernel: kernel.name)
def test_distances_match_dense_sums(kernel):
    p, q = RNG.random(len(P)), RNG.standard_normal(len(Q))
    options = {"sigma": 0.7, "kernel": kernel.name, "squared": True}
    result = dk.kernel_distance(P, Q, weights=(p, q), **options)
    assert result == pytest.approx(dense(P, Q, p, q, 0.7, kernel), rel=1e-12)
    joint = dk.kernel_distance(P, Q, sigma=[0.7, 2.0], kernel=kernel.name, squared=True)
    single = [dk.kernel_distance(P, Q, **{**options, "sigma": s}) for s in (0.7, 2.0)]
    assert joint == pytest.approx(sum(single), rel=1e-12)
    f = dk.witness(P, Q, Q[:9], sigma=0.7, kernel=kernel.name)
    metric = "cityblock" if kernel is ROUGH else "euclidean"
    expected = [kernel.value(cdist(Q[:9], x, metric) / 0.7).mean(axis=1) for x in (P, Q)]
    np.testing.assert_allclose(f, expected[0] - expected[1], atol=1e-14)


@pytest.mark.parametrize("kernel", [TWO_WIDTHS, ROUGH], ids=lambda kernel: kernel.name)
def test_derivatives_match_finite_differences(kernel):
    options = {"kernel": kernel.name, "squared": True}
    _, slopes = dk.kernel_distance(P, Q, sigma=0.7, gradient=True, **options)
    step, h = RNG.standard_normal(P.shape), 1e-6
    ends = [dk.kernel_distance(P + t * step, Q, sigma=0.7, **options) for t in (h, -h)]
    assert (slopes.P * step).sum() == pytest.approx((ends[0] - ends[1]) / (2 * h), rel=1e-5)
    ends = [dk.kernel_distance(P, Q, sigma=0.7 + t, **options) for t in (h, -h)]
    assert slopes.sigma == pytest.approx((ends[0] - ends[1]) / (2 * h), rel=1e-5)


def test_mixture_replaces_direct_sums(monkeypatch):
    x, y = RNG.normal(0, 1, (6000, 2)), RNG.normal(0.1, 1, (5000, 2))
    exact = dk.kernel_distance(x, y, sigma=0.5, kernel="two-widths", squared=True, method="exact")
    monkeypatch.setattr("dkdist.kernels.methods.direct_energy", None)
    result = dk.kernel_distance(x, y, sigma=0.5, kernel="two-widths", squared=True, eps=1e-6)
    assert result == pytest.approx(exact, abs=1e-6)


@pytest.mark.parametrize(("m", "method"), [(3, "orthogonal"), (80, "structured")])
def test_inner_products_of_features_match_the_kernel(m, method):
    X = RNG.standard_normal((12, m)).astype(np.float32)
    model = dk.RandomFourierFeatures(20_000, m**0.5, random_state=0, kernel="two-widths").fit(X)
    z = model.transform(X).astype(np.float64)
    assert model.spec_.method == method
    assert np.abs(z @ z.T - two_width_value(cdist(X, X) / model.sigma_)).max() < 6 / np.sqrt(20_000)


def test_mean_embeddings_and_coresets_with_registered_kernel():
    rows = dk.MeanEmbedding(4000, 0.7, random_state=0, kernel="two-widths").fit_transform([P, Q])
    D2 = dense(P, Q, np.full(300, 1 / 300), np.full(200, 1 / 200), 0.7, TWO_WIDTHS)
    assert ((rows[0].astype(np.float64) - rows[1]) ** 2).sum() == pytest.approx(D2, rel=0.1)
    coreset = dk.coreset(P, 20, sigma=0.7, kernel="two-widths", optimal_weights=True, random_state=0)
    expected = dk.kernel_distance(
        P, coreset.points, sigma=0.7, weights=(None, coreset.weights), kernel="two-widths"
    )
    assert coreset.distance == pytest.approx(expected, rel=1e-9)
    assert coreset.distance < 0.05


def test_missing_functions_of_kernel_raise():
    with pytest.raises(ValueError, match=r"kernel must be one of 'gaussian', .*; got 'rough'"):
        dk.RandomFourierFeatures(8, kernel="rough").fit(P)
    dk.register_kernel(dk.Kernel("flat", lambda r: 1 / (1 + r)))
    with pytest.raises(ValueError, match="dvalue of kernel='flat' must be a function"):
        dk.kernel_distance(P, Q, sigma=1.0, kernel="flat", squared=True, gradient=True)
    with pytest.raises(ValueError, match="Register other kernels with register_kernel in every process"):
        get_kernel("unknown")


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (dk.Kernel("gaussian", np.exp), "name must be new; got 'gaussian'"),
        (dk.Kernel("a", lambda r: r.sum()), "value of kernel 'a' must return finite numbers"),
        (dk.Kernel("a", np.cos, np.log), "dvalue of kernel 'a' must return finite numbers"),
        (dk.Kernel("a", np.cos, sample_frequencies=lambda rng, g: g[:1]), r"must keep the shape \(F, d\)"),
        (dk.Kernel("a", np.cos, max_frequency_dims=0), "max_frequency_dims must be an integer >= 1; got 0"),
        (dk.Kernel("a", np.cos, metric="cosine"), "metric must be 'euclidean' or 'cityblock'"),
    ],
)
def test_invalid_kernels_raise(kernel, message):
    with np.errstate(divide="ignore"), pytest.raises(ValueError, match=message):
        dk.register_kernel(kernel)


@pytest.mark.parametrize("name", names_with("dvalue"))
def test_compiled_kernels_match_value_and_dvalue(name):
    """Compare sums, gradients and sums on a line with `value` and `dvalue`."""
    kernel, z = get_kernel(name), RNG.standard_normal(len(P))
    dk.register_kernel(dk.Kernel("plain", kernel.value, kernel.dvalue, metric=kernel.metric))
    for x, y in ((P, Q), (P[:, :1], Q[:, :1])):
        f, g = sums_and_gradients(scaled(y, 0.7, name), scaled(x, 0.7, name), z, name)
        expected, slopes = sums_and_gradients(y / 0.7, x / 0.7, z, "plain")
        np.testing.assert_allclose(f, expected, atol=1e-11)
        np.testing.assert_allclose(kernel.unit * g, slopes, atol=1e-11)
    if kernel.line is not None:
        decay, (a, b, c) = kernel.line
        r = np.linspace(0, 5, 30)
        u = kernel.unit * r
        np.testing.assert_allclose((a + b * u + c * u**2) * np.exp(-decay * u), kernel.value(r), atol=1e-14)


@pytest.mark.parametrize(
    "invalid_kernel", ["gaussian", dk.Kernel(None, two_width_value), dk.Kernel("new", 1.0)]
)
def test_invalid_objects_raise(invalid_kernel):
    with pytest.raises(ValueError, match="kernel must be a Kernel with a name and a callable value"):
        dk.register_kernel(invalid_kernel)
