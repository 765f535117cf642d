"""Curves and surfaces as weighted points: currents (oriented) and varifolds (unoriented).

    current:   E(c, c') = sum_ij k(m_i, m_j) <v_i, v_j>,               channels v (d)
    varifold:  E(c, c') = sum_ij k(m_i, m_j) <v_i, v_j>^2 / |v_i| |v_j|,  channels v v^T / |v| (d (d + 1) / 2)

m_i is the midpoint of a segment or the centroid of a triangle, v_i the edge vector or half the cross product of two
edges, whose norm is the area. Reversing a current changes its sign. (Joshi et al. 2011; Vaillant, Glaunes 2005;
Charon, Trouve 2013.) Replacing a segment of length l by its midpoint changes the
mean of k by at most (l / sigma)^2 / 24.
"""

from __future__ import annotations

import numpy as np

from dkdist._numba.arrays import F64, I64


def segments(vertices: F64) -> tuple[F64, F64]:
    """Return (midpoints, edge vectors) of a polygonal curve (n, d), both (n - 1, d)."""
    return (vertices[1:] + vertices[:-1]) / 2, np.diff(vertices, axis=0)


def triangles(vertices: F64, faces: I64) -> tuple[F64, F64]:
    """Return (centroids, half the cross products) of triangles (m, 3) of vertices (n, 3), both (m, 3)."""
    a, b, c = (vertices[faces[:, k]] for k in range(3))
    return (a + b + c) / 3, np.cross(b - a, c - a) / 2


def varifold(v: F64) -> F64:
    """Return channels (n, d (d + 1) / 2) whose inner products are <v_i, v_j>^2 / |v_i| |v_j|."""
    i, j = np.triu_indices(v.shape[1])
    unit = np.abs(v).max(axis=1, keepdims=True)  # avoids underflow of squares
    u = v / unit
    length = np.sqrt((u**2).sum(axis=1, keepdims=True))
    return np.asarray(np.where(i == j, 1, np.sqrt(2)) * u[:, i] * u[:, j] * (unit / length))


def split_segments(vertices: F64, longest: float) -> F64:
    """Return the vertices after splitting each segment into the fewest equal parts no longer than ``longest``."""
    edges = np.diff(vertices, axis=0)
    parts = np.maximum(1, np.ceil(np.sqrt((edges**2).sum(axis=1)) / longest)).astype(np.int64)
    segment = np.repeat(np.arange(len(edges)), parts)
    step = np.arange(len(segment)) - np.repeat(np.cumsum(parts) - parts, parts)
    inner = vertices[segment] + (step / parts[segment])[:, None] * edges[segment]
    return np.concatenate([inner, vertices[-1:]])


def split_triangles(vertices: F64, faces: I64, longest: float) -> tuple[F64, I64]:
    """Return vertices and faces after splitting triangles into four until no edge is longer than ``longest``."""
    while True:
        edge = vertices[faces] - vertices[np.roll(faces, -1, axis=1)]
        is_long = np.sqrt((edge**2).sum(axis=2)).max(axis=1) > longest
        if not is_long.any():
            return vertices, faces
        long_faces = faces[is_long]
        pairs = np.sort(np.stack([long_faces, np.roll(long_faces, -1, axis=1)], axis=2), axis=2).reshape(
            -1, 2
        )
        ends, edge_index = np.unique(pairs, axis=0, return_inverse=True)
        a, b, c = long_faces.T
        ab, bc, ca = (edge_index.reshape(-1, 3) + len(vertices)).T
        children = [(a, ab, ca), (ab, b, bc), (ca, bc, c), (ab, bc, ca)]
        vertices = np.concatenate([vertices, vertices[ends].mean(axis=1)])
        faces = np.concatenate([faces[~is_long], *(np.stack(corner, axis=1) for corner in children)])


def find_inconsistent_edge(faces: I64) -> tuple[int, int] | None:
    """Return two triangles that share an edge in the same direction, or None if the mesh is consistently oriented."""
    start, end = faces.ravel(), np.roll(faces, -1, axis=1).ravel()
    order = np.lexsort((end, start))
    is_equal = (np.diff(start[order]) == 0) & (np.diff(end[order]) == 0)
    if not is_equal.any():
        return None
    k = int(np.argmax(is_equal))
    return int(order[k]) // 3, int(order[k + 1]) // 3


def segment_moments(vertices: F64) -> F64:
    """Return the integral of |x - m|^2 over each segment: l^3 / 12."""
    return np.asarray(np.sqrt((np.diff(vertices, axis=0) ** 2).sum(axis=1)) ** 3 / 12)


def triangle_moments(vertices: F64, faces: I64) -> F64:
    """Return the integral of |x - m|^2 over each triangle: its area times the sum of its squared edges / 36."""
    edges = vertices[faces] - vertices[np.roll(faces, -1, axis=1)]
    area = np.sqrt((triangles(vertices, faces)[1] ** 2).sum(axis=1))
    return np.asarray(area * (edges**2).sum(axis=(1, 2)) / 36)


def points_on_segments(vertices: F64, indices: I64, u: F64) -> F64:
    """Return one point on each segment of ``indices``; uniform u (m, 1) gives uniformly distributed points."""
    return np.asarray(vertices[indices] + u * (vertices[indices + 1] - vertices[indices]))


def points_on_triangles(vertices: F64, faces: I64, indices: I64, u: F64) -> F64:
    """Return one point on each triangle of ``indices``; uniform u (m, 2) gives uniformly distributed points."""
    a, b, c = (vertices[faces[indices, k]] for k in range(3))
    root, fraction = np.sqrt(u[:, :1]), u[:, 1:]
    return np.asarray((1 - root) * a + root * ((1 - fraction) * b + fraction * c))


def merge_cells(points: F64, channels: F64, side: float) -> tuple[F64, F64, F64]:
    """Merge the points of each grid cell into their mean, weighted by the norms of their channels.

    Returns (points, channels, distance that each original point was moved).
    """
    cells = np.floor((points - points.min(axis=0)) / side).astype(np.int64)
    _, cell_index = np.unique(cells, axis=0, return_inverse=True)
    cell_index = cell_index.reshape(-1)
    size = np.sqrt((channels**2).sum(axis=1))
    means = _sums(cell_index, size[:, None] * points) / _sums(cell_index, size[:, None])
    distances = np.sqrt(((points - means[cell_index]) ** 2).sum(axis=1))
    return means, _sums(cell_index, channels), distances


def _sums(index: I64, values: F64) -> F64:
    return np.stack([np.bincount(index, column) for column in values.T], axis=1)
