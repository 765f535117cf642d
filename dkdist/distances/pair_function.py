"""A user's own function of two objects as a distance, pair by pair."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dkdist._base.invalid_sets import PairError
from dkdist._numba.arrays import F32, F64, I64, Array
from dkdist.distances.base import CostModel, Distance
from dkdist.sets import SampleSets

UNKNOWN = "\N{REPLACEMENT CHARACTER}"  # what functions of text see for a symbol that is not in the alphabet


@dataclass(frozen=True)
class Kept:
    """Objects to compare with, as the function takes them."""

    objects: tuple[Any, ...]

    @property
    def n_omegas(self) -> int:
        """How many they are."""
        return len(self.objects)


@dataclass(frozen=True)
class Pairwise(Distance):
    """``function(a, b)`` of two (n, d) float64 arrays of true coordinates, two of codes, or two str for text."""

    function: Callable[[Any, Any], float]
    symmetric: bool = True
    alphabet: str | None = None

    ordered = by_function = True
    knows_differences = False
    dtype = np.float64
    sampler = "object"  # a function may not know what to do with pieces

    def grain(self, sizes: I64, n_dims: int) -> CostModel:
        """Each pair is a call."""
        return CostModel(1, 0)

    def prepare(self, points: Array, offsets: I64, weights: F32 | None = None) -> Kept:
        """The objects one by one."""
        return Kept(tuple(self._objects(points, offsets)))

    def fill(self, packed: Kept, points: Array, offsets: I64, weights: F32 | None, out: Array) -> None:
        """The function of every object and every prepared one, float64; `PairError` for a value that is no distance."""
        for i, a in enumerate(self._objects(points, offsets)):
            for j, b in enumerate(packed.objects):
                try:
                    value = _number(self.function(a, b))
                except Exception as error:
                    raise PairError(
                        i, j, f"cannot be found: the function raised {type(error).__name__}: {error}"
                    ) from error
                if not 0 <= value < np.inf:
                    raise PairError(
                        i, j, f"is {value}: a distance must be a finite number >= 0. Repair the function"
                    )
                out[i, j] = value

    def for_alphabet(self, alphabet: str | None) -> Pairwise:
        """The same for codes in an alphabet, of which the function gets text."""
        return self if alphabet is None else replace(self, alphabet=alphabet + UNKNOWN)

    def validate_on(self, sets: SampleSets, positions: Sequence[int] | I64) -> None:
        """Look at a few objects: ValueError for values that are negative, not finite, or not symmetric."""
        tried = replace(self, alphabet=sets.alphabet)
        objects = tried._objects(sets.points, sets.offsets)
        found = np.array([[_number(self.function(a, b)) for b in objects] for a in objects])
        bad = ~((found >= 0) & np.isfinite(found))
        if bad.any():
            i, j = divmod(int(np.argmax(bad)), len(bad))
            raise ValueError(
                f"the function gives {found[i, j]} for sets {positions[i]} and {positions[j]}: a distance must "
                "be a finite number >= 0. Repair it, or shift it"
            )
        apart = np.abs(found - found.T)
        if self.symmetric and (apart > 1e-5 * found + 1e-5 * found.T).any():
            i, j = divmod(int(np.argmax(apart)), len(apart))
            raise ValueError(
                f"the function gives {found[i, j]} for sets {positions[i]} and {positions[j]} and {found[j, i]} the "
                "other way: a distance should be symmetric. Give (f(a, b) + f(b, a)) / 2, or say pairwise(function, "
                "symmetric=False)"
            )

    def _objects(self, points: Array, offsets: I64) -> list[Any]:
        if self.alphabet is not None:
            return SampleSets._trusted(points, offsets, None, self.alphabet).strings()
        if points.dtype.kind == "f":
            points = points.astype(np.float64)
        return [points[a:b] for a, b in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)]


def as_float32(D: F64) -> F32:
    """Distances as features hold them; `PairError` for one that would become infinite or zero."""
    with np.errstate(over="ignore", under="ignore"):
        kept = D.astype(np.float32)
    lost = np.isinf(kept) | ((kept == 0) & (D != 0))
    if lost.any():
        i, j = divmod(int(np.argmax(lost)), lost.shape[1])
        raise PairError(
            i,
            j,
            f"is {D[i, j]:.6g}, which float32 takes for {kept[i, j]:g}: features are float32. Give "
            "distances in other units (distance_matrix keeps float64)",
        )
    return kept


def _number(found: Any) -> float:
    """What a function gave, as a float; infinite for a whole number that no float reaches."""
    try:
        return float(found)
    except OverflowError:
        return math.inf
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"the function gives {found!r:.200} for a pair of sets: a distance must be a finite number >= 0"
        ) from error
