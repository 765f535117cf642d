"""`Curve` and `Surface`: shapes whose kernel distance is that of currents or varifolds."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from dkdist._base.parameter_checks import positive
from dkdist._numba.arrays import F64, I64
from dkdist._numba.points import column_bounds
from dkdist._utils.validation import check_bool, dimension_names
from dkdist.kernels import _shapes_numba as loops

MIN_WIDTH, MAX_WIDTH = 1e-70, 1e70  # width of a shape: its fourth power, the square of an area, is a float
MIN_AREA_RATIO = 1e-13  # of the square of a triangle's longest edge
MAX_PIECES, MAX_HALVINGS = 2**24, 100


class Shape:
    """What curves and surfaces have in common: ``points`` (n, d) with signed ``channels`` (n, C)."""

    kind: str
    points: F64
    channels: F64
    varifold: bool
    names: list[Any] | None = None  # of the coordinates, if the vertices came as a data frame

    def with_names_of(self, other: Shape) -> Self:
        """Itself, with the coordinate names of another shape."""
        self.names = other.names
        return self

    @property
    def sizes(self) -> F64:
        """Lengths of the channels: those of segments, areas of triangles."""
        return np.asarray(np.sqrt((self.channels**2).sum(axis=1)))


class Curve(Shape):
    """A polygonal curve as a current: middles of its segments, with their edge vectors as weights.

    Parameters
    ----------
    vertices : (n, d) array, n >= 2
        Corners in order. A curve whose last corner is its first one is closed.
    closed : bool, default=False
        Add the segment from the last corner to the first one.
    varifold : bool, default=False
        Forget the direction in which segments run.

    Attributes
    ----------
    vertices : (n, d) float64 array
        The corners; of a closed curve the first one again at the end.
    points : (n - 1, d) float64 array
        Middles of the segments.
    channels : (n - 1, C) float64 array
        What `kernel_distance` weights them with: edge vectors, C = d; for varifolds v v^T / |v|, C = d (d + 1) / 2.

    Raises
    ------
    ValueError
        Naming the vertex or segment: a wrong shape, NaN or infinity, fewer than two corners, a segment of length 0; and
        for a curve less than 1e-70 or more than 1e70 wide.

    Notes
    -----
    Weights are lengths, not shares: the curve's energy kappa(c, c) tends to length^2 as sigma grows, for a straight
    one. As a current a reversed curve is the negative one, so that D^2(c, c.reversed()) = 4 kappa(c, c), and pieces
    that run back and forth cancel; as a varifold it is the same curve. A segment of length l stands for its middle,
    which changes the kernel by at most (l / sigma)^2 / 24 on average: use `refine_shapes` for a tolerance.

    References
    ----------
    Joshi, Kommaraju, Phillips, Venkatasubramanian: Comparing distributions and shapes using the kernel distance (2011);
    the sign of the vectors is kept. Glaunes, Qiu, Miller, Younes: Large deformation diffeomorphic metric curve mapping
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
        given, self.names = _check_vertices(vertices, 2, "a curve"), dimension_names(vertices)
        self.vertices = np.concatenate([given, given[:1]]) if closed else given
        self.varifold = varifold
        self.points, edges = loops.segments(self.vertices)
        length = np.abs(edges).max(axis=1)
        if (length == 0).any():
            i = int(np.argmin(length))
            raise ValueError(
                f"segment {i} has length 0: vertices {i} and {(i + 1) % len(given)} are equal. Drop one of them"
            )
        self.channels = _channels(edges, varifold)

    def reversed(self) -> Curve:
        """The same curve run through in the other direction: as a current the negative one."""
        return Curve(self.vertices[::-1], varifold=self.varifold).with_names_of(self)

    def refined(self, longest: float) -> Curve:
        """The same curve with every segment cut into equal parts that are no longer than ``longest``.

        ValueError for more than 2^24 of them.
        """
        finer = loops.split_segments(self.vertices, _check_longest(self, longest))
        return Curve(finer, varifold=self.varifold).with_names_of(self)

    def n_refined(self, longest: float) -> float:
        """Of how many segments, at most, the refined curve is."""
        length = np.sqrt((np.diff(self.vertices, axis=0) ** 2).sum(axis=1)).sum()
        return float(len(self.points) + length / longest)

    def moment(self) -> float:
        """The sum over segments of the integral of |x - middle|^2."""
        return float(loops.segment_moments(self.vertices).sum())

    def points_of(self, which: I64, rng: np.random.Generator) -> F64:
        """A random point of each of the segments ``which``."""
        return loops.points_on_segments(self.vertices, which, rng.random((len(which), 1)))


