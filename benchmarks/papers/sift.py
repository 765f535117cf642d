"""Dense SIFT descriptors of a grey image by OpenCV (Lowe 2004; on a regular grid, without rotation of patches)."""

from __future__ import annotations

import numpy as np

CELLS = 4  # a patch is 4 x 4 cells
SMOOTHING = 0.8  # pixels; the standard 1.6 is meant for detected points


def dense_sift(image: np.ndarray, step: int, cell: float) -> tuple[np.ndarray, np.ndarray]:
    """Return descriptors (n, 128) uint8, and their centres (n, 2) as fractions (x, y) of width and height.

    ``image`` is (height, width) uint8; patches of 4 x 4 cells of ``cell`` pixels are ``step`` pixels apart. A
    descriptor is 512 times the square root of SIFT scaled to unit sum: Euclidean distances between descriptors are
    proportional to Hellinger distances between SIFTs (Arandjelovic and Zisserman 2012).
    """
    import cv2

    height, width = image.shape
    half = int(CELLS * cell / 2)
    y, x = (range(half, side - half + 1, step) for side in (height, width))
    diameter = cell / 1.5  # a cell of OpenCV is 1.5 diameters wide
    points = [cv2.KeyPoint(float(b), float(a), diameter, 0.0) for a in y for b in x]
    points, result = cv2.SIFT_create(sigma=SMOOTHING).compute(image, points)
    result /= np.maximum(result.sum(1, keepdims=True), 1)
    places = np.array([point.pt for point in points], np.float32) / np.array([width, height], np.float32)
    return np.minimum(np.rint(512 * np.sqrt(result)), 255).astype(np.uint8), places
