"""Sets of many points, run by run: what is a mean over points is a mean over each run first, then over runs.

    mean over a set = sum_r W_r (mean over run r) / sum_r W_r        W_r: the weight of the points of run r

Runs are 4 MiB of points (`dkdist._numba.points.chunk_length`), from the first one of the set on. Compiled loops see one
run, in float32, and runs are taken together in float64. So a set that comes from a store in pieces, cut anew into
runs, has the bits of the same set in memory, and no set needs more memory than a run does.

What every embedding of sample sets is made of: a record of plain numbers, the tables drawn from it, and its domain.

A specification can be compared, hashed, stored as JSON and sent in a graph; ``draw`` makes the tables it stands
for, the same in every process. A set's row depends on that set alone, bit for bit on processors of one kind. A domain
is the box that densities live on, scaled to the unit cube.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any, Generic, Protocol, Self, TypeGuard, TypeVar

import numpy as np

from dkdist._numba.arrays import F32, F64, I64
from dkdist._numba.points import are_long, chunk_length, count_outside, weight_totals
from dkdist._utils.serialization import serializable
from dkdist.sets import SampleSets

LEAST_WIDTH, MOST_WIDTH = 1e-37, 1e37  # of a dimension: 1 / width is a float32, unless it is flat


@serializable("Domain")
@dataclass(frozen=True)
class Domain:
    """A box; ``fixed`` ones refuse points outside, others (chosen from the data) clip them to the wall.

    ``ordinary`` is the share of points that may lie outside before anybody is told.
    """

    low: tuple[float, ...]
    high: tuple[float, ...]
    fixed: bool
    ordinary: float = 0.0

    @property
    def n_dims(self) -> int:
        """The dimension d of the box."""
        return len(self.low)

    def of(self, dims: tuple[int, ...]) -> Domain:
        """The box of some of its dimensions."""
        low, high = (tuple(side[j] for j in dims) for side in (self.low, self.high))
        return Domain(low, high, self.fixed, self.ordinary)

    @property
    def arrays(self) -> tuple[F32, F32]:
        """(low, high), each (d,) float32."""
        return np.array(self.low, np.float32), np.array(self.high, np.float32)

    @property
    def low_and_scale(self) -> tuple[F32, F32]:
        """low and 1 / (high - low), each (d,) float32; a flat dimension has scale 0 and sits at the lower wall."""
        low, _ = self.arrays
        width = np.array(self.high) - np.array(self.low)
        wide = width > LEAST_WIDTH
        return low, np.divide(1, width, out=np.zeros_like(width), where=wide).astype(np.float32)

    def expected_outside(self, n_points: int) -> float:
        """How many of some points may lie outside by chance (three standard deviations) before anybody is told."""
        expected = self.ordinary * n_points
        return expected + 3 * float(np.sqrt(expected))

    def outside(self, sets: SampleSets) -> I64:
        """Number of points of each set that lie outside the box: (n_sets,)."""
        low, high = self.arrays
        return count_outside(sets.relative, sets.offsets, low, high)


T = TypeVar("T")
S = TypeVar("S", bound=Any)


class Params(Generic[T]):
    """Base of parameters of embeddings: frozen dataclasses of plain numbers.

    A subclass has a method ``embed``, or ``_build`` gives an object that has one and holds larger arrays.
    """

    _kept = 16  # tables of a class, those drawn last; 0 for what is costly to compare

    def require(self, sets: SampleSets, first: int) -> None:
        """Raise `SampleSetError` for the first set that has no row; ``first`` is the position of set 0."""

    @property
    def spec(self) -> Self:
        """Themselves: parameters without tables are their own."""
        return self

    def materialize(self) -> T:
        """The tables it stands for; drawn once in a process."""
        kind: Any = type(self)
        made: T = _cached(kind)(self)
        return made

    def column_names(self, names: Sequence[str]) -> list[str] | None:
        """Names of the columns of a row, from those of the dimensions; None where a column is of several."""
        return None

    def _build(self) -> T:
        return self  # type: ignore[return-value]


def numbered(names: Sequence[str], n_columns: int) -> list[str]:
    """NAME_0, NAME_1, ... of each dimension after the other, as many of each."""
    return [f"{name}_{k}" for name in names for k in range(n_columns // len(names))]


class AroundEmbedding(Params[T]):
    """A specification around that of an embedding, whose dimensions and columns it has."""

    embedding: Any

    @property
    def n_dims(self) -> int:
        """The dimension d of the points."""
        return int(self.embedding.n_dims)

    @property
    def n_features(self) -> int:
        """Length of a set's row."""
        return int(self.embedding.n_features)

    @property
    def ordered(self) -> bool:
        """Whether the order of a set's points may matter to the embedding."""
        return bool(getattr(self.embedding, "ordered", False))


@cache
def _cached(kind: Any) -> Any:
    return lru_cache(kind._kept)(kind._build)


class FittedParams(Generic[S]):
    """Base of what is drawn from a specification; immutable, shared by all blocks."""

    spec: S

    def __reduce__(self) -> tuple[Any, ...]:
        # plain numbers travel; whoever needs the tables makes them again
        return Params.materialize, (self.spec,)


class EmbeddingParameters(Protocol):
    """Drawn tables of a specification; immutable, shared by all blocks."""

    @property
    def spec(self) -> EmbeddingSpec:
        """What these tables were drawn from."""

    def embed(self, sets: SampleSets) -> F32:
        """Rows of the embedding: (n_sets, m) float32."""


class RowSum(Protocol):
    """A row in the making, of one set that comes in pieces."""

    def add(self, points: F32, weights: F32 | None) -> None:
        """The next points (m, d) and their weights (m,)."""

    def row(self) -> F32:
        """The row (m,), after the last: the same bits as of all points at once."""


