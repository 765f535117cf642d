"""``dkdist import``: one file goes into a store piece after piece, many files in parallel."""

from __future__ import annotations

import glob
import itertools
from argparse import Namespace
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import dkdist
from dkdist.cli.console import scheduler, wants_progress
from dkdist.store.importing.array_files import SUFFIXES as ARRAYS
from dkdist.store.importing.table_files import COMPRESSED
from dkdist.store.importing.table_files import SUFFIXES as TABLES

TABLE_OPTIONS = {"set_id": "--set-id", "points": "--points", "sort": "--sort", "text": "--text"}
ARRAY_OPTIONS = {"values": "--values", "offsets": "--offsets"}


def run(args: Namespace) -> None:
    """Write the store; nothing of it is visible before all sources were read."""
    sources = [path for source in args.source for path in _files(source)]
    if not args.append and not args.overwrite and Path(args.store).exists():
        raise FileExistsError(
            f"{args.store} is there already: give --overwrite or --append, or another place"
        )
    reader = _reader(args, sources)
    if (len(sources) > 1 and not args.append) or args.scheduler or args.progress:
        _in_parallel(args, sources, reader)
    else:
        _one_after_another(args, sources, reader)


def _in_parallel(args: Namespace, sources: Sequence[Path], reader: Any) -> None:
    if args.append:
        raise ValueError(
            "--append goes file after file in this process: leave out --scheduler and --progress"
        )
    with scheduler(args):
        sets = dkdist.import_sets(
            args.store, sources, reader, overwrite=args.overwrite, verbose=wants_progress(args)
        )
    _report(args, len(sets), sets.n_points, sets.n_dims, sets.targets)


def _one_after_another(args: Namespace, sources: Sequence[Path], reader: Any) -> None:
    known = _known_ids(args)
    batches = ((path, *batch) for path in sources for batch in reader.read(path))
    first = next(batches)
    n_dims, targets = first[1].n_dims, first[2]
    mode: Literal["w", "a"] = "a" if args.append else "w"
    with dkdist.SetWriter(args.store, n_dims, mode, overwrite=args.overwrite) as writer:
        n_sets = n_points = 0
        for path, sets, named, ids in itertools.chain([first], batches):
            if known:
                _refuse_known(path, ids, known)
            writer.append(sets, named, ids)
            n_sets, n_points = n_sets + len(sets), n_points + sets.n_points
    _report(args, n_sets, n_points, n_dims, targets)


def _report(args: Namespace, n_sets: int, n_points: int, n_dims: int, targets: Any) -> None:
    print(
        f"{'appended' if args.append else 'wrote'} {n_sets:,} sets of {n_points:,} points in {n_dims} dimensions to "
        f"{args.store}; targets: {', '.join(targets) or 'none'}"
    )


def _files(source: str) -> Iterator[Path]:
    """The files that a path, a directory or a pattern stands for, sorted by name."""
    path = Path(source)
    if path.is_file():
        yield path
        return
    if path.is_dir():
        found = sorted(p for p in path.iterdir() if p.is_file() and _suffix(p))
    else:
        found = sorted(map(Path, glob.glob(source, recursive=True)))
    if not found:
        kinds = f" that ends in one of {', '.join(TABLES + ARRAYS)}" if path.is_dir() else ""
        raise FileNotFoundError(f"there is no file {source}{kinds}")
    yield from found


def _suffix(path: Path) -> str:
    """The suffix that says what a file is, before that of a compression; '' if it is nothing that can be read."""
    suffixes = [s for s in path.suffixes if s not in COMPRESSED]
    return suffixes[-1] if suffixes and suffixes[-1] in TABLES + ARRAYS else ""


def _reader(args: Namespace, sources: Sequence[Path]) -> Any:
    """One reader for all files, with the names the user gave."""
    for path in sources:
        if not _suffix(path):
            raise ValueError(
                f"{path} ends in {path.suffix or 'nothing'!r}: expected one of {', '.join(TABLES + ARRAYS)}. "
                "Convert it, or rename it if it is one of these"
            )
    tables = [path for path in sources if _suffix(path) in TABLES]
    if not tables:
        _refuse(args, TABLE_OPTIONS, "tables", sources[0])
        return dkdist.ArrayReader(args.values, args.offsets, args.weight, args.targets)
    if len(tables) < len(sources):
        other = next(path for path in sources if path not in tables)
        raise ValueError(f"{tables[0]} is a table and {other} holds arrays: import one kind at a time")
    _refuse(args, ARRAY_OPTIONS, "arrays", tables[0])
    if args.set_id is None:
        raise ValueError(
            "a table needs --set-id COLUMN, the column that says which set each point belongs to"
        )
    points = None if args.points is None else tuple(args.points.split(","))
    return dkdist.TableReader(
        args.set_id, points, args.weight, tuple(args.targets or ()), tuple(args.text), args.sort
    )


def _refuse(args: Namespace, options: dict[str, str], kind: str, path: Path) -> None:
    given = [option for name, option in options.items() if getattr(args, name)]
    if given:
        raise ValueError(f"{', '.join(given)} is for {kind}, and {path} is none: leave it out")


def _known_ids(args: Namespace) -> set[Any]:
    """The ids of the sets that a table is appended to."""
    ids = dkdist.open_sets(args.store).ids if args.append and args.set_id is not None else None
    return set() if ids is None else set(ids.tolist())


def _refuse_known(path: Path, ids: Any, known: set[Any]) -> None:
    again = next((one for one in ids.tolist() if one in known), None)
    if again is not None:
        raise ValueError(f"set {again!r} of {path} is in the store already")
