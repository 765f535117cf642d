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
