"""Kernel energies on a mesh: points are spread by B-splines, then a fast Fourier transform and a sum over frequencies.

    f_m = sum_i z_i prod_j B(x_ij / h - m_j),   F = its discrete Fourier transform (M_j cells of side h, L_j = M_j h)
    E(x, z) = sum_ij <z_i, z_j> k(x_i, x_j) ~ sum_k |F_k|^2 prod_j w_kj / b_kj^2,   b_k = (sin(pi k / M) / (pi k / M))^p

B is the cardinal B-spline of order p (p cells wide), w_k are the weights of `fourier_grid`. On the mesh, frequencies
k + q M alias to k with factors (k / (k + q M))^p. So F_k of a point is off by a factor 1 + delta, |delta| <= A_k, and
the kernel, a product over the dimensions, by at most

    |error of k| <= prod_j (1 + e_j) - 1,
    A_k = sum_(q != 0) |k / (k + q M)|^p <= 2 (k / (M - k))^p (1 + (M - k) / ((p - 1) M)),
    e_j = images of `fourier_grid` + sum_(|k| < M/2) w_k ((1 + A_k)^2 - 1) + sum_(|k| >= M/2) w_k.

The field f(x) = sum_i z_i k(x_i, x) and its gradient at every point come from one inverse transform, the splines and
their derivatives,

    f(x) ~ sum_m u_m prod_j B(x_j / h - m_j),   u = the transform of F_k prod_j w_kj / b_kj^2
    e'_j = images of k' + sum_(|k| < M/2) w_k (2 pi k / L) ((1 + A_k)(1 + A'_k) - 1) + sum_(|k| >= M/2) w_k 2 pi k / L

in units of 1 / sigma, where A' is A of order p - 1, because aliases are steeper. If all e_j and e'_j are at most
(1 + eps)^(1/d) - 1, k and sigma k' are off by at most eps.

All bounds are rigorous, all sums float64. Cost: per point p^d multiply-adds (p = 6 for 1e-5) and splines, plus
a transform of the mesh. (Particle-mesh Ewald sums: Essmann et al. 1995; Dutt, Rokhlin 1993.)
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.fft import fftn, irfftn, next_fast_len, rfft, rfftn

from dkdist._numba.arrays import F64, I64
from dkdist._numba.compilation import FINITE_FMA, inline_jit, jit
from dkdist._numba.points import column_bounds
from dkdist._numba.simd import full, fused, load, load_like, store
from dkdist._numba.weighted_points import WeightedPoints, sorted_rows, tile_rows
from dkdist.kernels._cells_numba import counting_sort

# smallest error of k; float64 rounding is slightly smaller (tests/kernel/test_certified_sums.py)
MIN_ERROR = 1e-11
ORDERS = (4, 6, 8, 10, 12, 16)
TRIAL_SIDES = np.geomspace(0.8, 0.12, 60)  # trial sides of a cell, in units of sigma
MAX_AXIS_CELLS = 2**16  # limits the time of the error bound (tests/kernel/test_kernel_bounds.py)
# on larger meshes, points are sorted by slabs of cells, which stay in the cache (python benchmarks/kernel.py growth)
MAX_CACHED_CELLS = 2**16
# numbers per batched FFT; keeps the temporary array small (tests/kernel/test_kernel_memory.py)
FFT_BATCH_NUMBERS = 2**16
# Nanoseconds on one core per point, row of cells, spline value and transformed number (python benchmarks/kernel.py
# growth). Inaccurate values cost time but do not change error bounds.
POINT_NS, ROW_NS, SPLINE_NS, TRANSFORM_NS = 50.0, 1.5, 0.15, 0.37
# Fraction of the error for images: small values need larger meshes, large values finer cells (python
# benchmarks/kernel.py fourier).
IMAGE_TOL_RATIO = 0.1
# cells per vector operation: float64 numbers in a 512-bit register (python benchmarks/kernel.py fourier)
SIMD_WIDTH = 8
MAX_ROW_CELLS = 2 * SIMD_WIDTH  # cells per row for the largest order, 16 (tests/kernel/test_mesh_field.py)
# points per tile; their splines are computed in SIMD lanes (python benchmarks/kernel.py fourier)
TILE_POINTS = 64


class Mesh(NamedTuple):
    """Cell side, mesh shape in three dimensions (1: flat), spline order, certified error of k and time."""

    side: float
    shape: tuple[int, int, int]
    order: int
    error: float
    nanoseconds: float

    @property
    def n_cells(self) -> int:
        """Number of float64 values in memory for one channel, including the transform."""
        return 2 * int(np.prod([float(n) for n in self.shape]))


def kernel_mesh(
    widths: F64, sigma: float, eps: float, n: int, *, slopes: bool = False, max_cells: float = np.inf
) -> Mesh | None:
    """Return the fastest mesh with an error of k of at most ``eps``, for n points in a box with sides ``widths``.

    The mesh has at most ``max_cells`` cells if possible. With ``slopes`` the bound holds for sigma k' too. Returns None
    for ``eps`` below 1e-11, which float64 cannot reach, for equal points, and for more than 2^16 cells per side.
    """
    wide = widths[widths > 0] / sigma
    if eps < MIN_ERROR or len(wide) == 0 or wide.max() > MAX_AXIS_CELLS * TRIAL_SIDES[0]:
        return None
    tol = float(np.expm1(np.log1p(eps) / len(wide)))
    # (L - width) / sigma at which the images are within tolerance
    gap = float(np.sqrt(2 * np.log(4 / (IMAGE_TOL_RATIO * tol))))
    gap += slopes  # derivatives of images are larger: r exp(-r^2 / 2)
    meshes = []
    for order in ORDERS:
        mesh = _mesh(wide, sigma, tol, order, gap, n, slopes)
        if mesh is not None:
            meshes.append(mesh)
    fitting = [mesh for mesh in meshes if mesh.n_cells <= 2 * max_cells]
    return min(fitting or meshes, key=lambda mesh: mesh.nanoseconds, default=None)


def _mesh(wide: F64, sigma: float, tol: float, order: int, gap: float, n: int, slopes: bool) -> Mesh | None:
    """Return the mesh with the largest admissible cells for one spline order; ``wide`` are widths in units of sigma."""
    low, high, widest = 0, len(TRIAL_SIDES) - 1, wide[[wide.argmax()]]
    while low < high:  # bisection: smaller sides have smaller errors
        middle = (low + high) // 2
        cells = _cells(widest, TRIAL_SIDES[middle], order, gap)
        is_accurate = _errors(widest, TRIAL_SIDES[middle], cells, order, slopes) <= tol
        low, high = (low, middle) if is_accurate.all() else (middle + 1, high)
    side = float(TRIAL_SIDES[low])
    cells = _cells(wide, side, order, gap)
    errors = _errors(wide, side, cells, order, slopes)
    if errors.max() > tol:
        return None
    d, total = len(wide), float(np.prod(cells.astype(np.float64)))
    rows = order ** (d - 1) * _row_cells(order) / SIMD_WIDTH
    point = POINT_NS + ROW_NS * rows + SPLINE_NS * d * order**2
    shape = [1] * (3 - d) + cells.tolist()
    error = float(np.expm1(np.log1p(errors).sum()))
    time = n * point + TRANSFORM_NS * total * np.log2(total)
    return Mesh(side * sigma, (shape[0], shape[1], shape[2]), order, error, float(time))


def _row_cells(order: int) -> int:
    return order + -order % SIMD_WIDTH


def _cells(wide: F64, side: float, order: int, gap: float) -> I64:
    """Return even numbers of cells with fast FFTs, such that all splines stay inside the mesh."""
    min_cells = np.maximum(np.ceil((wide + gap) / side), np.floor(wide / side) + _row_cells(order) + 1)
    return np.array([2 * next_fast_len(int(m + 1) // 2, real=True) for m in min_cells])


def _errors(wide: F64, side: float, cells: I64, order: int, slopes: bool) -> F64:
    """Return e_j of every dimension, or max(e_j, e'_j) with ``slopes``; infinity for too many cells."""
    if cells.max() > MAX_AXIS_CELLS:
        return np.full(1, np.inf)
    errors = np.empty(len(wide))
    for j, (width, M) in enumerate(zip(wide.tolist(), cells.tolist(), strict=True)):
        error = _error(width, side, M, order)
        errors[j] = max(error, _slope_error(width, side, M, order)) if slopes else error
    return errors


@jit()
def _error(width, side, M, order):  # type: ignore[no-untyped-def]
    """Return e of one dimension for sigma = 1; compiled, because the search evaluates dozens of meshes."""
    L = M * side
    images, aliases, tail = 0.0, 0.0, 0.0
    for q in range(1, 64):
        image = np.exp(-((q * L - width) ** 2) / 2)
        images += image + np.exp(-((q * L) ** 2) / 2)
        if image == 0.0:
            break
    for k in range(1, 4 * M):  # frequency 0 has no aliases
        w = 2 * np.sqrt(2 * np.pi) / L * np.exp(-((2 * np.pi * k / L) ** 2) / 2)
        if k >= M // 2:
            tail += w
        elif w > 0.0:
            A = 2 * (k / (M - k)) ** order * (1 + (M - k) / ((order - 1) * M))
            aliases += w * A * (2 + A)
        if w == 0.0:
            break
    return images + aliases + tail


def _slope_error(width: float, side: float, M: int, order: int) -> float:
    """Return e' of one dimension for sigma = 1."""
    L = M * side
    image_distances, period_multiples = (np.arange(1, 64) * L - x for x in (width, 0.0))
    images = float(
        (
            image_distances * np.exp(-(image_distances**2) / 2)
            + period_multiples * np.exp(-(period_multiples**2) / 2)
        ).sum()
    )
    k, k_tail = np.arange(M // 2), np.arange(M // 2, 4 * M)
    A, A_slope = _aliases(k, M, order), _aliases(k, M, order - 1)
    aliases = 2 * float(
        (2 * np.pi * k / L * _weights(k, L) * np.expm1(np.log1p(A) + np.log1p(A_slope))).sum()
    )
    return images + aliases + 2 * float((2 * np.pi * k_tail / L * _weights(k_tail, L)).sum())


def _aliases(k: I64, M: int, p: int) -> F64:
    """Return A_k for splines of order p."""
    return np.asarray(2 * (k / (M - k)) ** p * (1 + (M - k) / ((p - 1) * M)))


def _weights(k: I64, L: float) -> F64:
    return np.asarray(np.sqrt(2 * np.pi) / L * np.exp(-((2 * np.pi * k / L) ** 2) / 2))


def mesh_energy(points: WeightedPoints, sigma: float, mesh: Mesh) -> float:
    """Return E of points in the box of ``mesh``."""
    low, high = points.bounds
    axes, total = np.flatnonzero(high > low), 0.0
    rows = tile_rows(points.d, len(points)) if _is_cached(mesh) else sorted_rows(len(points))
    for channel in range(points.channels):
        f = np.zeros((*mesh.shape[:2], mesh.shape[2] + 2))  # padded for the in-place transform
        for x, z in points.tiles(rows):
            _add_to_mesh(_mesh_coordinates(x, low, axes, mesh), z[:, channel], mesh, f)
        total += _energy(_transform_in_place(f), sigma, mesh)
    return total


def spread_on_mesh(x: F64, z: F64, low: F64, axes: I64, mesh: Mesh) -> F64:
    """Return f of points (n, d) with weights z (n,); f is additive over points; ``axes`` of the box have width > 0."""
    f = np.zeros(mesh.shape)
    _add_to_mesh(_mesh_coordinates(x, low, axes, mesh), z, mesh, f)
    return f


def _add_to_mesh(coordinates: F64, z: F64, mesh: Mesh, f: F64) -> None:
    order = _cache_order(coordinates, mesh)
    if order is not None:
        coordinates, z = coordinates.take(order, axis=0), z.take(order)
    spread(coordinates, np.ascontiguousarray(z), mesh.order, f)


def energy_on_mesh(f: F64, sigma: float, mesh: Mesh) -> float:
    """Return E from the mesh f of all points."""
    return _energy(rfftn(f), sigma, mesh)


def _energy(F: Any, sigma: float, mesh: Mesh) -> float:
    factors = [_factors(M, mesh.side / sigma, mesh.order) for M in mesh.shape]
    return float(_sum(F, *factors))


def _transform_in_place(f: F64) -> Any:
    """Transform a mesh in place; the last two numbers of each line are padding."""
    lines = f.reshape(-1, f.shape[2])
    F = lines.view(np.complex128)
    step = max(1, FFT_BATCH_NUMBERS // f.shape[2])
    for first in range(0, len(lines), step):
        batch = slice(first, first + step)
        F[batch] = rfft(lines[batch, :-2])
    return fftn(F.reshape(*f.shape[:2], -1), axes=(0, 1) if f.shape[0] > 1 else (1,), overwrite_x=True)


def mesh_field(x: F64, z: F64, sigma: float, mesh: Mesh) -> tuple[F64, F64]:
    """Return (f (n,), gradients (n, d)) at points (n, d) with weights z (n,) in the box of ``mesh``."""
    slopes, (low, high) = np.zeros(x.shape), column_bounds(x)
    axes = np.flatnonzero(high > low)
    coordinates = _mesh_coordinates(x, low, axes, mesh)
    order = _cache_order(coordinates, mesh)
    coordinates = coordinates if order is None else coordinates.take(order, axis=0)
    u, out = np.zeros(mesh.shape), np.empty((len(x), 4))
    spread(coordinates, z if order is None else z.take(order), mesh.order, u)
    first, second, third = (_factors(M, mesh.side / sigma, mesh.order) for M in mesh.shape)
    F = rfftn(u)
    F *= first[:, None, None] * (second[:, None] * third[: F.shape[2]])
    gather(coordinates, mesh.order, irfftn(F, mesh.shape, overwrite_x=True, norm="forward"), out)
    unsorted = np.empty_like(out)
    unsorted[slice(None) if order is None else order] = out
    slopes[:, axes] = unsorted[:, 1:][:, np.array(mesh.shape) > 1] / mesh.side
    return unsorted[:, 0].copy(), slopes


def _mesh_coordinates(x: F64, low: F64, axes: I64, mesh: Mesh) -> F64:
    """Return coordinates (n, 3) of points in units of cells from the corner ``low``; ``axes`` have width > 0."""
    coordinates = np.zeros((len(x), 3))
    for j, axis in enumerate(axes, 3 - len(axes)):
        np.subtract(x[:, axis], low[axis], out=coordinates[:, j])
        coordinates[:, j] /= mesh.side
    return coordinates


def _cache_order(coordinates: F64, mesh: Mesh) -> I64 | None:
    """Return the order of points by slabs of the mesh, or None if the mesh fits in the cache."""
    if _is_cached(mesh):
        return None
    first = int(np.argmax(np.array(mesh.shape) > 1))
    order: I64 = counting_sort(coordinates[:, first].astype(np.int64), mesh.shape[first])
    return order


def _is_cached(mesh: Mesh) -> bool:
    return bool(np.prod(mesh.shape) <= MAX_CACHED_CELLS)


def _factors(M: int, side: float, p: int) -> F64:
    """Return w_k / b_k^2 in the order of the transform; 0 at M / 2."""
    if M == 1:
        return np.ones(1)
    k = np.arange(M // 2)
    half = _weights(k, M * side) / np.sinc(k / M) ** (2 * p)
    return np.concatenate([half, [0.0], half[:0:-1]])


@jit(FINITE_FMA)
def _sum(F, first, second, third):  # type: ignore[no-untyped-def]
    """Sum |F_k|^2 times factors over all frequencies; a real transform omits those with k_3 < 0."""
    total = 0.0
    for a in range(F.shape[0]):
        for b in range(F.shape[1]):
            line = 0.0
            for c in range(F.shape[2]):
                v = F[a, b, c]
                line += (2.0 if c > 0 else 1.0) * third[c] * (v.real * v.real + v.imag * v.imag)
            total += first[a] * second[b] * line
    return total


@inline_jit(FINITE_FMA)
def _splines(u, p, B):  # type: ignore[no-untyped-def]
    """Set B[a, i] to the B-spline of order p at u_i + p - 1 - a, the weight of cell a, for u in [0, 1)."""
    for i in range(TILE_POINTS):
        B[0, i] = 1.0
    _raise_orders(u, 2, p, B)


@inline_jit(FINITE_FMA)
def _raise_orders(u, first, p, B):  # type: ignore[no-untyped-def]
    """Raise the order of the splines B from ``first`` - 1 to p."""
    for r in range(first, p + 1):
        inverse = 1.0 / (r - 1)
        for i in range(TILE_POINTS):
            B[r - 1, i] = B[r - 2, i] * u[i] * inverse
        for a in range(r - 2, 0, -1):
            for i in range(TILE_POINTS):
                B[a, i] = ((u[i] + (r - 1 - a)) * B[a - 1, i] + ((a + 1) - u[i]) * B[a, i]) * inverse
        for i in range(TILE_POINTS):
            B[0, i] *= (1.0 - u[i]) * inverse


@inline_jit(FINITE_FMA)
def _within_cells(coordinates, first, m, j, u):  # type: ignore[no-untyped-def]
    """Set u[i] to the position of point ``first`` + i within its cell, along axis j."""
    for i in range(m):
        x = coordinates[first + i, j]
        u[i] = x - np.floor(x)


@inline_jit(FINITE_FMA)
def _corner(coordinates, point, n1, n2):  # type: ignore[no-untyped-def]
    """Return the flat index of the first cell in the support of a point's splines."""
    return (int(coordinates[point, 0]) * n1 + int(coordinates[point, 1])) * n2 + int(coordinates[point, 2])


@jit(FINITE_FMA)
def spread(coordinates, z, p, f):  # type: ignore[no-untyped-def]
    """Add z_i times the product of the splines of three dimensions to f; axes without width have one cell."""
    n0, n1, n2 = f.shape
    row = p + (-p) % SIMD_WIDTH
    g, u, line = np.zeros((3, MAX_ROW_CELLS, TILE_POINTS)), np.zeros(TILE_POINTS), np.zeros(MAX_ROW_CELLS)
    g[0, 0], g[1, 0] = 1.0, 1.0
    n_first, n_second = (p if n0 > 1 else 1), (p if n1 > 1 else 1)
    cells = f.reshape(-1)
    for first in range(0, len(coordinates), TILE_POINTS):
        m = min(TILE_POINTS, len(coordinates) - first)
        for j in range(3):
            if j == 2 or (n0 > 1 if j == 0 else n1 > 1):
                _within_cells(coordinates, first, m, j, u)
                _splines(u, p, g[j])
        for i in range(m):
            point = first + i
            corner = _corner(coordinates, point, n1, n2)
            for a in range(len(line)):
                line[a] = g[2, a, i]
            if row == SIMD_WIDTH:
                _add_rows(
                    cells, corner, n1, n2, z[point], g, n_first, n_second, i, load(line, 0, 0, 1, SIMD_WIDTH)
                )
            else:
                _add_rows(
                    cells,
                    corner,
                    n1,
                    n2,
                    z[point],
                    g,
                    n_first,
                    n_second,
                    i,
                    load(line, 0, 0, 1, MAX_ROW_CELLS),
                )


@inline_jit(FINITE_FMA)
def _add_rows(cells, corner, n1, n2, z, g, n_first, n_second, i, row):  # type: ignore[no-untyped-def]
    """Add point i of a tile to the cells in the support of its splines."""
    for a in range(n_first):
        w = z * g[0, a, i]
        for b in range(n_second):
            first_cell = corner + (a * n1 + b) * n2
            store(fused(row, w * g[1, b, i], load_like(row, cells, first_cell, 0)), cells, first_cell, 0)


@inline_jit(FINITE_FMA)
def _splines_and_slopes(u, p, B, S):  # type: ignore[no-untyped-def]
    """Fill B like `_splines`, and S[a, i] with its derivative by u_i, the difference of splines of order p - 1."""
    _splines(u, p - 1, B)
    for i in range(TILE_POINTS):
        S[0, i] = -B[0, i]
        S[p - 1, i] = B[p - 2, i]
    for a in range(1, p - 1):
        for i in range(TILE_POINTS):
            S[a, i] = B[a - 1, i] - B[a, i]
    _raise_orders(u, p, p, B)


@jit(FINITE_FMA)
def gather(coordinates, p, f, out):  # type: ignore[no-untyped-def]
    """Set out[i] to the field at point i and its three derivatives, summed over the same cells as in `spread`."""
    n0, n1, n2 = f.shape
    row = p + (-p) % SIMD_WIDTH
    g, s = np.zeros((3, MAX_ROW_CELLS, TILE_POINTS)), np.zeros((3, MAX_ROW_CELLS, TILE_POINTS))
    u, sums = np.zeros(TILE_POINTS), np.zeros((3, MAX_ROW_CELLS))
    g[0, 0], g[1, 0] = 1.0, 1.0
    n_first, n_second = (p if n0 > 1 else 1), (p if n1 > 1 else 1)
    cells = f.reshape(-1)
    for first in range(0, len(coordinates), TILE_POINTS):
        m = min(TILE_POINTS, len(coordinates) - first)
        for j in range(3):
            if j == 2 or (n0 > 1 if j == 0 else n1 > 1):
                _within_cells(coordinates, first, m, j, u)
                _splines_and_slopes(u, p, g[j], s[j])
        for i in range(m):
            corner = _corner(coordinates, first + i, n1, n2)
            if row == SIMD_WIDTH:
                _sum_rows(cells, corner, n1, n2, g, s, n_first, n_second, i, sums, full(0.0, 1, SIMD_WIDTH))
            else:
                _sum_rows(
                    cells, corner, n1, n2, g, s, n_first, n_second, i, sums, full(0.0, 1, MAX_ROW_CELLS)
                )
            value = by_first = by_second = by_third = 0.0
            for n in range(p):
                value += sums[0, n] * g[2, n, i]
                by_first += sums[1, n] * g[2, n, i]
                by_second += sums[2, n] * g[2, n, i]
                by_third += sums[0, n] * s[2, n, i]
            point = first + i
            out[point, 0], out[point, 1], out[point, 2], out[point, 3] = value, by_first, by_second, by_third


@inline_jit(FINITE_FMA)
def _sum_rows(cells, corner, n1, n2, g, s, n_first, n_second, i, sums, zero):  # type: ignore[no-untyped-def]
    """Sum the cells in the support of point i of a tile, weighted by its splines and by two derivatives."""
    value, by_first, by_second = zero, zero, zero
    for a in range(n_first):
        for b in range(n_second):
            first_cell = corner + (a * n1 + b) * n2
            row = load_like(zero, cells, first_cell, 0)
            value = fused(row, g[0, a, i] * g[1, b, i], value)
            by_first = fused(row, s[0, a, i] * g[1, b, i], by_first)
            by_second = fused(row, g[0, a, i] * s[1, b, i], by_second)
    store(value, sums, 0, 0)
    store(by_first, sums, MAX_ROW_CELLS, 0)
    store(by_second, sums, 2 * MAX_ROW_CELLS, 0)
