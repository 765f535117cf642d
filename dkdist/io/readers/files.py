"""Files of a table (a file, the files of a folder at any depth, or a list), CSV options, and ids of files."""

from __future__ import annotations

import codecs
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

from dkdist._utils.files import path_name, require_regular_file


def file_id(path: Any, n_parts: int) -> str:
    """Return the last ``n_parts`` parts of a path, joined by ``/``, without the suffix."""
    full = Path(os.path.abspath(path_name(path)))
    return "/".join([*full.parts[-n_parts:-1], full.stem])


def require_id_parts(n_parts: Any) -> None:
    """Raise unless ``n_parts`` is a positive int."""
    if type(n_parts) is not int or n_parts < 1:
        raise ValueError(f"id_parts must be an int of at least 1; got {n_parts!r:.200}")


SUFFIXES = (".csv", ".tsv", ".parquet", ".pq")
COMPRESSED = (".gz", ".bz2")
DEFAULT_ENCODING = "utf-8"
HIDDEN_PREFIXES = ("_", ".")  # prefixes of the metadata files of Spark and others


class CsvOptions(NamedTuple):
    """CSV dialect: delimiter (None for that of the suffix), decimal mark and encoding."""

    delimiter: str | None
    decimal: str
    encoding: str

    @classmethod
    def checked(cls, delimiter: Any, decimal: Any, encoding: Any) -> CsvOptions:
        """Validate the options; ValueError or TypeError if invalid."""
        if delimiter is not None and (
            not isinstance(delimiter, str) or len(delimiter) != 1 or not delimiter.isascii()
        ):
            raise ValueError(f"delimiter must be one ASCII character; got {delimiter!r:.200}")
        if decimal not in (".", ","):
            raise ValueError(f"decimal must be '.' or ','; got {decimal!r:.200}")
        if decimal == delimiter:
            raise ValueError(f"delimiter and decimal must differ; got {decimal!r} for both")
        try:
            codecs.lookup(encoding)
        except (LookupError, TypeError, ValueError):
            raise ValueError(
                f"encoding must be a known encoding, such as 'latin-1'; got {encoding!r:.200}"
            ) from None
        return cls(delimiter, decimal, encoding)


class TableFiles(NamedTuple):
    """Ordered files of a table, all of one suffix; its folder, and the names of Hive partitions (``region=eu/``)."""

    label: str
    paths: list[str]
    suffix: str
    root: str | None
    partitions: list[str]

    @property
    def is_csv(self) -> bool:
        """Whether the files are text, without types."""
        return self.suffix in (".csv", ".tsv")


def find_table_files(source: Any) -> TableFiles:
    """Return the table files of a path, a folder or a list; ValueError if there are none or their formats differ."""
    if isinstance(source, Sequence) and not isinstance(source, (str, bytes)):
        return _check_paths([path_name(path) for path in source])
    path = path_name(source)
    if not os.path.isdir(path):
        if not os.path.exists(path):
            raise FileNotFoundError(f"there is no file or folder {path}. Check the path")
        require_regular_file(path)
        return TableFiles(path, [path], table_suffix(path), None, [])
    files = [str(file) for file in tables_in(path)]
    if not files:
        raise ValueError(f"folder {path} has no file that ends in one of {', '.join(SUFFIXES)}")
    files = [file for file in files if os.path.getsize(file)] or files  # Spark writes empty parts
    folders = [Path(file).relative_to(path).parts[:-1] for file in files]
    names = [part.partition("=")[0] for parts in folders for part in parts if "=" in part]
    partitions = list(dict.fromkeys(map(unquote, names)))
    return TableFiles(path, files, _common_suffix(path, files), path, partitions)


def tables_in(folder: str | os.PathLike[str]) -> list[Path]:
    """Return the tables in a folder at any depth, sorted by name; names that begin with ``_`` or ``.`` are ignored."""
    paths = sorted(path for path in Path(folder).rglob("*") if suffix_of(path) in SUFFIXES)
    return [
        path
        for path in paths
        if not any(
            part.startswith(HIDDEN_PREFIXES) and "=" not in part for part in path.relative_to(folder).parts
        )
        and path.is_file()
    ]


def _check_paths(paths: list[str]) -> TableFiles:
    if not paths:
        raise ValueError("a table must have at least one file; got an empty list")
    real_paths = set[str]()
    for path in paths:
        if os.path.exists(path) and not os.path.isdir(path):
            require_regular_file(path)
        if not os.path.isfile(path):
            raise FileNotFoundError(f"there is no file {path}. Pass the folder of a table, or its files")
        if os.path.realpath(path) in real_paths:
            raise ValueError(f"files must be unique; {path} is given twice")
        real_paths.add(os.path.realpath(path))
    more = f" and {len(paths) - 1} more files" if len(paths) > 1 else ""
    return TableFiles(f"{paths[0]}{more}", paths, _common_suffix("the list", paths), None, [])


def _common_suffix(label: str, paths: list[str]) -> str:
    suffixes = {".parquet" if suffix == ".pq" else suffix for suffix in map(table_suffix, paths)}
    if len(suffixes) > 1:
        raise ValueError(
            f"{label} must contain tables of one kind; got {', '.join(sorted(suffixes))}. Import one kind at a time"
        )
    return suffixes.pop()


def suffix_of(path: Any) -> str:
    """Return the lower-case suffix of the file format, without a compression suffix; '' for none."""
    suffixes = [s.lower() for s in Path(path).suffixes if s.lower() not in COMPRESSED]
    return suffixes[-1] if suffixes else ""


def table_suffix(path: Any) -> str:
    """Return the suffix of a table; ValueError for other files."""
    suffix = suffix_of(path)
    if suffix not in SUFFIXES:
        raise ValueError(
            f"{path} must end in one of {', '.join(SUFFIXES)}; got {suffix!r}. Convert or rename it"
        )
    return suffix
