"""What scales sets, in plain numbers: a centre and a scale of each column, knots of its ranks, or each set's own.

    robust, standard    x' = clip((x - centre) / scale, -c, c)
    quantile            x' = F(x), the mid-distribution function of the column, linear between knots

A `ScalerSpec` is a map of views (`store.set_map`): it travels with them, and scales what they read. Statistics of a set
of its own are of up to 65,536 of its points, drawn by a hash of their places, as those of all sets together are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from dkdist.base.drawn_samples import SEED, sample_size
from dkdist.loops.array_types import F32, F64
from dkdist.loops.mid_ranks import column_knots, ranked_column, ranked_sets
from dkdist.loops.points import drawn_points, read_only, set_arrays, weight_array
from dkdist.plain.kept import kept
from dkdist.scaling.components_spec import SetMapSpec
from dkdist.scaling.set_scaler_loops import LARGEST, means, middles, moved
from dkdist.sets import SampleSets

MOST_KNOTS, LEAST_KNOTS, ALL_KNOTS = 129, 17, 1024  # of a column, of one of many columns, of all together
MOST_SHARE = 1 + 1e-6  # of all weight, in sums that were rounded

Numbers = tuple[float, ...]
STATISTICS: dict[str, Callable[..., Any]] = {"robust": middles, "standard": means}


@kept
@dataclass(frozen=True)
class Knots:
    """Values of a column in rising order, with the share of all weight below and up to each."""

    values: Numbers
    below: Numbers
    upto: Numbers

    def __post_init__(self) -> None:
        if not 0 < len(self.values) == len(self.below) == len(self.upto):
            raise ValueError("knots must be as many values as shares of weight, and at least one")
        values, below, upto = map(np.asarray, (self.values, self.below, self.upto))
        rising = (np.abs(values) <= np.finfo(np.float32).max).all() and (np.diff(values) > 0).all()
        if not rising or not ((below >= 0) & (below <= upto) & (upto <= MOST_SHARE)).all():
            raise ValueError("knots must be rising float32 values with shares of weight from 0 to 1")


@kept
@dataclass(frozen=True)
class ScalerSpec(SetMapSpec):
    """What defines a scaler: columns counted from ``origin``, or with ``per_set`` each set by its own statistics."""

    method: str
    origin: Numbers
    per_set: bool = False
    clip: float | None = None
    centre: Numbers | None = None
    scale: Numbers | None = None
    knots: tuple[Knots, ...] | None = None

    def __post_init__(self) -> None:
        needed = {"none": (), "quantile": ("knots",)}.get(self.method, ("centre", "scale"))
        for name in () if self.per_set else needed:
            if len(getattr(self, name) or ()) != self.n_dims:
                raise ValueError(f"{name} must be {self.n_dims}, one for each column")

    @property
    def n_features(self) -> int:
        """The dimension of what it makes: that of the points."""
        return self.n_dims

    @property
    def label(self) -> str:
        """Its name, for the repr of views."""
        return f"SetScaler({self.method!r}{', per_set=True' if self.per_set else ''})"

    def of_sets(self, sets: SampleSets, drawn: SampleSets | None = None) -> SampleSets:
        """Scaled sets, float32 from the origin 0; weights stay. Sets by their own statistics: those of ``drawn``."""
        if self.method == "none":
            return sets
        given = sets.rebased(np.array(self.origin))
        points, out = given.relative, np.empty(given.relative.shape, np.float32)
        if self.per_set:
            self._scale_by(drawn_of_each(given) if drawn is None else drawn, given, out)
        elif self.knots is not None:
            for j, knots in enumerate(self.knots):
                ranked_column(points, j, *map(np.array, (knots.values, knots.below, knots.upto)), out)
        else:
            ends = read_only(np.array([0, len(points)]))
            moved(points, ends, np.array([self.centre]), np.array([self.scale]), self._limit, out)
        return SampleSets._trusted(out, sets.offsets, sets.weights, labels=sets._labels)

    def of_pieces(self, pieces: Iterator[SampleSets], n_points: int) -> ScalerSpec | OneSet:
        """What scales the one set of these pieces, each by itself."""
        return OneSet(self, drawn_of_pieces(self, pieces, n_points)) if self.per_set else self

    @property
    def _limit(self) -> float:
        return LARGEST if self.clip is None else self.clip

    def _scale_by(self, drawn: SampleSets, sets: SampleSets, out: F32) -> None:
        """Scale each set by statistics of what was drawn of it."""
        of = set_arrays(drawn.relative, drawn.offsets, drawn.weights)
        points, offsets = sets.relative, sets.offsets
        if self.method == "quantile":
            ranked_sets(points, offsets, *of, out)
            return
        centre, scale = STATISTICS[self.method](*of)
        moved(points, offsets, centre, np.where(scale > 0, scale, 1.0), self._limit, out)


@dataclass(frozen=True)
class OneSet(SetMapSpec):
    """What scales one set, which comes in pieces, by what was drawn of all of it."""

    spec: ScalerSpec
    drawn: SampleSets

    @property
    def label(self) -> str:
        """As that of its specification."""
        return self.spec.label

    @property
    def token(self) -> str:
        """As that of its specification: the set is the view's."""
        return self.spec.token

    @property
    def n_features(self) -> int:
        """The dimension of the points."""
        return self.spec.n_features

    def of_sets(self, sets: SampleSets) -> SampleSets:
        """A piece of the set, scaled."""
        return self.spec.of_sets(sets, self.drawn)


def drawn_of_each(sets: SampleSets) -> SampleSets:
    """Sets as statistics see them: large ones have as many of their points as a sample has."""
    most, sizes = sample_size(sets.n_dims), sets.sizes
    if sizes.max(initial=0) <= most:
        return sets
    each = [drawn_points(np.array([0, n]), 0, 0, most / n, SEED) for n in sizes.tolist()]
    edges = np.concatenate([[0], np.cumsum(list(map(len, each)))])
    rows = np.concatenate([a + own for a, own in zip(sets.offsets, each, strict=False)])
    return sets._of_rows(rows, edges)


def drawn_of_pieces(spec: ScalerSpec, pieces: Iterator[SampleSets], n_points: int) -> SampleSets:
    """The same of one set that comes in pieces: one set."""
    share, start, parts = sample_size(spec.n_dims) / n_points, 0, list[SampleSets]()
    for piece in pieces:
        rows = drawn_points(piece.offsets, 0, start, share, SEED)
        parts.append(piece.rebased(np.array(spec.origin))._of_rows(rows, np.array([0, len(rows)])))
        start += piece.n_points
    weights = [part.weights for part in parts if part.weights is not None]
    points = np.concatenate([part.relative for part in parts])
    return SampleSets._trusted(
        points, np.array([0, len(points)]), np.concatenate(weights) if weights else None
    )


def pooled_knots(points: F32, weights: F64 | None) -> tuple[Knots, ...]:
    """The knots of each column: its different values, or of too many some that are as far apart in rank."""
    most = int(np.clip(ALL_KNOTS // points.shape[1], LEAST_KNOTS, MOST_KNOTS))
    return tuple(_column_knots(points, j, weights, most) for j in range(points.shape[1]))


def _column_knots(points: F32, j: int, weights: F64 | None, most: int) -> Knots:
    found = np.array(column_knots(points, j, *weight_array(weights)))
    if found.shape[1] > most:
        upto = found[2]
        levels = np.linspace(0, 1, most)
        found = found[:, np.unique(np.minimum(np.searchsorted(upto, levels), len(upto) - 1))]
    return Knots(*(tuple(row.tolist()) for row in found))
