"""``dkdist warm``: compile functions before they are needed, into the cache folder of the user."""

from __future__ import annotations

import warnings
from argparse import Namespace

import dask
import numpy as np
from sklearn.pipeline import make_pipeline
from zarr.storage import MemoryStore

import dkdist as dk
from dkdist import preload
from dkdist._numba.compilation import COMPILE_WATCH, code_cache
from dkdist.cli._tuning import LARGE_SET_POINTS, N_WARM_SETS, SMALL_SET_POINTS
from dkdist.cli.console import print_result, stopwatch


def warm(args: Namespace) -> None:
    """Compile the functions of default fits and predictions, or all, and print the cache folder."""
    watch, before = stopwatch(), COMPILE_WATCH.n_functions
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the small examples cause warnings
        compile_default_fit()
        if args.all:
            from dkdist.cli.warm_examples import run_all

            run_all()
    (folder, lasts), n, seconds = code_cache(), COMPILE_WATCH.n_functions - before, watch()
    document = {"folder": folder, "lasts": lasts, "n_compiled": n, "seconds": seconds}
    compiled = f"compiled {n} functions" if n else "all functions were compiled already"
    cache = "cached in" if lasts else "for this process only (set NUMBA_CACHE_DIR), in"
    print_result(args, document, f"{compiled}, {cache} {folder}; {seconds:.1f} s")


def compile_default_fit() -> None:
    """Fit and predict with defaults, on small stores of one to five dimensions."""
    preload.warm()
    rng = np.random.default_rng(0)
    y = np.arange(N_WARM_SETS) % 2
    with dask.config.set(scheduler="synchronous"):
        for d, n in (*((d, SMALL_SET_POINTS) for d in (1, 2, 3, 5)), (2, LARGE_SET_POINTS)):
            points = rng.normal(size=(N_WARM_SETS, n, d)) * (1 + y[:, None, None])
            sets = dk.write_sets(MemoryStore(), list(points.astype(np.float32)), targets=y)
            model = make_pipeline(
                dk.DivergenceEmbedding(),
                dk.RandomFourierFeatures(64, random_state=0),
                dk.IncrementalRidgeClassifier(random_state=0),
            )
            model.fit(sets, y).predict_proba(sets)
        dk.SetClassifier(random_state=0).fit(sets, y)
