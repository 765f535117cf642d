"""The same lines on a cluster: under a Dask client all runs on its workers, with the same bits if processors are alike.

Here two worker processes of this machine; for others, start `dask scheduler` and `dask worker` there and write
`Client("tcp://ADDRESS:8786")`. The store must be readable by every worker under the same path or URL.
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
            print(f"R2 of the width of a cloud, on two workers: {model.score(test, test.targets['y']):.3f}")
            on_cluster = model.predict(test)
        alone = train(path)[0].predict(test)
        print(f"the same bits without a cluster: {bool((alone == on_cluster).all())}")
