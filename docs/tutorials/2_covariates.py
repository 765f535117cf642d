"""
Sets plus covariates
====================

Some data belong to the set as a whole: the age and the sex of a donor, the place of the sample. They are columns
next to the rows of an embedding.

The target of this tutorial is a severity that depends on the fraction of certain cells and on the age.
"""

from matplotlib import pyplot as plt
from sklearn.model_selection import cross_val_predict, cross_val_score
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import StandardScaler

import dkdist as dk

sets, _ = dk.datasets.make_cells(120, random_state=0)
severity = sets.targets["severity"]
print(f"{len(sets)} donors, of whom is known: {', '.join(sets.targets)}")

# %%
# Sets carry such columns as ``targets``, also through slices and folds. ``SetColumns`` selects them, and a union
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

both = make_union(points, age)
both.set_params(transformer_weights={both.transformer_list[1][0]: 10.0})
weighted = make_pipeline(both, dk.IncrementalRidge(random_state=0))
print(f"age counts tenfold: R² {cross_val_score(weighted, sets, severity, cv=5).mean():.2f}")

# %%
# The model that predicts a donor has never seen this donor:

predicted = cross_val_predict(weighted, sets, severity, cv=5)
figure, axes = plt.subplots(figsize=(5, 4), layout="constrained")
dots = axes.scatter(severity, predicted, c=sets.targets["age"], cmap="viridis")
axes.axline((0, 0), slope=1, color="#8a94a0", linewidth=1)
axes.set(xlabel="severity", ylabel="predicted severity")
figure.colorbar(dots, label="age in years")

# %%
# Text columns, such as a hospital, use ``OneHotEncoder(sparse_output=False)`` instead of ``StandardScaler``, because
# rows must be dense. If hospitals measure differently, hold out whole hospitals: ``cross_val_score(...,
# cv=GroupKFold(), groups=hospital)``.
