"""Open a store, build a pipeline, train on some of the sets and score on the others."""

import tempfile

import numpy as np
from sklearn.pipeline import make_pipeline

import dkdist as dk

# Data: 2,000 sets of 100 points. Class 1 is a ring with the mean and covariance of class 0.
rng = np.random.default_rng(0)
labels = rng.integers(2, size=2000)
angles, noise = rng.uniform(0, 2 * np.pi, (2000, 100)), rng.normal(size=(2000, 100, 2))
rings = np.sqrt(1.5) * np.stack([np.cos(angles), np.sin(angles)], axis=-1) + 0.5 * noise

with tempfile.TemporaryDirectory() as folder:
    data = np.where(labels[:, None, None] == 1, rings, noise)
    dk.write_sets(f"{folder}/bags.zarr", data, targets=labels)

    sets = dk.open_sets(f"{folder}/bags.zarr")
    y = sets.targets["y"]
    model = make_pipeline(
        dk.DivergenceEmbedding("jensen-shannon", domain=(-6, 6)),
        dk.RandomFourierFeatures(1000, random_state=0),
        dk.IncrementalSGDClassifier(n_epochs=5, random_state=0),
    )
    model.fit(sets[:1500], y[:1500])
    print(f"accuracy on 500 test sets: {model.score(sets[1500:], y[1500:]):.3f}")
