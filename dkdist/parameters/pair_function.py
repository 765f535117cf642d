"""A user's own function of two objects as a distance, pair by pair."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dkdist._validation import SampleSetError
from dkdist.sets import SampleSets

I64 = NDArray[np.int64]
F32 = NDArray[np.float32]


@dataclass(frozen=True)
class Kept:
    """Objects to compare with, as the function takes them."""

    objects: tuple[Any, ...]

    @property
    def n_omegas(self) -> int:
        """How many they are."""
        return len(self.objects)


@dataclass(frozen=True)
class Pairwise:
    """``function(a, b)`` of two (n, d) arrays, or of two str where the objects are text."""

    function: Callable[[Any, Any], float]
    symmetric: bool = True
    alphabet: str | None = None

    ordered: ClassVar[bool] = True
    codes: ClassVar[bool] = False
    takes_weights: ClassVar[bool] = False
    n_parts: ClassVar[int] = 1

    def prepare(self, points: NDArray[Any], offsets: I64, weights: F32 | None = None) -> Kept:
        """The objects one by one."""
        return Kept(tuple(self._objects(points, offsets)))

    def fill(self, packed: Kept, points: NDArray[Any], offsets: I64, weights: F32 | None, out: F32) -> None:
        """The function of every object and every prepared one; `SampleSetError` for a value that is no distance."""
        for i, a in enumerate(self._objects(points, offsets)):
            for j, b in enumerate(packed.objects):
                value = float(self.function(a, b))
                if not 0 <= value < np.inf:
                    raise SampleSetError(
                        f"the distance of object {i} of a block to random object {j} is {value}: a distance must be a "
                        "finite number >= 0. Repair the function"
                    )
                out[i, j] = value

    def _objects(self, points: NDArray[Any], offsets: I64) -> list[Any]:
        if self.alphabet is not None:
            return SampleSets._trusted(points, offsets, None, self.alphabet).strings()
        return [points[a:b] for a, b in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)]


def require_distance(distance: Pairwise, sets: SampleSets) -> None:
    """Look at a function on a few objects: ValueError for values that are negative, not finite, or not symmetric."""
    objects = distance._objects(sets.points, sets.offsets)
    found = np.array([[float(distance.function(a, b)) for b in objects] for a in objects])
    bad = ~((found >= 0) & np.isfinite(found))
    if bad.any():
        i, j = np.unravel_index(int(np.argmax(bad)), bad.shape)
        raise ValueError(
            f"the function gives {found[i, j]} for objects {i} and {j} of a sample: a distance must be a finite number "
            ">= 0. Repair it, or shift it"
        )
    apart = np.abs(found - found.T)
    if distance.symmetric and (apart > 1e-5 * (found + found.T)).any():
        i, j = np.unravel_index(int(np.argmax(apart)), apart.shape)
        raise ValueError(
            f"the function gives {found[i, j]} for objects {i} and {j} of a sample and {found[j, i]} the other way: "
            "a distance should be symmetric. Give (f(a, b) + f(b, a)) / 2, or say pairwise(function, symmetric=False)"
        )
