"""
A cluster job
=============

Under a Dask client the same lines run on its workers, on this machine, on a batch system or in a cloud, and give
the same numbers, bit for bit, if the processors are of one kind. This page uses a client within the process, so
that it runs anywhere; the last section says what is different on a cluster.
"""

# sphinx_gallery_thumbnail_path = 'dashboard.png'

import tempfile

import numpy as np
from dask.distributed import Client
from sklearn.pipeline import make_pipeline

import dkdist as dk

folder = tempfile.TemporaryDirectory()
path = f"{folder.name}/mixtures.zarr"

sets, y = dk.datasets.make_mixtures(1000, 100, random_state=0)
dk.write_sets(path, sets, targets=y.astype(float))


def train(path):
    sets = dk.open_sets(path, block_sets=100)
    model = make_pipeline(
        dk.DivergenceEmbedding("hellinger", domain=(-10, 10)),
        dk.RandomFourierFeatures(500, random_state=0),
        dk.IncrementalRidge(random_state=0),
    )
    return model.fit(sets[:800], sets.targets["y"][:800]).predict(sets[800:])


# %%
# Without a client the cores of this machine work, in threads. With one, its workers do. A block of sets is one task;
# the learner travels, features do not.

alone = train(path)
with Client(processes=False, n_workers=2, threads_per_worker=1, dashboard_address=None):
    on_workers = train(path)
print("the same bits:", bool((alone == on_workers).all()))
error = np.sqrt(np.mean((alone - y[800:]) ** 2))
print(f"root mean squared error: {error:.2f}, of the mean {y[800:].std():.2f}")

# %%
# Before long work
# ----------------
#
# ``verbose=True`` shows the plan before anything runs: how many blocks, how often the store is read, and how much
# memory it takes at most. A plan that cannot fit is refused.
#
# On a cluster
# ------------
#
# Only the client is another one. On a machine with Slurm, for instance (``pip install 'dkdist[cluster]'``)::
#
#     from dask_jobqueue import SLURMCluster
#
#     cluster = SLURMCluster(cores=8, processes=8, memory="32GB", walltime="02:00:00")
#     cluster.scale(jobs=10)
#     with Client(cluster):
#         train("/shared/mixtures.zarr")
#
# Three things to mind:
#
# - Every worker must be able to read the store under the same path or URL: a shared file system, or S3.
# - A script that starts worker processes needs ``if __name__ == "__main__":`` around what it does, as these read the
#   script again.
# - For work of hours give the learner a ``checkpoint=`` path: if the job is killed, the same call goes on where it
#   stopped.
#
# :doc:`/clusters` has recipes for several hosts, TLS, Slurm and Kubernetes, :doc:`/failures` says what happens when
# workers die, and :doc:`/dashboard` shows the live view of a fit.

folder.cleanup()
