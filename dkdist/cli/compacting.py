"""``dkdist compact``: a store written again with full chunks."""

from __future__ import annotations

from argparse import Namespace

import dkdist
from dkdist.cli.console import Stopwatch, scheduler, wants_progress


def run(args: Namespace) -> None:
    """Replace the store by a compact one, or write another."""
    if args.overwrite and args.to is None:
        raise ValueError("--overwrite is for the store that --to names: leave it out")
    watch = Stopwatch()
    with scheduler(args):
        sets = dkdist.compact(
            args.store,
            args.to,
            overwrite=args.overwrite,
            chunk_rows=args.chunk_rows,
            shards="auto" if args.shards is None else args.shards,
            verbose=wants_progress(args),
        )
    print(
        f"wrote {len(sets):,} sets of {sets.n_points:,} points to {args.to or args.store} in {watch.lap():.1f} s"
    )
