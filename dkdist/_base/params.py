"""Parameters of embeddings, and rows that are means over chunks of large sets.

An embedding is defined by a record of plain numbers (`Params`), which is compared, hashed, stored as JSON and sent in
task graphs. ``materialize`` builds the arrays derived from it (`FittedParams`), identical in every process.

The mean over a large set is the weighted mean over chunks of 4 MiB (`dkdist._numba.points.chunk_length`):

    mean over a set = sum_r W_r (mean over chunk r) / sum_r W_r        W_r: weight of the points of chunk r

Compiled functions process one chunk in float32; chunks are combined in float64. A set that is read in pieces is cut
into the same chunks as a set in memory, so its row is bitwise identical, and only one chunk is in memory.
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

# Range of positive widths: the reciprocal must fit float32 (tests/test_bad_input.py). Constant dimensions have width 0.
MIN_DOMAIN_WIDTH, MAX_DOMAIN_WIDTH = 1e-37, 1e37


@serializable("Domain")
@dataclass(frozen=True)
class Domain:
    """A box. Points outside raise an error if it is ``fixed``; otherwise they are clipped to its boundary.

    ``ordinary`` is the largest fraction of points outside that does not raise a warning.
    """

    low: tuple[float, ...]
    high: tuple[float, ...]
    fixed: bool
    ordinary: float = 0.0

    @property
    def n_dims(self) -> int:
        """Number of dimensions d."""
        return len(self.low)

    def select(self, dims: tuple[int, ...]) -> Domain:
        """Return the box of the dimensions ``dims``."""
        low, high = (tuple(side[j] for j in dims) for side in (self.low, self.high))
        return Domain(low, high, self.fixed, self.ordinary)

    @property
    def arrays(self) -> tuple[F32, F32]:
        """(low, high), each (d,) float32."""
        return np.array(self.low, np.float32), np.array(self.high, np.float32)

    @property
    def low_and_scale(self) -> tuple[F32, F32]:
        """low and 1 / (high - low), each (d,) float32; the scale of a flat dimension is 0."""
        low, _ = self.arrays
        width = np.array(self.high) - np.array(self.low)
        is_wide = width > MIN_DOMAIN_WIDTH
        return low, np.divide(1, width, out=np.zeros_like(width), where=is_wide).astype(np.float32)

    def expected_outside(self, n_points: int) -> float:
        """Return the number of points outside above which to warn: mean plus 3 standard deviations."""
        expected = self.ordinary * n_points
        return expected + 3 * float(np.sqrt(expected))

    def count_outside(self, sets: SampleSets) -> I64:
        """Return the number of points of each set outside the box: (n_sets,)."""
        low, high = self.arrays
        return count_outside(sets.relative, sets.offsets, low, high)


T = TypeVar("T")
S = TypeVar("S", bound=Any)


class Params(Generic[T]):
    """Base class of parameters of embeddings, which are frozen dataclasses of plain numbers.

    A subclass has a method ``embed``, or its ``_build`` returns an object that has one and holds larger arrays.
    """

    # Number of cached fitted parameters per class (tests/base/test_specifications.py); 0 if hashing is expensive.
    _cache_size = 16

    def require(self, sets: SampleSets, first: int) -> None:
        """Raise `SampleSetError` for the first set that has no row; ``first`` is the position of set 0."""

    @property
    def spec(self) -> Self:
        """These parameters; a class without `_build` uses them unchanged as fitted parameters."""
        return self

    def materialize(self) -> T:
        """Return the fitted parameters; built once per process and cached."""
        cls: Any = type(self)
        fitted: T = _cached_build(cls)(self)
        return fitted

    def column_names(self, names: Sequence[str]) -> list[str] | None:
        """Return names of the columns of a row from names of dimensions; None if a column mixes dimensions."""
        return None

    def _build(self) -> T:
        return self  # type: ignore[return-value]


def numbered_names(names: Sequence[str], n_columns: int) -> list[str]:
    """Return NAME_0, NAME_1, ... for each dimension, n_columns in all."""
    return [f"{name}_{k}" for name in names for k in range(n_columns // len(names))]


class EmbeddingWrapperParams(Params[T]):
    """Base class of parameters that wrap those of an ``embedding`` and have its dimensions and columns."""

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
        """Whether the embedding may depend on the order of the points of a set."""
        return bool(getattr(self.embedding, "ordered", False))


@cache
def _cached_build(cls: Any) -> Any:
    return lru_cache(cls._cache_size)(cls._build)


class FittedParams(Generic[S]):
    """Base class of fitted parameters: arrays built from parameters, immutable and shared by all blocks."""

    spec: S

    def __reduce__(self) -> tuple[Any, ...]:
        # Only the parameters are sent to workers; each process rebuilds the arrays.
        return Params.materialize, (self.spec,)


class EmbeddingParameters(Protocol):
    """Protocol of the fitted parameters of an embedding."""

    @property
    def spec(self) -> EmbeddingSpec:
        """The parameters that these arrays were built from."""

    def embed(self, sets: SampleSets) -> F32:
        """Rows of the embedding: (n_sets, m) float32."""


class RowSum(Protocol):
    """Accumulator of the row of one set that is read in pieces."""

    def add(self, points: F32, weights: F32 | None) -> None:
        """Add the next points (m, d) and their weights (m,)."""

    def row(self) -> F32:
        """Return the row (m,) of all points added."""


class AdditiveParameters(EmbeddingParameters, Protocol):
    """Fitted parameters of embeddings whose rows are functions of sums over points; sets may be read in pieces."""

    def row_sum(self, n_points: int, weight: float) -> RowSum:
        """Return an accumulator for one set of known size and total weight."""


def is_additive(parameters: Any) -> TypeGuard[AdditiveParameters]:
    # isinstance with a runtime-checkable protocol would take as long as embedding ten sets.
    return hasattr(parameters, "row_sum")


class EmbeddingSpec(Protocol):
    """Protocol of the parameters of an embedding: a frozen dataclass of plain numbers."""

    @property
    def n_dims(self) -> int:
        """The dimension d of the points."""

    @property
    def n_features(self) -> int:
        """Length m of a set's row."""

    @property
    def domain(self) -> Domain | None:
        """The domain of the points; None if it is unbounded."""

    def require(self, sets: SampleSets, first: int) -> None:
        """Raise `SampleSetError` for the first set that has no row; ``first`` is the position of set 0."""

    def column_names(self, names: Sequence[str]) -> list[str] | None:
        """Return names of the columns of a row from names of dimensions; None if a column mixes dimensions."""

    def materialize(self) -> EmbeddingParameters:
        """Return the fitted parameters; built once per process and cached."""


