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
# You choose nothing: :class:`~dkdist.SetClassifier` compares several representations of sets, and simple baselines.
# It repeats its whole selection in outer folds. The scores of the model and of the baselines are of donors that the
# selection did not see.

model = dk.SetClassifier(random_state=0).fit(sets, group)
print(model.summary())

# %%

axes = dk.plot.leaderboard(model)

# %%
# Means of the markers predict little here, because the simulation shifts the cells of every donor a little. The shape
# of the distributions predicts more. Covariances already contain most of that (``moments``): the summary shows the
# lead of the model over them, with its standard error, and one of three verdicts: better, not better, or not
# established.
#
# Cross-validation
# ----------------
#
# The scores of single candidates come from the donors that selected them, so they are optimistic. A pipeline of your
# own choice is scored by scikit-learn's tools, which take sets like rows of a table:

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
