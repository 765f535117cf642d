"""Predictions of a model for all sets of a store, on which all sections of a report are based."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier

from dkdist.cli._tuning import PREDICT_BATCH_SETS


@dataclass(frozen=True)
class Evaluation:
    """Targets (n,), predictions (n,) and probabilities (n, n_classes) or None of n sets of a store."""

    model: Any
    sets: Any
    target: str
    truth: NDArray[Any]
    predicted: NDArray[Any]
    probabilities: NDArray[Any] | None

    @property
    def classifies(self) -> bool:
        """True if the targets are classes."""
        return bool(is_classifier(self.model))

    @cached_property
    def pipeline(self) -> Any:
        """The model, or the best candidate of an automatic model or a search, fitted if necessary."""
        return getattr(self.model, "best_estimator_", self.model)

    @property
    def examples(self) -> list[int]:
        """Indices of up to four sets: the first of every class, or at equal steps of the sorted targets."""
        if self.classifies:
            return [int(np.argmax(self.truth == c)) for c in np.unique(self.truth)[:4]]
        order = np.argsort(self.truth, kind="stable")
        return [int(i) for i in order[np.linspace(0, len(order) - 1, min(4, len(order))).round().astype(int)]]


def evaluate_model(model: Any, sets: Any, target: str, truth: NDArray[Any]) -> Evaluation:
    """Predict every set, in batches; ValueError if the target does not suit the model."""
    if len(sets) < 2:
        raise ValueError(f"a report needs at least 2 sets; got {len(sets)}")
    _check_target_kind(model, target, truth)
    starts = range(0, len(sets), PREDICT_BATCH_SETS)
    views = [sets[start : start + PREDICT_BATCH_SETS] for start in starts]
    predicted = np.concatenate([model.predict(view) for view in views])
    if predicted.shape != truth.shape:
        raise ValueError(
            f"--target must be the target that the model was trained on; the model predicts numbers of shape "
            f"{predicted.shape[1:]} per set, target {target!r} has shape {truth.shape[1:]}"
        )
    has_probabilities = is_classifier(model) and hasattr(model, "predict_proba")
    probabilities = (
        np.concatenate([model.predict_proba(view) for view in views]) if has_probabilities else None
    )
    return Evaluation(model, sets, target, truth, predicted, probabilities)


def _check_target_kind(model: Any, target: str, truth: NDArray[Any]) -> None:
    remedy = "Pass the target that the model was trained on as --target"
    if truth.ndim != 1:
        raise ValueError(
            f"a report needs one number or class per set; target {target!r} has {truth.shape[1]}. {remedy}"
        )
    if not is_classifier(model):
        if truth.dtype.kind not in "fiub" or not np.isfinite(truth).all():
            raise ValueError(
                f"the model predicts numbers; target {target!r} contains values that are not finite numbers. {remedy}"
            )
        return
    unknown = truth[~np.isin(truth, model.classes_)]
    if len(unknown):
        classes = ", ".join(map(str, np.asarray(model.classes_)[:10].tolist()))
        raise ValueError(
            f"target {target!r} contains {unknown.tolist()[0]!r}; the classes of the model are {classes}. {remedy}"
        )
