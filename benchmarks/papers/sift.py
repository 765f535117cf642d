"""Dense SIFT descriptors of a grey image, in plain NumPy and SciPy (Lowe 2004; on a regular grid, flat window).

Gradients are shared among eight orientations, each map is smoothed by a triangle as wide as a cell, and a descriptor
reads it at the centres of 4 x 4 cells; it is scaled to unit length, cut at 0.2, and scaled again. A floor under the
length keeps flat patches small instead of turning their noise into edges.
"""

from __future__ import annotations

import numpy as np
from scipy.ndimage import convolve1d, gaussian_filter

ORIENTATIONS, CELLS, CUT, FLOOR = 8, 4, 0.2, 0.05


def dense_sift(image: np.ndarray, step: int, cell: int) -> tuple[np.ndarray, np.ndarray]:
    """(n, 128) descriptors and (n, 2) places (x, y) of their middles, in shares of width and height.

    ``image`` (height, width) has values in [0, 1]; neighbouring patches of 4 x 4 cells of ``cell`` pixels are ``step``
    pixels apart.
    """
    down, right = np.gradient(gaussian_filter(image.astype(np.float32), cell / 6))
    length, turn = np.hypot(right, down), np.arctan2(down, right) / (2 * np.pi) % 1 * ORIENTATIONS
    triangle = np.concatenate([np.arange(1, cell + 1), np.arange(cell - 1, 0, -1)]) / cell**2
    maps = np.empty((*image.shape, ORIENTATIONS), np.float32)
    for k in range(ORIENTATIONS):
        apart = np.abs((turn - k + ORIENTATIONS / 2) % ORIENTATIONS - ORIENTATIONS / 2)
        share = length * np.maximum(1 - apart, 0)
        maps[..., k] = convolve1d(convolve1d(share, triangle, 0), triangle, 1)
    height, width = image.shape
    y, x = (np.arange(0, side - CELLS * cell + 1, step) for side in (height, width))
    centres = cell * np.arange(CELLS) + cell // 2
    found = maps[(y[:, None] + centres)[:, None, :, None], (x[:, None] + centres)[None, :, None, :]]
    found = found.reshape(len(y) * len(x), -1)
    found /= np.linalg.norm(found, axis=1, keepdims=True) + FLOOR
    found = np.minimum(found, CUT)
    found /= np.linalg.norm(found, axis=1, keepdims=True) + FLOOR
    places = np.stack(np.meshgrid(x, y), -1).reshape(-1, 2) + CELLS * cell / 2
    return found, (places / (width, height)).astype(np.float32)
