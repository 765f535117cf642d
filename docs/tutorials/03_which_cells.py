"""
Test groups and find the cells that differ
==========================================

Two groups of donors seem to differ. This tutorial tests whether the difference could be chance, and finds the cells
that cause it.
"""

import numpy as np
from sklearn.model_selection import train_test_split

import dkdist as dk

sets, group = dk.datasets.make_cells(80, random_state=0)

# %%
# Test the groups
# ---------------
#
# 25,000 cells of 80 donors are 80 independent observations. A test that treats cells as independent finds a difference
# between any two groups of donors. ``group_test`` permutes whole donors between the groups, and counts how often chance
# alone gives a difference as large.

test_result = dk.group_test(sets, group, random_state=0)
print(f"p = {test_result.p_value:.3f}")
print({name: round(value, 1) for name, value in test_result.statistics.items()})

# %%
# Each statistic is the negative decimal logarithm of a p-value. The location of a donor's cells hardly differs
# between the groups. Their spread and the shape of their distribution differ. Two halves of the healthy donors do not
# differ, and the test does not reject:

healthy = sets[group == "healthy"]
print(f"p = {dk.group_test(healthy, np.arange(len(healthy)) % 2, random_state=0).p_value:.3f}")

# %%
# Find the cells
# --------------
#
# ``explain`` divides the prediction of each donor among the cells: a contribution is positive if the cell makes "ill"
# more probable. These donors were not used to fit the model.

train, test = train_test_split(np.arange(len(sets)), test_size=20, stratify=group, random_state=0)
model = dk.SetClassifier(random_state=0).fit(sets[train], group[train])
print(f"accuracy on held-out donors: {model.score(sets[test], group[test]):.2f}")

held_out = sets[test]
contributions = model.explain(held_out)
ill = int(np.flatnonzero(group[test] == "ill")[0])
axes = dk.plot.contributions(held_out, contributions, ill, dims=("CD8", "CD38"))

# %%
# The hundred cells with the largest contributions to "ill", over all of these donors, have these markers:

cells, cell_contributions = np.concatenate(list(held_out)), np.concatenate(contributions)
top_cells = cells[np.argsort(cell_contributions)[-100:]]
for j, marker in enumerate(sets.names):
    print(f"{marker:5} {top_cells[:, j].mean():5.1f}   (all cells: {cells[:, j].mean():.1f})")

# %%
# They are high in CD3, CD8 and CD38: active killer T cells, as in the simulation. Counting them with thresholds
# confirms it:

active = np.array([np.mean((x[:, 2] > 2.5) & (x[:, 3] > 2.5)) for x in sets])
for name in ("healthy", "ill"):
    print(f"{name:8} {100 * active[group == name].mean():.1f} %")

# %%
# Find the dimensions
# -------------------
#
# The contribution of a marker is what it adds to the prediction, on average over all orders of adding markers (Shapley
# value). Values of missing markers are from other donors, here from four (by default from sixteen).

importances = model.explain(held_out[:8], by="dimension", background=sets[train[:4]], random_state=0)
for marker, value in zip(sets.names, np.abs(importances).mean(axis=0), strict=True):
    print(f"{marker:5} {value:.2f}")

# %%
# :doc:`/explaining` defines these numbers, and states which of them are approximations.
