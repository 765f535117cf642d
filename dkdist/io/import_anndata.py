"""Annotated data (AnnData) larger than memory: as a lazy collection, or imported into a store."""

from __future__ import annotations

import os
from typing import Any

from dkdist._runtime.lazy_rows import lazy_array
from dkdist._utils.validation import check_bool, check_verbose
from dkdist.io.array_sets import ArraySets
from dkdist.io.import_sets import import_sets
from dkdist.io.lazy_sets import LazySets
from dkdist.io.readers.annotated_files import AnnotatedReader, GroupedRows, IndexedAnnotated
from dkdist.io.readers.sources import source_errors
from dkdist.io.set_store import SetStore
from dkdist.sets.labels import Labels

CHUNK_BYTES = 2**22  # amortises opening the file; tests/store/test_annotated_files.py


def import_anndata(
    store: Any,
    data: Any,
    set_key: str,
    *,
    obsm: str | None = None,
    layer: str | None = None,
    columns: Any = None,
    targets: Any = None,
    overwrite: bool = False,
    verbose: bool = False,
) -> SetStore:
    """Write a new store from annotated data with one observation per point, in bounded memory.

    Parameters
    ----------
    store : path, URL, Zarr store object or icechunk repository
    data : path, AnnData, or a list of them
        An h5ad file, a Zarr store of AnnData (path or URL), or an object: in memory, backed by a file, or of
        ``anndata.experimental.read_lazy``. Several files contain different sets. Requires anndata
        (``pip install 'dkdist[single-cell]'``).
    set_key, obsm, layer, columns, targets
        As for `SampleSets.from_anndata`.
    overwrite : bool, default=False
        Replace an existing store.
    verbose : bool, default=False
        Show progress on standard error.

    Returns
    -------
    SetStore
        The sets of `SampleSets.from_anndata`, in the order of their first observations. The points of a set keep the
        order of the file.

    Raises
    ------
    SourceError
        As `SampleSetError` of `SampleSets.from_anndata`: for missing columns, observations without an id, targets that
        vary within a set, and values that are not finite (naming column, row and set); also for a set in two files.
        Nothing is committed.
    FileExistsError
        If the location is occupied, see `SetWriter`.

    Notes
    -----
    Only the used columns of ``obs`` are read, then blocks of 32 MiB of the matrix, once and in the order of the
    file, dense or sparse (CSR). If the observations of a set are not adjacent, they are sorted in memory up to 256
    MiB, and otherwise in temporary files as large as the points (in ``TMPDIR``). Memory: about 60 bytes for each
    observation, the ids and targets of all sets, a few blocks, and the rows of one temporary file: 256 MiB, or
    1/256 of the points. A CSC matrix is stored by columns, and the selected columns are read at once. A backed
    object is read from its file, so its matrix must not have been changed in memory; ``obs`` may have been, and it
    may be a view. A single file is read by one task.

    Examples
    --------
    >>> import dkdist as dk, numpy as np, pandas as pd, tempfile
    >>> from types import SimpleNamespace  # in place of AnnData
    >>> obs = pd.DataFrame({"donor": ["b", "a", "b"], "age": [50, 60, 50]})
    >>> adata = SimpleNamespace(obs=obs, obsm={"X_pca": np.eye(3)}, layers={}, X=None, var_names=[])
    >>> sets = dk.import_anndata(
    ...     tempfile.mkdtemp() + "/cells.zarr", adata, "donor", obsm="X_pca", targets=["age"]
    ... )
    >>> sets.ids, sets.sizes, sets.targets["age"]
    (array(['b', 'a'], dtype='<U1'), array([2, 1]), array([50, 60]))
    """
    check_bool("overwrite", overwrite)
    check_verbose(verbose)
    reader = AnnotatedReader(set_key, obsm, layer, columns, targets)
    sources = [_as_source(item, reader) for item in (data if isinstance(data, (list, tuple)) else [data])]
    return import_sets(store, sources, reader, overwrite=overwrite, verbose=verbose)


def open_anndata(
    data: Any,
    set_key: str,
    *,
    obsm: str | None = None,
    layer: str | None = None,
    columns: Any = None,
    targets: Any = None,
) -> LazySets:
    """Return annotated data as lazy sets, without a copy: blocks of sets are read where they are needed.

    Parameters
    ----------
    data : path or AnnData
        As for `import_anndata`.
    set_key, obsm, layer, columns, targets
        As for `SampleSets.from_anndata`.

    Returns
    -------
    LazySets
        With ids, names and targets, in the order of the first observations.

    Raises
    ------
    ValueError
        As `SampleSets.from_anndata`. Values that are not finite raise an error when they are read.

    Notes
    -----
    Reads the used columns of ``obs``. Memory: 12 bytes for each observation. A block of sets reads the parts of the
    file between its first and its last observation, so this suits files whose observations of a set are adjacent, or
    nearly so. Use `import_anndata` for others, and for models that read the data many times.

    Examples
    --------
    >>> import dkdist as dk, numpy as np, pandas as pd
    >>> from types import SimpleNamespace  # in place of AnnData
    >>> obs = pd.DataFrame({"donor": ["b", "a", "b"], "age": [50, 60, 50]})
    >>> adata = SimpleNamespace(obs=obs, obsm={"X_pca": np.eye(3)}, layers={}, X=None, var_names=[])
    >>> sets = dk.open_anndata(adata, "donor", obsm="X_pca", targets=["age"])
    >>> sets.ids, sets.sizes, dk.MomentEmbedding().fit_transform(sets).shape
    (array(['b', 'a'], dtype='<U1'), array([2, 1]), (2, 3))
    """
    indexed = IndexedAnnotated.of(
        os.fspath(data) if isinstance(data, os.PathLike) else data,
        AnnotatedReader(set_key, obsm, layer, columns, targets),
    )
    rows = GroupedRows(indexed)
    points = lazy_array(rows, max(1, CHUNK_BYTES // (rows.dtype.itemsize * rows.shape[1])))
    shape = (len(indexed.ids), rows.shape[1])
    return ArraySets.of(
        points, None, indexed.sizes, Labels.of(indexed.ids, rows.names, indexed.targets, shape)
    )


def _as_source(data: Any, reader: AnnotatedReader) -> Any:
    """Return a path, or an object after its first pass: backed objects cannot be sent to workers, but files can."""
    if isinstance(data, (str, os.PathLike)):
        return os.fspath(data)
    with source_errors(type(data).__name__):
        return IndexedAnnotated.of(data, reader)
