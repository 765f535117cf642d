"""A fitted pipeline of scalers, an embedding, features and a linear learner, as what is explained.

A pipeline's prediction as a function of the embedding's row: maps of the row, then k linear functions.

f(a) = coef . z_k(.. z_1(a)),    df/da = J_1' .. J_k' coef

A fitted model as what is explained: how it takes sets, and the function of sets that it predicts by.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import check_is_fitted

from dkdist._base.embedding import SetEmbedding, check_fitted_sets
from dkdist._base.inputs import Sets
from dkdist._numba.arrays import F32, F64
from dkdist.embeddings.mapped_embedding import MappedEmbeddingSpec
from dkdist.embeddings.set_pca import SetPCA
from dkdist.embeddings.set_scaler import SetScaler
from dkdist.inspection.set_function import SetFunction
from dkdist.kernels.random_fourier_features import RandomFourierFeatures
from dkdist.linear.problems import LinearLearner

ROW_MAPS = (RandomFourierFeatures, StandardScaler)


@dataclass(frozen=True)
class LinearTerm:
    """``coef`` (k, D) times what the maps make of a row."""

    spec: Any
    maps: tuple[Any, ...]
    coef: F64

    def values(self, rows: F32) -> F64:
        """(n, k) at rows (n, m)."""
        return np.asarray(self._stages(rows)[-1].astype(np.float64) @ self._columns)

    @property
    def training_rows(self) -> None:
        """A pipeline keeps no sets."""

    def gradient(self, row: F32, starts: F32 | None) -> F64:
        """Gradients (m, k) averaged from the starts (k, m), one for each function, to a row (m,), or at the row."""
        stages = self._stages(row[None])[:-1]
        start_stages: Sequence[Any] = [None] * len(stages) if starts is None else self._stages(starts)[:-1]
        gradient = self._columns
        for step, rows, step_starts in zip(self.maps[::-1], stages[::-1], start_stages[::-1], strict=True):
            if isinstance(step, RandomFourierFeatures):
                gradient = step.spec_.materialize().pull_back(rows[0], gradient, step_starts)
            elif step.scale_ is not None:
                gradient = gradient / step.scale_[:, None]
        return gradient

    def _stages(self, rows: F32) -> list[F32]:
        """The rows (n, m) before each map, and after the last."""
        stages = [rows]
        for step in self.maps:
            stages.append(np.asarray(step.transform(stages[-1]), np.float32))
        return stages

    @property
    def _columns(self) -> F64:
        return np.ascontiguousarray(self.coef.T)


@dataclass(frozen=True)
class Subject:
    """What a model predicts: ``scale`` (k,) times the function plus ``shift`` (k,).

    ``first`` is the estimator that sets come to, and ``scalers`` change them on their way to the function.
    ``reference`` (k,) is the prediction that contributions are counted from, and ``single`` says whether predictions
    have no axis of outputs; ``outputs`` are the labels of that axis. ``background`` are sets to compare with, if the
    model keeps some.
    """

    function: SetFunction
    first: Any
    scalers: tuple[Any, ...]
    reference: F64
    scale: F64
    shift: F64
    single: bool
    outputs: Sequence[Any]
    background: Sets | None = None

    @property
    def n_outputs(self) -> int:
        """The number k of functions."""
        return len(self.scale)

    def taken(self, X: Any) -> Sets:
        """The sets as the function takes them; refused by name if the model would refuse them."""
        text = getattr(self.first, "_accepts_strings", False)
        sets = check_fitted_sets(self.first, X, text=text)
        for scaler in self.scalers:
            sets = scaler.transform(sets)
        return sets

    @property
    def scales_each_set(self) -> bool:
        """Whether a set is scaled by its own points."""
        return any(
            isinstance(spec, MappedEmbeddingSpec) and spec.has_per_set_map
            for spec in (term.spec for term in self.function.terms)
        )

    def in_function(self, prediction: F64) -> F64:
        """A prediction (k,) in units of the function."""
        return (prediction - self.shift) / self.scale

    def told(self, found: F64) -> F64:
        """Contributions (.., k) of the function in units of predictions, and of their shape."""
        scaled = found * self.scale
        return scaled[..., 0] if self.single else scaled


Step = tuple[str, Any]
WANTED = (
    "SetScaler and SetPCA (or none), one embedding of sets, RandomFourierFeatures and StandardScaler (or none of "
    "them), and a linear learner of dkdist"
)


def subject_of(model: Any) -> Subject:
    """What a fitted pipeline predicts; ValueError naming a step through which influence is not known."""
    found = getattr(model, "best_estimator_", model)  # of a search
    if not isinstance(found, Pipeline):
        raise ValueError(
            f"model must be a fitted pipeline of {WANTED}, or a search over such pipelines, a SetClassifier or a "
            f"SetRegressor; found {type(found).__name__}"
        )
    scalers, embedding, maps, learner = _parts(list(_steps(found)))
    for step in (*scalers, embedding, *maps, learner):
        check_is_fitted(step)
    pooled = tuple(takewhile(_keeps_columns, scalers))
    own = tuple(scaler.spec_ for scaler in scalers[len(pooled) :])
    coef = np.atleast_2d(learner.coef_).astype(np.float64)
    intercept = np.broadcast_to(np.ravel(learner.intercept_).astype(np.float64), (len(coef),))
    term = LinearTerm(MappedEmbeddingSpec(own, embedding.spec_) if own else embedding.spec_, maps, coef)
    single = len(coef) == 1 and (hasattr(learner, "classes_") or np.ndim(learner.coef_) == 1)
    first = scalers[0] if scalers else embedding
    scale, shift = np.ones(len(coef)), np.zeros(len(coef))
    classes = getattr(learner, "classes_", ())
    outputs = classes if len(classes) == len(coef) else range(len(coef))
    return Subject(SetFunction((term,), intercept), first, pooled, intercept, scale, shift, single, outputs)


def _steps(model: Pipeline, before: str = "") -> Iterator[Step]:
    """All steps that do something, those of pipelines within included."""
    for name, step in model.steps:
        if isinstance(step, Pipeline):
            yield from _steps(step, f"{before}{name}.")
        elif step is not None and not (isinstance(step, str) and step == "passthrough"):
            yield before + name, step


def _parts(steps: list[Step]) -> tuple[list[Any], Any, tuple[Any, ...], Any]:
    """Scalers, embedding, maps of rows and learner, in this order."""
    places = [i for i, (_, step) in enumerate(steps) if isinstance(step, SetEmbedding)]
    if len(places) != 1:
        raise ValueError(f"model must have one embedding of sets, found {len(places)}: expected {WANTED}")
    at = places[0]
    _require(steps[:at], (SetScaler, SetPCA))
    _require(steps[at + 1 : -1], ROW_MAPS)
    _require(steps[-1:], LinearLearner)
    scalers, maps = ([step for _, step in some] for some in (steps[:at], steps[at + 1 : -1]))
    return scalers, steps[at][1], tuple(maps), steps[-1][1]


def _keeps_columns(step: Any) -> bool:
    """Whether what comes after a map of sets may be divided among the columns that come to it."""
    return isinstance(step, SetScaler) and not step.spec_.per_set


def _require(steps: list[Step], kinds: Any) -> None:
    for name, step in steps:
        if not isinstance(step, kinds):
            raise ValueError(
                f"the influence of points through step {name!r} ({type(step).__name__}) is not known: expected "
                f"{WANTED}"
            )
