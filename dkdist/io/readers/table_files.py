"""Sets from tables, one point a row: which columns mean what.

Several tables of one store: what came as text means the same in all of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Literal

from numpy.typing import NDArray

from dkdist._numba.arrays import Array
from dkdist._utils.validation import check_bool
from dkdist.io._zarr.batches import Outline, dtype_name
from dkdist.io.readers.files import DEFAULT_ENCODING, CsvOptions
from dkdist.io.readers.indexed_table import IndexedTable
from dkdist.io.readers.sources import log_summary
from dkdist.sets import SampleSets

if TYPE_CHECKING:
    from dkdist.io.readers.indexed_table import IndexedTable


WIDER = (("str", "<U20"), ("float64", "float64"))  # what whole numbers become where others have these


def unify_schema(outlines: Sequence[Outline]) -> list[Outline]:
    """The outlines, in which whole numbers that came as text are text or numbers where they are that elsewhere.

    Nothing is lost: text counts as whole numbers only if they are printed so.
    """
    result = list(outlines)
    names = dict.fromkeys(name for outline in result for name in outline.form or {})
    for name in names:
        kinds = {outline.form[name][0] for outline in result if outline.form and name in outline.form}
        for kind, dtype in WIDER:
            if kind in kinds and "int64" in kinds and name not in ("points", "weights"):
                result = [_widened(outline, name, dtype) for outline in result]
                break
    return result


def _widened(outline: Outline, name: str, dtype: str) -> Outline:
    table, column = outline.source, name.removeprefix("targets/")
    if not isinstance(table, IndexedTable) or outline.form is None or outline.form[name][0] != "int64":
        return outline
    if (table.columns.set_id if name == "ids" else column) not in table.as_text:
        return outline
    index = table.index
    values: Array = (index.ids if name == "ids" else index.targets[column]).astype(dtype)
    changed = (
        index._replace(ids=values)
        if name == "ids"
        else index._replace(targets={**index.targets, column: values})
    )
    form = {**outline.form, name: (dtype_name(values.dtype), ())}
    return outline._replace(ids=changed.ids, form=form, source=replace(table, index=changed))


@dataclass(frozen=True)
class TableReader:
    """Reads CSV, TSV and Parquet tables with one point a row; a reader for `import_sets`, or used alone.

    A table is one file, or a folder of files at any depth, or a list of files. Its rows may stand in any order; sets
    come in the order of their first rows, and the rows of a set keep theirs. Needs pyarrow
    (``pip install 'dkdist[frames]'``).

    Parameters
    ----------
    set_id : str
        The column that says which set a point belongs to; it becomes the ids, int64 or text.
    points : sequence of str, optional
        The coordinates; by default all columns of numbers (booleans are 0 and 1) that are nothing else. Indices that
        pandas wrote are left out then (``Unnamed: 0``, ``__index_level_0__``, and ``index`` if it counts the rows).
    weight : str, optional
        A column with the weights of the points.
    targets : sequence of str
        Columns that are constant within a set.
    text : sequence of str
        Columns of CSV files to take as text, even if they look like numbers.
    sort : bool
        Order sets by their ids.
    missing_points : "raise" or "drop"
        Refuse rows without an id, a coordinate or a weight (empty, null or NaN), or leave them out (their number is
        logged).
    delimiter : str, optional
        What separates the columns of CSV files, one character: by default ``,``, and a tab for ``.tsv``.
    decimal : "." or ","
        The decimal mark of CSV files.
    encoding : str
        That of CSV files, such as ``latin-1`` or ``utf-16``.
    missing_targets : "raise" or "drop"
        Refuse sets without a target, or leave them out (their number is logged as a warning).

    Raises
    ------
    ValueError
        When reading: for columns that are not there or of a wrong kind, rows without an id, coordinates that are
        missing or not finite (naming row and file), targets that vary within a set or are missing (naming sets). One
        error names all of these, for which the table is read once more.
        `import_sets` makes a `SourceError` of it.

    Notes
    -----
    Names of folders such as ``region=eu`` are columns too (Hive partitions), which can be ids or targets; what begins
    with ``_`` or ``.`` is left alone. Checksums of the pages of Parquet files are verified, if the files have them.
    CSV files have no types: ids that are all whole numbers as they are printed are int64, and all others text
    (``007`` stays so); targets are whole numbers, numbers, booleans or text, by all of their values; whether a column
    can be a coordinate is seen in the first two megabytes. Empty text is a missing value.

    A table is read twice, ids and targets first. If the rows of a set stand together, that is all; else rows are
    sorted into place, in memory up to 256 MiB, and beyond in temporary files as large as the coordinates (``TMPDIR``
    says where), each row written and read once more. Memory: the ids, sizes and targets of all sets, and some pieces
    of a few megabytes (of Parquet files, some row groups); if rows are sorted, 256 MiB or a 256th of the table.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp(), "cells.csv")
    >>> _ = path.write_text("patient,cd4,cd8,age\\nA,.5,.2,60\\nB,.9,.8,71\\nA,.4,.1,60\\n")
    >>> for sets, targets, ids in TableReader("patient", targets=["age"]).read(path):
    ...     print(sets.sizes, targets["age"], ids)
    [2 1] [60 71] ['A' 'B']
    """

    set_id: str
    points: tuple[str, ...] | None = None
    weight: str | None = None
    targets: tuple[str, ...] = ()
    text: tuple[str, ...] = ()
    sort: bool = False
    missing_targets: Literal["raise", "drop"] = "raise"
    missing_points: Literal["raise", "drop"] = "raise"
    delimiter: str | None = None
    decimal: Literal[".", ","] = "."
    encoding: str = DEFAULT_ENCODING

    def __post_init__(self) -> None:
        check_bool("sort", self.sort)
        for name in ("points", "targets", "text"):
            given = getattr(self, name)
            object.__setattr__(self, name, None if given is None else as_names(name, given))
        for name in ("set_id", "weight"):
            if not isinstance(getattr(self, name), (str, type(None) if name == "weight" else str)):
                raise TypeError(f"{name} is {getattr(self, name)!r:.200}: give the name of a column")
        for name in ("missing_targets", "missing_points"):
            value = getattr(self, name)
            if not isinstance(value, str) or value not in ("raise", "drop"):
                raise ValueError(f"{name} is {value!r:.200}: give 'raise' or 'drop'")
        self.csv_options()

    def csv_options(self) -> CsvOptions:
        """How CSV files are written; ValueError for what none is."""
        return CsvOptions.checked(self.delimiter, self.decimal, self.encoding)

    def read(self, path: Any) -> Iterator[tuple[SampleSets, dict[str, NDArray[Any]], NDArray[Any]]]:
        """(sets, targets, ids), some megabytes at a time."""
        table = self._indexed(path)
        if table is not path:
            log_summary([table.told], table.dropped)
        return table.batches()

    def outline(self, path: Any) -> Outline:
        """Sizes, ids and form; reads the columns of ids and targets."""
        return self._indexed(path).outline()

    def agreed(self, outlines: Sequence[Outline]) -> list[Outline]:
        """The outlines of several tables, whose ids and targets of CSV files mean the same in all of them."""

        return unify_schema(outlines)

    def _indexed(self, path: Any) -> IndexedTable:
        if find_spec("pyarrow") is None:
            raise ImportError("reading tables needs pyarrow: pip install 'dkdist[frames]'")
        from dkdist.io.readers.indexed_table import IndexedTable

        return path if isinstance(path, IndexedTable) else IndexedTable.of(path, self)


def as_names(name: str, given: Any) -> tuple[str, ...]:
    """Names of columns; TypeError for anything else."""
    try:
        names = tuple(given)
    except TypeError:
        names = (given,)
    if isinstance(given, (str, bytes)) or not all(isinstance(column, str) for column in names):
        raise TypeError(f"{name} is {given!r:.200}: give names of columns, such as [{name[:1]!r}]")
    return names
