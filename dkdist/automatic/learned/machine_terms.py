"""A machine as what `dkdist.explaining` explains: for every representation a function of its rows, with derivative."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dkdist.automatic.learned.machines import Machine, Member
from dkdist.explaining.set_function import SetFunction
from dkdist.linear.search.feature_trees import Node
from dkdist.loops.array_types import F32, F64


def set_function(machine: Machine) -> SetFunction:
    """The machine's prediction (t,) of a set."""
    roots = machine.trees.only(machine.leaves).roots
    terms = tuple(MachineTerm(root, machine.parts, machine.n_outputs) for root in roots)
    return SetFunction(terms, np.zeros(machine.n_outputs))


@dataclass(frozen=True)
class MachineTerm:
    """What the parts on one tree add, as a function of the rows at its root."""

    root: Node
    parts: Sequence[Member]
    n_outputs: int

    @property
    def spec(self) -> Any:
        """The specification of the embedding at the root."""
        return self.root.spec

    def values(self, rows: F32) -> F64:
        """(n, t) at rows (n, m)."""
        return self._values(self.root, rows)

    def slopes(self, rows: F32) -> Iterator[tuple[F64, F64]]:
        """The value (t,) and the derivative (m, t) at each of the rows (n, m)."""
        return (self._slope(self.root, row) for row in rows)

    def _values(self, node: Node, rows: F32) -> F64:
        total = np.zeros((len(rows), self.n_outputs))
        for part in self._on(node):
            total += part.values(rows)
        for child in node.children:
            total += self._values(child, child.spec.draw().transform(rows))
        return total

    def _slope(self, node: Node, row: F32) -> tuple[F64, F64]:
        """What grows on a row (m,) adds, and its derivative by the row: back from features to what they are of."""
        value, slope = np.zeros(self.n_outputs), np.zeros((len(row), self.n_outputs))
        for part in self._on(node):
            value += part.values(row[None])[0]
            slope += part.gradient(row)
        for child in node.children:
            features = child.spec.draw()
            above, back = self._slope(child, features.transform(row[None])[0])
            value += above
            slope += features.pull_back(row, back)
        return value, slope

    def _on(self, node: Node) -> list[Member]:
        return [part for part in self.parts if part.leaf == node.leaf]
