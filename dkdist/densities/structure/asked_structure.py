"""What the parameter ``structure`` of embeddings by densities asks for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dkdist.base.parameter_checks import one_of
from dkdist.densities.structure.chosen_pairs import MOST_DIMS
from dkdist.densities.structure.side_by_side_spec import Dims

STRUCTURES = ("auto", "joint", "marginal", "pairs")
MOST_TENSOR_DIMS = 3
MOST_JOINT_DIMS = 6


@dataclass(frozen=True)
class AskedStructure:
    """One ``kind`` of density, "joint" or "marginal", or "pairs": dimensions ``alone``, and ``together`` some of them.

    ``together`` is None where the data are to say which.
    """

    kind: str
    alone: Dims
    together: tuple[Dims, ...] | None = ()


def asked_structure(structure: Any, d: int) -> AskedStructure:
    """The parameter ``structure`` of points of d dimensions, checked. "auto" looks for pairs from 4 dimensions on."""
    every = tuple(range(d))
    if not isinstance(structure, str):
        return _listed(structure, d)
    word = one_of("structure", structure, STRUCTURES)
    if word == "auto":
        word = "joint" if d <= MOST_TENSOR_DIMS else "pairs" if d <= MOST_DIMS else "marginal"
    elif word == "pairs" and not 1 < d <= MOST_DIMS:
        raise ValueError(
            f"structure='pairs' looks for pairs among 2 to {MOST_DIMS} dimensions, found {d}: "
            + ("use structure='marginal'" if d == 1 else "name the pairs, or take fewer dimensions (SetPCA)")
        )
    return AskedStructure(word, every, None if word == "pairs" else ())


def density_kind(kind: str, d: int) -> str:
    """How d dimensions are estimated: "tensor", "ball" (joint, four dimensions or more) or "marginal"."""
    if kind != "joint":
        return "marginal"
    if d > MOST_JOINT_DIMS:
        raise ValueError(
            f"structure='joint' estimates a density in {d} dimensions; up to {MOST_JOINT_DIMS} are supported. "
            "Use structure='marginal' or 'pairs', or reduce the dimension of the points first (SetPCA)"
        )
    return "tensor" if d <= MOST_TENSOR_DIMS else "ball"


def _listed(given: Any, d: int) -> AskedStructure:
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
