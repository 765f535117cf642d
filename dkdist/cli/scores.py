"""How good predictions are, beside the best that can be said without looking at a set."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier

from dkdist.cli.help import SCORE


def score_document(model: Any, truth: NDArray[Any], predicted: NDArray[Any]) -> dict[str, Any]:
    """Accuracy of a classifier, or R^2 and root mean squared error of a regressor; None for those of the other."""
    found = _score_classes(truth, predicted) if is_classifier(model) else _score_numbers(truth, predicted)
    return dict.fromkeys(SCORE) | {"n_sets": len(truth)} | found


def format_score(found: dict[str, Any]) -> str:
    """A score in one line."""
    if found["task"] == "classify":
        return (
            f"accuracy {found['accuracy']:.4f} of {found['n_sets']:,} sets "
            f"(largest class: {found['largest_class']:.4f})"
        )
    return (
        f"R2 {found['r2']:.4f}, root mean squared error {found['rmse']:.6g} over {found['n_sets']:,} sets "
        f"(standard deviation: {found['standard_deviation']:.6g})"
    )


def _score_classes(truth: NDArray[Any], predicted: NDArray[Any]) -> dict[str, Any]:
    if truth.dtype.kind == "f" or (truth.dtype.kind == "U") != (predicted.dtype.kind in "UO"):
        raise ValueError(
            f"the model predicts classes ({predicted.dtype}) but the target holds {truth.dtype}: "
            "name the target that the model was trained on"
        )
    share = np.unique(truth, return_counts=True)[1].max() / len(truth)
    return {"task": "classify", "accuracy": np.mean(truth == predicted), "largest_class": share}


def _score_numbers(truth: NDArray[Any], predicted: NDArray[Any]) -> dict[str, Any]:
    if truth.dtype.kind not in "fiub" or truth.shape != predicted.shape:
        raise ValueError(
            f"the model predicts numbers of shape {predicted.shape} but the target holds {truth.dtype} of "
            f"shape {truth.shape}: name the target that the model was trained on"
        )
    squared = np.mean((truth - predicted) ** 2)
    spread = np.mean((truth - truth.mean(axis=0)) ** 2)
    r2 = 1 - squared / spread if spread > 0 else float("nan")
    numbers = {"r2": r2, "rmse": np.sqrt(squared), "standard_deviation": np.sqrt(spread)}
    return {"task": "regress", **numbers}
