"""Parameters of kernel mean embeddings: sample sets -> rows whose squared distances are MMD^2 (P3's kernel distance).

    points --frequencies--> weighted means of sines and cosines --roots of weights--> row of features

Two specifications: random frequencies, in any dimension, for points anywhere; and a deterministic grid of
frequencies, for points in a box of up to three dimensions, whose kernel has a certified error. Several bandwidths
have their features side by side: the kernel is the mean of theirs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dkdist.base.embedding_spec import Domain, Specification, Tables
from dkdist.base.influence import LinearInfluence
from dkdist.base.roles import Role
from dkdist.kernel.kinds.kernel_frequencies import DRAWS
from dkdist.kernel.kinds.registry import get_kernel
from dkdist.kernel.sums.fourier_grid import grid_layout
from dkdist.kernel.sums.grid_sums_loops import Products, add_grid_sums, grid_sums, grid_values, shares
from dkdist.kernel.sums.random_loops import LANES, add_mean_features, mean_features, waves_of
from dkdist.loops.array_types import F32, F64
from dkdist.loops.points import TILE
from dkdist.plain.kept import kept
from dkdist.sets import SampleSets

SETS_AT_ONCE = 64  # float64 sums of so many sets stay in the second-level cache
MOST_OF_BOX = 16  # times the functions of a ball: as many as the box around it has, at most


@kept
@dataclass(frozen=True)
class RandomMeanSpec(Specification["RandomMeanParameters"]):
    """A mean embedding by random frequencies; ``centre`` is where phases are counted from, and changes no distance."""

    _kept = 8

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
        """Length of a set's row: half sines, half cosines."""
        return self.n_components

    def _tables(self) -> RandomMeanParameters:
        return RandomMeanParameters(self)


class RandomMeanParameters(LinearInfluence, Tables[RandomMeanSpec]):
    """Drawn frequencies of a `RandomMeanSpec`; immutable, shared by all blocks."""

    def __init__(self, spec: RandomMeanSpec) -> None:
        self.spec = spec
        rng = np.random.default_rng([spec.seed, Role.MEAN_FREQUENCIES])
        count, draw = spec.n_components // (2 * len(spec.sigmas)), DRAWS[spec.method]
        of_kernel = get_kernel(spec.kernel).frequencies
        W = [of_kernel(rng, draw(rng, count, spec.n_dims)) / sigma for sigma in spec.sigmas]
        self._waves = waves_of(np.concatenate(W), np.array(spec.centre))

    def embed(self, sets: SampleSets) -> F32:
        """Rows of the embedding: (n_sets, n_components) float32, sines then cosines."""
        out = np.empty((len(sets), self.spec.n_components), np.float32)
        mean_features(sets.relative, sets.offsets, sets.weights, self._waves, out)
        return out

    def row_sum(self, n_points: int, weight: float) -> RowOfTiles:
        """The row (n_components,) of one set that comes in pieces: the same bits as of all at once."""
        sums, F = np.zeros((2, len(self._waves.half_turns), LANES)), self.spec.n_components // 2

        def take(points: F32, weights: F32 | None) -> None:
            add_mean_features(points, weights, weight / n_points, self._waves, sums)

        return RowOfTiles(take, lambda: 1 / (np.sqrt(F) * n_points) * sums.reshape(2, -1)[:, :F])

    def embed_points(self, points: F32) -> F32:
        """Rows of single points (n, d): (n, n_components) float32."""
        return self.embed(SampleSets(points, np.arange(len(points) + 1)))


