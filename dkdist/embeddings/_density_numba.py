"""Compiled functions that map points to rows: cosine coefficients, densities at nodes, homogeneous features.

Sums over points x in [0,1]^d with weights u of sum 1, d = 1, 2 or 3 (`tensor_sums`):

    C_a = sum_i u_i prod_j cos(pi a_j x_ij),             a_j = 0 .. K_j - 1
    p_k = sum_i u_i prod_j G_(k_j)(x_ij),    G_k(x) = sum_(a < K) g_a cos(pi a x_k) cos(pi a x),   x_k = (k + 1/2) / q

C does not depend on the bandwidth h. With g_0 = 1 and g_a = 2 exp(-(pi a h)^2 / 2), p is the Gaussian density estimate
reflected at the boundary, which integrates to one; truncated series are slightly negative in places, and callers clip
them. For a single bandwidth, computing p directly from the points needs q^d instead of K^d sums.

Cosines follow from the Chebyshev recurrence T_(a+1) = 2 cos(pi x) T_a - T_(a-1), 16 points at a time. Midpoints fold
degrees, cos(pi (2 q - a) x_k) = -cos(pi a x_k), and nodes k and q - 1 - k share sums over even and odd degrees.
Eight sums are accumulated in registers: four functions of the last dimension times two products of the others.

Points are processed in float32 tiles of 256. The recurrence amplifies the rounding of a cosine close to +-1: a single
point near the boundary has errors of up to 4e-5 at 16 degrees and 1e-2 at 256 degrees, the mean of 200 points about 100
times less. The order of each sum depends only on the number of points of the set, not on blocks or threads.

`term_coefficients` computes listed terms in any dimension, with one multiplication and addition per term and point.
`homogeneous_features` maps densities to rows whose squared distances are homogeneous divergences,

    d^2(p, q) = int kappa(p(x), q(x)) dx ~ sum_k v_k sum_j w_j |p(x_k)^(1/2 + i l_j) - q(x_k)^(1/2 + i l_j)|^2

with columns sqrt(v_k w_j) p(x_k)^(1/2) (cos, sin)(l_j log p(x_k)): nodes k vary fastest, then cosine and sine, then
frequencies j. A zero frequency has a cosine part only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dkdist._numba.arrays import F32, F64, I64
from dkdist._numba.compilation import FINITE_FMA, FINITE_REASSOC, inline_jit, jit
from dkdist._numba.elementary import cospi, f32, log, maximum, minimum, sincospi
from dkdist._numba.points import TILE_POINTS, cache_lines, fill_fractions, read_only, set_arrays, total_weight
from dkdist._numba.simd import (
    HAS_AVX512,
    add_outer,
    fused,
    fused_minus,
    load,
    minus,
    ones,
    plus,
    spread,
    store,
    times,
    totals,
    zeros,
)

# Register blocking: larger values keep more sums in registers, until registers spill. No measurement of these values is
# recorded; `python benchmarks/roofline.py embed` measures the speed of embeddings.
POINTS_PER_VECTOR = 16
POINTS_PER_STEP = 2 * POINTS_PER_VECTOR  # speed: python benchmarks/roofline.py embed
TILE_ROWS, TILE_COLUMNS = 4, 2  # speed: python benchmarks/roofline.py embed
TILE_SUMS = TILE_ROWS * TILE_COLUMNS  # speed: python benchmarks/roofline.py embed
# Points and nodes per group, limited by the number of registers.
LANES_PER_GROUP, NODES_PER_GROUP = (16, 5) if HAS_AVX512 else (8, 3)
# At least NODES_PER_GROUP, because full groups are written (tests/densities/test_tensor_loops.py).
MIN_FUNCTION_ROWS = 8


@inline_jit(FINITE_FMA, early=False)
def cosines(points, first, m, j, low, scale, cosine):  # type: ignore[no-untyped-def]
    """Set cosine[i] = cos(pi x_ij) for the m points from ``first`` on; the rest of the tile gets finite values."""
    column, lowest, factor = points[first : first + m, j], low[j], scale[j]
    for i in range(TILE_POINTS):
        cosine[i] = lowest
    for i in range(m):
        cosine[i] = f32(column[i])
    for i in range((m + POINTS_PER_STEP - 1) // POINTS_PER_STEP * POINTS_PER_STEP):
        u = (cosine[i] - lowest) * factor
        cosine[i] = cospi(minimum(maximum(u, f32(0.0)), f32(1.0)))


@inline_jit(early=False)
def chebyshev_cosines(cosine, m, K, rows, row):  # type: ignore[no-untyped-def]
    """Set rows[row + a TILE_POINTS + i] = cos(pi a x_i) for m points."""
    for i in range(0, m, POINTS_PER_STEP):
        previous = ones(2, POINTS_PER_VECTOR)
        current = load(cosine, i, POINTS_PER_VECTOR, 2, POINTS_PER_VECTOR)
        two = plus(current, current)
        store(previous, rows, row + i, POINTS_PER_VECTOR)
        store(current, rows, row + TILE_POINTS + i, POINTS_PER_VECTOR)
        for a in range(2, K):
            previous, current = current, fused_minus(two, current, previous)
            store(current, rows, row + a * TILE_POINTS + i, POINTS_PER_VECTOR)


@inline_jit(early=False)
def _fill_node_series(cosine, m, K, q, folded_degrees, factors, factor, table, entry, folded, rows, row):  # type: ignore[no-untyped-def]
    """Set rows[row + k TILE_POINTS + i] = G_k(x_i) for m points, with the series at factors[factor], table[entry]."""
    terms, half, n_unfolded = q + q % 2, (q + 1) // 2, minimum(K, q)
    for a in range(n_unfolded, terms):
        store(zeros(2, POINTS_PER_VECTOR), folded, a * POINTS_PER_STEP, POINTS_PER_VECTOR)
    for i in range(0, m, POINTS_PER_STEP):
        previous = ones(2, POINTS_PER_VECTOR)
        current = load(cosine, i, POINTS_PER_VECTOR, 2, POINTS_PER_VECTOR)
        two = plus(current, current)
        store(previous, folded, 0, POINTS_PER_VECTOR)
        store(current, folded, POINTS_PER_STEP, POINTS_PER_VECTOR)
        for a in range(2, n_unfolded):
            previous, current = current, fused_minus(two, current, previous)
            store(current, folded, a * POINTS_PER_STEP, POINTS_PER_VECTOR)
        for a in range(n_unfolded, K):
            previous, current = current, fused_minus(two, current, previous)
            position = folded_degrees[a] * POINTS_PER_STEP
            folded_sum = fused(
                spread(factors, factor + a, 0, 2, POINTS_PER_VECTOR),
                current,
                load(folded, position, POINTS_PER_VECTOR, 2, POINTS_PER_VECTOR),
            )
            store(folded_sum, folded, position, POINTS_PER_VECTOR)
        for offset in range(0, minimum(m - i, POINTS_PER_STEP), POINTS_PER_VECTOR):
            for start in range(0, half, NODES_PER_GROUP):
                k = maximum(minimum(start, half - NODES_PER_GROUP), 0)
                even, odd = (
                    zeros(NODES_PER_GROUP, POINTS_PER_VECTOR),
                    zeros(NODES_PER_GROUP, POINTS_PER_VECTOR),
                )
                for a in range(0, terms, 2):
                    position, f = entry + k * terms + a, a * POINTS_PER_STEP + offset
                    even = add_outer(
                        spread(table, position, terms, NODES_PER_GROUP, POINTS_PER_VECTOR),
                        load(folded, f, 0, 1, POINTS_PER_VECTOR),
                        even,
                    )
                    f += POINTS_PER_STEP
                    odd = add_outer(
                        spread(table, position + 1, terms, NODES_PER_GROUP, POINTS_PER_VECTOR),
                        load(folded, f, 0, 1, POINTS_PER_VECTOR),
                        odd,
                    )
                store(minus(even, odd), rows, row + (q - 1 - k) * TILE_POINTS + i + offset, -TILE_POINTS)
                store(plus(even, odd), rows, row + k * TILE_POINTS + i + offset, TILE_POINTS)


@inline_jit(early=False)
def _fill_leading_products(fractions, rows, size, lengths, d, c, n_padded, X, x):  # type: ignore[no-untyped-def]
    """Set X[x TILE_POINTS + i] = weight of point i times product c of functions of all dimensions except the last."""
    is_used = c < lengths[0] * lengths[1]
    first, second = c // lengths[1] * TILE_POINTS, size + c % lengths[1] * TILE_POINTS
    for i in range(0, n_padded, LANES_PER_GROUP):
        product = zeros(1, LANES_PER_GROUP)
        if is_used:
            product = load(fractions, i, 0, 1, LANES_PER_GROUP)
            if d > 2:
                product = times(product, load(rows, first + i, 0, 1, LANES_PER_GROUP))
            if d > 1:
                product = times(product, load(rows, second + i, 0, 1, LANES_PER_GROUP))
        store(product, X, x * TILE_POINTS + i, 0)


@jit()
def tensor_sums(  # type: ignore[no-untyped-def]
    points,
    spans,
    weights,
    weighted,
    low,
    scale,
    column,
    d,
    lengths,
    degrees,
    q,
    folded_degrees,
    factors,
    table,
    workspace,
    out,
):
    """Set out[s] to sums over points of products of one function per dimension.

    ``lengths`` (3,) are the numbers of functions of each dimension, with leading ones for d < 3.

    Functions are cosines of ``degrees``, or for q > 0 the `NodeSeries` at q nodes. ``workspace`` is overwritten.
    """
    fractions, cosine, folded, rows, X, sums = workspace
    n_leading, n_last = lengths[0] * lengths[1], lengths[2]
    groups = (n_last + TILE_ROWS - 1) // TILE_ROWS
    size = len(rows) // 3  # array elements per dimension
    for s in range(len(spans)):
        start, stop = spans[s, 0], spans[s, 1]
        total = total_weight(weights, weighted, start, stop)
        for k in range(len(sums)):
            sums[k] = f32(0.0)
        for first in range(start, stop, TILE_POINTS):
            m = minimum(stop - first, TILE_POINTS)
            n_padded = (m + LANES_PER_GROUP - 1) // LANES_PER_GROUP * LANES_PER_GROUP
            fill_fractions(weights, weighted, first, m, total, fractions)
            for j in range(d):
                axis = 3 - d + j
                cosines(points, first, m, column + j, low, scale, cosine)
                K, position = degrees[axis], axis * size
                if q > 0:
                    series, entry = j * len(folded_degrees), j * table.shape[1]
                    _fill_node_series(
                        cosine, m, K, q, folded_degrees, factors, series, table, entry, folded, rows, position
                    )
                else:
                    chebyshev_cosines(cosine, m, K, rows, position)
            position = 0
            for c in range(0, n_leading, TILE_COLUMNS):
                for x in range(TILE_COLUMNS):
                    _fill_leading_products(fractions, rows, size, lengths, d, c + x, n_padded, X, x)
                for r in range(0, groups * TILE_ROWS, TILE_ROWS):
                    tile = zeros(TILE_SUMS, LANES_PER_GROUP)
                    for i in range(0, n_padded, LANES_PER_GROUP):
                        last = load(
                            rows, 2 * size + r * TILE_POINTS + i, TILE_POINTS, TILE_ROWS, LANES_PER_GROUP
                        )
                        tile = add_outer(last, load(X, i, TILE_POINTS, TILE_COLUMNS, LANES_PER_GROUP), tile)
                    store(plus(load(sums, position, 0, 1, TILE_SUMS), totals(tile)), sums, position, 0)
                    position += TILE_SUMS
        for c in range(n_leading):
            for r in range(n_last):
                position = ((c // TILE_COLUMNS) * groups + r // TILE_ROWS) * TILE_SUMS
                out[s, c * n_last + r] = sums[position + (r % TILE_ROWS) * TILE_COLUMNS + c % TILE_COLUMNS]


def tensor_workspace(lengths: tuple[int, ...], q: int) -> tuple[F32, ...]:
    """Return buffers for `tensor_sums`; ``rows`` has room for full groups of NODES_PER_GROUP."""
    n_leading, groups = lengths[0] * lengths[1], -(-lengths[2] // TILE_ROWS)
    n_rows = 3 * max(MIN_FUNCTION_ROWS, TILE_ROWS * -(-max(lengths) // TILE_ROWS)) * TILE_POINTS
    n_sums = -(-n_leading // TILE_COLUMNS) * groups * TILE_SUMS
    _, rows, *others = cache_lines(
        NODES_PER_GROUP * TILE_POINTS,
        n_rows,
        TILE_POINTS,
        TILE_POINTS,
        (q + 1) * POINTS_PER_STEP,
        TILE_COLUMNS * TILE_POINTS,
        n_sums,
    )
    rows[:] = 0
    fractions, cosine, folded, X, sums = others
    return fractions, cosine, folded, rows, X, sums


class NodeSeries(NamedTuple):
    """Tables of damped cosines at q midpoints, one row per dimension."""

    q: int
    degrees: tuple[int, ...]
    folded_degrees: I64  # (K,): the degree below q that each degree is folded to
    factors: F32  # (d, K): damping of the degree over that of its folded degree, with the sign of folding
    table: F32  # (d, max(q, NODES) * (q or q + 1)): g_a cos(pi a x_k)


def node_series(q: int, degrees: tuple[int, ...], bandwidth: tuple[float, ...]) -> NodeSeries:
    """Return the series of Gaussians with these standard deviations at q >= 2 midpoints per dimension."""
    a, d = np.arange(max(degrees)), len(degrees)
    damping = np.exp(-((np.pi * np.outer(bandwidth, a)) ** 2) / 2) * np.where(a == 0, 1, 2)
    reduced = 2 * q - np.abs(2 * q - a % (4 * q))  # cosines of degrees a and 4 q - a are equal at midpoints
    folded_degrees = np.where(reduced == q, 0, q - np.abs(q - reduced))
    table = np.zeros((d, max(q, NODES_PER_GROUP), q + q % 2))  # full groups of nodes are read
    low = min(q, len(a))
    table[:, :q, :low] = damping[:, None, :low] * np.cos(np.pi * np.outer((np.arange(q) + 0.5) / q, a[:low]))
    factors = damping / damping[:, folded_degrees] * np.sign(q - reduced)
    return NodeSeries(
        q,
        degrees,
        read_only(folded_degrees),
        read_only(factors.astype(np.float32)),
        read_only(table.reshape(d, -1).astype(np.float32)),
    )


def tensor_coefficients(
    points: F32,
    spans: I64,
    weights: F32 | None,
    low: F32,
    scale: F32,
    degrees: tuple[int, ...],
    column: int = 0,
) -> F32:
    """Return coefficients of all degrees a_j < degrees[j], d = 1, 2 or 3: (n_sets, K_1 * .. * K_d) float32.

    ``spans`` (n_sets, 2) are the first row of each set and the row after its last; ``scale`` is 1 / (high -
    low) for each dimension. Points outside the box are clipped. The dimensions are the columns from
    ``column`` on.
    """
    return _tensor_sums(points, spans, weights, low, scale, column, degrees, _NO_SERIES)


def densities_at_nodes(
    points: F32, spans: I64, weights: F32 | None, low: F32, scale: F32, series: NodeSeries
) -> F32:
    """Return unclipped densities on the tensor grid of midpoints: (n_sets, q^d), last dimension fastest."""
    return _tensor_sums(points, spans, weights, low, scale, 0, (series.q,) * len(series.degrees), series)


_EMPTY_TABLE = read_only(np.empty((3, 0), np.float32))
_NO_SERIES = NodeSeries(0, (), read_only(np.empty(0, np.int64)), _EMPTY_TABLE, _EMPTY_TABLE)


def _tensor_sums(
    points: F32,
    spans: I64,
    weights: F32 | None,
    low: F32,
    scale: F32,
    column: int,
    lengths: tuple[int, ...],
    series: NodeSeries,
) -> F32:
    d, out = len(lengths), np.empty((len(spans), math.prod(lengths)), np.float32)
    padding = (1,) * (3 - d)
    padded_lengths = padding + lengths
    tensor_sums(
        *set_arrays(points, spans, weights),
        read_only(low),
        read_only(scale),
        column,
        d,
        padded_lengths,
        padding + (series.degrees or lengths),
        series.q,
        series.folded_degrees,
        series.factors,
        series.table,
        tensor_workspace(padded_lengths, series.q),
        out,
    )
    return out


def term_coefficients(points: F32, spans: I64, weights: F32 | None, low: F32, scale: F32, terms: I64) -> F32:
    """Return coefficients of ``terms`` in any dimension: (n_sets, n_terms) float32.

    ``terms`` are those of `ball_terms`: a row (parent, dimension, degree) multiplies an earlier term.
    """
    out = np.zeros((len(spans), len(terms)), np.float32)
    _terms(*set_arrays(points, spans, weights), low, scale, terms, max(2, int(terms[:, 2].max()) + 1), out)
    return out


def ball_terms(axes: tuple[float, ...], order: float = 2) -> tuple[I64, I64]:
    """Return exponents with (a_1 / axes_1)^order + .. + (a_d / axes_d)^order <= 1: (n, d), and terms (n, 3).

    Order 1 gives a simplex, infinity a box. Each term is the product of its parent and one cosine: the parent has the
    same exponents, except that the last non-zero one is 0.
    """
    exponents: list[tuple[int, ...]] = [(0,) * len(axes)]
    slack = [1.0]  # 1 minus the left-hand side of each term
    terms = [(0, 0, 0)]
    for j, axis in enumerate(axes):
        for parent in range(len(exponents)):
            for a in range(1, int(axis * slack[parent] ** (1 / order)) + 1):
                child = (*exponents[parent][:j], a, *exponents[parent][j + 1 :])
                exponents.append(child)
                slack.append(max(0.0, slack[parent] - (a / axis) ** order))
                terms.append((parent, j, a))
    return np.array(exponents, np.int64), np.array(terms, np.int64)


@jit(FINITE_REASSOC)
def _terms(points, spans, weights, weighted, low, scale, terms, K, out):  # type: ignore[no-untyped-def]
    d = points.shape[1]
    fractions, cosine = np.empty(TILE_POINTS, f32), np.empty(TILE_POINTS, f32)
    T = np.zeros(d * K * TILE_POINTS, f32)
    products = np.empty((len(terms), TILE_POINTS), f32)
    for s in range(len(spans)):
        start, stop = spans[s, 0], spans[s, 1]
        total = total_weight(weights, weighted, start, stop)
        for first in range(start, stop, TILE_POINTS):
            m = min(TILE_POINTS, stop - first)
            fill_fractions(weights, weighted, first, m, total, fractions)
            for j in range(d):
                cosines(points, first, m, j, low, scale, cosine)
                chebyshev_cosines(cosine, m, K, T, j * K * TILE_POINTS)
            out[s, 0] += np.sum(fractions)
            for i in range(TILE_POINTS):
                products[0, i] = fractions[i]
            for t in range(1, len(terms)):
                parent, row, c = products[terms[t, 0]], products[t], f32(0.0)
                offset = (terms[t, 1] * K + terms[t, 2]) * TILE_POINTS
                column = T[offset : offset + TILE_POINTS]
                for i in range(TILE_POINTS):
                    row[i] = parent[i] * column[i]
                    c += row[i]
                out[s, t] += c


TRUNCATION_DAMPING = 3e-4  # damping factor of the first omitted degree (tests/densities/test_density.py)


def degree_for(bandwidth: float) -> int:
    """Return the number of degrees K, a multiple of 4, for which the Gaussian damps degree K below 3e-4."""
    K = np.sqrt(2 * np.log(1 / TRUNCATION_DAMPING)) / (np.pi * bandwidth)
    return max(4, 4 * int(np.ceil(K / 4)))


def basis_table(nodes: F64, K: int, bandwidth: float) -> F32:
    """Return g(a) cos(pi a x) for all nodes x and degrees a < K: (n_nodes, K)."""
    a = np.arange(K)
    damping = np.exp(-((np.pi * a * bandwidth) ** 2) / 2) * np.where(a == 0, 1, 2)
    return (damping * np.cos(np.pi * np.outer(nodes, a))).astype(np.float32)


def term_table(nodes: F64, exponents: I64, bandwidth: F64) -> F32:
    """Return prod_j g_j(a_j) cos(pi a_j x_j) for all exponents a and nodes x: (n_terms, n_nodes)."""
    table = np.ones((len(exponents), len(nodes)), np.float32)
    for j in range(nodes.shape[1]):
        columns = basis_table(nodes[:, j], int(exponents[:, j].max()) + 1, float(bandwidth[j]))
        table *= columns.T[exponents[:, j]]
    return table


def tensor_density(C: F32, tables: list[F32]) -> F32:
    """Return densities on the tensor grid of nodes: (n_sets, q_1 * .. * q_d), last dimension fastest."""
    n, last = len(C), np.ascontiguousarray(tables[-1].T)
    leading = C  # one product per set: its bits do not depend on other sets
    for j, table in enumerate(tables[:-1]):
        shape = n, -1, table.shape[1], math.prod(other.shape[1] for other in tables[j + 1 :])
        leading = np.matmul(table, leading.reshape(shape))
    return np.asarray(np.matmul(leading.reshape(n, -1, len(last)), last).reshape(n, -1))


MIN_DENSITY = 1e-6  # in units of the uniform density (tests/densities/test_homogeneous_features.py)
NODES_PER_VECTOR = 8  # the number of nodes is padded to a multiple (python benchmarks/roofline.py others)
MIN_LOG_ARGUMENT = 1e-30  # normal in float32 (IEEE 754-2019); smaller amplitudes are negligible


def n_parts(frequencies: Sequence[float] | F64) -> int:
    """Return the number of real features per node: one for a zero frequency, two for any other frequency."""
    return sum(1 if frequency == 0 else 2 for frequency in frequencies)


def homogeneous_features(
    p: F32,
    node_weights: F64,
    frequencies: F64,
    masses: F64,
    out: F32,
    first: int = 0,
    floor: float = MIN_DENSITY,
) -> None:
    """Fill n_parts * n_nodes columns of ``out``, from ``first`` on, from densities ``p`` (n_sets, n_nodes).

    Densities below ``floor`` are replaced by it, because truncated series may be negative; use 0 for histograms.
    """
    n_padded = (p.shape[1] + NODES_PER_VECTOR - 1) // NODES_PER_VECTOR * NODES_PER_VECTOR
    workspace = tuple(np.ones((6, n_padded), np.float32))
    inputs = read_only(p), read_only(node_weights), read_only(frequencies), read_only(masses)
    _features(*inputs, float(floor), first, workspace, out)


@jit(FINITE_FMA)
def _features(p, node_weights, frequencies, masses, floor, first, workspace, out):  # type: ignore[no-untyped-def]
    # Nodes are padded to full vectors, so that loops need no scalar remainder.
    value, root_weight, root, logarithm, sine, cosine = workspace
    n, n_padded = p.shape[1], len(value)
    for k in range(n):
        root_weight[k] = f32(np.sqrt(node_weights[k]))
    for s in range(len(p)):
        for k in range(n):
            value[k] = maximum(p[s, k], f32(floor))
        for k in range(n_padded):
            root[k] = np.sqrt(value[k]) * root_weight[k]
            logarithm[k] = log(maximum(value[k], f32(MIN_LOG_ARGUMENT)))
        column = first
        for j in range(len(frequencies)):  # zero frequencies come first
            if frequencies[j] == 0.0:
                row, amplitude = out[s, column : column + n], f32(np.sqrt(masses[j]))
                for k in range(n):
                    row[k] = amplitude * root[k]
                column += n
        for j in range(len(frequencies)):
            if frequencies[j] != 0.0:
                half_turns, amplitude = f32(frequencies[j] / np.pi), f32(np.sqrt(masses[j]))
                for k in range(n_padded):
                    si, co = sincospi(half_turns * logarithm[k])
                    sine[k] = amplitude * root[k] * si
                    cosine[k] = amplitude * root[k] * co
                row = out[s, column : column + 2 * n]
                for k in range(n):
                    row[k] = cosine[k]
                for k in range(n):
                    row[n + k] = sine[k]
                column += 2 * n


def amplitude_slopes(
    p: F32, node_weights: F64, frequencies: F64, masses: F64, gradient: F64, floor: float = MIN_DENSITY
) -> F64:
    """Return derivatives (n_nodes, k) of k functions of a row with respect to the densities ``p`` (n_nodes,).

    ``gradient`` (n_parts n_nodes, k) holds the derivatives with respect to the columns of `homogeneous_features`, and

        d row / dp = (v w)^(1/2) p^(-1/2) (cos / 2 - l sin, sin / 2 + l cos)(l log p);

    the derivative is 0 below the floor.
    """
    density = p.astype(np.float64)
    is_above = density > floor
    positive_density = np.where(is_above, density, 1.0)
    common = np.where(is_above, np.sqrt(node_weights / positive_density), 0.0)
    slopes, first, n = np.zeros((len(p), gradient.shape[1])), 0, len(p)
    for j in np.argsort(frequencies != 0, kind="stable"):
        lam, amplitude = frequencies[j], np.sqrt(masses[j]) * common
        cosine, sine = np.cos(lam * np.log(positive_density)), np.sin(lam * np.log(positive_density))
        slopes += (amplitude * (cosine / 2 - lam * sine))[:, None] * gradient[first : first + n]
        first += n
        if lam != 0:
            slopes += (amplitude * (sine / 2 + lam * cosine))[:, None] * gradient[first : first + n]
            first += n
    return slopes
