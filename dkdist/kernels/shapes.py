"""`Curve` and `Surface`: shapes that `kernel_distance` compares as currents or varifolds."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from dkdist._base.parameter_checks import check_positive
from dkdist._numba.arrays import F64, I64
from dkdist._numba.points import column_bounds
from dkdist._utils.validation import check_bool, dimension_names
from dkdist.kernels import _shapes_numba as shape_functions

# keeps squared areas within the range of float64 (tests/kernel/test_shapes.py)
MIN_WIDTH, MAX_WIDTH = 1e-70, 1e70
# area / squared longest edge; smaller areas are rounding errors (tests/kernel/test_shapes.py)
MIN_AREA_RATIO = 1e-13
MAX_PIECES = 2**24  # limits memory; 384 MiB of points in three dimensions (tests/kernel/test_shapes.py)
MAX_HALVINGS = 100  # keeps the estimated number of pieces finite (tests/kernel/test_shapes.py)


class Shape:
    """Base class of curves and surfaces: ``points`` (n, d) with signed ``channels`` (n, C)."""

    kind: str
    points: F64
    channels: F64
    varifold: bool
    names: list[Any] | None = None  # names of the coordinates, if the vertices were a data frame

    def with_names_of(self, other: Shape) -> Self:
        """Copy the coordinate names of another shape and return self."""
        self.names = other.names
        return self

    @property
    def sizes(self) -> F64:
        """Norms of the channels: lengths of segments, areas of triangles."""
        return np.asarray(np.sqrt((self.channels**2).sum(axis=1)))


class Curve(Shape):
    """Polygonal curve as a current: midpoints of its segments, weighted by their edge vectors.

    Parameters
    ----------
    vertices : (n, d) array, n >= 2
        Vertices in order. The curve is closed if the last vertex equals the first.
    closed : bool, default=False
        Add the segment from the last vertex to the first.
    varifold : bool, default=False
        Ignore the direction of segments.

    Attributes
    ----------
    vertices : (n, d) float64 array
        Vertices; a closed curve repeats the first at the end.
    points : (n - 1, d) float64 array
        Midpoints of the segments.
    channels : (n - 1, C) float64 array
        Weights in `kernel_distance`: edge vectors v, C = d; for varifolds v v^T / |v|, C = d (d + 1) / 2.

    Raises
    ------
    ValueError
        For a wrong shape, NaN or infinity (with the vertex), fewer than two vertices, a segment of length 0, and a
        curve narrower than 1e-70 or wider than 1e70.

    Notes
    -----
    Weights are lengths and not normalised: the energy kappa(c, c) of a straight curve tends to length^2 as sigma grows.
    As a current a reversed curve is the negative one, so D^2(c, c.reversed()) = 4 kappa(c, c), and pieces that run back
    and forth cancel; as a varifold it is the same curve. Replacing a segment of length l by its midpoint changes the
    kernel by at most (l / sigma)^2 / 24 on average; use `refine_shapes` for a tolerance.

    References
    ----------
    Joshi, Kommaraju, Phillips, Venkatasubramanian: Comparing distributions and shapes using the kernel distance (2011);
    here the vectors keep their sign. Glaunes, Qiu, Miller, Younes: Large deformation diffeomorphic metric curve mapping
    (2008).

    Examples
    --------
    >>> import numpy as np, dkdist as dk
    >>> t = np.linspace(0, 2 * np.pi, 201)
    >>> circle = dk.Curve(np.stack([np.cos(t), np.sin(t)], axis=1))
    >>> larger = dk.Curve(1.1 * circle.vertices)
    >>> round(dk.kernel_distance(circle, larger, sigma=0.5), 3)
    0.558
    >>> round(dk.kernel_distance(circle, larger.reversed(), sigma=0.5), 3)
    5.447
    """

    kind = "Curve"

    def __init__(self, vertices: ArrayLike, closed: bool = False, varifold: bool = False) -> None:
        closed, varifold = check_bool("closed", closed), check_bool("varifold", varifold)
        checked, self.names = _check_vertices(vertices, 2, "curve"), dimension_names(vertices)
        self.vertices = np.concatenate([checked, checked[:1]]) if closed else checked
        self.varifold = varifold
        self.points, edges = shape_functions.segments(self.vertices)
        length = np.abs(edges).max(axis=1)
        if (length == 0).any():
            i = int(np.argmin(length))
            raise ValueError(
                f"segments must have positive length; vertices {i} and {(i + 1) % len(checked)} are equal. Drop one."
            )
        self.channels = _channels(edges, varifold)

    def reversed(self) -> Curve:
        """Return the curve in the opposite direction; as a current it is the negative curve."""
        return Curve(self.vertices[::-1], varifold=self.varifold).with_names_of(self)

    def refined(self, longest: float) -> Curve:
        """Return the curve with every segment split into equal parts no longer than ``longest``.

        Raises ValueError for more than 2^24 segments.
        """
        finer = shape_functions.split_segments(self.vertices, _check_longest(self, longest))
        return Curve(finer, varifold=self.varifold).with_names_of(self)

    def n_refined(self, longest: float) -> float:
        """Return an upper bound on the number of segments of the refined curve."""
        length = np.sqrt((np.diff(self.vertices, axis=0) ** 2).sum(axis=1)).sum()
        return float(len(self.points) + length / longest)

    def moment(self) -> float:
        """Return the sum over segments of the integral of |x - midpoint|^2."""
        return float(shape_functions.segment_moments(self.vertices).sum())

    def points_of(self, which: I64, rng: np.random.Generator) -> F64:
        """Return a random point on each of the segments ``which``."""
        return shape_functions.points_on_segments(self.vertices, which, rng.random((len(which), 1)))


class Surface(Shape):
    """Triangulated surface as a current: centroids of its triangles, weighted by half their cross products.

    Parameters
    ----------
    vertices : (n, 3) array, or a mesh
        Vertices. A mesh is an object with ``vertices`` and ``faces`` (trimesh), or ``points`` and ``cells`` (meshio).
    faces : (m, 3) integer array
        Vertex indices of each triangle, consistently oriented; omit for a mesh.
    varifold : bool, default=False
        Ignore the orientation of triangles; for meshes that cannot be oriented.

    Attributes
    ----------
    vertices, faces : (n, 3) float64 and (m, 3) int64 arrays
        Vertices and triangles.
    points : (m, 3) float64 array
        Centroids.
    channels : (m, C) float64 array
        Normals v with the areas as norms, C = 3; for varifolds v v^T / |v|, C = 6.

    Raises
    ------
    ValueError
        For wrong shapes, NaN or infinity, indices of missing vertices, a triangle without area, adjacent triangles with
        inconsistent orientation (unless ``varifold``), and a mesh with cells other than triangles; with the vertex or
        triangle.

    Notes
    -----
    As for `Curve`, with areas instead of lengths, and the longest edge of a triangle in `refined`.

    References
    ----------
    Joshi, Kommaraju, Phillips, Venkatasubramanian: Comparing distributions and shapes using the kernel distance (2011).
    Vaillant, Glaunes: Surface matching via currents (2005). Charon, Trouve: The varifold representation of nonoriented
    shapes (2013).

    Examples
    --------
    >>> import numpy as np, dkdist as dk
    >>> corners = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1.0]])
    >>> tetrahedron = dk.Surface(corners, [[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]])
    >>> round(dk.kernel_distance(tetrahedron, dk.Surface(corners * 1.2, tetrahedron.faces), sigma=0.5), 3)
    0.407
    >>> len(tetrahedron.refined(0.4).faces)
    64
    """

    kind = "Surface"

    def __init__(self, vertices: Any, faces: ArrayLike | None = None, varifold: bool = False) -> None:
        varifold = check_bool("varifold", varifold)
        if faces is None:
            vertices, faces = _mesh_arrays(vertices)
        self.vertices, self.names = _check_vertices(vertices, 3, "surface"), dimension_names(vertices)
        if self.vertices.shape[1] != 3:
            raise ValueError(f"vertices of a surface must have 3 dimensions; got {self.vertices.shape[1]}.")
        self.faces, self.varifold = _check_faces(faces, len(self.vertices)), varifold
        self.points, normals = shape_functions.triangles(self.vertices, self.faces)
        _require_area(self.vertices, self.faces, normals)
        clash = None if varifold else shape_functions.find_inconsistent_edge(self.faces)
        if clash:
            raise ValueError(
                f"faces must be consistently oriented; triangles {clash[0]} and {clash[1]} run along an edge in the "
                "same direction. Reverse one of them, or pass varifold=True if more than two triangles share an edge."
            )
        self.channels = _channels(normals, varifold)

    def reversed(self) -> Surface:
        """Return the surface with reversed orientation; as a current it is the negative surface."""
        return Surface(self.vertices, self.faces[:, ::-1], self.varifold).with_names_of(self)

    def refined(self, longest: float) -> Surface:
        """Return the surface with triangles split into four until no edge is longer than ``longest``.

        Raises ValueError for more than 2^24 triangles.
        """
        finer = shape_functions.split_triangles(self.vertices, self.faces, _check_longest(self, longest))
        return Surface(*finer, self.varifold).with_names_of(self)

    def n_refined(self, longest: float) -> float:
        """Return an upper bound on the number of triangles of the refined surface."""
        corners = self.vertices[self.faces]
        edges = np.sqrt(((corners - np.roll(corners, -1, axis=1)) ** 2).sum(axis=2)).max(axis=1)
        halvings = np.minimum(np.ceil(np.log2(np.maximum(edges / longest, 1))), MAX_HALVINGS)
        return float((4.0**halvings).sum())

    def moment(self) -> float:
        """Return the sum over triangles of the integral of |x - centroid|^2."""
        return float(shape_functions.triangle_moments(self.vertices, self.faces).sum())

    def points_of(self, which: I64, rng: np.random.Generator) -> F64:
        """Return a random point on each of the triangles ``which``."""
        return shape_functions.points_on_triangles(
            self.vertices, self.faces, which, rng.random((len(which), 2))
        )


def _check_longest(shape: Curve | Surface, value: float) -> float:
    longest = check_positive("longest", value)
    pieces = shape.n_refined(longest)
    if pieces > MAX_PIECES:
        raise ValueError(
            f"longest={longest:.3g} needs about {pieces:.3g} pieces (limit {MAX_PIECES}). Increase it or use "
            "sampled_shape."
        )
    return longest


def is_mesh(value: Any) -> bool:
    """Return whether a value has the attributes of a mesh of trimesh or meshio."""
    return (hasattr(value, "vertices") and hasattr(value, "faces")) or (
        hasattr(value, "points") and hasattr(value, "cells")
    )


def _mesh_arrays(mesh: Any) -> tuple[Any, Any]:
    if not is_mesh(mesh):
        raise ValueError(
            "faces are required without a mesh. Pass Surface(vertices, faces), or a trimesh or meshio mesh."
        )
    if hasattr(mesh, "faces"):
        return mesh.vertices, mesh.faces
    cell_types = sorted({str(block.type) for block in mesh.cells})
    if cell_types != ["triangle"]:
        raise ValueError(f"cells of a mesh must be triangles; got {', '.join(cell_types) or 'none'}.")
    return mesh.points, np.concatenate([block.data for block in mesh.cells])


def _check_vertices(vertices: ArrayLike, min_vertices: int, shape: str) -> F64:
    try:
        array = np.asarray(vertices)
    except ValueError as error:
        raise ValueError(
            f"vertices of a {shape} must be rows of equal length; got the NumPy error: {error}."
        ) from error
    if array.dtype.kind not in "fiu" or array.ndim != 2 or array.shape[1] == 0 or len(array) < min_vertices:
        raise ValueError(
            f"vertices of a {shape} must be real numbers (n, d) with n >= {min_vertices}; got {array.dtype} of shape "
            f"{array.shape}."
        )
    finite = np.isfinite(array).all(axis=1)
    if not finite.all():
        i = int(np.argmin(finite))
        raise ValueError(f"vertices must be finite; got {array[i].tolist()} at vertex {i}.")
    checked = array.astype(np.float64)
    low, high = column_bounds(checked)
    width = 2 * float((high / 2 - low / 2).max())
    if width != 0 and not MIN_WIDTH <= width <= MAX_WIDTH:
        raise ValueError(
            f"width of a {shape} must be from {MIN_WIDTH:g} to {MAX_WIDTH:g}; got {width:.3g}. Rescale the vertices."
        )
    return checked


def _check_faces(faces: ArrayLike, n_vertices: int) -> I64:
    array = np.asarray(faces)
    if array.dtype.kind not in "iu" or array.ndim != 2 or array.shape[1] != 3 or len(array) == 0:
        raise ValueError(
            f"faces must be an integer array (m, 3) with m >= 1; got {array.dtype} of shape {array.shape}."
        )
    wrong = ((array < 0) | (array >= n_vertices)).any(axis=1)
    if wrong.any():
        i = int(np.argmax(wrong))
        raise ValueError(
            f"faces must be indices from 0 to {n_vertices - 1}; got {array[i].tolist()} for triangle {i}."
        )
    return array.astype(np.int64)


def _require_area(vertices: F64, faces: I64, normals: F64) -> None:
    edges = vertices[faces] - vertices[np.roll(faces, -1, axis=1)]
    flat = np.sqrt((normals**2).sum(axis=1)) <= MIN_AREA_RATIO * (edges**2).sum(axis=2).max(axis=1)
    if flat.any():
        i = int(np.argmax(flat))
        raise ValueError(
            f"triangles must have positive area; the vertices {faces[i].tolist()} of triangle {i} lie on a line. Drop "
            "it or merge equal vertices."
        )


def _channels(v: F64, unoriented: bool) -> F64:
    return shape_functions.varifold(v) if unoriented else v
