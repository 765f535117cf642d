"""``dkdist plan``: what a fit would read, hold and make, and how long it takes, by the store's own numbers; no point is
read.

The plan (`fit_plan`) is that of the learner's blocks, which the fit prints when it begins, with the memory of the
embedding's choices. What the embedding would choose by looking at the points is taken at its largest: as many nodes as
it ever takes. The plan is checked and printed first. Seconds are those of made-up sets of the same size on this machine
(`stage_rates`), of which `stage_seconds` makes a whole fit.
"""

from __future__ import annotations

import sys
from argparse import Namespace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

import dkdist
from dkdist._utils.memory_budget import format_bytes
from dkdist.cli.console import print_pairs, scheduler
from dkdist.cli.fit import split
from dkdist.cli.machine.fit_plan import FitPlan, fit_to_made_up_sets, plan_fit
from dkdist.cli.machine.stage_rates import FitSetup, rates_here
from dkdist.cli.machine.stage_seconds import FitSizes, stage_seconds
from dkdist.cli.model import feature_options, feature_steps, target_of, task_of
from dkdist.cli.output.answer import answer, print_json
from dkdist.cli.output.json_keys import PLAN
from dkdist.execution.blocks import most_sets
from dkdist.execution.run import n_cores
from dkdist.linear.ridge.ridge_fitting import FEW_ROWS
from dkdist.linear.ridge.ridge_solving import HELD_OUT, LEAVE_ONE_OUT
from dkdist.linear.sgd.epochs import FEW_CORES

NAME_WIDTH = len("looks at")  # of the first column, which is printed in two parts
ENOUGH = 0.5  # of the distance of nodes
MEDIAN_BLOCKS = 32  # that are made for the median distance of rows, at most
MEASURING = "measuring how fast this machine is, once for such a fit: a second or two"


def plan(args: Namespace) -> None:
    """Print the plan, then measure how long the fit takes; MemoryError instead of that if it does not fit."""
    sets = dkdist.open_sets(args.store)
    targets, task = _targets(args, sets)
    train, _ = split(targets, task, args.train_fraction, args.seed)
    sets, targets = sets[train], targets[train]
    with scheduler(args):
        planned = plan_fit(args, sets, targets, task)
        found, document = planned.plan, _document(sets, planned, feature_options(args))
        if not args.json:
            print_pairs(_pairs(args, document, found))
            sys.stdout.flush()
        if args.json and not document["fits"]:
            print_json(document)
        found.check()
        n_classes = len(np.unique(targets)) if task == "classify" else 0
        document |= _times(args, document, planned, sets.names, n_classes if n_classes > 2 else 1)
    answer(args, document, [(f"{'takes':<{NAME_WIDTH}}", _taken(document))])


def _times(
    args: Namespace,
    document: dict[str, Any],
    planned: FitPlan,
    names: Any,
    n_outputs: int,
) -> dict[str, Any]:
    """Seconds of the stages on the clock, and of one processor for a point or set."""
    steps, model, found = planned.steps, planned.model, planned.plan
    options, kept = feature_options(args), bool(found.kept)
    cores, sgd = n_cores(), args.learner == "sgd"
    if not sgd:  # which way it chooses decides what it solves
        model.set_params(selection=HELD_OUT if document["n_sets"] > FEW_ROWS else LEAVE_ONE_OUT)
    points = max(1, round(document["n_points"] / document["n_sets"]))
    on_request = sgd and bool(options["features"]) and cores <= (1 if kept else FEW_CORES)
    fresh, block_sets = tuple(feature_steps(args)), most_sets(document["n_sets"])
    if options["bandwidth"] == "auto":  # the one for which so many nodes are enough
        n_basis = steps[0].n_basis_
        usual = clone(steps[0]).set_params(n_basis=n_basis, bandwidth=ENOUGH / n_basis)
        steps = [fit_to_made_up_sets(usual, document["n_dims"], names), *steps[1:]]
    fit = FitSetup(
        points,
        document["n_dims"],
        names,
        tuple(steps),
        model,
        n_outputs,
        on_request,
        cores,
        fresh,
        block_sets,
        dual=not sgd and document["n_sets"] <= document["n_features"],
    )
    rates = rates_here(fit, lambda: print(f"dkdist: {MEASURING}", file=sys.stderr, flush=True))
    blocks = min(MEDIAN_BLOCKS, found.n_blocks) if options["features"] and options["sigma"] == "median" else 0
    sampled = -(-document["n_sets"] * blocks // found.n_blocks)
    sizes = FitSizes(
        document["n_sets"],
        document["n_points"],
        found.passes,
        sampled,
        document["n_features"],
        cores,
        sgd,
        kept,
    )
    return {"cores": cores, "seconds": stage_seconds(rates, sizes), "rates": rates._asdict()}


def _targets(args: Namespace, sets: Any) -> tuple[NDArray[Any], str]:
    """The targets of a fit and its task; without a target, those of a fit of one number, or of two classes."""
    if args.target is None:
        n = np.arange(len(sets))
        return (n % 2, "classify") if args.task == "classify" else (n / len(sets), "regress")
    targets = target_of(sets, args.target)
    return targets, task_of(args, targets)


def _document(sets: Any, planned: FitPlan, options: dict[str, Any]) -> dict[str, Any]:
    found = planned.plan
    return dict.fromkeys(PLAN) | {
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


def _pairs(args: Namespace, found: dict[str, Any], plan: Any) -> list[tuple[str, object]]:
    options, up_to = feature_options(args), "" if found["columns_exact"] else "up to "
    looks = ["all points once, for the domain and every check"]
    looks += ["some sets again, for the bandwidth"] if options["bandwidth"] == "auto" else []
    if options["features"] and options["sigma"] == "median":
        looks.append(f"up to {MEDIAN_BLOCKS} blocks, for the median distance")
    most = "up to " if args.learner == "sgd" and args.epochs is None else ""
    passes = f"{most}{found['passes']} pass{'es' if found['passes'] > 1 else ''}"
    made = f"{up_to}{found['columns']:,} columns a set"
    if options["features"]:
        made += f", {found['n_features']:,} features of them, never kept"
    if plan.kept:
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
    ]


def _taken(found: dict[str, Any]) -> str:
    """How long, and what of it."""
    seconds, cores = found["seconds"], found["cores"]
    up_to = "about" if found["columns_exact"] else "up to about"
    parts = ", ".join(f"{seconds[name]:.2g} s to {name}" for name in ("look", "choose", "fit", "solve"))
    return f"{up_to} {seconds['all']:.2g} s on {cores} core{'s' if cores > 1 else ''}: {parts}"
