"""The plan of a fit by options of the command line, made from the store's sizes alone: no point is read.

A process holds its base, libraries and compiled functions that the work loads, what the embedding needs to choose from
the points, and what the learner needs. Freed memory is kept for later blocks (`processes.process`), so that these add
up.
"""

from __future__ import annotations

import warnings
from argparse import Namespace
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import dkdist
from dkdist._base.inputs import survey_bytes
from dkdist._runtime.run import BlockPlan, plan_of
from dkdist.cli.model import build_feature_steps, build_learner
from dkdist.embeddings.cross_validation import search_bytes

LOADED_BYTES = (
    48 * 2**20
)  # by work of any size: a fit of 40 tiny sets ends 50 MB above its plan (benchmarks/memory.py)
MIN_PLANNED_BANDWIDTH = 1e-4  # a bandwidth for which every embedding takes all nodes it may


class FitPlan(NamedTuple):
    """Fitted ``steps``, the embedding's ``columns`` and lazy ``rows`` of features, the learner and its ``plan``."""

    steps: list[Any]
    columns: int
    rows: Any
    model: Any
    plan: BlockPlan


def plan_fit(args: Namespace, sets: Any, targets: NDArray[Any], task: str) -> FitPlan:
    """Plan a fit; what the embedding would choose from the points is taken at its largest."""
    steps = build_feature_steps(args)
    chosen = steps[0].bandwidth == "auto"
    columns, rows = _plan_features(sets, steps)
    model = build_learner(args, task, verbose=False)
    if args.learner == "sgd":
        model.set_params(eta0=1.0, checkpoint=None)  # by default a block is made to find the step size
    found: BlockPlan = plan_of(lambda: model.fit(rows, targets))
    before = LOADED_BYTES + survey_bytes(sets)
    if chosen:
        before += search_bytes(len(sets), sets.n_points, sets.n_dims)
    return FitPlan(steps, columns, rows, model, replace(found, work_bytes=found.work_bytes + before))


def require_fit_memory(args: Namespace, sets: Any, targets: NDArray[Any], task: str) -> None:
    """Raise MemoryError, before any work, for a fit that needs more memory than this process may use."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the fit itself will warn
        found = plan_fit(args, sets, targets, task).plan
    found.check()


def _plan_features(sets: Any, steps: list[Any]) -> tuple[int, Any]:
    """The embedding's columns and the lazy features; only two made-up sets are looked at."""
    embedding, *features = steps
    if embedding.bandwidth == "auto":
        embedding.set_params(bandwidth=MIN_PLANNED_BANDWIDTH)
    fit_to_random_sets(embedding, sets.n_dims, sets.names)
    embedding.origin_ = sets.origin
    rows = embedding.transform(sets)
    columns = rows.shape[1]
    for step in features:
        if step.sigma == "median":
            step.set_params(sigma=1.0)
        rows = step.fit(rows).transform(rows)
    return columns, rows


def fit_to_random_sets(embedding: Any, n_dims: int, names: Any) -> Any:
    """The embedding, fitted to two made-up sets."""
    made_up = list(np.random.default_rng(0).random((2, 8, n_dims), np.float32))
    stand_ins = dkdist.SampleSets.from_arrays(made_up, names=names)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a bandwidth that no user chose
        return embedding.set_params(domain="unit").fit(stand_ins)
