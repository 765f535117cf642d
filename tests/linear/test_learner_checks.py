"""scikit-learn's estimator checks of all learners."""

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


def expected_failures(estimator: Any) -> dict[str, str]:
    """Return checks that require classes of rows with NaN, or that rows are not drawn or held out."""
    expected = {}
    if is_classifier(estimator) and estimator.on_error == "skip":
        expected["check_estimators_pickle"] = "rows with NaN have no class"
    if is_classifier(estimator) or getattr(estimator, "alphas", None) != 1.0:
        reason = "repeated rows are shuffled or held out one by one"  # as in scikit-learn's SGD and RidgeCV
        expected["check_sample_weight_equivalence_on_dense_data"] = reason
    if getattr(estimator, "selection", None) == "leave-one-out":
        for check in (
            "n_features_in_after_fitting",
            "estimators_partial_fit_n_features",
            "fit_score_takes_y",
        ):
            expected[f"check_{check}"] = "partial_fit does not support leave-one-out"
    return expected


@parametrize_with_checks(
    [
        IncrementalSGDClassifier(),
        IncrementalSGDClassifier("squared_hinge", n_lanes=2, validation_fraction=0.2, patience=2),
        IncrementalSGDRegressor(),
        IncrementalSGDRegressor("huber", epsilon=1.0),
        IncrementalRidge(),
        IncrementalRidge(selection="leave-one-out"),
        IncrementalRidgeClassifier(),
        IncrementalRidge(1.0),
        IncrementalRidgeClassifier(1.0),
        IncrementalSGDClassifier(on_error="skip"),
        IncrementalSGDRegressor(on_error="skip", n_lanes=2),
        IncrementalRidge(on_error="skip"),
        IncrementalRidgeClassifier(on_error="skip"),
    ],
    expected_failed_checks=expected_failures,
)
def test_scikit_learn_conventions(estimator: Any, check: Any) -> None:
    check(estimator)
