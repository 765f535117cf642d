"""Kernels "triangle", "ball", "linear" and "identity": double sums, closed forms, laws and unsupported calls."""

from __future__ import annotations

import dask.array as da
import numpy as np
import pytest
from scipy.spatial.distance import cdist

import dkdist as dk
from dkdist.kernels.kernel_distance import MAX_DIRECT_POINTS
from dkdist.kernels.registry import MAX_FREQUENCY, get_kernel

VALUES = {
    "triangle": lambda x, y: np.maximum(0, 1 - cdist(x, y) / 0.4),
    "ball": lambda x, y: (cdist(x, y) <= 0.4).astype(float),
    "linear": lambda x, y: x @ y.T,
    "identity": lambda x, y: (x[:, None] == y[None]).all(axis=2).astype(float),
}
BANDWIDTH = {"triangle": {"sigma": 0.4}, "ball": {"sigma": 0.4}, "linear": {}, "identity": {}}
ONE_DIMENSION = "requires points of 1 dimension; got 3"
RNG = np.random.default_rng(0)
P, Q = RNG.random((60, 3)), RNG.random((40, 3)) + 0.2


def brute(x, y, p, q, kernel):
    joint, z = np.concatenate([x, y]), np.concatenate([p, -q])
    return z @ VALUES[kernel](joint, joint) @ z


@pytest.mark.parametrize("kernel", VALUES)
@pytest.mark.parametrize("d", [1, 2, 5])
@pytest.mark.parametrize("weighted", [False, True])
def test_distances_match_double_sums(kernel, d, weighted):
    """The coordinates are multiples of 0.1, so many points are equal and many pairs are at the distance sigma."""
    rng = np.random.default_rng(d)
    x, y = np.round(rng.random((90, d)), 1), np.round(rng.random((70, d)), 1)
    p, q = (
        (rng.standard_normal(90), rng.random(70)) if weighted else (np.full(90, 1 / 90), np.full(70, 1 / 70))
    )
    if kernel == "ball":  # distances of rounded points are 0.4 only up to rounding
        x, y = x + 1e-3 * rng.random(x.shape), y + 1e-3 * rng.random(y.shape)
    options = {"kernel": kernel, "squared": True, **BANDWIDTH[kernel]}
    weights = (p, q) if weighted else None
    result = dk.kernel_distance(x, y, weights=weights, **options)
    W = np.abs(p).sum() + np.abs(q).sum()
    assert result == pytest.approx(brute(x, y, p, q, kernel), abs=1e-13 * d * W**2)
    assert dk.kernel_distance(x.tolist(), y.tolist(), weights=weights, **options) == result
    assert dk.kernel_distance(y, x, weights=weights and weights[::-1], **options) == pytest.approx(
        result, abs=1e-13 * d * W**2
    )
    assert abs(dk.kernel_distance(x, x[::-1], **options)) <= 1e-25


@pytest.mark.parametrize("kernel", ["triangle", "ball"])
def test_many_points_match_double_sums(kernel):
    x, y = RNG.random((MAX_DIRECT_POINTS, 2)), RNG.random((300, 2))
    p, q = np.full(len(x), 1 / len(x)), RNG.random(300)
    options = {"kernel": kernel, "sigma": 0.4, "squared": True, "weights": (None, q)}
    expected = brute(x, y, p, q, kernel)
    assert dk.kernel_distance(x, y, **options) == pytest.approx(expected, rel=1e-11)
    assert dk.kernel_distance(x, y, method="exact", **options) == pytest.approx(expected, rel=1e-11)
    two = dk.kernel_distance(x, y, kernel=kernel, sigma=[0.4, 0.4], squared=True, weights=(None, q))
    assert two == pytest.approx(2 * expected, rel=1e-11)


def test_ball_counts_pairs_at_the_distance_sigma():
    grid = 0.1 * np.arange(50)[:, None] + 7.3
    z = np.ones(50)
    pairs = 50 + 2 * (49 + 48 + 47)
    result = dk.kernel_distance(grid, [[99.0]], sigma=0.3, kernel="ball", squared=True, weights=(z, [1e-9]))
    assert result == pytest.approx(pairs, rel=1e-12)


