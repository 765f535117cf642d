"""Writing a whole collection at once."""

from __future__ import annotations

from typing import Any

from dkdist._utils.validation import check_bool
from dkdist.io._zarr.batches import Form, columns_of
from dkdist.io._zarr.location.address import as_location
from dkdist.io._zarr.new_arrays import Shards, shard_rows
from dkdist.io._zarr.set_writer import SetWriter
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
    store : path, URL or Zarr store object
    sets : SampleSets, SetStore, list of (n_i, d) arrays, list of strings, or (N, n, d) array
        A `SetStore` is copied block by block. Time series are arrays whose rows are moments in order; strings are str,
        bytes or flat sequences of whole numbers (`SampleSets.from_strings`), and the alphabet of str is kept.
    targets : (N,) or (N, k) array, or mapping of names to such arrays, optional
        Numbers, booleans or str; a single array is stored as "y". A pandas Series or frame is joined to the ids by its
        index. By default those that the sets have.
    ids : (N,) array of int or str, optional
        By default those that the sets have. The names of their dimensions are kept, too.
    overwrite : bool
        Whether a store that is there may be replaced.
    chunk_rows, shards : optional
        As for `SetWriter`; "auto" gives shards of 32 chunks beyond 10,000 chunks, and at a URL beyond 32.

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
    >>> words = write_sets(zarr.storage.MemoryStore(), ["GATTACA", "CAT"]).append(["TAU"])
    >>> words.alphabet, words.load().strings()
    ('ACGTU', ['GATTACA', 'CAT', 'TAU'])
    """
    check_bool("overwrite", overwrite)
    source = sets if isinstance(sets, SetStore) else as_sample_sets(sets)
    columns = columns_of(source, targets, ids)
    labels = columns.pop("ids", None)
    named = {name.removeprefix("targets/"): values for name, values in columns.items()}
    form: Form = {"points": (str(source.points_dtype), (source.n_dims,))}
    rows_a_shard = shard_rows(shards, as_location(store), form, source.n_points, chunk_rows)
    sizes: Any = {"chunk_rows": chunk_rows, "shards": rows_a_shard}
    with SetWriter(store, source.n_dims, overwrite=overwrite, names=source.names, **sizes) as writer:
        start = 0
        for block in source.blocks() if isinstance(source, SetStore) else [source]:
            rows = slice(start, start + len(block))
            start = rows.stop
            writer.append(
                block, {n: v[rows] for n, v in named.items()}, None if labels is None else labels[rows]
            )
    return open_sets(writer.address)
