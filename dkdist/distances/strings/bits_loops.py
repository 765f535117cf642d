"""Words of 64 bits, which edit distances keep their columns in."""

from __future__ import annotations

import numpy as np

from dkdist.loops.compile import inlined

u64 = np.uint64
ZERO, ONE, TWO, THREE, TOP = u64(0), u64(1), u64(2), u64(3), u64(63)
SHORT = 128  # words at a time, each with one or more strings
LONG = 32  # chains of words at a time
EDITS, SWAPS, COMMON = (
    0,
    1,
    2,
)  # kinds: Levenshtein's, with swaps of neighbours, of insertions and deletions alone


@inlined()
def ones(x):  # type: ignore[no-untyped-def]
    """The number of bits that are set; compilers know this form."""
    x = x - ((x >> ONE) & u64(0x5555555555555555))
    x = (x & u64(0x3333333333333333)) + ((x >> TWO) & u64(0x3333333333333333))
    x = (x + (x >> u64(4))) & u64(0x0F0F0F0F0F0F0F0F)
    return (x * u64(0x0101010101010101)) >> u64(56)