class Surface(Shape):
    """A triangulated surface as a current: centroids of its triangles, with half their cross products as weights.

    Parameters
    ----------
    vertices : (n, 3) array, or a mesh
        Corners. A mesh is anything with ``vertices`` and ``faces`` (trimesh), or ``points`` and ``cells`` (meshio).
    faces : (m, 3) integer array
        The corners of each triangle, all in the same sense of rotation; not for a mesh, which has its own.
    varifold : bool, default=False
        Forget which side of the surface is outside: the way out for meshes that cannot be oriented.

    Attributes
    ----------
    vertices, faces : (n, 3) float64 and (m, 3) int64 arrays
        As given.
    points : (m, 3) float64 array
        Centroids.
    channels : (m, C) float64 array
        Normals v as long as the triangles' areas, C = 3; for varifolds v v^T / |v|, C = 6.

    Raises
    ------
    ValueError
        Naming the vertex or triangle: wrong shapes, NaN or infinity, corners that do not exist, a triangle without
        area, two triangles that run along their edge in the same direction (unless ``varifold``), a mesh with cells
        other than triangles.

    Notes
    -----
    As for `Curve`, with areas in place of lengths, and the longest edge of a triangle in `refined`.

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
        self.vertices, self.names = _check_vertices(vertices, 3, "a surface"), dimension_names(vertices)
        if self.vertices.shape[1] != 3:
            raise ValueError(f"a surface lies in 3 dimensions; found vertices of {self.vertices.shape[1]}")
        self.faces, self.varifold = _check_faces(faces, len(self.vertices)), varifold
        self.points, normals = loops.triangles(self.vertices, self.faces)
        _require_area(self.vertices, self.faces, normals)
        clash = None if varifold else loops.find_inconsistent_edge(self.faces)
        if clash:
            raise ValueError(
                f"triangles {clash[0]} and {clash[1]} run along an edge in the same direction: the mesh is not "
                "oriented consistently, or more than two triangles meet there. Turn one of them round, or use "
                "varifold=True, which needs no orientation"
            )
        self.channels = _channels(normals, varifold)

    def reversed(self) -> Surface:
        """The same surface with the other side outside: as a current the negative one."""
        return Surface(self.vertices, self.faces[:, ::-1], self.varifold).with_names_of(self)

    def refined(self, longest: float) -> Surface:
        """The same surface with triangles cut into four until no edge is longer than ``longest``.

        ValueError for more than 2^24 of them.
        """
        finer = loops.split_triangles(self.vertices, self.faces, _check_longest(self, longest))
        return Surface(*finer, self.varifold).with_names_of(self)

    def n_refined(self, longest: float) -> float:
        """Of how many triangles, at most, the refined surface is: longest edges are halved again and again."""
        corners = self.vertices[self.faces]
        edges = np.sqrt(((corners - np.roll(corners, -1, axis=1)) ** 2).sum(axis=2)).max(axis=1)
        halvings = np.minimum(np.ceil(np.log2(np.maximum(edges / longest, 1))), MAX_HALVINGS)
        return float((4.0**halvings).sum())

    def moment(self) -> float:
        """The sum over triangles of the integral of |x - centroid|^2."""
        return float(loops.triangle_moments(self.vertices, self.faces).sum())

    def points_of(self, which: I64, rng: np.random.Generator) -> F64:
        """A random point of each of the triangles ``which``."""
        return loops.points_on_triangles(self.vertices, self.faces, which, rng.random((len(which), 2)))


def _check_longest(shape: Curve | Surface, value: float) -> float:
    longest = positive("longest", value)
    pieces = shape.n_refined(longest)
    if pieces > MAX_PIECES:
        raise ValueError(
            f"longest={longest:.3g} would take some {pieces:.3g} pieces, more than {MAX_PIECES}: "
            "give a larger one, or use sampled_shape"
        )
    return longest


def is_mesh(value: Any) -> bool:
    """Whether a value looks like a mesh of trimesh or meshio."""
    return (hasattr(value, "vertices") and hasattr(value, "faces")) or (
        hasattr(value, "points") and hasattr(value, "cells")
    )


def _mesh_arrays(mesh: Any) -> tuple[Any, Any]:
    if not is_mesh(mesh):
        raise ValueError("faces are missing: give Surface(vertices, faces), or one trimesh or meshio mesh")
    if hasattr(mesh, "faces"):
        return mesh.vertices, mesh.faces
    found = sorted({str(block.type) for block in mesh.cells})
    if found != ["triangle"]:
        raise ValueError(f"the cells of a mesh must be triangles; found {', '.join(found) or 'none'}")
    return mesh.points, np.concatenate([block.data for block in mesh.cells])


def _check_vertices(vertices: ArrayLike, least: int, what: str) -> F64:
    try:
        array = np.asarray(vertices)
    except ValueError as error:
        raise ValueError(
            f"{what} cannot be made of these vertices ({error}): give rows of equal length"
        ) from error
    if array.dtype.kind not in "fiu" or array.ndim != 2 or array.shape[1] == 0 or len(array) < least:
        raise ValueError(
            f"{what} needs an array (n, d) of real vertices with n >= {least}; found {array.dtype} of shape "
            f"{array.shape}"
        )
    finite = np.isfinite(array).all(axis=1)
    if not finite.all():
        i = int(np.argmin(finite))
        raise ValueError(f"vertex {i} is {array[i].tolist()}: every coordinate must be finite")
    given = array.astype(np.float64)
    low, high = column_bounds(given)
    width = 2 * float((high / 2 - low / 2).max())
    if width != 0 and not MIN_WIDTH <= width <= MAX_WIDTH:
        raise ValueError(
            f"{what} is {width:.3g} wide, beyond {MIN_WIDTH:g} to {MAX_WIDTH:g}: give its vertices in other units"
        )
    return given


def _check_faces(faces: ArrayLike, n_vertices: int) -> I64:
    array = np.asarray(faces)
    if array.dtype.kind not in "iu" or array.ndim != 2 or array.shape[1] != 3 or len(array) == 0:
        raise ValueError(
            f"faces must be an integer array (m, 3) with m >= 1; found {array.dtype} of shape {array.shape}"
        )
    wrong = ((array < 0) | (array >= n_vertices)).any(axis=1)
    if wrong.any():
        i = int(np.argmax(wrong))
        raise ValueError(
            f"triangle {i} has the corners {array[i].tolist()}, but there are {n_vertices} vertices: count from 0"
        )
    return array.astype(np.int64)


def _require_area(vertices: F64, faces: I64, normals: F64) -> None:
    edges = vertices[faces] - vertices[np.roll(faces, -1, axis=1)]
    flat = np.sqrt((normals**2).sum(axis=1)) <= MIN_AREA_RATIO * (edges**2).sum(axis=2).max(axis=1)
    if flat.any():
        i = int(np.argmax(flat))
        raise ValueError(
            f"triangle {i} has no area: its corners {faces[i].tolist()} lie on a line. Drop it, or merge equal vertices"
        )


def _channels(v: F64, unoriented: bool) -> F64:
    return loops.varifold(v) if unoriented else v
