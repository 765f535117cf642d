"""Random Fourier features summed over points: kernel mean embeddings and kernel energies.

    row = 1/sqrt(F) sum_i w_i (sin pi V(x_i - c), cos pi V(x_i - c)),   V = (F, d) frequencies / pi,   sum_i w_i = 1
    E(x, z) = E_w |sum_i z_i exp(i w . x_i)|^2,   w normal with standard deviation 1 / sigma,   z_i signed

Projection, sine, cosine and weighted sum share one loop over 64 frequencies, without an array of n x F phases. The
centre c shifts the phases of all sets equally: distances do not change, and rounding errors far from the origin shrink.
Sums over 256 points are float32, and sums of these are float64. Cost: about 20 + d flops per point and frequency. Each
row depends only on its set.

All points of an energy share the frequencies, so equal points with opposite weights cancel. The error shrinks with E.
(Rahimi, Recht 2007; Joshi et al. 2011, with the scale (2 / rho)^(1/2) of rho features, not 2 / rho.)
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dkdist._numba.arrays import F32, F64, I64
from dkdist._numba.compilation import FINITE_FMA, inline_jit, jit
from dkdist._numba.elementary import f32, maximum, minimum, sincospi
from dkdist._numba.points import cache_lines, read_only, set_arrays, total_weight, weight_array
from dkdist._numba.weighted_points import WeightedPoints

# points per float32 sum: larger tiles add rounding errors, smaller ones are slower (tests/kernel/test_mean_features.py)
TILE_POINTS = 256
# Larger phases have no correct digits; distant points are clipped to this value (tests/kernel/test_mean_features.py).
MAX_HALF_TURNS = 2.0**30
# frequencies per loop; their sums stay in the L1 cache (python benchmarks/kernel.py)
LANES_PER_GROUP = 64


def as_half_turns(frequencies: F64) -> F32:
    """Convert frequencies (F, d) to half turns (groups, d or d + 1, 64), padded with zeros."""
    F, d = frequencies.shape
    V = np.zeros((F + -F % LANES_PER_GROUP, d + d % 2), np.float32)
    np.divide(frequencies, np.pi, out=V[:F, :d], casting="same_kind")
    return np.ascontiguousarray(V.reshape(-1, LANES_PER_GROUP, V.shape[1]).transpose(0, 2, 1))


class Waves(NamedTuple):
    """Frequencies from `as_half_turns`, origin of the phases, and maximum distance of points from it."""

    half_turns: F32
    centre: F64
    reach: float


def waves_of(frequencies: F64, centre: F64) -> Waves:
    """Return the waves with frequencies (F, d) and phase 0 at the ``centre`` (d,)."""
    V = as_half_turns(frequencies)
    return Waves(V, centre, float(MAX_HALF_TURNS / max(1e-30, V.shape[1] * np.abs(V).max())))


def mean_features(points: F32, offsets: I64, weights: F32 | None, waves: Waves, out: F32) -> None:
    """Fill ``out`` (n_sets, 2F) with sines, then cosines."""
    V = waves.half_turns
    sums = np.empty((2, len(V), LANES_PER_GROUP))
    _mean_features(*set_arrays(points, offsets, weights), waves, _buffers(V), sums, out)


def add_mean_features(points: F32, weights: F32 | None, mean: float, waves: Waves, sums: F64) -> None:
    """Add one set's sums of sines and cosines to ``sums`` (2, groups, 64); ``mean`` is its mean weight.

    Consecutive calls with whole tiles of 256 points are bitwise identical to one call with all points. `mean_features`
    of n points are these sums times 1 / (sqrt(F) n).
    """
    _add_piece(read_only(points), *weight_array(weights), mean, waves, _buffers(waves.half_turns), sums)


@inline_jit(FINITE_FMA, early=False)
def add_features(x, w, V, base, S, C):  # type: ignore[no-untyped-def]
    """Add one point's weighted sines and cosines; the loop of the sines also projects the last two columns."""
    d = len(x)
    for j in range(0, d - 2, 2):
        a, b, Va, Vb = x[j], x[j + 1], V[j], V[j + 1]
        for r in range(LANES_PER_GROUP):
            partial = base[r] if j else f32(0.0)
            base[r] = partial + a * Va[r] + b * Vb[r]
    a, b, Va, Vb = x[d - 2], x[d - 1], V[d - 2], V[d - 1]
    for r in range(LANES_PER_GROUP):
        s, c = sincospi(base[r] + a * Va[r] + b * Vb[r])
        S[r] += w * s
        C[r] += w * c


