"""Adapter that makes a fitted scikit-learn transformer of sets usable as an embedding in models."""

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


@dataclass(frozen=True, eq=False)  # compared by identity: many transformers are not hashable
class TransformerParams(Params[Any]):
    """A fitted transformer whose ``transform`` maps n sets to a 2-D array (n, m)."""

    _cache_size = 0  # there is nothing to cache
    ordered = True  # the transformer may depend on the order of the points

    transformer: Any
    n_dims: int
    n_features: int
    domain: None = None

    @classmethod
    def of(cls, transformer: Any, sets: SampleSets) -> TransformerParams:
        """Copy the fitted transformer; the row length m is determined by transforming the first set."""
        return cls(copy.deepcopy(transformer), sets.n_dims, _rows(transformer, sets[:1]).shape[1])

    def embed(self, sets: SampleSets) -> F32:
        """Return rows (n_sets, m) float32; raise `RowError` for a set whose row is not finite."""
        rows = _rows(self.transformer, sets)
        if rows.shape[1] != self.n_features:
            raise ValueError(
                f"{self.transformer!r} must return {self.n_features} columns, as in fit; got {rows.shape[1]}"
            )
        return rows


def _rows(transformer: Any, sets: SampleSets) -> F32:
    result = transformer.transform(sets)
    if getattr(result, "shape", ())[:1] != (len(sets),) or len(result.shape) != 2:
        raise ValueError(
            f"{transformer!r} must transform {len(sets)} sets into an array (n_sets, n_features); got "
            f"{type(result).__name__} of shape {getattr(result, 'shape', None)}"
        )
    with np.errstate(over="ignore"):
        rows = np.asarray(result.toarray() if issparse(result) else result).astype(np.float32)
    finite = np.isfinite(rows).all(axis=1)
    if not finite.all():
        raise RowError(int(np.argmin(finite)), f"has non-finite features from {transformer!r}")
    return rows
