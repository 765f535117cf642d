"""
Run on a cluster
================

Under a Dask client the same code runs on its workers: on this machine, on a batch system or in a cloud. Results are
bit-identical if all CPUs are of one type. This tutorial starts two worker processes on your machine. The last section
describes the differences on a larger cluster.
"""

# sphinx_gallery_thumbnail_path = 'dashboard.png'

import tempfile

import numpy as np
from dask.distributed import Client, LocalCluster
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
        dk.IncrementalSGDRegressor(n_epochs=5, random_state=0),
    )
    return model.fit(sets[:800], sets.targets["y"][:800])


# %%
# Without a client, the code runs on local threads.

local_model = train(path)

# %%
# A notebook shows the client as a table with a link to the dashboard (extra ``dashboard``). Open the link, and then
# its page "dkdist" for the losses of the fit. In a script, put the lines from here on below
# ``if __name__ == "__main__":``, because worker processes import the script.

cluster = LocalCluster(n_workers=2, threads_per_worker=1, preload="dkdist.preload")
client = Client(cluster)
client

# %%
# From now on the code runs on the workers. A block of sets is one task. The state of the learner is sent between
# workers, features are not.

cluster_model = train(path)
test_sets = dk.open_sets(path)[800:]
predictions = cluster_model.predict(test_sets)
print("bit-identical:", bool((predictions == local_model.predict(test_sets)).all()))
error = np.sqrt(np.mean((predictions - y[800:]) ** 2))
print(f"root mean squared error: {error:.2f}; of a constant: {y[800:].std():.2f}")

# %%
# The dashboard names the tasks by their work; :doc:`/dashboard` explains each name.

print(*sorted(cluster.scheduler.task_prefixes), sep="\n")

# %%
# Close the client and its cluster when the work is done.

client.close()
cluster.close()

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
# - For long runs give the learner a ``checkpoint=`` path: if the job is killed, the same call continues where it
#   stopped.
#
# :doc:`/clusters` has recipes for several hosts, TLS, Slurm and Kubernetes. :doc:`/failures` describes the recovery
# when workers die, and :doc:`/dashboard` the live view of a fit.

folder.cleanup()
