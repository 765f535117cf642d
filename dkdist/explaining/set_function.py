"""What is explained: k functions of a set, each a sum of functions of its rows.

    f(P) = constant + sum_t g_t(row_t(P)),    d/dt f((1 - t) P + t delta_x) = sum_t g_t'(row_t(P)) . IF_t(x)

A pipeline has one row, that of its embedding; an average of several models has one for each representation. In place of
the derivative g_t' a path from a start to the row gives its average, see `dkdist.inspection.path_gradients`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from dkdist.base.embedding import count_outside
from dkdist.base.influence import influences
from dkdist.execution.processes.process import drawn
from dkdist.inspection.path_gradients import contrast_weights
from dkdist.loops.array_types import F32, F64
from dkdist.sets import SampleSets


class Term(Protocol):
    """A function of one kind of row."""

    @property
    def spec(self) -> Any:
        """The specification of the embedding that makes its rows."""

    @property
    def training_rows(self) -> F32 | None:
        """Rows (r, m) of some training sets, the same ones for all terms; None if the term holds none."""

    def values(self, rows: F32) -> F64:
        """(n, k) at rows (n, m)."""

    def gradient(self, row: F32, starts: F32 | None) -> F64 | None:
        """Gradients (m, k) averaged from the starts (k, m), one for each function, to a row (m,), or those at the row.

        An averaged gradient times row - start is the difference of the values. A step function has none at a row: None.
        """


@dataclass(frozen=True)
class PathBackground:
    """Sets among which paths start: for each term their rows (.., r, m) or None, and their values (r, k)."""

    rows: tuple[Any, ...]
    values: F64

    def starts(self, values: F64) -> list[Any]:
        """For each term k starts (.., k, m) of paths to a set with the values (k,); None for terms without rows."""
        weights = contrast_weights(values, self.values)
        return [None if rows is None else np.asarray(weights @ rows, np.float32) for rows in self.rows]


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
            term.spec.require(sets, first)
            count_outside(term.spec.domain, sets, first)

    def values(self, sets: SampleSets) -> F64:
        """(n_sets, k)."""
        total = np.tile(self.constant, (len(sets), 1))
        for term in self.terms:
            total += term.values(drawn(term.spec).embed(sets))
        return total

    @property
    def training_background(self) -> PathBackground | None:
        """Some training sets, for the terms that hold rows of theirs; their values are those of these terms."""
        rows = tuple(term.training_rows for term in self.terms)
        values = [term.values(R) for term, R in zip(self.terms, rows, strict=True) if R is not None]
        return PathBackground(rows, np.sum(values, axis=0)) if values else None

    def background(self, sets: SampleSets) -> PathBackground:
        """Some sets, for all terms."""
        tables = [drawn(term.spec) for term in self.terms]
        rows = (t.inner_rows(sets) if hasattr(t, "inner_rows") else t.embed(sets) for t in tables)
        return PathBackground(tuple(rows), self.values(sets))

    def path_influences(
        self, sets: SampleSets, background: PathBackground | None
    ) -> Iterator[tuple[SampleSets, F64, F64]]:
        """Each set alone, its values (k,), and the influence (n_i, k) of its points along the path to it.

        Where there is no background, derivatives at the set take the place of averages.
        """
        for i in range(len(sets)):
            one = sets[i : i + 1]
            (values,) = self.values(one)
            term_starts = [None] * len(self.terms) if background is None else background.starts(values)
            total = np.zeros((one.n_points, len(values)))
            for term, starts in zip(self.terms, term_starts, strict=True):
                tables = drawn(term.spec)
                inner = starts is not None and hasattr(tables, "path_influence")
                gradient = term.gradient(tables.embed(one)[0], None if inner else starts)
                if gradient is not None:
                    total += (
                        tables.path_influence(one, starts, gradient)
                        if inner
                        else influences(tables, one, gradient)
                    )
            yield one, values, total

    def local_influences(self, sets: SampleSets, at: F32) -> Iterator[F64]:
        """For each set the influence (q, k) of points ``at`` (q, d), by derivatives at the set."""
        for i in range(len(sets)):
            one, total = sets[i : i + 1], np.zeros((len(at), len(self.constant)))
            for term in self.terms:
                tables = drawn(term.spec)
                gradient = term.gradient(tables.embed(one)[0], None)
                if gradient is not None:
                    total += influences(tables, one, gradient, at)
            yield total
