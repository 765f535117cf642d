"""Models saved by this version, with sets and what was predicted for them: kept for ever in ``saved/VERSION``.

``python tests/files/saved_models.py`` writes them, once for each release; ``test_saved_models.py`` reads all there are.
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


def models(sets: list[Any], y: Any) -> Iterator[tuple[str, Any]]:
    """(name, model that learned), of every room."""
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
    chosen = dk.SetClassifier(["moments", "hellinger"], random_state=0).fit(sets, labels)
    yield "automatic", chosen.best_estimator_


def write() -> None:
    rng = np.random.default_rng(0)
    y = np.arange(40) % 2
    sets = [rng.normal(0, 1 + k, (rng.integers(10, 20), 2)) for k in y]
    new = dk.SampleSets.from_arrays([rng.normal(0, 1 + k % 2, (12, 2)) for k in range(10)])
    folder = FOLDER / dk.__version__
    folder.mkdir(parents=True, exist_ok=True)
    for name, model in models(sets, y):
        dk.save_model(model, folder / f"{name}.npz")
        expected = model.predict(new)
        np.savez(folder / f"{name}.expected.npz", points=new.points, offsets=new.offsets, expected=expected)


if __name__ == "__main__":
    write()
