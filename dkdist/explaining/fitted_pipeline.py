"""A fitted pipeline of scalers, an embedding, features and a linear learner, as what is explained."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import takewhile
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from dkdist.base.embedding import SetEmbedding
from dkdist.explaining.linear_term import ROW_MAPS, LinearTerm
from dkdist.explaining.set_function import SetFunction
from dkdist.explaining.subject import Subject
from dkdist.linear.problems import LinearLearner
from dkdist.scaling.mapped_embedding_spec import MappedEmbeddingSpec
from dkdist.scaling.set_pca import SetPCA
from dkdist.scaling.set_scaler import SetScaler

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
