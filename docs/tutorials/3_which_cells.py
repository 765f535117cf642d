"""
Test groups and find the cells that differ
==========================================

Two groups of donors seem to differ. Answer two questions first: could the difference be chance? If not, which cells
make the difference?
"""

import numpy as np
from sklearn.model_selection import train_test_split

import dkdist as dk

sets, group = dk.datasets.make_cells(80, random_state=0)

# %%
# Test the groups
# ---------------
#
# The donors are sampled, not their cells. 25,000 cells of 80 donors are 80 independent observations, and a test that
# counts cells finds a difference between any two groups of donors. ``group_test`` permutes whole donors between the
# groups, and counts how often chance alone makes a difference as large.

found = dk.group_test(sets, group, random_state=0)
print(f"p = {found.p_value:.3f}")
print({name: round(value, 1) for name, value in found.statistics.items()})

# %%
# Each statistic is the negative decimal logarithm of a p-value. The location of a donor's cells hardly differs
# between the groups. Their spread and the shape of their distribution differ. Between two halves of the healthy
# donors there is no difference, and the test finds none:

healthy = sets[group == "healthy"]
print(f"p = {dk.group_test(healthy, np.arange(len(healthy)) % 2, random_state=0).p_value:.3f}")

# %%
# Find the cells
# --------------
#
# ``explain`` divides the prediction of each donor among the cells: how much does each one contribute to "ill"? These
# donors were not used to fit the model.

train, test = train_test_split(np.arange(len(sets)), test_size=20, stratify=group, random_state=0)
model = dk.SetClassifier(random_state=0).fit(sets[train], group[train])
print(f"accuracy on donors that were held out: {model.score(sets[test], group[test]):.2f}")

held_out = sets[test]
contributions = model.explain(held_out)
ill = int(np.flatnonzero(group[test] == "ill")[0])
axes = dk.plot.contributions(held_out, contributions, ill, dims=("CD8", "CD38"))

# %%
# The hundred cells with the largest contributions to "ill", over all of these donors, have these markers:

cells, speak = np.concatenate(list(held_out)), np.concatenate(contributions)
loudest = cells[np.argsort(speak)[-100:]]
for j, marker in enumerate(sets.names):
    print(f"{marker:5} {loudest[:, j].mean():5.1f}   (all cells: {cells[:, j].mean():.1f})")

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
# The same question for markers: how much does a marker add to the predictions, on average over all orders of adding
# markers? Missing markers are taken from other donors, here from four (by default from sixteen).

matters = model.explain(held_out[:8], by="dimension", background=sets[train[:4]], random_state=0)
for marker, value in zip(sets.names, np.abs(matters).mean(axis=0), strict=True):
    print(f"{marker:5} {value:.2f}")

# %%
# :doc:`/explaining` defines these numbers, and states where they are approximations.
