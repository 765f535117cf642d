"""Structured random Fourier features: the frequency matrix is a product of sign flips and Hadamard transforms.

    W = diag(s) / sigma  H D_3 H D_2 H D_1 / L^(3/2),   D_i random signs, s_r chi-distributed, L a power of
    two >= m

A product Wx then costs 3 L log2 L additions for every L frequencies instead of 2 m L flops, and its rows
are orthogonal, so it approximates the kernel better than independent ones (Yu et al. 2016, "structured
orthogonal random features"). Sixteen rows are transformed side by side, one to each lane of a vector
register; lanes never meet, so a row's bits depend on no other row.
"""

from __future__ import annotations

import numpy as np

from dkdist.loops.array_types import F32
from dkdist.loops.compile import ELEMENTWISE, inlined, loop
from dkdist.loops.elementary import f32, sincos

LANES = 16
CHUNK = 64


def padded_length(m: int) -> int:
    """The power of two L >= m, at least 16."""
    return max(16, 1 << (m - 1).bit_length())


def structured_features(X: F32, signs: F32, scales: F32, out: F32) -> None:
    """Fill ``out`` (n, 2F) with the features of rows ``X`` (n, m).

    ``signs`` (n_blocks, 3, L) are +1 or -1, ``scales`` (F,) the row lengths over L^(3/2) sigma, F <=
    n_blocks L.
    """
    _structured(X, signs, scales, f32(1 / np.sqrt(len(scales))), out)


@inlined(ELEMENTWISE)
def _hadamard(V):  # type: ignore[no-untyped-def]
    """V <- H V for the unnormalised Hadamard matrix, along the first axis of (L, 16); two levels at a time."""
    L = len(V)
    h = 1
    while h * 4 <= L:
        for i in range(0, L, 4 * h):
            for j in range(i, i + h):
                for lane in range(LANES):
                    a, b = V[j, lane], V[j + h, lane]
                    c, d = V[j + 2 * h, lane], V[j + 3 * h, lane]
                    p, q, r, s = a + b, a - b, c + d, c - d
                    V[j, lane], V[j + h, lane] = p + r, q + s
                    V[j + 2 * h, lane], V[j + 3 * h, lane] = p - r, q - s
        h *= 4
    if h < L:
        for j in range(h):
            for lane in range(LANES):
                a, b = V[j, lane], V[j + h, lane]
                V[j, lane], V[j + h, lane] = a + b, a - b


@inlined(ELEMENTWISE)
def _flip(V, signs):  # type: ignore[no-untyped-def]
    for r in range(len(V)):
        for lane in range(LANES):
            V[r, lane] *= signs[r]


@inlined(ELEMENTWISE)
def _write(V, scales, scale, start, n, first, out):  # type: ignore[no-untyped-def]
    """Sines and cosines of one block of phases, turned back from lanes to rows, 64 columns at a time."""
    F = len(scales)
    phases = np.empty((LANES, CHUNK), f32)
    for r0 in range(first, min(F, first + len(V)), CHUNK):
        c = min(CHUNK, F - r0, first + len(V) - r0)
        for r in range(c):
            for lane in range(LANES):
                phases[lane, r] = V[r0 - first + r, lane] * scales[r0 + r]
        for lane in range(n):
            phase = phases[lane]
            sines = out[start + lane, r0 : r0 + c]
            cosines = out[start + lane, F + r0 : F + r0 + c]
            for r in range(c):
                si, co = sincos(phase[r])
                sines[r] = scale * si
                cosines[r] = scale * co


@loop()
def _structured(X, signs, scales, scale, out):  # type: ignore[no-untyped-def]
    n_blocks, _, L = signs.shape
    m = X.shape[1]
    V = np.empty((L, LANES), f32)
    for start in range(0, len(X), LANES):
        n = min(LANES, len(X) - start)
        for block in range(n_blocks):
            V[:] = f32(0.0)
            for lane in range(n):
                for r in range(m):
                    V[r, lane] = X[start + lane, r] * signs[block, 0, r]
            _hadamard(V)
            _flip(V, signs[block, 1])
            _hadamard(V)
            _flip(V, signs[block, 2])
            _hadamard(V)
            _write(V, scales, scale, start, n, block * L, out)
