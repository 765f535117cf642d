"""How good predictions are, in one line, beside the best that can be said without looking at a set."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier


def score_line(model: Any, truth: NDArray[Any], predicted: NDArray[Any]) -> str:
    """Accuracy of a classifier; R^2 and root mean squared error of a regressor."""
    if is_classifier(model):
        if truth.dtype.kind == "f" or (truth.dtype.kind == "U") != (predicted.dtype.kind in "UO"):
            raise ValueError(
                f"the model predicts classes ({predicted.dtype}) but the target holds {truth.dtype}: "
                "name the target that the model was trained on"
            )
        share = np.unique(truth, return_counts=True)[1].max() / len(truth)
        return (
            f"accuracy {np.mean(truth == predicted):.4f} of {len(truth):,} sets (largest class: {share:.4f})"
        )
    if truth.dtype.kind not in "fiub" or truth.shape != predicted.shape:
        raise ValueError(
            f"the model predicts numbers of shape {predicted.shape} but the target holds {truth.dtype} of "
            f"shape {truth.shape}: name the target that the model was trained on"
        )
    squared = np.mean((truth - predicted) ** 2)
    spread = np.mean((truth - truth.mean(axis=0)) ** 2)
    r2 = 1 - squared / spread if spread > 0 else float("nan")
    error, deviation = np.sqrt(squared), np.sqrt(spread)
    return (
        f"R2 {r2:.4f}, root mean squared error {error:.6g} over {len(truth):,} sets "
        f"(standard deviation: {deviation:.6g})"
    )
