"""Embeddings other than `DivergenceEmbedding`, and the same computations for one set in NumPy.

Each value of ``RIVALS`` is (unfitted embedding, function): the function takes the fitted embedding and returns a
function of one (n, 2) float64 array that computes the same row in float64.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import dkdist as dk

F64 = np.ndarray
N_BASIS = 10


def l2_in_numpy(fitted: dk.L2Embedding) -> Callable[[F64], F64]:
    a = np.arange(N_BASIS)
    factor = np.where(a == 0, 1, np.sqrt(2)) * np.exp(-((np.pi * a * fitted.bandwidth_[:, None]) ** 2) / 2)

    def row(x: F64) -> F64:
        cosines = np.cos(np.pi * x[:, :, None] * a) * factor
        return (cosines[:, 0].T @ cosines[:, 1] / len(x)).ravel()

    return row


def histogram_in_numpy(fitted: dk.HistogramEmbedding) -> Callable[[F64], F64]:
    lam, amplitude = np.array(fitted.spec_.frequencies)[:, None], np.sqrt(fitted.spec_.masses)[:, None]

    def row(x: F64) -> F64:
        cell = np.minimum((x * N_BASIS).astype(np.int64), N_BASIS - 1)
        p = np.bincount(cell[:, 0] * N_BASIS + cell[:, 1], minlength=N_BASIS**2) / len(x)
        p *= N_BASIS**2  # a density, as in the compiled function
        phase, root = np.log(np.maximum(p, 1e-30)) * lam, np.sqrt(p) / N_BASIS * amplitude
        parts = [np.cos(phase) * root] + ([np.sin(phase) * root] if lam.any() else [])
        return np.stack(parts, axis=1).ravel()

    return row


def mean_in_numpy(fitted: dk.MomentEmbedding) -> Callable[[F64], F64]:
    return lambda x: (x.mean(axis=0) - fitted.centre_) / fitted.scale_


def covariance_in_numpy(fitted: dk.MomentEmbedding) -> Callable[[F64], F64]:
    upper = np.triu_indices(2)
    factor = np.where(upper[0] == upper[1], 1, np.sqrt(2))

    def row(x: F64) -> F64:
        y = (x - fitted.centre_) / fitted.scale_
        mean = y.mean(axis=0)
        y -= mean
        return np.concatenate([mean, (y.T @ y / len(y))[upper] * factor])

    return row


RIVALS: dict[str, tuple[Any, Callable[[Any], Callable[[F64], F64]]]] = {
    "L2": (dk.L2Embedding(N_BASIS, domain="unit"), l2_in_numpy),
    "histogram, Hellinger": (dk.HistogramEmbedding(N_BASIS, "hellinger", domain="unit"), histogram_in_numpy),
    "histogram, Jensen-Shannon": (dk.HistogramEmbedding(N_BASIS, domain="unit"), histogram_in_numpy),
    "histogram, intersection": (
        dk.HistogramEmbedding(N_BASIS, "intersection", domain="unit"),
        histogram_in_numpy,
    ),
    "mean": (dk.MomentEmbedding(), mean_in_numpy),
    "mean and covariance": (dk.MomentEmbedding(degree=2), covariance_in_numpy),
}
