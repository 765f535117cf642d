"""Writing a whole collection at once."""

from __future__ import annotations

from typing import Any, Literal

from dkdist.sets import SampleSets, as_sample_sets
from dkdist.store.columns import as_columns
from dkdist.store.layout import chunk_rows_for
from dkdist.store.view import SetStore, open_sets
from dkdist.store.writer import SetWriter

SHARD_CHUNKS = 32
CHUNKS_WITHOUT_SHARDS = 10_000


def write_sets(
    store: Any,
    sets: Any,
    targets: Any = None,
    ids: Any = None,
    overwrite: bool = False,
    *,
    chunk_rows: int | None = None,
    shards: int | Literal["auto"] | None = "auto",
) -> SetStore:
    """Write sets to a new store, and open it.

    Parameters
    ----------
    store : path, URL or Zarr store object
    sets : SampleSets, SetStore, list of (n_i, d) arrays, or (N, n, d) array
        A `SetStore` is copied block by block.
    targets : (N,) or (N, k) array, or mapping of names to such arrays, optional
        Numbers, booleans or str; a single array is stored as "y".
    ids : (N,) array of int or str, optional
    overwrite : bool
        Whether a store that is there may be replaced.
    chunk_rows, shards : optional
        As for `SetWriter`; "auto" shards only beyond 10,000 chunks.

    Returns
    -------
    SetStore

    Raises
    ------
    SampleSetError
        If the sets, targets or ids are not valid; nothing is written then.
    FileExistsError
        If the place is taken, see `SetWriter`.

    Examples
    --------
    >>> import numpy as np, zarr
    >>> sets = [np.zeros((3, 2)), np.ones((5, 2))]
    >>> write_sets(zarr.storage.MemoryStore(), sets, ids=["a", "b"]).ids.tolist()
    ['a', 'b']
    """
    source = sets if isinstance(sets, SetStore) else as_sample_sets(sets)
    columns = as_columns(targets, ids, len(source))
    labels = columns.pop("ids", None)
    named = {name.removeprefix("targets/"): values for name, values in columns.items()}
    rows_a_shard = _auto_shards(source, chunk_rows) if shards == "auto" else shards
    with SetWriter(
        store, source.n_dims, overwrite=overwrite, chunk_rows=chunk_rows, shards=rows_a_shard
    ) as writer:
        start = 0
        for block in source.blocks() if isinstance(source, SetStore) else [source]:
            rows = slice(start, start + len(block))
            start = rows.stop
            writer.append(
                block, {n: v[rows] for n, v in named.items()}, None if labels is None else labels[rows]
            )
    return open_sets(writer.address)


def _auto_shards(source: SampleSets | SetStore, chunk_rows: int | None) -> int | None:
    rows = chunk_rows or chunk_rows_for(source.n_dims * source.points_dtype.itemsize)
    return SHARD_CHUNKS * rows if source.n_points > CHUNKS_WITHOUT_SHARDS * rows else None
