"""Batches of whole sets to be written, with targets and ids as columns, and their checks before writing.

A store has one origin and one alphabet; the alphabet may grow at its end within the dtype of the points. Targets and
ids have one entry per set. All batches of a store share one form: the dtypes and trailing shapes of its arrays.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dkdist._numba.arrays import F64, I64, Array
from dkdist.io.errors import StoreFormatError
from dkdist.sets import SampleSetError, SampleSets, as_sample_sets
from dkdist.sets.indexing import align_to_ids
from dkdist.sets.labels import Names, as_column, as_ids, as_target_mapping, require_unique_ids
from dkdist.sets.origins import find_lossy_column
from dkdist.sets.point_checks import PRECISION_LOSS, Points
from dkdist.sets.strings import as_alphabet, translate_codes

Columns = dict[str, NDArray[Any]]
Form = dict[str, tuple[str, tuple[int, ...]]]
"""The dtype and trailing shape of each array, by its name in the store."""


class Outline(NamedTuple):
    """Contents of a source that are known before its points are read.

    ``sizes`` are the numbers of points per set, ``origin`` is that of the first batch, ``source`` replaces the source
    as the argument of `read`, ``summary`` is a log line about its columns, and ``dropped`` the number of dropped sets.
    """

    sizes: I64
    ids: Array | None = None
    form: Form | None = None
    origin: F64 | None = None
    names: Names | None = None
    source: Any = None
    summary: str = ""
    dropped: int = 0
    sample: F64 | None = None
    """(m, d) sample rows for the origin of the store; (0, d) if float32 represents all points."""


@dataclass(frozen=True)
class Batch:
    """Consecutive whole sets of a source, with targets and ids by array name."""

    sets: SampleSets
    columns: Columns = field(default_factory=dict)

    @property
    def form(self) -> Form:
        """The dtype and trailing shape of every array."""
        return form_of(self.sets, self.columns)


def as_columns(targets: Any, ids: Any, n_sets: int) -> Columns:
    """Return the arrays ``targets/NAME`` and ``ids`` of n_sets sets, by array name.

    A Series or frame of targets is aligned with the ids by its index. Raises `SampleSetError` for wrong lengths,
    dtypes or names, and for duplicate ids.
    """
    set_ids = None if ids is None else require_unique_ids(as_ids(ids, n_sets))
    columns: Columns = {}
    for name, values in as_target_mapping(targets).items():
        what = f"targets {name!r}"
        columns[f"targets/{name}"] = as_column(align_to_ids(values, set_ids, what), what, n_sets, max_ndim=2)
    return columns if set_ids is None else columns | {"ids": set_ids}


def columns_of(sets: Any, targets: Any = None, ids: Any = None) -> Columns:
    """Return targets and ids as columns; by default those stored in the sets."""
    set_ids = sets.ids if ids is None else ids
    return as_columns(sets.targets if targets is None else targets, set_ids, len(sets))


def require_same_form(form: Form, stored: Form, label: str) -> None:
    """Raise unless a batch has the arrays of the store, with equal dtypes and trailing shapes."""
    for name in sorted(stored.keys() - form.keys()):
        raise StoreFormatError(f"appended sets must have {_title(name)}, as in {label}; got none.")
    for name in sorted(form.keys() - stored.keys()):
        raise StoreFormatError(
            f"appended sets must not have {_title(name)}, which {label} lacks. Omit them or write a new store."
        )
    for name, (dtype, trailing) in form.items():
        if (dtype, trailing) != stored[name]:
            raise StoreFormatError(
                f"appended {_title(name)} must have dtype {stored[name][0]} and trailing shape {stored[name][1]}, as "
                f"{label}; got {dtype} and {trailing}. Convert them."
            )


def form_of(batch: SampleSets, columns: Columns) -> Form:
    """Return the dtype and trailing shape of every array of a batch."""
    rows = {"points": batch.relative} | ({} if batch.weights is None else {"weights": batch.weights})
    return form_of_arrays({**rows, **columns})


def form_of_arrays(arrays: Mapping[str, Any]) -> Form:
    """Return the dtypes and trailing shapes of the arrays of a store or a batch, without offsets."""
    return {name: (dtype_name(a.dtype), a.shape[1:]) for name, a in arrays.items() if name != "offsets"}


def require_same_names(names: Names | None, stored: Names | None, label: str) -> None:
    """Raise if batch and store both have names of dimensions, and these differ."""
    if names is None or stored is None or names == stored:
        return
    hint = " Reorder the columns." if sorted(names) == sorted(stored) else ""
    raise StoreFormatError(
        f"dimensions of appended sets must be {', '.join(stored)}, as in {label}; got {', '.join(names)}.{hint}"
    )


def dtype_name(dtype: Any) -> str:
    """Return the name of a dtype; all kinds of strings are ``str``."""
    return "str" if dtype.kind in "UTO" else str(dtype)


def _title(name: str) -> str:
    return f"targets {name.removeprefix('targets/')!r}" if name.startswith("targets/") else name


def origin_attribute(origin: F64 | None) -> tuple[float, ...] | None:
    """Return the origin as an attribute of a commit: None if it is 0."""
    return None if origin is None or not origin.any() else tuple(origin.tolist())


def convert_to_origin(sets: Any, origin: F64 | None, label: str) -> SampleSets:
    """Convert sets to the origin of the store, or to an inferred one for a new store (None).

    Raises `SampleSetError` naming column and set if float32 is too coarse relative to that origin.
    """
    if origin is None:
        return as_sample_sets(sets)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a loss of precision raises an error below
        batch = as_sample_sets(sets, origin)
    if isinstance(sets, SampleSets) and batch is sets:  # already relative to this origin
        return batch
    if batch.points_dtype == np.float32 and batch.n_dims == len(origin) and len(batch):
        _require_representable(
            list(sets) if not isinstance(sets, SampleSets) else [sets.points], batch, origin, label
        )
    return batch


def _require_representable(points: list[Any], batch: SampleSets, origin: F64, label: str) -> None:
    parts = [np.asarray(part) for part in points]
    column = find_lossy_column(parts, origin)
    if column is None:
        return
    if len(parts) != len(batch):
        parts = [parts[0][a:b] for a, b in zip(batch.offsets[:-1], batch.offsets[1:], strict=True)]
    i = next((i for i, part in enumerate(parts) if find_lossy_column([part], origin) is not None), 0)
    raise SampleSetError(
        f"column {column} of set {i} of the appended sets is near {np.median(parts[i][:, column]):.12g} and "
        f"{PRECISION_LOSS}, relative to the origin {origin[column]:.12g} of {label}. Write a new store with another "
        "origin (a representative first batch; origin= and --origin of imports), or split the column into a coarse "
        "and a fine one."
    )


def recode(
    sets: SampleSets, alphabet: str | None, dtype: str | None, label: str
) -> tuple[Points, str | None]:
    """Return (codes, alphabet) of appended sets: the store's alphabet, extended by their other characters.

    ``dtype`` is that of the stored points, if any. Raises `StoreFormatError` for text in a store of numbers, for the
    reverse, and for more symbols than the dtype has codes.
    """
    if dtype is not None and (alphabet is None) != (sets.alphabet is None):
        kinds = "text", "points or codes without an alphabet"
        stored, appended = kinds if alphabet is not None else kinds[::-1]
        raise StoreFormatError(f"appended sets must be {stored}, like those in {label}; got {appended}.")
    if sets.alphabet is None or alphabet is None or sets.alphabet == alphabet:
        return sets.relative, sets.alphabet
    grown = as_alphabet(alphabet + "".join(symbol for symbol in sets.alphabet if symbol not in set(alphabet)))
    if len(grown) > np.iinfo(str(dtype)).max + 1:
        raise StoreFormatError(
            f"alphabet must have at most {np.iinfo(str(dtype)).max + 1} symbols for {dtype} codes; got {len(alphabet)} "
            f"in {label} and {len(grown)} with the appended sets. Write all strings to a new store, starting with a "
            "batch of more than 256 symbols."
        )
    return translate_codes(sets.alphabet, grown)[sets.relative].astype(str(dtype)), grown
