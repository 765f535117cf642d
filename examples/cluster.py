"""Run a fit on a cluster: under a Dask client it runs on the workers, bit-identical if all CPUs are of one type.

This example starts two worker processes on this machine. For several machines, start `dask scheduler` and `dask worker`
there and use `Client("tcp://ADDRESS:8786")`. Every worker must read the store under the same path or URL.
"""

import tempfile

import numpy as np
from dask.distributed import Client
from sklearn.pipeline import make_pipeline

import dkdist as dk


def train(path):
    sets = dk.open_sets(path, block_sets=200)
    model = make_pipeline(
        dk.DivergenceEmbedding("hellinger", domain=(-7, 7)),
        dk.RandomFourierFeatures(500, random_state=0),
        dk.IncrementalRidge(random_state=0),
    )
    return model.fit(sets[:1600], sets.targets["y"][:1600]), sets[1600:]


if __name__ == "__main__":  # worker processes import this file
    rng = np.random.default_rng(0)
    width = rng.uniform(0.5, 1.2, 2000)
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/widths.zarr"
        dk.write_sets(path, width[:, None, None] * rng.normal(size=(2000, 60, 2)), targets=width)
        with Client(n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0"):
            model, test = train(path)
            print(
                f"R2 of the standard deviation of a set, on two workers: {model.score(test, test.targets['y']):.3f}"
            )
            cluster_predictions = model.predict(test)
        local_predictions = train(path)[0].predict(test)
        print(f"bit-identical without a cluster: {bool((local_predictions == cluster_predictions).all())}")
