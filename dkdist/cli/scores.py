"""Scores of predictions, next to those of a constant prediction."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier

from dkdist.cli.help import SCORE


def score_document(model: Any, truth: NDArray[Any], predicted: NDArray[Any]) -> dict[str, Any]:
    """Return accuracy of a classifier, or R^2 and root mean squared error of a regressor; the others are None."""
    scores = _score_classes(truth, predicted) if is_classifier(model) else _score_numbers(truth, predicted)
    return dict.fromkeys(SCORE) | {"n_sets": len(truth)} | scores


def format_score(document: dict[str, Any]) -> str:
    """Format a score in one line, an accuracy with its binomial standard error."""
    n_sets = document["n_sets"]
    if document["task"] == "classify":
        accuracy = document["accuracy"]
        std_error = math.sqrt(accuracy * (1 - accuracy) / n_sets)
        # the formula gives 0 if all or no predictions are correct: such a score is not certain
        error_text = f" (standard error {std_error:.4f})" if std_error else ""
        return (
            f"accuracy {accuracy:.4f}{error_text} on {n_sets:,} sets; "
            f"always the largest class: {document['largest_class']:.4f}"
        )
    return (
        f"R2 {document['r2']:.4f}, root mean squared error {document['rmse']:.6g} on {n_sets:,} sets; "
        f"always the mean: {document['standard_deviation']:.6g}"
    )


def _score_classes(truth: NDArray[Any], predicted: NDArray[Any]) -> dict[str, Any]:
    if truth.dtype.kind == "f" or (truth.dtype.kind == "U") != (predicted.dtype.kind in "UO"):
        raise ValueError(
            f"--target must be the target that the model was trained on; the model predicts classes "
            f"({predicted.dtype}), the target has dtype {truth.dtype}"
        )
    largest_class = np.unique(truth, return_counts=True)[1].max() / len(truth)
    return {"task": "classify", "accuracy": np.mean(truth == predicted), "largest_class": largest_class}


def _score_numbers(truth: NDArray[Any], predicted: NDArray[Any]) -> dict[str, Any]:
    if truth.dtype.kind not in "fiub" or truth.shape != predicted.shape:
        raise ValueError(
            f"--target must be the target that the model was trained on; the model predicts numbers of shape "
            f"{predicted.shape}, the target has dtype {truth.dtype} and shape {truth.shape}"
        )
    squared_error = np.mean((truth - predicted) ** 2)
    variance = np.mean((truth - truth.mean(axis=0)) ** 2)
    r2 = 1 - squared_error / variance if variance > 0 else float("nan")
    return {
        "task": "regress",
        "r2": r2,
        "rmse": np.sqrt(squared_error),
        "standard_deviation": np.sqrt(variance),
    }
