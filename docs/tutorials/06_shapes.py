"""
Compare and align shapes
========================

Outlines and pen traces are curves, and the surfaces of organs are surfaces: sets of points with a length (or an area)
and a direction. The *kernel distance* compares them at a given scale of details, without a correspondence between
points.
"""

import numpy as np
from matplotlib import pyplot as plt

import dkdist as dk

rng = np.random.default_rng(0)


def leaf(lobes, n=200):
    """Return a closed outline with some lobes, as n random corners."""
    angle = np.sort(rng.uniform(0, 2 * np.pi, n))
    radius = 1 + 0.25 * np.cos(lobes * angle) + 0.15 * np.cos(angle)
    return radius[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])


outlines = {"three lobes": leaf(3), "three, drawn again": leaf(3, 80), "five lobes": leaf(5)}
share = {"sharex": True, "sharey": True, "layout": "constrained"}
figure, panels = plt.subplots(1, 3, figsize=(9, 3.7), **share)
for axes, (name, corners) in zip(panels, outlines.items(), strict=True):
    axes.fill(*corners.T, facecolor="#dfe9e4", edgecolor="#2f6b4f")
    axes.set(title=name, xlabel="x", aspect="equal")
panels[0].set_ylabel("y")

# %%
# The same leaf with other corners has a small distance, another leaf a large one. A :class:`~dkdist.Curve` with
# ``varifold=True`` ignores the sign of the direction of its edges. ``sigma`` is the size of the details to compare.

shapes = {}
for name, corners in outlines.items():
    shapes[name] = dk.Curve(corners, closed=True, varifold=True)
first = shapes["three lobes"]
for name, other in shapes.items():
    print(f"{name:20} {dk.kernel_distance(first, other, sigma=0.2):.3f}")

# %%
# Align two sets
# --------------
#
# :func:`~dkdist.align` finds the rotation and the translation of one set onto another, also for different samples of
# one shape. It needs no initial guess.

angle = 2.0
rotation = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
P, Q = leaf(3, 300), leaf(3, 300) @ rotation + [2.0, 0.5]
alignment = dk.align(Q, P, sigma=0.1)
print(f"kernel distance {alignment.distance_before:.3f} before, {alignment.distance:.3f} after")

aligned_Q = Q @ alignment.rotation.T + alignment.translation
figure, axes = plt.subplots(figsize=(6, 3), layout="constrained")
axes.plot(*P.T, ".", color="#1f6f8b", label="P")
axes.plot(*Q.T, ".", color="#c9c9c9", label="Q, original")
axes.plot(*aligned_Q.T, ".", color="#b5651d", markersize=3, label="Q, aligned")
axes.set(xlabel="x", ylabel="y", aspect="equal")
axes.legend(loc="upper left", bbox_to_anchor=(1, 1), frameon=False)

# %%
# Reduce the number of points
# ---------------------------
#
# A coreset is a small weighted subset. Its ``distance`` is the kernel distance to all points. Use it if an algorithm
# is too slow for all points. For comparison: the kernel distance of a single point to a distant set is about 1.

cloud = rng.normal(size=(100_000, 2)) @ [[1.0, 0.6], [0.0, 0.5]]
coreset = dk.coreset(cloud, 100, sigma=0.5, random_state=0)
print(f"100 of 100,000 points, kernel distance {coreset.distance:.4f}")

# %%
# :doc:`/kernel_distance_shapes` measures the retrieval of MPEG-7 silhouettes, and compares alignment with ICP.
