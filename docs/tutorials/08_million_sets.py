"""
A million sets
==============

The same code works for a thousand and for ten million sets, because the data are never in memory as a whole. A *store*
on disk is read block by block, features are computed when they are needed, and the state of the learner is small.

This tutorial uses 4,000 sets and takes seconds. The last section has the measurements for a million sets.
"""

import tempfile

import numpy as np
from matplotlib import pyplot as plt
from sklearn.pipeline import make_pipeline

import dkdist as dk

folder = tempfile.TemporaryDirectory()

# %%
# Sets from seeds
# ---------------
#
# A *source* is something that ``import_sets`` reads sets from: a file, a table, or an argument of a function. Many
# sources are read in parallel, and their order is preserved. Here a source is a seed, from which ``simulate`` generates
# 500 mixtures of 1 to 10 Gaussians. The target is the number of Gaussians.


def simulate(seed):
    return dk.datasets.make_mixtures(500, 200, random_state=seed)


sets = dk.import_sets(f"{folder.name}/mixtures.zarr", range(8), simulate)
y = sets.targets["y"].astype(float)
sets

# %%
# Every chunk has a checksum. Verify a copy or a disk:

sets.verify()

# %%
# From the store to a model
# -------------------------
#
# ``sets[:3600]`` is a view; data are read when they are needed. The first step maps sets to rows, whose squared
# distances are divergences between distributions. The second step maps rows to features for a linear model. The third
# step trains it by stochastic gradient descent, in an order that depends only on the seed.

train, test = sets[:3600], sets[3600:]
model = make_pipeline(
    dk.DivergenceEmbedding("jensen-shannon", n_basis=10, bandwidth="scott"),
    dk.RandomFourierFeatures(1000, random_state=0),
    dk.IncrementalSGDRegressor(n_epochs=5, random_state=0),
)
model.fit(train, y[:3600])
predictions = model.predict(test)
error = np.sqrt(np.mean((predictions - y[3600:]) ** 2))
print(f"root mean squared error {error:.2f} components; of a constant: {y[3600:].std():.2f}")

figure, axes = plt.subplots(figsize=(5, 3.4), layout="constrained")
axes.set(xlabel="components of the mixture", ylabel="predicted components")
axes.axline((1, 1), slope=1, color="#8a94a0", linewidth=1)
boxes = axes.boxplot(
    [predictions[y[3600:] == k] for k in range(1, 11)],
    positions=range(1, 11),
    medianprops={"color": "#d55e00", "linewidth": 2},
)

# %%
# Ridge regression needs one pass and no step size. This model uses the rows of the embedding without random features:

rows = model[0].transform(sets)
print(rows)
ridge = dk.IncrementalRidge(random_state=0).fit(rows[:3600], y[:3600])
print(f"ridge: {np.sqrt(np.mean((ridge.predict(rows[3600:]) - y[3600:]) ** 2)):.2f}")

# %%
# ``rows`` is a lazy array, which the learner computes block by block. ``dk.write_features`` stores features, and
# resumes after an interruption.
#
# A model file contains numbers and plain text, but no pickled objects:

dk.save_model(model, f"{folder.name}/model.npz")
assert (dk.load_model(f"{folder.name}/model.npz").predict(test) == model.predict(test)).all()

# %%
# Measurements for a million sets
# -------------------------------
#
# ``python benchmarks/million.py`` runs this workflow with a million sets of 200 points and 5,000 random features on
# two cores. Two workers prepare the data, and two threads train two SGD replicas (``n_lanes=2``), in 32 seconds in
# total:
#
# =====================================================  ==========
# generate sets and write a store of 1.46 GB               11.1 s
# verify every chunk                                        0.8 s
# compute bounds, bandwidth and width of the kernel         3.1 s
# train for five epochs, and predict 100,000 sets          16.7 s
# =====================================================  ==========
#
# No process used more than 630 MB of memory. The RMSE is 1.411 (1.415 after training on 90,000 sets), that of ridge on
# the rows without random features is 1.591, and that of a constant is 2.878. :doc:`/benchmarks` has the machine and
# other runs, and :doc:`/clusters` describes runs on many machines.

folder.cleanup()
