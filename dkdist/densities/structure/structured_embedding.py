"""`StructuredEmbedding`: densities of all dimensions together, of each alone, or of each and of pairs that matter.

Side by side, each dimension and each pair is a divergence on its own scaled square. A pair's squared distances count
(number of dimensions alone) / (number of pairs) times: a divergence is bounded alike in one dimension and in two, so
the pairs together weigh what the dimensions together weigh, and neither side drowns, whatever their numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from dkdist.base.domains import DomainEmbedding
from dkdist.base.embedding_spec import Domain
from dkdist.base.inputs import NONE, Sets
from dkdist.densities.structure.asked_structure import AskedStructure
from dkdist.densities.structure.chosen_pairs import found_pairs, looked_at
from dkdist.densities.structure.side_by_side_spec import Dims, Part, SideBySideSpec, columns_of, parts_of
from dkdist.loops.array_types import I64
from dkdist.sets import SampleSets

MOST_PAIRED_NODES = 2**13  # of all pairs of a set together: 81 pairs at 10 nodes a dimension
LEAST_PAIRED, MOST_PAIRED = 10, {2: 36, 3: 11}  # nodes of a dimension, of a pair and of three


@dataclass(frozen=True)
class Columns:
    """Sets, of which the dimensions ``dims`` are left, that a density of this ``kind`` is chosen by.

    ``most`` is how many nodes a dimension may have; None for as many as an embedding takes by itself.
    """

    sets: Sets
    bad: I64
    domain: Domain
    dims: Dims
    kind: str
    most: int | None = None


class StructuredEmbedding(DomainEmbedding):
    """Base of embeddings by densities that have a parameter ``structure``."""

    structure: Any
    spec_: Any

    def _arrange(
        self, asked: AskedStructure, looked: Columns, make: Callable[[Columns], Any], nodes: int | None = None
    ) -> tuple[Part, ...]:
        """Settle ``spec_``, ``structure_`` and the pairs of the columns ``looked`` at; returns the parts of ``spec_``.

        ``make`` gives the specification of each part; ``nodes`` are those of a pair, where their number is given.
        """
        sample = looked_at(looked.sets, looked.bad) if asked.kind == "pairs" else None
        together = asked.together
        self.n_pairs_found_ = 0 if together is None else len(together)
        if together is None and sample is not None:
            found = found_pairs(sample)
            together, self.n_pairs_found_ = tuple(found[: _most_pairs(nodes)]), len(found)
        self.pairs_ = together or ()
        self.structure_ = "marginal" if asked.kind == "pairs" and not together else asked.kind
        all_alone = asked.alone == looked.dims
        if sample is None or (all_alone and not together):
            self.spec_ = make(looked)
        else:
            singles = looked if all_alone else _some(sample, looked.domain, asked.alone, "marginal")
            parts = [
                Part(singles.dims, make(singles)),
                *self._groups(sample, looked.domain, make, len(asked.alone)),
            ]
            self.spec_ = SideBySideSpec(looked.domain, tuple(parts))
        return parts_of(self.spec_)

    def _groups(
        self, sample: SampleSets, domain: Domain, make: Callable[[Columns], Any], n_alone: int
    ) -> Iterator[Part]:
        """What stands beside the dimensions that are taken alone."""
        for dims in self.pairs_:
            most = _most_nodes(len(self.pairs_), len(dims))
            yield Part(dims, make(_some(sample, domain, dims, "tensor", most)), n_alone / len(self.pairs_))


def _some(sets: SampleSets, domain: Domain, dims: Dims, kind: str, most: int | None = None) -> Columns:
    """Some of the dimensions of good sets."""
    return Columns(columns_of(sets, dims), NONE, domain.of(dims), dims, kind, most)


def _most_pairs(nodes: int | None) -> int:
    """Of pairs that are found, how many are taken."""
    return max(1, MOST_PAIRED_NODES // (nodes or LEAST_PAIRED**2))


def _most_nodes(n_groups: int, d: int) -> int:
    """Nodes of a dimension that each of so many groups of d dimensions may have."""
    return int(np.clip((MOST_PAIRED_NODES / n_groups) ** (1 / d) + 1e-9, LEAST_PAIRED, MOST_PAIRED[d]))
