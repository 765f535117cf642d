"""Sets from files with one set per row: list columns of Parquet, jagged branches of ROOT."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import numpy as np

from dkdist._numba.arrays import I64, Array
from dkdist._utils.files import path_name
from dkdist.io.converters import convert, library_of
from dkdist.io.readers.table_files import as_names
from dkdist.sets import SampleSets

BATCH_BYTES = 2**25  # of all columns of a batch of rows; tests/store/test_nested_files.py


@dataclass(frozen=True)
class NestedReader:
    """Reader of Parquet and ROOT files with one set per row, for `import_sets` or direct use.

    Parameters
    ----------
    points : name or sequence of names
        A column of lists of records or of lists of d numbers, or several columns of lists of numbers, one per dimension
        (branches of ROOT such as ``Muon_pt`` and ``Muon_eta``).
    set_id : str, optional
        Column of ids.
    weight : str, optional
        Column of lists with one weight per point.
    targets : sequence of str
        Columns with one value per set.
    empty_sets : "raise" or "drop", default="raise"
        Raise for rows without points, or omit them.
    tree : str, optional
        Name of the tree in ROOT files. Default: the only one.

    Raises
    ------
    ValueError
        When reading: for missing columns, columns that are not lists, lists of different lengths in a row, missing
        values, and empty sets (naming the row). `import_sets` raises `SourceError` instead.

    Notes
    -----
    Requires pyarrow (``pip install 'dkdist[frames]'``), or uproot for ROOT (``pip install 'dkdist[physics]'``). Memory:
    32 MiB of a file at a time, or one row group. `import_sets` reads the columns twice: first for the sizes.

    Examples
    --------
    >>> import pyarrow as pa, pyarrow.parquet, tempfile
    >>> path = tempfile.mkdtemp() + "/events.parquet"
    >>> pa.parquet.write_table(pa.table({"pt": [[31.0, 12.0], [55.0]], "eta": [[0.2, 1.1], [-0.4]]}), path)
    >>> for sets, targets, ids in NestedReader(["pt", "eta"]).read(path):
    ...     print(sets.sizes, sets.names)
    [2 1] ('pt', 'eta')
    """

    points: tuple[str, ...] | str
    set_id: str | None = None
    weight: str | None = None
    targets: tuple[str, ...] = ()
    empty_sets: Literal["raise", "drop"] = "raise"
    tree: str | None = None

    def __post_init__(self) -> None:
        for name in ("set_id", "weight", "tree"):
            if not isinstance(getattr(self, name), (str, type(None))):
                raise TypeError(f"{name} must be a name or None; got {getattr(self, name)!r:.200}")
        for name in ("points", "targets"):
            value = getattr(self, name)
            value = (value,) if name == "points" and isinstance(value, str) else value
            object.__setattr__(self, name, as_names(name, value))
        if not self.points:
            raise ValueError("points must name at least one column; got none")
        if not isinstance(self.empty_sets, str) or self.empty_sets not in ("raise", "drop"):
            raise ValueError(f"empty_sets must be 'raise' or 'drop'; got {self.empty_sets!r:.200}")

    def read(self, path: Any) -> Iterator[tuple[SampleSets, dict[str, Array], Array | None]]:
        """Iterate over (sets, targets, ids), about 32 MiB at a time."""
        name, row = path_name(path), 0
        open_batches = _root_batches if Path(name).suffix == ".root" else _parquet_batches
        with open_batches(name, self._columns, self.tree) as batches:
            for columns in batches:
                yield self._sets(name, row, columns)
                row += len(columns[self.points[0]])

    @property
    def _columns(self) -> list[str]:
        extra = [name for name in (self.set_id, self.weight) if name is not None]
        return list(dict.fromkeys([*self.points, *extra, *self.targets]))

    def _sets(
        self, path: str, first_row: int, columns: dict[str, Any]
    ) -> tuple[SampleSets, dict[str, Array], Array | None]:
        """Return the sets of some rows."""
        arrays = [convert(columns[name]) for name in self.points]
        offsets: I64 = np.asarray(arrays[0].offsets)
        weights = None if self.weight is None else convert(columns[self.weight])
        others = [*zip(self.points[1:], arrays[1:], strict=True)]
        for name, other in others if weights is None else [*others, (self.weight, weights)]:
            if other.offsets is None or not np.array_equal(other.offsets, offsets):
                i = int(np.argmax(np.diff(np.asarray(other.offsets)) != np.diff(offsets)))
                raise ValueError(
                    f"lists of one row must have equal lengths; {name!r} and {self.points[0]!r} differ in row "
                    f"{first_row + i} of {path}"
                )
        parts = [np.asarray(part.points).reshape(int(offsets[-1]), -1) for part in arrays]
        names = arrays[0].names if len(arrays) == 1 else self.points
        used = np.diff(offsets) > 0
        if self.empty_sets == "raise" and not used.all():
            raise ValueError(
                f"row {first_row + int(np.argmin(used))} of {path} has no points ({int((~used).sum())} such rows of "
                f"{len(used)}). Pass empty_sets='drop' to omit them"
            )
        sizes = np.diff(offsets)[used]
        masses = None if weights is None else np.asarray(weights.points).ravel()
        points = parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)
        sets = SampleSets(points, np.concatenate([[0], np.cumsum(sizes)]), masses).labelled(names=names)
        values = {
            name: _values(name, columns[name], path)[used] for name in self._columns if name in self.targets
        }
        ids = None if self.set_id is None else _values(self.set_id, columns[self.set_id], path)[used]
        return sets, values, ids


def _values(name: str, column: Any, path: str) -> Array:
    """Return a column with one value per row."""
    if getattr(column, "null_count", 0):
        raise ValueError(f"column {name!r} of {path} has no value in {column.null_count} rows. Fill them in")
    values = np.asarray(column.to_numpy(zero_copy_only=False) if library_of(column) == "pyarrow" else column)
    return values.astype(np.str_) if values.dtype.kind == "O" else values


@contextmanager
def _parquet_batches(path: str, names: Sequence[str], tree: str | None) -> Iterator[Iterator[dict[str, Any]]]:
    if find_spec("pyarrow") is None:
        raise ImportError("reading Parquet requires pyarrow: pip install 'dkdist[frames]'")
    import pyarrow.parquet

    if tree is not None:
        raise ValueError(f"tree applies to ROOT files only; got {path}. Omit it")
    with pyarrow.parquet.ParquetFile(path, page_checksum_verification=True) as file:
        _require_columns(path, names, file.schema_arrow.names)
        metadata = file.metadata
        n_bytes = sum(metadata.row_group(i).total_byte_size for i in range(metadata.num_row_groups))
        rows = max(1, BATCH_BYTES * metadata.num_rows // max(n_bytes, 1))
        batches = file.iter_batches(min(rows, max(1, metadata.num_rows)), columns=list(names))
        yield ({name: batch.column(name) for name in names} for batch in batches)


@contextmanager
def _root_batches(path: str, names: Sequence[str], tree: str | None) -> Iterator[Iterator[dict[str, Any]]]:
    if find_spec("uproot") is None:
        raise ImportError("reading ROOT files requires uproot: pip install 'dkdist[physics]'")
    import uproot

    with uproot.open(path) as file:
        trees = [
            key
            for key, kind in file.classnames(cycle=False).items()
            if kind in ("TTree", "ROOT::RNTuple") or kind.startswith("TNtuple")
        ]
        if tree is None and len(trees) != 1:
            raise ValueError(
                f"{path} must have one tree; it has {', '.join(trees) or 'none'}. Name it with tree"
            )
        if tree is not None and tree not in trees:
            raise ValueError(f"{path} has no tree {tree!r}; it has {', '.join(trees) or 'none'}")
        branches = file[tree or trees[0]]
        _require_columns(path, names, branches.keys())
        batches = branches.iterate(list(names), step_size=BATCH_BYTES, library="ak")
        yield ({name: batch[name] for name in names} for batch in batches)


def _require_columns(path: str, names: Sequence[str], stored: Sequence[str]) -> None:
    for name in names:
        if name not in stored:
            raise ValueError(f"{path} has no column {name!r}; it has {', '.join(stored)}")
