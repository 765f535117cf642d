"""Shapes as points: error bounds of midpoints, grids and random points, and refinement to a tolerance."""

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
def test_midpoints_are_within_error_bound(sigma, varifold):
    for P, Q in pairs(varifold):
        fine = [s.refined(0.03 if isinstance(s, dk.Curve) else 0.12) for s in (P, Q)]
        fine_bound = dk.shape_error_bound(*fine, sigma=sigma)
        for longest in (10.0, 0.5, 0.2):
            coarse = [s.refined(longest) for s in (P, Q)]
            bound = dk.shape_error_bound(*coarse, sigma=sigma)
            assert abs(square(*coarse, sigma) - square(*fine, sigma)) <= bound + fine_bound
            W = weight(P) + weight(Q)
            if longest < 1:
                assert bound <= (W * longest / sigma) ** 2 / 12
            assert bound > 2 * fine_bound


def test_error_bound_is_attained():
    """For a short line, k'' = -1 / sigma^2 nearly everywhere, so both terms of the bound are attained."""
    line, far = dk.Curve([[0.0, 0.0], [0.1, 0.0]]), dk.Curve([[50.0, 0.0], [50.0, 1e-9]])
    exact = square(line.refined(1e-4), far, 1.0)
    bound = dk.shape_error_bound(line, far, sigma=1.0)
    assert 0.9 * bound < square(line, far, 1.0) - exact <= bound


@pytest.mark.parametrize("length", [0.5, 1, 3])
def test_refinement_into_equal_parts_is_within_eps(length):
    P = dk.Curve([[0, 0], [length, 0]])
    for n in range(1, 40):
        eps = (2 * length * length / n) ** 2 / 12
        assert dk.shape_error_bound(*dk.refine_shapes(P, P, sigma=1.0, eps=eps), sigma=1.0) <= eps


@pytest.mark.parametrize("relative_eps", [0.02, 0.005])
def test_refinement_is_within_eps(relative_eps):
    for P, Q in pairs():
        eps = relative_eps * (weight(P) + weight(Q)) ** 2
        fine = dk.refine_shapes(P, Q, sigma=0.5, eps=eps / 20)
        refined = dk.refine_shapes(P, Q, sigma=0.5, eps=eps)
        assert dk.shape_error_bound(*refined, sigma=0.5) <= eps
        assert abs(square(*refined, 0.5) - square(*fine, 0.5)) <= 1.05 * eps
        assert dk.refine_shapes(*refined, sigma=0.5, eps=eps) == refined
        assert sum(len(s.points) for s in refined) < sum(len(s.points) for s in fine)


@pytest.mark.parametrize("side", [0.02, 0.2, 100.0])
def test_gridded_shapes_are_within_moved(side):
    for P, Q in pairs():
        P, sigma = P.refined(0.1), 0.4
        samples = dk.gridded_shape(P, side)
        W = weight(P) + weight(Q)
        change = abs(square(samples, Q, sigma) - square(P, Q, sigma))
        assert change <= 2 * ROOT * W * samples.moved / sigma + 1e-9
        assert samples.moved <= weight(P) * side * np.sqrt(P.points.shape[1])
        np.testing.assert_allclose(samples.channels.sum(axis=0), P.channels.sum(axis=0), atol=1e-12)
        assert len(samples.points) < len(P.points) or side < 0.1
        assert side < 100 or len(samples.points) == 1


@pytest.mark.parametrize("varifold", [False, True])
def test_random_points_have_the_expected_error(varifold):
    for P, _ in pairs(varifold):
        fine = P.refined(0.05 if isinstance(P, dk.Curve) else 0.3)
        empty = dk.Curve([[90.0, 0], [90, 1e-9]], varifold=varifold)
        empty = empty if isinstance(P, dk.Curve) else dk.Surface(90 + 1e-6 * CUBE, BOX, varifold=varifold)
        self_energy = square(fine, empty, 0.7)
        samples = [dk.sampled_shape(P, 40, random_state=seed) for seed in range(60)]
        result = [square(fine, sample, 0.7) for sample in samples]
        expected = (weight(P) ** 2 - self_energy) / 40
        assert abs(np.mean(result) - expected) < 4 * np.std(result) / np.sqrt(60) + 0.01 * expected
        assert abs(np.mean(result) / expected - 1) < 0.2
        for sample in samples[:3]:
            assert weight(sample) == pytest.approx(weight(P))
    np.testing.assert_array_equal(samples[3].points, dk.sampled_shape(P, 40, random_state=3).points)


def test_random_points_are_on_the_shape():
    points = dk.sampled_shape(dk.Surface(CUBE, BOX), 500, random_state=0).points
    assert np.abs(points * (points - 1)).min(axis=1).max() < 1e-12  # a coordinate is 0 or 1
    np.testing.assert_allclose(points.mean(axis=0), 0.5, atol=0.08)


def test_trimesh_meshes():
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


def test_meshio_meshes(tmp_path):
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
def test_invalid_shapes_and_sizes_raise(call, message):
    with pytest.raises(ValueError, match=message):
        call(*pairs()[0])
