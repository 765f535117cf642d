"""Parameters of kernel mean embeddings with random frequencies or with a Fourier grid."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dkdist._base.influence import LinearInfluence
from dkdist._base.params import Domain, FittedParams, Params
from dkdist._base.random_streams import RngStream
from dkdist._numba.arrays import F32, F64
from dkdist._numba.points import TILE_POINTS
from dkdist._utils.serialization import serializable
from dkdist.kernels._grid_sums_numba import Products, add_grid_sums, grid_sums, grid_values, weight_fractions
from dkdist.kernels._random_numba import (
    LANES_PER_GROUP,
    add_mean_features,
    mean_features,
    waves_of,
)
from dkdist.kernels._tuning import (
    MAX_BOX_TO_BALL_RATIO,
    SET_BATCH_SIZE,
)
from dkdist.kernels.fourier_grid import grid_layout
from dkdist.kernels.registry import NORMAL_SAMPLERS, get_kernel
from dkdist.sets import SampleSets


@serializable("RandomMeanSpec")
@dataclass(frozen=True)
class RandomMeanSpec(Params["RandomMeanParameters"]):
    """Parameters of a mean embedding with random frequencies; ``centre`` is the origin of the phases."""

    _cache_size = 8

    centre: tuple[float, ...]
    sigmas: tuple[float, ...]
    n_components: int
    method: str
    seed: int
    domain: None = None
    kernel: str = "gaussian"

    @property
    def n_dims(self) -> int:
        """The dimension d of the points."""
        return len(self.centre)

    @property
    def n_features(self) -> int:
        """Length of a row: half sines, half cosines."""
        return self.n_components

    def _build(self) -> RandomMeanParameters:
        return RandomMeanParameters(self)


class RandomMeanParameters(LinearInfluence, FittedParams[RandomMeanSpec]):
    """Materialized frequencies of a `RandomMeanSpec`; immutable, shared by all blocks."""

    def __init__(self, spec: RandomMeanSpec) -> None:
        self.spec = spec
        rng = np.random.default_rng([spec.seed, RngStream.MEAN_FREQUENCIES])
        count, draw = spec.n_components // (2 * len(spec.sigmas)), NORMAL_SAMPLERS[spec.method]
        frequencies = get_kernel(spec.kernel).frequencies
        W = [frequencies(rng, draw(rng, count, spec.n_dims)) / sigma for sigma in spec.sigmas]
        self._waves = waves_of(np.concatenate(W), np.array(spec.centre))

    def embed(self, sets: SampleSets) -> F32:
        """Return rows of the embedding: (n_sets, n_components) float32, sines then cosines."""
        out = np.empty((len(sets), self.spec.n_components), np.float32)
        mean_features(sets.relative, sets.offsets, sets.weights, self._waves, out)
        return out

    def row_sum(self, n_points: int, weight: float) -> RowAccumulator:
        """Return an accumulator of one set's row (n_components,); no bit depends on how the set is split."""
        sums, F = np.zeros((2, len(self._waves.half_turns), LANES_PER_GROUP)), self.spec.n_components // 2

        def add_tile(points: F32, weights: F32 | None) -> None:
            add_mean_features(points, weights, weight / n_points, self._waves, sums)

        return RowAccumulator(add_tile, lambda: 1 / (np.sqrt(F) * n_points) * sums.reshape(2, -1)[:, :F])

    def embed_points(self, points: F32) -> F32:
        """Return rows of single points (n, d): (n, n_components) float32."""
        return self.embed(SampleSets(points, np.arange(len(points) + 1)))


