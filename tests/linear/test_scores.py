"""Scores of lazy features, compared with scikit-learn's metrics of the predictions."""

from __future__ import annotations

from typing import Any

import dask.array as da
import numpy as np
import pytest
from sklearn.metrics import accuracy_score, r2_score

from dkdist import (
    IncrementalRidge,
    IncrementalRidgeClassifier,
    IncrementalSGDClassifier,
    IncrementalSGDRegressor,
)

RNG = np.random.default_rng(0)
X = RNG.standard_normal((300, 5)).astype("f4")
LAZY = da.from_array(X, chunks=(40, -1))
NOISY = X @ np.arange(5) + RNG.standard_normal(300)
WEIGHTS = RNG.random(300)


@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("weights", [None, WEIGHTS])
@pytest.mark.parametrize(
    "model", [IncrementalRidgeClassifier(random_state=0), IncrementalSGDClassifier(random_state=0)]
)
def test_score_matches_accuracy(model: Any, weights: Any, n_classes: int) -> None:
    y = np.array(["a", "b", "c", "d"])[
        np.digitize(NOISY, np.quantile(NOISY, np.arange(1, n_classes) / n_classes))
    ]
    model.fit(X, y)
    result = model.score(LAZY, y, weights)
    assert 0.4 < result < 1.0
    assert result == pytest.approx(accuracy_score(y, model.predict(X), sample_weight=weights))
    assert model.score(X, y, weights) == pytest.approx(result)


@pytest.mark.parametrize("weights", [None, WEIGHTS])
@pytest.mark.parametrize("model", [IncrementalRidge(random_state=0), IncrementalSGDRegressor(random_state=0)])
def test_score_matches_r2(model: Any, weights: Any) -> None:
    model.fit(X, NOISY)
    assert model.score(LAZY, NOISY, weights) == pytest.approx(
        r2_score(NOISY, model.predict(X), sample_weight=weights), rel=1e-5
    )


def test_score_of_several_targets_with_constant() -> None:
    y = np.stack([NOISY, X[:, 1] ** 2, np.full(300, 2.0)], axis=1)
    model = IncrementalRidge(random_state=0).fit(X, y[:, :2])
    assert model.score(LAZY, y[:, :2]) == pytest.approx(r2_score(y[:, :2], model.predict(X)), rel=1e-5)
    model.fit(X, y)
    model.intercept_[2] += 1.0
    assert model.score(LAZY, y) == pytest.approx(r2_score(y, model.predict(X)), rel=1e-5)


def test_score_of_different_lengths_raises() -> None:
    model = IncrementalRidgeClassifier(alphas=1.0).fit(X, NOISY > 0)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        model.score(LAZY, (NOISY > 0)[1:])
