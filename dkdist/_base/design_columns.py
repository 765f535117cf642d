"""Numerical columns of covariates and nuisance variables, which are targets of the sets.

Text and booleans become one centred column per category. So do adjusted integers that repeat, because codes of batches
have no order. Other numbers are standardised; missing ones (NaN) are replaced by the mean and marked by a column.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkdist._base._tuning import MIN_SETS_PER_CATEGORY
from dkdist._base.inputs import Sets
from dkdist._numba.arrays import F64, Array
from dkdist._utils.serialization import serializable
from dkdist._utils.validation import find_stacklevel
from dkdist.sets.labels import Labels


def check_names(covariates: Any, adjust: Any) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names of both arguments; ValueError unless they are distinct names in sequences."""
    names_by_argument = {}
    for argument, names in (("covariates", covariates), ("adjust", adjust)):
        is_sequence = names is None or (
            isinstance(names, Sequence | np.ndarray) and not isinstance(names, str)
        )
        if not is_sequence or not all(isinstance(name, str) for name in (() if names is None else names)):
            raise ValueError(
                f"{argument} must be a list of names of targets of X, such as ['age']; got {names!r}."
            )
        names_by_argument[argument] = tuple(str(name) for name in (() if names is None else names))
    both = sum(names_by_argument.values(), ())
    if repeated := [name for name in both if both.count(name) > 1]:
        raise ValueError(
            f"covariates and adjust must be distinct names; got {repeated[0]!r} twice. A covariate is a predictor, "
            "an adjusted variable is removed."
        )
    return names_by_argument["covariates"], names_by_argument["adjust"]


def target_column(sets: Sets, name: str, argument: str) -> Array:
    """Return a target with one value per set; ValueError naming the argument and the target."""
    targets = sets.targets
    if name not in targets:
        raise ValueError(
            f"{argument} must be targets of X, {list(targets)}; got {name!r}. Add it with from_frame, labelled or "
            "write_sets."
        )
    values = np.asarray(targets[name])
    if values.ndim != 1:
        raise ValueError(
            f"{argument}: {name!r} must have 1 value per set; got {values.shape[1]}. Give each column its own name."
        )
    if values.dtype.kind == "f" and np.isinf(values).any():
        raise ValueError(
            f"{argument}: {name!r} must be finite or NaN (missing); got {values[np.isinf(values)][0]} for set "
            f"{int(np.isinf(values).argmax())}."
        )
    return values


@dataclass(frozen=True)
class StudyDesign:
    """Columns (n,) by name: ``n_covariates`` covariates, then the adjusted variables."""

    columns: Mapping[str, Array]
    n_covariates: int

    @classmethod
    def of(cls, sets: Sets, covariates: Sequence[str], adjusted: Sequence[str]) -> StudyDesign:
        """Read the columns from the targets of sets; ValueError naming a column that is missing or unsuitable."""
        names = [("covariates", name) for name in covariates] + [("adjust", name) for name in adjusted]
        columns = {name: target_column(sets, name, argument) for argument, name in names}
        return cls(columns, len(covariates))

    def __getitem__(self, rows: Any) -> StudyDesign:
        return replace(self, columns={name: values[rows] for name, values in self.columns.items()})

    @property
    def covariates(self) -> tuple[str, ...]:
        """Names of the covariates."""
        return tuple(self.columns)[: self.n_covariates]

    @property
    def adjusted(self) -> tuple[str, ...]:
        """Names of the adjusted variables."""
        return tuple(self.columns)[self.n_covariates :]

    def select(self, names: Sequence[str]) -> StudyDesign:
        """Return a design with these adjusted variables alone."""
        return StudyDesign({name: self.columns[name] for name in names}, 0)

    def labels(self, rows: Any, names: Any) -> Labels:
        """Return labels of sets with the columns as targets."""
        return Labels(names=names, targets=dict(self[rows].columns))


