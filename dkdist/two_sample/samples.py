"""The samples of a two-sample test, in memory or read block by block: some rows, and sums of features over bins."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from dkdist.kernel.distance.point_inputs import points_of
from dkdist.kernel.distance.shapes import Shape, is_mesh
from dkdist.loops.array_types import F32, F64, I64, U16
from dkdist.sets import SampleSetError, SampleSets
from dkdist.two_sample.pooled_statistics import PooledStatistics

BATCH_COORDINATES = 2**16  # of points whose features are computed together: products of 23 take 6 MiB


class Sample(NamedTuple):
    """n points in d dimensions. ``rows(positions)``, in rising order, are some of them. ``bin_sums(pooled, bins,
    n_bins)`` are the sums of features over the points of each bin, (n_bins, n_features)."""

    n: int
    d: int
    rows: Callable[[I64], F64]
    bin_sums: Callable[[PooledStatistics, U16, int], F32]


def sums_over_bins(x: F64, pooled: PooledStatistics, bins: U16, n_bins: int) -> F32:
    """Sums of features over those of the points (n, d) that are in each bin: (n_bins, n_features)."""
    sums = np.zeros((n_bins, pooled.n_features), np.float32)
    order, n_points = np.argsort(bins, kind="stable"), max(1, BATCH_COORDINATES // x.shape[1])
    for start in range(0, len(x), n_points):
        batch = order[start : start + n_points]
        present, offsets = np.unique(bins[batch], return_index=True)
        sums[present] += pooled.feature_sums(x[batch], np.append(offsets, len(batch)))
    return sums


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
    return Sample(len(x), x.shape[1], x.__getitem__, partial(sums_over_bins, x))


def require_points(name: str, alphabet: Any, has_weights: bool) -> None:
    """Refuse weights, and strings of characters."""
    if has_weights:
        raise SampleSetError(f"{name} has weights. Draw points by weight, or omit weights.")
    if alphabet is not None:
        raise SampleSetError(f"{name} holds strings of characters, whose codes are no coordinates")
