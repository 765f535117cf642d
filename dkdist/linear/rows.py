"""Rows of a batch: labels, validation, lazily computed features and decision values.

Features are an array or `LazyRows`, which are computed in the step that uses them, one tile at a time in a buffer that
fits into the CPU cache. Both are bitwise identical.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from dkdist._numba.arrays import F64, I64, LARGE
from dkdist._numba.points import nonfinite_rows
from dkdist._numba.sgd import SGDParams, SGDState
from dkdist.linear._tuning import MAX_SHUFFLED_BLOCKS

F = NDArray[Any]
"""float32 or float64 features, C order."""


class LazyRows(Protocol):
    """Features (n, D) that are computed on demand, each row independently; ``np.asarray`` computes all rows."""

    shape: tuple[int, int]
    dtype: np.dtype[Any]
    tile: int
    """Number of rows that are computed at once."""

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> F: ...

    def fill(self, places: I64, out: F) -> None:
        """Write the rows with indices ``places`` to ``out`` (len(places), D)."""

    def not_finite(self) -> I64:
        """Return the indices of rows that are not finite."""

    def joined(self, others: Sequence[Self]) -> Self:
        """Return these rows followed by those of others."""

    def descend(self, rows: I64, params: SGDParams, state: SGDState, monitor: Any, n_averaged: int) -> int:
        """Take a step for each of the finite rows with indices ``rows``, and add losses to the monitor.

        Return the number of iterates in the running means.
        """


Tile = tuple[F, I64, slice]
"""(features, indices of the tile's rows in these features, slice of these rows among all requested rows)."""


def tiles(X: F | LazyRows, indices: I64) -> Iterator[Tile]:
    """Yield the rows ``indices`` of X in order: arrays without copying, lazy rows one tile at a time."""
    if isinstance(X, np.ndarray):
        yield X, indices, slice(0, len(indices))
        return
    buffer = np.empty((min(X.tile, len(indices)), X.shape[1]), X.dtype)
    tile_indices = np.arange(X.tile)
    for start in range(0, len(indices), X.tile):
        rows = buffer[: len(indices) - start]
        X.fill(indices[start : start + X.tile], rows)
        yield rows, tile_indices[: len(rows)], slice(start, start + len(rows))


class RowLabels(NamedTuple):
    """Targets (n,) or (n, k), the held-out mask (n,), weights and sampling keys (n,) of n rows.

    ``weights`` None means 1. In a search, ``weights`` (n, c) has a column for each weighting. Rows with finite ``keys``
    are in the sample for fitting probabilities.
    """

    targets: NDArray[Any]
    held_out: NDArray[np.bool_]
    weights: F64 | None = None
    keys: F64 | None = None

    def part(self, rows: Any) -> RowLabels:
        """Return the labels of some rows: a slice, a mask or indices."""
        weights, keys = (None if values is None else values[rows] for values in (self.weights, self.keys))
        return RowLabels(self.targets[rows], self.held_out[rows], weights, keys)

    @property
    def present(self) -> NDArray[np.bool_]:
        """Mask (n,) of the rows with a weight above 0."""
        if self.weights is None:
            return np.ones(len(self.targets), np.bool_)
        return np.asarray(self.weights > 0 if self.weights.ndim == 1 else self.weights.any(axis=1))


@dataclass(frozen=True)
class RowBatch:
    """Rows of one batch, block by block.

    ``starts[i]`` is the position of the first row of block i in the whole collection, ``sizes[i]`` its length;
    ``labels`` have the same order. ``seed`` determines the shuffling. Rows that are not finite raise an error, or are
    skipped with ``skip``. Lazy rows are computed before the steps if ``eager``.
    """

    starts: tuple[int, ...]
    sizes: tuple[int, ...]
    n_features: int
    labels: RowLabels
    seed: tuple[int, ...] = ()
    skip: bool = False
    eager: bool = False

    @property
    def n_rows(self) -> int:
        """Number of rows of all blocks."""
        return len(self.labels.targets)

    def parts(self) -> Iterator[tuple[int, slice]]:
        """Yield for each block its first row in the collection and the range of its rows in the batch."""
        offset = 0
        for start, size in zip(self.starts, self.sizes, strict=True):
            yield start, slice(offset, offset + size)
            offset += size

    def split(self) -> tuple[I64, I64]:
        """Return the indices of the training rows, shuffled, and of the held-out rows."""
        order = np.random.default_rng(self.seed).permutation(self.n_rows)
        held_out = np.flatnonzero(self.labels.held_out)
        if self.labels.weights is None and not len(held_out):
            return order, held_out
        return order[(self.labels.present & ~self.labels.held_out)[order]], held_out


def check_block(
    block: Any, dtype: np.dtype[Any], start: int, expected: tuple[int, int], *, skip: bool
) -> tuple[F, I64]:
    """Return the block that starts at row ``start`` as an array, and the indices of rows that are not finite.

    Raises ValueError for an unexpected shape and, without ``skip``, for rows that are not finite.
    """
    X = np.asarray(block, dtype=dtype, order="C")
    return X, _require_valid_block(
        X, nonfinite_rows(X) if X.shape == expected else no_rows(), start, expected, skip
    )


def check_rows(
    block: Any, dtype: np.dtype[Any], start: int, expected: tuple[int, int], *, skip: bool, eager: bool
) -> tuple[F | LazyRows, I64]:
    """Check a block like `check_block`, but do not compute lazy rows of this dtype unless ``eager``."""
    if not (hasattr(block, "not_finite") and block.dtype == dtype):
        return check_block(block, dtype, start, expected, skip=skip)
    invalid = _require_valid_block(block, block.not_finite(), start, expected, skip)
    return compute_rows(block) if eager else block, invalid


def compute_rows(X: LazyRows) -> F:
    """Compute all rows, in a reused buffer."""
    rows: F = LARGE.empty(X.shape, X.dtype)
    X.fill(np.arange(len(rows)), rows)
    return rows


def _require_valid_block(
    X: F | LazyRows, invalid: I64, start: int, expected: tuple[int, int], skip: bool
) -> I64:
    if X.shape != expected:
        raise ValueError(
            f"the block at row {start} of X must have shape {expected}; got {X.shape}. The chunks of the dask array "
            "do not match its data: recreate the array."
        )
    if len(invalid) and not skip:
        rows, indices, _ = next(tiles(X, invalid[:1]))
        values = rows[indices[0]]
        column = int(np.argmin(np.isfinite(values)))
        raise ValueError(
            f"X must be finite; got {values[column]} in row {start + int(invalid[0])}, column {column}. Drop the row "
            "and its target, fix its source, or skip such rows with on_error='skip'."
        )
    return invalid


def no_rows() -> I64:
    """Return an empty array of indices."""
    return np.zeros(0, np.int64)


def exclude(indices: I64, invalid: I64) -> I64:
    """Return the indices that are not in ``invalid``, in order."""
    return indices[~np.isin(indices, invalid)] if len(invalid) else indices


ValidRows = tuple[F, RowLabels, I64]


def valid_rows(dtype: np.dtype[Any], blocks: Iterator[Any], rows: RowBatch) -> Iterator[ValidRows]:
    """Yield for each block (features, labels, positions of skipped rows); rows of weight 0 are excluded."""
    for block, (start, span) in zip(blocks, rows.parts(), strict=True):
        X, invalid = check_block(
            block, dtype, start, (span.stop - span.start, rows.n_features), skip=rows.skip
        )
        labels = rows.labels.part(span)
        if len(invalid) or not labels.present.all():
            valid = exclude(np.flatnonzero(labels.present), invalid)
            X, labels = X[valid], labels.part(valid)
        yield X, labels, start + invalid


def n_blocks_to_shuffle(targets: NDArray[Any], bounds: I64, n_classes: int) -> int:
    """Return how many blocks to shuffle together for representative batches: 1 (random order) to 8 (sorted targets).

    The number is 8 times the fraction of the target variance that is between blocks (for classes, the largest fraction
    of any class), rounded up if its fractional part exceeds 1/4.
    """
    sizes = np.diff(bounds)
    first, sizes = bounds[:-1][sizes > 0], sizes[sizes > 0]
    if n_classes:
        cells = np.repeat(np.arange(len(sizes)) * n_classes, sizes) + targets
        counts = np.bincount(cells, minlength=len(sizes) * n_classes).reshape(-1, n_classes)
        means, overall = counts / sizes[:, None], counts.sum(axis=0) / len(targets)
        variance = overall * (1.0 - overall)
    else:
        means, overall = np.add.reduceat(targets, first)[:, None] / sizes[:, None], targets.mean()
        variance = np.atleast_1d(targets.var())
    between = sizes @ (means - overall) ** 2 / len(targets)
    fraction = float(np.max(between / np.where(variance > 0.0, variance, np.inf)))
    return int(np.clip(np.ceil(MAX_SHUFFLED_BLOCKS * fraction - 0.25), 1, MAX_SHUFFLED_BLOCKS))


def decision_values(X: NDArray[Any], W: NDArray[Any], b: Any) -> NDArray[Any]:
    """Return X W' + b: (n, k) for rows X (n, D), W (k, D) and b (k,), or (n,) for W (D,).

    Results of a row are bitwise independent of other rows: einsum sums along each row, but the order of sums in BLAS
    depends on the position in a tile.
    """
    products = np.einsum("ij,kj->ik", np.ascontiguousarray(X), np.ascontiguousarray(np.atleast_2d(W)))
    return np.asarray(products.reshape(len(X), *W.shape[:-1]) + b)
