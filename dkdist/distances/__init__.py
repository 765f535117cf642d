"""Distances between objects, a block of them against all random objects at once.

An object is a set of points, a series or a string; R random objects ("omegas") are held fixed, and N objects come by
in blocks (D2KE: phi_j(x) = exp(-gamma d(x, omega_j)) / sqrt(R), Wu et al. 2018). Every distance is a frozen dataclass
of its options with

``ordered``
    whether the order of an object's points matters,
``codes``
    whether points are integer codes, (T, 1) uint8 or uint16; else they are (T, d) float32; those of
    `dkdist` know differences alone, and are given points counted from anywhere,
``takes_weights``
    whether points may have weights,
``n_parts``
    features for each omega,
``prepare(points, offsets, weights) -> packed``
    the omegas made ready, once: object j is ``points[offsets[j]:offsets[j + 1]]``, ``offsets`` (R + 1,) int64. The
    result can be pickled, is never changed, and has the attribute ``n_omegas``,
``fill(packed, points, offsets, weights, out) -> None``
    the distance of every object to every omega: ``out`` (n, R * n_parts) float32, C-contiguous, columns in the order
    in which the omegas were given.

Row i depends on object i alone and column j on omega j alone, bit for bit, whatever is in the block and whatever else
is packed. Nothing runs in threads here; compiled loops release the interpreter, so blocks can.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from dkdist.loops.array_types import F32, I64
from dkdist.sets import SampleSets


class Grain(NamedTuple):
    """How all pairs are cut into tasks: what it costs to take fewer columns, and to take them again.

    ``lanes`` prepared objects are compared as fast as one; ``ahead`` is how many objects are compared with
    prepared ones in the time of making these ready, 0 where that is nothing. Neither changes a bit.
    """

    lanes: int
    ahead: float


class Distance:
    """What a distance says of itself, as most distances say it; those of `dkdist` derive from it."""

    ordered: bool = False
    codes: bool = False
    takes_weights: bool = False
    n_parts: int = 1
    symmetric: bool = True
    squares = False  # coordinates, in float32: points and widths must have squares there
    knows_differences = True  # alone: points may be counted from anywhere
    by_function = False  # of a user's: it takes points, codes, and text as str, and is tried on some objects
    dtype: type[np.floating] = np.float32
    sampler = "subsample"  # of random objects, unless asked for otherwise
    symbols: str = ""  # of text, that mean something by themselves and not only as equal or unequal

    def prepare(self, points: Any, offsets: I64, weights: F32 | None) -> Any:
        """Objects made ready to be compared with, once."""
        raise NotImplementedError

    def fill(self, packed: Any, points: Any, offsets: I64, weights: F32 | None, out: F32) -> None:
        """The distances of objects to the prepared ones: ``out`` (n, R n_parts) float32."""
        raise NotImplementedError

    def grain(self, sizes: I64, n_dims: int) -> Grain:
        """How pairs of objects of such sizes are best cut into tasks; that of sets in `loops.lanes`."""
        return Grain(64, 100 / sizes.mean())

    def __call__(self, x: Any, y: Any) -> float:
        """The distance of two objects, checked and bit for bit as `distance_matrix` has it.

        Of many pairs the matrix is far faster: a call takes half a millisecond, of few points some 40 microseconds
        beside its loops, of two str half a microsecond.
        """
        from dkdist.distances.single_pair import distance_of  # which knows what collections are made of

        return distance_of(self, x, y)

    def refuse_weights(self, weights: F32 | None) -> None:
        """Raise ValueError if objects come with weights that change nothing."""
        if weights is not None:
            raise ValueError(
                f"{type(self).__name__} has no use for weights, but weights were given: leave them out, or take a "
                "distance of measures, such as Energy"
            )

    def for_alphabet(self, alphabet: str | None) -> Distance:
        """The same for codes in an alphabet, which has all ``symbols``; None for codes of another kind."""
        return self

    def try_on(self, sets: SampleSets, positions: Any) -> None:
        """Refuse what is no distance of these sets, which stand at some positions of the user's collection."""


class _Theirs(Distance):
    knows_differences = False


def traits(distance: Any) -> Distance:
    """What a distance says of itself beyond what is listed above, or, for an object of a user's, the defaults."""
    return distance if isinstance(distance, Distance) else _Theirs()
