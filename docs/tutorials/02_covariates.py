"""
Sets plus covariates
====================

Some data describe a set as a whole, such as the age of a donor or the batch of a measurement. An automatic model uses
the age as a predictor and removes the batch.

The target of this tutorial is a severity that depends on the fraction of certain cells and on the age.
"""

import numpy as np
from matplotlib import pyplot as plt
from sklearn.model_selection import cross_val_predict, cross_val_score
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import StandardScaler

import dkdist as dk

sets, _ = dk.datasets.make_cells(120, random_state=0)
severity = sets.targets["severity"]
print(f"{len(sets)} donors with the columns {', '.join(sets.targets)}")

# %%
# Sets have such columns as ``targets``, also in slices, folds and stores. ``covariates`` are the names of predictors:

model = dk.SetRegressor(covariates=["age"], cv=5, random_state=0).fit(sets, severity)
print(model.summary())

# %%
# "Better than the covariates alone" is the answer to the question what the cells add to the age. The score and the
# comparison are from outer folds, which repeat the whole selection.
#
# Measurements in batches may shift all cells of a donor. If batch and severity are associated, a model predicts from
# the batch. ``adjust`` removes it from the rows of all representations, in each fold. Three batches:

batch = np.arange(120) % 3
shifted = dk.SampleSets.from_arrays(
    [cells + 0.2 * batch[i] for i, cells in enumerate(sets)],
    targets={"age": sets.targets["age"], "batch": np.array(["March", "May", "July"])[batch]},
)
adjusted = dk.SetRegressor(covariates=["age"], adjust=["batch"], cv=5, random_state=0).fit(shifted, severity)
score = next(entry["score"] for entry in adjusted.leaderboard_ if entry["name"] == "this model")
print(f"adjusted for batches: R² {score:.2f}")
print({name: round(value, 2) for name, value in adjusted.nuisance_scores_["batch"].items()})

# %%
# The last line shows how well the batch is predicted for held-out donors, from adjusted and from unadjusted rows.
# Values near chance mean that little of the batch is left. A batch that is confounded with the target gives a warning.
#
# Pipelines
# ---------
#
# In a pipeline, ``SetColumns`` selects columns, and a union appends them to the rows of an embedding. Both parts are
# standardized, because ridge regression penalizes all columns equally. A row of an embedding has hundreds of columns,
# and the age is one; ``transformer_weights`` sets the weights of the two parts.

points = make_pipeline(dk.SlicedWassersteinEmbedding(random_state=0), StandardScaler())
age = make_pipeline(dk.SetColumns(["age"]), StandardScaler())
union = make_union(points, age)
union.set_params(transformer_weights={union.transformer_list[1][0]: 10.0})
models = {
    "cells": make_pipeline(points, dk.IncrementalRidge(random_state=0)),
    "age": make_pipeline(age, dk.IncrementalRidge(random_state=0)),
    "cells and age": make_pipeline(union, dk.IncrementalRidge(random_state=0)),
}
for name, pipeline in models.items():
    print(f"{name:14} R² {cross_val_score(pipeline, sets, severity, cv=5).mean():.2f}")

# %%
# Each prediction is from a model that was fitted without this donor:

predicted = cross_val_predict(models["cells and age"], sets, severity, cv=5)
figure, axes = plt.subplots(figsize=(5, 4), layout="constrained")
dots = axes.scatter(severity, predicted, c=sets.targets["age"], cmap="viridis")
axes.axline((0, 0), slope=1, color="#8a94a0", linewidth=1)
axes.set(xlabel="severity", ylabel="predicted severity")
figure.colorbar(dots, label="age in years")

# %%
# For text columns in a pipeline, such as a hospital, use ``OneHotEncoder(sparse_output=False)`` instead of
# ``StandardScaler``. To predict for new hospitals, hold out whole hospitals: ``fit(sets, y, groups=hospital)``, or in a
# pipeline ``cross_val_score(..., cv=GroupKFold(), groups=hospital)``.