@kept
@dataclass(frozen=True)
class GridMeanSpec(Specification["GridMeanParameters"]):
    """A mean embedding by one Fourier grid for each bandwidth: its periods and its cut-off.

    Points outside the domain count at its wall, for the grids repeat themselves beyond.
    """

    _kept = 8

    domain: Domain
    sigmas: tuple[float, ...]
    periods: tuple[tuple[float, ...], ...]
    cutoffs: tuple[float, ...]
    n_features: int

    def __post_init__(self) -> None:
        if not len(self.sigmas) == len(self.periods) == len(self.cutoffs):
            raise ValueError(f"a grid has a bandwidth, periods and a cut-off: found those of {self}")
        box = sum(
            math.prod(2 * (cutoff * length / (2 * math.pi)) + 1 for length in periods)
            for periods, cutoff in zip(self.periods, self.cutoffs, strict=True)
        )
        if not box <= MOST_OF_BOX * (self.n_features + 1):
            raise ValueError(
                f"grids of {box:.3g} functions are said to have {self.n_features} within the cut-off"
            )

    @property
    def n_dims(self) -> int:
        """The dimension d of the points."""
        return self.domain.n_dims

    def _tables(self) -> GridMeanParameters:
        return GridMeanParameters(self)


class GridMeanParameters(LinearInfluence, Tables[GridMeanSpec]):
    """Tables of a `GridMeanSpec`; immutable, shared by all blocks."""

    def __init__(self, spec: GridMeanSpec) -> None:
        self.spec = spec
        self._grids, n = list[tuple[Products, F64]](), len(spec.sigmas)
        for periods, cutoff, sigma in zip(spec.periods, spec.cutoffs, spec.sigmas, strict=True):
            layout = grid_layout(periods, cutoff, sigma)
            products = Products(*spec.domain.arrays, np.array(periods), layout.lengths)
            self._grids.append((products, layout.scales / np.sqrt(n)))
        self._scales = np.concatenate([scales for _, scales in self._grids])

    def embed(self, sets: SampleSets) -> F32:
        """Rows of the embedding: (n_sets, n_features) float32. Points outside the domain count at its wall."""
        out = np.empty((len(sets), self.spec.n_features), np.float32)
        spans = np.stack([sets.offsets[:-1], sets.offsets[1:]], axis=1)
        weights, factors = shares(sets.weights, sets.offsets)
        for start in range(0, len(sets), SETS_AT_ONCE):
            some = slice(start, start + SETS_AT_ONCE)
            given = sets.relative, spans[some], weights, factors[some]
            sums = [grid_sums(*given, products)[:, 0] for products, _ in self._grids]
            out[some] = np.concatenate(sums, axis=1) * self._scales
        return out

    def row_sum(self, n_points: int, weight: float) -> RowOfTiles:
        """The row (n_features,) of one set that comes in pieces: the same bits as of all at once."""
        unit, sums = 1 / weight * n_points, [np.zeros(len(scales)) for _, scales in self._grids]

        def take(points: F32, weights: F32 | None) -> None:
            for (products, _), total in zip(self._grids, sums, strict=True):
                add_grid_sums(points, weights, unit, products, total[None])

        return RowOfTiles(take, lambda: np.concatenate(sums) / n_points * self._scales)

    def embed_points(self, points: F32) -> F32:
        """Rows of single points (n, d): (n, n_features) float32, without a tile for each of them."""
        values = [grid_values(points, products, scales) for products, scales in self._grids]
        return np.concatenate(values, axis=1) if len(values) > 1 else values[0]


class RowOfTiles:
    """The row of a set that comes in pieces: ``take`` sees whole tiles of points, ``made()`` is the row then."""

    def __init__(self, take: Callable[[F32, F32 | None], None], made: Callable[[], F64]) -> None:
        from dkdist.base.point_runs import CutPieces  # for sets that come in pieces alone

        self._pieces, self._made = CutPieces(TILE, take), made

    def add(self, points: F32, weights: F32 | None) -> None:
        """The next points (m, d) and their weights (m,)."""
        self._pieces.add(points, weights)

    def row(self) -> F32:
        """The row (m,), after the last."""
        self._pieces.end()
        return np.asarray(self._made().reshape(-1), np.float32)
