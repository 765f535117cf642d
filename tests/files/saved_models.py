"""Write models of this version with sets and predictions, which are kept permanently in ``saved/VERSION``.

``python tests/files/saved_models.py`` writes those that do not exist yet; ``test_saved_models.py`` reads all of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import dkdist as dk

FOLDER = Path(__file__).parent / "saved"
PREDICTION_METHODS = ("predict", "predict_proba", "decision_function", "predict_set", "predict_interval")


def models(sets: list[Any], y: Any) -> Iterator[tuple[str, Any]]:
    """Yield (name, fitted model) for every kind of embedding and learner."""
    labels = np.array(["left", "right"])[y]
    features = dk.RandomFourierFeatures(20, random_state=0)
    densities = dk.SetScaler(), dk.DivergenceEmbedding(bandwidth=0.2), features
    classifier = dk.IncrementalSGDClassifier(n_epochs=3, random_state=0)
    yield "sgd", make_pipeline(*densities, StandardScaler(), classifier).fit(sets, labels)
    ridge = dk.IncrementalRidge(alphas=(0.1, 1.0), random_state=0)
    for name, embedding in {
        "mean": dk.MeanEmbedding(20, random_state=0),
        "histogram": dk.HistogramEmbedding(n_bins=4),
        "sliced_wasserstein": dk.SlicedWassersteinEmbedding(random_state=0),
        "distance": dk.DistanceEmbedding("energy", n_components=20, random_state=0),
    }.items():
        yield name, make_pipeline(embedding, ridge).fit(sets, y.astype(float))
    numbers = np.array([one.mean() for one in sets])
    squares = dk.IncrementalSGDRegressor(n_epochs=3, random_state=0)
    yield (
        "l2",
        make_pipeline(dk.SetPCA(2), dk.L2Embedding(n_basis=4), StandardScaler(), squares).fit(sets, numbers),
    )
    probabilities = dk.IncrementalRidgeClassifier(random_state=0)
    invariant = dk.InvariantFeatures(dk.HistogramEmbedding(n_bins=4), features)
    for name, embedding in {
        "ridge_classifier": dk.MomentEmbedding(degree=2),
        "summary": dk.SummaryEmbedding(),
        "invariant": invariant,
        "thinned": make_pipeline(dk.CoresetThinning(6, random_state=0), dk.MeanEmbedding(20, random_state=0)),
        "series": dk.DistanceEmbedding("dtw", n_components=10, random_state=0),
    }.items():
        yield name, make_pipeline(embedding, probabilities).fit(sets, labels)
    grid = {"divergenceembedding__bandwidth": [0.2, 0.3]}
    yield (
        "search",
        dk.OnePassSearch(make_pipeline(*densities[1:], ridge), grid, random_state=0).fit(sets, numbers),
    )
    chosen = dk.SetClassifier(["moments", "hellinger"], random_state=0).fit(sets, labels)
    yield "automatic", chosen.best_estimator_
    yield "set_classifier", chosen
    yield "set_regressor", dk.SetRegressor(["means", "symmetric"], random_state=0).fit(sets, numbers)


def models_of_words(words: list[str], y: Any) -> Iterator[tuple[str, Any]]:
    """Yield (name, fitted model) for estimators of text."""
    distances = dk.DistanceEmbedding("levenshtein", n_components=10, random_state=0)
    yield "words", make_pipeline(distances, dk.IncrementalRidgeClassifier(random_state=0)).fit(words, y)
    yield (
        "n_grams",
        make_pipeline(dk.NGramEmbedding((1, 2)), dk.IncrementalRidgeClassifier(random_state=0)).fit(words, y),
    )


def predictions_by_method(model: Any, sets: Any) -> dict[str, Any]:
    """Return all predictions of a model by name of the method."""
    return {
        name: np.asarray(getattr(model, name)(sets)) for name in PREDICTION_METHODS if hasattr(model, name)
    }


def write() -> None:
    rng = np.random.default_rng(0)
    y = np.arange(40) % 2
    sets = [rng.normal(0, 1 + k, (rng.integers(10, 20), 2)) for k in y]
    new = dk.SampleSets.from_arrays([rng.normal(0, 1 + k % 2, (12, 2)) for k in range(10)])
    words = ["".join(rng.choice(list("abc" if k else "bcd"), 8)) for k in y]
    folder = FOLDER / dk.__version__
    folder.mkdir(parents=True, exist_ok=True)
    for name, model in models(sets, y):
        _write_model(folder, name, model, new, {"points": new.points, "offsets": new.offsets})
    for name, model in models_of_words(words, y):
        _write_model(folder, name, model, words[:10], {"words": np.array(words[:10])})


def _write_model(folder: Path, name: str, model: Any, new: Any, inputs: dict[str, Any]) -> None:
    path = folder / f"{name}.npz"
    if not path.exists():
        dk.save_model(model, path)
        np.savez_compressed(
            folder / f"{name}.expected.npz", allow_pickle=False, **inputs, **predictions_by_method(model, new)
        )


if __name__ == "__main__":
    write()
