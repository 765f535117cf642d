"""Feature rows of sets for `group_test`: quantiles of projections, and summaries along the axes.

    quantiles[l, q] = F_l^-1((q + 1/2) / Q),    F_l the distribution of u_l . z,   z = (x - centre) / scale
    summaries       mean, standard deviation, max (z - mean) and max (mean - z) of z along each axis; max |z|

Directions u are the axes and random directions. Rows have seven representations. A kernel compares three of them:

    distribution   the quantiles on random directions: Euclidean distances are sliced Wasserstein distances
    spread         the standard deviation of the quantiles on each direction, axes included
    shape          the quantiles of each set, centred and scaled by its own mean and spread

The largest difference of one column compares the other four: means, log(1 + standard deviation), log(1 + distance), and
the radius log(1 + max |z|).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dkdist._base.params import FittedParams, Params
from dkdist._numba.arrays import F32, F64
from dkdist.distances._sliced_wasserstein_numba import projected_quantiles
from dkdist.distances.sliced_wasserstein_embedding import random_directions
from dkdist.sets import SampleSets
from dkdist.two_sample._tuning import N_QUANTILES

N_SUMMARIES = 4  # summaries per axis in `axis_summaries` (dkdist/two_sample/group_rows.py)
# 1 / Phi^-1(3/4): standard deviation over median absolute deviation of a Gaussian (Hampel 1974)
MAD_TO_STD = 1.4826


@dataclass(frozen=True)
class GroupRowsSpec(Params["GroupRows"]):
    """Parameters of rows: quantiles of (x - centre) / scale along d axes and ``n_directions`` random directions."""

    centre: tuple[float, ...]
    scale: tuple[float, ...]
    n_directions: int
    seed: int
    domain: None = None

    @property
    def n_dims(self) -> int:
        """Dimension d of the points."""
        return len(self.centre)

    @property
    def n_features(self) -> int:
        """Length m of a row."""
        return (self.n_dims + self.n_directions) * N_QUANTILES + N_SUMMARIES * self.n_dims + 1

    def _build(self) -> GroupRows:
        return GroupRows(self)


class GroupRows(FittedParams[GroupRowsSpec]):
    """Materialized directions of a `GroupRowsSpec`; immutable, shared by all blocks."""

    def __init__(self, spec: GroupRowsSpec) -> None:
        self.spec = spec
        d, unit = spec.n_dims, np.eye(spec.n_dims)
        if spec.n_directions:
            unit = np.concatenate([unit, random_directions(d, spec.n_directions, spec.seed)])
        self._directions = np.ascontiguousarray(unit / np.array(spec.scale))

    def embed(self, sets: SampleSets) -> F32:
        """Compute rows of sets: (n_sets, m) float32."""
        centre, U = np.array(self.spec.centre), self._directions
        rows = projected_quantiles(sets.relative, sets.offsets, sets.weights, centre, U, N_QUANTILES)
        summaries = axis_summaries(sets, centre, np.array(self.spec.scale))
        return np.concatenate([rows * np.float32(np.sqrt(rows.shape[1])), summaries], axis=1)


def axis_summaries(sets: SampleSets, centre: F64, scale: F64) -> F32:
    """Compute summaries (n_sets, 4 d + 1) of z = (x - centre) / scale.

    Mean, standard deviation, and largest distances above and below the mean along each axis; largest distance from 0.
    Points of weight 0 are ignored.
    """
    first, sizes = sets.offsets[:-1], np.diff(sets.offsets)
    z = (sets.relative.astype(np.float64) - centre) / scale
    squares = (z**2).sum(axis=1, keepdims=True)
    weights = np.ones((len(z), 1)) if sets.weights is None else sets.weights.reshape(-1, 1).astype(np.float64)
    total = np.add.reduceat(weights, first)
    mean = np.add.reduceat(weights * z, first) / total
    z -= np.repeat(mean, sizes, axis=0)
    deviation = np.sqrt(np.add.reduceat(weights * z**2, first) / total)
    z *= weights > 0
    above, below = np.maximum.reduceat(z, first), -np.minimum.reduceat(z, first)
    radius = np.sqrt(np.maximum.reduceat(squares * (weights > 0), first))
    return np.concatenate([mean, deviation, above, below, radius], axis=1).astype(np.float32)


def centre_and_scale(rows: F32, n_dims: int) -> tuple[F64, F64]:
    """Return the medians over sets of the sets' medians and interquartile ranges, (d,) each, from rows (n, m).

    A dimension with interquartile range 0 is scaled by its standard deviation between sets. Results do not depend on
    the order of the sets, bit for bit.
    """
    quantiles = rows[:, : n_dims * N_QUANTILES].reshape(len(rows), -1, N_QUANTILES).astype(np.float64)
    quarter, middle = N_QUANTILES // 4, N_QUANTILES // 2
    centre = np.median(quantiles[:, :, middle], axis=0)
    scale = np.median(quantiles[:, :, -quarter] - quantiles[:, :, quarter - 1], axis=0)
    between = np.sort(quantiles, axis=0).std(axis=(0, 2))
    scale = np.where(scale > 0, scale, between)
    return centre, np.where(scale > 0, scale, 1.0)


def representations(rows: F32, n_dims: int) -> dict[str, F32]:
    """Split rows (n, m) of a `GroupRowsSpec` into seven representations, (n, n_columns) float32 each."""
    n_summaries = N_SUMMARIES * n_dims + 1
    quantiles = rows[:, :-n_summaries].reshape(len(rows), -1, N_QUANTILES)
    edges = [n_dims, 2 * n_dims, n_summaries - 1]
    mean, deviation, extremes, radius = np.split(rows[:, -n_summaries:], edges, axis=1)
    location = quantiles.mean(axis=2, dtype=np.float64)
    spread = quantiles.std(axis=2, dtype=np.float64)
    unit = np.where(spread > 0, spread, 1.0)
    shape = (quantiles - location[:, :, None]) / unit[:, :, None]
    has_random_directions = quantiles.shape[1] > n_dims
    return {
        "distribution": np.ascontiguousarray(
            (quantiles[:, n_dims:] if has_random_directions else quantiles).reshape(len(rows), -1)
        ),
        "spread": standardize_columns(spread),
        "shape": shape.reshape(len(rows), -1).astype(np.float32),
        "axis means": mean,
        "axis spreads": np.log1p(deviation),
        "axis extremes": np.log1p(np.maximum(extremes, 0)),
        "radius": np.log1p(radius),
    }


def standardize_columns(columns: F64) -> F32:
    """Centre columns (n, k) at their medians; scale by median absolute deviations or, if 0, standard deviations."""
    columns = columns - np.median(columns, axis=0)
    unit = MAD_TO_STD * np.median(np.abs(columns), axis=0)
    deviation = np.sort(columns, axis=0).std(axis=0)
    unit = np.where(unit > 0, unit, deviation)
    return np.asarray(columns / np.where(unit > 0, unit, 1.0), np.float32)
