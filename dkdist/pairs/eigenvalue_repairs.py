"""The nearest thing to a Gram matrix: a symmetric matrix whose negative eigenvalues are repaired (Chen et al. 2009).

clip     lambda -> max(lambda, 0): the nearest positive semi-definite matrix in the Frobenius norm
flip     lambda -> |lambda|
shift    lambda -> lambda - min(lambda_min, 0): changes nothing but the diagonal
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from scipy.linalg import eigh, eigvalsh

from dkdist.loops.array_types import F64


def clip(gram: F64) -> F64:
    """Negative eigenvalues become zero."""
    return _rebuilt(gram, lambda values: np.maximum(values, 0))


def flip(gram: F64) -> F64:
    """Negative eigenvalues become positive ones."""
    return _rebuilt(gram, np.abs)


def shift(gram: F64) -> F64:
    """The smallest eigenvalue, if it is negative, is subtracted from all."""
    least = float(eigvalsh(gram, subset_by_index=[0, 0])[0])
    return np.asarray(gram - min(least, 0.0) * np.eye(len(gram)))


def _rebuilt(gram: F64, repair: Callable[[F64], F64]) -> F64:
    values, vectors = eigh(gram)
    if values[0] >= 0:
        return gram.copy()
    made = (vectors * repair(values)) @ vectors.T
    return np.asarray((made + made.T) / 2)


METHODS: Mapping[str, Callable[[F64], F64]] = {"clip": clip, "flip": flip, "shift": shift}
