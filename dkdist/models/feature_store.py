"""Features on disk: write lazy features once, block by block, and read them back as a dask array."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dkdist._numba.arrays import F32, Array
from dkdist._runtime.arrays import equalize_chunks, lazy_from_calls
from dkdist._runtime.blocks import DaskArray, is_lazy, require_known_chunks, row_blocks
from dkdist._runtime.map_reduce import map_blocks, map_pieces
from dkdist._runtime.run import plan_blocks
from dkdist._utils.validation import as_real_array, check_bool, check_verbose
from dkdist.io import StoreFormatError
from dkdist.io._zarr.location.address import as_location
from dkdist.io.feature_writer import (
    FeatureStore,
    create_features,
    find_features,
    remove_features,
    staged_features,
)


def write_features(
    store: Any, features: DaskArray | ArrayLike, *, overwrite: bool = False, verbose: bool = False
) -> DaskArray:
    """Write features to a Zarr store, block by block, and return them as they are read from there.

    A run that was stopped goes on where it ended when it is called again with the same features: blocks
    that are written stay, if they can be read and are what was written, and only the others are made.

    Parameters
    ----------
    store : path, URL or Zarr store object
    features : dask array or ndarray, (n, m)
        What `transform` gives, float32. A dask array is made and written one block at a time.
    overwrite : bool, default=False
        Replace what is there. Without it, a finished store or one of other features is refused. Finished features on
        a local path stay readable until the new ones are; elsewhere, and if unfinished, they are removed first.
    verbose : bool, default=False
        Print the plan and the progress on standard error.

    Returns
    -------
    dask array, (n, m)
        The stored features, lazily.

    Raises
    ------
    FileExistsError
        If a finished store of the same features is there and ``overwrite`` is not given.
    ValueError
        If an unfinished store of *other* features is there (another map, seed or source).

    Examples
    --------
    >>> import dask.array as da, dkdist as dk, tempfile
    >>> X = da.ones((6, 4), chunks=(2, 4), dtype="f4")
    >>> dk.write_features(tempfile.mkdtemp() + "/z.zarr", X).shape
    (6, 4)
    """
    overwrite = check_bool("overwrite", overwrite)
    check_verbose(verbose)
    rows = _as_rows(features)
    old = find_features(store) if overwrite else None
    if old is not None and old.complete and old.address.path is not None:
        with staged_features(old) as place:
            write_features(place, rows, verbose=verbose)
        return open_features(store)
    blocks = row_blocks(equalize_chunks(rows))
    if not len(blocks):
        raise ValueError("there are no features to write: expected at least one row")
    plan_blocks(blocks, what="write features").check()  # before anything is made or replaced
    target = _target(store, blocks.n_rows, blocks.n_columns, blocks.rows(0).stop, blocks.name, overwrite)
    missing = _to_make(target)
    plan = plan_blocks(blocks, n_blocks=len(missing), what="write features")
    with plan.run(verbose) as progress:
        write, places = partial(_write_block, target), range(len(blocks))
        map_blocks(blocks, write, places, only=missing, label="write", progress=progress)
    return _lazy(target.finish())


def _as_rows(features: Any) -> Any:
    """Features as a two-dimensional array of real numbers; ValueError for anything else."""
    require_known_chunks(features, "features")
    rows = features if is_lazy(features) else as_real_array("features", features)
    if rows.ndim != 2 or rows.dtype.kind not in "fiub":
        raise ValueError(
            f"features must be real numbers of shape (n, m), found {rows.dtype} of shape {rows.shape}: give what an "
            "embedding's transform returns"
        )
    return rows


def open_features(store: Any) -> DaskArray:
    """Open a finished store of features as a dask array (n, m); nothing is read yet.

    Raises `StoreFormatError` if there is none, or it was never finished.

    Examples
    --------
    >>> import dkdist as dk, numpy as np, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> sets = dk.write_sets(folder + "/sets.zarr", np.random.default_rng(0).normal(size=(6, 20, 2)))
    >>> _ = dk.write_features(folder + "/features.zarr", dk.MomentEmbedding().fit_transform(sets))
    >>> dk.open_features(folder + "/features.zarr").shape
    (6, 2)
    """
    result, label = find_features(store), as_location(store).label
    if result is None:
        raise StoreFormatError(f"there are no features in {label}: write them with write_features")
    if not result.complete:
        raise StoreFormatError(
            f"the features in {label} are not complete ({len(result.missing_blocks())} of {result.n_blocks} blocks are "
            "missing): call write_features again with the same features, and it goes on where it stopped"
        )
    result.require_ends()
    return _lazy(result)


def _to_make(target: FeatureStore) -> list[int]:
    """The blocks that an earlier run did not write, or whose chunks are not what it wrote; reads the others."""
    missing = target.missing_blocks()
    result = sorted(set(range(target.n_blocks)) - set(missing))
    whole = map_pieces(target.is_valid, result, label="found_block") if result else []
    return sorted([*missing, *(i for i, good in zip(result, whole, strict=True) if not good)])


def _write_block(target: FeatureStore, rows: Array, i: int) -> None:
    with np.errstate(over="ignore"):  # what overflows is infinite, and refused
        block = np.asarray(rows, np.float32)
    if np.isinf(block).any():
        row = int(np.argmax(np.isinf(block).any(axis=1)))
        raise ValueError(
            f"row {row} of block {i} of the features is infinite, or beyond float32 (3.4e38), in which they are "
            "kept: repair what makes it. NaN stands for a row that has none"
        )
    target.write_block(i, block)


def _target(
    store: Any, n_rows: int, n_columns: int, block_rows: int, fingerprint: str, overwrite: bool
) -> FeatureStore:
    if overwrite:
        remove_features(store)
    result, label = find_features(store), as_location(store).label
    if result is None:
        return create_features(store, n_rows, n_columns, block_rows, fingerprint)
    if result.fingerprint != fingerprint or (result.n_rows, result.block_rows) != (n_rows, block_rows):
        raise ValueError(
            f"{label} holds other features (found fingerprint {result.fingerprint!r}, expected {fingerprint!r}): they "
            "come from another map, seed, source or block size. Choose another place, or pass overwrite=True"
        )
    if result.complete:
        raise FileExistsError(
            f"{label} already holds these features: open_features reads them, overwrite=True replaces them"
        )
    return result


def _lazy(stored: FeatureStore) -> DaskArray:
    rows = [min(stored.block_rows, stored.n_rows - i * stored.block_rows) for i in range(stored.n_blocks)]
    calls = [(stored, i) for i in range(stored.n_blocks)]
    return lazy_from_calls(
        _read_block, calls, rows, stored.n_columns, "stored_features", 4 * stored.n_rows * stored.n_columns
    )


def _read_block(stored: FeatureStore, i: int) -> F32:
    return stored.read_block(i)
