"""Noise of rows compared with simulation: the expected distance of two samples of one distribution."""

from __future__ import annotations

import numpy as np
import pytest

import dkdist as dk

PAIRS = {1: 400}  # number of pairs by dimension, more for few degrees of freedom; default 60


def simulate(d, n, divergence="hellinger", structure="joint", weights=None, h=0.15):
    """Return (squared distances of pairs of uniform samples, sums of their noises)."""
    rng = np.random.default_rng([d, n])
    points = rng.random((2 * PAIRS.get(d, 60), n, d))
    w = None if weights is None else [weights] * len(points)
    sets = dk.SampleSets.from_arrays(list(points), weights=w)
    n_basis = 5 if d == 4 else 10
    embedding = dk.DivergenceEmbedding(divergence, n_basis, bandwidth=h, domain="unit", structure=structure)
    A = embedding.fit_transform(sets).astype(np.float64)
    noise = embedding.noise(sets)
    return ((A[::2] - A[1::2]) ** 2).sum(axis=1), noise[::2] + noise[1::2]


def next_term(d, n, h=0.15):
    """Return the relative error of the first-order noise: 7 / 16 Var p / p^2 for a uniform density.

    Reflection doubles the variance in strips of width 2 h along the boundary.
    """
    variance = ((1 + 4 * h) / (2 * np.sqrt(np.pi) * h)) ** d / n
    return 7 / 16 * variance


@pytest.mark.parametrize(
    ("d", "n", "options"),
    [
        (1, 60, {}),
        (1, 400, {"divergence": "jensen-shannon"}),
        (2, 200, {}),
        (2, 300, {"divergence": "chi2"}),
        (3, 300, {"h": 0.3}),
        (3, 100, {"structure": "marginal"}),
        (1, 100, {"weights": np.linspace(0.2, 2, 100)}),
        (4, 150, {"structure": "joint", "h": 0.5}),
    ],
)
def test_distance_of_samples_of_one_distribution_matches_noise(d, n, options):
    d2, noise = simulate(d, n, **options)
    h = options.get("h", 0.15)
    dims = 1 if options.get("structure") == "marginal" else d
    effective = (
        n
        if "weights" not in options
        else 100 * np.mean(options["weights"]) ** 2 / np.mean(options["weights"] ** 2)
    )
    standard_error = d2.std() / np.sqrt(len(d2))
    # frequencies above 0 increase the next term a few times
    factor = 1 if options.get("divergence") is None else 3
    tolerance = 4.5 * standard_error + factor * next_term(dims, effective, h) * noise.mean()
    assert abs(d2.mean() - noise.mean()) < tolerance
    assert tolerance < 0.35 * noise.mean()  # factors of 2 in the noise would be detected


def test_noise_decreases_as_inverse_n():
    """Eight times as many points have an eighth of the noise."""
    rng = np.random.default_rng(0)
    output = []
    for n in (50, 400):
        sets = [rng.random((n, 2)) for _ in range(20)]
        output.append(dk.DivergenceEmbedding(domain="unit", bandwidth=0.15).fit(sets).noise(sets).mean())
    assert output[0] / output[1] == pytest.approx(8, rel=0.15)


def test_noise_of_stores_and_single_points(tmp_path):
    rng = np.random.default_rng(0)
    sets = dk.SampleSets.from_arrays([rng.random((n, 2)) for n in (20, 5000, 1, 40)])
    embedding = dk.DivergenceEmbedding(domain="unit").fit(sets)
    noise = embedding.noise(sets)
    assert noise.shape == (4,)
    assert np.isnan(noise[2])
    assert noise[0] > 10 * noise[1]
    store = dk.write_sets(tmp_path / "s.zarr", sets)
    np.testing.assert_array_equal(embedding.noise(store), noise)
    with pytest.raises(ValueError, match="got nodes='uniform'"):
        dk.DivergenceEmbedding(domain="unit", nodes="uniform", n_nodes=50).fit(sets).noise(sets)
