"""
From a data frame to a cross-validated score
============================================

The question is about donors: who is ill? The table is about cells: four markers of each. No table of donors has a
column that answers, and a mean of a donor's cells may hide what matters. This page keeps all cells of a donor together,
as a *set*, and learns from sets.
"""

from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline

import dkdist as dk

# %%
# What we have
# ------------
#
# Two tables, as they come: a row for each cell, and a row for each donor, in another order. They are simulated, and the
# simulation was tuned so that means fail: what it shows is how the tools work, not how often real data are like this.

cells, donors = dk.datasets.make_cells(80, random_state=0, as_frame=True)
cells

# %%

donors.head()

# %%
# One set for each donor
# ----------------------
#
# ``from_frame`` gathers the rows of a donor, whatever their order, and joins what is known of donors by name, never
# by position: a donor without an entry, or with two, is refused by name.

sets = dk.SampleSets.from_frame(cells, set_id="donor", targets=donors)
sets

# %%
# What to predict is joined by name too. A series of pandas, in its own order, is all that a model needs:

group = donors["group"]

# %%
# Two healthy donors and an ill one. The ill have more cells in the upper right corner, where two markers are high:

figure = dk.plot.sets(sets, [0, 6, 1], y=group, dims=("CD8", "CD38"))

# %%
# A first score
# -------------
#
# Nothing has to be chosen: :class:`~dkdist.SetClassifier` tries several ways to compare sets, and simple ones to
# compare with. Each score is of donors that were left out.

model = dk.SetClassifier(random_state=0).fit(sets, group)
print(model.summary())

# %%

axes = dk.plot.leaderboard(model)

# %%
# Means of the markers know little here, as every donor's cells are shifted a little, which the simulation was made to
# do; the shape of the distributions knows more. Most of that is in their covariances already (``moments``): the summary
# says how much the model has beyond these, and with which standard error.
#
# Cross-validation
# ----------------
#
# The scores above chose the model, which flatters the best one a little. An honest one comes from scikit-learn's
# own tools, to which sets are like rows of a table, and a pipeline of this library like any other estimator:

pipeline = make_pipeline(
    dk.SlicedWassersteinEmbedding(random_state=0), dk.IncrementalRidgeClassifier(random_state=0)
)
scores = cross_val_score(pipeline, sets, sets.targets["group"], cv=5)
print(f"accuracy {scores.mean():.2f}, five folds from {scores.min():.2f} to {scores.max():.2f}")

# %%
# The same for means alone:

scores = cross_val_score(
    make_pipeline(dk.MomentEmbedding(1), pipeline[-1]), sets, sets.targets["group"], cv=5
)
print(f"accuracy {scores.mean():.2f}, five folds from {scores.min():.2f} to {scores.max():.2f}")

# %%
# A new donor is one more set, with the markers by the same names: sets with other columns, or in another order, are
# refused.

new, _ = dk.datasets.make_cells(4, random_state=1)
for donor, chances in zip(new.ids, model.predict_proba(new), strict=True):
    print(donor, dict(zip(model.classes_.tolist(), chances.round(2).tolist(), strict=True)))

# %%
# Tables that do not fit into memory go into a store instead: :doc:`/your_data`.
