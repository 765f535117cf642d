"""Preload script for Dask workers: ``dask worker ... --preload dkdist.preload``.

Limits BLAS to one thread, keeps freed memory for later blocks, and loads compiled functions (or compiles them once per
cache folder), so that the first block of a run is as fast as the others.
"""

from __future__ import annotations

from typing import Any


def dask_setup(worker: Any) -> None:
    """Prepare the worker; called by Dask before the first task."""
    from dkdist._runtime.process import prepare_worker

    prepare_worker()
    warm()


def warm() -> None:
    """Run tiny examples of the defaults on this thread, to load the most common compiled functions."""
    import dask
    import numpy as np
    from sklearn.pipeline import make_pipeline
    from zarr.storage import MemoryStore

    import dkdist as dk

    rng = np.random.default_rng(0)
    with dask.config.set(scheduler="synchronous"):
        for method in ("iid", "structured"):  # products of short and of long rows
            sets = dk.write_sets(MemoryStore(), list(rng.random((8, 20, 2))), targets=np.arange(8) % 2)
            model = make_pipeline(
                dk.DivergenceEmbedding("jensen-shannon", domain="unit"),
                dk.RandomFourierFeatures(64, method=method, random_state=0),
                dk.IncrementalSGDClassifier(n_epochs=1, random_state=0),
            )
            model.fit(sets, sets.targets["y"]).predict(sets)
        rows = np.asarray(model[:-1].transform(sets))  # computed in advance with more than two cores
        dk.IncrementalSGDClassifier(n_epochs=1, random_state=0).fit(rows, sets.targets["y"])
        wide = dk.SetScaler().fit_transform(list(rng.random((8, 20, 4), np.float32)))
        for embedding in (  # representations of SetClassifier and SetRegressor
            dk.MomentEmbedding(),
            dk.DivergenceEmbedding("hellinger", structure="pairs"),
            dk.MeanEmbedding(1000, method="iid", random_state=0),
            dk.SlicedWassersteinEmbedding(random_state=0),
        ):
            embedding.fit(wide).transform(wide)
        dk.group_test(wide, sets.targets["y"], n_permutations=9, random_state=0)
