"""Extremely randomised trees on rows, each fitted on a bootstrap sample of groups (Geurts, Ernst, Wehenkel 2006).

scikit-learn grows the trees. Their nodes are stored as flat arrays. The out-of-bag prediction of a row is the mean of
the trees whose sample does not contain its group (Breiman 1996).

With many targets, each tree is grown on random projections of the targets, whose squared errors estimate those of all
targets without bias; leaves predict the mean of the targets themselves (Joly, Geurts, Wehenkel: Random forests with
random projections of the output space for high dimensional multi-label classification, 2014, section 3). Nearly all
leaves have one distinct target, so their values are stored once for all trees.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn import config_context
from sklearn.tree import ExtraTreeRegressor

from dkdist._numba.arrays import F32, F64, I64, Array
from dkdist._numba.points import read_only
from dkdist._utils.serialization import serializable
from dkdist.auto._bagged_trees_numba import add_jumps, add_values
from dkdist.auto._tuning import DEFAULT_N_TREES, MAX_SPLIT_TARGETS


@serializable("BaggedTrees")
@dataclass(frozen=True, eq=False)
class BaggedTrees:
    """Mean of regression trees, stored as the concatenated nodes of all trees.

    ``roots`` (n_trees,) int32 are the positions of the roots. Node i tests row[feature[i]] <= threshold[i] and
    continues at ``left`` or ``right`` (int32); feature -1 marks a leaf. ``value`` (n_nodes, t) are predictions; with
    ``value_rows`` (n_nodes,), node i predicts value[value_rows[i]].
    """

    roots: Array
    feature: Array
    threshold: F64
    left: Array
    right: Array
    value: F64
    value_rows: Array | None = None

    def check_loaded(self) -> None:
        """Raise ValueError unless children follow their parents, and nodes have features and values."""
        n, rows = len(self.feature), self._arrays[-1]
        inner = self.feature >= 0
        nodes = np.arange(n)
        shapes = {array.shape for array in (self.threshold, self.left, self.right, self.feature)}
        children = np.stack([self.left, self.right])[:, inner] if shapes == {(n,)} else np.empty((2, 0))
        if (
            shapes != {(n,)} or self.value.ndim != 2 or rows.shape != (n,) or self.roots.ndim != 1
            or ((rows < 0) | (rows >= len(self.value))).any()
            or not len(self.roots) or ((self.roots < 0) | (self.roots >= n)).any()
            or (children <= nodes[inner]).any() or (children >= n).any()
        ):  # fmt: skip
            raise ValueError(f"{n} nodes with {len(self.roots)} roots are not trees")

    def values(self, rows: F32) -> F64:
        """Return predictions (n, t) for rows (n, m); the comparison with thresholds uses float32."""
        out = np.zeros((len(rows), self.value.shape[1]))
        add_values(_as_float32(rows), *self._arrays, out)
        return out / len(self.roots)

    def path_gradient(self, start: F32, row: F32) -> F64:
        """Return the mean gradient (m, t) along the straight path from ``start`` (m,) to ``row`` (m,).

        Each jump of a tree is attributed to the feature whose threshold the path crosses, so that
        (row - start) @ path_gradient equals values(row) - values(start) up to rounding. Features that are equal at
        both ends have gradient 0. Simultaneous jumps are attributed to the node closest to the root. Rows are
        rounded to float32.
        """
        start, row = _as_float32(start), _as_float32(row)
        jumps = np.zeros((len(row), self.value.shape[1]))
        add_jumps(start, row, *self._arrays, jumps)
        step = (row.astype(np.float64) - start)[:, None] * len(self.roots)
        return np.divide(jumps, step, out=jumps, where=step != 0)

    @property
    def _arrays(self) -> tuple[Array, ...]:
        rows = np.arange(len(self.value), dtype=np.int32) if self.value_rows is None else self.value_rows
        fields = (self.roots, self.feature, self.threshold, self.left, self.right, self.value, rows)
        return tuple(read_only(array) for array in fields)


def _as_float32(array: Array) -> F32:
    return read_only(np.ascontiguousarray(array, np.float32))


def fit_bagged_trees(
    rows: F32,
    y: F64,
    weights: F64,
    groups: I64 | None,
    seed: int,
    *,
    n_trees: int = DEFAULT_N_TREES,
    max_features: float = 1 / 3,
    min_samples_leaf: int = 1,
) -> tuple[BaggedTrees, F64]:
    """Fit trees to rows (n, m) and targets (n, t); return them and out-of-bag predictions (n, t).

    Targets are numbers, or codes of classes such as +-1, for which the squared error of a split is its Gini impurity.
    Each tree is fitted to a bootstrap sample of the groups with positive weight, or of the rows if ``groups`` is None;
    a row that is drawn k times has k times its weight. Rows that are in every sample get the weighted mean of the
    targets as their out-of-bag prediction. ``max_features`` is a fraction of the m columns: for classes 1/3 is as
    accurate as 1.0 at half the cost; for regression 1.0 is better. Cost per tree: 0.4 ms plus
    n log2(n) max_features m operations.
    """
    X, y = _as_float32(rows), np.ascontiguousarray(y, np.float64)
    of_row = np.arange(len(X)) if groups is None else np.unique(groups, return_inverse=True)[1].reshape(-1)
    drawable = np.unique(of_row[weights > 0])
    rng = np.random.default_rng(seed)
    leaves = LeafValues(y) if y.shape[1] > MAX_SPLIT_TARGETS else None
    trees, total, count = [], np.zeros_like(y), np.zeros(len(X))
    # Without validation, small trees take a third less time.
    with config_context(skip_parameter_validation=True, assume_finite=True):
        for tree_seed in rng.integers(2**31, size=n_trees).tolist():
            draws = np.bincount(rng.choice(drawable, len(drawable)), minlength=of_row.max() + 1)[of_row]
            w = draws * weights
            bag = np.flatnonzero(w > 0)
            model = ExtraTreeRegressor(
                max_features=max_features, min_samples_leaf=min_samples_leaf, random_state=tree_seed
            )
            split_y = y if leaves is None else leaves.random_projections(tree_seed)
            tree = model.fit(X[bag], split_y[bag], w[bag], check_input=False).tree_
            trees.append(tree)
            if leaves is not None:
                leaves.add(tree.apply(X[bag]), bag, w[bag], tree.node_count)
            out = np.flatnonzero(draws == 0)
            if len(out):
                total[out] += (
                    tree.predict(X[out]).reshape(len(out), -1)
                    if leaves is None
                    else leaves.of_last_tree(tree.apply(X[out]))
                )
                count[out] += 1
    fallback = np.average(y, axis=0, weights=weights)
    oob = np.divide(total, count[:, None], out=total, where=count[:, None] > 0)
    oob[count == 0] = fallback
    return _flatten(trees, leaves), oob


class LeafValues:
    """Values of the leaves of all trees: a table of distinct targets, and means of leaves with several targets."""

    def __init__(self, y: F64) -> None:
        self._y = y
        self._targets, codes = np.unique(y, axis=0, return_inverse=True)
        self._codes = codes.reshape(-1)
        self._means: list[F64] = []
        self._rows: list[Array] = []

    def random_projections(self, seed: int) -> F64:
        """Return products of the targets with random signs, (n, MAX_SPLIT_TARGETS)."""
        random_signs = np.random.default_rng(seed).choice((-1.0, 1.0), (self._y.shape[1], MAX_SPLIT_TARGETS))
        return np.asarray((self._targets @ random_signs)[self._codes])

    def add(self, leaf: I64, bag: I64, w: F64, n_nodes: int) -> None:
        """Add a tree with the leaf (n,) and the weight of each row of its sample ``bag`` (n,)."""
        order = np.argsort(leaf, kind="stable")
        starts = np.flatnonzero(np.diff(leaf[order], prepend=-1))
        codes, rows = self._codes[bag[order]], np.zeros(n_nodes, np.int32)
        low, high = np.minimum.reduceat(codes, starts), np.maximum.reduceat(codes, starts)
        nodes, ends = leaf[order[starts]], np.append(starts[1:], len(leaf))
        rows[nodes] = low
        for i in np.flatnonzero(low < high).tolist():
            members = order[starts[i] : ends[i]]
            rows[nodes[i]] = len(self._targets) + len(self._means)
            self._means.append(np.average(self._y[bag[members]], axis=0, weights=w[members]))
        self._rows.append(rows)

    def of_last_tree(self, leaf: I64) -> F64:
        """Return the values (n, t) of leaves (n,) of the last tree."""
        rows, n_targets = self._rows[-1][leaf], len(self._targets)
        values = self._targets[np.minimum(rows, n_targets - 1)]
        for i in np.flatnonzero(rows >= n_targets).tolist():
            values[i] = self._means[rows[i] - n_targets]
        return np.asarray(values)

    @property
    def arrays(self) -> tuple[F64, Array]:
        """Values (k, t), and the row of each node of all trees."""
        value = np.concatenate([self._targets, *[mean[None] for mean in self._means]])
        return value, np.concatenate(self._rows)


def _flatten(trees: list[Any], leaves: LeafValues | None) -> BaggedTrees:
    """Concatenate the nodes of scikit-learn trees; indices of children refer to the concatenated arrays."""
    sizes = [tree.node_count for tree in trees]
    roots = np.cumsum([0, *sizes[:-1]])
    leaf = np.concatenate([tree.children_left for tree in trees]) < 0
    shift = np.where(leaf, 0, np.repeat(roots, sizes))
    left, right = (
        (np.concatenate([getattr(tree, name) for tree in trees]) + shift).astype(np.int32)
        for name in ("children_left", "children_right")
    )
    feature = np.where(leaf, -1, np.concatenate([tree.feature for tree in trees])).astype(np.int32)
    threshold = np.concatenate([tree.threshold for tree in trees])
    value, rows = (
        (np.concatenate([tree.value[:, :, 0] for tree in trees]), None) if leaves is None else leaves.arrays
    )
    return BaggedTrees(roots.astype(np.int32), feature, threshold, left, right, value, rows)
