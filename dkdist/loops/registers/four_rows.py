"""Four rows of one length at once: their products with another row, and with each other.

    products(x0, x1, x2, x3, v)        x0 v, x1 v, x2 v, x3 v
    all_products(x0, x1, x2, x3, v)    the same, and x0 x1, x0 x2, x0 x3, x1 x2, x1 x3, x2 x3

Each number is read once for all products. Sums come in one order in both functions: in lanes, which are added last.
"""

from __future__ import annotations

from dkdist.loops.compile import inlined
from dkdist.loops.registers.vectors import MANY_REGISTERS, full, fused, lane_sum, load

LANES = 16 if MANY_REGISTERS else 8


@inlined(early=False)
def products(x0, x1, x2, x3, v):  # type: ignore[no-untyped-def]
    """x0 v, x1 v, x2 v, x3 v."""
    zero, whole = v.dtype.type(0.0), len(v) // LANES * LANES
    s0 = s1 = s2 = s3 = full(zero, 1, LANES)
    for j in range(0, whole, LANES):
        w = load(v, j, 0, 1, LANES)
        s0 = fused(load(x0, j, 0, 1, LANES), w, s0)
        s1 = fused(load(x1, j, 0, 1, LANES), w, s1)
        s2 = fused(load(x2, j, 0, 1, LANES), w, s2)
        s3 = fused(load(x3, j, 0, 1, LANES), w, s3)
    r0 = r1 = r2 = r3 = zero
    for j in range(whole, len(v)):
        r0, r1, r2, r3 = r0 + x0[j] * v[j], r1 + x1[j] * v[j], r2 + x2[j] * v[j], r3 + x3[j] * v[j]
    return lane_sum(s0) + r0, lane_sum(s1) + r1, lane_sum(s2) + r2, lane_sum(s3) + r3


@inlined(early=False)
def all_products(x0, x1, x2, x3, v):  # type: ignore[no-untyped-def]
    """The same, and x0 x1, x0 x2, x0 x3, x1 x2, x1 x3, x2 x3."""
    zero, whole = v.dtype.type(0.0), len(v) // LANES * LANES
    s0 = s1 = s2 = s3 = s01 = s02 = s03 = s12 = s13 = s23 = full(zero, 1, LANES)
    for j in range(0, whole, LANES):
        w = load(v, j, 0, 1, LANES)
        a, b = load(x0, j, 0, 1, LANES), load(x1, j, 0, 1, LANES)
        c, d = load(x2, j, 0, 1, LANES), load(x3, j, 0, 1, LANES)
        s0, s1, s2, s3 = fused(a, w, s0), fused(b, w, s1), fused(c, w, s2), fused(d, w, s3)
        s01, s02, s03 = fused(a, b, s01), fused(a, c, s02), fused(a, d, s03)
        s12, s13, s23 = fused(b, c, s12), fused(b, d, s13), fused(c, d, s23)
    r0 = r1 = r2 = r3 = r01 = r02 = r03 = r12 = r13 = r23 = zero
    for j in range(whole, len(v)):
        r0, r1, r2, r3 = r0 + x0[j] * v[j], r1 + x1[j] * v[j], r2 + x2[j] * v[j], r3 + x3[j] * v[j]
        r01, r02, r03 = r01 + x0[j] * x1[j], r02 + x0[j] * x2[j], r03 + x0[j] * x3[j]
        r12, r13, r23 = r12 + x1[j] * x2[j], r13 + x1[j] * x3[j], r23 + x2[j] * x3[j]
    p0, p1, p2, p3 = lane_sum(s0) + r0, lane_sum(s1) + r1, lane_sum(s2) + r2, lane_sum(s3) + r3
    g01, g02, g03 = lane_sum(s01) + r01, lane_sum(s02) + r02, lane_sum(s03) + r03
    g12, g13, g23 = lane_sum(s12) + r12, lane_sum(s13) + r13, lane_sum(s23) + r23
    return p0, p1, p2, p3, g01, g02, g03, g12, g13, g23
