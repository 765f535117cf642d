"""Shapes as points: stated errors of middles, grids and random points hold, and refinement keeps to a tolerance."""

from __future__ import annotations

import numpy as np
import pytest

import dkdist as dk

T = np.linspace(0, 2 * np.pi, 25)
ROOT = np.exp(-0.5)
CUBE = np.array([[x, y, z] for x in (0, 1) for y in (0, 1) for z in (0, 1.0)])
BOX = [[0, 1, 3], [0, 3, 2], [4, 7, 5], [4, 6, 7], [0, 5, 1], [0, 4, 5], [2, 3, 7], [2, 7, 6], [0, 6, 4], [0, 2, 6],
       [1, 5, 7], [1, 7, 3]]  # fmt: skip


def pairs(varifold=False):
    wave = np.stack([np.cos(T), np.sin(2 * T)], axis=1)
    curves = [dk.Curve(v, varifold=varifold) for v in (wave, 0.8 * wave[::-1] + [0.1, 0.3])]
    surfaces = [dk.Surface(v, BOX, varifold=varifold) for v in (CUBE, 1.1 * CUBE + 0.05)]
    return [curves, surfaces]


def weight(shape):
    return float(np.sqrt((shape.channels**2).sum(axis=1)).sum())


def square(P, Q, sigma):
    return dk.kernel_distance(P, Q, sigma=sigma, squared=True, eps=1e-9)


@pytest.mark.parametrize("varifold", [False, True])
@pytest.mark.parametrize("sigma", [0.3, 1.0])
def test_middles_are_within_their_bound(sigma, varifold):
    for P, Q in pairs(varifold):
        fine = [s.refined(0.03 if isinstance(s, dk.Curve) else 0.12) for s in (P, Q)]
        rest = dk.shape_error_bound(*fine, sigma=sigma)
        for longest in (10.0, 0.5, 0.2):
            some = [s.refined(longest) for s in (P, Q)]
            bound = dk.shape_error_bound(*some, sigma=sigma)
            assert abs(square(*some, sigma) - square(*fine, sigma)) <= bound + rest
            W = weight(P) + weight(Q)
            if longest < 1:
                assert bound <= (W * longest / sigma) ** 2 / 12
            assert bound > 2 * rest


def test_the_bound_is_reached_by_a_line_beside_itself():
    """A short line against a like charge: k'' = -1 / sigma^2 nearly everywhere, and both terms count."""
    line, far = dk.Curve([[0.0, 0.0], [0.1, 0.0]]), dk.Curve([[50.0, 0.0], [50.0, 1e-9]])
    exact = square(line.refined(1e-4), far, 1.0)
    bound = dk.shape_error_bound(line, far, sigma=1.0)
    assert 0.9 * bound < square(line, far, 1.0) - exact <= bound


@pytest.mark.parametrize("length", [0.5, 1, 3])
def test_refinement_into_equal_parts_keeps_to_the_last_digit(length):
    P = dk.Curve([[0, 0], [length, 0]])
    for n in range(1, 40):
        eps = (2 * length * length / n) ** 2 / 12
        assert dk.shape_error_bound(*dk.refine_shapes(P, P, sigma=1.0, eps=eps), sigma=1.0) <= eps


@pytest.mark.parametrize("share", [0.02, 0.005])
def test_refinement_keeps_to_a_tolerance(share):
    for P, Q in pairs():
        eps = share * (weight(P) + weight(Q)) ** 2
        fine = dk.refine_shapes(P, Q, sigma=0.5, eps=eps / 20)
        some = dk.refine_shapes(P, Q, sigma=0.5, eps=eps)
        assert dk.shape_error_bound(*some, sigma=0.5) <= eps
        assert abs(square(*some, 0.5) - square(*fine, 0.5)) <= 1.05 * eps
        assert dk.refine_shapes(*some, sigma=0.5, eps=eps) == some
        assert sum(len(s.points) for s in some) < sum(len(s.points) for s in fine)


@pytest.mark.parametrize("side", [0.02, 0.2, 100.0])
def test_grids_move_points_as_far_as_they_say(side):
    for P, Q in pairs():
        P, sigma = P.refined(0.1), 0.4
        few = dk.gridded_shape(P, side)
        W = weight(P) + weight(Q)
        change = abs(square(few, Q, sigma) - square(P, Q, sigma))
        assert change <= 2 * ROOT * W * few.moved / sigma + 1e-9
        assert few.moved <= weight(P) * side * np.sqrt(P.points.shape[1])
        np.testing.assert_allclose(few.channels.sum(axis=0), P.channels.sum(axis=0), atol=1e-12)
        assert len(few.points) < len(P.points) or side < 0.1
        assert side < 100 or len(few.points) == 1


