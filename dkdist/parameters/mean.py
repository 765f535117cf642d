"""Parameters of kernel mean embeddings: sample sets -> rows whose squared distances are MMD^2 (P3's kernel distance).

    points --frequencies--> weighted means of sines and cosines --roots of weights--> row of features

Two specifications: random frequencies, in any dimension, for points anywhere; and a deterministic grid of
frequencies, for points in a box of up to three dimensions, whose kernel has a certified error. Several bandwidths
have their features side by side: the kernel is the mean of theirs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dkdist.numerics.cosine import TILE
from dkdist.numerics.fourier import orthogonal_frequencies
from dkdist.numerics.fourier_grid import grid_layout
from dkdist.numerics.grid_sums import add_grid_sums, grid_sums, grid_values, shares
from dkdist.numerics.mean_features import LANES, add_mean_features, half_turns, mean_features
from dkdist.numerics.sobol import sobol_normals
from dkdist.parameters.domain import Domain
from dkdist.parameters.embedding import Piece
from dkdist.sets import SampleSets

F32 = NDArray[np.float32]
F64 = NDArray[np.float64]

SETS_AT_ONCE = 64  # float64 sums of so many sets stay in the second-level cache
MOST_OF_BOX = 16  # times the functions of a ball: as many as the box around it has, at most
ROLE = 0x4D45414E  # keeps these random numbers apart from others of the same seed


@dataclass(frozen=True)
class RandomMeanSpec:
    """A mean embedding by random frequencies; ``centre`` is where phases are counted from, and changes no distance."""

    centre: tuple[float, ...]
    sigmas: tuple[float, ...]
    n_components: int
    method: str
    seed: int
    domain: None = None

    @property
    def n_dims(self) -> int:
        """The dimension d of the points."""
        return len(self.centre)

    @property
    def n_features(self) -> int:
        """Length of a set's row: half sines, half cosines."""
        return self.n_components

    def draw(self) -> RandomMeanParameters:
        """The frequencies of this embedding; drawn once in a process."""
        return _draw_random(self)


@lru_cache(maxsize=8)
def _draw_random(spec: RandomMeanSpec) -> RandomMeanParameters:
    return RandomMeanParameters(spec)


class RandomMeanParameters:
    """Drawn frequencies of a `RandomMeanSpec`; immutable, shared by all blocks."""

    def __init__(self, spec: RandomMeanSpec) -> None:
        self.spec = spec
        rng = np.random.default_rng([spec.seed, ROLE])
        count, draw = spec.n_components // (2 * len(spec.sigmas)), DRAWS[spec.method]
        W = [draw(rng, count, spec.n_dims) / sigma for sigma in spec.sigmas]
        self._half_turns, self._centre = half_turns(np.concatenate(W)), np.array(spec.centre)

    def __reduce__(self) -> tuple[Callable[[RandomMeanSpec], RandomMeanParameters], tuple[RandomMeanSpec]]:
        return _draw_random, (
            self.spec,
        )  # plain numbers travel; whoever needs the frequencies draws them again

    def embed(self, sets: SampleSets) -> F32:
        """Rows of the embedding: (n_sets, n_components) float32, sines then cosines."""
        out = np.empty((len(sets), self.spec.n_components), np.float32)
        mean_features(sets.relative, sets.offsets, sets.weights, self._centre, self._half_turns, out)
        return out

    def embed_pieces(self, pieces: Iterable[Piece], n_points: int, weight: float) -> F32:
        """The row (n_components,) of one set that comes in pieces: the same bits as of all at once."""
        sums = np.zeros((2, len(self._half_turns), LANES))
        for points, weights in _whole_tiles(pieces):
            add_mean_features(points, weights, weight / n_points, self._centre, self._half_turns, *sums)
        F = self.spec.n_components // 2
        row = 1 / (np.sqrt(F) * n_points) * sums.reshape(2, -1)[:, :F]
        return np.asarray(row.reshape(-1), np.float32)

    def embed_points(self, points: F32) -> F32:
        """Rows of single points (n, d): (n, n_components) float32."""
        return self.embed(SampleSets(points, np.arange(len(points) + 1)))


def _iid(rng: np.random.Generator, count: int, d: int) -> F64:
    return rng.standard_normal((count, d))


