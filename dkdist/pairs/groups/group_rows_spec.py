"""Rows that groups of sets are compared by: quantiles of projections on the axes and on random directions.

    row[l, q] = F_l^-1((q + 1/2) / Q),    F_l the distribution of u_l . (x - centre) / scale

They are read four ways, so that a difference shows in one of them however small it is beside the others:

    distribution   the quantiles on random directions: Euclidean distances are sliced Wasserstein distances
    location       their means along the axes
    spread         their standard deviations on all directions
    shape          what is left when each set is counted from its location in units of its spread
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dkdist.base.embedding_spec import Specification, Tables
from dkdist.distances.sliced.sliced_wasserstein_embedding_loops import projected_quantiles
from dkdist.distances.sliced.sliced_wasserstein_embedding_spec import random_directions
from dkdist.loops.array_types import F32, F64
from dkdist.sets import SampleSets

N_QUANTILES = 16
TO_STANDARD = 1.4826  # of a median absolute deviation: the standard deviation of a Gaussian


@dataclass(frozen=True)
class GroupRowsSpec(Specification["GroupRows"]):
    """Which quantiles of (x - centre) / scale: along the d axes, then on ``n_directions`` random ones."""

    centre: tuple[float, ...]
    scale: tuple[float, ...]
    n_directions: int
    seed: int
    domain: None = None

    @property
    def n_dims(self) -> int:
        """The dimension d of the points."""
        return len(self.centre)

    @property
    def n_features(self) -> int:
        """Length m of a set's row."""
        return (self.n_dims + self.n_directions) * N_QUANTILES

    def _tables(self) -> GroupRows:
        return GroupRows(self)


class GroupRows(Tables[GroupRowsSpec]):
    """Directions of a `GroupRowsSpec`; immutable, shared by all blocks."""

    def __init__(self, spec: GroupRowsSpec) -> None:
        self.spec = spec
        d, unit = spec.n_dims, np.eye(spec.n_dims)
        if spec.n_directions:
            unit = np.concatenate([unit, random_directions(d, spec.n_directions, spec.seed)])
        self._directions = np.ascontiguousarray(unit / np.array(spec.scale))

    def embed(self, sets: SampleSets) -> F32:
        """Rows of the embedding: (n_sets, m) float32."""
        centre, U = np.array(self.spec.centre), self._directions
        rows = projected_quantiles(sets.relative, sets.offsets, sets.weights, centre, U, N_QUANTILES)
        return rows * np.float32(np.sqrt(rows.shape[1]))


def centre_and_scale(along_axes: F32) -> tuple[F64, F64]:
    """Median over sets of their medians, and of their interquartile ranges, (d,) each; from quantiles (n, d Q).

    A dimension in which most sets are of one value is scaled by how sets differ in it. Neither knows an order of the
    sets.
    """
    quantiles = along_axes.reshape(len(along_axes), -1, N_QUANTILES).astype(np.float64)
    quarter, middle = N_QUANTILES // 4, N_QUANTILES // 2
    centre = np.median(quantiles[:, :, middle], axis=0)
    scale = np.median(quantiles[:, :, -quarter] - quantiles[:, :, quarter - 1], axis=0)
    between = np.sort(quantiles, axis=0).std(axis=(0, 2))
    scale = np.where(scale > 0, scale, between)
    return centre, np.where(scale > 0, scale, 1.0)


def representations(rows: F32, n_dims: int) -> dict[str, F32]:
    """The four readings of ``rows`` (n, m) of a `GroupRowsSpec`, each (n, some columns) float32."""
    quantiles = rows.reshape(len(rows), -1, N_QUANTILES)
    location = quantiles.mean(axis=2, dtype=np.float64)
    spread = quantiles.std(axis=2, dtype=np.float64)
    unit = np.where(spread > 0, spread, 1.0)
    shape = (quantiles - location[:, :, None]) / unit[:, :, None]
    several = quantiles.shape[1] > n_dims
    return {
        "distribution": np.ascontiguousarray(
            (quantiles[:, n_dims:] if several else quantiles).reshape(len(rows), -1)
        ),
        "location": standardised(location[:, :n_dims]),
        "spread": standardised(spread),
        "shape": shape.reshape(len(rows), -1).astype(np.float32),
    }


def standardised(columns: F64) -> F32:
    """Columns (n, k) from their medians, in units of their median absolute deviations, or of their deviations."""
    columns = columns - np.median(columns, axis=0)
    unit = TO_STANDARD * np.median(np.abs(columns), axis=0)
    deviation = np.sort(columns, axis=0).std(axis=0)
    unit = np.where(unit > 0, unit, deviation)
    return np.asarray(columns / np.where(unit > 0, unit, 1.0), np.float32)
