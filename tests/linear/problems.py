"""A regression and classification problem that random features of unit norm can solve up to its noise."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np


class Problem(NamedTuple):
    X: Any
    y: Any
    c: Any
    X_test: Any
    y_test: Any
    c_test: Any


def smooth_problem(n: int = 6000, n_features: int = 300, noise: float = 0.35, seed: int = 0) -> Problem:
    """Return y = f(x) + noise, c = [y > 0], and X of sines and cosines; f has unit variance in three dimensions."""
    rng = np.random.default_rng(seed)
    x = rng.random((n + 4000, 3))
    f = np.sin(2 * np.pi * x[:, 0]) + np.cos(2 * np.pi * x[:, 1]) + 2 * x[:, 0] * x[:, 2]
    y = (f - f.mean()) / f.std() + noise * rng.standard_normal(len(f))
    p = x @ rng.standard_normal((3, n_features // 2)) / 0.4
    X = np.concatenate([np.sin(p), np.cos(p)], axis=1).astype("f4") * np.float32(np.sqrt(2 / n_features))
    c = (y > 0).astype(int)
    return Problem(X[:n], y[:n], c[:n], X[n:], y[n:], c[n:])
