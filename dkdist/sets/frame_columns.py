"""Columns of data frames as NumPy arrays, through narwhals: what is missing, or no number, is refused by row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkdist.loops.array_types import I64, Array
from dkdist.loops.column_rows import EXACT, run_starts
from dkdist.loops.points import all_finite
from dkdist.sets.indexing import has_index
from dkdist.sets.point_checks import SampleSetError

NameOfRow = Callable[[int], str]


@dataclass(frozen=True)
class Column:
    """A column of a frame, a narwhals Series."""

    name: str
    series: Any

    def unfit(self) -> str | None:
        """Why it can be no coordinate that nobody has named; None if it can."""
        if not self._is_numeric():
            return f"{self.series.dtype} and no number"
        if self.name.startswith("Unnamed: "):
            return "the index of a table that was saved with it"
        counts = self.name in ("index", "level_0") and self.series.dtype.is_integer()
        if counts and np.array_equal(self.series.to_numpy(), np.arange(len(self.series))):
            return "it counts the rows"
        return None

    def starts(self) -> I64:
        """The rows whose value is not that of the row before; the first is one, and each that has no value."""
        if (values := self._plain()) is not None:
            return run_starts(values)
        differs = np.ones(len(self.series), bool)
        if len(differs) > 1:
            differs[1:] = self._differing()
        return np.flatnonzero(differs)

    def _differing(self) -> NDArray[np.bool_]:
        """Of each row but the first, whether its value is missing or not that of the row before."""
        arrow = self._arrow()
        if arrow is None:
            same = (self.series[1:] == self.series[:-1]).fill_null(False)
            return ~np.asarray(same.to_numpy(), bool)
        import pyarrow as pa
        import pyarrow.compute as pc

        if pa.types.is_dictionary(arrow.type):  # its values are not looked at
            arrow = arrow.unify_dictionaries().combine_chunks().indices
        differs = pc.not_equal(arrow[1:], arrow[:-1])
        differs = pc.fill_null(differs, True) if differs.null_count else differs
        return np.asarray(differs.to_numpy(zero_copy_only=False), bool)

    def _arrow(self) -> Any:
        """The values as pyarrow keeps them, if it does; else None."""
        native = self.series.to_native()
        if type(native).__module__.partition(".")[0] == "pyarrow":
            return native
        kept = has_index(native) and getattr(native.dtype, "storage", None) == "pyarrow"
        return native.array.__arrow_array__() if kept else None

    def _plain(self) -> Array | None:
        """The values, if they are kept as an array of numbers in which none is missing, or is NaN then."""
        native, arrow = self.series.to_native(), self._arrow()
        if arrow is not None and self.series.dtype.is_numeric() and not arrow.null_count:
            values = np.asarray(arrow.to_numpy(zero_copy_only=False))
        elif has_index(native) and isinstance(native.dtype, np.dtype):
            values = native.to_numpy()
        else:
            return None
        return values if values.dtype.kind in "iuf" else None

    def taken(self, rows: I64) -> Column:
        """Some of the rows."""
        return Column(self.name, self.series[rows])

    def numbers(self, name_of_row: NameOfRow) -> Array:
        """(T,) finite numbers; booleans are 0 and 1. Refuses text and categories, and missing values by row."""
        if not self._is_numeric():
            raise SampleSetError(
                f"column {self.name!r} is {self.series.dtype}, and points are numbers: leave it out, or give a column "
                "of 0 and 1 for each of its values (pandas.get_dummies)"
            )
        if (values := self._plain()) is not None and _is_finite(values):
            return values
        self._require_known(name_of_row)
        values = np.asarray(self.series.to_numpy())
        values = values.astype(np.float32) if values.dtype.kind == "b" else values
        if values.dtype.kind not in "iuf":
            values = values.astype(np.float64)
        if values.dtype.kind == "f" and not np.isfinite(values).all():
            row = int(np.argmin(np.isfinite(values)))
            raise SampleSetError(
                f"column {self.name!r} is {values[row]} in {name_of_row(row)}: drop the row, or fill it in"
            )
        return values

    def values(self, name_of_row: NameOfRow, *, missing: bool = False) -> Array:
        """(T,) numbers, booleans or str, of categories their values; with ``missing`` numbers may be NaN."""
        if missing and self._is_numeric() and self.series.is_null().any():
            return np.asarray(self.series.cast(_narwhals().Float64).to_numpy(), np.float64)
        self._require_known(name_of_row)
        values = np.asarray(self.series.to_numpy())
        is_text = self.series.dtype == _narwhals().String
        if is_text or (values.dtype.kind in "OT" and set(map(type, values)) <= {str, np.str_}):
            return values.astype(object, copy=False)
        if values.dtype.kind == "O":  # numbers in Python objects; a mixture with text stays, and is refused
            kinds = {type(value) for value in values.tolist()}
            values = np.array(values.tolist()) if kinds <= {int, float} or kinds == {bool} else values
        if values.dtype.kind not in "biufU":
            raise SampleSetError(
                f"column {self.name!r} is {self.series.dtype}: ids and targets are numbers, booleans or str. Convert it"
            )
        return values

    def _is_numeric(self) -> bool:
        dtype = self.series.dtype
        return bool(dtype.is_numeric() or dtype == _narwhals().Boolean)

    def _require_known(self, name_of_row: NameOfRow) -> None:
        lost = np.flatnonzero(np.asarray(self.series.is_null().to_numpy(), bool))
        if len(lost):
            raise SampleSetError(
                f"column {self.name!r} has no value in {name_of_row(int(lost[0]))} ({len(lost)} such rows): drop "
                "them, or fill them in"
            )


def _is_finite(values: Array) -> bool:
    """Whether no number is NaN or infinite."""
    if values.dtype.kind != "f" or not len(values):
        return True
    if values.dtype in EXACT and values.flags.c_contiguous:
        return all_finite(values)
    return bool(np.isfinite([values.min(), values.max()]).all())  # without a temporary


def columns_of_frame(frame: Any, what: str) -> dict[str, Column]:
    """The columns of an opened frame by name; names are str, and differ."""
    names = list(frame.columns)
    for name in names:
        if not isinstance(name, str):
            raise SampleSetError(f"column {name!r} of {what} has no str for a name: rename it")
    return {name: Column(name, frame[name]) for name in names}


def opened_frame(frame: Any, what: str) -> Any:
    """A pandas, polars or pyarrow frame in memory, as narwhals has it."""
    if type(frame).__module__.partition(".")[0] in ("dask", "dask_expr"):
        kind = type(frame).__name__
        raise TypeError(
            f"{what} is a Dask {kind}, which may be larger than memory: import_frame writes a store of a Dask DataFrame"
        )
    given = list(frame.columns if has_index(frame) else getattr(frame, "column_names", ()))
    if twice := [name for name in given if given.count(name) > 1]:
        raise SampleSetError(f"column {twice[0]!r} of {what} is there twice: rename one")
    opened = _narwhals().from_native(frame, eager_only=True, pass_through=True)
    if opened is frame:
        raise TypeError(
            f"{what} is {type(frame).__name__}: expected a pandas or polars DataFrame or a pyarrow Table in memory "
            "(collect() one that is lazy)"
        )
    return opened


def _narwhals() -> Any:
    for name in ("narwhals", "pandas"):
        if find_spec(name) is None:
            raise ImportError(f"sets from data frames need {name}: pip install 'dkdist[frames]'")
    import narwhals.stable.v2

    return narwhals.stable.v2
