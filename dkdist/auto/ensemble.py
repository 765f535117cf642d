"""Fitted ensembles: weighted sums of members; each member is a function of the rows of one leaf."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property, partial
from itertools import pairwise
from typing import Any

import numpy as np

from dkdist._base.inputs import Sets
from dkdist._numba.arrays import F32, F64, I64, Array
from dkdist._runtime.map_reduce import map_blocks
from dkdist._utils.serialization import serializable
from dkdist.auto.bagged_trees import BaggedTrees
from dkdist.auto.kernel_sums import KernelSums
from dkdist.auto.representation_rows import RowKernel
from dkdist.auto.study_design import FittedDesign, remove
from dkdist.linear.feature_trees import Node, SearchData, SharedFeatureGraph
from dkdist.linear.kernel_ridge import INTERCEPT_KERNEL
from dkdist.models.model_text import require_working


@serializable("KernelMachine")
@dataclass(frozen=True)
class KernelMember:
    """f(x) = share (sum_j k(x, a_j) dual_j + intercept), with rows a (n, m) of training sets and their images.

    The default intercept is that of `dkdist.linear.kernel_ridge.duals`.
    """

    leaf: int
    kernel: RowKernel
    rows: tuple[F32, ...]
    duals: F64
    centre: F64
    share: float
    intercept: F64 | None = None

    def check_loaded(self) -> None:
        """Raise ValueError unless all images have one row per dual and one column per entry of the centre."""
        shapes = {image.shape for image in self.rows}
        expected = {(len(self.duals), len(self.centre))}
        if shapes != expected or self.duals.ndim != 2 or self.centre.ndim != 1:
            raise ValueError(
                f"The rows of a kernel member must fit duals of shape {self.duals.shape} and a centre of shape "
                f"{self.centre.shape}; got shapes {sorted(shapes)}."
            )
        if self.offset.shape != self.duals.shape[1:]:
            raise ValueError(
                f"The intercept of a kernel member must have shape {self.duals.shape[1:]}; got {self.offset.shape}."
            )

    @property
    def offset(self) -> F64:
        """Intercepts (t,)."""
        return INTERCEPT_KERNEL * self.duals.sum(axis=0) if self.intercept is None else self.intercept

    def __getstate__(self) -> dict[str, Any]:
        # without the cached sums
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @cached_property
    def _weighted_sums(self) -> KernelSums:
        return KernelSums(self.kernel, self.rows, self.duals, self.centre)

    def values(self, X: F32) -> F64:
        """Return values (n, t) of rows X (n, m); each depends only on its row."""
        return np.asarray(self.share * (self._weighted_sums.of(X) + self.offset))

    def gradient(self, x: F32) -> F64:
        """Return the gradient (m, t) with respect to a row x (m,)."""
        return self.share * self.kernel.gradient(x.astype(np.float64), self.rows, self.duals, self.centre)


@serializable("LinearMachine")
@dataclass(frozen=True)
class LinearMember:
    """f(x) = share (W x + b), on rows of one leaf."""

    leaf: int
    W: Array
    b: Array
    share: float

    def values(self, X: F32) -> F64:
        """Return values (n, t) of rows X (n, D)."""
        return np.asarray(self.share * (X @ self.W.T + self.b), np.float64)

    def gradient(self, x: F32) -> F64:
        """Return the gradient (D, t) with respect to a row of features."""
        return np.asarray(self.share * self.W.T, np.float64)


@serializable("TreeMember")
@dataclass(frozen=True)
class TreeMember:
    """f(x) = share * (mean of the trees), for rows of summaries."""

    leaf: int
    trees: BaggedTrees
    share: float

    def values(self, X: F32) -> F64:
        """Return values (n, t) of rows X (n, m)."""
        return self.share * self.trees.values(X)

    def path_gradient(self, start: F32, row: F32) -> F64:
        """Return the mean gradient (m, t) along the path from ``start`` to ``row`` (`BaggedTrees.path_gradient`)."""
        return self.share * self.trees.path_gradient(start, row)


Member = KernelMember | LinearMember | TreeMember


@serializable("Machine")
@dataclass(frozen=True)
class Ensemble:
    """Members and the feature graph that computes their rows; the prediction (n, t) is the sum of the members.

    With a ``design``, members use rows minus Z times the ``coefficients`` (q, m) of their leaf, for columns Z (n, q) of
    the design, and the prediction includes the offset of the covariates.
    """

    trees: SharedFeatureGraph
    widths: tuple[int, ...]
    parts: tuple[Member, ...]
    n_outputs: int
    design: FittedDesign | None = None
    coefficients: tuple[F64, ...] = ()

    @classmethod
    def of(
        cls, trees: SharedFeatureGraph, widths: Sequence[int], parts: Sequence[Member], n_outputs: int
    ) -> Ensemble:
        """Return an ensemble without a design, with the part of a feature graph that its members use."""
        leaves = sorted({part.leaf for part in parts})
        return cls(trees.only(leaves), tuple(widths), tuple(parts), n_outputs)

    def check_loaded(self) -> None:
        """Raise ValueError unless every member predicts ``n_outputs`` numbers from the rows of its leaf."""
        width_by_leaf: dict[int, int] = {}
        for root in self.trees.roots:
            _check_node(root, width_by_leaf)
        if any(self.widths[leaf : leaf + 1] != (width,) for leaf, width in width_by_leaf.items()):
            raise ValueError(
                f"The feature graph must have the widths {self.widths}; got {width_by_leaf} by leaf."
            )
        if self.design is not None:
            shapes = [
                self.coefficients[leaf].shape for leaf in width_by_leaf if leaf < len(self.coefficients)
            ]
            expected = [(self.design.n_columns, width) for width in width_by_leaf.values()]
            if self.design.coef.shape[1:] != (self.n_outputs,) or shapes != expected:
                raise ValueError(
                    f"The coefficients of the design must have shapes {expected} and {self.n_outputs} outputs; got "
                    f"{shapes} and {self.design.coef.shape[1:]}."
                )
        if not self.parts:
            raise ValueError("The model must have at least 1 member; got 0.")
        for part in self.parts:
            if part.leaf not in width_by_leaf:
                raise ValueError(f"A member uses leaf {part.leaf}, which is not in the feature graph.")
            width = width_by_leaf[part.leaf]
            values = part.values(np.zeros((1, width), np.float32))
            if values.shape != (1, self.n_outputs) or not np.isfinite(values).all():
                raise ValueError(
                    f"A member on leaf {part.leaf} must predict {self.n_outputs} finite numbers from {width} features; "
                    f"got {values!r:.80}."
                )

    @property
    def leaves(self) -> list[int]:
        """Leaves that members use, ascending."""
        return sorted({part.leaf for part in self.parts})

    def data(self, sets: Sets) -> SearchData:
        """Return the sets with the feature graph."""
        return SearchData(sets, self.trees, list(self.widths), False)

    def values(self, sets: Sets, Z: F64 | None = None) -> F64:
        """Return predictions (n, t) of all sets, block by block; ``Z`` (n, q) are the columns of the design."""
        data = self.data(sets)
        blocks = data.blocks(self.leaves, simultaneous=True)
        work = partial(
            _add_member_values, data.features(self.leaves), self.parts, self.n_outputs, self.coefficients
        )
        extras = block_columns(blocks.bounds, Z)
        total = np.concatenate(map_blocks(blocks, work, extras, label="predict", local_if_small=True))
        return total if self.design is None or Z is None else total + self.design.offset(Z)


def _check_node(node: Node, width_by_leaf: dict[int, int]) -> None:
    """Validate the maps of a node and its children, and add the number of columns of their leaves."""
    require_working("Machine", node.spec)
    if node.leaf in width_by_leaf:
        raise ValueError(f"Leaf {node.leaf} must belong to one representation; got two.")
    if node.leaf >= 0:
        width_by_leaf[node.leaf] = node.spec.n_features
    for child in node.children:
        if child.spec.n_inputs != node.spec.n_features:
            raise ValueError(
                f"A feature map must take {node.spec.n_features} columns; got {child.spec.n_inputs}."
            )
        _check_node(child, width_by_leaf)


def block_columns(bounds: I64, Z: F64 | None) -> list[tuple[int, F64 | None]]:
    """Return for each block the position of its first set and its columns of the design."""
    return [(a, None if Z is None else Z[a:b]) for a, b in pairwise(bounds.tolist())]


def _add_member_values(
    features: Any,
    parts: Sequence[Any],
    n_outputs: int,
    coefficients: Sequence[F64],
    block: Any,
    columns: tuple[int, F64 | None],
) -> F64:
    total, (first, Z) = np.zeros((len(block), n_outputs)), columns
    for leaf, rows in features(block, first, None):
        X = rows if Z is None else remove(rows, Z, coefficients[leaf])
        for part in parts:
            if part.leaf == leaf:
                total += part.values(X)
    return total
