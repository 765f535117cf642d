"""Many feature maps of the same sets, made from what they have in common.

    sets ─ C ┬─ A (bandwidth 1) ┬─ z (sigma 1)     cosine coefficients once for all embeddings on one domain,
             │                  └─ z (sigma 2)     products with the frequencies once for all sigmas
             └─ A (bandwidth 2) ── z (sigma 1)

`FeatureTrees` are records of plain numbers like the specifications they are made of. Features come one after another,
leaf by leaf, so that whoever uses them up as they come holds one at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dkdist.base.embedding_spec import Domain, Specification, Tables
from dkdist.densities.cosine.coefficients_spec import CoefficientSpec, widest
from dkdist.kernel.features.random_fourier_features_spec import FourierSpec
from dkdist.loops.array_types import F32
from dkdist.plain.kept import kept
from dkdist.sets import SampleSets

Leaves = Iterator[tuple[int, F32]]


@kept
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


@kept
@dataclass(frozen=True)
class FeatureTrees(Specification["DrawnTrees"]):
    """Trees whose roots all take the same sets, or the same rows."""

    _kept = 4

    roots: tuple[Node, ...]

    @property
    def domains(self) -> tuple[Domain, ...]:
        """The boxes that points must lie in, each once."""
        found = (getattr(root.spec, "domain", None) for root in self.roots)
        return tuple(dict.fromkeys(domain for domain in found if domain is not None))

    def only(self, leaves: Sequence[int]) -> FeatureTrees:
        """What of it bears the given leaves, under the same numbers."""
        kept = (_pruned(root, frozenset(leaves)) for root in self.roots)
        return FeatureTrees(tuple(node for node in kept if node is not None))

    def _tables(self) -> DrawnTrees:
        return DrawnTrees(self)


def _pruned(node: Node, leaves: frozenset[int]) -> Node | None:
    children = tuple(child for below in node.children if (child := _pruned(below, leaves)) is not None)
    leaf = node.leaf if node.leaf in leaves else -1
    return replace(node, children=children, leaf=leaf) if children or leaf >= 0 else None


class DrawnTrees(Tables[FeatureTrees]):
    """The maps of `FeatureTrees`, drawn; immutable, shared by all blocks."""

    def __init__(self, trees: FeatureTrees) -> None:
        self.spec = trees
        self._groups = [(wide, roots) for wide, roots in _by_coefficients(trees.roots)]

    def of_sets(self, sets: SampleSets) -> Leaves:
        """(leaf, features (n_sets, m) float32), one after another."""
        spans = np.stack([sets.offsets[:-1], sets.offsets[1:]], axis=1)
        for wide, roots in self._groups:
            if wide is None:
                for root in roots:
                    yield from _features_of(root, root.spec.draw().embed(sets))
                continue
            C = wide.draw().of(sets, spans)
            for root in roots:
                yield from _features_of(root, root.spec.draw().rows(C, wide))

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
        made = spec.draw().transform_each(X, [node.spec.sigma for node in members])
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
        (None if place is None else widest([node.spec.coefficients for node in nodes]), nodes)
        for place, nodes in groups.items()
    ]