@inline_jit(FINITE_FMA, early=False)
def _add_tiles(points, start, stop, weights, weighted, mean, waves, buffers, sums):  # type: ignore[no-untyped-def]
    """Add the sums over the points from ``start`` to ``stop`` - 1."""
    V, centre, reach = waves
    x, fractions, base, S, C = buffers
    for first in range(start, stop, TILE_POINTS):
        m = minimum(TILE_POINTS, stop - first)
        for i in range(m):
            fractions[i] = f32(weights[first + i] / mean) if weighted else f32(1.0)
            for j in range(points.shape[1]):
                x[i, j] = f32(minimum(maximum(points[first + i, j] - centre[j], -reach), reach))
        for q in range(len(V)):
            for r in range(LANES_PER_GROUP):
                S[r] = C[r] = f32(0.0)
            for i in range(m):
                add_features(x[i], fractions[i], V[q], base, S, C)
            for r in range(LANES_PER_GROUP):
                sums[0, q, r] += S[r]
                sums[1, q, r] += C[r]


def _buffers(V: F32) -> tuple[F32, ...]:
    """Return buffers for the points and weights of a tile, and three rows of lanes."""
    d = V.shape[1]
    x, fractions, *rows = cache_lines(TILE_POINTS * d, TILE_POINTS, *[LANES_PER_GROUP] * 3)
    x[:] = rows[0][:] = 0
    return x.reshape(TILE_POINTS, d), fractions, *rows


@jit(FINITE_FMA)
def _add_piece(points, weights, weighted, mean, waves, buffers, sums):  # type: ignore[no-untyped-def]
    _add_tiles(points, 0, len(points), weights, weighted, mean, waves, buffers, sums)


@jit(FINITE_FMA)
def _mean_features(points, offsets, weights, weighted, waves, buffers, sums, out):  # type: ignore[no-untyped-def]
    F = out.shape[1] // 2
    for s in range(len(offsets) - 1):
        start, stop = offsets[s], offsets[s + 1]
        n = stop - start
        mean = total_weight(weights, weighted, start, stop) / n  # weights near 1 minimise rounding errors
        scale = 1 / (np.sqrt(F) * n)
        for q in range(sums.shape[1]):
            for r in range(LANES_PER_GROUP):
                sums[0, q, r] = sums[1, q, r] = 0.0
        _add_tiles(points, start, stop, weights, weighted, mean, waves, buffers, sums)
        for r in range(F):
            out[s, r] = f32(scale * sums[0, r // LANES_PER_GROUP, r % LANES_PER_GROUP])
            out[s, F + r] = f32(scale * sums[1, r // LANES_PER_GROUP, r % LANES_PER_GROUP])


def float32_error(widths: F64, sigma: float) -> float:
    """Bound the change of the kernel by rounding phases to float32, for points in a box with sides ``widths``."""
    return float(np.exp(-0.5) * 2.0**-24 * np.sqrt(((widths / sigma) ** 2).sum()))


def random_energies(points: WeightedPoints, frequencies: F64) -> F64:
    """Return |sum_i z_i exp(i w_f . x_i)|^2, summed over channels, for each frequency (F, d), as (F,)."""
    V, F = as_half_turns(frequencies), len(frequencies)
    reach = MAX_HALF_TURNS / max(1e-30, V.shape[1] * max(float(V.max()), -float(V.min())))
    sums = np.zeros((2, points.channels, len(V), LANES_PER_GROUP))
    for x, z in points.tiles():
        padded = np.zeros((len(x), V.shape[1]), np.float32)
        np.clip(x, -reach, reach, out=padded[:, : x.shape[1]], casting="same_kind")
        _add_waves(padded, (z / points.largest).astype(np.float32), V, sums)
    return np.asarray((sums**2).sum(axis=(0, 1)).ravel()[:F] * points.largest**2)


@jit(FINITE_FMA)
def _add_waves(x, z, V, sums):  # type: ignore[no-untyped-def]
    """Add weighted sines and cosines of points to ``sums`` (2, C, groups, 64)."""
    base, S, C = (
        np.zeros(LANES_PER_GROUP, f32),
        np.empty(LANES_PER_GROUP, f32),
        np.empty(LANES_PER_GROUP, f32),
    )
    for q in range(len(V)):
        for c in range(z.shape[1]):
            for first in range(0, len(x), TILE_POINTS):
                S[:] = f32(0.0)
                C[:] = f32(0.0)
                for i in range(first, min(first + TILE_POINTS, len(x))):
                    add_features(x[i], z[i, c], V[q], base, S, C)
                for r in range(LANES_PER_GROUP):
                    sums[0, c, q, r] += S[r]
                    sums[1, c, q, r] += C[r]
