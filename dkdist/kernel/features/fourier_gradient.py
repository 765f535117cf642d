"""Frequencies of random Fourier features as a matrix, and the derivative of functions of the features by their input.

    z = F^(-1/2) (sin p, cos p),  p = W x / sigma:   df/dx = W' (cos p f_sin - sin p f_cos) / (sigma F^(1/2))

for a function whose derivative by the features is (f_sin, f_cos).
"""

from __future__ import annotations

import numpy as np

from dkdist.loops.array_types import F32, F64


def phase_gradient(frequencies: F64, x: F64, gradient: F64, step: F64 | None = None) -> F64:
    """(m, k) derivatives by x (m,) of k functions with derivatives ``gradient`` (2 F, k) by the features.

    With a ``step`` the features' derivatives are averaged over the straight path of this length whose middle is x: the
    mean of cos over phases of a width of 2 a is cos at the middle times sin(a) / a. Both may be (m, k), one path for
    each function. ``frequencies`` (F, m) have sigma in them.
    """
    phases, F = frequencies @ x.reshape(len(x), -1), len(frequencies)
    slopes = np.cos(phases) * gradient[:F] - np.sin(phases) * gradient[F:]
    if step is not None:
        slopes *= np.sinc(frequencies @ step.reshape(len(step), -1) / (2 * np.pi))
    return np.asarray(frequencies.T @ slopes / np.sqrt(F))


def structured_frequencies(signs: F32, scales: F64, n_inputs: int) -> F64:
    """(F, m) the rows diag(s) H D_3 H D_2 H D_1 that `structured_features` multiplies by, from its arguments."""
    blocks = []
    for D in signs.astype(np.float64):
        V = np.diag(D[0])[:, :n_inputs]
        V = _hadamard(D[2][:, None] * _hadamard(D[1][:, None] * _hadamard(V)))
        blocks.append(V)
    return np.concatenate(blocks)[: len(scales)] * scales[:, None]


def _hadamard(V: F64) -> F64:
    """H V of the unnormalised Hadamard matrix, for (L, m) with L a power of two."""
    L, h = len(V), 1
    while h < L:
        pairs = V.reshape(L // (2 * h), 2, h, -1)
        V = np.stack([pairs[:, 0] + pairs[:, 1], pairs[:, 0] - pairs[:, 1]], axis=1).reshape(L, -1)
        h *= 2
    return V
