"""The best single candidate as a pipeline of public parts, fitted: what one would have written by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from dkdist._numba.arrays import F32
from dkdist.auto.ensemble import KernelMember, LinearMember
from dkdist.auto.representation_rows import StandardisedSpec
from dkdist.auto.successive_halving import Trial
from dkdist.embeddings.invariant_features import InvariantFeatures, InvariantSpec
from dkdist.kernels.random_fourier_features import RandomFourierFeatures


def best_pipeline(
    scaler: Any, trial: Trial, part: KernelMember | LinearMember, n_components: int, seed: int
) -> tuple[Pipeline, Any]:
    """The steps before the learner, fitted, and the rows (n, D) it learns from; None where a pass learned already."""
    view, sigma = trial.view, trial.row_kernel.sigma
    embedding = view.entry.embedding
    maps = {"scaler": scaler, "components": view.entry.before}
    steps: list[tuple[str, Any]] = [(name, step) for name, step in maps.items() if step is not None]
    rows = None if isinstance(part, LinearMember) else part.rows
    if sigma is None:
        return Pipeline([*steps, ("embedding", embedding), *_standardised(view.spec)]), rows and rows[0]
    features = RandomFourierFeatures(n_components, sigma=sigma, random_state=seed)
    features.fit(np.zeros((1, view.n_features), np.float32))
    if view.images:
        made = _invariant(embedding, features, view.entry.images)
        return Pipeline([*steps, ("embedding", made)]), rows and _mean_features(features, rows)
    before = [("embedding", embedding), *_standardised(view.spec), ("features", features)]
    return Pipeline([*steps, *before]), rows and features.transform(rows[0])


def _standardised(spec: Any) -> list[tuple[str, Any]]:
    if not isinstance(spec, StandardisedSpec):
        return []
    made = StandardScaler()
    inverse = np.array(spec.inverse)
    made.mean_ = np.array(spec.centre)
    made.scale_ = np.divide(1.0, inverse, out=np.ones_like(inverse), where=inverse > 0)
    made.var_, made.n_features_in_, made.n_samples_seen_ = made.scale_**2, len(inverse), 1
    return [("standardise", made)]


def _invariant(embedding: Any, features: RandomFourierFeatures, images: Any) -> InvariantFeatures:
    made = InvariantFeatures(embedding, features, symmetries=[*images[1:]])
    made.embedding_, made.features_ = embedding, features
    made.spec_ = InvariantSpec(embedding.spec_, features.spec_, images, embedding.spec_.domain)
    made.n_symmetries_, made.n_features_in_ = len(images), embedding.n_features_in_
    made.origin_, made.skipped_ = embedding.origin_, embedding.skipped_
    if hasattr(embedding, "feature_names_in_"):
        made.feature_names_in_ = embedding.feature_names_in_
    return made


def _mean_features(features: RandomFourierFeatures, rows: tuple[F32, ...]) -> F32:
    total = sum(features.transform(image) for image in rows)
    return np.asarray(total / len(rows), np.float32)
