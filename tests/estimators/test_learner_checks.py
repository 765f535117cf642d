"""scikit-learn's own checks of estimators, all of them."""

from __future__ import annotations

from typing import Any

from sklearn.utils.estimator_checks import parametrize_with_checks

from dkdist import (
    IncrementalRidge,
    IncrementalRidgeClassifier,
    IncrementalSGDClassifier,
    IncrementalSGDRegressor,
)


@parametrize_with_checks(
    [
        IncrementalSGDClassifier(),
        IncrementalSGDClassifier("squared_hinge", n_lanes=2, validation_fraction=0.2, patience=2),
        IncrementalSGDRegressor(),
        IncrementalSGDRegressor("huber", epsilon=1.0),
        IncrementalRidge(),
        IncrementalRidge(selection="leave-one-out"),
        IncrementalRidgeClassifier(),
    ]
)
def test_scikit_learn_conventions(estimator: Any, check: Any) -> None:
    check(estimator)