@pytest.mark.parametrize(("kernel", "d"), [("ball", 1), ("ball", 2), ("triangle", 2)])
def test_square_is_negative_for_kernels_that_are_not_positive_definite(kernel, d):
    """The weights are an eigenvector of a negative eigenvalue of the kernel matrix of a lattice."""
    lattice = np.stack(np.meshgrid(*[np.arange(20.0)] * d), axis=-1).reshape(-1, d) * 0.4 / 3.5
    values, vectors = np.linalg.eigh(VALUES[kernel](lattice, lattice))
    far = np.full((1, d), 99.0)
    options = {"kernel": kernel, "sigma": 0.4, "weights": (vectors[:, 0], [1e-200])}
    assert values[0] < -0.05
    assert dk.kernel_distance(lattice, far, squared=True, **options) == pytest.approx(values[0], rel=1e-9)
    with pytest.raises(ValueError, match=f"kernel='{kernel}' is not positive definite"):
        dk.kernel_distance(lattice, far, **options)


def test_triangle_is_positive_definite_on_a_line():
    x = RNG.random((200, 1)) * 3
    values, vectors = np.linalg.eigh(VALUES["triangle"](x, x))
    assert values[0] > -1e-13
    options = {"kernel": "triangle", "sigma": 0.4, "weights": (vectors[:, 0], [1e-200])}
    assert dk.kernel_distance(x, [[99.0]], squared=True, **options) == pytest.approx(values[0], abs=1e-13)


def test_linear_kernel_is_the_distance_of_means():
    offset = 1e7 * np.array([1.0, -1.0, 1.0])
    distance = dk.kernel_distance(P + offset, Q + offset, kernel="linear")
    shifted = (P + offset).mean(axis=0) - (Q + offset).mean(axis=0)
    assert distance == pytest.approx(np.linalg.norm(P.mean(axis=0) - Q.mean(axis=0)), rel=1e-7)
    assert distance == pytest.approx(np.linalg.norm(shifted), rel=1e-7)
    w = np.array([2.0, 1.0]), np.array([0.5])
    sums = w[0] @ P[:2] - w[1] @ Q[:1]
    assert dk.kernel_distance(P[:2], Q[:1], kernel="linear", weights=w) == pytest.approx(np.linalg.norm(sums))


def test_identity_kernel_compares_histograms_of_equal_points():
    x, y = np.array([0.0, -0.0, 1.0, 2.0]), np.array([0.0, 2.0, 2.0 + 2**-51, 5.0])
    counts = np.array([2 - 1, 1 - 0, 1 - 1, 0 - 1, 0 - 1]) / 4
    assert dk.kernel_distance(x, y, kernel="identity", squared=True) == pytest.approx((counts**2).sum())
    far = dk.kernel_distance([1e8], [1e8 + 1e-7], kernel="identity", squared=True)
    assert far == 2  # different points remain different, at any distance from the origin
    c = dk.Curve(np.concatenate([P, P[:1]]))
    assert dk.kernel_distance(c, c, kernel="identity") <= 1e-15
    assert dk.kernel_distance(c, c, kernel="linear") <= 1e-15


@pytest.mark.parametrize("draw", ["normal", "sobol"])
def test_frequencies_of_the_triangle_have_its_spectrum(draw):
    """Means of F independent cosines have the standard deviation (1 + k(2 t) - 2 k(t)^2)^(1/2) / (2 F)^(1/2)."""
    rng, F = np.random.default_rng(0), 2**14
    g = rng.standard_normal((F, 1))
    w = get_kernel("triangle").frequencies(rng, g)
    assert np.abs(w).max() <= MAX_FREQUENCY
    assert (np.diff(w[np.argsort(g[:, 0]), 0]) >= 0).all()  # a monotone map keeps low-discrepancy points even
    t = np.array([0.1, 0.5, 0.9, 1.0, 1.7, 4.0])
    expected = np.maximum(0, 1 - t)
    assert np.abs(np.cos(w * t).mean(axis=0) - expected).max() < 4.5 / np.sqrt(2 * F) + 7e-5


