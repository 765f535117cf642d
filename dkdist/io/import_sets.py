"""`import_sets`: one store from many sources in parallel: first their outlines, then one task per part."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
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

# Maximum number of sources read to choose the origin; more represent the data better but take longer
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
    """Write one new store from many sources (files, or any objects that a function can read), in parallel.

    Parameters
    ----------
    store : path, URL, Zarr store object or icechunk repository
        Workers of a cluster must reach it under the same name.
    sources : path or iterable
        Paths, or other objects that ``read`` accepts; the store has their sets in this order. A folder of tables is
        one source, and so is a list of their files. A single path is the only source.
    read : callable or object, optional
        ``read(source)`` returns sets (`SampleSets`, a list of (n_i, d) arrays, an (N, n, d) array), or a tuple (sets,
        targets) or (sets, targets, ids); or, for sources larger than memory, an iterator of these. Repeated calls must
        return the same. An object with methods ``read(source)`` and ``sizes(source)``, the number of points of each
        set, avoids the first read. By default the suffix selects the reader: ``.npz`` and ``.npy`` (`ArrayReader`),
        ``.fcs`` (`CytometryReader`), ``.las`` and ``.laz`` (`LidarReader`),
        ``.h5`` and ``.hdf5`` (`HDF5Reader`); for tables pass a `TableReader`, for files with one set per row a
        `NestedReader`, and for h5ad files use `import_anndata`.
    overwrite : bool, default=False
        Replace an existing store. On a local path it stays readable until the new one is committed; elsewhere it is
        cleared after the first pass.
    chunk_rows, shards : optional
        As for `write_sets`.
    origin : array_like of shape (n_dims,), optional
        Origin that is subtracted from the points, so that float32 represents differences far from zero. Default: near
        the centre of all sources if these are far from zero, otherwise 0.
    verbose : bool, default=False
        Show progress and the selected columns of tables on standard error (logger ``dkdist.importing``).

    Returns
    -------
    SetStore
        Bitwise identical to the store that `SetWriter` writes from the same sources in this order, with this origin.

    Raises
    ------
    SourceError
        If a source cannot be read, has no sets, or returns different sets in the second pass; if its dimensions (or
        their names), dtypes, weights, targets or ids do not match the first source; or if two sources have the same
        id. The message names the source. Nothing is committed.
    FileExistsError
        If the location is occupied, see `SetWriter`.

    Notes
    -----
    The first pass reads the sizes of all sets (offsets and ids of an ``.npz`` file, ids and targets of a table,
    ``read.sizes(source)``, otherwise all of ``read(source)``). In the second pass each task writes consecutive chunks
    (or shards) of 32 to 512 MiB from the sources that overlap them. A source is read once, or twice if a part begins
    inside it; a folder of tables is read by one task. The origin (see `SetWriter`) is chosen from the first batches of
    all LiDAR files, all sources that the first pass reads, and up to 16 others, evenly spaced, which are read once
    more between the passes. It does not depend on their order. Memory per thread: one source (or one item of its
    iterator) and eight chunks (or a shard); this process holds the sizes, targets and ids of all sets. Runs on the
    cluster of the active Dask client, or on local threads. A run that fails or is killed leaves nothing visible.

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
    requested_origin = None if origin is None else _as_origin(origin)
    all_sources = [sources] if isinstance(sources, (str, os.PathLike)) else list(sources)
    if not all_sources:
        raise ValueError("sources must not be empty.")
    reader = as_reader(read, all_sources)
    planned = PlannedStore(store, overwrite=overwrite)
    outlines = unify_outlines(reader, _outlines(reader, all_sources, verbose))
    dropped = sum(outline.dropped for outline in outlines)
    log_summary((outline.summary for outline in outlines), dropped, verbose=verbose)
    catalogue = Catalogue.of(all_sources, outlines)
    if requested_origin is not None:
        _require_dimensions(requested_origin, catalogue)
    store_origin = _origin(reader, catalogue, outlines) if requested_origin is None else requested_origin
    with planned.create(
        catalogue.form,
        catalogue.edges,
        chunk_rows=chunk_rows,
        shards=shards,
        origin=store_origin,
        names=catalogue.names,
    ):
        bounds = planned.bounds(part_bytes(planned), catalogue.row_bounds[:-1])
        batches = partial(part_batches, reader, store_origin)
        ids = write_parts(planned, bounds, catalogue.part, batches, "import", verbose)
        if ids is not None:
            catalogue.require_distinct(ids)
    return open_sets(planned.address)


def _as_origin(origin: Any) -> F64:
    """Return the origin as float64; ValueError if invalid."""
    try:
        numbers = np.asarray(origin, np.float64)
    except (TypeError, ValueError):
        numbers = np.array(np.nan)
    if numbers.ndim != 1 or not np.isfinite(numbers).all():
        raise ValueError(f"origin must have one finite number for each dimension; got {origin!r:.200}")
    return numbers


def _require_dimensions(origin: F64, catalogue: Catalogue) -> None:
    """Raise for an origin that does not match the points of the sources."""
    dtype, (d,) = catalogue.form["points"]
    if dtype != "float32":
        raise ValueError(f"origin must be None for sources of integer codes; got codes of type {dtype}.")
    if len(origin) != d:
        raise ValueError(
            f"origin must have one number for each dimension; got {len(origin)} for sources of {d} dimensions."
        )


def _origin(read: Any, catalogue: Catalogue, outlines: Sequence[Outline]) -> F64 | None:
    """Return the origin for all sources; reads some of those that the first pass did not sample."""
    dtype, (d, *_) = catalogue.form["points"]
    if dtype != "float32":
        return None
    samples = [
        OriginSample(normalize_origin(outline.origin), outline.sample)
        for outline in outlines
        if outline.sample is not None
    ]
    unsampled_sources = [
        source for source, outline in zip(catalogue.sources, outlines, strict=True) if outline.sample is None
    ]
    if unsampled_sources:
        sampled_sources = [
            unsampled_sources[i]
            for i in {k * len(unsampled_sources) // MAX_SAMPLED_SOURCES for k in range(MAX_SAMPLED_SOURCES)}
        ]
        samples += filter(None, map_pieces(partial(origin_sample, read), sampled_sources, label="origin"))
    return joint_origin_of(samples, d)


def _outlines(read: Any, sources: Sequence[Any], verbose: bool) -> list[Outline]:
    """Return the outlines of all sources, several per task; the first has a form."""
    step = int(np.clip(len(sources) // (PARTS_PER_THREAD * resources().all_threads), 1, MAX_SOURCES_PER_TASK))
    groups = [sources[i : i + step] for i in range(0, len(sources), step)]
    with Progress(len(groups), "import: outlines", show=verbose) as progress:
        results = map_pieces(
            partial(_outline_group, read), list(enumerate(groups)), label="outline", progress=progress
        )
    return [outline for group in results for outline in group]


def _outline_group(read: Any, group: tuple[int, Sequence[Any]]) -> list[Outline]:
    number, sources = group
    outlines = [outline_of(read, source) for source in sources]
    if number == 0 and outlines[0].form is None:
        outlines[0] = outline_of(read, sources[0], read_all=True)
    return outlines
