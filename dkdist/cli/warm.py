"""``dkdist warm``: the loops compiled before they are needed, and kept in the user's cache folder."""

from __future__ import annotations

import warnings
from argparse import Namespace

import dask
import numpy as np
from sklearn.pipeline import make_pipeline
from zarr.storage import MemoryStore

import dkdist as dk
from dkdist import preload
from dkdist._numba.compilation import WATCH, kept_code
from dkdist.cli.console import print_result, stopwatch

N_SETS = 24
SMALL_SET_POINTS, LARGE_SET_POINTS = (
    20,
    3000,
)  # points of a set: large ones go through a grid, and of many points in all a sample is drawn


def warm(args: Namespace) -> None:
    """Compile what a fit and predictions need, or all; say where it is kept."""
    watch, before = stopwatch(), WATCH.n_loops
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what tiny examples cannot learn
        compile_default_fit()
        if args.all:
            from dkdist.cli.warm_examples import run_all

            run_all()
    (folder, lasts), n, seconds = kept_code(), WATCH.n_loops - before, watch()
    document = {"folder": folder, "lasts": lasts, "n_compiled": n, "seconds": seconds}
    what = f"compiled {n} loops" if n else "all loops were there"
    kept = "kept in" if lasts else "but for this process alone (set NUMBA_CACHE_DIR), in"
    print_result(args, document, f"{what}, {kept} {folder}; {seconds:.1f} s")


def compile_default_fit() -> None:
    """What `dkdist fit` and `dkdist predict` run by default: on tiny stores of one to five dimensions."""
    preload.warm()
    rng = np.random.default_rng(0)
    y = np.arange(N_SETS) % 2
    with dask.config.set(scheduler="synchronous"):
        for d, n in (
            (1, SMALL_SET_POINTS),
            (2, SMALL_SET_POINTS),
            (2, LARGE_SET_POINTS),
            (3, SMALL_SET_POINTS),
            (5, SMALL_SET_POINTS),
        ):
            points = rng.normal(size=(N_SETS, n, d)) * (1 + y[:, None, None])
            sets = dk.write_sets(MemoryStore(), list(points.astype(np.float32)), targets=y)
            model = make_pipeline(
                dk.DivergenceEmbedding(),
                dk.RandomFourierFeatures(64, random_state=0),
                dk.IncrementalRidgeClassifier(random_state=0),
            )
            model.fit(sets, y).predict_proba(sets)
