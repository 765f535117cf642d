"""``dkdist import``: write sources of one kind to a new store in parallel, or append them one after another."""

from __future__ import annotations

import glob
import logging
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import dkdist
from dkdist.cli.console import is_progress_shown, scheduler_session
from dkdist.cli.output import require_output_store
from dkdist.cli.text import escape_controls
from dkdist.io.readers.files import find_table_files
from dkdist.io.readers.kinds import DEFAULT_READERS, KINDS, SUFFIXES, kind_of, reader_of, sources_in
from dkdist.io.readers.sources import LOG

KINDS_BY_OPTION = {
    "set_id": ("--set-id", ("table", "annotated")),
    "obsm": ("--obsm", ("annotated",)),
    "layer": ("--layer", ("annotated",)),
    "points": ("--points", ("table", "cytometry", "lidar", "hdf5", "annotated")),
    "data_set": ("--data-set", ("cytometry",)),
    "compensate": ("--compensate", ("cytometry",)),
    "transform": ("--transform", ("cytometry",)),
    "cofactor": ("--cofactor", ("cytometry",)),
    "id_parts": ("--id-parts", ("cytometry", "lidar", "hdf5")),
    "sort": ("--sort", ("table",)),
    "text": ("--text", ("table",)),
    "missing_targets": ("--missing-targets", ("table",)),
    "missing_points": ("--missing-points", ("table",)),
    "delimiter": ("--delimiter", ("table",)),
    "decimal": ("--decimal", ("table",)),
    "encoding": ("--encoding", ("table",)),
    "values": ("--values", ("array",)),
    "offsets": ("--offsets", ("array",)),
    "weight": ("--weight", ("table", "array")),
    "targets": ("--target", ("table", "array", "annotated")),
}
KIND_LABELS = {
    "table": "a table",
    "array": "a file of arrays",
    "cytometry": "an FCS file",
    "lidar": "a LAS file",
    "hdf5": "an HDF5 file",
    "annotated": "an h5ad file",
}

PLURALS = {"table": "tables", "array": "arrays", "annotated": "h5ad files", "hdf5": "HDF5 files"}


def _kind_name(kind: str) -> str:
    return KIND_LABELS.get(kind, f"a {kind} file")


def run(args: Namespace) -> None:
    """Import the sources; a new store is visible once all of them are read."""
    sources = [path for source in args.source for path in _expand_source(source)]
    if not args.append and not args.overwrite and Path(args.store).exists():
        raise FileExistsError(
            f"STORE {args.store} already exists. Pass --overwrite, --append or another path"
        )
    reader = _build_reader(args, sources)
    require_output_store("STORE", args.store, append=args.append)
    with _print_import_log():
        (_append if args.append else _write)(args, sources, reader)


@contextmanager
def _print_import_log() -> Iterator[None]:
    """Print log lines about columns and dropped sets."""
    level, handler = LOG.level, _PrintHandler()
    LOG.addHandler(handler)
    LOG.setLevel(logging.INFO)
    try:
        yield
    finally:
        LOG.removeHandler(handler)
        LOG.setLevel(level)


