"""Cosine coefficients of sets, the only statistics that density embeddings need.

    sets --one pass over the points--> C of the largest degrees --select--> C of each embedding --> its rows

Coefficients do not depend on bandwidth or divergence. All embeddings on the same domain can share coefficients that are
computed once, with merged parameters (`merge_specs`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from dkdist._base.params import (
    ChunkedRowSum,
    ChunkMean,
    Domain,
    FittedParams,
    Params,
    S,
    compute_by_chunks,
    set_spans,
)
from dkdist._numba.arrays import F32, I64
from dkdist.embeddings._binning_numba import MIN_BINNED_POINTS_BY_DIM, binned_coefficients
from dkdist.embeddings._density_numba import ball_terms, tensor_coefficients, term_coefficients
from dkdist.embeddings._tuning import (
    COEFFICIENTS_PER_TILE,
    MAX_COEFFICIENTS,
    MAX_SETS_PER_TILE,
    MIN_SETS_PER_TILE,
)
from dkdist.sets import SampleSets

# The constant and one cosine, which compiled functions always fill (tests/densities/test_cosine.py).
MIN_DEGREES = 2
cached_ball_terms = lru_cache(maxsize=16)(ball_terms)


@dataclass(frozen=True)
class CoefficientSpec(Params["Coefficients"]):
    """Degrees and domain of cosine coefficients C_a.

    ``structure`` "tensor" (d <= 3) and "marginal" (one dimension at a time) contain all a_j < degrees[j]; "ball" all a
    with sum_j (a_j / degrees[j])^order <= 1 in any d. The ``order`` of a ball ranges from 1 (simplex) to infinity
    (box).
    """

    domain: Domain
    structure: str
    degrees: tuple[float, ...]
    order: float = 2.0

    def __post_init__(self) -> None:
        if self.structure != "ball" and min(self.degrees) < MIN_DEGREES:
            raise ValueError(
                f"degrees must be at least {MIN_DEGREES} in each dimension; got {' x '.join(map(str, self.degrees))}"
            )
        if self.structure == "tensor" and np.prod(self.degrees, dtype=float) > MAX_COEFFICIENTS:
            raise ValueError(
                f"a set must have at most {MAX_COEFFICIENTS} cosine coefficients; got "
                f"{' x '.join(map(str, self.degrees))}. Increase bandwidth, reduce n_basis, or use "
                "structure='marginal'."
            )

    @property
    def exponents(self) -> I64:
        """Degrees a of each coefficient: (n_coefficients, d)."""
        return _EXPONENTS[self.structure](self.degrees, self.order)

    @property
    def sets_per_tile(self) -> int:
        """Number of sets per compiled call."""
        if self.structure != "tensor":
            return MIN_SETS_PER_TILE
        return int(
            np.clip(COEFFICIENTS_PER_TILE // np.prod(self.degrees), MIN_SETS_PER_TILE, MAX_SETS_PER_TILE)
        )

    def _build(self) -> Coefficients:
        return Coefficients(self)

    def select(self, C: F32, wider: CoefficientSpec) -> F32:
        """Return the coefficients of this specification, selected from coefficients C of ``wider``."""
        return C if self is wider or self == wider else np.take(C, _positions(self, wider), axis=1)


def merge_specs(specs: Sequence[CoefficientSpec]) -> CoefficientSpec:
    """Return parameters whose coefficients include those of all ``specs``, which must share domain and structure."""
    first = specs[0]
    if len(specs) == 1:
        return first
    for spec in specs:
        _require_same_domain(spec, first)
    degrees = tuple(max(degrees_of_dim) for degrees_of_dim in zip(*(s.degrees for s in specs), strict=True))
    return CoefficientSpec(first.domain, first.structure, degrees, max(s.order for s in specs))


def iter_tiles(sets: SampleSets, n_sets: int = MIN_SETS_PER_TILE) -> Iterator[tuple[slice, I64]]:
    """Yield tiles of ``n_sets`` adjacent sets with their spans (first row, row after the last)."""
    spans = set_spans(sets)
    for start in range(0, len(sets), n_sets):
        tile = slice(start, min(start + n_sets, len(sets)))
        yield tile, spans[tile]


class Coefficients(FittedParams[CoefficientSpec]):
    """Computation of the coefficients of a `CoefficientSpec`."""

    def __init__(self, spec: CoefficientSpec) -> None:
        self.spec = spec
        self._low_and_scale = spec.domain.low_and_scale
        self._terms = cached_ball_terms(spec.degrees, spec.order)[1] if spec.structure == "ball" else None

    def of(self, sets: SampleSets, spans: I64) -> F32:
        """Return coefficients (n_spans, n_coefficients) float32 of the sets at ``spans``; points outside are clipped.

        The coefficients of a set are bitwise independent of other sets and of additional degrees. The exception is sets
        large enough for a grid (see `dkdist.embeddings._binning_numba`): larger degrees use a finer grid. Large sets
        are processed in chunks (`dkdist._base.params`).
        """
        return compute_by_chunks(self.compute, sets, spans)

    def compute(self, sets: SampleSets, spans: I64) -> F32:
        """Like `of`, for sets that fit into one chunk."""
        points, weights, (low, scale) = sets.relative, sets.weights, self._low_and_scale
        if self._terms is not None:
            return term_coefficients(points, spans, weights, low, scale, self._terms)
        degrees = tuple(map(int, self.spec.degrees))
        if self.spec.structure == "marginal":
            columns = [
                tensor_coefficients(points, spans, weights, low, scale, (K,), column=j)
                for j, K in enumerate(degrees)
            ]
            return np.concatenate(columns, axis=1)
        is_binned = spans[:, 1] - spans[:, 0] >= MIN_BINNED_POINTS_BY_DIM.get(sets.n_dims, np.inf)
        C = np.empty((len(spans), math.prod(degrees)), np.float32)
        for mask, coefficients in ((~is_binned, tensor_coefficients), (is_binned, binned_coefficients)):
            if mask.any():
                C[mask] = coefficients(points, spans[mask], weights, low, scale, degrees)
        return C


class CoefficientFeatures(FittedParams[S]):
    """Base class of fitted parameters whose rows are computed from cosine ``_coefficients``."""

    _coefficients: Coefficients

    def embed(self, sets: SampleSets) -> F32:
        """Return rows (n_sets, m) float32. Points outside the domain are clipped."""
        out = np.empty((len(sets), self.spec.n_features), np.float32)
        for tile, spans in iter_tiles(sets, self._coefficients.spec.sets_per_tile):
            self._fill(self._coefficients.of(sets, spans), self._coefficients.spec, out[tile])
        return out

    def rows(self, C: F32, spec: CoefficientSpec) -> F32:
        """Return rows from coefficients C (n_sets, n_coefficients) of ``spec``, which includes the required degrees.

        Rows are bitwise identical to ``embed`` if ``spec`` is ``spec.coefficients`` of the embedding, or if the sets
        use no grid. For divergences that compute densities directly from the points they are equal up to rounding.
        """
        out = np.empty((len(C), self.spec.n_features), np.float32)
        for start in range(0, len(C), MIN_SETS_PER_TILE):
            tile = slice(start, start + MIN_SETS_PER_TILE)
            self._fill(C[tile], spec, out[tile])
        return out

    def row_sum(self, n_points: int, weight: float) -> ChunkedRowSum:
        """Return an accumulator for the row (m,) of one set that is read in pieces."""
        mean = ChunkMean(self._coefficients.compute)

        def finish() -> F32:
            row = np.empty((1, self.spec.n_features), np.float32)
            self._fill(mean.mean()[None], self._coefficients.spec, row)
            return row.reshape(-1)

        return ChunkedRowSum(self.spec.n_dims, mean.add, finish)

    def _fill(self, C: F32, spec: CoefficientSpec, rows: F32) -> None:
        raise NotImplementedError


def _marginal_exponents(degrees: tuple[float, ...], order: float) -> I64:
    rows = [np.outer(np.arange(int(K)), axis) for K, axis in zip(degrees, np.eye(len(degrees)), strict=True)]
    return np.concatenate(rows).astype(np.int64)


_EXPONENTS: dict[str, Callable[[tuple[float, ...], float], I64]] = {
    "tensor": lambda degrees, _: np.indices(tuple(map(int, degrees))).reshape(len(degrees), -1).T,
    "marginal": _marginal_exponents,
    "ball": lambda axes, order: cached_ball_terms(axes, order)[0],
}


@lru_cache(maxsize=64)
def _positions(spec: CoefficientSpec, wider: CoefficientSpec) -> I64:
    """Return the positions of the coefficients of ``spec`` among those of ``wider``."""
    _require_same_domain(spec, wider)
    if spec.structure == "marginal":
        starts = np.cumsum((0, *wider.degrees[:-1]), dtype=np.int64)
        positions_by_dim = [start + np.arange(K) for start, K in zip(starts, spec.degrees, strict=True)]
        is_included = all(K <= W for K, W in zip(spec.degrees, wider.degrees, strict=True))
        return np.concatenate(positions_by_dim) if is_included else _raise_missing_degrees(spec, wider)
    index_by_degrees = {tuple(a): i for i, a in enumerate(wider.exponents.tolist())}
    positions = [index_by_degrees.get(tuple(a), -1) for a in spec.exponents.tolist()]
    return np.array(positions, np.int64) if min(positions) >= 0 else _raise_missing_degrees(spec, wider)


def _raise_missing_degrees(spec: CoefficientSpec, wider: CoefficientSpec) -> Any:
    raise ValueError(
        f"coefficients must include degrees {spec.degrees}; got degrees {wider.degrees}. Use merge_specs."
    )


def _require_same_domain(spec: CoefficientSpec, other: CoefficientSpec) -> None:
    if (spec.domain, spec.structure) != (other.domain, other.structure):
        raise ValueError(
            f"shared coefficients must have the same domain and structure; got {spec.structure!r} on {spec.domain} and "
            f"{other.structure!r} on {other.domain}. Pass the same domain= to all embeddings."
        )
