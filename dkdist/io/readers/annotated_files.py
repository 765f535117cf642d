"""Annotated data (AnnData) as a source of sets, in blocks of rows: h5ad files, Zarr groups, and objects.

The rows of a set may be anywhere in a file. The first pass reads the columns of ``obs`` that are ids and targets; the
second reads blocks of rows in the order of the file and moves each row to its set (`gathered_rows`).
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import zarr
from numpy.typing import NDArray

from dkdist._numba.arrays import F64, I64, Array
from dkdist._utils.concurrency import prefetch
from dkdist._utils.files import path_name
from dkdist._utils.validation import Columns
from dkdist.io._zarr.batches import Form, Outline, as_columns, form_of
from dkdist.io.converters import library_of
from dkdist.io.readers.gathered_rows import Part, Rows, batch_bounds, group_rows, split_rows
from dkdist.sets import SampleSetError, SampleSets
from dkdist.sets.annotated import (
    dense_columns,
    group_observations,
    is_sparse,
    matrix_of,
    require_annotated,
    select_columns,
)
from dkdist.sets.conversion import sets_from_parts
from dkdist.sets.frames import frame_target_names
from dkdist.sets.origins import fits_float32, infer_origin

Codes = NDArray[np.int32]

IN_MEMORY = ("numpy", "scipy", "pandas")  # libraries of matrices that are not read from a file
# One read of the matrix: larger than chunks of files; tests/store/test_annotated_files.py.
BLOCK_BYTES = 2**25
MAX_BATCH_BYTES = 2**24  # points per batch, as for tables (indexed_table.py)
SPARSE_ENTRY_BYTES = 12  # a value and its column in memory
N_SAMPLED_BLOCKS, SAMPLED_ROWS = 8, 1024  # rows that choose the origin; tests/store/test_annotated_files.py


class AnnotatedFile:
    """The parts of an h5ad file or a Zarr group of AnnData, with its attributes; matrices are not read."""

    def __init__(self, group: Any, label: str, columns: list[str]) -> None:
        for name in ("obs", "var"):
            if name not in group:
                raise ValueError(f"{label} must be written by AnnData; it has no {name!r}")
        self._group, self._columns = group, columns
        self.layers, self.obsm = _Elements(group.get("layers", {})), _Elements(group.get("obsm", {}))

    @property
    def X(self) -> Any:
        """The matrix (T, n_vars); None without one."""
        return _element(self._group["X"]) if "X" in self._group else None

    @property
    def var_names(self) -> list[str]:
        """Names of the columns."""
        return _index(self._group["var"])

    @property
    def obs(self) -> Any:
        """Frame with the columns of ids and targets, or with no rows and all names if one is missing."""
        import pandas as pd
        from anndata.io import read_elem

        group = self._group["obs"]
        if not hasattr(group, "keys"):  # a structured array, written by AnnData before 0.7
            return read_elem(group)
        names = [str(name) for name in group.attrs["column-order"]]
        if not set(self._columns) <= set(names):
            return pd.DataFrame(columns=names)
        if str(group.attrs["encoding-version"]) == "0.1.0":  # categories are apart from the columns
            return read_elem(group)[self._columns]
        return pd.DataFrame({name: read_elem(group[name]) for name in self._columns})

    @property
    def obs_names(self) -> list[str]:
        """Names of the rows."""
        return _index(self._group["obs"])


class _Elements:
    """Matrices of a group by name, opened on access."""

    def __init__(self, group: Any) -> None:
        self._group = group

    def __iter__(self) -> Iterator[str]:
        return iter(self._group)

    def __contains__(self, name: str) -> bool:
        return name in self._group

    def __getitem__(self, name: str) -> Any:
        return _element(self._group[name])


def _element(item: Any) -> Any:
    """Return a matrix that reads rows on access; frames are read."""
    encoding = str(item.attrs.get("encoding-type", item.attrs.get("h5sparse_format", "array")))
    if encoding.startswith(("csr", "csc")):
        from anndata.io import sparse_dataset

        return sparse_dataset(item)
    if not hasattr(item, "shape"):
        from anndata.io import read_elem

        return read_elem(item)
    return item


def _index(group: Any) -> list[str]:
    from anndata.io import read_elem

    if not hasattr(group, "keys"):
        return list(map(str, read_elem(group).index))
    return list(map(str, read_elem(group[group.attrs["_index"]])))


@contextmanager
def open_annotated(source: Any, columns: list[str]) -> Iterator[Any]:
    """Open a path as `AnnotatedFile`, with some columns of obs; AnnData and similar objects are returned."""
    if not isinstance(source, (str, os.PathLike)):
        require_annotated(source)
        yield source
        return
    path = path_name(source)
    if find_spec("anndata") is None:
        raise ImportError("reading h5ad files requires anndata: pip install 'dkdist[single-cell]'")
    if "://" in path or Path(path).is_dir():
        yield AnnotatedFile(zarr.open_group(path, mode="r"), path, columns)
        return
    import h5py

    if not os.path.exists(path):
        raise FileNotFoundError(f"there is no file or folder {path}. Check the path")
    try:
        file = h5py.File(path, "r")
    except OSError as error:
        raise ValueError(f"{path} cannot be opened as HDF5 ({error})") from error
    with file:
        yield AnnotatedFile(file, path, columns)


@dataclass(frozen=True)
class AnnotatedReader:
    """Reader of AnnData, in files or as objects, for `import_sets`; options as in `import_anndata`."""

    set_key: str
    obsm: str | None = None
    layer: str | None = None
    columns: Any = None
    targets: Any = None

    def read(self, source: Any) -> Iterator[tuple[SampleSets, dict[str, Array], Array]]:
        """Iterate over (sets, targets, ids), a few megabytes at a time."""
        return prefetch(self._indexed(source).batches())

    def outline(self, source: Any) -> Outline:
        """Return sizes, ids, form and names, from obs; the origin from some rows."""
        return self._indexed(source).outline()

    def _indexed(self, source: Any) -> IndexedAnnotated:
        return source if isinstance(source, IndexedAnnotated) else IndexedAnnotated.of(source, self)

    @property
    def obs_columns(self) -> list[str]:
        """Columns of obs that are read."""
        return list(dict.fromkeys([self.set_key, *frame_target_names(self.targets)]))


@dataclass(frozen=True, eq=False)
class IndexedAnnotated:
    """Annotated data after the first pass: set of each row (-1 for none), sizes, ids and targets of the sets."""

    source: Any
    reader: AnnotatedReader
    codes: Codes
    sizes: I64
    ids: Array
    targets: dict[str, Array]

    @classmethod
    def of(cls, source: Any, reader: AnnotatedReader) -> IndexedAnnotated:
        """Read ids and targets. A backed object becomes its file, with the rows and the obs of the object."""
        with open_annotated(source, reader.obs_columns) as adata:
            obs = adata.obs
            if hasattr(obs, "to_memory"):  # of `read_lazy`
                missing = [name for name in reader.obs_columns if name not in obs.columns]
                obs = obs[[*obs.columns] if missing else reader.obs_columns].to_memory()
            groups, targets = group_observations(obs, reader.set_key, reader.targets)
        codes = np.repeat(groups.runs, groups.lengths).astype(np.int32)
        if getattr(source, "isbacked", False):  # cannot be sent to workers
            held = source.obsm.get(reader.obsm) if reader.obsm else source.layers.get(reader.layer)
            if held is None or library_of(held) not in IN_MEMORY:
                codes = _rows_of_file(source, codes)
                source = os.fspath(source.filename)
            else:  # AnnData before 0.13 has read these matrices
                parts = {"obsm": {reader.obsm: held}, "layers": {reader.layer: held}}
                source = SimpleNamespace(obs=None, X=None, var_names=list(source.var_names), **parts)
        return cls(source, reader, codes, np.diff(groups.offsets), groups.ids, targets)

    def __repr__(self) -> str:
        return self.source if isinstance(self.source, str) else type(self.source).__name__

    def outline(self) -> Outline:
        """Return sizes, ids, form, names, and the origin that some rows suggest."""
        with self._matrix() as matrix:
            empty = matrix.empty_rows()
            is_exact, names = fits_float32([empty.points], None), tuple(matrix.names)
            sample = empty.points if is_exact else matrix.sample()
            origin = np.zeros(len(names)) if is_exact else infer_origin([sample])
        return Outline(self.sizes, self.ids, self._form(empty), origin, names, self, sample=sample)

    def batches(self) -> Iterator[tuple[SampleSets, dict[str, Array], Array]]:
        """Iterate over (sets, targets, ids)."""
        with self._matrix() as matrix, closing(prefetch(self._blocks(matrix))) as blocks:
            empty, names = matrix.empty_rows(), tuple(matrix.names)
            max_rows = max(1, MAX_BATCH_BYTES // (empty.points.dtype.itemsize * len(names)))
            cuts = batch_bounds(self.sizes, max_rows)
            lengths = np.add.reduceat(self.sizes, cuts[:-1])
            in_use = self.codes[self.codes >= 0]
            if (np.diff(in_use) >= 0).all():
                parts = split_rows((part for _, part in blocks), lengths)
            else:
                parts = map(iter, group_rows(blocks, self.sizes, lengths, empty))
            origin: F64 | None = None
            for (a, b), batch in zip(itertools.pairwise(cuts.tolist()), parts, strict=True):
                offsets = np.concatenate([[0], np.cumsum(self.sizes[a:b])])
                sets = sets_from_parts([Columns(part) for part in batch], offsets, None, origin)
                origin = sets.origin if origin is None else origin
                targets = {name: values[a:b] for name, values in self.targets.items()}
                yield sets.labelled(names=names), targets, self.ids[a:b]

    @contextmanager
    def _matrix(self) -> Iterator[_Matrix]:
        reader = self.reader
        with open_annotated(self.source, reader.obs_columns) as adata:
            yield _Matrix.of(adata, reader, len(self.codes))

    def _blocks(self, matrix: _Matrix) -> Iterator[tuple[I64, Part]]:
        """Iterate over (set of each row, columns), in the order of the file."""
        for start in range(0, len(self.codes), matrix.block_rows):
            codes = self.codes[start : start + matrix.block_rows]
            used = np.flatnonzero(codes >= 0)
            if not len(used):
                continue
            values = matrix.rows(start, start + len(codes))
            if len(used) < len(codes):
                values, codes = values[used], codes[used]
            if not np.isfinite(values).all():
                i, j = np.argwhere(~np.isfinite(values))[0]
                raise SampleSetError(
                    f"column {matrix.names[j]!r} of {matrix.label} must be finite; got {values[i, j]} in row "
                    f"{start + used[i]} (set {self.ids[codes[i]].item()!r}). Drop the row or fill in a value."
                )
            yield codes.astype(np.int64), list(np.asfortranarray(values).T)

    def _form(self, empty: Rows) -> Form:
        targets = {name: values[:0] for name, values in self.targets.items()}
        return form_of(SampleSets(empty.points, [0]), as_columns(targets, self.ids[:0], 0))


class GroupedRows:
    """Points (T, d) of annotated data in the order of the sets, read by slices of rows."""

    ndim = 2

    def __init__(self, indexed: IndexedAnnotated) -> None:
        self._indexed = indexed
        n_unused = int((indexed.codes < 0).sum())
        self._rows = np.argsort(indexed.codes, kind="stable")[n_unused:]
        with indexed._matrix() as matrix:
            self.names, self.dtype = tuple(matrix.names), matrix.empty_rows().points.dtype
        self.shape = len(self._rows), len(self.names)

    def __getitem__(self, key: tuple[slice, slice]) -> Array:
        rows = self._rows[key[0]]
        result, order = np.empty((len(rows), self.shape[1]), self.dtype), np.argsort(rows)
        with self._indexed._matrix() as matrix:
            done = 0
            while done < len(rows):
                start = rows[order[done]]
                end = int(np.searchsorted(rows, start + matrix.block_rows, sorter=order))
                used = order[done:end]
                block = matrix.rows(int(start), int(rows[used[-1]]) + 1)
                result[used] = block[rows[used] - start]
                done = end
        return result[:, key[1]]


@dataclass(frozen=True)
class _Matrix:
    """Selected columns of a matrix, read as dense rows."""

    matrix: Any
    positions: I64 | None
    names: list[str]
    label: str
    n_rows: int

    @classmethod
    def of(cls, adata: Any, reader: AnnotatedReader, n_rows: int) -> _Matrix:
        matrix, names, label = matrix_of(adata, reader.obsm, reader.layer)
        positions, names = select_columns(matrix, names, reader.columns, label)
        if getattr(getattr(matrix, "_meta", matrix), "format", "") == "csc":  # a row would read all columns
            order = slice(None) if positions is None else np.sort(positions)
            matrix = _computed(matrix[:, order]).tocsr()
            positions = None if positions is None else np.argsort(np.argsort(positions))
        return cls(matrix, positions, names, label, n_rows)

    @property
    def block_rows(self) -> int:
        """Rows of one read: whole chunks of the file unless these are large."""
        matrix, row_bytes = self.matrix, 8 * len(self.names)
        if is_sparse(matrix):
            row_bytes += SPARSE_ENTRY_BYTES * -(-_n_entries(matrix) // max(1, self.n_rows))
        else:
            row_bytes += matrix.dtype.itemsize * matrix.shape[1]
        rows = max(1, BLOCK_BYTES // row_bytes)
        chunk = (getattr(matrix, "chunks", None) or (1,))[0]
        is_small = isinstance(chunk, int) and chunk <= 4 * rows
        return -(-rows // chunk) * chunk if is_small else rows

    def empty_rows(self) -> Rows:
        """Return an empty buffer with the dtype of the points."""
        return Rows.empty(0, len(self.names), self.dtype, False)

    @property
    def dtype(self) -> np.dtype[Any]:
        """A floating dtype: small integers would be codes of strings."""
        return np.result_type(np.float32, self.matrix.dtype)

    def rows(self, start: int, stop: int) -> Array:
        """Read rows start .. stop - 1 (n, d)."""
        values = dense_columns(_computed(self.matrix[start:stop]), self.positions)
        return values.astype(self.dtype, copy=False)

    def sample(self) -> F64:
        """Return finite rows at some places."""
        starts = np.linspace(0, max(0, self.n_rows - SAMPLED_ROWS), N_SAMPLED_BLOCKS).astype(int)
        rows = np.concatenate([self.rows(a, a + SAMPLED_ROWS) for a in np.unique(starts)])
        return np.asarray(rows[np.isfinite(rows).all(axis=1)], np.float64)


def _computed(matrix: Any) -> Any:
    """Return a matrix in memory."""
    return matrix.compute() if hasattr(matrix, "compute") else matrix


def _n_entries(matrix: Any) -> int:
    """Return the number of stored entries of a sparse matrix; without it, that of a dense one."""
    if hasattr(matrix, "group"):  # of a file
        return int(matrix.group["data"].shape[0])
    return int(matrix.nnz if hasattr(matrix, "nnz") else np.prod(matrix.shape))


def _rows_of_file(adata: Any, codes: Codes) -> Codes:
    """Return the sets of all rows of the file of a backed object, -1 for rows that a view omits."""
    if not adata.is_view:
        return codes
    import pandas as pd

    with open_annotated(os.fspath(adata.filename), []) as file:
        names = pd.Index(file.obs_names)
    if not names.is_unique:
        raise SampleSetError(
            "adata is a view of a backed file whose obs_names are not unique. Pass the whole object, or make them "
            "unique (obs_names_make_unique)."
        )
    result = np.full(len(names), -1, np.int32)
    result[names.get_indexer(adata.obs_names)] = codes
    return result
