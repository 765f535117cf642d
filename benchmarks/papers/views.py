"""Grey images as sample sets: each pixel is a point (x, y, v) of its position and a local value.

Images are arrays (n, 32, 32) of values in [0, 1]; all points are in the unit cube.

values   the grey value, as in P1
edges    the direction of the edge modulo pi, weighted by the length of the gradient; points near one end of the range
         of directions are copied to the other end
slopes   the slope along one axis, transformed by a logistic function; all pixels have equal weights
"""

from __future__ import annotations

import numpy as np
from scipy.ndimage import gaussian_filter

import dkdist as dk

SIDE = 32
WRAP = 0.15  # fraction of the range of directions that is copied to the other end
SLOPE_SCALE = 0.05  # slope, in grey values per pixel, that the logistic function maps to 0.73
MIN_WEIGHT = 1e-6  # of a pixel without gradient, so that uniform images are valid sets


def mirrored(x: np.ndarray) -> np.ndarray:
    return x[:, :, ::-1]


def values(x: np.ndarray) -> dk.SampleSets:
    return as_sets(grid(x, x))


def edges(x: np.ndarray, smoothing: float = 0.5) -> dk.SampleSets:
    down, right = gradient(x, smoothing)
    weights = np.hypot(right, down).reshape(len(x), -1) + MIN_WEIGHT
    points = grid(x, np.arctan2(down, right) / np.pi % 1)
    points = np.concatenate([points + np.array([0, 0, k], "f4") for k in (-1, 0, 1)], 1)
    is_inside = (points[..., 2] > -WRAP) & (points[..., 2] < 1 + WRAP)
    scaled = (points[is_inside] + np.array([0, 0, WRAP], "f4")) / np.array([1, 1, 1 + 2 * WRAP], "f4")
    return dk.SampleSets(
        scaled, np.append(0, np.cumsum(is_inside.sum(1))), np.tile(weights, (1, 3))[is_inside]
    )


def wide_edges(x: np.ndarray) -> dk.SampleSets:
    return edges(x, 1.2)


def slopes_right(x: np.ndarray) -> dk.SampleSets:
    return as_sets(grid(x, logistic(gradient(x, 0.5)[1])))


def slopes_down(x: np.ndarray) -> dk.SampleSets:
    return as_sets(grid(x, logistic(gradient(x, 0.5)[0])))


def gradient(x: np.ndarray, smoothing: float) -> tuple[np.ndarray, np.ndarray]:
    """Return slopes (down, right) of the images after Gaussian smoothing, whose width is in pixels."""
    down, right = np.gradient(gaussian_filter(x, (0, smoothing, smoothing)), axis=(1, 2))
    return down, right


def logistic(slope: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-slope / SLOPE_SCALE))


def grid(x: np.ndarray, value: np.ndarray) -> np.ndarray:
    """Return points (n, 1024, 3): position of a pixel, and its value."""
    centres = (np.arange(SIDE, dtype="f4") + 0.5) / SIDE
    points = np.empty((len(x), SIDE, SIDE, 3), "f4")
    points[..., 0], points[..., 1], points[..., 2] = centres, centres[:, None], value
    return points.reshape(len(x), -1, 3)


def as_sets(points: np.ndarray) -> dk.SampleSets:
    return dk.SampleSets(points.reshape(-1, 3), np.arange(len(points) + 1) * SIDE**2)
