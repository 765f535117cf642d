"""
Donors from h5ad files with batches
===================================

Single-cell studies store cells in h5ad files: a matrix of cells, and a table ``obs`` with the donor, the disease and
the batch of each cell. This tutorial classifies donors from such a file, which may be larger than memory, and keeps
batches from being mistaken for disease.

It needs anndata: ``pip install 'dkdist[single-cell]'``.
"""

import tempfile
from pathlib import Path

import anndata
import numpy as np
from matplotlib import pyplot as plt
from sklearn.decomposition import PCA
from sklearn.model_selection import LeaveOneGroupOut, cross_val_score
from sklearn.pipeline import make_pipeline

import dkdist as dk

# %%
# A file for the example: 60 simulated donors, whose samples were measured in four batches. Each batch shifts all
# markers. Batches are balanced: each has healthy and ill donors.

cells, donors = dk.datasets.make_cells(60, random_state=0, as_frame=True)
rng = np.random.default_rng(0)
batches = np.array(["April", "May", "June", "July"])
donors["batch"] = ""
for group in ("healthy", "ill"):
    ids = donors.index[donors["group"] == group]
    donors.loc[ids, "batch"] = rng.permutation(np.resize(batches, len(ids)))
shifts = dict(zip(batches, rng.normal(0, 1.5, (4, 4)), strict=True))

shuffled = cells.sample(frac=1, random_state=0)  # the cells of a donor may be anywhere in a file
markers = ["CD3", "CD4", "CD8", "CD38"]
obs = shuffled[["donor"]].join(donors[["group", "batch"]], on="donor")
matrix = shuffled[markers].to_numpy() + np.array([shifts[name] for name in obs["batch"]])

folder = Path(tempfile.mkdtemp())
adata = anndata.AnnData(matrix.astype("float32"), obs=obs.astype("category").set_axis(obs.index.astype(str)))
adata.var_names = markers
anndata.settings.allow_write_nullable_strings = True
adata.write_h5ad(folder / "cells.h5ad")

# %%
# Import the file
# ---------------
#
# ``import_anndata`` reads the file block by block and writes a store of donors. ``obsm="X_pca"`` or ``layer="counts"``
# would select another matrix. Targets are columns of ``obs`` that are constant for each donor.

sets = dk.import_anndata(folder / "donors.zarr", folder / "cells.h5ad", "donor", targets=["group", "batch"])
group, batch = sets.targets["group"], sets.targets["batch"]
print(f"{len(sets)} donors with {sets.n_points:,} cells, markers {', '.join(sets.names)}")
for name in batches:
    print(f"{name:6} {np.sum(group[batch == name] == 'ill')} of {np.sum(batch == name)} donors are ill")

# %%
# Look at the batches
# -------------------
#
# Each point is a donor, from the means and covariances of its markers. The batches are what differs most.


def plot_donors(axes, collection, title):
    rows = PCA(2).fit_transform(np.asarray(dk.MomentEmbedding(degree=2).fit_transform(collection)))
    for k, name in enumerate(batches):
        for marker, label in (("o", "healthy"), ("^", "ill")):
            chosen = (batch == name) & (group == label)
            axes.scatter(*rows[chosen].T, marker=marker, color=f"C{k}", s=22, label=f"{name}, {label}")
    axes.set(title=title, xlabel="component 1", ylabel="component 2")


# %%
# Batches are known for new donors too, and their shift is the same for healthy and ill ones. So subtract the mean of
# each batch. This uses no label of any donor.

loaded = sets.load()
donor_means = np.array([x.mean(axis=0) for x in loaded])
centres = {name: donor_means[batch == name].mean(axis=0) for name in batches}
centred = dk.SampleSets.from_arrays(
    [x - centres[name] for x, name in zip(loaded, batch, strict=True)],
    ids=sets.ids,
    names=sets.names,
    targets=sets.targets,
)
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4.8), layout="constrained")
plot_donors(left, sets, "as measured")
plot_donors(right, centred, "centred in each batch")
figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=4)

# %%
# Score across batches
# --------------------
#
# A score is honest if it holds for batches that the model has not seen, so each fold holds out a whole batch. Without
# centring, the shift of a batch looks like other cells.

pipeline = make_pipeline(dk.DivergenceEmbedding("hellinger"), dk.IncrementalRidgeClassifier(random_state=0))
for name, collection in (("as measured", sets), ("centred", centred)):
    scores = cross_val_score(pipeline, collection, group, groups=batch, cv=LeaveOneGroupOut())
    print(f"{name:12} accuracy on new batches {scores.mean():.2f}")

# %%
# ``SetClassifier`` chooses the representation itself, and removes the batch from its rows. Its outer folds hold out
# donors of batches that it has seen:

model = dk.SetClassifier(adjust=["batch"], random_state=0).fit(sets, group)
for row in model.leaderboard_[:3]:
    print(f"{row['name']:12} {row['score']:.2f} ± {row['std_error']:.2f}")

# %%
# The columns of the sets remain available: ``dk.group_test(sets, group)`` compares the groups, and
# :doc:`/gallery/03_which_cells` finds the cells that differ.
