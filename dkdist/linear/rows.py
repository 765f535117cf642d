"""Rows of a batch: what a task knows of the rows it makes, how they are checked, left out, and given values.

Features are an array, or `LazyRows` that are made when a step comes to them, tile after tile in one buffer that stays
in the cache: they are never written to memory. The bits are the same.
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

F = NDArray[Any]
"""float32 or float64 features, C order."""


class LazyRows(Protocol):
    """Features (n, D) that are made when they are asked for, each row by itself; ``np.asarray`` makes all of them."""

    shape: tuple[int, int]
    dtype: np.dtype[Any]
    tile: int
    """Rows that are best made at once."""

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> F: ...

    def fill(self, places: I64, out: F) -> None:
        """Rows ``places`` into ``out`` (len(places), D)."""

    def not_finite(self) -> I64:
        """The places of rows that are not finite."""

    def joined(self, others: Sequence[Self]) -> Self:
        """These rows, and those of others below."""

    def descend(self, places: I64, steps: SGDParams, iterate: SGDState, looks: Any, n_averaged: int) -> int:
        """Take a step for each of the rows ``places``, none of which is NaN, and measure losses into ``looks``.

        Return the number of iterates in the running means.
        """


Tile = tuple[F, I64, slice]
"""Features, which of their rows come now, and where these stand among all that come."""


def tiles(X: F | LazyRows, places: I64) -> Iterator[Tile]:
    """The rows ``places`` of X in their order: those of an array where they lie, others made a tile at a time."""
    if isinstance(X, np.ndarray):
        yield X, places, slice(0, len(places))
        return
    made = np.empty((min(X.tile, len(places)), X.shape[1]), X.dtype)
    numbers = np.arange(X.tile)
    for start in range(0, len(places), X.tile):
        rows = made[: len(places) - start]
        X.fill(places[start : start + X.tile], rows)
        yield rows, numbers[: len(rows)], slice(start, start + len(rows))


class RowLabels(NamedTuple):
    """What is known of n rows beside their features: (n,) each, or (n, k) targets.

    Without ``weights`` all rows count one; a search has a column of weights (n, c) for each weighting that it tries.
    Rows whose ``keys`` are finite are kept for a closer look.
    """

    targets: NDArray[Any]
    held_out: NDArray[np.bool_]
    weights: F64 | None = None
    keys: F64 | None = None

    def part(self, rows: Any) -> RowLabels:
        """What is known of some of the rows: a slice, a mask or indices."""
        weights, keys = (None if values is None else values[rows] for values in (self.weights, self.keys))
        return RowLabels(self.targets[rows], self.held_out[rows], weights, keys)

    @property
    def present(self) -> NDArray[np.bool_]:
        """(n,): a row whose weights are all 0 is not there."""
        if self.weights is None:
            return np.ones(len(self.targets), np.bool_)
        return np.asarray(self.weights > 0 if self.weights.ndim == 1 else self.weights.any(axis=1))


@dataclass(frozen=True)
class RowBatch:
    """The rows of one batch, block after block.

    ``starts[i]`` is the index of the i-th block's first row in the whole collection, ``sizes[i]`` its length;
    ``known`` follows the same order. ``seed`` decides the shuffling. Rows that are not finite are refused, or left out
    with ``skip``. Rows that come on request are made ``at_once``, or by those who use them.
    """

    starts: tuple[int, ...]
    sizes: tuple[int, ...]
    n_features: int
    known: RowLabels
    seed: tuple[int, ...] = ()
    skip: bool = False
    at_once: bool = False

    @property
    def n_rows(self) -> int:
        """Rows of all the blocks together."""
        return len(self.known.targets)

    def parts(self) -> Iterator[tuple[int, slice]]:
        """For each block its first row in the collection, and where its rows are among the batch's."""
        stop = 0
        for start, size in zip(self.starts, self.sizes, strict=True):
            here, stop = stop, stop + size
            yield start, slice(here, stop)

    def order(self) -> tuple[I64, I64]:
        """The training rows, shuffled as the seed says, and the held-out ones."""
        order = np.random.default_rng(self.seed).permutation(self.n_rows)
        held_out = np.flatnonzero(self.known.held_out)
        if self.known.weights is None and not len(held_out):
            return order, held_out
        return order[(self.known.present & ~self.known.held_out)[order]], held_out


def checked(
    block: Any, dtype: np.dtype[Any], start: int, expected: tuple[int, int], *, skip: bool
) -> tuple[F, I64]:
    """A block, from row ``start`` on, as features of the agreed dtype and shape, and which rows are not finite.

    ValueError for another shape and, without ``skip``, for a row that is not finite.
    """
    X = np.asarray(block, dtype=dtype, order="C")
    return X, _checked(X, nonfinite_rows(X) if X.shape == expected else no_rows(), start, expected, skip)