def single_set(points: F32, weights: F32 | None) -> SampleSets:
    return SampleSets._trusted(points, np.array([0, len(points)]), weights)


class ChunkBuffer:
    """Re-cut pieces of a set at multiples of ``length`` points and pass them to ``callback``."""

    def __init__(self, length: int, callback: Callable[[F32, F32 | None], None]) -> None:
        self._length, self._callback = length, callback
        self._remainder: tuple[F32, F32 | None] | None = None

    def add(self, points: F32, weights: F32 | None) -> None:
        """Add the next points (m, d) and their weights (m,)."""
        if self._remainder is not None:
            previous, previous_weights = self._remainder
            points = np.concatenate([previous, points])
            if weights is not None and previous_weights is not None:
                weights = np.concatenate([previous_weights, weights])
        n_complete = len(points) - len(points) % self._length
        if n_complete:
            self._callback(points[:n_complete], None if weights is None else weights[:n_complete])
        self._remainder = points[n_complete:].copy(), None if weights is None else weights[n_complete:].copy()

    def flush(self) -> None:
        """Pass on the remaining points."""
        if self._remainder is not None and len(self._remainder[0]):
            self._callback(*self._remainder)
        self._remainder = None


class ChunkedRowSum:
    """Accumulator of the row of a set in d dimensions that is read in pieces.

    ``add_chunk(chunk, W)`` is called for each chunk of positive weight W; ``finish()`` returns the row.
    """

    def __init__(
        self, d: int, add_chunk: Callable[[SampleSets, float], None], finish: Callable[[], F32]
    ) -> None:
        self._add_chunk, self._finish, self._length = add_chunk, finish, chunk_length(d)
        self._buffer = ChunkBuffer(self._length, self._add_points)

    def add(self, points: F32, weights: F32 | None) -> None:
        """Add the next points (m, d) and their weights (m,)."""
        self._buffer.add(points, weights)

    def row(self) -> F32:
        """Return the row (m,) of all points added."""
        self._buffer.flush()
        return self._finish()

    def _add_points(self, points: F32, weights: F32 | None) -> None:
        for chunk, weight in _iter_chunks(points, weights, 0, len(points), self._length):
            self._add_chunk(chunk, weight)


