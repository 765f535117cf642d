"""`write_sets`: writing of a whole collection."""

from __future__ import annotations

from typing import Any

from dkdist._utils.validation import check_bool
from dkdist.io._zarr.batches import Form, columns_of
from dkdist.io._zarr.location.address import as_location
from dkdist.io._zarr.new_arrays import Shards, shard_rows
from dkdist.io._zarr.set_writer import SetWriter
from dkdist.io.as_sets import as_sets
from dkdist.io.lazy_sets import LazySets
from dkdist.io.set_store import SetStore, open_sets
from dkdist.sets import as_sample_sets


def write_sets(
    store: Any,
    sets: Any,
    targets: Any = None,
    ids: Any = None,
    overwrite: bool = False,
    *,
    chunk_rows: int | None = None,
    shards: Shards = "auto",
) -> SetStore:
    """Write sets to a new store, and open it.

    Parameters
    ----------
    store : path, URL, Zarr store object or icechunk repository
    sets : collection of sets
        Anything that `as_sets` accepts; lazy collections are written block by block. Time series are arrays with one
        row per time step; strings are str,
        bytes or flat sequences of integers (`SampleSets.from_strings`), and the alphabet of str is stored. Names of
        dimensions are stored too.
    targets : (N,) or (N, k) array, or mapping of names to such arrays, optional
        Numbers, booleans or str; a single array is stored as "y". A pandas Series or frame is joined to the ids by its
        index. Default: the targets of the sets.
    ids : (N,) array of int or str, optional
        Default: the ids of the sets.
    overwrite : bool
        Replace an existing store.
    chunk_rows, shards : optional
        As for `SetWriter`; "auto" uses shards of 32 chunks for more than 10,000 chunks, and at a URL for more than 32.

    Returns
    -------
    SetStore

    Raises
    ------
    SampleSetError
        If the sets, targets or ids are invalid; nothing is written.
    FileExistsError
        If the location is occupied, see `SetWriter`.

    Examples
    --------
    >>> import numpy as np, zarr
    >>> sets = [np.zeros((3, 2)), np.ones((5, 2))]
    >>> write_sets(zarr.storage.MemoryStore(), sets, ids=["a", "b"]).ids.tolist()
    ['a', 'b']
    >>> words = write_sets(zarr.storage.MemoryStore(), ["GATTACA", "CAT"]).append(["TAU"])
    >>> words.alphabet, words.load().strings()
    ('ACGTU', ['GATTACA', 'CAT', 'TAU'])
    """
    check_bool("overwrite", overwrite)
    # a str is more often a mistake than the path of a store to copy
    source = as_sample_sets(sets) if isinstance(sets, str) else as_sets(sets)
    columns = columns_of(source, targets, ids)
    labels = columns.pop("ids", None)
    target_by_name = {name.removeprefix("targets/"): values for name, values in columns.items()}
    form: Form = {"points": (str(source.points_dtype), (source.n_dims,))}
    rows_per_shard = shard_rows(shards, as_location(store), form, source.n_points, chunk_rows)
    sizes: Any = {"chunk_rows": chunk_rows, "shards": rows_per_shard}
    with SetWriter(store, source.n_dims, overwrite=overwrite, names=source.names, **sizes) as writer:
        start = 0
        for block in source.blocks() if isinstance(source, LazySets) else [source]:
            rows = slice(start, start + len(block))
            start = rows.stop
            writer.append(
                block,
                {n: v[rows] for n, v in target_by_name.items()},
                None if labels is None else labels[rows],
            )
    return open_sets(writer.address)
