"""``dkdist import``: batches of whole sets, from whichever file, go into a store one after another."""

from __future__ import annotations

import itertools
from argparse import Namespace
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

import dkdist
from dkdist.cli.arrays import ArrayNames, array_batches
from dkdist.cli.batches import Batch

TABLES = (".csv", ".tsv", ".parquet", ".pq")
ARRAYS = (".npz", ".npy")
TABLE_OPTIONS = {"set_id": "--set-id", "points": "--points", "sort": "--sort", "text": "--text"}
ARRAY_OPTIONS = {"values": "--values", "offsets": "--offsets"}


def run(args: Namespace) -> None:
    """Write the store; nothing of it is visible before the whole source was read."""
    batches = _batches(args, Path(args.source))
    first = next(batches)
    mode: Literal["w", "a"] = "a" if args.append else "w"
    with dkdist.SetWriter(args.store, first.sets.n_dims, mode, overwrite=args.overwrite) as writer:
        n_sets = n_points = 0
        for batch in itertools.chain([first], batches):
            writer.append(batch.sets, batch.targets, batch.ids)
            n_sets, n_points = n_sets + len(batch.sets), n_points + batch.sets.n_points
    named = ", ".join(first.targets) or "none"
    print(
        f"{'appended' if args.append else 'wrote'} {n_sets:,} sets of {n_points:,} points in "
        f"{first.sets.n_dims} dimensions to {args.store}; targets: {named}"
    )


def _batches(args: Namespace, source: Path) -> Iterator[Batch]:
    if not source.is_file():
        raise FileNotFoundError(f"there is no file {source}")
    if not args.append and not args.overwrite and Path(args.store).exists():
        raise FileExistsError(
            f"{args.store} is there already: give --overwrite or --append, or another place"
        )
    suffixes = [s for s in source.suffixes if s not in (".gz", ".bz2")]
    suffix = suffixes[-1] if suffixes else ""
    if suffix in ARRAYS:
        _refuse(args, TABLE_OPTIONS, "tables")
        return array_batches(source, ArrayNames(args.values, args.offsets, args.weight, args.targets))
    if suffix not in TABLES:
        raise ValueError(
            f"{source} ends in {suffix or 'nothing'!r}: expected one of {', '.join(TABLES + ARRAYS)}. "
            "Convert it, or rename it if it is one of these"
        )
    _refuse(args, ARRAY_OPTIONS, "arrays")
    return _table_batches(args, source, suffix)


def _table_batches(args: Namespace, source: Path, suffix: str) -> Iterator[Batch]:
    if args.set_id is None:
        raise ValueError(
            "a table needs --set-id COLUMN, the column that says which set each point belongs to"
        )
    if find_spec("pyarrow") is None:
        raise ImportError("reading tables needs pyarrow: pip install 'dkdist[frames]'")
    from dkdist.cli.tables import Columns, table_batches

    columns = Columns(
        args.set_id,
        None if args.points is None else tuple(args.points.split(",")),
        args.weight,
        tuple(args.targets or ()),
        tuple(args.text),
    )
    known = dkdist.open_sets(args.store).ids if args.append else None
    return table_batches(
        source, suffix, columns, sort=args.sort, taken=() if known is None else known.tolist()
    )


def _refuse(args: Namespace, options: dict[str, str], kind: str) -> None:
    given = [option for name, option in options.items() if getattr(args, name)]
    if given:
        raise ValueError(f"{', '.join(given)} is for {kind}, and {args.source} is none: leave it out")
