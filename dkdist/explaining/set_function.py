"""What is explained: k functions of a set, each a sum of functions of its rows.

    f(P) = constant + sum_t g_t(row_t(P)),    d/dt f((1 - t) P + t delta_x) = sum_t g_t'(row_t(P)) . IF_t(x)

A pipeline has one row, that of its embedding; an average of several models has one for each representation. In place of
the derivative g_t' a path from a start to the row gives its average, see `dkdist.inspection.path_gradients`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np

from dkdist.base.embedding import count_outside
from dkdist.base.embedding_spec import is_selective
from dkdist.base.influence import influences
from dkdist.execution.processes.process import drawn
from dkdist.loops.array_types import F32, F64
from dkdist.sets import SampleSets

SETS_AT_ONCE = 64  # whose rows and features are held


class Term(Protocol):
    """A function of one kind of row."""

    @property
    def spec(self) -> Any:
        """The specification of the embedding that makes its rows."""

    @property
    def start(self) -> F32 | None:
        """Row (m,) that paths start from without a background; None if the term has none."""

    def values(self, rows: F32) -> F64:
        """(n, k) at rows (n, m)."""

    def gradients(self, rows: F32, start: F32 | None) -> Iterator[F64]:
        """Gradients (m, k) averaged from the start (m,) to each of the rows (n, m); without a start, those at the row.

        An averaged gradient times row - start is the difference of the values. A step function has no gradient at a
        row: zeros.
        """


@runtime_checkable
class InnerPath(Protocol):
    """Tables whose rows are curved features of inner rows, in which paths are straight."""

    def inner_start(self, sets: SampleSets) -> Any:
        """Where paths start from: means over the inner rows of background sets."""

    def path_influence(self, one: SampleSets, start: Any, gradient: F64) -> F64:
        """(n, k) influence of the points of one set, by derivatives averaged over the path from the start."""


@dataclass(frozen=True)
class SetFunction:
    """k functions of a set: ``constant`` (k,) and the sum of the terms."""

    terms: tuple[Term, ...]
    constant: F64

    @property
    def ordered(self) -> bool:
        """Whether the order of a set's points may matter."""
        return any(getattr(term.spec, "ordered", False) for term in self.terms)

    def require(self, sets: SampleSets, first: int) -> None:
        """Refuse sets that an embedding would refuse, by name; ``first`` is the position of set 0."""
        for term in self.terms:
            if is_selective(term.spec):
                term.spec.require(sets, first)
            count_outside(term.spec.domain, sets, first)

    def values(self, sets: SampleSets) -> F64:
        """(n_sets, k)."""
        total = np.tile(self.constant, (len(sets), 1))
        for term in self.terms:
            total += term.values(drawn(term.spec).embed(sets))
        return total

    def starts(self, background: SampleSets | None) -> list[Any]:
        """For each term the mean row of the background, without one its own start, which may be None."""
        if background is None:
            return [term.start for term in self.terms]
        return [_start(drawn(term.spec), background) for term in self.terms]

    def influences(
        self, sets: SampleSets, starts: Sequence[Any], at: F32 | None = None
    ) -> Iterator[tuple[SampleSets, F64]]:
        """Each set alone, and the influence (n_i, k) of its points, or of points ``at`` (q, d).

        ``starts`` has the start of the path of each term; None for the derivative at the set.
        """
        for first in range(0, len(sets), SETS_AT_ONCE):
            some = sets[first : first + SETS_AT_ONCE]
            ones = [some[i : i + 1] for i in range(len(some))]
            totals = [
                np.zeros((one.n_points if at is None else len(at), len(self.constant))) for one in ones
            ]
            for term, start in zip(self.terms, starts, strict=True):
                tables = drawn(term.spec)
                inner = start is not None and isinstance(tables, InnerPath)
                gradients = term.gradients(tables.embed(some), None if inner else start)
                for one, total, gradient in zip(ones, totals, gradients, strict=True):
                    if inner:
                        total += tables.path_influence(one, start, gradient)
                    elif gradient.any():  # leaving points out is expensive
                        total += influences(tables, one, gradient, at)
            yield from zip(ones, totals, strict=True)


def _start(tables: Any, background: SampleSets) -> Any:
    if isinstance(tables, InnerPath):
        return tables.inner_start(background)
    return tables.embed(background).mean(axis=0, dtype=np.float64).astype(np.float32)