@pytest.mark.parametrize("varifold", [False, True])
def test_random_points_have_the_stated_mean(varifold):
    for P, _ in pairs(varifold):
        fine = P.refined(0.05 if isinstance(P, dk.Curve) else 0.3)
        empty = dk.Curve([[90.0, 0], [90, 1e-9]], varifold=varifold)
        empty = empty if isinstance(P, dk.Curve) else dk.Surface(90 + 1e-6 * CUBE, BOX, varifold=varifold)
        own = square(fine, empty, 0.7)
        few = [dk.sampled_shape(P, 40, random_state=seed) for seed in range(60)]
        result = [square(fine, one, 0.7) for one in few]
        expected = (weight(P) ** 2 - own) / 40
        assert abs(np.mean(result) - expected) < 4 * np.std(result) / np.sqrt(60) + 0.01 * expected
        assert abs(np.mean(result) / expected - 1) < 0.2
        for one in few[:3]:
            assert weight(one) == pytest.approx(weight(P))
    np.testing.assert_array_equal(few[3].points, dk.sampled_shape(P, 40, random_state=3).points)


def test_random_points_lie_on_the_shape():
    points = dk.sampled_shape(dk.Surface(CUBE, BOX), 500, random_state=0).points
    assert np.abs(points * (points - 1)).min(axis=1).max() < 1e-12  # a coordinate is 0 or 1
    np.testing.assert_allclose(points.mean(axis=0), 0.5, atol=0.08)


def test_meshes_of_trimesh():
    trimesh = pytest.importorskip("trimesh")
    ball, other = trimesh.creation.icosphere(2), trimesh.creation.icosphere(3)
    surface = dk.Surface(ball)
    np.testing.assert_allclose(weight(surface), ball.area)
    np.testing.assert_allclose(surface.points, ball.triangles_center)
    assert dk.kernel_distance(ball, other, sigma=0.5) < 0.1 * dk.kernel_distance(
        ball, surface.reversed(), sigma=0.5
    )
    turned = ball.copy()
    turned.faces[5] = turned.faces[5][::-1]
    with pytest.raises(ValueError, match="run along an edge in the same direction"):
        dk.kernel_distance(turned, other, sigma=0.5)
    assert (
        dk.kernel_distance(dk.Surface(turned, varifold=True), dk.Surface(ball, varifold=True), sigma=0.5)
        < 1e-6
    )


def test_meshes_of_meshio(tmp_path):
    meshio = pytest.importorskip("meshio")
    meshio.write_points_cells(tmp_path / "box.off", CUBE, [("triangle", np.array(BOX))])
    mesh = meshio.read(tmp_path / "box.off")
    assert dk.kernel_distance(mesh, dk.Surface(CUBE, BOX), sigma=0.5) < 1e-6
    quads = meshio.Mesh(CUBE, [("triangle", np.array(BOX)), ("quad", np.array([[0, 1, 3, 2]]))])
    with pytest.raises(ValueError, match="must be triangles; got quad, triangle"):
        dk.kernel_distance(quads, mesh, sigma=0.5)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda P, Q: dk.refine_shapes(P, Q, sigma=1e-4, eps=1e-9), "eps=1e-09 needs about .* pieces"),
        (lambda P, Q: dk.refine_shapes(P, Q, sigma=0.1, eps=0), "eps must be a positive"),
        (lambda P, Q: dk.refine_shapes(P, CUBE, sigma=0.1), "Q must be a Curve or a Surface; got ndarray"),
        (lambda P, Q: dk.gridded_shape(P, 0), "side must be a positive"),
        (lambda P, Q: dk.gridded_shape(P, 1e-30), "side must be at least .*; got 1e-30"),
        (lambda P, Q: P.refined(1e-12), "needs about .* pieces"),
        (lambda P, Q: dk.Surface(CUBE, BOX).refined(1e-200), "needs about .* pieces"),
        (lambda P, Q: dk.refine_shapes(P, dk.Surface(CUBE, BOX), sigma=1), "got Curve and Surface"),
        (lambda P, Q: dk.shape_error_bound(P, dk.Curve([[0, 0, 0], [1, 1, 1]]), sigma=1), "dimensions; got 2 and 3"),
        (lambda P, Q: dk.sampled_shape(P, 0), "size must be"),
        (lambda P, Q: dk.sampled_shape(CUBE, 5), "shape must be a Curve or a Surface; got ndarray"),
        (lambda P, Q: dk.kernel_distance(dk.sampled_shape(P, 5), CUBE, sigma=1), "got Curve and ndarray"),
        (lambda P, Q: dk.kernel_distance(dk.sampled_shape(P, 5), dk.Surface(CUBE, BOX), sigma=1), "Curve and Surface"),
        (lambda P, Q: dk.kernel_distance(P, dk.Curve([[0, 0, 0], [1, 1, 1]]), sigma=1), "dimensions; got 2 and 3"),
    ],
)  # fmt: skip
def test_bad_shapes_and_sizes_are_refused_by_name(call, message):
    with pytest.raises(ValueError, match=message):
        call(*pairs()[0])
