"""``dkdist plan``: what a fit would read, hold and make, by the store's own numbers; no point is read.

The plan (`fit_plan`) is that of the learner's blocks, which the fit prints when it begins, with the memory of the
embedding's choices. What the embedding would choose by looking at the points is taken at its largest: as many nodes as
it ever takes. How long a fit takes, its progress says after the first blocks.
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

MEDIAN_BLOCKS = 32  # that are made for the median distance of rows, at most


def plan(args: Namespace) -> None:
    """Print the plan; MemoryError if the fit does not fit into memory."""
    sets = dkdist.open_sets(args.store)
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
    """The targets of a fit and its task; without a target, those of a fit of one number, or of two classes."""
    if args.target is None:
        n = np.arange(len(sets))
        return (n % 2, "classify") if args.task == "classify" else (n / len(sets), "regress")
    targets = read_target(sets, args.target)
    return targets, infer_task(args, targets)


def _plan_document(sets: Any, planned: FitPlan, options: dict[str, Any]) -> dict[str, Any]:
    found = planned.plan
    return {
        "n_sets": len(sets),
        "n_points": sets.n_points,
        "n_dims": sets.n_dims,
        "columns": planned.columns,
        "columns_exact": options["n_basis"] != "auto" or options["bandwidth"] != "auto",
        "n_features": planned.rows.shape[1],
        "n_blocks": found.n_blocks,
        "block_bytes": found.block_bytes,
        "looks": 1,
        "passes": found.passes,
        "bytes_a_pass": found.read_bytes,
        "base_bytes": found.base_bytes,
        "peak_bytes": found.peak_bytes,
        "limit_bytes": found.limit_bytes,
        "fits": found.peak_bytes <= found.limit_bytes,
    }


def _plan_pairs(args: Namespace, found: dict[str, Any], plan: Any) -> list[tuple[str, object]]:
    options, up_to = resolve_feature_options(args), "" if found["columns_exact"] else "up to "
    looks = ["all points once, for the domain and every check"]
    looks += ["some sets again, for the bandwidth"] if options["bandwidth"] == "auto" else []
    if options["features"] and options["sigma"] == "median":
        looks.append(f"up to {MEDIAN_BLOCKS} blocks, for the median distance")
    most = "up to " if args.learner == "sgd" and args.epochs is None else ""
    passes = f"{most}{found['passes']} pass{'es' if found['passes'] > 1 else ''}"
    made = f"{up_to}{found['columns']:,} columns a set"
    if options["features"]:
        made += f", {found['n_features']:,} features of them, never kept"
    if plan.cache_text:
        passes = f"one to fit, whose rows are kept for {passes}"
    else:
        passes += " to fit"
    held = (
        f"{format_bytes(found['peak_bytes'])} a process at its peak, {format_bytes(found['base_bytes'])} before the "
        f"work, of {format_bytes(found['limit_bytes'])}"
    )
    return [
        ("store", f"{found['n_sets']:,} sets, {found['n_points']:,} points in {found['n_dims']} dimensions"),
        ("looks at", "; ".join(looks)),
        ("makes", made),
        ("reads", f"{format_bytes(found['bytes_a_pass'])} a pass: one to look, and {passes}"),
        ("holds", held),
        ("plan", plan),
        ("time", "not predicted; dkdist fit --progress estimates it from the first blocks"),
    ]
