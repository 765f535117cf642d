"""
From a data frame to a cross-validated score
============================================

The task is to predict which donors are ill. The data are cells: four markers of each. No column of the table of
donors contains the answer, and the mean of a donor's cells may hide the signal. This tutorial keeps all cells of a
donor together as a *set*, and learns from sets.
"""

from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline

import dkdist as dk

# %%
# The data
# --------
#
# There are two tables: one row per cell, and one row per donor, in another order. The data are simulated with
# uninformative means, so the scores are not typical of real data.

cells, donors = dk.datasets.make_cells(80, random_state=0, as_frame=True)
cells

# %%

donors.head()

# %%
# One set per donor
# -----------------
#
# ``from_frame`` collects the rows of each donor in any order, and joins the table of donors by id, never by position.
# A donor without an entry, or with two, raises an error.

sets = dk.SampleSets.from_frame(cells, set_id="donor", targets=donors)
sets

# %%
# The target is joined by id too. A pandas Series in any order is enough:

group = donors["group"]

# %%
# The figure shows two healthy donors and an ill one. Ill donors have more cells in the upper right corner, where two
# markers are high:

figure = dk.plot.sets(sets, [0, 6, 1], y=group, dims=("CD8", "CD38"))

# %%
# A first score
# -------------
#
# :class:`~dkdist.SetClassifier` needs no configuration. It compares several representations of sets and simple
# baselines, and repeats this selection in outer folds. The scores of the model and of the baselines are therefore from
# donors that were not used for the selection.

model = dk.SetClassifier(random_state=0).fit(sets, group)
print(model.summary())

# %%

axes = dk.plot.leaderboard(model)

# %%
# Means of the markers predict little here, because the simulation shifts the cells of every donor a little. The shape
# of the distributions predicts more. Covariances already contain most of it (``moments``). The summary shows the lead
# of the model over them with its standard error, and one of three verdicts: better, not better, or not established.
#
# Cross-validation
# ----------------
#
# The scores of individual candidates are optimistic, because the same donors were used to select among them. To score a
# custom pipeline, use the tools of scikit-learn, which accept sets like the rows of a table:

pipeline = make_pipeline(
    dk.SlicedWassersteinEmbedding(random_state=0), dk.IncrementalRidgeClassifier(random_state=0)
)
scores = cross_val_score(pipeline, sets, sets.targets["group"], cv=5)
print(f"accuracy {scores.mean():.2f}, five folds from {scores.min():.2f} to {scores.max():.2f}")

# %%
# For comparison, score the means of the markers:

scores = cross_val_score(
    make_pipeline(dk.MomentEmbedding(1), pipeline[-1]), sets, sets.targets["group"], cv=5
)
print(f"accuracy {scores.mean():.2f}, five folds from {scores.min():.2f} to {scores.max():.2f}")

# %%
# New donors are sets with the same markers. Other columns, or another order of columns, raise an error.

new, _ = dk.datasets.make_cells(4, random_state=1)
for donor, probabilities in zip(new.ids, model.predict_proba(new), strict=True):
    print(donor, dict(zip(model.classes_.tolist(), probabilities.round(2).tolist(), strict=True)))

# %%
# Tables that exceed memory go into a store: :doc:`/your_data`.
