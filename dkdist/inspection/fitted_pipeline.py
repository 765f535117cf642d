"""Fitted pipelines as subjects of explanations: scalers, an embedding, maps of rows and a linear learner.

The prediction is a function of the row a of the embedding: maps of the row, then k linear functions,

    f(a) = coef . z_k(.. z_1(a)),    df/da = J_1' .. J_k' coef
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
from dkdist.embeddings.rotations import DistanceProfiles, PrincipalAxes
from dkdist.embeddings.set_pca import SetPCA
from dkdist.embeddings.set_scaler import ScalerSpec, SetScaler
from dkdist.inspection.set_function import SetFunction
from dkdist.kernels.random_fourier_features import RandomFourierFeatures
from dkdist.linear.problems import LinearLearner

ROW_MAPS = (RandomFourierFeatures, StandardScaler)


@dataclass(frozen=True)
class LinearTerm:
    """``coef`` (k, D) times the mapped row."""

    spec: Any
    maps: tuple[Any, ...]
    coef: F64

    def values(self, rows: F32) -> F64:
        """Return values (n, k) of rows (n, m)."""
        return np.asarray(self._stages(rows)[-1].astype(np.float64) @ self._columns)

    @property
    def training_rows(self) -> None:
        """None, because a pipeline stores no sets."""

    def gradient(self, row: F32, starts: F32 | None) -> F64:
        """Return gradients (m, k) averaged from the starts (k, m), one per function, to a row (m,), or at the row."""
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
        """Return the rows (n, m) before each map and after the last."""
        stages = [rows]
        for step in self.maps:
            stages.append(np.asarray(step.transform(stages[-1]), np.float32))
        return stages

    @property
    def _columns(self) -> F64:
        return np.ascontiguousarray(self.coef.T)


@dataclass(frozen=True)
class Subject:
    """A prediction as a function of sets: ``scale`` (k,) times the function plus ``shift`` (k,).

    ``first`` is the estimator that validates sets, ``scalers`` transform them before the function. ``reference`` (k,)
    is the reference prediction of contributions. ``single`` predictions have no axis of outputs; ``outputs`` are the
    labels of that axis. ``background`` are background sets that the model stores, if any.
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
        """Number k of functions."""
        return len(self.scale)

    def transform_sets(self, X: Any) -> Sets:
        """Return validated and scaled sets for the function."""
        text = getattr(self.first, "_accepts_strings", False)
        sets = check_fitted_sets(self.first, X, text=text)
        for scaler in self.scalers:
            sets = scaler.transform(sets)
        return sets

    @property
    def scales_each_set(self) -> bool:
        """Whether a `SetScaler` scales each set by its own points."""
        specs = [term.spec for term in self.function.terms if isinstance(term.spec, MappedEmbeddingSpec)]
        return any(isinstance(step, ScalerSpec) and step.per_set for spec in specs for step in spec.maps)

    def to_function(self, prediction: F64) -> F64:
        """Return a prediction (k,) in units of the function."""
        return (prediction - self.shift) / self.scale

    def to_prediction(self, contributions: F64) -> F64:
        """Return contributions (.., k) of the function in units and shape of predictions."""
        scaled = contributions * self.scale
        return scaled[..., 0] if self.single else scaled


Step = tuple[str, Any]
EXPECTED_STEPS = (
    "SetScaler, SetPCA, PrincipalAxes and DistanceProfiles (or none), one embedding of sets, RandomFourierFeatures and "
    "StandardScaler (or none of them), and a linear learner of dkdist"
)


def subject_of(model: Any) -> Subject:
    """Return the subject of a fitted model; ValueError naming an unsupported step."""
    pipeline = getattr(model, "best_estimator_", model)  # the best pipeline of a search
    if not isinstance(pipeline, Pipeline):
        raise ValueError(
            f"model must be a fitted pipeline of {EXPECTED_STEPS}, or a search over such pipelines, a SetClassifier "
            f"or a SetRegressor; got {type(pipeline).__name__}."
        )
    scalers, embedding, maps, learner = _split_steps(list(_iter_steps(pipeline)))
    for step in (*scalers, embedding, *maps, learner):
        check_is_fitted(step)
    shared_scalers = tuple(takewhile(_preserves_columns, scalers))
    embedding_maps = tuple(scaler.spec_ for scaler in scalers[len(shared_scalers) :])
    coef = np.atleast_2d(learner.coef_).astype(np.float64)
    intercept = np.broadcast_to(np.ravel(learner.intercept_).astype(np.float64), (len(coef),))
    term = LinearTerm(
        MappedEmbeddingSpec(embedding_maps, embedding.spec_) if embedding_maps else embedding.spec_,
        maps,
        coef,
    )
    single = len(coef) == 1 and (hasattr(learner, "classes_") or np.ndim(learner.coef_) == 1)
    first = scalers[0] if scalers else embedding
    scale, shift = np.ones(len(coef)), np.zeros(len(coef))
    classes = getattr(learner, "classes_", ())
    outputs = classes if len(classes) == len(coef) else range(len(coef))
    return Subject(
        SetFunction((term,), intercept), first, shared_scalers, intercept, scale, shift, single, outputs
    )


def _iter_steps(model: Pipeline, prefix: str = "") -> Iterator[Step]:
    """Yield all steps except passthrough, including those of nested pipelines."""
    for name, step in model.steps:
        if isinstance(step, Pipeline):
            yield from _iter_steps(step, f"{prefix}{name}.")
        elif step is not None and not (isinstance(step, str) and step == "passthrough"):
            yield prefix + name, step


def _split_steps(steps: list[Step]) -> tuple[list[Any], Any, tuple[Any, ...], Any]:
    """Return scalers, embedding, maps of rows and learner."""
    positions = [i for i, (_, step) in enumerate(steps) if isinstance(step, SetEmbedding)]
    if len(positions) != 1:
        raise ValueError(
            f"model must have one embedding of sets; got {len(positions)}. Expected {EXPECTED_STEPS}."
        )
    position = positions[0]
    _check_step_types(steps[:position], (SetScaler, SetPCA, PrincipalAxes, DistanceProfiles))
    _check_step_types(steps[position + 1 : -1], ROW_MAPS)
    _check_step_types(steps[-1:], LinearLearner)
    scalers, maps = ([step for _, step in part] for part in (steps[:position], steps[position + 1 : -1]))
    return scalers, steps[position][1], tuple(maps), steps[-1][1]


def _preserves_columns(step: Any) -> bool:
    """Return whether contributions to output columns are contributions to input columns."""
    return isinstance(step, SetScaler) and not step.spec_.per_set


def _check_step_types(steps: list[Step], kinds: Any) -> None:
    for name, step in steps:
        if not isinstance(step, kinds):
            raise ValueError(
                f"model must consist of {EXPECTED_STEPS}; got step {name!r} ({type(step).__name__}), which is "
                "not supported."
            )
