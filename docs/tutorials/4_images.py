"""
Images as distributions
=======================

A picture can be seen as a set of points: where the ink is, and how much of it. Then "are these two pictures
alike?" becomes "are these two distributions alike?", and nothing has to be said about pixels, edges or layers.

scikit-learn brings 1,797 handwritten digits of 8 x 8 pixels. Each becomes the set of its inked pixels, weighted by
their ink.
"""

import numpy as np
from matplotlib import pyplot as plt
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline

import dkdist as dk

sets, y = dk.datasets.load_digits_as_sets()
sets

# %%
# The first ten, as the library sees them: points in the unit square, larger for more ink.

figure, panels = plt.subplots(2, 5, figsize=(9, 4.2), layout="constrained")
for i, axes in enumerate(panels.flat):
    axes.scatter(*sets[i].T, s=9 * sets.weights_of(i), color="#1f6f8b")
    axes.set(
        title=f"{y[i]} ({len(sets[i])} points)",
        xlim=(0, 1),
        ylim=(0, 1),
        xticks=[],
        yticks=[],
        aspect="equal",
    )

# %%
# Three steps make a classifier. The embedding turns each set into a row of numbers, such that rows are as far from
# each other as the distributions of ink are (by the Hellinger distance). Random features let a linear model draw
# curved boundaries between rows. Ridge regression learns them exactly, and chooses its penalty by itself.
#
# The bandwidth blurs the ink: .08 of the width of the picture, chosen by cross-validation on other digits than those
# that are held out here.

train, test = train_test_split(np.arange(len(y)), test_size=450, stratify=y, random_state=0)
model = make_pipeline(
    dk.DivergenceEmbedding("hellinger", n_basis=10, bandwidth=0.08, domain=(0, 1)),
    dk.RandomFourierFeatures(2000, sigma=0.2, random_state=0),
    dk.IncrementalRidgeClassifier(random_state=0),
)
model.fit(sets[train], y[train])
print(f"accuracy on {len(test)} digits held out: {model.score(sets[test], y[test]):.3f}")

# %%
# The rows of the embedding are distances to be looked at by themselves: here the nearest digits of a few that were
# held out. No label was used for this.

embedding = model[0]
rows = embedding.transform(sets[train])
search = dk.NearestSets(5).fit(rows)
nearest = search.kneighbors(embedding.transform(sets[test[:5]]), return_distance=False)
for i, others in zip(test[:5], nearest, strict=True):
    print(f"a {y[i]} is nearest to {y[train[others]].tolist()}")

# %%
# Who wants colours and edges as well adds dimensions: a point can be (x, y, brightness), or there can be one embedding
# for each look, side by side. :doc:`/choosing` has measured both on photographs of cats and dogs.
