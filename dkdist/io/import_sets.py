"""Many sources become one store, on all cores or on a cluster: outlined first, then each part written by one task."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from contextlib import closing
from functools import partial
from typing import Any

import numpy as np

from dkdist._numba.arrays import F64
from dkdist._runtime.map_reduce import map_pieces
from dkdist._runtime.progress import Progress
from dkdist._runtime.run import resources
from dkdist._utils.validation import check_bool, check_verbose
from dkdist.io import SetStore, open_sets
from dkdist.io._zarr.batches import Outline
from dkdist.io._zarr.new_arrays import Shards
from dkdist.io._zarr.planned_store import PlannedStore
from dkdist.io.maintenance import PARTS_PER_THREAD, part_bytes, write_parts
from dkdist.io.readers.catalogue import Catalogue, part_batches
from dkdist.io.readers.kinds import as_reader
from dkdist.io.readers.sources import (
    OriginSample,
    joint_origin_of,
    log_summary,
    origin_sample,
    outline_of,
    unify_outlines,
)
from dkdist.sets.origins import normalize_origin

# First batches read for the origin: more sources represent the data better but delay the import by seconds
# (tests/store/test_origin.py)
MAX_SAMPLED_SOURCES = 16
MAX_SOURCES_PER_TASK = 64  # amortizes task overhead of small files; tests/store/test_parallel_import.py


def import_sets(
    store: Any,
    sources: Iterable[Any],
    read: Any = None,
    *,
    overwrite: bool = False,
    chunk_rows: int | None = None,
    shards: Shards = "auto",
    origin: Any = None,
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
    origin : array_like of shape (n_dims,), optional
        Coordinates that the store counts from, so that float32 holds differences far from zero; by default those near
        the middle of all sources where these lie far from zero, else 0.
    verbose : bool, default=False
        Show progress on standard error, and which columns of tables were taken (which ``dkdist.importing`` logs).

    Returns
    -------
    SetStore
        The same, bit for bit, as `SetWriter` makes of the sources one after another, if it counts from the same origin.

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
    store's origin (see `SetWriter`) follows from the first batches of all sources, whatever their order: of LiDAR files
    and sources that the first pass reads, of all; of up to 16 others, spread evenly, which are read for it between the
    passes once more. Memory of a thread: one source (or what its iterator gives at a time)
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
    check_bool("overwrite", overwrite)
    check_verbose(verbose)
    requested = None if origin is None else _as_origin(origin)
    listed = [sources] if isinstance(sources, (str, os.PathLike)) else list(sources)
    if not listed:
        raise ValueError("there are no sources: give at least one")
    reader = as_reader(read, listed)
    planned = PlannedStore(store, overwrite=overwrite)
    outlines = unify_outlines(reader, _outlines(reader, listed, verbose))
    dropped = sum(outline.dropped for outline in outlines)
    log_summary((outline.summary for outline in outlines), dropped, verbose=verbose)
    catalogue = Catalogue.of(listed, outlines)
    if requested is not None:
        _require_dimensions(requested, catalogue)
    start = _origin(reader, catalogue, outlines) if requested is None else requested
    with planned.begun(
        catalogue.form,
        catalogue.edges,
        chunk_rows=chunk_rows,
        shards=shards,
        origin=start,
        names=catalogue.names,
    ):
        bounds = planned.bounds(part_bytes(planned), catalogue.row_bounds[:-1])
        batches = partial(part_batches, reader, start)
        ids = write_parts(planned, bounds, catalogue.part, batches, "import", verbose)
        if ids is not None:
            catalogue.require_distinct(ids)
    return open_sets(planned.address)


def _as_origin(origin: Any) -> F64:
    """Coordinates as float64; ValueError for anything else."""
    try:
        numbers = np.asarray(origin, np.float64)
    except (TypeError, ValueError):
        numbers = np.array(np.nan)
    if numbers.ndim != 1 or not np.isfinite(numbers).all():
        raise ValueError(f"origin must have one finite number for each dimension; got {origin!r:.200}")
    return numbers


def _require_dimensions(origin: F64, catalogue: Catalogue) -> None:
    """Refuse an origin that the points of the sources cannot be counted from."""
    dtype, (d,) = catalogue.form["points"]
    if dtype != "float32" or len(origin) != d:
        what = f"integer codes ({dtype})" if dtype != "float32" else f"points of {d} dimensions"
        raise ValueError(
            f"origin must have one number for each dimension; got {len(origin)}, and the sources have {what}"
        )


def _origin(read: Any, catalogue: Catalogue, outlines: Sequence[Outline]) -> F64 | None:
    """What the store counts from, by all sources; of those that the first pass did not sample, some are read."""
    dtype, (d, *_) = catalogue.form["points"]
    if dtype != "float32":
        return None
    samples = [
        OriginSample(normalize_origin(outline.origin), outline.sample)
        for outline in outlines
        if outline.sample is not None
    ]
    others = [
        source for source, outline in zip(catalogue.sources, outlines, strict=True) if outline.sample is None
    ]
    if others:
        chosen = [
            others[i] for i in {k * len(others) // MAX_SAMPLED_SOURCES for k in range(MAX_SAMPLED_SOURCES)}
        ]
        samples += filter(None, map_pieces(partial(origin_sample, read), chosen, label="origin"))
    return joint_origin_of(samples, d)


def _outlines(read: Any, sources: Sequence[Any], verbose: bool) -> list[Outline]:
    """The outline of every source, many sources to a task; that of the first has a form."""
    step = int(np.clip(len(sources) // (PARTS_PER_THREAD * resources().all_threads), 1, MAX_SOURCES_PER_TASK))
    groups = [sources[i : i + step] for i in range(0, len(sources), step)]
    with closing(Progress(len(groups), "import: outlines", show=verbose)) as progress:
        result = map_pieces(
            partial(_outlined, read), list(enumerate(groups)), label="outline", progress=progress
        )
    return [outline for group in result for outline in group]


def _outlined(read: Any, group: tuple[int, Sequence[Any]]) -> list[Outline]:
    number, sources = group
    outlines = [outline_of(read, source) for source in sources]
    if number == 0 and outlines[0].form is None:
        outlines[0] = outline_of(read, sources[0], whole=True)
    return outlines