@serializable("DesignColumn")
@dataclass(frozen=True)
class DesignColumn:
    """Encoding of a variable as k centred columns: one per category, or the standardised number and whether it lacks.

    ``categories`` is None for numbers. ``fill`` replaces missing numbers. ``is_missing_coded`` adds the indicator.
    """

    name: str
    categories: NDArray[np.generic] | None
    fill: float
    scale: float
    is_missing_coded: bool
    centre: F64

    @classmethod
    def of(cls, name: str, values: Array, weights: F64, *, is_adjusted: bool) -> DesignColumn:
        """Return the encoding for training values (n,) with weights (n,)."""
        if _is_categorical(values, is_adjusted):
            categories = np.unique(values)
            return cls(
                name,
                categories,
                0.0,
                1.0,
                False,
                np.average(values[:, None] == categories, axis=0, weights=weights),
            )
        numbers = values.astype(np.float64)
        is_missing = np.isnan(numbers)
        known, known_weights = numbers[~is_missing], weights[~is_missing]
        fill = float(np.average(known, weights=known_weights)) if len(known) else 0.0
        variance = float(np.average((known - fill) ** 2, weights=known_weights)) if len(known) else 0.0
        scale = float(np.sqrt(variance)) if variance > 0 else 1.0
        centre = [0.0, float(np.average(is_missing, weights=weights))] if is_missing.any() else [0.0]
        return cls(name, None, fill, scale, bool(is_missing.any()), np.array(centre))

    def encode(self, values: Array) -> tuple[F64, NDArray[np.bool_]]:
        """Return columns (n, k), and which values (n,) are unknown categories, whose columns are 0 (the mean)."""
        if (values.dtype.kind == "U") != (self.categories is not None and self.categories.dtype.kind == "U"):
            raise ValueError(
                f"column {self.name!r} must be {'text' if values.dtype.kind != 'U' else 'numbers'}, as in fit; got "
                f"{values.dtype}."
            )
        if self.categories is not None:
            is_category = values[:, None] == self.categories
            is_unknown = ~is_category.any(axis=1)
            return np.where(is_unknown[:, None], 0.0, is_category - self.centre), is_unknown
        numbers = values.astype(np.float64)
        is_missing = np.isnan(numbers)
        columns = [np.where(is_missing, 0.0, (numbers - self.fill) / self.scale)]
        if self.is_missing_coded:
            columns.append(is_missing - self.centre[1])
        return np.stack(columns, axis=1), np.zeros(len(values), np.bool_)

    @property
    def description(self) -> str:
        """Kind of the variable, for summaries."""
        if self.categories is not None:
            return f"{len(self.categories)} categories"
        return "number, with missing values" if self.is_missing_coded else "number"


def _is_categorical(values: Array, is_adjusted: bool) -> bool:
    """Return whether values are text, booleans, or adjusted integers that repeat: codes of batches have no order."""
    if values.dtype.kind in "iu" and is_adjusted:
        return len(np.unique(values)) * MIN_SETS_PER_CATEGORY <= len(values)
    return values.dtype.kind in "bU"


def encodings(design: StudyDesign, weights: F64) -> tuple[DesignColumn, ...]:
    """Return the encoding of every variable for training sets with weights (n,)."""
    return tuple(
        DesignColumn.of(name, values, weights, is_adjusted=i >= design.n_covariates)
        for i, (name, values) in enumerate(design.columns.items())
    )


def encode(variables: Sequence[DesignColumn], design: StudyDesign, *, warn: bool = False) -> F64:
    """Return the columns (n, q) of all variables side by side; warn of unknown categories."""
    parts = []
    for variable in variables:
        values = design.columns[variable.name]
        columns, is_unknown = variable.encode(values)
        parts.append(columns)
        if warn and is_unknown.any():
            unknown = np.unique(values[is_unknown]).tolist()
            warnings.warn(
                f"column {variable.name!r} has values that fit did not see, such as {unknown[0]!r} "
                f"({int(is_unknown.sum())} sets). They are replaced by the mean of the training sets: effects of these "
                "values are not removed.",
                stacklevel=find_stacklevel(),
            )
    return np.concatenate(parts, axis=1)
