"""
Run on a cluster
================

Under a Dask client the same code runs on its workers: on this machine, on a batch system or in a cloud. Results are
bit-identical if all CPUs are of one type. This tutorial uses a client within the process, so it runs
anywhere. The last section describes the differences on a cluster.
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
# Without a client, the code runs on local threads; with a client, on its workers. A block of sets is one task. The
# state of the learner is sent between workers, features are not.

local_predictions = train(path)
with Client(processes=False, n_workers=2, threads_per_worker=1, dashboard_address=None):
    cluster_predictions = train(path)
print("bit-identical:", bool((local_predictions == cluster_predictions).all()))
error = np.sqrt(np.mean((local_predictions - y[800:]) ** 2))
print(f"root mean squared error: {error:.2f}; of a constant: {y[800:].std():.2f}")

# %%
# Before a long run
# -----------------
#
# ``verbose=True`` prints the plan before the run: the number of blocks, the number of passes over the store, and the
# peak memory. A plan that exceeds memory raises an error.
#
# On a cluster
# ------------
#
# Only the client changes. For example with Slurm (extra ``cluster``)::
#
#     from dask_jobqueue import SLURMCluster
#
#     cluster = SLURMCluster(cores=8, processes=8, memory="32GB", walltime="02:00:00")
#     cluster.scale(jobs=10)
#     with Client(cluster):
#         train("/shared/mixtures.zarr")
#
# Requirements:
#
# - Every worker reads the store under the same path or URL: a shared file system, or S3.
# - A script that starts worker processes needs ``if __name__ == "__main__":``, because workers import the script.
# - For long runs give the learner a ``checkpoint=`` path: if the job is killed, the same call continues where it
#   stopped.
#
# :doc:`/clusters` has recipes for several hosts, TLS, Slurm and Kubernetes. :doc:`/failures` describes the recovery
# when workers die, and :doc:`/dashboard` the live view of a fit.

folder.cleanup()
