"""A fitted scikit-learn transformer of sets, in the form in which models use embeddings."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import issparse

from dkdist._base.invalid_sets import RowError
from dkdist._base.params import Params
from dkdist._numba.arrays import F32
from dkdist.sets import SampleSets


@dataclass(frozen=True, eq=False)  # compared by identity: transformers are not hashable by content
class TransformerParams(Params[Any]):
    """A fitted transformer whose ``transform`` maps n sets to a 2-D array (n, m)."""

    _cache_size = 0  # nothing is built
    ordered = True  # the transformer may depend on the order of the points

    transformer: Any
    n_dims: int
    n_features: int
    domain: None = None

    @classmethod
    def of(cls, transformer: Any, sets: SampleSets) -> TransformerParams:
        """A copy of the fitted transformer; the length m of its rows is that of the first of the sets."""
        return cls(copy.deepcopy(transformer), sets.n_dims, _rows(transformer, sets[:1]).shape[1])

    def embed(self, sets: SampleSets) -> F32:
        """Rows (n_sets, m) float32; `RowError` for a set whose row is not finite."""
        rows = _rows(self.transformer, sets)
        if rows.shape[1] != self.n_features:
            raise ValueError(
                f"{self.transformer!r} returned {rows.shape[1]} columns; expected {self.n_features}, as in fit"
            )
        return rows


def _rows(transformer: Any, sets: SampleSets) -> F32:
    result = transformer.transform(sets)
    if getattr(result, "shape", ())[:1] != (len(sets),) or len(result.shape) != 2:
        raise ValueError(
            f"{transformer!r} must transform {len(sets)} sets to an array (n_sets, n_features); got "
            f"{type(result).__name__} of shape {getattr(result, 'shape', None)}"
        )
    with np.errstate(over="ignore"):
        rows = np.asarray(result.toarray() if issparse(result) else result).astype(np.float32)
    finite = np.isfinite(rows).all(axis=1)
    if not finite.all():
        raise RowError(int(np.argmin(finite)), f"has features that are not finite, made by {transformer!r}")
    return rows
