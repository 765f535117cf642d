"""What the parameter ``structure`` of embeddings by densities asks for, and the columns that it is asked of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dkdist.base.embedding_spec import Domain
from dkdist.base.inputs import Sets
from dkdist.densities.structure.side_by_side_spec import Dims
from dkdist.loops.array_types import I64

STRUCTURES = ("auto", "joint", "marginal", "pairs")
MOST_TENSOR_DIMS = 3


@dataclass(frozen=True)
class AskedStructure:
    """One ``kind`` of density, "joint" or "marginal", or "pairs": dimensions ``alone``, and ``together`` some of them.

    ``together`` is None where the data are to say which.
    """

    kind: str
    alone: Dims
    together: tuple[Dims, ...] | None = ()


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


def listed_structure(given: Any, d: int) -> AskedStructure:
    """A list of dimensions and of groups of them; without single dimensions, all stand alone beside the groups."""
    groups = [_group(one, d) for one in given] if isinstance(given, Sequence) else []
    if not groups or None in groups or len({frozenset(g) for g in groups if g}) < len(groups):
        raise ValueError(
            f"structure must be one of {', '.join(map(repr, STRUCTURES))}, or a list of different pairs such as "
            f"[(0, 1), (2, {max(d - 1, 3)})], single dimensions and groups of three, of dimensions 0 to {d - 1}; found "
            f"{given!r:.200}"
        )
    alone = tuple(g[0] for g in groups if g is not None and len(g) == 1)
    together = tuple(g for g in groups if g is not None and len(g) > 1)
    return AskedStructure("pairs", alone or tuple(range(d)), together)


def _group(given: Any, d: int) -> Dims | None:
    """Up to three different dimensions, or one; None for anything else."""
    try:
        numbers = np.atleast_1d(np.asarray(given))
    except ValueError:  # of unequal lengths
        return None
    if numbers.ndim != 1 or numbers.dtype.kind not in "iu" or not 1 <= len(numbers) <= MOST_TENSOR_DIMS:
        return None
    dims = tuple(int(j) for j in numbers)
    return dims if all(0 <= j < d for j in dims) and len(set(dims)) == len(dims) else None