def _orthogonal(rng: np.random.Generator, count: int, d: int) -> F64:
    gaussian = rng.standard_normal((-(-count // d), d, d))
    return orthogonal_frequencies(gaussian, np.sqrt(rng.chisquare(d, count)))


DRAWS: dict[str, Callable[[np.random.Generator, int, int], F64]] = {
    "orthogonal": _orthogonal,
    "sobol": sobol_normals,
    "iid": _iid,
}
"""Standard normal frequencies (count, d) by method."""


@dataclass(frozen=True)
class GridMeanSpec:
    """A mean embedding by one Fourier grid for each bandwidth: its periods and its cut-off.

    Points outside the domain count at its wall, for the grids repeat themselves beyond.
    """

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

    def draw(self) -> GridMeanParameters:
        """The tables of this embedding; made once in a process."""
        return _draw_grid(self)


@lru_cache(maxsize=8)
def _draw_grid(spec: GridMeanSpec) -> GridMeanParameters:
    return GridMeanParameters(spec)


class GridMeanParameters:
    """Tables of a `GridMeanSpec`; immutable, shared by all blocks."""

    def __init__(self, spec: GridMeanSpec) -> None:
        self.spec = spec
        grids = zip(spec.periods, spec.cutoffs, spec.sigmas, strict=True)
        self._grids = [(np.array(L), grid_layout(L, cutoff, sigma)) for L, cutoff, sigma in grids]
        scales = np.concatenate([layout.scales for _, layout in self._grids])
        self._scales = scales / np.sqrt(len(self._grids))

    def __reduce__(self) -> tuple[Callable[[GridMeanSpec], GridMeanParameters], tuple[GridMeanSpec]]:
        return _draw_grid, (self.spec,)  # plain numbers travel; whoever needs the tables makes them again

    def embed(self, sets: SampleSets) -> F32:
        """Rows of the embedding: (n_sets, n_features) float32. Points outside the domain count at its wall."""
        out = np.empty((len(sets), self.spec.n_features), np.float32)
        box = self.spec.domain.arrays
        all_spans = np.stack([sets.offsets[:-1], sets.offsets[1:]], axis=1)
        for start in range(0, len(sets), SETS_AT_ONCE):
            spans = all_spans[start : start + SETS_AT_ONCE]
            weights, factors = shares(sets.weights, spans)
            sums = [
                grid_sums(sets.relative, spans, weights, factors, box, L, layout.lengths)[:, 0]
                for L, layout in self._grids
            ]
            out[start : start + SETS_AT_ONCE] = np.concatenate(sums, axis=1) * self._scales
        return out

    def embed_pieces(self, pieces: Iterable[Piece], n_points: int, weight: float) -> F32:
        """The row (n_features,) of one set that comes in pieces: the same bits as of all at once."""
        box, unit = self.spec.domain.arrays, 1 / weight * n_points
        sums = [np.zeros(int(layout.lengths.sum())) for _, layout in self._grids]
        for points, weights in _whole_tiles(pieces):
            for (L, layout), total in zip(self._grids, sums, strict=True):
                add_grid_sums(points, weights, unit, box, L, layout.lengths, total)
        return np.asarray(np.concatenate(sums) / n_points * self._scales, np.float32)

    def embed_points(self, points: F32) -> F32:
        """Rows of single points (n, d): (n, n_features) float32, without a tile for each of them."""
        box, root = self.spec.domain.arrays, np.sqrt(len(self._grids))
        values = [
            grid_values(points, box, L, layout.lengths, layout.scales / root) for L, layout in self._grids
        ]
        return np.concatenate(values, axis=1) if len(values) > 1 else values[0]


def _whole_tiles(pieces: Iterable[Piece]) -> Iterable[Piece]:
    """The same points in the same order, cut at multiples of a tile."""
    rest: Piece | None = None
    for piece in pieces:
        points, weights = piece if rest is None else _joined(rest, piece)
        whole = len(points) - len(points) % TILE
        yield points[:whole], None if weights is None else weights[:whole]
        rest = points[whole:].copy(), None if weights is None else weights[whole:].copy()
    if rest is not None:
        yield rest


def _joined(first: Piece, second: Piece) -> Piece:
    points = np.concatenate([first[0], second[0]])
    if first[1] is None or second[1] is None:
        return points, None
    return points, np.concatenate([first[1], second[1]])
