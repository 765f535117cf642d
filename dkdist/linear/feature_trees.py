"""Many feature maps of the same sets, made from what they have in common.

    sets ─ C ┬─ A (bandwidth 1) ┬─ z (sigma 1)     cosine coefficients once for all embeddings on one domain,
             │                  └─ z (sigma 2)     products with the frequencies once for all sigmas
             └─ A (bandwidth 2) ── z (sigma 1)

`SharedFeatureGraph` is a record of plain numbers like the parameters it consists of. Features come one by one,
leaf by leaf, so that whoever uses them up as they come holds one at a time.

A search runs over the blocks of its sets or rows. Where all features of a block are alive together it has 128 rows, the
tile of a product, whatever there is beside: so the order in which SGD takes the rows does not depend on what else is
tried. Bad sets are found and named, or left out, as embeddings do.
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
from dkdist.io import SetStore
from dkdist.kernels.random_fourier_params import FourierSpec
from dkdist.sets import SampleSets

TILE = 128

Leaves = Iterator[tuple[int, NDArray[Any]]]


@serializable("Node")
@dataclass(frozen=True)
class Node:
    """One map: ``spec`` of an embedding or of features of rows, what is made of its rows, and its own leaf (-1: none).

    ``spec`` None is the identity, for features that are there already.
    """

    spec: Any
    children: tuple[Node, ...] = ()
    leaf: int = -1

    def leaves(self) -> Iterator[tuple[int, Any]]:
        """(leaf, spec) of every set of features."""
        if self.leaf >= 0:
            yield self.leaf, self.spec
        for child in self.children:
            yield from child.leaves()


@serializable("FeatureTrees")
@dataclass(frozen=True)
class SharedFeatureGraph(Params["MaterializedGraph"]):
    """Trees whose roots all take the same sets, or the same rows."""

    _kept = 4

    roots: tuple[Node, ...]

    @property
    def domains(self) -> tuple[Domain, ...]:
        """The boxes that points must lie in, each once."""
        found = (getattr(root.spec, "domain", None) for root in self.roots)
        return tuple(dict.fromkeys(domain for domain in found if domain is not None))

    def only(self, leaves: Sequence[int]) -> SharedFeatureGraph:
        """What of it bears the given leaves, under the same numbers."""
        kept = (_pruned(root, frozenset(leaves)) for root in self.roots)
        return SharedFeatureGraph(tuple(node for node in kept if node is not None))

    def _build(self) -> MaterializedGraph:
        return MaterializedGraph(self)


def _pruned(node: Node, leaves: frozenset[int]) -> Node | None:
    children = tuple(child for below in node.children if (child := _pruned(below, leaves)) is not None)
    leaf = node.leaf if node.leaf in leaves else -1
    return replace(node, children=children, leaf=leaf) if children or leaf >= 0 else None


class MaterializedGraph(FittedParams[SharedFeatureGraph]):
    """The maps of `SharedFeatureGraph`, drawn; immutable, shared by all blocks."""

    def __init__(self, trees: SharedFeatureGraph) -> None:
        self.spec = trees
        self._groups = [(wide, roots) for wide, roots in _by_coefficients(trees.roots)]

    def of_sets(self, sets: SampleSets) -> Leaves:
        """(leaf, features (n_sets, m) float32), one after another."""
        spans = np.stack([sets.offsets[:-1], sets.offsets[1:]], axis=1)
        for wide, roots in self._groups:
            if wide is None:
                for root in roots:
                    yield from _features_of(root, root.spec.materialize().embed(sets))
                continue
            C = wide.materialize().of(sets, spans)
            for root in roots:
                yield from _features_of(root, root.spec.materialize().rows(C, wide))

    def of_rows(self, X: Any) -> Leaves:
        """(leaf, features (n, m)), one after another, of rows X (n, k)."""
        identity = [root for root in self.spec.roots if root.spec is None]
        for root in identity:
            yield from _features_of(root, X)
        yield from _features_on([root for root in self.spec.roots if root.spec is not None], X)


def _features_of(node: Node, rows: Any) -> Leaves:
    if node.leaf >= 0:
        yield node.leaf, rows
    yield from _features_on(node.children, rows)


def _features_on(nodes: Sequence[Node], X: Any) -> Leaves:
    """What grows on rows X; random features that differ only in sigma are made together."""
    for spec, members in _by_frequencies(nodes):
        made = spec.materialize().transform_each(X, [node.spec.sigma for node in members])
        for i, node in enumerate(members):
            yield from _features_of(node, made[i])
            made[i] = made[i][:0]  # used up


def _by_frequencies(nodes: Sequence[Node]) -> list[tuple[FourierSpec, list[Node]]]:
    groups: dict[FourierSpec, list[Node]] = {}
    for node in nodes:
        groups.setdefault(replace(node.spec, sigma=1.0), []).append(node)
    return list(groups.items())


def _by_coefficients(roots: Sequence[Node]) -> list[tuple[CoefficientSpec | None, list[Node]]]:
    """Roots that are made of cosine coefficients on the same domain and structure together; others in one group.

    Those whose densities come straight from the points are cheaper without coefficients, and rows keep their bits.
    """
    groups: dict[Any, list[Node]] = {}
    for root in roots:
        straight = getattr(root.spec, "straight", False)
        spec = None if straight else getattr(root.spec, "coefficients", None)
        groups.setdefault(None if spec is None else (spec.domain, spec.structure), []).append(root)
    return [
        (None if place is None else merge_specs([node.spec.coefficients for node in nodes]), nodes)
        for place, nodes in groups.items()
    ]


@dataclass(frozen=True)
class SearchData:
    """The data of a search, and the trees of features that are made of it."""

    X: Any
    trees: SharedFeatureGraph
    widths: Sequence[int]
    skip: bool

    def blocks(self, leaves: Sequence[int], *, together: bool) -> Blocks:
        """Blocks of the data for some leaves, whose features are alive ``together`` or one after another."""
        columns = [self.widths[leaf] for leaf in leaves]
        row_bytes = 4 * (sum(columns) if together else max(columns))
        rows = (
            TILE
            if together
            else int(np.clip(MAX_BLOCK_BYTES // row_bytes // TILE * TILE, TILE, MAX_BLOCK_SETS))
        )
        made = _blocks(self.X, rows)
        return replace(made, row_bytes=row_bytes, n_columns=row_bytes // 4)

    def features(self, leaves: Sequence[int]) -> partial[Leaves]:
        """What makes the features of those leaves: a function of (block, index of its first row, mask or None)."""
        trees = self.trees.only(leaves)
        if isinstance(self.X, SampleSets | SetStore):
            return partial(_of_sets, trees, self.skip)
        return partial(_of_rows, trees)


def _blocks(X: Any, rows: int) -> Blocks:
    if is_lazy(X):
        return row_blocks(X)
    if isinstance(X, SetStore):
        return lazy_blocks(X, MAX_BLOCK_BYTES // rows, rows)  # large sets: fewer of them
    return local_blocks(X, rows)


def _of_rows(trees: SharedFeatureGraph, block: Any, first: int, mask: NDArray[np.bool_] | None) -> Leaves:
    X = np.asarray(block)
    yield from materialize_params(trees).of_rows(X if mask is None else X[mask])


def _of_sets(
    trees: SharedFeatureGraph, skip: bool, block: Any, first: int, mask: NDArray[np.bool_] | None
) -> Leaves:
    positions = np.arange(first, first + len(block))
    if mask is not None:
        block, positions = block[mask], positions[mask]
    if not len(block):
        return
    usable = run_skipping_invalid(partial(_checked, trees), block, positions, None, skip=skip)
    if not usable.bad:
        (sets,) = usable.results
        with name_set_errors(positions):
            yield from materialize_params(trees).of_sets(sets)
        return
    good = np.flatnonzero(~np.isin(positions, usable.bad))
    n, kept = len(positions), block[good]
    for leaf, X in (
        materialize_params(trees).of_sets(kept.points_alone() if isinstance(kept, SetStore) else kept)
        if len(good)
        else ()
    ):
        rows = np.full((n, X.shape[1]), np.nan, np.float32)
        rows[good] = X
        yield leaf, rows


def _checked(trees: SharedFeatureGraph, sets: SampleSets, first: int) -> SampleSets:
    """The sets, if every embedding can take them; `SampleSetError` otherwise."""
    for domain in trees.domains or (None,):
        count_outside(domain, sets, first)
    return sets


def source(X: Any) -> Any:
    """The data of a search: sets (in memory or in a store), or features, an array or a lazy one."""
    if is_lazy(X) or (isinstance(X, np.ndarray) and X.ndim == 2):
        return X
    return check_sets(X)