class Additive(EmbeddingParameters, Protocol):
    """Tables whose rows follow from sums over points, so that a set may come in pieces."""

    def row_sum(self, n_points: int, weight: float) -> RowSum:
        """The row of one set of known size and total weight, before its first piece."""


def is_additive(parameters: Any) -> TypeGuard[Additive]:
    """Whether tables are `Additive`: a comparison with the protocol takes as long as ten sets."""
    return hasattr(parameters, "row_sum")


class EmbeddingSpec(Protocol):
    """What defines an embedding, in plain numbers (a frozen dataclass)."""

    @property
    def n_dims(self) -> int:
        """The dimension d of the points."""

    @property
    def n_features(self) -> int:
        """Length m of a set's row."""

    @property
    def domain(self) -> Domain | None:
        """The box that the points must lie in; None if they may lie anywhere."""

    def require(self, sets: SampleSets, first: int) -> None:
        """Raise `SampleSetError` for the first set that has no row; ``first`` is the position of set 0."""

    def column_names(self, names: Sequence[str]) -> list[str] | None:
        """Names of the columns of a row, from those of the dimensions; None where a column is of several."""

    def materialize(self) -> EmbeddingParameters:
        """The tables of this embedding; drawn once in a process."""


def one_set(points: F32, weights: F32 | None) -> SampleSets:
    """The points of a run, as a set of their own."""
    return SampleSets._trusted(points, np.array([0, len(points)]), weights)


class CutPieces:
    """Pieces of a set that come one by one, cut at multiples of ``length`` points, and then handed to ``use``."""

    def __init__(self, length: int, use: Callable[[F32, F32 | None], None]) -> None:
        self._length, self._use = length, use
        self._rest: tuple[F32, F32 | None] | None = None

    def add(self, points: F32, weights: F32 | None) -> None:
        """The next points (m, d) and their weights (m,)."""
        if self._rest is not None:
            before, masses = self._rest
            points = np.concatenate([before, points])
            weights = None if weights is None or masses is None else np.concatenate([masses, weights])
        whole = len(points) - len(points) % self._length
        if whole:
            self._use(points[:whole], None if weights is None else weights[:whole])
        self._rest = points[whole:].copy(), None if weights is None else weights[whole:].copy()

    def end(self) -> None:
        """There are no more."""
        if self._rest is not None and len(self._rest[0]):
            self._use(*self._rest)
        self._rest = None


class RowOfRuns:
    """The row of a set of d dimensions that comes in pieces: ``take(run, W)`` sees each run that weighs more than
    nothing and its weight, ``made()`` is the row then.
    """

    def __init__(self, d: int, take: Callable[[SampleSets, float], None], made: Callable[[], F32]) -> None:
        self._take, self._made, self._length = take, made, chunk_length(d)
        self._pieces = CutPieces(self._length, self._use)

    def add(self, points: F32, weights: F32 | None) -> None:
        """The next points (m, d) and their weights (m,)."""
        self._pieces.add(points, weights)

    def row(self) -> F32:
        """The row (m,), after the last."""
        self._pieces.end()
        return self._made()

    def _use(self, points: F32, weights: F32 | None) -> None:
        for run, weight in _runs(points, weights, 0, len(points), self._length):
            self._take(run, weight)


Compute = Callable[[SampleSets, I64], F32]
"""Numbers (n_spans, k) of the sets at spans (n_spans, 2): the first row of each and the row after its last."""


class MeanOfRuns:
    """The mean of what ``compute`` gives for each run: k numbers."""

    def __init__(self, compute: Compute) -> None:
        self._compute, self._weight = compute, 0.0
        self._sum: F64 | None = None

    def take(self, run: SampleSets, weight: float) -> None:
        """One more run."""
        more = weight * self._compute(run, spans_of(run)).reshape(-1).astype(np.float64)
        self._sum = more if self._sum is None else self._sum + more
        self._weight += weight

    def mean(self) -> F32:
        """(k,) of all runs."""
        assert self._sum is not None
        return (self._sum / self._weight).astype(np.float32)


def runs_of(sets: SampleSets, span: I64) -> Iterator[tuple[SampleSets, float]]:
    """The runs of the set at a span, and their weights; those of weight zero are left out."""
    weights = None if sets.weights is None else sets.weights.reshape(-1)
    yield from _runs(sets.relative, weights, int(span[0]), int(span[1]), chunk_length(sets.n_dims))


def spans_of(sets: SampleSets) -> I64:
    """(n_sets, 2) the first row of each set and the row after its last."""
    return sets.offsets.repeat(2)[1:-1].reshape(-1, 2)


def compute_by_runs(compute: Compute, sets: SampleSets, spans: I64) -> F32:
    """``compute(sets, spans)``, for sets of many points the mean over their runs."""
    long = are_long(spans, sets.n_dims)
    if not long.any():
        return compute(sets, spans)
    rows = [_mean_of_runs(compute, sets, span) for span in spans[long]]
    out = np.empty((len(spans), len(rows[0])), np.float32)
    out[long] = rows
    if not long.all():
        out[~long] = compute(sets, spans[~long])
    return out


def _mean_of_runs(compute: Compute, sets: SampleSets, span: I64) -> F32:
    means = MeanOfRuns(compute)
    for run, weight in runs_of(sets, span):
        means.take(run, weight)
    return means.mean()


def _runs(
    points: F32, weights: F32 | None, start: int, stop: int, length: int
) -> Iterator[tuple[SampleSets, float]]:
    for a, b in itertools.pairwise([*range(start, stop, length), stop]):
        masses = None if weights is None else weights[a:b]
        total = float(b - a) if masses is None else float(weight_totals(masses, np.array([0, b - a]))[0])
        if total > 0:
            yield one_set(points[a:b], masses), total
