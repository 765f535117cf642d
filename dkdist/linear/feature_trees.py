"""Graph of feature maps that share intermediate results.

    sets ─ C ┬─ A (bandwidth 1) ┬─ z (sigma 1)     cosine coefficients once for all embeddings on one domain,
             │                  └─ z (sigma 2)     products with the frequencies once for all sigmas
             └─ A (bandwidth 2) ── z (sigma 1)

`SharedFeatureGraph` is serializable. Its outputs (leaves) are yielded one after another, so only one has to be in
memory. If all features of a block are in memory at the same time, a block has 128 rows for any number of leaves, so the
order of rows in SGD does not depend on other candidates. Invalid sets raise an error or are skipped as in embeddings.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkdist._base.embedding import count_outside
from dkdist._base.inputs import check_sets, lazy_blocks
from dkdist._base.invalid_sets import name_set_errors, run_skipping_invalid
from dkdist._base.params import Domain, FittedParams, Params
from dkdist._runtime._tuning import MAX_BLOCK_BYTES, MAX_BLOCK_SETS
from dkdist._runtime.blocks import Blocks, is_lazy, local_blocks, row_blocks
from dkdist._runtime.process import materialize_params
from dkdist._utils.serialization import serializable
from dkdist.embeddings.coefficients import CoefficientSpec, merge_specs
from dkdist.io.lazy_sets import LazySets
from dkdist.kernels.random_fourier_params import FourierSpec
from dkdist.linear._tuning import ROWS_PER_SEARCH_TILE
from dkdist.sets import SampleSets

OutputIterator = Iterator[tuple[int, NDArray[Any]]]


@serializable("Node")
@dataclass(frozen=True)
class Node:
    """Map with parameters ``spec`` (None: identity), ``children`` applied to its rows, and its leaf (-1: none).

    The rows of a ``sparse`` node of sets are sparse arrays.
    """

    spec: Any
    children: tuple[Node, ...] = ()
    leaf: int = -1
    sparse: bool = False

    def leaves(self) -> Iterator[tuple[int, Any]]:
        """Yield (leaf, spec) of every output of the subtree."""
        if self.leaf >= 0:
            yield self.leaf, self.spec
        for child in self.children:
            yield from child.leaves()


@serializable("FeatureTrees")
@dataclass(frozen=True)
class SharedFeatureGraph(Params["MaterializedGraph"]):
    """Trees of maps whose roots have the same input: sets or rows."""

    _kept = 4

    roots: tuple[Node, ...]

    @property
    def domains(self) -> tuple[Domain, ...]:
        """Distinct domains of the points."""
        domains = (getattr(root.spec, "domain", None) for root in self.roots)
        return tuple(dict.fromkeys(domain for domain in domains if domain is not None))

    def only(self, leaves: Sequence[int]) -> SharedFeatureGraph:
        """Return the subgraph of some leaves; their numbers do not change."""
        nodes = (_prune(root, frozenset(leaves)) for root in self.roots)
        return SharedFeatureGraph(tuple(node for node in nodes if node is not None))

    def _build(self) -> MaterializedGraph:
        return MaterializedGraph(self)


def _prune(node: Node, leaves: frozenset[int]) -> Node | None:
    children = tuple(child for below in node.children if (child := _prune(below, leaves)) is not None)
    leaf = node.leaf if node.leaf in leaves else -1
    return replace(node, children=children, leaf=leaf) if children or leaf >= 0 else None


class MaterializedGraph(FittedParams[SharedFeatureGraph]):
    """Materialized maps of a `SharedFeatureGraph`; immutable and shared by all blocks."""

    def __init__(self, trees: SharedFeatureGraph) -> None:
        self.spec = trees
        self._groups = _group_by_coefficients(trees.roots)

    def of_sets(self, sets: SampleSets) -> OutputIterator:
        """Yield (leaf, features (n_sets, m) float32) of sets; arrays, or sparse arrays of sparse nodes."""
        spans = np.stack([sets.offsets[:-1], sets.offsets[1:]], axis=1)
        for merged_spec, roots in self._groups:
            if merged_spec is None:
                for root in roots:
                    embedding = root.spec.materialize()
                    rows = embedding.sparse_rows(sets) if root.sparse else embedding.embed(sets)
                    yield from _iter_node(root, rows)
                continue
            C = merged_spec.materialize().of(sets, spans)
            for root in roots:
                yield from _iter_node(root, root.spec.materialize().rows(C, merged_spec))

    def of_rows(self, X: Any) -> OutputIterator:
        """Yield (leaf, features (n, m)) of rows X (n, k)."""
        identity = [root for root in self.spec.roots if root.spec is None]
        for root in identity:
            yield from _iter_node(root, X)
        yield from _iter_children([root for root in self.spec.roots if root.spec is not None], X)


def _iter_node(node: Node, rows: Any) -> OutputIterator:
    if node.leaf >= 0:
        yield node.leaf, rows
    yield from _iter_children(node.children, rows)


def _iter_children(nodes: Sequence[Node], X: Any) -> OutputIterator:
    """Yield the outputs of nodes applied to rows X; random features that differ only in sigma share products."""
    for spec, members in _group_by_frequencies(nodes):
        outputs = spec.materialize().transform_each(X, [node.spec.sigma for node in members])
        for i, node in enumerate(members):
            yield from _iter_node(node, outputs[i])
            outputs[i] = outputs[i][:0]  # release memory


def _group_by_frequencies(nodes: Sequence[Node]) -> list[tuple[FourierSpec, list[Node]]]:
    groups: dict[FourierSpec, list[Node]] = {}
    for node in nodes:
        groups.setdefault(replace(node.spec, sigma=1.0), []).append(node)
    return list(groups.items())


def _group_by_coefficients(roots: Sequence[Node]) -> list[tuple[CoefficientSpec | None, list[Node]]]:
    """Group roots whose cosine coefficients have the same domain and structure; others form one group.

    Densities that are computed directly from the points do not use coefficients, which would be slower and would
    change rounding.
    """
    groups: dict[Any, list[Node]] = {}
    for root in roots:
        is_direct = getattr(root.spec, "is_direct", False)
        spec = None if is_direct else getattr(root.spec, "coefficients", None)
        groups.setdefault(None if spec is None else (spec.domain, spec.structure), []).append(root)
    return [
        (None if key is None else merge_specs([node.spec.coefficients for node in nodes]), nodes)
        for key, nodes in groups.items()
    ]


@dataclass(frozen=True)
class SearchData:
    """Data of a search and its feature graph."""

    X: Any
    trees: SharedFeatureGraph
    widths: Sequence[int]
    skip: bool

    def blocks(self, leaves: Sequence[int], *, simultaneous: bool) -> Blocks:
        """Return blocks of the data; with ``simultaneous`` all leaves of a block are in memory at the same time."""
        columns = [self.widths[leaf] for leaf in leaves]
        row_bytes = 4 * (sum(columns) if simultaneous else max(columns))
        rows = ROWS_PER_SEARCH_TILE
        if not simultaneous:
            rows = int(np.clip(MAX_BLOCK_BYTES // row_bytes // rows * rows, rows, MAX_BLOCK_SETS))
        blocks = _search_blocks(self.X, rows)
        return replace(blocks, row_bytes=row_bytes, n_columns=row_bytes // 4)

    def features(self, leaves: Sequence[int]) -> partial[OutputIterator]:
        """Return a function of (block, position of its first row, optional mask) that yields the leaves."""
        trees = self.trees.only(leaves)
        if isinstance(self.X, SampleSets | LazySets):
            return partial(_features_of_sets, trees, self.skip)
        return partial(_features_of_rows, trees)


def _search_blocks(X: Any, rows: int) -> Blocks:
    if is_lazy(X):
        return row_blocks(X)
    # fewer sets per block if sets are large, because scalers and principal components copy the points
    if isinstance(X, LazySets):
        return lazy_blocks(X, MAX_BLOCK_BYTES // rows, rows)
    if isinstance(X, SampleSets):
        rows = max(1, min(rows, MAX_BLOCK_BYTES * len(X) // X.points.nbytes))
    return local_blocks(X, rows)


def _features_of_rows(
    trees: SharedFeatureGraph, block: Any, first: int, mask: NDArray[np.bool_] | None
) -> OutputIterator:
    X = np.asarray(block)
    yield from materialize_params(trees).of_rows(X if mask is None else X[mask])


def _features_of_sets(
    trees: SharedFeatureGraph, skip: bool, block: Any, first: int, mask: NDArray[np.bool_] | None
) -> OutputIterator:
    positions = np.arange(first, first + len(block))
    if mask is not None:
        block, positions = block[mask], positions[mask]
    if not len(block):
        return
    result = run_skipping_invalid(partial(_check_sets_in_domains, trees), block, positions, None, skip=skip)
    if not result.bad:
        (sets,) = result.results
        with name_set_errors(positions):
            yield from materialize_params(trees).of_sets(sets)
        return
    valid = np.flatnonzero(~np.isin(positions, result.bad))
    n, valid_sets = len(positions), block[valid]
    for leaf, X in (
        materialize_params(trees).of_sets(
            valid_sets.points_alone() if isinstance(valid_sets, LazySets) else valid_sets
        )
        if len(valid)
        else ()
    ):
        rows = np.full((n, X.shape[1]), np.nan, np.float32)
        rows[valid] = X
        yield leaf, rows


def _check_sets_in_domains(trees: SharedFeatureGraph, sets: SampleSets, first: int) -> SampleSets:
    """Return the sets; raise `SampleSetError` for points outside a fixed domain."""
    for domain in trees.domains or (None,):
        count_outside(domain, sets, first)
    return sets


def check_search_data(X: Any) -> Any:
    """Return validated sets (in memory or in a store) or features (an array, possibly lazy)."""
    if getattr(X, "ndim", 0) == 2 and (is_lazy(X) or isinstance(X, np.ndarray)):
        return X
    return check_sets(X)
