"""What a report rests on: a model, sets, their targets, and what the model says of every set."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier

SETS_AT_ONCE = 2**14


@dataclass(frozen=True)
class Evaluation:
    """Predictions (n,) of n sets of a store beside their targets; probabilities (n, n_classes) where there are any."""

    model: Any
    sets: Any
    target: str
    truth: NDArray[Any]
    predicted: NDArray[Any]
    probabilities: NDArray[Any] | None

    @property
    def classifies(self) -> bool:
        """Whether the target is a class."""
        return bool(is_classifier(self.model))

    @cached_property
    def pipeline(self) -> Any:
        """The model as a pipeline of public parts: itself, or the best that it chose from, which may be fitted now."""
        return getattr(self.model, "best_estimator_", self.model)

    @property
    def chosen(self) -> list[int]:
        """Up to four sets as examples: the first of every class, or at even steps of the target."""
        if self.classifies:
            return [int(np.argmax(self.truth == c)) for c in np.unique(self.truth)[:4]]
        order = np.argsort(self.truth, kind="stable")
        return [int(i) for i in order[np.linspace(0, len(order) - 1, min(4, len(order))).round().astype(int)]]


def evaluate_model(model: Any, sets: Any, target: str, truth: NDArray[Any]) -> Evaluation:
    """Predict every set, some thousand at a time; ValueError if the target is not what the model predicts."""
    if len(sets) < 2:
        raise ValueError(f"a report is of two sets or more; found {len(sets)}")
    _check_target_kind(model, target, truth)
    starts = range(0, len(sets), SETS_AT_ONCE)
    views = [sets[start : start + SETS_AT_ONCE] for start in starts]
    predicted = np.concatenate([model.predict(view) for view in views])
    if predicted.shape != truth.shape:
        raise ValueError(
            f"the model predicts numbers of shape {predicted.shape[1:]} a set, and target {target!r} has "
            f"{truth.shape[1:]}: name the target that the model was trained on"
        )
    sure = is_classifier(model) and hasattr(model, "predict_proba")
    probabilities = np.concatenate([model.predict_proba(view) for view in views]) if sure else None
    return Evaluation(model, sets, target, truth, predicted, probabilities)


def _check_target_kind(model: Any, target: str, truth: NDArray[Any]) -> None:
    advice = "name the target that the model was trained on by --target"
    if truth.ndim != 1:
        raise ValueError(
            f"a report is of one number or class a set; target {target!r} has {truth.shape[1]}: {advice}"
        )
    if not is_classifier(model):
        if truth.dtype.kind not in "fiub" or not np.isfinite(truth).all():
            raise ValueError(f"the model predicts numbers, and target {target!r} holds others: {advice}")
        return
    unknown = truth[~np.isin(truth, model.classes_)]
    if len(unknown):
        known = ", ".join(map(str, np.asarray(model.classes_)[:10].tolist()))
        raise ValueError(
            f"target {target!r} holds {unknown.tolist()[0]!r}, and the model knows {known}: {advice}"
        )
