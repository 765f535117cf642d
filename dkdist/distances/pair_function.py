"""Distances that call a user's function for each pair of objects."""

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


@dataclass(frozen=True)
class PreparedObjects:
    """Landmarks as arguments of the function."""

    objects: tuple[Any, ...]

    @property
    def n_omegas(self) -> int:
        """Number of landmarks."""
        return len(self.objects)


@dataclass(frozen=True)
class Pairwise(Distance):
    """Distance by a function of two (n, d) float64 arrays of true coordinates, two arrays of codes, or two str."""

    function: Callable[[Any, Any], float]
    symmetric: bool = True
    alphabet: str | None = None

    ordered = is_user_function = True
    is_translation_invariant = False
    dtype = np.float64
    default_sampler = "object"  # the function may not accept pieces of objects

    def cost_model(self, sizes: I64, n_dims: int) -> CostModel:
        """Return the costs: one call of the function per pair."""
        return CostModel(1, 0)

    def prepare(self, points: Array, offsets: I64, weights: F32 | None = None) -> PreparedObjects:
        """Convert landmarks to arguments of the function."""
        return PreparedObjects(tuple(self._objects(points, offsets)))

    def fill(
        self, packed: PreparedObjects, points: Array, offsets: I64, weights: F32 | None, out: Array
    ) -> None:
        """Call the function for every object and landmark; raise `PairError` for invalid distances."""
        for i, a in enumerate(self._objects(points, offsets)):
            for j, b in enumerate(packed.objects):
                try:
                    value = _as_number(self.function(a, b))
                except Exception as error:
                    raise PairError(
                        i, j, f"cannot be computed; the function raised {type(error).__name__}: {error}"
                    ) from error
                if not 0 <= value < np.inf:
                    raise PairError(i, j, f"must be a finite number >= 0; got {value}. Correct the function.")
                out[i, j] = value

    def for_alphabet(self, alphabet: str | None) -> Pairwise:
        """Return the same distance for codes in an alphabet, which are passed to the function as str."""
        return self if alphabet is None else replace(self, alphabet=alphabet)

    def validate_on(self, sets: SampleSets, positions: Sequence[int] | I64) -> None:
        """Evaluate all pairs of some sets; raise ValueError for negative, non-finite or asymmetric values."""
        objects = replace(self, alphabet=sets.alphabet)._objects(sets.points, sets.offsets)
        D = np.array([[_as_number(self.function(a, b)) for b in objects] for a in objects])
        is_invalid = ~((D >= 0) & np.isfinite(D))
        if is_invalid.any():
            i, j = divmod(int(np.argmax(is_invalid)), len(D))
            raise ValueError(
                f"function must return a finite number >= 0; got {D[i, j]} for sets {positions[i]} and {positions[j]}. "
                "Correct the function."
            )
        gaps = np.abs(D - D.T)
        if self.symmetric and (gaps > 1e-5 * D + 1e-5 * D.T).any():
            i, j = divmod(int(np.argmax(gaps)), len(D))
            raise ValueError(
                f"function must be symmetric; got {D[i, j]} for sets {positions[i]} and {positions[j]}, and {D[j, i]} "
                "in the reverse order. Use (f(a, b) + f(b, a)) / 2, or pairwise(function, symmetric=False)."
            )

    def _objects(self, points: Array, offsets: I64) -> list[Any]:
        if self.alphabet is not None:
            return SampleSets._trusted(points, offsets, None, self.alphabet).strings()
        if points.dtype.kind == "f":
            points = points.astype(np.float64)
        return [points[a:b] for a, b in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)]


def as_float32(D: F64) -> F32:
    """Convert distances to float32; raise `PairError` for overflow and underflow."""
    with np.errstate(over="ignore", under="ignore"):
        rounded = D.astype(np.float32)
    is_out_of_range = np.isinf(rounded) | ((rounded == 0) & (D != 0))
    if is_out_of_range.any():
        i, j = divmod(int(np.argmax(is_out_of_range)), D.shape[1])
        raise PairError(
            i,
            j,
            f"must be in the range of float32, like features; got {D[i, j]:.6g}, which rounds to {rounded[i, j]:g}. "
            "Return distances in other units, or use distance_matrix, which has float64 values.",
        )
    return rounded


def _as_number(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:  # an int too large for float64
        return math.inf
    except (TypeError, ValueError) as error:
        raise ValueError(f"function must return a finite number >= 0; got {value!r:.200}.") from error
