"""Cosine coefficients of sample sets, as a specification: all that embeddings by densities need of the points.

    sets --one pass over the points--> C of the largest degrees --cut--> C of each embedding --> its rows

Coefficients know no bandwidth and no divergence. So those of the `widest` of several specifications, computed once,
serve every embedding on the same domain whose degrees they hold.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from dkdist._base.params import (
    Domain,
    FittedParams,
    MeanOfRuns,
    Params,
    RowOfRuns,
    S,
    compute_by_runs,
    spans_of,
)
from dkdist._numba.arrays import F32, I64
from dkdist.embeddings._binning_numba import WORTHWHILE, binned_coefficients
from dkdist.embeddings._density_numba import ball_terms, tensor_coefficients, term_coefficients
from dkdist.sets import SampleSets

SETS_AT_ONCE = 64  # coefficients and densities of so many sets stay in the second-level cache
MOST_AT_ONCE = 1024  # sets of few coefficients, as calls of loops cost, too:
COEFFICIENTS_AT_ONCE = 2**15  # of all of them
LEAST_DEGREES = 2  # of a dimension: the constant and one cosine
MOST_COEFFICIENTS = 2**20  # of one set: 4 MiB
ball = lru_cache(maxsize=16)(ball_terms)


@dataclass(frozen=True)
class CoefficientSpec(Params["Coefficients"]):
    """Which coefficients C_a of sets on a domain; ``draw()`` makes what computes them.

    ``structure`` says what ``degrees`` are: "tensor" (d <= 3) and "marginal" (each dimension alone) have all
    a_j < degrees[j]; "ball" has all a with sum_j (a_j / degrees[j])^order <= 1, and any d. ``order`` is that of a
    ball, from 1 (simplex) to infinity (box).
    """

    domain: Domain
    structure: str
    degrees: tuple[float, ...]
    order: float = 2.0

    def __post_init__(self) -> None:
        if self.structure != "ball" and min(self.degrees) < LEAST_DEGREES:
            raise ValueError(
                f"{' x '.join(map(str, self.degrees))} cosines of the dimensions: compiled loops fill tables of at "
                f"least {LEAST_DEGREES}"
            )
        if self.structure == "tensor" and np.prod(self.degrees, dtype=float) > MOST_COEFFICIENTS:
            raise ValueError(
                f"{' x '.join(map(str, self.degrees))} cosine coefficients a set are more than {MOST_COEFFICIENTS}: "
                "raise the bandwidth or lower n_basis, whichever sets their number, or use structure='marginal'"
            )

    @property
    def exponents(self) -> I64:
        """The degrees a of each coefficient: (n_coefficients, d)."""
        return _EXPONENTS[self.structure](self.degrees, self.order)

    @property
    def sets_at_once(self) -> int:
        """How many sets the coefficients are best computed of in one call."""
        if self.structure != "tensor":
            return SETS_AT_ONCE
        return int(np.clip(COEFFICIENTS_AT_ONCE // np.prod(self.degrees), SETS_AT_ONCE, MOST_AT_ONCE))

    def _build(self) -> Coefficients:
        return Coefficients(self)

    def cut(self, C: F32, wider: CoefficientSpec) -> F32:
        """These coefficients, (n_sets, n_coefficients), out of the ones of a specification that holds them."""
        return C if self is wider or self == wider else np.take(C, _positions(self, wider), axis=1)


def widest(specs: Sequence[CoefficientSpec]) -> CoefficientSpec:
    """The specification whose coefficients hold those of all; `ValueError` if their domains or structures differ."""
    first = specs[0]
    if len(specs) == 1:
        return first
    for spec in specs:
        _require_same_place(spec, first)
    degrees = tuple(max(of_dimension) for of_dimension in zip(*(s.degrees for s in specs), strict=True))
    return CoefficientSpec(first.domain, first.structure, degrees, max(s.order for s in specs))


def tiles(sets: SampleSets, at_once: int = SETS_AT_ONCE) -> Iterator[tuple[slice, I64]]:
    """Runs of some sets with their spans (first row, row after the last): what is worked on at once."""
    spans = spans_of(sets)
    for start in range(0, len(sets), at_once):
        tile = slice(start, min(start + at_once, len(sets)))
        yield tile, spans[tile]


class Coefficients(FittedParams[CoefficientSpec]):
    """Computes the coefficients of a `CoefficientSpec`; immutable, shared by all blocks."""

    def __init__(self, spec: CoefficientSpec) -> None:
        self.spec = spec
        self._low_and_scale = spec.domain.low_and_scale
        self._terms = ball(spec.degrees, spec.order)[1] if spec.structure == "ball" else None

    def of(self, sets: SampleSets, spans: I64) -> F32:
        """(n_spans, n_coefficients) float32 of the sets at ``spans``; points outside the domain count at its wall.

        A set's coefficients depend on that set alone, bit for bit, and on no degrees beyond their own; but of
        sets large enough for a grid (see `dkdist.embeddings._binning_numba`), larger degrees take a finer grid.
        Sets of many points are taken run by run (`dkdist._base.params`).
        """
        return compute_by_runs(self.compute, sets, spans)

    def compute(self, sets: SampleSets, spans: I64) -> F32:
        """`of` sets that are no longer than a run."""
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
        large = spans[:, 1] - spans[:, 0] >= WORTHWHILE.get(sets.n_dims, np.inf)
        C = np.empty((len(spans), math.prod(degrees)), np.float32)
        for chosen, coefficients in ((~large, tensor_coefficients), (large, binned_coefficients)):
            if chosen.any():
                C[chosen] = coefficients(points, spans[chosen], weights, low, scale, degrees)
        return C


class OfCoefficients(FittedParams[S]):
    """Base of tables that make rows of coefficients, ``_coefficients``; a row depends on its own set, bit for bit."""

    _coefficients: Coefficients

    def embed(self, sets: SampleSets) -> F32:
        """Rows of the embedding: (n_sets, m) float32. Points outside the domain count at its wall."""
        out = np.empty((len(sets), self.spec.n_features), np.float32)
        for tile, spans in tiles(sets, self._coefficients.spec.sets_at_once):
            self._fill(self._coefficients.of(sets, spans), self._coefficients.spec, out[tile])
        return out

    def rows(self, C: F32, of: CoefficientSpec) -> F32:
        """The same rows from coefficients C (n_sets, n_coefficients) of ``of``, which holds those needed.

        They are the bits of ``embed`` if ``of`` is ``spec.coefficients``, or if the sets go through no grid; but for
        divergences whose densities come straight from the points, which are the same up to rounding.
        """
        out = np.empty((len(C), self.spec.n_features), np.float32)
        for start in range(0, len(C), SETS_AT_ONCE):
            tile = slice(start, start + SETS_AT_ONCE)
            self._fill(C[tile], of, out[tile])
        return out

    def row_sum(self, n_points: int, weight: float) -> RowOfRuns:
        """The row (m,) of one set that comes in pieces: the same bits as of all at once."""
        means = MeanOfRuns(self._coefficients.compute)

        def made() -> F32:
            row = np.empty((1, self.spec.n_features), np.float32)
            self._fill(means.mean()[None], self._coefficients.spec, row)
            return row.reshape(-1)

        return RowOfRuns(self.spec.n_dims, means.take, made)

    def _fill(self, C: F32, of: CoefficientSpec, rows: F32) -> None:
        raise NotImplementedError


def _marginal_exponents(degrees: tuple[float, ...], order: float) -> I64:
    rows = [np.outer(np.arange(int(K)), axis) for K, axis in zip(degrees, np.eye(len(degrees)), strict=True)]
    return np.concatenate(rows).astype(np.int64)


_EXPONENTS: dict[str, Callable[[tuple[float, ...], float], I64]] = {
    "tensor": lambda degrees, _: np.indices(tuple(map(int, degrees))).reshape(len(degrees), -1).T,
    "marginal": _marginal_exponents,
    "ball": lambda axes, order: ball(axes, order)[0],
}


@lru_cache(maxsize=64)
def _positions(spec: CoefficientSpec, wider: CoefficientSpec) -> I64:
    """Where the coefficients of ``spec`` are among those of ``wider``."""
    _require_same_place(spec, wider)
    if spec.structure == "marginal":
        before = np.cumsum((0, *wider.degrees[:-1]), dtype=np.int64)
        own = [start + np.arange(K) for start, K in zip(before, spec.degrees, strict=True)]
        held = all(K <= W for K, W in zip(spec.degrees, wider.degrees, strict=True))
        return np.concatenate(own) if held else _refuse(spec, wider)
    place = {tuple(a): i for i, a in enumerate(wider.exponents.tolist())}
    found = [place.get(tuple(a), -1) for a in spec.exponents.tolist()]
    return np.array(found, np.int64) if min(found) >= 0 else _refuse(spec, wider)


def _refuse(spec: CoefficientSpec, wider: CoefficientSpec) -> Any:
    raise ValueError(
        f"coefficients of degrees {wider.degrees} do not hold those of degrees {spec.degrees}: compute the widest"
    )


def _require_same_place(spec: CoefficientSpec, other: CoefficientSpec) -> None:
    if (spec.domain, spec.structure) != (other.domain, other.structure):
        raise ValueError(
            f"coefficients are shared on one domain and structure alone; found {spec.structure!r} on {spec.domain} "
            f"and {other.structure!r} on {other.domain}: fit on a given domain, the same for all"
        )
