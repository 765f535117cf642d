"""Kernel distances of curves and surfaces: currents, varifolds, and invalid shapes."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

import dkdist as dk

T = np.linspace(0, 2 * np.pi, 61)
CIRCLE = dk.Curve(np.stack([np.cos(T), np.sin(T)], axis=1))
CORNERS = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1.0]])
FACES = [[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]]
SOLID = dk.Surface(CORNERS, FACES)


def energy(P, Q, sigma, squared):
    """Return kappa of two shapes, from their segments or triangles; ``squared`` for varifolds."""
    k = np.exp(-((P.points[:, None] - Q.points) ** 2).sum(axis=2) / (2 * sigma**2))
    v, w = vectors(P), vectors(Q)
    products = v @ w.T
    if squared:
        products = products**2 / np.outer(np.linalg.norm(v, axis=1), np.linalg.norm(w, axis=1))
    return float((k * products).sum())


def vectors(shape):
    if isinstance(shape, dk.Curve):
        return np.diff(shape.vertices, axis=0)
    a, b, c = (shape.vertices[shape.faces[:, j]] for j in range(3))
    return np.cross(b - a, c - a) / 2


@pytest.mark.parametrize("varifold", [False, True])
@pytest.mark.parametrize("method", ["auto", "exact", "fourier", "tree", "wspd", "rff"])
def test_methods_match_brute_force(method, varifold):
    curves = CIRCLE.vertices, 0.9 * CIRCLE.vertices[::-1] + 0.1
    solids = CORNERS, 1.3 * CORNERS
    for P, Q in (
        [dk.Curve(v, varifold=varifold) for v in curves],
        [dk.Surface(v, FACES, varifold=varifold) for v in solids],
    ):
        expected = sum(s * energy(a, b, 0.5, varifold) for s, a, b in ((1, P, P), (1, Q, Q), (-2, P, Q)))
        eps = 0.5 if method in ("rff", "wspd") else 1e-4
        result = dk.kernel_distance(P, Q, sigma=0.5, squared=True, method=method, eps=eps, random_state=0)
        assert abs(result - expected) <= (4 if method == "rff" else 1) * eps


@pytest.mark.parametrize("shape", [CIRCLE, SOLID])
def test_reversing_changes_the_sign_of_a_current(shape):
    self_energy = energy(shape, shape, 0.4, False)
    result = dk.kernel_distance(shape, shape.reversed(), sigma=0.4, squared=True)
    assert result == pytest.approx(4 * self_energy)
    unoriented = type(shape)(*([shape.vertices] + ([shape.faces] if shape is SOLID else [])), varifold=True)
    assert dk.kernel_distance(unoriented, unoriented.reversed(), sigma=0.4) < 1e-7
    assert dk.kernel_distance(shape, shape, sigma=0.4) < 1e-7


def test_norm_of_a_line_is_its_length():
    line, point = dk.Curve([[0.0, 0], [3, 4]]), dk.Curve([[100.0, 0], [100, 1e-9]])
    assert dk.kernel_distance(line.refined(0.1), point, sigma=1e4) == pytest.approx(5)


@pytest.mark.parametrize("shape", [CIRCLE, SOLID])
def test_refinement_converges_quadratically(shape):
    """Halving the edges reduces the error to a quarter."""
    other = type(shape)(*([0.9 * shape.vertices] + ([shape.faces] if shape is SOLID else [])))
    edges = [0.4, 0.2, 0.1] if shape is SOLID else [0.1, 0.05, 0.025]
    d2 = [
        dk.kernel_distance(shape.refined(e), other.refined(e), sigma=0.3, squared=True, method="exact")
        for e in edges
    ]
    assert 2.5 < (d2[0] - d2[1]) / (d2[1] - d2[2]) < 6


def test_closed_curve_adds_the_last_segment():
    square = np.array([[0, 0], [1, 0], [1, 1], [0, 1.0]])
    closed, value = dk.Curve(square, closed=True), dk.Curve(np.concatenate([square, square[:1]]))
    np.testing.assert_array_equal(closed.points, value.points)
    np.testing.assert_allclose(closed.channels.sum(axis=0), 0)
    assert len(dk.Curve(square).points) == 3


def test_meshes_of_other_libraries():
    trimesh = SimpleNamespace(vertices=CORNERS, faces=np.array(FACES))
    blocks = [
        SimpleNamespace(type="triangle", data=np.array(FACES[:2])),
        SimpleNamespace(type="triangle", data=np.array(FACES[2:])),
    ]
    meshio = SimpleNamespace(points=CORNERS, cells=blocks)
    for mesh in (trimesh, meshio):
        assert dk.kernel_distance(mesh, SOLID, sigma=0.5) < 1e-7
        np.testing.assert_array_equal(dk.Surface(mesh).channels, SOLID.channels)
    blocks[0].type = "quad"
    with pytest.raises(ValueError, match="must be triangles; got quad, triangle"):
        dk.Surface(meshio)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: dk.Curve([[0.0, 0]]), "n >= 2; got float64 of shape"),
        (lambda: dk.Curve([[0, 0], [1, np.nan]]), "got .* at vertex 1"),
        (lambda: dk.Curve([[0.0, 0], [1, 1], [1, 1], [2, 0]]), "positive length; vertices 1 and 2"),
        (lambda: dk.Curve([[0.0, 0], [1, 1], [0, 0]], closed=True), "positive length; vertices 2 and 0"),
        (lambda: dk.Surface(CORNERS), "faces are required"),
        (lambda: dk.Surface(CORNERS[:, :2], FACES), "3 dimensions; got 2"),
        (lambda: dk.Surface(CORNERS, [[0, 1, 4]]), "got .* for triangle 0"),
        (lambda: dk.Surface(CORNERS, [[0, 1, 2.0]]), "integer array"),
        (lambda: dk.Surface(CORNERS, [[0, 1, 2], [0, 3, 3]]), "positive area; the vertices .* of triangle 1"),
        (lambda: dk.Surface(CORNERS, [*FACES[:3], FACES[3][::-1]]), "triangles 1 and 3.*varifold=True"),
        (lambda: CIRCLE.refined(0), "longest must be a positive number"),
        (lambda: dk.kernel_distance(CIRCLE, SOLID, sigma=1), "got Curve and Surface"),
        (lambda: dk.kernel_distance(CIRCLE, dk.Curve(CIRCLE.vertices, varifold=True), sigma=1), "the same varifold="),
        (lambda: dk.kernel_distance(CIRCLE, CIRCLE, sigma=1, weights=(None, None)), "weights must be None for shapes"),
        (lambda: dk.kernel_distance(SOLID, SOLID, sigma=1, squared=True, unbiased=True), "got squared=True and shapes"),
    ],
)  # fmt: skip
def test_invalid_shapes_raise(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize("unit", [1e-200, 1e-100, 1e100, 1e200, 1.7e308])
def test_too_large_or_small_shapes_raise(unit):
    """Squares of areas would overflow or underflow."""
    corners = unit * np.array([[-1, 0, 0], [1, 0, 0], [0, 1, 0.0]])
    for make in (dk.Curve, lambda vertices: dk.Surface(vertices, [[0, 1, 2]])):
        with pytest.raises(ValueError, match=r"must be from 1e-70 to 1e\+70; got .*Rescale the vertices"):
            make(corners)


def test_distance_of_shapes_scales_with_units():
    corners = np.array([[-1, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1.0]])
    for varifold in (False, True):
        for power, make in (
            (1, lambda v, f=varifold: dk.Curve(v, varifold=f)),
            (2, lambda v, f=varifold: dk.Surface(v, [[0, 2, 1], [0, 1, 3]], varifold=f)),
        ):
            expected = dk.kernel_distance(make(corners), make(1.2 * corners), sigma=0.7)
            for unit in (1e-60, 1e60):
                result = dk.kernel_distance(
                    make(unit * corners), make(1.2 * unit * corners), sigma=0.7 * unit
                )
                assert result == pytest.approx(unit**power * expected, rel=1e-9)


def test_channels_of_tiny_segments_are_finite():
    short = dk.Curve([[0, 0], [1e-170, 0], [1, 0]], varifold=True)
    np.testing.assert_allclose(short.channels, [[1e-170, 0, 0], [1, 0, 0]])


def test_nonorientable_mesh_is_a_varifold():
    strip = [*FACES[:3], FACES[3][::-1]]
    assert dk.kernel_distance(
        dk.Surface(CORNERS, strip, varifold=True), dk.Surface(CORNERS, FACES, varifold=True), sigma=0.5
    ) == pytest.approx(0, abs=1e-7)
