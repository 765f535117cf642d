"""Numerical columns of covariates and nuisance variables, which are columns of the sets' targets.

Text becomes one indicator per category; numbers and booleans are standardised. Missing numbers (NaN) are replaced by
the median and marked by an indicator. Text has no missing values: an empty str is a category. Unknown categories have
only zeros before centring.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from dkdist._numba.arrays import F64, Array


@dataclass(frozen=True)
class DesignEncoder:
    """Transformers of named columns, fitted by `encode_design`, and the means of the q encoded columns.

    Errors name ``parameter``.
    """

    transformers: Mapping[str, Any]
    means: F64
    parameter: str

    def transform(self, targets: Mapping[str, Any], n_sets: int) -> F64:
        """Encode the columns of other sets: (n_sets, q) float64, less the means of the sets of the fit."""
        check_column_names(targets, list(self.transformers), self.parameter)
        return _encode(self.transformers, targets, n_sets, self.parameter) - self.means

    def get_feature_names_out(self) -> Array:
        """Return names of the q columns, such as "age", "site_b" and "missingindicator_age"."""
        return np.concatenate([t.get_feature_names_out([name]) for name, t in self.transformers.items()])


def encode_design(
    targets: Mapping[str, Any], names: Sequence[str], n_sets: int, parameter: str = "adjust"
) -> tuple[DesignEncoder, F64]:
    """Fit an encoder to the named columns of ``targets``; return it and the centred columns (n_sets, q) float64."""
    transformers = {}
    for name in check_column_names(targets, names, parameter):
        values = target_column(targets, name, n_sets, parameter)
        transformers[name] = (
            OneHotEncoder(handle_unknown="ignore", sparse_output=False)
            if values.dtype.kind == "U"
            else make_pipeline(SimpleImputer(strategy="median", add_indicator=True), StandardScaler())
        ).fit(values)
    columns = _encode(transformers, targets, n_sets, parameter)
    means = columns.mean(axis=0)
    return DesignEncoder(transformers, means, parameter), columns - means


def check_column_names(targets: Mapping[str, Any], names: Any, parameter: str) -> list[str]:
    """Return ``names`` as a list of distinct columns of ``targets``; ValueError names ``parameter``."""
    values = [names] if isinstance(names, str) else list(names) if isinstance(names, Sequence) else None
    if not values or not all(isinstance(name, str) for name in values):
        raise ValueError(
            f"{parameter} must be names of columns of the sets' targets, such as ['age', 'site']; got {names!r:.200}."
        )
    for name in values:
        if name not in targets:
            known = ", ".join(map(repr, targets)) or "none"
            raise ValueError(
                f"{parameter} must be names of columns of the sets' targets ({known}); got {name!r}. Add the column: "
                "SampleSets.from_arrays(sets).labelled(targets={...})."
            )
    return list(dict.fromkeys(values))


def target_column(targets: Mapping[str, Any], name: str, n_sets: int, parameter: str) -> Array:
    """Return a column of targets as text (n_sets, 1) or float64 (n_sets, k); infinite values are refused."""
    values = np.asarray(targets[name])
    if values.shape[:1] != (n_sets,):
        raise ValueError(
            f"{parameter} must have one value per set; got {name!r} of shape {values.shape} for {n_sets} sets."
        )
    values = values.reshape(n_sets, -1)
    if values.dtype.kind == "U":
        return values
    numbers = values.astype(np.float64)
    if np.isinf(numbers).any():
        i = int(np.argmax(np.isinf(numbers).any(axis=1)))
        raise ValueError(
            f"{parameter} must hold finite numbers or NaN; got infinity in {name!r} (set {i}). Correct it, or use NaN."
        )
    if np.isnan(numbers).all(axis=0).any():
        raise ValueError(
            f"{parameter} must hold at least one number; got only NaN in {name!r}. Omit the column."
        )
    return numbers


def _encode(transformers: Mapping[str, Any], targets: Mapping[str, Any], n_sets: int, parameter: str) -> F64:
    parts = [
        transformer.transform(target_column(targets, name, n_sets, parameter))
        for name, transformer in transformers.items()
    ]
    return np.asarray(np.concatenate(parts, axis=1), np.float64)
