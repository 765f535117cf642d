"""
Time series and strings
=======================

Some objects have a good distance but no natural vector: recordings at different speeds, or words that differ in some
letters. All pairs of N objects need N² distances. :class:`~dkdist.DistanceEmbedding` represents each object by its
distances to some hundred random objects (landmarks), and a linear model uses them as features. The cost is linear in N.

Series: the same gesture at different speeds
--------------------------------------------

A series is a set of ordered points. These series have two shapes, a loop and a figure of eight, with varying speed,
size and noise.
"""

import numpy as np
from matplotlib import pyplot as plt
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline

import dkdist as dk

rng = np.random.default_rng(0)


def gesture(eight):
    n = rng.integers(30, 60)
    time = np.sort(rng.beta(*rng.uniform(0.7, 1.5, 2), n)) * 2 * np.pi
    path = np.column_stack([np.sin(time), np.sin(2 * time) / 2 if eight else np.cos(time)])
    return path * rng.uniform(0.7, 1.3, 2) + rng.normal(0, 0.08, (n, 2))


eight = np.arange(200) % 2
gestures = [gesture(is_eight) for is_eight in eight]

share = {"sharex": True, "sharey": True, "layout": "constrained"}
figure, panels = plt.subplots(1, 4, figsize=(9, 2.6), **share)
for axes, path, is_eight in zip(panels, gestures, eight, strict=False):
    axes.plot(*path.T, ".-", color="#b5651d" if is_eight else "#1f6f8b", linewidth=1)
    axes.set(title="eight" if is_eight else "loop", xlabel="x", aspect="equal")
panels[0].set_ylabel("y")

# %%
# Dynamic time warping matches the points of two series in order, with the minimum sum of distances. The result does
# not depend on the speed.

model = make_pipeline(
    dk.DistanceEmbedding(dk.DynamicTimeWarping("euclidean"), n_components=64, random_state=0),
    dk.IncrementalRidgeClassifier(random_state=0),
)
print(f"accuracy, five folds: {cross_val_score(model, gestures, eight).mean():.3f}")

# %%
# Strings: a word in noise
# ------------------------
#
# Half of these sequences of four letters contain a word somewhere, often with one wrong letter. The edit distance
# counts insertions, deletions and substitutions.


def sequence(has_word):
    letters = list(rng.choice(list("ACGT"), rng.integers(30, 50)))
    if has_word:
        word = list("GATTACAGATTACA")
        word[rng.integers(len(word))] = rng.choice(list("ACGT"))
        position = rng.integers(len(letters))
        letters[position:position] = word
    return "".join(letters)


has_word = np.arange(400) % 2
sequences = [sequence(label) for label in has_word]
print(*sequences[:4], sep="\n")

# %%

model = make_pipeline(
    dk.DistanceEmbedding("levenshtein", n_components=256, random_state=0),
    dk.IncrementalRidgeClassifier(random_state=0),
)
print(f"accuracy, five folds: {cross_val_score(model, sequences, has_word).mean():.3f}")

# %%
# ``dk.pairwise(function)`` makes a distance from a custom function of two objects. It is slower, because it is a Python
# function, but otherwise works like the built-in distances. :doc:`/distances` describes all distances and the number of
# landmarks.
