"""Ridge regression from sufficient statistics: one pass, any number of penalties.

    minimise |y - X w - b|^2 + alpha |w|^2:  (C + alpha I) w = c,  C = sum (x - m)(x - m)',  c = sum (x - m) y

Every sum is weighted: a row of weight 2 counts as two rows. Statistics are taken about a shift near the mean m, so that
centring loses nothing; they are added in a fixed order. Products run over tiles of 512 rows in the dtype of the
features and are added in float64. Only the upper triangle of a Gram matrix is kept: 8 D^2 bytes with D features.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkdist.learners.rows import F
from dkdist.loops.array_types import F64

TILE = 512  # rows of a product
PANEL = 512  # columns of a product: it stays in the cache until it is added


@dataclass(frozen=True)
class Statistics:
    """Weighted sums over rows of 1 (``n``), z = x - shift and y: z, y, zz' (upper triangle), zy', y^2; all float64."""

    n: float
    shift: F64
    sum_z: F64
    sum_y: F64
    zz: F64
    zy: F64
    yy: F64

    @classmethod
    def empty(cls, n_features: int, n_targets: int) -> Statistics:
        """Sums over no rows."""
        D, k = n_features, n_targets
        return cls(
            0.0, np.zeros(D), np.zeros(D), np.zeros(k), np.zeros((D, D)), np.zeros((D, k)), np.zeros(k)
        )


def tiles(*arrays: NDArray[Any]) -> Iterator[tuple[NDArray[Any], ...]]:
    """Arrays of equal length, at most 512 rows of them at a time."""
    for a in range(0, len(arrays[0]), TILE):
        yield tuple(array[a : a + TILE] for array in arrays)


def add_rows(to: Statistics, X: F, y: F64, weights: F64 | None, centre: bool) -> Statistics:
    """The sums with rows X (n, D), their targets y (n, k) and weights (n,) more; ``to``'s own matrix is added to."""
    if weights is None:
        for T, u in tiles(X, y):
            to = _added(to, T, u, None, centre)
    else:
        for T, u, w in tiles(X, y, weights):
            to = _added(to, T, u, w, centre)
    return to


def _added(to: Statistics, T: F, y: F64, weights: F64 | None, centre: bool) -> Statistics:
    """The sums with a tile more; ``to``'s own matrix is added to (it belongs to the caller alone)."""
    shift, total = to.shift, float(len(T))
    if centre and to.n == 0:
        shift = T.mean(axis=0, dtype=np.float64).astype(T.dtype).astype(np.float64)
    Z = T - shift.astype(T.dtype) if centre else T
    sum_z, sum_y = Z.sum(axis=0, dtype=np.float64), y.sum(axis=0)
    if weights is not None:
        total, root = float(weights.sum()), np.sqrt(weights)[:, None]
        sum_z, sum_y = weights @ Z, weights @ y
        Z, y = Z * root.astype(Z.dtype), y * root
    for a in range(0, Z.shape[1], PANEL):
        to.zz[a : a + PANEL, a:] += Z[:, a : a + PANEL].T @ Z[:, a:]
    return Statistics(
        to.n + total, shift, to.sum_z + sum_z, to.sum_y + sum_y,
        to.zz, to.zy + Z.T @ y.astype(Z.dtype), to.yy + (y**2).sum(axis=0),
    )  # fmt: skip


def merge(a: Statistics, b: Statistics) -> Statistics:
    """The sums over the rows of both, about the first's shift; neither is changed."""
    if a.n == 0 or b.n == 0:
        return b if a.n == 0 else a
    zz = a.zz.copy()
    moved = about(b, a.shift, into=zz)
    return Statistics(
        a.n + b.n, a.shift, a.sum_z + moved.sum_z, a.sum_y + b.sum_y, zz, a.zy + moved.zy, a.yy + b.yy
    )


def about(s: Statistics, shift: F64, into: F64 | None = None) -> Statistics:
    """The same rows about another shift, d = s.shift - shift: zz + s d' + d s' + n d d', added to ``into``.

    ``into`` is zero where it is not given.
    """
    zz = np.zeros_like(s.zz) if into is None else into
    d = s.shift - shift
    left = s.sum_z + s.n * d
    for a in range(0, len(d), PANEL):
        rows = slice(a, a + PANEL)
        zz[rows, a:] += s.zz[rows, a:]
        if d.any():
            zz[rows, a:] += np.outer(left[rows], d[a:]) + np.outer(d[rows], s.sum_z[a:])
    return replace(s, shift=shift, sum_z=left, zz=zz, zy=s.zy + np.outer(d, s.sum_y))


def of_targets_plus(s: Statistics, offset: F64) -> Statistics:
    """The sums about targets y + offset; y^2 is left out, which no solution needs."""
    return replace(s, sum_y=s.sum_y + s.n * offset, zy=s.zy + np.outer(s.sum_z, offset))


@dataclass(frozen=True)
class Centred:
    """C (upper triangle) and c of the normal equations of rows that weigh ``n``, with the means they are about."""

    n: float
    mean_x: F64
    mean_y: F64
    C: F64
    c: F64


def centred(s: Statistics, centre: bool) -> Centred:
    """Normal equations about the means, or about zero where there is no intercept.

    ValueError where sums of squares are no floats.
    """
    if not all(np.isfinite(part).all() for part in (np.diag(s.zz), s.zy, s.yy)):
        raise ValueError(
            "the features or targets are so large that sums of their squares are no floats of the features' dtype: "
            "divide them by a number"
        )
    if not centre:
        return Centred(s.n, np.zeros_like(s.shift), np.zeros_like(s.sum_y), s.zz, s.zy)
    mean_z, mean_y = s.sum_z / s.n, s.sum_y / s.n
    C = s.zz.copy()
    for a in range(0, len(mean_z), PANEL):
        C[a : a + PANEL, a:] -= np.outer(s.sum_z[a : a + PANEL], mean_z[a:])
    return Centred(s.n, s.shift + mean_z, mean_y, C, s.zy - np.outer(s.sum_z, mean_y))
