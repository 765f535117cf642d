"""What is explained: k functions of a set, each a sum of functions of its rows.

    f(P) = constant + sum_t g_t(row_t(P)),    d/dt f((1 - t) P + t delta_x) = sum_t g_t'(row_t(P)) . IF_t(x)

A pipeline has one row, that of its embedding; an average of several models has one for each representation.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from dkdist.base.embedding import count_outside
from dkdist.base.embedding_spec import is_selective
from dkdist.base.influence import influences
from dkdist.execution.processes.process import drawn
from dkdist.loops.array_types import F32, F64
from dkdist.sets import SampleSets

SETS_AT_ONCE = 64  # whose rows and features are held


class Term(Protocol):
    """A differentiable function of one kind of row."""

    @property
    def spec(self) -> Any:
        """The specification of the embedding that makes its rows."""

    def values(self, rows: F32) -> F64:
        """(n, k) at rows (n, m)."""

    def slopes(self, rows: F32) -> Iterator[tuple[F64, F64]]:
        """The value (k,) and the derivative (m, k) at each of the rows (n, m)."""


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

    def looked_at(self, sets: SampleSets, at: F32 | None = None) -> Iterator[tuple[SampleSets, F64, F64]]:
        """Each set alone, its k values, and the influence (n_i, k) of its points, or of points ``at`` (q, d)."""
        for start in range(0, len(sets), SETS_AT_ONCE):
            some = sets[start : start + SETS_AT_ONCE]
            ones = [some[i : i + 1] for i in range(len(some))]
            values = np.tile(self.constant, (len(ones), 1))
            found: list[Any] = [0.0] * len(ones)
            for term in self.terms:
                tables = drawn(term.spec)
                for i, (value, slope) in enumerate(term.slopes(tables.embed(some))):
                    values[i] += value
                    found[i] = found[i] + influences(tables, ones[i], slope, at)
            yield from zip(ones, values, found, strict=True)