@serializable("GridMeanSpec")
@dataclass(frozen=True)
class GridMeanSpec(Params["GridMeanParameters"]):
    """Parameters of a mean embedding with a Fourier grid (periods and cut-off) per bandwidth.

    Points outside the domain are clipped to its boundary, because grids are periodic.
    """

    _cache_size = 8

    domain: Domain
    sigmas: tuple[float, ...]
    periods: tuple[tuple[float, ...], ...]
    cutoffs: tuple[float, ...]
    n_features: int

    def __post_init__(self) -> None:
        if not len(self.sigmas) == len(self.periods) == len(self.cutoffs):
            raise ValueError(f"sigmas, periods and cutoffs must have the same length; got {self}.")
        n_box_functions = sum(
            math.prod(2 * (cutoff * length / (2 * math.pi)) + 1 for length in periods)
            for periods, cutoff in zip(self.periods, self.cutoffs, strict=True)
        )
        if not n_box_functions <= MAX_BOX_TO_BALL_RATIO * (self.n_features + 1):
            raise ValueError(
                f"n_features must be at least {n_box_functions / MAX_BOX_TO_BALL_RATIO - 1:.3g} for these grids; got "
                f"{self.n_features}."
            )

    @property
    def n_dims(self) -> int:
        """The dimension d of the points."""
        return self.domain.n_dims

    def _build(self) -> GridMeanParameters:
        return GridMeanParameters(self)


class GridMeanParameters(LinearInfluence, FittedParams[GridMeanSpec]):
    """Materialized grids of a `GridMeanSpec`; immutable, shared by all blocks."""

    def __init__(self, spec: GridMeanSpec) -> None:
        self.spec = spec
        self._grids, n = list[tuple[Products, F64]](), len(spec.sigmas)
        for periods, cutoff, sigma in zip(spec.periods, spec.cutoffs, spec.sigmas, strict=True):
            layout = grid_layout(periods, cutoff, sigma)
            products = Products(*spec.domain.arrays, np.array(periods), layout.lengths)
            self._grids.append((products, layout.scales / np.sqrt(n)))
        self._scales = np.concatenate([scales for _, scales in self._grids])

    def embed(self, sets: SampleSets) -> F32:
        """Return rows of the embedding: (n_sets, n_features) float32. Points outside the domain are clipped."""
        out = np.empty((len(sets), self.spec.n_features), np.float32)
        spans = np.stack([sets.offsets[:-1], sets.offsets[1:]], axis=1)
        weights, factors = weight_fractions(sets.weights, sets.offsets)
        for start in range(0, len(sets), SET_BATCH_SIZE):
            batch = slice(start, start + SET_BATCH_SIZE)
            arrays = sets.relative, spans[batch], weights, factors[batch]
            sums = [grid_sums(*arrays, products)[:, 0] for products, _ in self._grids]
            out[batch] = np.concatenate(sums, axis=1) * self._scales
        return out

    def row_sum(self, n_points: int, weight: float) -> RowAccumulator:
        """Return an accumulator of one set's row (n_features,); no bit depends on how the set is split."""
        unit, sums = 1 / weight * n_points, [np.zeros(len(scales)) for _, scales in self._grids]

        def add_tile(points: F32, weights: F32 | None) -> None:
            for (products, _), total in zip(self._grids, sums, strict=True):
                add_grid_sums(points, weights, unit, products, total[None])

        return RowAccumulator(add_tile, lambda: np.concatenate(sums) / n_points * self._scales)

    def embed_points(self, points: F32) -> F32:
        """Return rows of single points (n, d): (n, n_features) float32, without padding each point to a tile."""
        values = [grid_values(points, products, scales) for products, scales in self._grids]
        return np.concatenate(values, axis=1) if len(values) > 1 else values[0]


class RowAccumulator:
    """Accumulator of the row of a set that is read in pieces; ``add_tile`` adds a tile, ``finish`` returns the row."""

    def __init__(self, add_tile: Callable[[F32, F32 | None], None], finish: Callable[[], F64]) -> None:
        from dkdist._base.params import ChunkBuffer  # imported lazily: only oversized sets need it

        self._pieces, self._finish = ChunkBuffer(TILE_POINTS, add_tile), finish

    def add(self, points: F32, weights: F32 | None) -> None:
        """Add the next points (m, d) and their weights (m,)."""
        self._pieces.add(points, weights)

    def row(self) -> F32:
        """Return the row (m,) after the last piece."""
        self._pieces.flush()
        return np.asarray(self._finish().reshape(-1), np.float32)