Compute = Callable[[SampleSets, I64], F32]
"""Maps sets and spans (n_spans, 2), the first row of each set and the row after its last, to (n_spans, k)."""


class ChunkMean:
    """Weighted mean (k,) of ``compute`` over chunks."""

    def __init__(self, compute: Compute) -> None:
        self._compute, self._weight = compute, 0.0
        self._sum: F64 | None = None

    def add(self, chunk: SampleSets, weight: float) -> None:
        """Add a chunk of this weight."""
        term = weight * self._compute(chunk, set_spans(chunk)).reshape(-1).astype(np.float64)
        self._sum = term if self._sum is None else self._sum + term
        self._weight += weight

    def mean(self) -> F32:
        """Return the mean (k,)."""
        assert self._sum is not None
        return (self._sum / self._weight).astype(np.float32)


def iter_chunks(sets: SampleSets, span: I64) -> Iterator[tuple[SampleSets, float]]:
    """Yield the chunks of positive weight of the set at a span, with their weights."""
    weights = None if sets.weights is None else sets.weights.reshape(-1)
    yield from _iter_chunks(sets.relative, weights, int(span[0]), int(span[1]), chunk_length(sets.n_dims))


def set_spans(sets: SampleSets) -> I64:
    """Return the first row of each set and the row after its last: (n_sets, 2)."""
    return sets.offsets.repeat(2)[1:-1].reshape(-1, 2)


def compute_by_chunks(compute: Compute, sets: SampleSets, spans: I64) -> F32:
    """Return ``compute(sets, spans)``; for large sets, the mean over their chunks."""
    is_large = are_long(spans, sets.n_dims)
    if not is_large.any():
        return compute(sets, spans)
    rows = [_mean_over_chunks(compute, sets, span) for span in spans[is_large]]
    out = np.empty((len(spans), len(rows[0])), np.float32)
    out[is_large] = rows
    if not is_large.all():
        out[~is_large] = compute(sets, spans[~is_large])
    return out


def _mean_over_chunks(compute: Compute, sets: SampleSets, span: I64) -> F32:
    accumulator = ChunkMean(compute)
    for chunk, weight in iter_chunks(sets, span):
        accumulator.add(chunk, weight)
    return accumulator.mean()


def _iter_chunks(
    points: F32, weights: F32 | None, start: int, stop: int, length: int
) -> Iterator[tuple[SampleSets, float]]:
    for a, b in itertools.pairwise([*range(start, stop, length), stop]):
        chunk_weights = None if weights is None else weights[a:b]
        total = float(b - a)
        if chunk_weights is not None:
            total = float(weight_totals(chunk_weights, np.array([0, b - a]))[0])
        if total > 0:
            yield single_set(points[a:b], chunk_weights), total
