"""The samples of a two-sample test, in memory or read block by block: some rows, and sums of features over bins."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from dkdist.kernel.distance.point_inputs import points_of
from dkdist.kernel.distance.shapes import Shape, is_mesh
from dkdist.loops.array_types import F32, F64, I64, U16
from dkdist.sets import SampleSetError, SampleSets
from dkdist.two_sample.pooled_statistics import PooledStatistics


class Sample(NamedTuple):
    """n points in d dimensions. ``rows(positions)``, in rising order, are some of them. ``bin_sums(pooled, bins,
    n_bins)`` are the sums of features over the points of each bin, (n_bins, n_features)."""

    n: int
    d: int
    rows: Callable[[I64], F64]
    bin_sums: Callable[[PooledStatistics, U16, int], F32]


def sample_of(name: str, P: Any) -> Sample:
    """P as a sample: arrays (n, d) and `SampleSets` in memory; arrays of Dask and Zarr and stores block by block."""
    if isinstance(P, Shape) or is_mesh(P):
        raise ValueError("P and Q must be point sets, not shapes: give arrays (n, d)")
    if isinstance(P, SampleSets):
        require_points(name, P.alphabet, P.weights is not None)
        x = np.ascontiguousarray(P.points, np.float64)
    else:
        if hasattr(P, "blocks"):  # imports Dask and Zarr
            from dkdist.two_sample.streamed_samples import streamed_sample

            if (streamed := streamed_sample(name, P)) is not None:
                return streamed
        x = points_of(name, P)
    return Sample(*x.shape, x.__getitem__, lambda pooled, bins, n_bins: pooled.bin_sums(x, bins, n_bins))


def require_points(name: str, alphabet: Any, has_weights: bool) -> None:
    """Refuse weights, and strings of characters."""
    if has_weights:
        raise SampleSetError(f"{name} has weights. Draw points by weight, or omit weights.")
    if alphabet is not None:
        raise SampleSetError(f"{name} holds strings of characters, whose codes are no coordinates")