def test_features_coresets_and_gradients_of_the_triangle_on_a_line():
    x, y = RNG.normal(0, 1, (300, 1)), RNG.normal(0.5, 1, (200, 1))
    X = np.linspace(0, 3, 40, dtype=np.float32)[:, None]
    z = dk.RandomFourierFeatures(8000, 0.7, kernel="triangle", random_state=0).fit_transform(X)
    expected = np.maximum(0, 1 - cdist(X, X) / np.float32(0.7))
    assert np.abs(z.astype(float) @ z.T - expected).max() < 6 / np.sqrt(8000)
    D2, slopes = dk.kernel_distance(x, y, sigma=0.7, kernel="triangle", squared=True, gradient=True)
    rows = dk.MeanEmbedding(8000, 0.7, kernel="triangle", random_state=0).fit_transform([x, y]).astype(float)
    assert ((rows[0] - rows[1]) ** 2).sum() == pytest.approx(D2, rel=0.1)
    step, h = RNG.standard_normal(x.shape), 1e-7
    ends = [dk.kernel_distance(x + t * step, y, sigma=0.7, kernel="triangle", squared=True) for t in (h, -h)]
    assert (slopes.P * step).sum() == pytest.approx((ends[0] - ends[1]) / (2 * h), rel=1e-4)
    few = dk.coreset(x, 20, sigma=0.7, kernel="triangle", random_state=0)
    own = dk.kernel_distance(x, few.points, sigma=0.7, weights=(None, few.weights), kernel="triangle")
    assert few.distance == pytest.approx(own, rel=1e-9)
    assert few.distance < dk.coreset(x, 20, sigma=0.7, kernel="triangle", method="random").distance


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: dk.RandomFourierFeatures(8, kernel="triangle").fit(P),
            ONE_DIMENSION,
        ),
        (lambda: dk.MeanEmbedding(8, kernel="triangle").fit([P, Q]), ONE_DIMENSION),
        (
            lambda: dk.coreset(P, 5, kernel="triangle"),
            ONE_DIMENSION + ".*Use 'matern12'",
        ),
        (lambda: dk.coreset(da.from_array(P), 5, kernel="triangle"), ONE_DIMENSION),
        (
            lambda: dk.RunningCoreset(5, sigma=1.0, kernel="triangle").add(P),
            ONE_DIMENSION,
        ),
        (
            lambda: dk.CoresetThinning(5, kernel="triangle").fit([P, Q]),
            ONE_DIMENSION,
        ),
        (
            lambda: dk.RandomFourierFeatures(8, method="structured", kernel="triangle").fit(P[:, :1]),
            "does not support kernel='triangle'",
        ),
        (
            lambda: dk.MeanEmbedding(8, kernel="ball").fit([P, Q]),
            "got 'ball', which is piecewise constant",
        ),
        (lambda: dk.coreset(P, 5, kernel="ball"), "got 'ball', which is piecewise constant.*'matern12'"),
        (
            lambda: dk.RandomFourierFeatures(8, kernel="linear").fit(P),
            "got 'linear', .*features are",
        ),
        (lambda: dk.MeanEmbedding(8, kernel="identity").fit([P, Q]), "got 'identity', .*Use 'laplace'"),
        (lambda: dk.witness(P, Q, P, kernel="linear"), "got 'linear', which only kernel_distance supports"),
        (lambda: dk.two_sample_test(P, Q, sigma=1.0, kernel="identity"), "got 'identity', which only kernel"),
        (
            lambda: dk.kernel_distance(P, Q, sigma=1.0, kernel="ball", gradient=True),
            "is piecewise constant; got True. Use 'triangle'",
        ),
        (
            lambda: dk.kernel_distance(P, Q, kernel="linear", gradient=True),
            "for kernel='linear'; got True. Its derivative by x_i is 2 w_i",
        ),
        (
            lambda: dk.kernel_distance(P, Q, kernel="identity", unbiased=True, squared=True),
            "unbiased must be False .* no U-statistic",
        ),
        (
            lambda: dk.kernel_distance(P, Q, kernel="linear", sigma=1.0),
            "sigma must be None .* no bandwidth; got 1.0. Omit sigma",
        ),
        (
            lambda: dk.kernel_distance(P, Q, kernel="linear", method="rff"),
            "'auto' or 'exact' for kernel='linear'",
        ),
        (
            lambda: dk.kernel_distance(P, Q, sigma=1.0, kernel="triangle", method="fourier"),
            "method must be 'auto' or",
        ),
        (
            lambda: dk.kernel_distance(da.from_array(P), Q, kernel="linear"),
            "only kernel='gaussian'.*got kernel='linear'",
        ),
        (lambda: dk.kernel_distance(P, Q[:, :2], kernel="linear"), "same number of dimensions; got 3 and 2"),
    ],
)
def test_unsupported_uses_raise_by_name(call, message):
    with pytest.raises(ValueError, match=message):
        call()
