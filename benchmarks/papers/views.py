"""Grey images as sample sets: each pixel a point (x, y, v) of its place and one thing that is seen there.

Images are arrays (n, 32, 32) of values in [0, 1]; all points lie in the unit cube.

values   the grey value, as P1 takes it.
edges    the direction of the edge, modulo pi, weighted by the gradient's length; points near one end of the range of
         directions are seen at the other end too.
slopes   the slope along one axis, squashed by a logistic curve; every pixel counts alike.
"""

from __future__ import annotations

import numpy as np
from scipy.ndimage import gaussian_filter

import dkdist as dk

SIDE = 32
WRAP = 0.15  # of the range of directions that is seen at both ends
STEEP = 0.05  # the slope, in grey values a pixel, that is squashed to .73
LEAST = 1e-6  # weight of a pixel without gradient: an image of one colour is a set, too


def mirrored(x: np.ndarray) -> np.ndarray:
    return x[:, :, ::-1]


def values(x: np.ndarray) -> dk.SampleSets:
    return as_sets(grid(x, x))


def edges(x: np.ndarray, smoothing: float = 0.5) -> dk.SampleSets:
    down, right = gradient(x, smoothing)
    weights = np.hypot(right, down).reshape(len(x), -1) + LEAST
    points = grid(x, np.arctan2(down, right) / np.pi % 1)
    points = np.concatenate([points + np.array([0, 0, k], "f4") for k in (-1, 0, 1)], 1)
    near = (points[..., 2] > -WRAP) & (points[..., 2] < 1 + WRAP)
    inside = (points[near] + np.array([0, 0, WRAP], "f4")) / np.array([1, 1, 1 + 2 * WRAP], "f4")
    return dk.SampleSets(inside, np.append(0, np.cumsum(near.sum(1))), np.tile(weights, (1, 3))[near])


def wide_edges(x: np.ndarray) -> dk.SampleSets:
    return edges(x, 1.2)


def slopes_right(x: np.ndarray) -> dk.SampleSets:
    return as_sets(grid(x, squashed(gradient(x, 0.5)[1])))


def slopes_down(x: np.ndarray) -> dk.SampleSets:
    return as_sets(grid(x, squashed(gradient(x, 0.5)[0])))


def gradient(x: np.ndarray, smoothing: float) -> tuple[np.ndarray, np.ndarray]:
    """Slopes down and to the right, of the image smoothed by a Gaussian of that many pixels."""
    down, right = np.gradient(gaussian_filter(x, (0, smoothing, smoothing)), axis=(1, 2))
    return down, right


def squashed(slope: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-slope / STEEP))


def grid(x: np.ndarray, value: np.ndarray) -> np.ndarray:
    """(n, 1024, 3) points: place of a pixel and a value there."""
    centres = (np.arange(SIDE, dtype="f4") + 0.5) / SIDE
    points = np.empty((len(x), SIDE, SIDE, 3), "f4")
    points[..., 0], points[..., 1], points[..., 2] = centres, centres[:, None], value
    return points.reshape(len(x), -1, 3)


def as_sets(points: np.ndarray) -> dk.SampleSets:
    return dk.SampleSets(points.reshape(-1, 3), np.arange(len(points) + 1) * SIDE**2)
