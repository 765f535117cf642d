"""The best single candidate as a fitted pipeline of public estimators."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.linear_model import Ridge
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from dkdist._numba.arrays import F32
from dkdist.auto._tuning import N_COMPONENTS, PENALTIES
from dkdist.auto.ensemble import KernelMember, LinearMember
from dkdist.auto.representation_rows import StandardisedSpec
from dkdist.auto.successive_halving import Trial
from dkdist.embeddings.invariant_features import InvariantFeatures, InvariantSpec
from dkdist.kernels.random_fourier_features import RandomFourierFeatures


def best_pipeline(
    scaler: Any, trial: Trial, part: KernelMember | LinearMember, seed: int
) -> tuple[Pipeline, Any]:
    """Return the fitted steps before the learner, and features of the part's sets; None for a linear part."""
    view, sigma = trial.view, trial.row_kernel.sigma
    embedding = view.entry.embedding
    maps = {"scaler": scaler, "components": view.entry.before}
    steps: list[tuple[str, Any]] = [(name, step) for name, step in maps.items() if step is not None]
    rows = None if isinstance(part, LinearMember) else part.rows
    if sigma is None:
        return Pipeline(
            [*steps, ("embedding", embedding), *_standard_scaler_steps(view.spec)]
        ), rows and rows[0]
    features = RandomFourierFeatures(N_COMPONENTS, sigma=sigma, random_state=seed)
    features.fit(np.zeros((1, view.n_features), np.float32))
    if view.images:
        invariant = _invariant_features(embedding, features, view.entry.images)
        return Pipeline([*steps, ("embedding", invariant)]), rows and _mean_features(features, rows)
    transformers = [("embedding", embedding), *_standard_scaler_steps(view.spec), ("features", features)]
    return Pipeline([*steps, *transformers]), rows and features.transform(rows[0])


def linear_part(features: F32, part: KernelMember) -> LinearMember:
    """Return a linear model of features (m, D) that interpolates the values of a part with m landmarks at these.

    The part is the interpolant of smallest norm, so that both agree up to the error of the features.
    """
    values = replace(part, share=1.0).values(part.rows[0])
    ridge = Ridge(min(PENALTIES)).fit(features.astype(np.float64), values)
    return LinearMember(part.leaf, np.atleast_2d(ridge.coef_), np.atleast_1d(ridge.intercept_), 1.0)


def _standard_scaler_steps(spec: Any) -> list[tuple[str, Any]]:
    if not isinstance(spec, StandardisedSpec):
        return []
    scaler = StandardScaler()
    inverse = np.array(spec.inverse)
    scaler.mean_ = np.array(spec.centre)
    scaler.scale_ = np.divide(1.0, inverse, out=np.ones_like(inverse), where=inverse > 0)
    scaler.var_, scaler.n_features_in_, scaler.n_samples_seen_ = scaler.scale_**2, len(inverse), 1
    return [("standardise", scaler)]


def _invariant_features(embedding: Any, features: RandomFourierFeatures, images: Any) -> InvariantFeatures:
    estimator = InvariantFeatures(embedding, features, symmetries=[*images[1:]])
    estimator.embedding_, estimator.features_ = embedding, features
    estimator.spec_ = InvariantSpec(embedding.spec_, features.spec_, images, embedding.spec_.domain)
    estimator.n_symmetries_, estimator.n_features_in_ = len(images), embedding.n_features_in_
    estimator.origin_, estimator.skipped_ = embedding.origin_, embedding.skipped_
    if hasattr(embedding, "feature_names_in_"):
        estimator.feature_names_in_ = embedding.feature_names_in_
    return estimator


def _mean_features(features: RandomFourierFeatures, rows: tuple[F32, ...]) -> F32:
    total = sum(features.transform(image) for image in rows)
    return np.asarray(total / len(rows), np.float32)
