"""
Sets plus covariates
====================

Of a donor we know more than the cells: the age, the sex, where the sample was taken. Such numbers belong to the set as
a whole, and go beside what an embedding makes of its points.

Here a severity is to be predicted, which depends on the share of a certain kind of cells and on the age.
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
# Sets carry such columns with them as ``targets``, through slices and folds. ``SetColumns`` picks them out, and a union
# puts them beside the rows of an embedding. Both sides come in units of their own spread, as ridge regression treats
# all columns alike.

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
# A row of an embedding has hundreds of columns, and the age is one. ``transformer_weights`` says how much the sides
# count; like every parameter it can be searched for by ``GridSearchCV``.

both = make_union(points, age)
both.set_params(transformer_weights={both.transformer_list[1][0]: 10.0})
weighted = make_pipeline(both, dk.IncrementalRidge(random_state=0))
print(f"age counts tenfold: R² {cross_val_score(weighted, sets, severity, cv=5).mean():.2f}")

# %%
# Every donor was predicted by models that never saw this donor:

predicted = cross_val_predict(weighted, sets, severity, cv=5)
figure, axes = plt.subplots(figsize=(5, 4), layout="constrained")
dots = axes.scatter(severity, predicted, c=sets.targets["age"], cmap="viridis")
axes.axline((0, 0), slope=1, color="#8a94a0", linewidth=1)
axes.set(xlabel="severity", ylabel="predicted severity")
figure.colorbar(dots, label="age in years")

# %%
# Text, such as a hospital, goes the same way with ``OneHotEncoder(sparse_output=False)`` in place of
# ``StandardScaler``: rows must be dense. And if hospitals differ in how they measure, hold whole hospitals out:
# ``cross_val_score(..., cv=GroupKFold(), groups=hospital)``.
