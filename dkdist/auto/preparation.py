"""Preparation of a selection: sampled and scaled sets, fitted representations, and targets without covariates."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dkdist._base.design_columns import StudyDesign
from dkdist._base.inputs import Sets, load_points
from dkdist._base.parameter_checks import is_literal
from dkdist._base.random_streams import RngStream
from dkdist._numba.arrays import F64, I64
from dkdist.auto import _tuning
from dkdist.auto.budgets import Budget
from dkdist.auto.folds import sample_positions
from dkdist.auto.representation_rows import Views, fit_views
from dkdist.auto.representations import (
    FAMILIES,
    Omission,
    Representation,
    is_text,
    representations,
    user_representations,
)
from dkdist.auto.scoring import TrainingData
from dkdist.auto.study_design import FittedDesign
from dkdist.embeddings.set_scaler import SetScaler
from dkdist.linear.held_out import choose_held_out
from dkdist.sets import SampleSets
from dkdist.sets.labels import Labels


@dataclass(frozen=True)
class PreparedData:
    """Training data with scaled sets, and their representations, which are fitted to a sample.

    ``order`` are the positions of the compared sets; those of earlier rounds come first. ``constant`` (t,) is the
    prediction of the constant baseline. The final fit of an ``is_streamed`` collection uses landmarks.
    """

    data: TrainingData
    budget: Budget
    views: Views
    design: FittedDesign | None
    Z: F64
    order: I64
    scaler: SetScaler | None
    background: SampleSets | None
    constant: F64
    omissions: list[Omission]
    is_streamed: bool
    avoid_quadratic: bool


def prepare(data: TrainingData, candidates: Any, budget: Budget) -> PreparedData:
    """Scale the sets, fit the representations of the candidates, and draw the sets to compare them on."""
    rng = np.random.default_rng(data.seed)
    if not is_text(data.sets):
        data = _draw_sets(data, _tuning.MAX_STREAMED_SETS)
    constant = data.constant_prediction
    if data.needs_exact_fit:
        data = _draw_sets(data, _tuning.MAX_EXACT_SETS)
    positions = sample_positions(rng, len(data), _sample_size(data.sets))
    sample = load_points(data.sets[positions])
    scaler = _fit_scaler(sample, candidates)
    background = _draw_background(sample, data.seed, None if data.design is None else data.design[positions])
    if scaler is not None:
        sample, data = load_points(scaler.transform(sample)), replace(data, sets=scaler.transform(data.sets))
    entries, omissions = _make_representations(candidates, sample, data)
    views = fit_views(entries, sample, separate_images=data.design is not None)
    omissions += [Omission(one.family, "no two dimensions are dependent") for one in views.unfitted(entries)]
    max_sets = budget.max_sets(len(data), views.row_bytes)
    if data.needs_exact_fit:
        data = _draw_sets(data, max_sets)
    data, design, Z = _fit_design(data)
    n = len(data)
    order = rng.permutation(n)[: min(_tuning.MAX_SELECTION_SETS, max_sets)]
    is_streamed = not data.needs_exact_fit and n > min(_tuning.MAX_EXACT_SETS, max_sets)
    avoid_quadratic = is_literal(candidates, "auto") and n > _tuning.MAX_QUADRATIC_SETS
    return PreparedData(
        data, budget, views, design, Z, order, scaler, background, constant, omissions, is_streamed, avoid_quadratic
    )  # fmt: skip


def _fit_design(data: TrainingData) -> tuple[TrainingData, FittedDesign | None, F64]:
    """Return the data with targets relative to the offset of the covariates, the fitted design, and its columns."""
    if data.design is None:
        return data, None, np.empty((len(data), 0))
    if data.survival is None:
        design, Z, offset = FittedDesign.fit(data.design, data.y, data.weights, data.groups)
        return (replace(data, y=data.y - offset, offset=offset) if design.n_covariates else data), design, Z
    design, Z, log_hazards, offset = FittedDesign.fit_hazards(
        data.design, data.survival, data.groups, data.seed
    )
    data = data.with_residuals(log_hazards)
    # residuals are log hazards times the fraction of events, as in `CandidateRows.member`
    offset *= data.survival.event_fraction if data.survival is not None else 1.0
    return (replace(data, offset=offset) if design.n_covariates else data), design, Z


def _draw_sets(data: TrainingData, max_sets: int) -> TrainingData:
    """Return the data of at most ``max_sets`` random sets, stratified by class."""
    if len(data) <= max_sets:
        return data
    share = 1 - max_sets / len(data)
    left_out = choose_held_out(len(data), share, (data.seed, RngStream.SAMPLED_SETS), data.classes)
    return data.take(np.flatnonzero(~left_out))


def _fit_scaler(sample: SampleSets, candidates: Any) -> SetScaler | None:
    """Return a scaler of the points; None for strings and for user-defined embeddings or transformers."""
    is_unscaled = is_text(sample) or any(not isinstance(one, str) for one in candidates)
    return None if is_unscaled else SetScaler().fit(sample)


def _draw_background(sample: SampleSets, seed: int, design: StudyDesign | None) -> SampleSets | None:
    """Return up to 16 sets with up to 512 points each for explanations by dimension; None for strings."""
    if is_text(sample):
        return None
    rng = np.random.default_rng([seed, RngStream.BACKGROUND])
    positions = sample_positions(rng, len(sample), _tuning.MAX_BACKGROUND_SETS)
    chosen = sample[positions]
    rows = [sample_positions(rng, n, _tuning.MAX_BACKGROUND_POINTS) for n in chosen.sizes.tolist()]
    points = np.concatenate([start + set_rows for start, set_rows in zip(chosen.offsets, rows, strict=False)])
    offsets = np.concatenate([[0], np.cumsum([len(set_rows) for set_rows in rows])])
    labels = Labels(names=chosen.names) if design is None else design.labels(positions, chosen.names)
    return chosen._of_rows(points, offsets, labels)


def _make_representations(
    candidates: Any, sample: SampleSets, data: TrainingData
) -> tuple[list[Representation], list[Omission]]:
    if is_literal(candidates, "auto"):
        return representations(sample, None, data.seed, data.is_ordered)
    entries = [] if isinstance(candidates, str) else list(candidates)
    families = [one for one in entries if isinstance(one, str)]
    if (unknown := sorted(set(families) - set(FAMILIES))) or not entries:
        names = ", ".join(FAMILIES)
        raise ValueError(
            f"candidates must be 'auto', or a list of {names} or embeddings; got {unknown or candidates!r}."
        )
    user_entries = user_representations([one for one in entries if not isinstance(one, str)])
    named_entries, omissions = representations(sample, families, data.seed, data.is_ordered)
    return named_entries + user_entries, omissions


def _sample_size(sets: Sets) -> int:
    max_sets = _tuning.MAX_FIT_STRINGS if is_text(sets) else _tuning.MAX_FIT_SETS
    set_points = max(1, sets.n_points // len(sets))
    bounded_sets = max(_tuning.MIN_BOUNDED_SETS, _tuning.MAX_FIT_COORDINATES // (set_points * sets.n_dims))
    return int(np.clip(_tuning.MAX_FIT_POINTS // set_points, 16, min(max_sets, bounded_sets)))
