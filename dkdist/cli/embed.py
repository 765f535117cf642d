"""``dkdist embed``: features of every set, on disk."""

from __future__ import annotations

from argparse import Namespace

from sklearn.pipeline import make_pipeline

import dkdist
from dkdist.cli.console import scheduler, stopwatch, wants_progress
from dkdist.cli.model import feature_steps


def run(args: Namespace) -> None:
    """Fit the embedding on the store and write the rows it makes."""
    sets = dkdist.open_sets(args.store)
    watch = stopwatch()
    with scheduler(args):
        features = make_pipeline(*feature_steps(args)).fit(sets).transform(sets)
        stored = dkdist.write_features(
            args.output, features, overwrite=args.overwrite, verbose=wants_progress(args)
        )
    n, m = stored.shape
    print(f"wrote {n:,} rows of {m:,} features to {args.output} in {watch():.1f} s")
