"""Features on disk: `write_features` and `open_features`."""

from __future__ import annotations

from dataclasses import replace
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
    """Write features to a Zarr store, block by block, and return the stored features.

    A repeated call with the same features resumes an interrupted run: written blocks are verified, and only missing or
    invalid blocks are computed.

    Parameters
    ----------
    store : path, URL, Zarr store object or icechunk repository
        In icechunk the finished store is one commit, and an interrupted run starts again.
    features : dask array or ndarray, (n, m)
        Result of `transform`, float32. A dask array is computed and written one block at a time.
    overwrite : bool, default=False
        Replace existing features. Otherwise a finished store, or a store of other features, raises an error. Finished
        features on a local path stay readable until the new ones are complete; others are removed first.
    verbose : bool, default=False
        Print the plan and the progress on standard error.

    Returns
    -------
    dask array, (n, m)
        The stored features, lazily.

    Raises
    ------
    FileExistsError
        If a finished store of the same features exists and ``overwrite`` is false.
    ValueError
        If a store of *other* features exists (another map, seed or source) and ``overwrite`` is false.

    Examples
    --------
    >>> import dask.array as da, dkdist as dk, tempfile
    >>> X = da.ones((6, 4), chunks=(2, 4), dtype="f4")
    >>> dk.write_features(tempfile.mkdtemp() + "/z.zarr", X).shape
    (6, 4)
    """
    overwrite = check_bool("overwrite", overwrite)
    check_verbose(verbose)
    rows, location = _as_rows(features), as_location(store)
    location.require_writable()
    old = find_features(store) if overwrite else None
    if old is not None and old.complete and old.address.path is not None:
        with staged_features(old) as staged:
            write_features(staged, rows, verbose=verbose)
        return open_features(store)
    blocks = row_blocks(equalize_chunks(rows))
    if not len(blocks):
        raise ValueError("features must have at least one row; got 0 rows.")
    plan_blocks(blocks, what="write features").check()  # raises before the existing store is changed
    target = _target(
        location.for_writing(), blocks.n_rows, blocks.n_columns, blocks.rows(0).stop, blocks.name, overwrite
    )
    missing = _blocks_to_write(target)
    plan = plan_blocks(blocks, n_blocks=len(missing), what="write features")
    with plan.run(verbose) as progress:
        write, numbers = partial(_write_block, target), range(len(blocks))
        map_blocks(blocks, write, numbers, only=missing, label="write", progress=progress)
    return _lazy(replace(target.finish(), address=location))


def _as_rows(features: Any) -> Any:
    """Return features as a 2-D array of real numbers; ValueError for other input."""
    require_known_chunks(features, "features")
    rows = features if is_lazy(features) else as_real_array("features", features)
    if rows.ndim != 2 or rows.dtype.kind not in "fiub":
        raise ValueError(
            f"features must be real numbers of shape (n, m); got {rows.dtype} of shape {rows.shape}. Pass the result "
            "of transform of an embedding."
        )
    return rows


def open_features(store: Any) -> DaskArray:
    """Open a finished store of features as a lazy dask array (n, m).

    Raises `StoreFormatError` for a missing or unfinished store.

    Examples
    --------
    >>> import dkdist as dk, numpy as np, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> sets = dk.write_sets(folder + "/sets.zarr", np.random.default_rng(0).normal(size=(6, 20, 2)))
    >>> _ = dk.write_features(folder + "/features.zarr", dk.MomentEmbedding().fit_transform(sets))
    >>> dk.open_features(folder + "/features.zarr").shape
    (6, 2)
    """
    stored, label = find_features(store), as_location(store).label
    if stored is None:
        raise StoreFormatError(f"there are no features in {label}. Write them with write_features.")
    if not stored.complete:
        raise StoreFormatError(
            f"the features in {label} are not complete: {len(stored.missing_blocks())} of {stored.n_blocks} blocks are "
            "missing. To resume, call write_features again with the same features."
        )
    stored.require_ends()
    return _lazy(stored)


def _blocks_to_write(target: FeatureStore) -> list[int]:
    """Return missing and invalid blocks; reads the existing blocks."""
    missing = target.missing_blocks()
    existing = sorted(set(range(target.n_blocks)) - set(missing))
    validity = map_pieces(target.is_valid, existing, label="check_blocks") if existing else []
    return sorted([*missing, *(i for i, is_valid in zip(existing, validity, strict=True) if not is_valid)])


def _write_block(target: FeatureStore, rows: Array, i: int) -> None:
    with np.errstate(over="ignore"):  # overflow gives inf, which raises below
        block = np.asarray(rows, np.float32)
    if np.isinf(block).any():
        row = int(np.argmax(np.isinf(block).any(axis=1)))
        raise ValueError(
            f"features must be finite in float32 (at most 3.4e38) or NaN for missing rows; got infinity in row {row} "
            f"of block {i}."
        )
    target.write_block(i, block)


def _target(
    store: Any, n_rows: int, n_columns: int, block_rows: int, fingerprint: str, overwrite: bool
) -> FeatureStore:
    if overwrite:
        remove_features(store)
    stored, label = find_features(store), as_location(store).label
    if stored is None:
        return create_features(store, n_rows, n_columns, block_rows, fingerprint)
    if stored.fingerprint != fingerprint or (stored.n_rows, stored.block_rows) != (n_rows, block_rows):
        raise ValueError(
            f"{label} holds other features, from another map, seed, source or block size (fingerprint "
            f"{stored.fingerprint!r}, expected {fingerprint!r}). Choose another location, or pass overwrite=True."
        )
    if stored.complete:
        raise FileExistsError(
            f"{label} already holds these features. Read them with open_features, or pass overwrite=True to replace "
            "them."
        )
    return stored


def _lazy(stored: FeatureStore) -> DaskArray:
    rows = [min(stored.block_rows, stored.n_rows - i * stored.block_rows) for i in range(stored.n_blocks)]
    calls = [(stored, i) for i in range(stored.n_blocks)]
    return lazy_from_calls(
        _read_block, calls, rows, stored.n_columns, "stored_features", 4 * stored.n_rows * stored.n_columns
    )


def _read_block(stored: FeatureStore, i: int) -> F32:
    return stored.read_block(i)
