"""Makes a Dask worker ready before its first block: ``dask worker ... --preload dkdist.preload``.

One BLAS thread for as long as the worker lives, freed memory kept for the next block, and the compiled loops loaded
(or compiled, once for each cache folder), so that the first block of a run is as fast as the others.
"""

from __future__ import annotations

from typing import Any


def dask_setup(worker: Any) -> None:
    """What Dask calls in a worker that starts, before it takes tasks."""
    from dkdist._runtime.process import prepare_worker

    prepare_worker()
    warm()


def warm() -> None:
    """Fit and ask tiny classifiers on this thread, from stores in memory: the usual loops are ready then."""
    import dask
    import numpy as np
    from sklearn.pipeline import make_pipeline
    from zarr.storage import MemoryStore

    import dkdist as dk

    rng = np.random.default_rng(0)
    with dask.config.set(scheduler="synchronous"):
        for method in ("iid", "structured"):  # the products of short rows and of long ones
            sets = dk.write_sets(MemoryStore(), list(rng.random((8, 20, 2))), targets=np.arange(8) % 2)
            model = make_pipeline(
                dk.DivergenceEmbedding("jensen-shannon", domain="unit"),
                dk.RandomFourierFeatures(64, method=method, random_state=0),
                dk.IncrementalSGDClassifier(n_epochs=1, random_state=0),
            )
            model.fit(sets, sets.targets["y"]).predict(sets)
        rows = np.asarray(model[:-1].transform(sets))  # which more than two cores make beside the steps
        dk.IncrementalSGDClassifier(n_epochs=1, random_state=0).fit(rows, sets.targets["y"])
