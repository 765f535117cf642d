"""Ensembles as functions of sets for `dkdist.inspection`: a sum of one differentiable term per representation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dkdist._numba.arrays import F32, F64
from dkdist._runtime.process import materialize_params
from dkdist.auto.ensemble import Ensemble, KernelMember, Member
from dkdist.auto.study_design import remove
from dkdist.inspection._tuning import MAX_BACKGROUND_ROWS
from dkdist.inspection.set_function import PathBackground, SetFunction, gaussian_path_gradient
from dkdist.linear.feature_trees import Node, SharedFeatureGraph
from dkdist.sets import SampleSets


def set_function(machine: Ensemble) -> SetFunction:
    """Return the prediction (t,) of an ensemble as a function of sets."""
    trees = machine.trees.only(machine.leaves)
    terms = tuple(MachineTerm(root, machine.parts, machine.n_outputs) for root in trees.roots)
    return MachineFunction(terms, np.zeros(machine.n_outputs), trees, machine.parts)


def designed_function(machine: Ensemble, Z: F64, background_Z: F64 | None) -> DesignedFunction:
    """Return the prediction of sets with the columns ``Z`` (n, q) of the design, as a function of each set.

    ``background_Z`` are the columns of background sets; None if these sets have the variables as targets.
    """
    function = set_function(machine)
    return DesignedFunction(function.terms, function.constant, machine, Z, background_Z)


@dataclass(frozen=True)
class DesignedFunction(SetFunction):
    """Function of sets with covariates or adjusted variables; `at_set` inserts those of one set."""

    machine: Ensemble
    Z: F64
    background_Z: F64 | None

    def at_set(self, position: int) -> SetFunction:
        """Return the function of set ``position``, in which its covariates and adjusted variables are constant."""
        z, design = self.Z[position : position + 1], self.machine.design
        assert design is not None
        terms = tuple(
            ShiftedTerm(term, np.asarray(z @ self.machine.coefficients[term.root.leaf])[0])
            for term in self.terms
            if isinstance(term, MachineTerm)
        )
        return OffsetFunction(terms, design.offset(z)[0])

    def background(self, sets: SampleSets) -> PathBackground:
        """Return the adjusted rows of some sets for all terms, and their values without the covariates."""
        Z, design = self.background_Z, self.machine.design
        assert design is not None
        if Z is None:
            Z = design.encode(design.read(sets))
        rows = tuple(
            remove(materialize_params(term.spec).embed(sets), Z, self.machine.coefficients[term.root.leaf])
            for term in self.terms
            if isinstance(term, MachineTerm)
        )
        values = [term.values(R) for term, R in zip(self.terms, rows, strict=True)]
        return PathBackground(rows, np.sum(values, axis=0))


@dataclass(frozen=True)
class OffsetFunction(SetFunction):
    """Sum of terms and a constant that the values of backgrounds do not contain."""

    def path_values(self, values: F64) -> F64:
        """Return values (k,) that are comparable with those of a background."""
        return values - self.constant


@dataclass(frozen=True)
class ShiftedTerm:
    """A term of rows minus ``shift`` (m,); starts of paths and training rows are adjusted already."""

    term: MachineTerm
    shift: F64

    @property
    def spec(self) -> Any:
        """Parameters of the embedding."""
        return self.term.spec

    @property
    def training_rows(self) -> F32 | None:
        """Adjusted training rows."""
        return self.term.training_rows

    def values(self, rows: F32) -> F64:
        """Return values (n, t) of rows (n, m)."""
        return self.term.values(np.asarray(rows - self.shift, np.float32))

    def gradient(self, row: F32, starts: F32 | None) -> F64 | None:
        """Return gradients (m, t) at a row (m,), or means on the paths from adjusted ``starts`` (t, m)."""
        return self.term.gradient(np.asarray(row - self.shift, np.float32), starts)


@dataclass(frozen=True)
class MachineFunction(SetFunction):
    """Sum of terms, with values bitwise identical to those of the ensemble."""

    trees: SharedFeatureGraph
    parts: Sequence[Member]

    def values(self, sets: SampleSets) -> F64:
        """Return values (n_sets, t); summed in the order of the ensemble."""
        total = np.tile(self.constant, (len(sets), 1))
        for leaf, rows in materialize_params(self.trees).of_sets(sets):
            for part in self.parts:
                if part.leaf == leaf:
                    total += part.values(rows)
        return total


@dataclass(frozen=True)
class MachineTerm:
    """Sum of the members on one tree of the feature graph, as a function of the rows of its root."""

    root: Node
    parts: Sequence[Member]
    n_outputs: int

    @property
    def spec(self) -> Any:
        """Parameters of the embedding at the root."""
        return self.root.spec

    @property
    def training_rows(self) -> F32 | None:
        """At most 256 training rows (r, m) of a kernel member on the rows of the root; None without such a member."""
        for part in self._on(self.root):
            if isinstance(part, KernelMember):
                rows = part.rows[0]
                order = np.random.default_rng(0).permutation(len(rows))  # the same for all terms
                return rows[np.sort(order[:MAX_BACKGROUND_ROWS])]
        return None

    def values(self, rows: F32) -> F64:
        """Return values (n, t) of rows (n, m)."""
        return self._values(self.root, rows)

    def gradient(self, row: F32, starts: F32 | None) -> F64 | None:
        """Return gradients (m, t): means on the paths from ``starts`` (t, m), one per output, to ``row`` (m,).

        If ``starts`` is None, return the gradient at ``row``, or None if all members are step functions.
        """
        leaves = {leaf for leaf, _ in self.root.leaves()}
        if starts is None and not any(hasattr(p, "gradient") for p in self.parts if p.leaf in leaves):
            return None
        return self._gradient(self.root, row, starts)

    def _values(self, node: Node, rows: F32) -> F64:
        total = np.zeros((len(rows), self.n_outputs))
        for part in self._on(node):
            total += part.values(rows)
        for child in node.children:
            total += self._values(child, child.spec.materialize().transform(rows))
        return total

    def _gradient(self, node: Node, row: F32, starts: F32 | None) -> F64:
        """Return the gradient of the subtree with respect to a row (m,), by the chain rule along straight paths."""
        total = np.zeros((len(row), self.n_outputs))
        for part in self._on(node):
            total += _part_gradient(part, row, starts)
        for child in node.children:
            features = child.spec.materialize()
            child_starts = None if starts is None else features.transform(starts)
            by_feature = self._gradient(child, features.transform(row[None])[0], child_starts)
            total += features.pull_back(row, by_feature, starts)
        return total

    def _on(self, node: Node) -> list[Member]:
        return [part for part in self.parts if part.leaf == node.leaf]


def _part_gradient(part: Any, row: F32, starts: F32 | None) -> F64:
    """Return the mean gradient (m, t) on the paths from ``starts`` (t, m) to ``row``, or the gradient at ``row``.

    A member with a method ``path_gradient(start (m,), row (m,))`` but no ``gradient`` is a step function.
    """
    if starts is None:
        return np.asarray(part.gradient(row)) if hasattr(part, "gradient") else np.zeros(())
    if hasattr(part, "path_gradient"):
        return np.column_stack([part.path_gradient(start, row)[:, j] for j, start in enumerate(starts)])
    if isinstance(part, KernelMember) and part.kernel.sigma is not None:
        total = sum(
            gaussian_path_gradient(starts, row, image, part.duals, part.kernel.sigma) for image in part.rows
        )
        return np.asarray(total * (part.share / len(part.rows)))
    return np.asarray(part.gradient(row))  # linear members have a constant gradient
