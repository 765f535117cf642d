"""Sets from annotated data: AnnData, or objects with obs, obsm, layers, X and var_names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dkdist._numba.arrays import Array
from dkdist.sets.frames import (
    SetParts,
    as_column_names,
    columns_of_frame,
    frame_target_names,
    group_rows,
    join_targets,
    open_frame,
    require_columns,
)
from dkdist.sets.point_checks import SampleSetError

# Larger sparse matrices require columns=. A dense float32 matrix of 10^6 cells x 1,000 columns takes 4 GB
# (tests/sets/test_from_frame.py)
MAX_DENSE_COLUMNS = 1000


def parts_from_anndata(
    adata: Any, set_key: str, obsm: str | None, layer: str | None, columns: Any, targets: Any
) -> SetParts:
    """Convert annotated data to the arguments of `SampleSets`."""
    for name in ("obs", "obsm", "layers", "X", "var_names"):
        if not hasattr(adata, name):
            raise TypeError(
                f"adata must be AnnData or have its attributes; got {type(adata).__name__} without {name}."
            )
    obs = columns_of_frame(open_frame(adata.obs, "adata.obs"), "adata.obs")
    target_names = frame_target_names(targets)
    require_columns("adata.obs", obs, [set_key, *target_names])
    groups = group_rows(obs[set_key])
    set_targets = join_targets(targets, target_names, set_key, obs, groups)
    matrix, names, what = _matrix(adata, obsm, layer)
    selected_names = None if columns is None else as_column_names("columns", columns)
    dense, names = _to_dense(matrix, names, selected_names, what)
    last = int(groups.runs[-1])
    return SetParts(dense[groups.order], groups.offsets, groups.ids, tuple(names), set_targets, None, last)


def _matrix(adata: Any, obsm: str | None, layer: str | None) -> tuple[Any, list[str], str]:
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
        return matrix.to_numpy(), [str(name) for name in matrix.columns], f"obsm {obsm!r}"
    return matrix, [f"{obsm}_{j}" for j in range(matrix.shape[1])], f"obsm {obsm!r}"


def _entry(adata: Any, where: str, name: str) -> Any:
    entries = getattr(adata, where)
    if name not in entries:
        raise SampleSetError(
            f"adata.{where} has no {name!r}; its entries are {', '.join(map(str, entries))}."
        )
    return entries[name]


def _to_dense(
    matrix: Any, names: list[str], selected_names: list[str] | None, what: str
) -> tuple[Array, list[str]]:
    """Return the selected columns as a dense array, and their names."""
    if matrix is None:
        raise SampleSetError(f"{what} is None. Select a matrix with obsm or layer.")
    sparse = not isinstance(matrix, np.ndarray)
    if selected_names is None:
        if sparse and len(names) > MAX_DENSE_COLUMNS:
            raise SampleSetError(
                f"sparse {what} must have at most {MAX_DENSE_COLUMNS} columns to become dense; got {len(names)}. "
                "Select some with columns, or pass obsm='X_pca'."
            )
        return _array(matrix), names
    positions = [_column_position(name, names, what) for name in selected_names]
    order = np.argsort(positions)  # HDF5 requires increasing indices
    selected = _array(matrix[:, np.asarray(positions)[order]])
    return selected[:, np.argsort(order)], selected_names


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
