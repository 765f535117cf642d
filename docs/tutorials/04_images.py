"""
Images as distributions
=======================

An image is a set of points: the positions of the ink, weighted by the amount of ink. Similar images are then
similar distributions.

scikit-learn includes 1,797 handwritten digits of 8 x 8 pixels. Each becomes the set of its inked pixels.
"""

import numpy as np
from matplotlib import pyplot as plt
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline

import dkdist as dk

sets, y = dk.datasets.load_digits_as_sets()
sets

# %%
# The figure shows the first ten sets: points in the unit square, larger for more ink.

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
# The classifier has three steps. The embedding maps each set to a row of numbers, so that distances between rows are
# Hellinger distances between the distributions of ink. Random features let a linear model learn nonlinear boundaries
# between rows. Ridge regression has a closed-form solution, and selects its penalty.
#
# The bandwidth smooths the ink. It is 0.08 of the width of the image, selected by cross-validation on digits that are
# not in the test set.

train, test = train_test_split(np.arange(len(y)), test_size=450, stratify=y, random_state=0)
model = make_pipeline(
    dk.DivergenceEmbedding("hellinger", n_basis=10, bandwidth=0.08, domain=(0, 1)),
    dk.RandomFourierFeatures(2000, sigma=0.2, random_state=0),
    dk.IncrementalRidgeClassifier(random_state=0),
)
model.fit(sets[train], y[train])
print(f"accuracy on {len(test)} test digits: {model.score(sets[test], y[test]):.3f}")

# %%
# Distances between rows do not need labels. Print the nearest training digits of five test digits:

embedding = model[0]
rows = embedding.transform(sets[train])
search = dk.NearestSets(5).fit(rows)
nearest = search.kneighbors(embedding.transform(sets[test[:5]]), return_distance=False)
for i, neighbours in zip(test[:5], nearest, strict=True):
    print(f"a {y[i]} is nearest to {y[train[neighbours]].tolist()}")

# %%
# For colours and edges, add dimensions: a point can be (x, y, brightness), or several embeddings can be concatenated.
# :doc:`/benchmarks` compares both on photographs of cats and dogs.
