"""Sets from annotated data: AnnData, or objects with obs, obsm, layers, X and var_names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from dkdist._numba.arrays import I64, Array
from dkdist.sets.frames import (
    Column,
    RowGroups,
    SetParts,
    as_column_names,
    columns_of_frame,
    frame_target_names,
    group_rows,
    join_targets,
    open_frame,
    open_series,
    require_columns,
)
from dkdist.sets.labels import as_ids
from dkdist.sets.point_checks import SampleSetError

# Larger sparse matrices require columns=. A dense float32 matrix of 10^6 cells x 1,000 columns takes 4 GB
# (tests/sets/test_from_frame.py)
MAX_DENSE_COLUMNS = 1000


def parts_from_anndata(
    adata: Any, set_key: str, obsm: str | None, layer: str | None, columns: Any, targets: Any
) -> SetParts:
    """Convert annotated data to the arguments of `SampleSets`."""
    require_annotated(adata)
    groups, set_targets = group_observations(adata.obs, set_key, targets)
    matrix, names, what = matrix_of(adata, obsm, layer)
    positions, names = select_columns(matrix, names, columns, what)
    dense = dense_columns(matrix, positions)
    last = int(groups.runs[-1])
    return SetParts(dense[groups.order], groups.offsets, groups.ids, tuple(names), set_targets, None, last)


def require_annotated(adata: Any) -> None:
    """Raise unless an object has the attributes of AnnData."""
    for name in ("obs", "obsm", "layers", "X", "var_names"):
        if not hasattr(adata, name):
            raise TypeError(
                f"adata must be AnnData or have its attributes; got {type(adata).__name__} without {name}."
            )


def group_observations(obs: Any, set_key: str, targets: Any) -> tuple[RowGroups, dict[str, Array]]:
    """Return the sets of the rows of a frame, and the targets of the sets."""
    columns = columns_of_frame(open_frame(obs, "adata.obs"), "adata.obs")
    names = frame_target_names(targets)
    require_columns("adata.obs", columns, [set_key, *names])
    groups = _group_categories(columns[set_key]) or group_rows(columns[set_key])
    return groups, join_targets(targets, names, set_key, columns, groups)


def _group_categories(column: Column) -> RowGroups | None:
    """Group rows by the codes of a pandas categorical, without an object per row; None for other columns."""
    native = column.series.to_native()
    if not hasattr(native, "cat") or (native.cat.codes < 0).any():
        return None
    groups = group_rows(Column(column.name, open_series(native.cat.codes.astype(np.int64))))
    return replace(groups, ids=as_ids(native.cat.categories.to_numpy()[groups.ids], len(groups.ids)))


def matrix_of(adata: Any, obsm: str | None, layer: str | None) -> tuple[Any, list[str], str]:
    """Return the selected matrix (T, k), its column names and its label."""
    if obsm is not None and layer is not None:
        raise ValueError(
            f"obsm and layer must not both be set; got obsm={obsm!r} and layer={layer!r}. Pass one."
        )
    if obsm is None:
        genes = [str(name) for name in adata.var_names]
        if layer is None:
            return adata.X, genes, "adata.X"
        return _entry(adata, "layers", layer), genes, f"layer {layer!r}"
    matrix = _entry(adata, "obsm", obsm)
    if hasattr(matrix, "columns"):
        matrix = matrix.to_memory() if hasattr(matrix, "to_memory") else matrix
        return matrix.to_numpy(), [str(name) for name in matrix.columns], f"obsm {obsm!r}"
    return matrix, [f"{obsm}_{j}" for j in range(matrix.shape[1])], f"obsm {obsm!r}"


def _entry(adata: Any, where: str, name: str) -> Any:
    entries = getattr(adata, where)
    if name not in entries:
        raise SampleSetError(
            f"adata.{where} has no {name!r}; its entries are {', '.join(map(str, entries))}."
        )
    return entries[name]


def select_columns(matrix: Any, names: list[str], columns: Any, what: str) -> tuple[I64 | None, list[str]]:
    """Return the positions of the selected columns (None for all) and their names."""
    if matrix is None:
        raise SampleSetError(f"{what} is None. Select a matrix with obsm or layer.")
    if columns is not None:
        selected_names = as_column_names("columns", columns)
        if not selected_names:
            raise ValueError("columns must name at least one column; got none.")
        return np.array([_column_position(name, names, what) for name in selected_names]), selected_names
    if is_sparse(matrix) and len(names) > MAX_DENSE_COLUMNS:
        raise SampleSetError(
            f"sparse {what} must have at most {MAX_DENSE_COLUMNS} columns to become dense; got {len(names)}. "
            "Select some with columns, or pass obsm='X_pca'."
        )
    return None, names


def is_sparse(matrix: Any) -> bool:
    """Whether a matrix in memory, in a file or of Dask is sparse."""
    return hasattr(getattr(matrix, "_meta", matrix), "format")


def dense_columns(matrix: Any, positions: I64 | None) -> Array:
    """Return the columns at some positions (None for all) as a dense array."""
    if positions is None:
        return _array(matrix)
    order = np.argsort(positions)  # HDF5 requires increasing indices
    return _array(matrix[:, positions[order]])[:, np.argsort(order)]


def _column_position(name: str, names: Sequence[str], what: str) -> int:
    count = names.count(name)
    if count != 1:
        listed_names = ", ".join(names[:10]) + ", ..." * (len(names) > 10)
        raise SampleSetError(
            f"{what} must have one column {name!r}; got {count}. Its columns are {listed_names}. Select another, or "
            "make names unique (var_names_make_unique)."
        )
    return names.index(name)


def _array(matrix: Any) -> Array:
    return np.asarray(matrix.toarray() if hasattr(matrix, "toarray") else matrix[:])
