"""Coresets for sums of kernels of several bandwidths: exact distances, samples, streams, merges and thinning."""

from __future__ import annotations

import dask.array as da
import numpy as np
import pytest
from scipy.spatial.distance import cdist

import dkdist as dk

SIGMAS = (0.3, 3.0)
RNG = np.random.default_rng(0)
P = np.concatenate([RNG.normal(c, 0.3, (200, 2)) for c in ((0, 0), (3, 1), (-1, 4), (6, 6))])
WEIGHTS = RNG.random(len(P)) + 0.1


def exact_distance(coreset, kernel="gaussian", weights=None):
    """Return D of the kernel that is summed over bandwidths, by double sums."""
    profile = {"gaussian": lambda r: np.exp(-(r**2) / 2), "matern12": lambda r: np.exp(-r)}[kernel]
    p = np.full(len(P), 1 / len(P)) if weights is None else weights
    joint, z = np.concatenate([P, coreset.points]), np.concatenate([p, -coreset.weights])
    r = cdist(joint, joint)
    return float(np.sqrt(z @ sum(profile(r / s) for s in SIGMAS) @ z))


@pytest.mark.parametrize("kernel", ["gaussian", "matern12"])
@pytest.mark.parametrize("options", [{}, {"weights": WEIGHTS}, {"optimal_weights": True}])
def test_distance_is_that_of_the_summed_kernel(kernel, options):
    for points in (P, da.from_array(P, chunks=300)):
        coreset = dk.coreset(points, 40, sigma=SIGMAS, kernel=kernel, random_state=0, **options)
        assert coreset.sigma == SIGMAS
        # float32 features estimate the distance of points that are not in memory, except for the Gaussian kernel
        is_estimated = points is not P and kernel != "gaussian"
        rel = 0.2 if is_estimated else 1e-5
        expected = exact_distance(coreset, kernel, options.get("weights"))
        assert coreset.distance == pytest.approx(expected, rel=rel)


def test_coreset_is_better_than_samples_and_coresets_of_one_bandwidth():
    """Medians over seeds of exact distances of the summed kernel."""
    median = lambda **options: np.median([  # noqa: E731
        exact_distance(dk.coreset(P, 40, random_state=seed, **options)) for seed in range(9)
    ])  # fmt: skip
    both = median(sigma=SIGMAS)
    assert both < 0.5 * median(sigma=SIGMAS, method="random")
    assert all(both < 0.9 * median(sigma=sigma) for sigma in SIGMAS)


def test_one_bandwidth_in_a_sequence_equals_a_number():
    one, number = (dk.coreset(P, 20, sigma=sigma, random_state=0) for sigma in ([0.5], 0.5))
    np.testing.assert_array_equal(one.indices, number.indices)
    assert (one.sigma, one.distance) == (number.sigma, number.distance) == (0.5, number.distance)


def test_merged_and_streamed_distances_are_upper_bounds():
    parts = [dk.coreset(part, 60, sigma=SIGMAS, random_state=0) for part in np.array_split(P, 4)]
    merged = dk.merge_coresets(parts, 30, random_state=0)
    assert merged.sigma == SIGMAS
    assert exact_distance(merged) <= merged.distance < 0.3
    stream = dk.RunningCoreset(30, sigma=SIGMAS, random_state=0)
    for part in np.array_split(P, 4):
        stream.add(part)
    result = stream.coreset()
    assert exact_distance(result) <= result.distance < 0.3
    with pytest.raises(ValueError, match=r"must have the same sigma .*sigma=\(0.3, 3.0\).*sigma=0.3 "):
        dk.merge_coresets([parts[0], dk.coreset(P, 9, sigma=0.3)])
    assert "sigma 0.3, 3" in merged._repr_html_()


def test_thinning_by_several_bandwidths_is_saved(tmp_path):
    thinning = dk.CoresetThinning(20, sigma=SIGMAS, random_state=0).fit([P])
    np.testing.assert_array_equal(thinning.sigma_, SIGMAS)
    dk.save_model(thinning, tmp_path / "model")
    loaded = dk.load_model(tmp_path / "model").transform([P])
    np.testing.assert_array_equal(thinning.transform([P]).points, loaded.points)


@pytest.mark.parametrize(
    ("sigma", "message"),
    [
        ([], r"a sequence of them .* or 'median'; got an array of shape \(0,\)"),
        (np.eye(2), r"got an array of shape \(2, 2\)"),
        ([1.0, -1.0], "sigma must be a positive number; got -1.0"),
        ([1.0, 1e-40], "bandwidth sigma must be .*; got 1e-40"),
        (np.ones(2000), "sigma must be at most 512 bandwidths; got 2000"),
    ],
)
def test_invalid_bandwidths_raise(sigma, message):
    with pytest.raises(ValueError, match=message):
        dk.coreset(P, 5, sigma=sigma)
    with pytest.raises(ValueError, match="got 'median'"):
        dk.RunningCoreset(5, sigma="median")
