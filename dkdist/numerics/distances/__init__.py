"""Distances between objects, a block of them against all random objects at once.

Every distance is a frozen dataclass of its options with the class attributes

- ``ordered``: the order of an object's points matters; ``codes``: points are integer codes;
- ``takes_weights``: points may have weights; ``n_parts``: features for each random object (omega);

and two methods.

- ``prepare(points (T, d) float32, offsets (R + 1,) int64, weights (T,) float32 or None) -> packed``: the R omegas once, as
  a picklable object that nobody changes, with the attribute ``n_omegas``.
- ``fill(packed, points, offsets, weights, out) -> None``: distances of n objects, given alike, to all omegas, into
  ``out`` (n, R n_parts) float32 in C order; of two parts the first R columns are part one, the next R part two.

Columns come in the order of the omegas. Row i depends on object i alone and column j on omega j alone, bit for bit:
whatever the block, and whatever other omegas are packed beside it.
"""
