"""What is written to a store, checked before any writing: batches of whole sets, with targets and ids as columns.

A store has one origin that points are counted from, and one alphabet that codes of strings belong to, which grows at
its end and never beyond the dtype of the points. Targets and ids have one entry a set, of one of the few dtypes that a
store keeps. The form of a batch, the dtypes and trailing shapes of its arrays, is what all batches have in common.
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
    """What is known of a source before its points are read: the size of every set, perhaps ids, form, the origin of its
    first batch and names of the dimensions; what `read` is given in place of the source; what there is to tell of its
    columns; and how many sets were dropped.
    """

    sizes: I64
    ids: Array | None = None
    form: Form | None = None
    origin: F64 | None = None
    names: Names | None = None
    source: Any = None
    told: str = ""
    dropped: int = 0
    sample: F64 | None = None
    """(m, d) some rows, from which (of all sources) the origin of a store follows; none where float32 holds them."""


@dataclass(frozen=True)
class Batch:
    """Some whole sets of a source, in order, with their targets and ids by the arrays' names in a store."""

    sets: SampleSets
    columns: Columns = field(default_factory=dict)

    @property
    def form(self) -> Form:
        """The dtype and trailing shape of every array."""
        return form_of(self.sets, self.columns)


def as_columns(targets: Any, ids: Any, n_sets: int) -> Columns:
    """The arrays ``targets/NAME`` and ``ids`` of n_sets sets, by their names in the store.

    A Series or frame of targets is put in the order of the ids by its index. Raises `SampleSetError` for a wrong
    length, a dtype that is neither numeric, boolean nor str, a bad name, or an id that two sets have.
    """
    known = None if ids is None else require_unique_ids(as_ids(ids, n_sets))
    columns: Columns = {}
    for name, values in as_target_mapping(targets).items():
        what = f"targets {name!r}"
        columns[f"targets/{name}"] = as_column(align_to_ids(values, known, what), what, n_sets, max_ndim=2)
    return columns if known is None else columns | {"ids": known}


def columns_of(sets: Any, targets: Any = None, ids: Any = None) -> Columns:
    """The columns of sets (a collection in memory, or a view): those given, and otherwise those that the sets have."""
    own = sets.ids if ids is None else ids
    return as_columns(sets.targets if targets is None else targets, own, len(sets))


def require_same_form(given: Form, stored: Form, label: str) -> None:
    """Refuse a batch whose points, weights, targets or ids are unlike those the store has."""
    for name in sorted(stored.keys() - given.keys()):
        raise StoreFormatError(f"{label} has {_title(name)} but the sets to append have none: give them too")
    for name in sorted(given.keys() - stored.keys()):
        raise StoreFormatError(
            f"the sets to append have {_title(name)} but {label} has none: leave them out, "
            "or write a new store"
        )
    for name, found in given.items():
        if found != stored[name]:
            raise StoreFormatError(
                f"{_title(name)} to append have dtype {found[0]} and trailing shape {found[1]}; "
                f"{label} keeps dtype {stored[name][0]} and trailing shape {stored[name][1]}. Convert them"
            )


def form_of(batch: SampleSets, columns: Columns) -> Form:
    """The dtype and trailing shape of every array of a batch."""
    rows = {"points": batch.relative} | ({} if batch.weights is None else {"weights": batch.weights})
    return form_of_arrays({**rows, **columns})


def form_of_arrays(arrays: Mapping[str, Any]) -> Form:
    """The form of the arrays of a store or of a batch, by their names; offsets have none."""
    return {name: (dtype_name(a.dtype), a.shape[1:]) for name, a in arrays.items() if name != "offsets"}


def require_same_names(given: Names | None, stored: Names | None, label: str) -> None:
    """Refuse sets whose dimensions are named, and other than those that the store has, or in another order."""
    if given is None or stored is None or given == stored:
        return
    how = "in another order" if sorted(given) == sorted(stored) else "other than those"
    raise StoreFormatError(
        f"the dimensions of the sets to append are {', '.join(given)}, {how} of {label}, which has "
        f"{', '.join(stored)}: give the columns in its order"
    )


def dtype_name(dtype: Any) -> str:
    """The name by which dtypes are compared: all kinds of strings are ``str``."""
    return "str" if dtype.kind in "UTO" else str(dtype)


def _title(name: str) -> str:
    return f"targets {name.removeprefix('targets/')!r}" if name.startswith("targets/") else name


def origin_attribute(origin: F64 | None) -> tuple[float, ...] | None:
    """The origin as a commit says it: not at all, if it is 0."""
    return None if origin is None or not origin.any() else tuple(origin.tolist())


def convert_to_origin(sets: Any, origin: F64 | None, label: str) -> SampleSets:
    """Sets to be written, counted from the origin of the store; from their own if it has none yet (None).

    Raises `SampleSetError` naming the column and the set if float32, so far from that origin, is too coarse for what
    the points differ by.
    """
    if origin is None:
        return as_sample_sets(sets)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what is told of in memory is refused here
        batch = as_sample_sets(sets, origin)
    if (
        isinstance(sets, SampleSets) and batch is sets
    ):  # it was counted from there before: float32 holds what it keeps
        return batch
    if batch.points_dtype == np.float32 and batch.n_dims == len(origin) and len(batch):
        _require_representable(
            list(sets) if not isinstance(sets, SampleSets) else [sets.points], batch, origin, label
        )
    return batch


def _require_representable(given: list[Any], batch: SampleSets, origin: F64, label: str) -> None:
    parts = [np.asarray(part) for part in given]
    column = find_lossy_column(parts, origin)
    if column is None:
        return
    if len(parts) != len(batch):
        parts = [parts[0][a:b] for a, b in zip(batch.offsets[:-1], batch.offsets[1:], strict=True)]
    i = next((i for i, part in enumerate(parts) if find_lossy_column([part], origin) is not None), 0)
    raise SampleSetError(
        f"column {column} of set {i} of the sets to append lies near {np.median(parts[i][:, column]):.12g} and "
        f"{PRECISION_LOSS}, for {label} counts from {origin[column]:.12g}, its origin: write a new store from another origin "
        "(a first batch that is like all of them; origin= and --origin of imports), or give the column in two, a "
        "coarse and a fine one"
    )


def recode(
    sets: SampleSets, alphabet: str | None, dtype: str | None, label: str
) -> tuple[Points, str | None]:
    """(codes, alphabet) of some sets to append: the store's alphabet, with what they have beside it at its end.

    ``dtype`` is that of the points that the store has, if it has any. Raises `StoreFormatError` for text in a store of
    numbers, for the reverse, and for more symbols than the dtype has codes.
    """
    if dtype is not None and (alphabet is None) != (sets.alphabet is None):
        kinds = "strings of characters", "points or codes without an alphabet"
        here, given = kinds if alphabet is not None else kinds[::-1]
        raise StoreFormatError(f"{label} holds {here}; the sets to append are {given}: give the same kind")
    if sets.alphabet is None or sets.alphabet == alphabet:
        return sets.relative, sets.alphabet
    if alphabet is None:
        return sets.relative, sets.alphabet
    grown = as_alphabet(alphabet + "".join(symbol for symbol in sets.alphabet if symbol not in set(alphabet)))
    if len(grown) > np.iinfo(str(dtype)).max + 1:
        raise StoreFormatError(
            f"{label} has {len(alphabet)} symbols and {len(grown)} with those to append, more than {dtype} codes can "
            "count: write all strings to a new store, or first a batch that has more than 256 symbols"
        )
    return translate_codes(sets.alphabet, grown)[sets.relative].astype(str(dtype)), grown
