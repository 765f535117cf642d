"""The noise of rows against simulation: what two samples of one distribution differ by."""

from __future__ import annotations

import numpy as np
import pytest

import dkdist as dk

PAIRS = {1: 400}  # of dimensions with few degrees of freedom; else 60


def simulate(d, n, divergence="hellinger", structure="joint", weights=None, h=0.15):
    """(d^2 of pairs of uniform samples, sums of both noises)."""
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
    """Var p / p^2 of a uniform density inside, times 7 / 16: what the first order leaves out, relatively.

    Reflection makes the variance up to twice as large at each wall, where a strip of width 2 h lies.
    """
    variance = ((1 + 4 * h) / (2 * np.sqrt(np.pi) * h)) ** d / n
    return 7 / 16 * variance


@pytest.mark.parametrize(
    ("d", "n", "choices"),
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
def test_two_samples_of_one_distribution_are_as_far_apart_as_their_noise(d, n, choices):
    d2, noise = simulate(d, n, **choices)
    h = choices.get("h", 0.15)
    dims = 1 if choices.get("structure") == "marginal" else d
    effective = (
        n
        if "weights" not in choices
        else 100 * np.mean(choices["weights"]) ** 2 / np.mean(choices["weights"] ** 2)
    )
    standard_error = d2.std() / np.sqrt(len(d2))
    # frequencies above 0 make the rows turn, and the next term a few times as large
    steeper = 1 if choices.get("divergence") is None else 3
    allowed = 4.5 * standard_error + steeper * next_term(dims, effective, h) * noise.mean()
    assert abs(d2.mean() - noise.mean()) < allowed
    assert allowed < 0.35 * noise.mean()  # so that twice or half the noise would be seen


def test_noise_falls_as_one_over_n_and_is_that_of_the_documents():
    """Hellinger at the defaults of the unit square: halves with twice the points."""
    rng = np.random.default_rng(0)
    output = []
    for n in (50, 400):
        sets = [rng.random((n, 2)) for _ in range(20)]
        output.append(dk.DivergenceEmbedding(domain="unit", bandwidth=0.15).fit(sets).noise(sets).mean())
    assert output[0] / output[1] == pytest.approx(8, rel=0.15)


def test_stores_and_memory_and_single_points(tmp_path):
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
