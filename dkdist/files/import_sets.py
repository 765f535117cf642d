"""Many sources become one store, on all cores or on a cluster: outlined first, then each part written by one task."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from contextlib import closing
from functools import partial
from typing import Any

import numpy as np

from dkdist.execution.passes import map_pieces
from dkdist.execution.progress import Progress
from dkdist.execution.run import resources
from dkdist.files.store_writing import PARTS_A_THREAD, part_bytes, write_parts
from dkdist.plain.flags import as_flag, as_verbose
from dkdist.store import SetStore, open_sets
from dkdist.store.format.batches import Outline
from dkdist.store.format.new_arrays import Shards
from dkdist.store.importing.catalogue import Catalogue, part_batches
from dkdist.store.importing.sources import agreed, as_reader, first_origin, outline_of
from dkdist.store.importing.telling import tell
from dkdist.store.writing.planned_store import PlannedStore

SOURCES_AT_ONCE = 64  # outlined by one task, at most


def import_sets(
    store: Any,
    sources: Iterable[Any],
    read: Any = None,
    *,
    overwrite: bool = False,
    chunk_rows: int | None = None,
    shards: Shards = "auto",
    verbose: bool = False,
) -> SetStore:
    """Make one new store of many sources: files, seeds, or whatever a function of yours can read, in parallel.

    Parameters
    ----------
    store : path, URL or Zarr store object
        Workers of a cluster must see it under the same name.
    sources : path or iterable
        Paths, or anything else that ``read`` understands; their sets come into the store in this order. A folder of
        tables is one source, and so is a list of their files; a path alone is the only source.
    read : callable or object, optional
        ``read(source)`` gives what the source holds: sets (`SampleSets`, a list of (n_i, d) arrays, an (N, n, d)
        array), or a tuple (sets, targets) or (sets, targets, ids); or, for sources larger than memory, an iterator
        of these (a generator). It must give the same each time. An object with a method ``sizes(source)`` beside
        ``read(source)``, giving the number of points of each set, spares the first reading. By default sources are
        files that need no choice: ``.npz`` and ``.npy`` (`ArrayReader`), ``.fcs`` (`CytometryReader`), ``.las`` and
        ``.laz`` (`LidarReader`); for tables give a `TableReader`.
    overwrite : bool, default=False
        Replace a store that is there. On a local path it stays readable until the new one is committed; elsewhere it
        is cleared after the first pass.
    chunk_rows, shards : optional
        As for `write_sets`.
    verbose : bool, default=False
        Show progress on standard error, and which columns of tables were taken (which ``dkdist.importing`` logs).

    Returns
    -------
    SetStore
        The same, bit for bit, as `SetWriter` makes of the sources one after another.

    Raises
    ------
    SourceError
        If a source cannot be read, has no sets, gives other sets in the second pass, has other dimensions (or names
        of them), dtypes, weights, targets or ids than the first, or an id that another source has. It is named; nothing
        is committed.
    FileExistsError
        If the place is taken, see `SetWriter`.

    Notes
    -----
    First pass: the sizes of all sets (offsets and ids of an ``.npz`` file, ids and targets of a table,
    ``read.sizes(source)``, or else all of ``read(source)``). Second pass: each task writes a run of whole chunks
    (or shards) of 32 to 512 MiB, reading the sources that overlap it one after another, so that a source is read
    once, and twice at most where a run begins inside it (a folder of tables, which is one source, by one task). The
    store's origin (see `SetWriter`) is that of the first batch of the first source, which is read for it between
    the passes unless the first pass read it. Memory of a thread: one source (or what its iterator gives at a time)
    and eight chunks (or a shard). This process holds the sizes, targets and ids of all sets. Runs on the active
    Dask client's cluster, or on this machine's threads. A run that fails or is killed leaves nothing visible.

    Examples
    --------
    >>> import dkdist as dk, numpy as np, tempfile
    >>> def generate(seed):
    ...     rng = np.random.default_rng(seed)
    ...     return rng.normal(seed, 1, (100, 5, 2)), np.full(100, seed)
    >>> sets = dk.import_sets(tempfile.mkdtemp() + "/sets.zarr", range(4), generate)
    >>> len(sets), sets.n_points, sets.targets["y"][::100]
    (400, 2000, array([0, 1, 2, 3]))
    """
    as_flag("overwrite", overwrite)
    as_verbose(verbose)
    listed = [sources] if isinstance(sources, (str, os.PathLike)) else list(sources)
    if not listed:
        raise ValueError("there are no sources: give at least one")
    reader = as_reader(read, listed)
    planned = PlannedStore(store, overwrite=overwrite)
    outlines = agreed(reader, _outlines(reader, listed, verbose))
    dropped = sum(outline.dropped for outline in outlines)
    tell((outline.told for outline in outlines), dropped, verbose=verbose)
    catalogue, origin = Catalogue.of(listed, outlines), outlines[0].origin
    if origin is None and catalogue.form["points"][0] == "float32":
        origin = first_origin(reader, catalogue.sources[0])
    with planned.begun(
        catalogue.form,
        catalogue.edges,
        chunk_rows=chunk_rows,
        shards=shards,
        origin=origin,
        names=catalogue.names,
    ):
        bounds = planned.bounds(part_bytes(planned), catalogue.row_bounds[:-1])
        batches = partial(part_batches, reader, origin)
        ids = write_parts(planned, bounds, catalogue.part, batches, "import", verbose)
        if ids is not None:
            catalogue.require_distinct(ids)
    return open_sets(planned.address)


def _outlines(read: Any, sources: Sequence[Any], verbose: bool) -> list[Outline]:
    """The outline of every source, many sources to a task; that of the first has a form."""
    step = int(np.clip(len(sources) // (PARTS_A_THREAD * resources().all_threads), 1, SOURCES_AT_ONCE))
    groups = [sources[i : i + step] for i in range(0, len(sources), step)]
    with closing(Progress(len(groups), "import: outlines", show=verbose)) as progress:
        found = map_pieces(
            partial(_outlined, read), list(enumerate(groups)), label="outline", progress=progress
        )
    return [outline for group in found for outline in group]


def _outlined(read: Any, group: tuple[int, Sequence[Any]]) -> list[Outline]:
    number, sources = group
    outlines = [outline_of(read, source) for source in sources]
    if number == 0 and outlines[0].form is None:
        outlines[0] = outline_of(read, sources[0], whole=True)
    return outlines
