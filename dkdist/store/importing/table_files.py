"""Sets from tables, one point a row: which columns mean what."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from dkdist.plain.files import path_name
from dkdist.plain.flags import as_flag
from dkdist.sets import SampleSets
from dkdist.store.format.batches import Outline

if TYPE_CHECKING:
    from dkdist.store.importing.tables import Table

SUFFIXES = (".csv", ".tsv", ".parquet", ".pq")
COMPRESSED = (".gz", ".bz2")


@dataclass(frozen=True)
class TableReader:
    """Reads CSV, TSV and Parquet tables with one point a row; a reader for `import_sets`, or used alone.

    A table is read in pieces of some megabytes and may be of any size. The rows of a set stand together, and a set
    lies within one file. Needs pyarrow (``pip install 'dkdist[frames]'``).

    Parameters
    ----------
    set_id : str
        The column that says which set a point belongs to; it becomes the ids.
    points : sequence of str, optional
        The coordinates; by default all numeric columns that are nothing else.
    weight : str, optional
        A column with the weights of the points.
    targets : sequence of str
        Columns that are constant within a set.
    text : sequence of str
        Columns of a CSV file to take as text, such as ids with leading zeros.
    sort : bool
        Sort the rows of each file by set first, in memory.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp(), "cells.csv")
    >>> _ = path.write_text("patient,cd4,cd8,age\\nA,.5,.2,60\\nA,.4,.1,60\\nB,.9,.8,71\\n")
    >>> for sets, targets, ids in TableReader("patient", targets=["age"]).read(path):
    ...     print(sets.sizes, targets["age"], ids)
    [2] [60] ['A']
    [1] [71] ['B']
    """

    set_id: str
    points: tuple[str, ...] | None = None
    weight: str | None = None
    targets: tuple[str, ...] = ()
    text: tuple[str, ...] = ()
    sort: bool = False

    def __post_init__(self) -> None:
        as_flag("sort", self.sort)
        for name in ("points", "targets", "text"):
            given = getattr(self, name)
            object.__setattr__(self, name, None if given is None else _names(name, given))
        for name in ("set_id", "weight"):
            if not isinstance(getattr(self, name), (str, type(None) if name == "weight" else str)):
                raise TypeError(f"{name} is {getattr(self, name)!r:.200}: give the name of a column")

    def read(self, path: Any) -> Iterator[tuple[SampleSets, dict[str, NDArray[Any]], NDArray[Any]]]:
        """(sets, targets, ids), piece by piece. Raises `ValueError` that names columns and rows that do not fit."""
        return self._table(path).batches()

    def outline(self, path: Any) -> Outline:
        """Sizes, ids and form; reads the column of ids."""
        return self._table(path).outline()

    def _table(self, path: Any) -> Table:
        if find_spec("pyarrow") is None:
            raise ImportError("reading tables needs pyarrow: pip install 'dkdist[frames]'")
        from dkdist.store.importing.tables import Table

        return Table(Path(path_name(path)), table_suffix(path_name(path)), self)


def _names(name: str, given: Any) -> tuple[str, ...]:
    """Names of columns; TypeError for anything else."""
    try:
        names = tuple(given)
    except TypeError:
        names = (given,)
    if isinstance(given, (str, bytes)) or not all(isinstance(column, str) for column in names):
        raise TypeError(f"{name} is {given!r:.200}: give names of columns, such as [{name[:1]!r}]")
    return names


def table_suffix(path: Any) -> str:
    """The suffix that says what kind of table a file is, before that of a compression."""
    suffixes = [s for s in Path(path).suffixes if s not in COMPRESSED]
    suffix = suffixes[-1] if suffixes else ""
    if suffix not in SUFFIXES:
        raise ValueError(
            f"{path} ends in {suffix or 'nothing'!r}: expected one of {', '.join(SUFFIXES)}. Convert it, or rename it "
            "if it is one of these"
        )
    return suffix
