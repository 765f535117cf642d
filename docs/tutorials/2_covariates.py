"""
Sets plus covariates
====================

Some data describe a set as a whole, such as the age and the sex of a donor. Append them as columns to the rows of an
embedding.

The target of this tutorial is a severity that depends on the fraction of certain cells and on the age.
"""

from matplotlib import pyplot as plt
from sklearn.model_selection import cross_val_predict, cross_val_score
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import StandardScaler

import dkdist as dk

sets, _ = dk.datasets.make_cells(120, random_state=0)
severity = sets.targets["severity"]
print(f"{len(sets)} donors with the columns {', '.join(sets.targets)}")

# %%
# Sets have such columns as ``targets``, also in slices and folds. ``SetColumns`` selects them, and a union
# concatenates them with the rows of an embedding. Both parts are standardized, because ridge regression penalizes all
# columns equally.

points = make_pipeline(dk.SlicedWassersteinEmbedding(random_state=0), StandardScaler())
age = make_pipeline(dk.SetColumns(["age"]), StandardScaler())
models = {
    "cells": make_pipeline(points, dk.IncrementalRidge(random_state=0)),
    "age": make_pipeline(age, dk.IncrementalRidge(random_state=0)),
    "cells and age": make_pipeline(make_union(points, age), dk.IncrementalRidge(random_state=0)),
}
for name, model in models.items():
    print(f"{name:14} R² {cross_val_score(model, sets, severity, cv=5).mean():.2f}")

# %%
# A row of an embedding has hundreds of columns, and the age is one. ``transformer_weights`` sets the weights of the
# two parts. Like every parameter, ``GridSearchCV`` can tune it.

union = make_union(points, age)
union.set_params(transformer_weights={union.transformer_list[1][0]: 10.0})
weighted_model = make_pipeline(union, dk.IncrementalRidge(random_state=0))
print(f"age with weight 10: R² {cross_val_score(weighted_model, sets, severity, cv=5).mean():.2f}")

# %%
# Each prediction is from a model that was fitted without this donor:

predicted = cross_val_predict(weighted_model, sets, severity, cv=5)
figure, axes = plt.subplots(figsize=(5, 4), layout="constrained")
dots = axes.scatter(severity, predicted, c=sets.targets["age"], cmap="viridis")
axes.axline((0, 0), slope=1, color="#8a94a0", linewidth=1)
axes.set(xlabel="severity", ylabel="predicted severity")
figure.colorbar(dots, label="age in years")

# %%
# For text columns, such as a hospital, use ``OneHotEncoder(sparse_output=False)`` instead of ``StandardScaler``. Rows
# must be dense. If measurements depend on the hospital, hold out whole hospitals: ``cross_val_score(...,
# cv=GroupKFold(), groups=hospital)``.
