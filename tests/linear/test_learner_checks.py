"""scikit-learn's own checks of estimators, all of them."""

from __future__ import annotations

from typing import Any

from sklearn.base import is_classifier
from sklearn.utils.estimator_checks import parametrize_with_checks

from dkdist import (
    IncrementalRidge,
    IncrementalRidgeClassifier,
    IncrementalSGDClassifier,
    IncrementalSGDRegressor,
)


def refused(estimator: Any) -> dict[str, str]:
    """Checks that ask a classifier for the class of rows with NaN, which it refuses to say."""
    skips = is_classifier(estimator) and estimator.on_error == "skip"
    return {"check_estimators_pickle": "rows with NaN have no class"} if skips else {}


@parametrize_with_checks(
    [
        IncrementalSGDClassifier(),
        IncrementalSGDClassifier("squared_hinge", n_lanes=2, validation_fraction=0.2, patience=2),
        IncrementalSGDRegressor(),
        IncrementalSGDRegressor("huber", epsilon=1.0),
        IncrementalRidge(),
        IncrementalRidge(selection="leave-one-out"),
        IncrementalRidgeClassifier(),
        IncrementalSGDClassifier(on_error="skip"),
        IncrementalSGDRegressor(on_error="skip", n_lanes=2),
        IncrementalRidge(on_error="skip"),
        IncrementalRidgeClassifier(on_error="skip"),
    ],
    expected_failed_checks=refused,
)
def test_scikit_learn_conventions(estimator: Any, check: Any) -> None:
    check(estimator)
