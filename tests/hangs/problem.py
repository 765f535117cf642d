"""A small fit from a store and the digest of its result, for any calling context."""

from __future__ import annotations

import hashlib
import os
from typing import Any

import numpy as np
from sklearn.pipeline import make_pipeline

import dkdist as dk


def write(path: Any) -> None:
    y = np.arange(48) % 2
    rng = np.random.default_rng(0)
    dk.write_sets(path, [rng.normal(0.4 + 0.2 * c, 0.1, (10, 2)) for c in y], targets={"y": y})


def sets() -> Any:
    return dk.open_sets(os.environ["DKDIST_TEST_STORE"], block_sets=8)


def model() -> Any:
    return make_pipeline(
        dk.DivergenceEmbedding("jensen-shannon", domain="unit"),
        dk.RandomFourierFeatures(64, random_state=0),
        dk.IncrementalSGDClassifier(n_epochs=2, random_state=0),
    )


def fit(*_: Any) -> str:
    data = sets()
    fitted = model().fit(data, data.targets["y"])
    return hashlib.md5(fitted[-1].coef_.tobytes() + fitted.decision_function(data).tobytes()).hexdigest()