class _PrintHandler(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        print(escape_controls(record.getMessage()))


def _write(args: Namespace, sources: Sequence[Path], reader: Any) -> None:
    with scheduler_session(args):
        sets = dkdist.import_sets(
            args.store,
            sources,
            reader,
            overwrite=args.overwrite,
            origin=_parse_origin(args),
            verbose=is_progress_shown(args),
        )
    _print_summary(args, len(sets), sets.n_points, sets.n_dims, sets.targets)


def _parse_origin(args: Namespace) -> list[float] | None:
    if args.origin is None:
        return None
    try:
        return [float(number) for number in args.origin.split(",")]
    except ValueError:
        raise ValueError(
            f"--origin must be numbers such as 500000,5400000,0; got {args.origin!r:.200}"
        ) from None


def _append(args: Namespace, sources: Sequence[Path], reader: Any) -> None:
    if args.scheduler or args.progress:
        raise ValueError(
            "--append reads one file after another in this process. Omit --scheduler and --progress"
        )
    if args.origin is not None:
        raise ValueError("--origin applies to new stores only. Omit it with --append")
    store = dkdist.open_sets(args.store)
    ids = None if args.set_id is None else store.ids
    stored_ids = set() if ids is None else set(ids.tolist())
    n_sets = n_points = 0
    with dkdist.SetWriter(args.store, store.n_dims, "a") as writer:
        for path in sources:
            for sets, targets, new_ids in _with_text_ids(reader, path, ids).read(path):
                repeated = (
                    next((i for i in new_ids.tolist() if i in stored_ids), None) if stored_ids else None
                )
                if repeated is not None:
                    raise ValueError(
                        f"ids must be unique in a store; set {repeated!r} of {path} is in the store already. Remove or "
                        "rename it, or pass --overwrite instead of --append"
                    )
                writer.append(sets, targets, new_ids)
                n_sets, n_points = n_sets + len(sets), n_points + sets.n_points
    _print_summary(args, n_sets, n_points, store.n_dims, store.targets)


def _with_text_ids(reader: Any, path: Path, ids: Any) -> Any:
    """Return the reader, with ids of CSV files read as text if the ids of the store are text."""
    if ids is None or ids.dtype.kind != "U" or not hasattr(reader, "text"):
        return reader
    if not find_table_files(path).is_csv:
        return reader
    return replace(reader, text=(*reader.text, reader.set_id))


def _print_summary(args: Namespace, n_sets: int, n_points: int, n_dims: int, targets: Any) -> None:
    print(
        f"{'appended' if args.append else 'wrote'} {n_sets:,} sets of {n_points:,} points in {n_dims} dimensions to "
        f"{args.store}; targets: {', '.join(targets) or 'none'}"
    )


def _expand_source(source: str) -> Iterator[Path]:
    """Yield a file, a folder of tables (one table), or the sorted files of another folder or a pattern."""
    path = Path(source)
    if path.is_file():
        yield path
        return
    paths = sources_in(path) if path.is_dir() else sorted(map(Path, glob.glob(source, recursive=True)))
    if not paths:
        if path.is_dir():
            raise FileNotFoundError(f"SOURCE {source} has no file that ends in one of {', '.join(SUFFIXES)}")
        raise FileNotFoundError(f"SOURCE {source} does not exist")
    yield from paths


def _build_reader(args: Namespace, sources: Sequence[Path]) -> Any:
    """Return one reader for all files, configured by the options."""
    kinds = [kind_of(path) for path in sources]
    for path, kind in zip(sources, kinds, strict=True):
        if not kind:
            raise ValueError(
                f"SOURCE must end in one of {', '.join(SUFFIXES)}; got {path}. Convert it, or rename it if it has one "
                "of these formats"
            )
        if kind != kinds[0]:
            raise ValueError(
                f"sources must be of one kind; {sources[0]} is {_kind_name(kinds[0])} and {path} is {_kind_name(kind)}"
            )
    _check_kind_options(args, kinds[0], sources[0])
    points = None if args.points is None else tuple(args.points.split(","))
    targets = None if args.targets is None else [name for names in args.targets for name in names.split(",")]
    if kinds[0] == "array":
        return dkdist.ArrayReader(args.values, args.offsets, args.weight, targets)
    if kinds[0] == "cytometry":
        scale = {} if args.cofactor is None else {"cofactor": args.cofactor}
        return dkdist.CytometryReader(
            points, args.data_set, args.id_parts or 1, "file" if args.compensate else "none",
            args.transform or "none", **scale,
        )  # fmt: skip
    if kinds[0] == "lidar":
        return DEFAULT_READERS["lidar"](points, args.id_parts or 1)
    if kinds[0] == "hdf5":
        return DEFAULT_READERS["hdf5"](points or "features", args.id_parts or 1)
    if kinds[0] == "annotated":
        from dkdist.io.readers.annotated_files import AnnotatedReader

        if args.set_id is None:
            raise ValueError(
                "an h5ad file requires --set-id COLUMN, the column of obs with the set of each cell"
            )
        return AnnotatedReader(args.set_id, args.obsm, args.layer, points, targets)
    if kinds[0] not in KINDS:
        return reader_of(kinds[0])
    if args.set_id is None:
        raise ValueError("a table requires --set-id COLUMN, the column with the set of each point")
    return dkdist.TableReader(
        args.set_id, points, args.weight, tuple(targets or ()), tuple(args.text), args.sort,
        args.missing_targets or "raise", args.missing_points or "raise", args.delimiter, args.decimal or ".",
        args.encoding or "utf-8",
    )  # fmt: skip


def _check_kind_options(args: Namespace, kind: str, path: Path) -> None:
    """Raise for options that do not apply to files of this kind."""
    for name, (option, kinds) in KINDS_BY_OPTION.items():
        if getattr(args, name) and kind not in kinds:
            valid = " and ".join(PLURALS.get(k, f"{k} files") for k in kinds)
            raise ValueError(f"{option} applies to {valid} only; {path} is {_kind_name(kind)}. Omit it")
