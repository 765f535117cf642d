"""Densities of each dimension and of pairs that matter, side by side.

Each dimension and each pair is a divergence on its own scaled square. A pair's squared distances count
(number of dimensions alone) / (number of pairs) times: a divergence is bounded alike in one dimension and in two, so
the pairs together weigh what the dimensions together weigh, and neither side drowns, whatever their numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from dkdist.base.embedding_spec import Domain
from dkdist.base.inputs import NONE
from dkdist.densities.structure.asked_structure import AskedStructure, Columns
from dkdist.densities.structure.chosen_pairs import found_pairs, looked_at
from dkdist.densities.structure.side_by_side_spec import Dims, Part, SideBySideSpec, columns_of
from dkdist.sets import SampleSets

MOST_PAIRED_NODES = 2**13  # of all pairs of a set together: 81 pairs at 10 nodes a dimension
LEAST_PAIRED, MOST_PAIRED = 10, {2: 36, 3: 11}  # nodes of a dimension, of a pair and of three


class Paired(NamedTuple):
    """A specification, the ``pairs`` (or threes) that it has beside single dimensions, and how many were found."""

    spec: Any
    pairs: tuple[Dims, ...]
    n_found: int


def paired(
    asked: AskedStructure, looked: Columns, make: Callable[[Columns], Any], nodes: int | None
) -> Paired:
    """What is asked of the columns ``looked`` at; ``make`` gives the specification of some of them.

    ``nodes`` are those of a pair, where their number is given.
    """
    sample = looked_at(looked.sets, looked.bad)
    pairs, n_found = asked.together, len(asked.together or ())
    if pairs is None:
        found = found_pairs(sample)
        pairs, n_found = tuple(found[: _most_pairs(nodes)]), len(found)
    all_alone = asked.alone == looked.dims
    if all_alone and not pairs:
        return Paired(make(looked), pairs, n_found)
    singles = looked if all_alone else _some(sample, looked.domain, asked.alone, "marginal")
    parts = [
        Part(singles.dims, make(singles)),
        *_groups(pairs, sample, looked.domain, make, len(asked.alone)),
    ]
    return Paired(SideBySideSpec(looked.domain, tuple(parts)), pairs, n_found)


def _groups(
    pairs: tuple[Dims, ...],
    sample: SampleSets,
    domain: Domain,
    make: Callable[[Columns], Any],
    n_alone: int,
) -> Iterator[Part]:
    """What stands beside the dimensions that are taken alone."""
    for dims in pairs:
        most = _most_nodes(len(pairs), len(dims))
        yield Part(dims, make(_some(sample, domain, dims, "tensor", most)), n_alone / len(pairs))


def _some(sets: SampleSets, domain: Domain, dims: Dims, kind: str, most: int | None = None) -> Columns:
    """Some of the dimensions of good sets."""
    return Columns(columns_of(sets, dims), NONE, domain.of(dims), dims, kind, most)


def _most_pairs(nodes: int | None) -> int:
    """Of pairs that are found, how many are taken."""
    return max(1, MOST_PAIRED_NODES // (nodes or LEAST_PAIRED**2))


def _most_nodes(n_groups: int, d: int) -> int:
    """Nodes of a dimension that each of so many groups of d dimensions may have."""
    return int(np.clip((MOST_PAIRED_NODES / n_groups) ** (1 / d) + 1e-9, LEAST_PAIRED, MOST_PAIRED[d]))
