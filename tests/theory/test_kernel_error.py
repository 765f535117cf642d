"""Estimated kernel errors of pipelines, compared with quadrature and brute force, and coverage of intervals."""

import itertools

import numpy as np
import pytest
from oracles import gaussian_mixtures, panels, reflected_density
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline

import dkdist as dk
from dkdist.embeddings.divergences import divergence

RNG = np.random.default_rng(0)


def gaussian(d2, sigma):
    return np.exp(-d2 / (2 * sigma**2))


@pytest.mark.parametrize("name", ["hellinger", "jensen-shannon", "chi2"])
@pytest.mark.parametrize("h", [0.12, [[0.1], [0.2]]])
def test_error_of_one_pair_matches_quadrature(name, h):
    """Two sets have one pair, so the RMS error is its error."""
    sets = gaussian_mixtures(2, 1, 60, seed=4)
    embedding = dk.DivergenceEmbedding(name, n_basis=6, bandwidth=h, domain=(-1.0, 2.0))
    model = make_pipeline(embedding, dk.RandomFourierFeatures(64, sigma=0.5, random_state=0)).fit(sets)
    nodes, weights = panels(64, 8)
    d2 = []
    for scale in np.ravel(h):
        p, q = ((reflected_density((x + 1) / 3, [scale], nodes[:, None])) for x in sets)
        d2.append(weights @ divergence(name).kappa(p, q))
    z = model.transform(sets).astype(np.float64)
    result = dk.kernel_error(model, sets, n_pairs=5, random_state=0)
    exact = gaussian(np.mean(d2), 0.5)
    assert result.rms == pytest.approx(abs(z[0] @ z[1] - exact), abs=2e-5)
    assert result.bias == pytest.approx(z[0] @ z[1] - exact, abs=2e-5)
    rows = embedding.transform(sets).astype(np.float64)
    kernel_of_rows = gaussian(((rows[0] - rows[1]) ** 2).sum(), 0.5)
    assert result.features_rms == pytest.approx(abs(z[0] @ z[1] - kernel_of_rows), abs=2e-5)
    assert result.distance_rms == pytest.approx(abs(kernel_of_rows - exact), abs=2e-5)
    assert result.low == pytest.approx(result.high, abs=1e-6)


def mean_kernel(x, y, p, q, sigma):
    return (p / p.sum()) @ np.exp(-((x[:, None] - y) ** 2).sum(axis=2) / (2 * sigma**2)) @ (q / q.sum())


def test_errors_of_mean_embeddings_match_brute_force_and_intervals_cover():
    arrays = [RNG.normal(i % 4, 1, (12, 3)) + 1000 for i in range(14)]
    w = [RNG.random(12) for _ in arrays]
    sets = dk.SampleSets.from_arrays(arrays, weights=w)
    model = dk.MeanEmbedding(40, 1.5, "iid", random_state=1).fit(sets)
    A = model.transform(sets).astype(np.float64)
    x, w = [s.astype(np.float64) for s in sets], [sets.weights_of(i).astype(np.float64) for i in range(14)]
    errors = [
        A[i] @ A[j] - mean_kernel(x[i], x[j], w[i], w[j], 1.5)
        for i, j in itertools.combinations(range(14), 2)
    ]
    rms = np.sqrt(np.mean(np.square(errors)))
    result = [dk.kernel_error(model, sets, n_pairs=50, random_state=s) for s in range(40)]
    assert np.mean([e.rms**2 for e in result]) == pytest.approx(rms**2, rel=0.15)
    assert np.mean([e.low <= rms <= e.high for e in result]) > 0.85  # nominal 95 %, reduced by skewness
    assert max(e.largest for e in result) <= np.abs(errors).max() + 1e-6
    assert result[0] == dk.kernel_error(model, sets, n_pairs=50, random_state=0)
    assert result[0].distance_rms == 0


def test_errors_of_a_grid_are_within_its_bound():
    sets = gaussian_mixtures(8, 2, 50, seed=1)
    model = dk.MeanEmbedding(300, [0.3, 0.6], "fourier").fit(sets)
    result = dk.kernel_error(model, sets, random_state=0)
    assert result.largest <= model.error_bound_
    model = make_pipeline(model, dk.RandomFourierFeatures(200, sigma=0.5, random_state=0)).fit(sets)
    result = dk.kernel_error(model, sets, random_state=0)
    assert result.distance_rms < 1e-3 < result.features_rms


@pytest.mark.parametrize(
    ("embedding", "d"),
    [
        (dk.DivergenceEmbedding("hellinger"), 2),
        (dk.DivergenceEmbedding("total-variation", structure="marginal"), 3),
        (dk.DivergenceEmbedding("hellinger", bandwidth=0.3), 4),
        (dk.L2Embedding(), 2),
        (dk.HistogramEmbedding(), 1),
    ],
)
def test_error_decreases_with_features(embedding, d, tmp_path):
    sets = gaussian_mixtures(40, d, 80, seed=2)
    y = np.arange(40) % 2
    store = dk.write_sets(tmp_path / "s.zarr", sets)
    result = []
    for n in (100, 5000):
        model = make_pipeline(
            embedding,
            dk.RandomFourierFeatures(n, random_state=0),
            dk.IncrementalSGDClassifier(n_epochs=1, random_state=0),
        )
        result.append(dk.kernel_error(model.fit(store, y), store, random_state=0))
    assert result[1].features_rms < 0.3 * result[0].features_rms < 0.03
    assert result[1].distance_rms == pytest.approx(result[0].distance_rms, abs=1e-6)
    assert result[1].distance_rms < 0.03
    assert result[1] == dk.kernel_error(model, store.load(), random_state=0)


def test_invalid_input_raises():
    sets = [RNG.random((9, 1)) for _ in range(4)]
    divergence = dk.DivergenceEmbedding().fit(sets)
    features = dk.RandomFourierFeatures(10, sigma=1.0)
    distance = dk.DistanceEmbedding("hausdorff", n_components=4, random_state=0)
    for model in (
        divergence,
        make_pipeline(distance, features).fit(sets),
        "model",
        features.fit(np.zeros((2, 2))),
    ):
        with pytest.raises(ValueError, match="model must be a fitted MeanEmbedding, or a fitted pipeline"):
            dk.kernel_error(model, sets)
    mean = dk.MeanEmbedding(10, 1.0, "iid").fit(sets)
    with pytest.raises(ValueError, match="at least 2 sets"):
        dk.kernel_error(mean, sets[:1])
    with pytest.raises(ValueError, match="n_pairs"):
        dk.kernel_error(mean, sets, n_pairs=1)


def test_unfitted_models_and_invalid_sets_raise():
    sets = list(RNG.normal(size=(4, 20, 1)))
    for model in (dk.MeanEmbedding(), make_pipeline(dk.MeanEmbedding(), dk.RandomFourierFeatures(10))):
        with pytest.raises(NotFittedError):
            dk.kernel_error(model, sets)
    weighted = dk.SampleSets.from_arrays(sets, [np.zeros(20), *np.ones((3, 20))])
    with pytest.warns(UserWarning, match="invalid set"):
        model = dk.MeanEmbedding(sigma=1.0, on_error="skip").fit(weighted)
    with (
        pytest.warns(UserWarning, match="invalid set"),
        pytest.raises(ValueError, match="the row of set 0 is NaN"),
    ):
        dk.kernel_error(model, weighted, random_state=0)
