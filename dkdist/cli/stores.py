"""``dkdist info``, ``verify`` and ``compact``: what is in a store, whether all of it can be read, and full chunks."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

import dkdist
from dkdist.cli.console import bytes_text, print_pairs, scheduler, stopwatch, wants_progress

MOST_CLASSES = 20


def info(args: Namespace) -> None:
    """Print what a store holds; its points are not read."""
    try:
        sets = dkdist.open_sets(args.store)
    except dkdist.StoreFormatError as error:
        _info_features(args.store, error)
        return
    sizes = sets.sizes
    spread = f"{sizes.min():,} to {sizes.max():,} (median {np.median(sizes):,.0f})" if len(sizes) else "none"
    weights = sets.weights_shape
    pairs: list[tuple[str, object]] = [
        ("store of", "sample sets"),
        ("sets", f"{len(sets):,}"),
        ("points", f"{sets.n_points:,}"),
        ("dimensions", sets.n_dims),
        ("points a set", spread),
        ("dtype", sets.points_dtype),
        *([("origin", ", ".join(f"{v:.12g}" for v in sets.origin))] if sets.origin.any() else []),
        ("weights", "none" if weights is None else "one a point" if weights == () else f"{weights} a point"),
        ("ids", "none" if sets.ids is None else _summary(sets.ids)),
    ]
    pairs += [(f"target {name!r}", _summary(values)) for name, values in sets.targets.items()]
    print_pairs(pairs)


def verify(args: Namespace) -> None:
    """Read and check everything; a damaged store is an error that names the place."""
    watch = stopwatch()
    with scheduler(args):
        report = dkdist.verify_sets(args.store, verbose=wants_progress(args))
    seconds = watch()
    print(
        f"good: {report.n_sets:,} sets, {report.n_points:,} points, {report.n_chunks:,} chunks, "
        f"{bytes_text(report.n_bytes)} read and checked in {seconds:.1f} s"
    )


def compact(args: Namespace) -> None:
    """Replace the store by a compact one, or write another."""
    if args.overwrite and args.to is None:
        raise ValueError("--overwrite is for the store that --to names: leave it out")
    watch = stopwatch()
    with scheduler(args):
        chunks = {"chunk_rows": args.chunk_rows, "shards": "auto" if args.shards is None else args.shards}
        verbose = wants_progress(args)
        sets = dkdist.compact(args.store, args.to, overwrite=args.overwrite, **chunks, verbose=verbose)
    print(
        f"wrote {len(sets):,} sets of {sets.n_points:,} points to {args.to or args.store} in {watch():.1f} s"
    )


def _info_features(store: str, no_sets: Exception) -> None:
    try:
        features = dkdist.open_features(store)
    except (ValueError, OSError):
        raise no_sets from None
    n, m = features.shape
    sizes = [("rows", f"{n:,}"), ("features", f"{m:,}"), ("blocks", f"{features.numblocks[0]:,}")]
    print_pairs([("store of", "features"), *sizes, ("dtype", features.dtype)])


def _summary(values: NDArray[Any]) -> str:
    """A column in a few words: its dtype, and its range or its classes."""
    kind = "text" if values.dtype.kind == "U" else str(values.dtype)
    if values.ndim > 1:
        return f"{kind}, {values.shape[1]} columns"
    if values.dtype.kind == "f":
        return f"{kind}, {values.min():.6g} to {values.max():.6g}"
    classes, counts = np.unique(values, return_counts=True)
    if len(classes) > MOST_CLASSES:
        return f"{kind}, {len(classes):,} different values, {classes[0]} to {classes[-1]}"
    named = ", ".join(f"{c} ({n:,})" for c, n in zip(classes, counts, strict=True))
    return f"{kind}, {len(classes)} classes: {named}"
