"""``normalized=True``: total variation as the integral of |p - q| / 2, at most 1."""

import numpy as np
import pytest
from oracles import reflected_density
from sklearn.pipeline import make_pipeline

import dkdist as dk

H = 0.1
PLUGIN = dk.PluginDivergence(bandwidth=H, domain="unit")


def collection(d, n_sets=6):
    rng = np.random.default_rng(d)
    return [rng.beta(1 + i % 3, 2, (40, d)) for i in range(n_sets)]


def square(A):
    A = A.astype(np.float64)
    return ((A[:, None] - A) ** 2).sum(axis=2)


@pytest.mark.parametrize("structure", ["joint", "marginal"])
@pytest.mark.parametrize("d", [1, 2, 3])
def test_disjoint_sets_have_distance_one(d, structure):
    rng = np.random.default_rng(0)
    sets = [0.2 * rng.random((200, d)) + 0.75 * (i % 2) for i in range(6)]
    A = dk.DivergenceEmbedding("total-variation", structure=structure, normalized=True).fit_transform(sets)
    n_densities = d if structure == "marginal" else 1
    # the frequencies have an error of 1 %, ROUGH_RTOL
    np.testing.assert_allclose(square(A)[0, 1] / n_densities, 1, atol=0.01)


def test_distances_match_the_integral():
    sets = collection(1)
    grid = (np.arange(4000)[:, None] + 0.5) / 4000
    p = [reflected_density(x, [H], grid) for x in sets]
    expected = np.array([[np.abs(a - b).mean() / 2 for b in p] for a in p])
    for name in ("total-variation", "tv"):
        D = dk.divergence_matrix(sets, name, estimator=PLUGIN, normalized=True)
        np.testing.assert_allclose(D, expected, rtol=0.01, atol=2e-4)
        A = dk.DivergenceEmbedding(name, 32, bandwidth=H, domain="unit", normalized=True).fit_transform(sets)
        np.testing.assert_allclose(square(A), expected, rtol=0.03, atol=1e-3)


def test_values_are_half_of_the_default():
    sets = collection(2)
    half, full = (dk.DivergenceEmbedding("tv", normalized=n).fit(sets) for n in (True, False))
    float32_roots = 1e-6
    d2, full_d2 = (square(embedding.transform(sets)) for embedding in (half, full))
    np.testing.assert_allclose(d2, full_d2 / 2, atol=float32_roots)
    np.testing.assert_allclose(half.noise(sets), full.noise(sets) / 2, rtol=1e-6)
    D, full_D = (dk.divergence_matrix(sets, "tv", estimator=PLUGIN, normalized=n) for n in (True, False))
    np.testing.assert_array_equal(D, full_D / 2)


def test_kernel_error_uses_the_normalized_divergence():
    sets = collection(2, 12)
    embedding = dk.DivergenceEmbedding("total-variation", normalized=True)
    model = make_pipeline(embedding, dk.RandomFourierFeatures(200, sigma=0.5, random_state=0)).fit(sets)
    assert dk.kernel_error(model, sets, random_state=0).distance_rms < 0.01


def test_model_files_store_the_normalization(tmp_path):
    sets = collection(1)
    embedding = dk.DivergenceEmbedding("total-variation", normalized=True).fit(sets)
    dk.save_model(embedding, tmp_path / "model.npz")
    loaded = dk.load_model(tmp_path / "model.npz")
    assert loaded.normalized is True
    np.testing.assert_array_equal(loaded.transform(sets), embedding.transform(sets))


@pytest.mark.parametrize("name", ["hellinger", "jensen-shannon", "chi2", lambda x, y: np.abs(x - y)])
def test_other_divergences_cannot_be_normalized(name):
    message = r"normalized=True requires divergence='total-variation', .*; got .*\. Omit normalized\."
    with pytest.raises(ValueError, match=message):
        dk.DivergenceEmbedding(name, normalized=True).fit(collection(1))
    with pytest.raises(ValueError, match=message):
        dk.divergence_matrix(collection(1), name, estimator="plugin", normalized=True)
