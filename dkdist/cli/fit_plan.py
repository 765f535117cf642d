"""Plan of a fit from the options and the sizes of a store; points are not read.

The peak memory of a process is the sum of its memory at the start, libraries and compiled functions, the selection of
embedding parameters, and the learner: the allocator does not return freed memory to the system.
"""

from __future__ import annotations

import warnings
from argparse import Namespace
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import dkdist
from dkdist._base.inputs import summary_bytes
from dkdist._runtime.run import BlockPlan, plan_of
from dkdist.cli.model import build_feature_steps, build_learner
from dkdist.embeddings.cross_validation import search_bytes

# Libraries and compiled functions: without this, the plan of a fit of 40 tiny sets is 50 MB too low (python
# benchmarks/memory.py).
LOADED_BYTES = 48 * 2**20
# At this bandwidth or below, every embedding has its maximum number of nodes (tests/cli/test_plan.py).
MIN_PLANNED_BANDWIDTH = 1e-4


class FitPlan(NamedTuple):
    """Number of columns of the embedding, lazy features (n_sets, n_features), and plan of the learner."""

    n_columns: int
    features: Any
    plan: BlockPlan


def plan_fit(args: Namespace, sets: Any, targets: NDArray[Any], task: str) -> FitPlan:
    """Plan a fit; assume the largest values of parameters that the embedding selects from the points."""
    steps = build_feature_steps(args)
    selects_bandwidth = steps[0].bandwidth == "auto"
    n_columns, features = _plan_features(sets, steps)
    model = build_learner(args, task, verbose=False)
    if args.learner == "sgd":
        model.set_params(eta0=1.0, checkpoint=None)  # the default eta0 is estimated from a block of features
    plan: BlockPlan = plan_of(lambda: model.fit(features, targets))
    extra_bytes = LOADED_BYTES + summary_bytes(sets)
    if selects_bandwidth:
        extra_bytes += search_bytes(len(sets), sets.n_points, sets.n_dims)
    return FitPlan(n_columns, features, replace(plan, work_bytes=plan.work_bytes + extra_bytes))


def require_fit_memory(args: Namespace, sets: Any, targets: NDArray[Any], task: str) -> None:
    """Raise MemoryError, before any work, for a fit that needs more memory than this process may use."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the fit itself will warn
        plan = plan_fit(args, sets, targets, task).plan
    plan.check()


def _plan_features(sets: Any, steps: list[Any]) -> tuple[int, Any]:
    """Return the number of columns of the embedding, and lazy features; the embedding is fitted to two random sets."""
    embedding, *features = steps
    if embedding.bandwidth == "auto":
        embedding.set_params(bandwidth=MIN_PLANNED_BANDWIDTH)
    points = list(np.random.default_rng(0).random((2, 8, sets.n_dims), np.float32))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # warns about this bandwidth, which the user did not choose
        embedding.set_params(domain="unit").fit(dkdist.SampleSets.from_arrays(points, names=sets.names))
    embedding.origin_ = sets.origin
    rows = embedding.transform(sets)
    n_columns = rows.shape[1]
    for step in features:
        if step.sigma == "median":
            step.set_params(sigma=1.0)
        rows = step.fit(rows).transform(rows)
    return n_columns, rows
