"""Classify cats and dogs of CIFAR-10 as distributions of edges: position and direction, weighted by strength.

Requires cifar10_cats_dogs.npz in the directory DKDIST_DATA (default ../shared/data): arrays images (n, 32, 32) uint8
grey, labels (0 cat, 1 dog) and is_test. To create it from CIFAR-10 (Krizhevsky 2009,
https://www.cs.toronto.edu/~kriz/cifar.html), keep classes 3 and 5, take the mean of the three colours, and mark
the images of the test batch.
"""

import os
import sys
from pathlib import Path

import numpy as np
from sklearn.pipeline import make_pipeline

import dkdist as dk

path = Path(os.environ.get("DKDIST_DATA", "../shared/data")) / "cifar10_cats_dogs.npz"
if not path.is_file():
    sys.exit(f"{path} does not exist. Set DKDIST_DATA to the directory of {path.name}.\n\n{__doc__}")
data = np.load(path)
images, labels, is_test = data["images"] / np.float32(255), data["labels"], data["is_test"]

side = (np.arange(32, dtype=np.float32) + 0.5) / 32
y, x = np.broadcast_arrays(side[:, None], side, images)[:2]
down, right = np.gradient(images, axis=(1, 2))
direction = np.arctan2(down, right) / (2 * np.pi) + 0.5
points = np.stack([x, y, direction], axis=-1).reshape(-1, 3)
strength = np.hypot(down, right).ravel() + 1e-4  # an image without edges gets uniform weights
sets = dk.SampleSets(points, np.arange(len(images) + 1) * 32 * 32, strength)

model = make_pipeline(
    dk.DivergenceEmbedding("hellinger", n_basis=8, bandwidth=0.08, domain="unit"),
    dk.RandomFourierFeatures(2000, random_state=0),
    dk.IncrementalRidgeClassifier(random_state=0),
)
model.fit(sets[~is_test], labels[~is_test])
print(
    f"accuracy on {is_test.sum()} test images: {model.score(sets[is_test], labels[is_test]):.3f} (chance: 0.5)"
)
