"""Import of annotated data (AnnData) larger than memory into a store."""

from __future__ import annotations

import os
from typing import Any

from dkdist.io.import_sets import import_sets
from dkdist.io.readers.annotated_files import AnnotatedReader, IndexedAnnotated
from dkdist.io.readers.sources import source_errors
from dkdist.io.set_store import SetStore


def import_anndata(
    data: Any,
    store: Any,
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
    data : path, AnnData, or a list of them
        An h5ad file, a Zarr store of AnnData (path or URL), or an object: in memory, backed by a file, or of
        ``anndata.experimental.read_lazy``. Several files contain different sets. Requires anndata
        (``pip install 'dkdist[single-cell]'``).
    store : path, URL, Zarr store object or icechunk repository
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
    Only the used columns of ``obs`` are read, then blocks of 32 MiB of the matrix, once and in the order of the file,
    dense or sparse (CSR). If the observations of a set are not adjacent, they are sorted in memory up to 256 MiB, and
    otherwise in temporary files as large as the points (in ``TMPDIR``). Memory: 30 bytes for each observation, the ids
    and targets of all sets, and less than 1 GB for any number of sets; a CSC matrix is stored by columns, and the
    selected columns are read at once. A backed object is read from its file, so its matrix must not have been changed
    in memory; ``obs`` may have been, and it may be a view. A single file is read by one task.

    Examples
    --------
    >>> import dkdist as dk, numpy as np, pandas as pd, tempfile
    >>> from types import SimpleNamespace  # in place of AnnData
    >>> obs = pd.DataFrame({"donor": ["b", "a", "b"], "age": [50, 60, 50]})
    >>> adata = SimpleNamespace(obs=obs, obsm={"X_pca": np.eye(3)}, layers={}, X=None, var_names=[])
    >>> sets = dk.import_anndata(
    ...     adata, tempfile.mkdtemp() + "/cells.zarr", "donor", obsm="X_pca", targets=["age"]
    ... )
    >>> sets.ids, sets.sizes, sets.targets["age"]
    (array(['b', 'a'], dtype='<U1'), array([2, 1]), array([50, 60]))
    """
    reader = AnnotatedReader(set_key, obsm, layer, columns, targets)
    sources = [_as_source(item, reader) for item in (data if isinstance(data, (list, tuple)) else [data])]
    return import_sets(store, sources, reader, overwrite=overwrite, verbose=verbose)


def _as_source(data: Any, reader: AnnotatedReader) -> Any:
    """Return a path, or an object after its first pass: backed objects cannot be sent to workers, but files can."""
    if isinstance(data, (str, os.PathLike)):
        return os.fspath(data)
    with source_errors(data):
        return IndexedAnnotated.of(data, reader)
