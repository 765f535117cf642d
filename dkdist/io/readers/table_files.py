"""`TableReader`: sets from tables with one point per row, and types of columns that several tables share."""

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
from dkdist.io.readers.sources import log_summary
from dkdist.sets import SampleSets

if TYPE_CHECKING:
    from dkdist.io.readers.indexed_table import IndexedTable


# (type of a column in some tables, dtype to which an int64 column of the other tables is converted)
WIDER = (("str", "<U20"), ("float64", "float64"))


def unify_schema(outlines: Sequence[Outline]) -> list[Outline]:
    """Convert int64 columns of CSV files to text or float64 if another table has that type.

    This is lossless: text is inferred as int64 only if it is the canonical form of an integer.
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
    from dkdist.io.readers.indexed_table import IndexedTable  # requires pyarrow

    table, column = outline.source, name.removeprefix("targets/")
    if not isinstance(table, IndexedTable) or outline.form is None or outline.form[name][0] != "int64":
        return outline
    if (table.columns.set_id if name == "ids" else column) not in table.as_text:
        return outline
    index = table.index
    values: Array = (index.ids if name == "ids" else index.targets[column]).astype(dtype)
    new_index = (
        index._replace(ids=values)
        if name == "ids"
        else index._replace(targets={**index.targets, column: values})
    )
    form = {**outline.form, name: (dtype_name(values.dtype), ())}
    return outline._replace(ids=new_index.ids, form=form, source=replace(table, index=new_index))


@dataclass(frozen=True)
class TableReader:
    """Reader of CSV, TSV and Parquet tables with one point per row, for `import_sets` or direct use.

    A table is a file, a folder of files at any depth, or a list of files. Rows may have any order: sets have the order
    of their first rows, and the rows of a set keep their order. Requires pyarrow (``pip install 'dkdist[frames]'``).

    Parameters
    ----------
    set_id : str
        Column with the id of the set of each point; ids are int64 or text.
    points : sequence of str, optional
        Coordinates. Default: all other numeric columns (booleans are 0 and 1), without indices written by pandas
        (``Unnamed: 0``, ``__index_level_0__``, and ``index`` if it numbers the rows).
    weight : str, optional
        Column with the weights of the points.
    targets : sequence of str
        Columns that are constant within a set.
    text : sequence of str
        Columns of CSV files to read as text, even if they contain numbers.
    sort : bool
        Order sets by their ids.
    missing_points : "raise" or "drop"
        Raise for rows without an id, a coordinate or a weight (empty, null or NaN), or drop them and log their number.
    delimiter : str, optional
        One character that separates the columns of CSV files. Default: ``,``, and a tab for ``.tsv``.
    decimal : "." or ","
        Decimal mark of CSV files.
    encoding : str
        Encoding of CSV files, such as ``latin-1`` or ``utf-16``.
    missing_targets : "raise" or "drop"
        Raise for sets without a target, or drop them and log a warning with their number.

    Raises
    ------
    ValueError
        When reading: for missing columns or columns of a wrong type, rows without an id, missing or non-finite
        coordinates (naming row and file), and targets that vary within a set or are missing (naming sets). One error
        lists all invalid values, which requires another pass over the table. `import_sets` raises `SourceError`
        instead.

    Notes
    -----
    Folder names such as ``region=eu`` are columns (Hive partitions) for ids or targets; names that begin with ``_`` or
    ``.`` are ignored. Page checksums of Parquet files are verified if present. CSV files have no types: ids are int64
    if all are canonical integers, otherwise text (``007`` is text). All values of a target determine its type: integer,
    float, boolean or text. The first two megabytes determine the columns of coordinates. Empty text is a missing value.

    A table is read twice, ids and targets first. If the rows of a set are not contiguous, rows are sorted in memory up
    to 256 MiB, and otherwise in temporary files as large as the coordinates (in ``TMPDIR``), with one more write and
    read of each row. Memory: ids, sizes and targets of all sets, and a few pieces of a few megabytes (row groups for
    Parquet files); for sorting also 256 MiB or 1/256 of the table.

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
            columns = getattr(self, name)
            object.__setattr__(self, name, None if columns is None else as_names(name, columns))
        for name in ("set_id", "weight"):
            if not isinstance(getattr(self, name), (str, type(None) if name == "weight" else str)):
                raise TypeError(f"{name} must be the name of a column; got {getattr(self, name)!r:.200}")
        for name in ("missing_targets", "missing_points"):
            value = getattr(self, name)
            if not isinstance(value, str) or value not in ("raise", "drop"):
                raise ValueError(f"{name} must be 'raise' or 'drop'; got {value!r:.200}")
        self.csv_options()

    def csv_options(self) -> CsvOptions:
        """Return the CSV options; ValueError if invalid."""
        return CsvOptions.checked(self.delimiter, self.decimal, self.encoding)

    def read(self, path: Any) -> Iterator[tuple[SampleSets, dict[str, NDArray[Any]], NDArray[Any]]]:
        """Iterate over (sets, targets, ids), a few megabytes at a time."""
        table = self._indexed(path)
        if table is not path:
            log_summary([table.summary], table.dropped)
        return table.batches()

    def outline(self, path: Any) -> Outline:
        """Return sizes, ids and form, from the columns of ids and targets."""
        return self._indexed(path).outline()

    def agreed(self, outlines: Sequence[Outline]) -> list[Outline]:
        """Return outlines of several tables with consistent types of ids and targets."""
        return unify_schema(outlines)

    def _indexed(self, path: Any) -> IndexedTable:
        if find_spec("pyarrow") is None:
            raise ImportError("reading tables requires pyarrow: pip install 'dkdist[frames]'")
        from dkdist.io.readers.indexed_table import IndexedTable  # requires pyarrow

        return path if isinstance(path, IndexedTable) else IndexedTable.of(path, self)


def as_names(name: str, value: Any) -> tuple[str, ...]:
    """Return names of columns as a tuple; TypeError for other values."""
    try:
        names = tuple(value)
    except TypeError:
        names = (value,)
    if isinstance(value, (str, bytes)) or not all(isinstance(column, str) for column in names):
        raise TypeError(
            f"{name} must be a sequence of column names, such as [{name[:1]!r}]; got {value!r:.200}"
        )
    return names
