"""Sets from annotated data, one observation a point: AnnData, or what has its obs, obsm, layers, X and var_names."""

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

MAX_DENSE_COLUMNS = 1000  # columns of a sparse matrix that are made dense without being named


def parts_from_anndata(
    adata: Any, set_key: str, obsm: str | None, layer: str | None, columns: Any, targets: Any
) -> SetParts:
    """What `SampleSets.from_anndata` makes sets of."""
    for name in ("obs", "obsm", "layers", "X", "var_names"):
        if not hasattr(adata, name):
            raise TypeError(
                f"adata is {type(adata).__name__} without {name}: expected AnnData, or what is like it"
            )
    obs = columns_of_frame(open_frame(adata.obs, "adata.obs"), "adata.obs")
    own = frame_target_names(targets)
    require_columns("adata.obs", obs, [set_key, *own])
    groups = group_rows(obs[set_key])
    joined = join_targets(targets, own, set_key, obs, groups)
    matrix, names, what = _matrix(adata, obsm, layer)
    chosen = None if columns is None else as_column_names("columns", columns)
    dense, names = _to_dense(matrix, names, chosen, what)
    last = int(groups.runs[-1])
    return SetParts(dense[groups.order], groups.offsets, groups.ids, tuple(names), joined, None, last)


def _matrix(adata: Any, obsm: str | None, layer: str | None) -> tuple[Any, list[str], str]:
    """The matrix (T, k) that was asked for, the names of its columns, and its own."""
    if obsm is not None and layer is not None:
        raise ValueError(f"obsm={obsm!r} and layer={layer!r} are two matrices: give one of them")
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
    held = getattr(adata, where)
    if name not in held:
        raise SampleSetError(f"adata.{where} has no {name!r}; it has {', '.join(map(str, held))}")
    return held[name]


def _to_dense(matrix: Any, names: list[str], chosen: list[str] | None, what: str) -> tuple[Array, list[str]]:
    """The chosen columns as an array, and their names; a sparse matrix is made dense for these alone."""
    if matrix is None:
        raise SampleSetError(f"{what} is None: name a matrix by obsm or layer")
    sparse = not isinstance(matrix, np.ndarray)
    if chosen is None:
        if sparse and len(names) > MAX_DENSE_COLUMNS:
            raise SampleSetError(
                f"{what} has {len(names)} columns, all of which dense points would hold: name some of them, or give "
                "obsm='X_pca'"
            )
        return _array(matrix), names
    places = [_column_position(name, names, what) for name in chosen]
    order = np.argsort(places)  # files of HDF5 are read in rising order
    taken = _array(matrix[:, np.asarray(places)[order]])
    return taken[:, np.argsort(order)], chosen


def _column_position(name: str, names: Sequence[str], what: str) -> int:
    count = names.count(name)
    if count != 1:
        found = "no column" if not count else f"{count} columns"
        raise SampleSetError(
            f"{what} has {found} {name!r}, expected one: it has {', '.join(names[:10])}{', ...' * (len(names) > 10)}. "
            "Name another, or make names differ (var_names_make_unique)"
        )
    return names.index(name)


def _array(matrix: Any) -> Array:
    return np.asarray(matrix.toarray() if hasattr(matrix, "toarray") else matrix[:])
