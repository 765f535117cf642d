"""Kinds of source files, by suffix, and their readers; imports no heavy packages.

Other packages add kinds by the entry point group ``dkdist.readers``: the name is a suffix without its dot, and the
object, called without arguments, returns a reader.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from dkdist.io.readers.array_files import SUFFIXES as ARRAYS
from dkdist.io.readers.array_files import ArrayReader
from dkdist.io.readers.fcs import SUFFIXES as CYTOMETRY
from dkdist.io.readers.fcs import CytometryReader
from dkdist.io.readers.files import SUFFIXES as TABLES
from dkdist.io.readers.files import suffix_of, tables_in
from dkdist.io.readers.lidar import SUFFIXES as LIDAR
from dkdist.io.readers.lidar import LidarReader
from dkdist.io.readers.sources import source_label
from dkdist.io.readers.tile_features import SUFFIXES as HDF5
from dkdist.io.readers.tile_features import HDF5Reader

KINDS = {
    "table": TABLES,
    "array": ARRAYS,
    "cytometry": CYTOMETRY,
    "lidar": LIDAR,
    "hdf5": HDF5,
    "annotated": (".h5ad",),
}
SUFFIXES = tuple(suffix for suffixes in KINDS.values() for suffix in suffixes)
# Readers that require no arguments
DEFAULT_READERS = {
    "array": ArrayReader,
    "cytometry": CytometryReader,
    "lidar": LidarReader,
    "hdf5": HDF5Reader,
}
READERS_GROUP = "dkdist.readers"


def kind_of(path: Any) -> str:
    """Return a key of `KINDS` ('table' also for folders), a suffix that a package reads, or ''."""
    if os.path.isdir(os.path.expanduser(path)):
        return "table"
    suffix = suffix_of(path)
    kind = next((kind for kind, suffixes in KINDS.items() if suffix in suffixes), "")
    return kind or (suffix if entry_points(group=READERS_GROUP, name=suffix[1:]) else "")


def reader_of(kind: str) -> Any:
    """Return a reader with default options for a kind other than 'table'."""
    if kind in DEFAULT_READERS:
        return DEFAULT_READERS[kind]()
    (entry_point, *other_entry_points) = entry_points(group=READERS_GROUP, name=kind[1:])
    if other_entry_points:
        packages = ", ".join(sorted({item.value for item in (entry_point, *other_entry_points)}))
        raise ValueError(
            f"{kind} is read by several packages ({packages}). Pass read=, or remove all but one"
        )
    return entry_point.load()()


def sources_in(folder: Path) -> list[Path]:
    """Return the sources in a folder: the folder if it holds only tables (at any depth), otherwise its files."""
    files = sorted(path for path in folder.iterdir() if kind_of(path) not in ("", "table"))
    if not files:
        return [folder] if tables_in(folder) else []
    tables = [path for path in folder.iterdir() if kind_of(path) == "table" and path.is_file()]
    return sorted([*files, *tables])


def as_reader(read: Any, sources: Sequence[Any]) -> Any:
    """Return the reader, or the default one for the suffixes of the sources."""
    if read is not None:
        if not callable(getattr(read, "read", read)):
            raise TypeError(
                f"read must be a function of a source, or an object with the methods read and sizes; got {read!r:.200}."
            )
        return read
    kinds = [kind_of(source) if isinstance(source, (str, os.PathLike)) else "" for source in sources]
    for source, kind in zip(sources, kinds, strict=True):
        if kind in ("", "table", "annotated"):
            suffixes = ", ".join(suffix for kind in DEFAULT_READERS for suffix in KINDS[kind])
            raise ValueError(
                f"without read=, sources must be files with the suffixes {suffixes}; got {source_label(source)}. For "
                "tables pass read=TableReader(set_id), for h5ad files use import_anndata, otherwise a function that "
                "returns SampleSets."
            )
        if kind != kinds[0]:
            raise ValueError(
                f"sources must be files of one kind; got {source_label(sources[0])} and {source_label(source)}. "
                "Import one kind at a time."
            )
    return reader_of(kinds[0])
