"""No two sets of a store have the same id: what a writer remembers of the ids that are there, sixteen bytes for each.

An id is remembered by two hashes of 64 bits, so that ids of any length take the same room. Two ids with both in common
are told to be one though they differ: for two texts whose characters differ by less than 64 that has a probability of
some 2^-116.

    h(id) = sum_j c_j K_j mod 2^64,    c_j: its characters, or the number itself;  K_j: fixed odd random numbers

Sorted runs of hashes are merged like the digits of a binary counter: of N ids each is merged log2 N times at most.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dkdist.loops.array_types import Array
from dkdist.sets import SampleSetError

Hashes = NDArray[np.uint64]
PIECE = 2**16  # ids whose characters are looked at together


class DistinctIds:
    """The ids of a store that is being written."""

    def __init__(self) -> None:
        self._runs: list[tuple[Hashes, Hashes]] = []

    def add(self, ids: Array, label: str) -> None:
        """Remember ids (n,), distinct among themselves; `SampleSetError` naming the first that is there already."""
        first, second = _hashes(ids, 0), _hashes(ids, 1)
        known = np.zeros(len(ids), np.bool_)
        for there, beside in self._runs:
            place = np.minimum(np.searchsorted(there, first), len(there) - 1)
            known |= (there[place] == first) & (beside[place] == second)
        if known.any():
            i = int(np.argmax(known))
            raise SampleSetError(
                f"set {i} of the sets to append has the id {ids[[i]].tolist()[0]!r}, which a set of {label} has "
                "already: an id is that of one set. Leave it out if it is written, or give it an id of its own"
            )
        order = np.argsort(first)
        self._runs.append((first[order], second[order]))
        while len(self._runs) > 1 and len(self._runs[-2][0]) <= 2 * len(self._runs[-1][0]):
            self._runs[-2:] = [_merged(*self._runs[-2:])]


def _merged(one: tuple[Hashes, Hashes], other: tuple[Hashes, Hashes]) -> tuple[Hashes, Hashes]:
    first, second = (np.concatenate(pair) for pair in zip(one, other, strict=True))
    order = np.argsort(first, kind="stable")
    return first[order], second[order]


def _hashes(ids: Array, which: int) -> Hashes:
    """(n,) of numbers or of str, whose ends are filled with zeros: these add nothing."""
    made = np.empty(len(ids), np.uint64)
    for start in range(0, len(ids), PIECE):
        own = ids[start : start + PIECE]
        if own.dtype.kind == "U":
            width = max(1, own.dtype.itemsize // 4)
            codes = np.ascontiguousarray(own).view(np.uint32).reshape(len(own), width).astype(np.uint64)
        else:
            codes = own.astype(np.int64 if own.dtype.kind == "i" else np.uint64).view(np.uint64)[:, None]
        seed = np.random.default_rng([which, 0x1D5])
        factors = seed.integers(0, 2**64, codes.shape[1], np.uint64, endpoint=False) | np.uint64(1)
        made[start : start + PIECE] = codes @ factors
    return made
