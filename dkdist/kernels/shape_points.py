"""Shapes as fewer weighted points (gridded or sampled), and refinement of shapes to a tolerance of D^2."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np

from dkdist._base.parameter_checks import RandomStateLike, check_int, check_positive, draw_seed
from dkdist._base.random_streams import RngStream
from dkdist._numba.arrays import F64
from dkdist.kernels._shapes_numba import merge_cells
from dkdist.kernels.inputs import read_pair
from dkdist.kernels.shapes import MAX_PIECES, Curve, Shape, Surface

C = TypeVar("C", Curve, Surface)

MAX_CELLS_PER_SIDE = 2.0**52  # keeps cell indices exact in float64 (tests/kernel/test_shape_points.py)
# keeps the bound after refinement at most eps despite rounding errors (tests/kernel/test_shape_points.py)
LENGTH_RELATIVE_TOL = 1e-12


class ShapePoints(Shape):
    """Weighted points that approximate a curve or a surface; result of `gridded_shape` or `sampled_shape`.

    Attributes
    ----------
    points : (n, d) float64 array
    channels : (n, C) float64 array
        Signed vectors, as in `Curve` and `Surface`.
    moved : float
        Sum over segments or triangles of |channel| times the distance to their merged point; 0 for samples.

    Examples
    --------
    >>> import dkdist as dk, numpy as np
    >>> square = dk.Curve([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]], closed=True)
    >>> points = dk.sampled_shape(square, 8, random_state=0)
    >>> points.points.shape, points.channels.shape, points.moved
    ((8, 2), (8, 2), 0.0)
    """

    def __init__(self, kind: str, varifold: bool, points: F64, channels: F64, moved: float) -> None:
        self.kind, self.varifold = kind, varifold
        self.points, self.channels, self.moved = points, channels, moved


def gridded_shape(shape: Curve | Surface, side: float) -> ShapePoints:
    """Merge the segments or triangles of a shape within each cell of a grid into one point.

    Parameters
    ----------
    shape : Curve or Surface
        Shape with segments or triangles smaller than a cell.
    side : float
        Side of a cell.

    Returns
    -------
    ShapePoints
        At most one point for each cell that the shape crosses, with the sum of the vectors.

    Notes
    -----
    A point that is moved by r changes a Gaussian kernel by at most e^(-1/2) r / sigma, so D^2 of shapes of total length
    or area W changes by at most 2 e^(-1/2) W ``moved`` / sigma, and ``moved`` <= W side d^(1/2). Cost: n log n.

    Joshi, Kommaraju, Phillips, Venkatasubramanian (2011), section 6: curves and surfaces by grids.

    Examples
    --------
    >>> import numpy as np, dkdist as dk
    >>> t = np.linspace(0, 2 * np.pi, 10_001)
    >>> circle = dk.Curve(np.stack([np.cos(t), np.sin(t)], axis=1))
    >>> points = dk.gridded_shape(circle, 0.05)
    >>> len(points.points) < 250, dk.kernel_distance(circle, points, sigma=0.5) < 0.05
    (True, True)
    """
    shape = _check_shape("shape", shape)
    side, width = check_positive("side", side), float(np.ptp(shape.points, axis=0).max())
    if width >= MAX_CELLS_PER_SIDE * side:
        raise ValueError(
            f"side must be at least {width / MAX_CELLS_PER_SIDE:.3g} for a shape {width:.3g} wide; got {side:.3g}."
        )
    points, channels, distances = merge_cells(shape.points, shape.channels, side)
    result = ShapePoints(shape.kind, shape.varifold, points, channels, float((shape.sizes * distances).sum()))
    return result.with_names_of(shape)


def sampled_shape(shape: Curve | Surface, size: int, random_state: RandomStateLike = None) -> ShapePoints:
    """Sample points of a shape uniformly by length or area, each with its direction times W / size.

    Parameters
    ----------
    shape : Curve or Surface
        Shape of total length or area W.
    size : int
        Number of points.
    random_state : int, Generator or None
        Seed.

    Returns
    -------
    ShapePoints
        ``size`` points.

    Notes
    -----
    Points lie anywhere on the shape, not at midpoints: the mean of a sum over them is the integral over the shape, and
    the mean squared kernel distance between the shape and its points is (W^2 - kappa) / size, where kappa <= W^2 is the
    energy of the shape. `coreset_size` gives the size for a distance of eps W.

    Joshi, Kommaraju, Phillips, Venkatasubramanian (2011), sections 4 and 6.

    Examples
    --------
    >>> import numpy as np, dkdist as dk
    >>> line = dk.Curve([[0.0, 0.0], [1.0, 1.0]])
    >>> points = dk.sampled_shape(line, 1000, random_state=0)
    >>> points.points.shape, dk.kernel_distance(line.refined(0.01), points, sigma=0.3) < 0.05
    ((1000, 2), True)
    """
    shape, size = _check_shape("shape", shape), check_int("size", size)
    rng = np.random.default_rng([draw_seed(random_state), RngStream.SHAPE_POINTS])
    lengths = shape.sizes
    indices = rng.choice(len(lengths), size, p=lengths / lengths.sum())
    points = shape.points_of(indices, rng)
    channels = shape.channels[indices] / lengths[indices, None] * (lengths.sum() / size)
    return ShapePoints(shape.kind, shape.varifold, points, channels, 0.0).with_names_of(shape)


def shape_error_bound(P: Curve | Surface, Q: Curve | Surface, *, sigma: float) -> float:
    """Bound the error of D^2 of two shapes from replacing segments and triangles by their centres.

        |error of D^2| <= (W_P + W_Q) (M_P + M_Q) / sigma^2,   M = sum over pieces of int |x - m|^2

    W are lengths or areas, m is the centre of mass of a piece: M = l^3 / 12 for a segment, area (a^2 + b^2 + c^2) / 36
    for a triangle with edges a, b, c. First derivatives cancel at a centre of mass, and second derivatives of
    exp(-r^2 / (2 sigma^2)) are at most 1 / sigma^2. For pieces no longer than L the bound is at most
    (W L / sigma)^2 / 12, W = W_P + W_Q. Raises ValueError for shapes of different kinds or dimensions.

    Examples
    --------
    >>> import dkdist as dk
    >>> P, Q = dk.Curve([[0.0, 0.0], [1.0, 0.0]]), dk.Curve([[0.0, 1.0], [1.0, 1.0]])
    >>> round(dk.shape_error_bound(P.refined(0.1), Q.refined(0.1), sigma=1.0), 6)
    0.003333
    """
    P, Q, sigma = _check_shape("P", P), _check_shape("Q", Q), check_positive("sigma", sigma)
    read_pair(P, Q, None)
    with np.errstate(over="ignore"):
        bound = float((P.sizes.sum() + Q.sizes.sum()) / sigma * ((P.moment() + Q.moment()) / sigma))
    if not np.isfinite(bound):
        raise ValueError(
            f"sigma={sigma:.3g} is too small for these shapes: the error bound overflows. Increase it."
        )
    return bound


def refine_shapes(P: C, Q: C, *, sigma: float, eps: float = 1e-4) -> tuple[C, C]:
    """Refine two shapes until D^2 between them is within eps of its value for the integrals over the shapes.

    Parameters
    ----------
    P, Q : two Curve or two Surface
        Shapes to compare.
    sigma : float
        Standard deviation of the Gaussian kernel.
    eps : float, default=1e-4
        Allowed error of D^2, which is at most (W_P + W_Q)^2 for lengths or areas W.

    Returns
    -------
    P, Q : two Curve or two Surface
        Shapes with segments or triangles no longer than sigma (12 eps)^(1/2) / (W_P + W_Q) and `shape_error_bound` at
        most eps; unchanged if they are fine enough.

    Raises
    ------
    ValueError
        For shapes of different kinds or dimensions, and eps that needs more than 2^24 pieces, with their number.

    Examples
    --------
    >>> import numpy as np, dkdist as dk
    >>> square = np.array([[0, 0], [1, 0], [1, 1], [0, 1.0]])
    >>> P, Q = dk.Curve(square, closed=True), dk.Curve(1.1 * square, closed=True)
    >>> coarse = dk.kernel_distance(P, Q, sigma=0.3, squared=True)
    >>> P, Q = dk.refine_shapes(P, Q, sigma=0.3, eps=1e-2)
    >>> len(P.points), dk.shape_error_bound(P, Q, sigma=0.3) <= 1e-2
    (324, True)
    """
    eps = check_positive("eps", eps)
    if shape_error_bound(P, Q, sigma=sigma) <= eps:
        return P, Q
    longest = float(sigma * np.sqrt(12 * eps) / (P.sizes.sum() + Q.sizes.sum())) * (1 - LENGTH_RELATIVE_TOL)
    pieces = sum(shape.n_refined(longest) for shape in (P, Q))
    if pieces > MAX_PIECES:
        raise ValueError(
            f"eps={eps:.3g} needs about {pieces:.3g} pieces no longer than {longest:.3g} (limit {MAX_PIECES}). "
            "Increase eps (D^2 is at most the squared sum of all lengths or areas) or use sampled_shape."
        )
    return P.refined(longest), Q.refined(longest)


def _check_shape(name: str, shape: Any) -> Any:
    if not isinstance(shape, (Curve, Surface)):
        raise ValueError(f"{name} must be a Curve or a Surface; got {type(shape).__name__}.")
    return shape