def checked_rows(
    block: Any, dtype: np.dtype[Any], start: int, expected: tuple[int, int], *, skip: bool, at_once: bool
) -> tuple[F | LazyRows, I64]:
    """The same, but rows that are made when they are asked for say themselves which are not finite.

    They stay as they are, if they have that dtype, or are made ``at_once``.
    """
    if not (hasattr(block, "not_finite") and block.dtype == dtype):
        return checked(block, dtype, start, expected, skip=skip)
    bad = _checked(block, block.not_finite(), start, expected, skip)
    return all_of(block) if at_once else block, bad


def all_of(X: LazyRows) -> F:
    """All rows, made into memory that is used again."""
    made: F = LARGE.empty(X.shape, X.dtype)
    X.fill(np.arange(len(made)), made)
    return made


def _checked(X: F | LazyRows, bad: I64, start: int, expected: tuple[int, int], skip: bool) -> I64:
    if X.shape != expected:
        raise ValueError(
            f"the block of features that starts at row {start} has shape {X.shape}, expected {expected}: "
            "the chunks of the dask array do not say what they hold; make the array anew"
        )
    if len(bad) and not skip:
        rows, places, _ = next(tiles(X, bad[:1]))
        row, found = int(bad[0]), rows[places[0]]
        column = int(np.argmin(np.isfinite(found)))
        raise ValueError(
            f"row {start + row} of X is {found[column]} in column {column}: features must be finite. "
            "Drop the row and its target, repair what makes it, or leave such rows out with on_error='skip'"
        )
    return bad


def no_rows() -> I64:
    """The places of no row at all."""
    return np.zeros(0, np.int64)


def without(places: I64, bad: I64) -> I64:
    """The places that are not bad, in their order."""
    return places[~np.isin(places, bad)] if len(bad) else places


Usable = tuple[F, RowLabels, I64]


def valid_rows(dtype: np.dtype[Any], blocks: Iterator[Any], rows: RowBatch) -> Iterator[Usable]:
    """Block by block: features, what is known of their rows, and rows (in the collection) that are skipped.

    Rows of weight 0 are left out without a word.
    """
    for block, (start, here) in zip(blocks, rows.parts(), strict=True):
        X, bad = checked(block, dtype, start, (here.stop - here.start, rows.n_features), skip=rows.skip)
        known = rows.known.part(here)
        if len(bad) or not known.present.all():
            good = without(np.flatnonzero(known.present), bad)
            X, known = X[good], known.part(good)
        yield X, known, start + bad


def n_blocks_to_shuffle(targets: NDArray[Any], bounds: I64, n_classes: int) -> int:
    """How many blocks to shuffle together so that a batch looks like the whole: 1 (no order) to 8 (sorted).

    Eight times the share of the targets' variance that lies between blocks (of real targets, or of the class
    with the largest share), rounded up from 1/4 above.
    """
    sizes = np.diff(bounds)
    first, sizes = bounds[:-1][sizes > 0], sizes[sizes > 0]
    if n_classes:
        cell = np.repeat(np.arange(len(sizes)) * n_classes, sizes) + targets
        counts = np.bincount(cell, minlength=len(sizes) * n_classes).reshape(-1, n_classes)
        means, whole = counts / sizes[:, None], counts.sum(axis=0) / len(targets)
        variance = whole * (1.0 - whole)
    else:
        means, whole = np.add.reduceat(targets, first)[:, None] / sizes[:, None], targets.mean()
        variance = np.atleast_1d(targets.var())
    between = sizes @ (means - whole) ** 2 / len(targets)
    share = float(np.max(between / np.where(variance > 0.0, variance, np.inf)))
    return int(np.clip(np.ceil(8.0 * share - 0.25), 1, 8))


def decision_values(X: NDArray[Any], W: NDArray[Any], b: Any) -> NDArray[Any]:
    """X W' + b: (n, k) values of rows X (n, D) for W (k, D) and b (k,), or (n,) for W (D,).

    A row has the same bits whatever its neighbours, on any BLAS: NumPy's own sums of products run along each row
    alone; a BLAS adds in an order that changes with the place in a tile.
    """
    products = np.einsum("ij,kj->ik", np.ascontiguousarray(X), np.ascontiguousarray(np.atleast_2d(W)))
    return np.asarray(products.reshape(len(X), *W.shape[:-1]) + b)
