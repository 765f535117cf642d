"""One set of points that is too large for memory: a dask array, a Zarr array, or the one set of a store."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from dkdist.execution.blocks import Blocks, is_lazy, point_blocks, require_known_chunks, source_blocks
from dkdist.loops.array_types import F64, Array
from dkdist.sets import SampleSetError
from dkdist.store import SetStore
from dkdist.store.set_pieces import array_pieces, is_zarr_array, set_pieces


class LazyPoints(NamedTuple):
    """Blocks of points (m, d), with their weights as one more column if ``weighted``."""

    blocks: Blocks
    n_dims: int
    weighted: bool

    @property
    def n_points(self) -> int:
        """The number of points."""
        return self.blocks.n_rows


def lazy_points(name: str, P: Any, weights: Any) -> LazyPoints | None:
    """The set that P is, if it is one of those that are read piece by piece; None for anything in memory.

    Messages call it ``name``.
    """
    if isinstance(P, SetStore):
        return _of_store(P, weights)
    if is_zarr_array(P):
        _require_points(P)
        if weights is not None:
            raise SampleSetError(
                "a Zarr array has no weights beside it: give dask arrays, or write points and weights with write_sets"
            )
        pieces, bounds = array_pieces(P)
        return LazyPoints(source_blocks(pieces, bounds, P.nbytes), P.shape[1], False)
    if is_lazy(P):
        require_known_chunks(P, name)
        require_known_chunks(weights, "weights")
        _require_points(P)
        if weights is not None and (len(np.shape(weights)) != 1 or len(weights) != P.shape[0]):
            raise SampleSetError(
                f"expected {P.shape[0]} weights, one a point; found shape {np.shape(weights)}"
            )
        return LazyPoints(point_blocks(P, weights), P.shape[1], weights is not None)
    return None


def _of_store(P: SetStore, weights: Any) -> LazyPoints:
    if len(P) != 1:
        raise SampleSetError(
            f"expected one set, found a selection of {len(P)}: choose one by sets[i:i + 1], or thin each of them with "
            "CoresetThinning"
        )
    if P.alphabet is not None:
        raise SampleSetError("the set is a string of characters, whose codes are no coordinates")
    if weights is not None:
        raise SampleSetError(
            "a store keeps the weights of its points: write them with write_sets, and give weights=None"
        )
    if int(np.prod(P.weights_shape or ())) > 1:
        raise SampleSetError(
            f"expected one weight a point, found {P.weights_shape} channels: keep one column"
        )
    pieces, bounds = set_pieces(P)
    blocks = source_blocks(pieces, bounds, 4 * P.n_dims * int(bounds[-1]))
    return LazyPoints(blocks, P.n_dims, P.weights_shape is not None)


def _require_points(P: Any) -> None:
    if P.ndim != 2 or 0 in P.shape:
        raise SampleSetError(f"expected points of shape (n, d) with n, d >= 1, found {P.shape}")
    if P.dtype.kind not in "fiub":
        raise SampleSetError(f"expected points of real numbers, found {P.dtype}")


def split_weights(block: Array, weighted: bool, first: int) -> tuple[F64, F64 | None]:
    """(points, weights or None) of a block whose first row is row ``first``; both must be finite, weights >= 0."""
    rows = np.asarray(block, np.float64)
    finite = np.isfinite(rows).all(axis=1)
    if not finite.all():
        i = int(np.argmin(finite))
        raise SampleSetError(
            f"row {first + i} is {rows[i].tolist()}: every value must be finite. Drop the points"
        )
    if not weighted:
        return rows, None
    weights = rows[:, -1]
    if weights.min() < 0:
        i = int(np.argmin(weights))
        raise SampleSetError(
            f"weight {first + i} is {weights[i]}: weights must be >= 0. Clip them, or drop the points"
        )
    return rows[:, :-1], weights
