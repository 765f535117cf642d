"""``dkdist plan``: what a fit would read, hold and make, and how long it takes, by the store's own numbers; no point is
read.

The plan is the one that the learner itself makes of its blocks, and prints when it begins. What the embedding would
choose by looking at the points is taken at its largest: as many nodes as it ever takes. Seconds are those of made-up
sets of the same size on this machine (`stage_rates`), of which `stage_seconds` makes a whole fit.
"""

from __future__ import annotations

import sys
import warnings
from argparse import Namespace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

import dkdist
from dkdist.cli.console import bytes_text, scheduler
from dkdist.cli.fit import split
from dkdist.cli.machine.stage_rates import Asked, rates_here
from dkdist.cli.machine.stage_seconds import FitSizes, stage_seconds
from dkdist.cli.model import feature_options, feature_steps, learner, target_of, task_of
from dkdist.cli.output.answer import answer
from dkdist.execution.blocks import most_sets
from dkdist.execution.run import n_cores, plan_of
from dkdist.linear.ridge.ridge_fitting import FEW_ROWS
from dkdist.linear.ridge.ridge_solving import HELD_OUT, LEAVE_ONE_OUT
from dkdist.linear.sgd.epochs import FEW_CORES

FINEST = 1e-4  # a bandwidth for which every embedding takes all nodes it may
ENOUGH = 0.5  # of the distance of nodes
MEDIAN_BLOCKS = 32  # that are made for the median distance of rows, at most
MEASURING = "measuring how fast this machine is, once for such a fit: a second or two"


def plan(args: Namespace) -> None:
    """Print the plan; MemoryError after it if it does not fit."""
    sets = dkdist.open_sets(args.store)
    targets, task = _targets(args, sets)
    train, _ = split(targets, task, args.train_fraction, args.seed)
    sets, targets = sets[train], targets[train]
    with scheduler(args):
        steps = feature_steps(args)
        columns, rows = _features_of(sets, steps)
        model = learner(args, task, verbose=False)
        if args.learner == "sgd":
            model.set_params(eta0=1.0)  # by default it is found by making a block
        found = plan_of(lambda: model.fit(rows, targets))
        document = _document(sets, columns, rows.shape[1], found, feature_options(args))
        n_classes = len(np.unique(targets)) if task == "classify" else 0
        document |= _times(args, document, found, sets.names, steps, model, n_classes if n_classes > 2 else 1)
    answer(args, document, _pairs(args, document, found))
    found.check()


def _times(
    args: Namespace,
    document: dict[str, Any],
    found: Any,
    names: Any,
    steps: list[Any],
    model: Any,
    n_outputs: int,
) -> dict[str, Any]:
    """Seconds of the stages on the clock, and of one processor for a point or set."""
    asked, kept = feature_options(args), bool(found.kept)
    cores, sgd = n_cores(), args.learner == "sgd"
    if not sgd:  # which way it chooses decides what it solves
        model.set_params(selection=HELD_OUT if document["n_sets"] > FEW_ROWS else LEAVE_ONE_OUT)
    points = max(1, round(document["n_points"] / document["n_sets"]))
    on_request = sgd and bool(asked["features"]) and cores <= (1 if kept else FEW_CORES)
    fresh, block_sets = tuple(feature_steps(args)), most_sets(document["n_sets"])
    if asked["bandwidth"] == "auto":  # the one for which so many nodes are enough
        n_basis = steps[0].n_basis_
        usual = clone(steps[0]).set_params(n_basis=n_basis, bandwidth=ENOUGH / n_basis)
        steps = [_settled(usual, document["n_dims"], names), *steps[1:]]
    fit = Asked(
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
    )
    rates = rates_here(fit, lambda: print(f"dkdist: {MEASURING}", file=sys.stderr, flush=True))
    blocks = min(MEDIAN_BLOCKS, found.n_blocks) if asked["features"] and asked["sigma"] == "median" else 0
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


def _features_of(sets: Any, steps: list[Any]) -> tuple[int, Any]:
    """The embedding's columns and the lazy features; no point was looked at, but for two made-up sets."""
    embedding, *features = steps
    if embedding.bandwidth == "auto":
        embedding.set_params(bandwidth=FINEST)
    _settled(embedding, sets.n_dims, sets.names)
    embedding.origin_ = sets.origin
    rows = embedding.transform(sets)
    columns = rows.shape[1]
    for step in features:
        if step.sigma == "median":
            step.set_params(sigma=1.0)
        rows = step.fit(rows).transform(rows)
    return columns, rows


def _settled(embedding: Any, n_dims: int, names: Any) -> Any:
    """The embedding fitted to two made-up sets."""
    made_up = list(np.random.default_rng(0).random((2, 8, n_dims), np.float32))
    stand_ins = dkdist.SampleSets.from_arrays(made_up, names=names)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the bandwidth, which is nobody's choice
        return embedding.set_params(domain="unit").fit(stand_ins)


def _document(sets: Any, columns: int, n_features: int, found: Any, asked: dict[str, Any]) -> dict[str, Any]:
    return {
        "n_sets": len(sets),
        "n_points": sets.n_points,
        "n_dims": sets.n_dims,
        "columns": columns,
        "columns_exact": asked["n_basis"] != "auto" or asked["bandwidth"] != "auto",
        "n_features": n_features,
        "n_blocks": found.n_blocks,
        "block_bytes": found.block_bytes,
        "looks": 1,
        "passes": found.passes,
        "bytes_a_pass": found.read_bytes,
        "peak_bytes": found.peak_bytes,
        "limit_bytes": found.limit_bytes,
        "fits": found.peak_bytes <= found.limit_bytes,
    }


def _pairs(args: Namespace, found: dict[str, Any], plan: Any) -> list[tuple[str, object]]:
    asked, up_to = feature_options(args), "" if found["columns_exact"] else "up to "
    looks = ["all points once, for the domain and every check"]
    looks += ["some sets again, for the bandwidth"] if asked["bandwidth"] == "auto" else []
    if asked["features"] and asked["sigma"] == "median":
        looks.append(f"up to {MEDIAN_BLOCKS} blocks, for the median distance")
    most = "up to " if args.learner == "sgd" and args.epochs is None else ""
    passes = f"{most}{found['passes']} pass{'es' if found['passes'] > 1 else ''}"
    made = f"{up_to}{found['columns']:,} columns a set"
    if asked["features"]:
        made += f", {found['n_features']:,} features of them, never kept"
    if plan.kept:
        passes = f"one to fit, whose rows are kept for {passes}"
    else:
        passes += " to fit"
    held = f"{bytes_text(found['peak_bytes'])} a process at its peak, of {bytes_text(found['limit_bytes'])}"
    return [
        ("store", f"{found['n_sets']:,} sets, {found['n_points']:,} points in {found['n_dims']} dimensions"),
        ("looks at", "; ".join(looks)),
        ("makes", made),
        ("reads", f"{bytes_text(found['bytes_a_pass'])} a pass: one to look, and {passes}"),
        ("holds", held),
        ("takes", _taken(found)),
        ("plan", plan),
    ]


def _taken(found: dict[str, Any]) -> str:
    """How long, and what of it."""
    seconds, cores = found["seconds"], found["cores"]
    up_to = "about" if found["columns_exact"] else "up to about"
    parts = ", ".join(f"{seconds[name]:.2g} s to {name}" for name in ("look", "choose", "fit", "solve"))
    return f"{up_to} {seconds['all']:.2g} s on {cores} core{'s' if cores > 1 else ''}: {parts}"
