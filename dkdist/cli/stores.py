"""``dkdist info``, ``dkdist verify`` and ``dkdist compact``."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import asdict
from pathlib import Path
from typing import Any
from zipfile import is_zipfile

import dkdist
from dkdist._utils.memory_budget import format_bytes
from dkdist.cli.console import is_progress_shown, print_result, scheduler_session, stopwatch
from dkdist.cli.descriptions import (
    features_document,
    features_pairs,
    model_document,
    model_pairs,
    sets_document,
    sets_pairs,
)
from dkdist.cli.output import require_output_store


def info(args: Namespace) -> None:
    """Describe a store or a model file; points are not read, and no code of a model file runs."""
    lower = args.store.lower()
    if (
        Path(args.store).is_file()
        and not lower.endswith(".zip")
        and (lower.endswith(".npz") or is_zipfile(args.store))
    ):
        model = model_document(args.store)
        print_result(args, model, model_pairs(model))
        return
    try:
        sets = sets_document(dkdist.open_sets(args.store))
    except dkdist.StoreFormatError as error:
        features = _features_document(args.store, error)
        print_result(args, features, features_pairs(features))
    else:
        print_result(args, sets, sets_pairs(sets))


def verify(args: Namespace) -> None:
    """Read and check the whole store; the error of a damaged store names the damaged part."""
    watch = stopwatch()
    with scheduler_session(args):
        report = dkdist.verify_sets(args.store, verbose=is_progress_shown(args))
    seconds = watch()
    document = {"good": True, **asdict(report), "seconds": seconds}
    print_result(
        args,
        document,
        f"no damage: {report.n_sets:,} sets, {report.n_points:,} points, {report.n_chunks:,} chunks, "
        f"{format_bytes(report.n_bytes)} read and checked in {seconds:.1f} s",
    )


def compact(args: Namespace) -> None:
    """Replace the store by a compact one, or write another store."""
    if args.overwrite and args.to is None:
        raise ValueError("--overwrite applies to the store of --to. Omit it")
    require_output_store("STORE" if args.to is None else "--to", args.to or args.store)
    watch = stopwatch()
    with scheduler_session(args):
        chunks = {"chunk_rows": args.chunk_rows, "shards": "auto" if args.shards is None else args.shards}
        verbose = is_progress_shown(args)
        sets = dkdist.compact(args.store, args.to, overwrite=args.overwrite, **chunks, verbose=verbose)
    print(
        f"wrote {len(sets):,} sets of {sets.n_points:,} points to {args.to or args.store} in {watch():.1f} s"
    )


def _features_document(store: str, sets_error: Exception) -> dict[str, Any]:
    try:
        return features_document(dkdist.open_features(store))
    except (ValueError, OSError):
        raise sets_error from None
