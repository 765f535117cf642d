"""Segments and triangles as weighted points, compared with closed forms."""

from __future__ import annotations

import numpy as np
import pytest

from dkdist.kernels._shapes_numba import (
    find_inconsistent_edge,
    segments,
    split_segments,
    split_triangles,
    triangles,
    varifold,
)

SQUARE = np.array([[0, 0, 0], [2, 0, 0], [2, 2, 0], [0, 2, 0.0]])


def test_segments_sum_to_the_vector_from_end_to_end():
    vertices = np.random.default_rng(0).random((20, 3))
    middles, edges = segments(vertices)
    np.testing.assert_allclose(edges.sum(axis=0), vertices[-1] - vertices[0])
    np.testing.assert_allclose(middles + edges / 2, vertices[1:])


def test_triangles_have_areas_and_normals():
    centroids, normals = triangles(SQUARE, np.array([[0, 1, 2], [0, 2, 3]]))
    np.testing.assert_allclose(normals, [[0, 0, 2], [0, 0, 2]])
    np.testing.assert_allclose(centroids.mean(axis=0), [1, 1, 0])


@pytest.mark.parametrize("d", [1, 2, 3])
def test_varifold_channels_ignore_the_sign(d):
    v, w = np.random.default_rng(d).standard_normal((2, 30, d))
    expected = (v @ w.T) ** 2 / np.outer(np.linalg.norm(v, axis=1), np.linalg.norm(w, axis=1))
    np.testing.assert_allclose(varifold(v) @ varifold(w).T, expected, atol=1e-12)
    np.testing.assert_array_equal(varifold(-v), varifold(v))
    assert varifold(v).shape == (30, d * (d + 1) // 2)


def test_splitting_keeps_length_and_area():
    curve = np.array([[0, 0], [1, 0], [1, 0.05], [4, 4.0]])
    finer = split_segments(curve, 0.1)
    lengths = np.linalg.norm(np.diff(finer, axis=0), axis=1)
    assert lengths.max() <= 0.1 + 1e-12
    assert lengths.sum() == pytest.approx(np.linalg.norm(np.diff(curve, axis=0), axis=1).sum())
    assert all((np.abs(finer - corner).sum(axis=1) < 1e-12).any() for corner in curve)
    vertices, faces = split_triangles(SQUARE, np.array([[0, 1, 2], [0, 2, 3]]), 0.5)
    _, normals = triangles(vertices, faces)
    np.testing.assert_allclose(normals.sum(axis=0), [0, 0, 4])
    assert (normals[:, 2] > 0).all()
    edges = vertices[faces] - vertices[np.roll(faces, 1, axis=1)]
    assert np.linalg.norm(edges, axis=2).max() <= 0.5
    assert len(np.unique(vertices, axis=0)) == len(vertices)


def test_find_inconsistent_edge():
    assert find_inconsistent_edge(np.array([[0, 1, 2], [0, 2, 3]])) is None
    assert find_inconsistent_edge(np.array([[0, 1, 2], [3, 4, 5], [7, 3, 0], [0, 3, 2]])) == (0, 3)
