"""``dkdist plan``: estimate the I/O, memory and work of a fit; points are not read.

The plan (`fit_plan`) is the one that the fit prints when it starts, plus the memory of the selection of embedding
parameters. It assumes the largest values of parameters that the embedding selects from the points.
"""

from __future__ import annotations

import sys
from argparse import Namespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

import dkdist
from dkdist._utils.memory_budget import format_bytes
from dkdist.cli.console import print_result, scheduler_session
from dkdist.cli.fit import split_train_test
from dkdist.cli.fit_plan import FitPlan, plan_fit
from dkdist.cli.model import infer_task, read_target, resolve_feature_options
from dkdist.kernels._tuning import N_MEDIAN_RUNS


def plan(args: Namespace) -> None:
    """Print the plan; MemoryError if the fit does not fit into memory."""
    sets = dkdist.as_sets(args.store)
    targets, task = _read_targets(args, sets)
    train, _ = split_train_test(targets, task, args.train_fraction, args.seed)
    sets, targets = sets[train], targets[train]
    with scheduler_session(args):
        planned = plan_fit(args, sets, targets, task)
    document = _plan_document(sets, planned, resolve_feature_options(args))
    print_result(args, document, _plan_pairs(args, document, planned.plan))
    sys.stdout.flush()
    planned.plan.check()


def _read_targets(args: Namespace, sets: Any) -> tuple[NDArray[Any], str]:
    """Return the targets and the task of the fit; without ``--target``, numbers or two classes as placeholders."""
    if args.target is None:
        n = np.arange(len(sets))
        return (n % 2, "classify") if args.task == "classify" else (n / len(sets), "regress")
    targets = read_target(sets, args.target)
    return targets, infer_task(args, targets)


def _plan_document(sets: Any, planned: FitPlan, options: dict[str, Any]) -> dict[str, Any]:
    plan = planned.plan
    return {
        "n_sets": len(sets),
        "n_points": sets.n_points,
        "n_dims": sets.n_dims,
        "columns": planned.n_columns,
        "columns_exact": options["n_basis"] != "auto" or options["bandwidth"] != "auto",
        "n_features": planned.features.shape[1],
        "n_blocks": plan.n_blocks,
        "block_bytes": plan.block_bytes,
        "looks": 1,
        "passes": plan.passes,
        "bytes_a_pass": plan.read_bytes,
        "base_bytes": plan.base_bytes,
        "peak_bytes": plan.peak_bytes,
        "limit_bytes": plan.limit_bytes,
        "fits": plan.peak_bytes <= plan.limit_bytes,
    }


def _plan_pairs(args: Namespace, document: dict[str, Any], plan: Any) -> list[tuple[str, object]]:
    options = resolve_feature_options(args)
    scans = ["all points once, for the domain and the checks"]
    scans += ["some sets again, for the bandwidth"] if options["bandwidth"] == "auto" else []
    if options["features"] and options["sigma"] == "median":
        scans.append(f"up to {N_MEDIAN_RUNS} blocks, for the median distance")
    computed = f"{'' if document['columns_exact'] else 'up to '}{document['columns']:,} columns per set"
    if options["features"]:
        computed += f", {document['n_features']:,} features from them, not stored"
    passes = f"{document['passes']} pass{'es' if document['passes'] > 1 else ''}"
    if args.learner == "sgd" and args.epochs is None:
        passes = f"up to {passes}"
    if plan.cache_text:
        passes = f"one to fit, which caches its rows for {passes}"
    else:
        passes += " to fit"
    memory = (
        f"{format_bytes(document['peak_bytes'])} per process at the peak, {format_bytes(document['base_bytes'])} "
        f"before the work; limit {format_bytes(document['limit_bytes'])}"
    )
    size = f"{document['n_sets']:,} sets, {document['n_points']:,} points in {document['n_dims']} dimensions"
    return [
        ("store", size),
        ("scans", "; ".join(scans)),
        ("computes", computed),
        ("reads", f"{format_bytes(document['bytes_a_pass'])} per pass: one scan, and {passes}"),
        ("memory", memory),
        ("plan", plan),
        ("time", "not predicted; dkdist fit --progress estimates it from the first blocks"),
    ]
