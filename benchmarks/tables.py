"""A folder of Parquet files becomes a store: time and memory, beside reading the same columns with pyarrow.

    python benchmarks/tables.py [table] [frame] [computed] [shuffled] [--rows 5000000] [--sets 100000] [--quick]
                                [--folder DIR] [--output tables.json]

One point a row: an id, a target, two coordinates; 16 files. ``grouped``: the rows of a set stand together, sets cross
the borders of files, which are imported as a table and as a Dask DataFrame of partitions that hold a file each;
``shuffled``: rows in any order. Reading, by a scan of pyarrow that keeps nothing, and importing take turns, each in a
process of its own that has done the same with a small table before: times are medians, and ``speed`` is the median over
the turns of the time of reading divided by that of importing. ``cpu_speed`` compares the time of processors, which
others on the machine hardly change; memory is what the process grew by. A frame that is computed (here by a function
that does nothing) shows what one costs that does more than to read files; it is also compared with its partitions
alone, computed one after another and forgotten.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet
from common import options, peak, seconds_of, start_report, write

import dkdist as dk

FILES = 16
TURNS = 5
READER = dk.TableReader("id", ["x", "y"], targets=["age"])


def make(folder: Path, rows: int, sets: int, shuffled: bool) -> None:
    """Write the table; the mean of x of a set is its target."""
    rng = np.random.default_rng(0)
    of = np.sort(rng.integers(0, sets, rows))
    of = rng.permutation(of) if shuffled else of
    folder.mkdir()
    for k, part in enumerate(np.array_split(of, FILES)):
        age = part % 80
        columns = {"x": age + rng.standard_normal(len(part)), "y": rng.standard_normal(len(part))}
        ids = pa.array([f"donor {i:07d}" for i in range(sets)]).take(pa.array(part))
        pyarrow.parquet.write_table(
            pa.table({"id": ids, "age": age, **columns}), folder / f"part-{k:02d}.parquet"
        )


def read(folder: Path, _: Path) -> None:
    for _batch in pyarrow.dataset.dataset(folder).scanner().to_batches():
        pass


def read_frame(folder: Path, _: Path) -> None:
    import dask.dataframe as dd

    frame = dd.read_parquet(folder)
    for i in range(frame.npartitions):
        frame.partitions[i].compute()


def imported(folder: Path, store: Path) -> None:
    dk.import_sets(store, folder, READER)


def imported_frame(folder: Path, store: Path) -> None:
    import dask.dataframe as dd

    frame = dd.read_parquet(folder)
    dk.import_frame(store, frame, READER.set_id, READER.points, READER.targets)


def imported_computed(folder: Path, store: Path) -> None:
    import dask.dataframe as dd

    frame = dd.read_parquet(folder).map_partitions(lambda rows: rows)
    dk.import_frame(store, frame, READER.set_id, READER.points, READER.targets)


IMPORTS = {"table": imported, "Dask DataFrame": imported_frame, "computed frame": imported_computed}
PARTS = {"table": "table", "frame": "Dask DataFrame", "computed": "computed frame", "shuffled": "table"}

Work = Callable[[Path, Path], None]


def timed(work: Work, folder: Path, prepared: Path) -> tuple[float, float, float]:
    """Seconds of a run, of processors, and the most memory of this process so far, in MB."""
    cpu = time.process_time()
    seconds = seconds_of(lambda: work(folder, prepared))
    return seconds, time.process_time() - cpu, peak()


def in_turns(
    works: dict[str, Work], small: Path, large: Path, prepared: Path, n_turns: int
) -> dict[str, Any]:
    """For each work (turns, 3): what `timed` says of it, the memory beyond that of a small table."""
    prepared.mkdir()
    with ExitStack() as stack:
        pools = {name: stack.enter_context(ProcessPoolExecutor(1, get_context("spawn"))) for name in works}

        def run(name: str, folder: Path, turn: str) -> tuple[float, float, float]:
            return pools[name].submit(timed, works[name], folder, prepared / f"{name} {turn}.zarr").result()

        before = {name: run(name, small, "small") for name in works}
        results = [{name: run(name, large, str(turn)) for name in works} for turn in range(n_turns)]
    return {name: np.array([turn[name] for turn in results]) - [0, 0, before[name][2]] for name in works}


def compared(
    folder: Path, rows: int, sets: int, imports: list[str], shuffled: bool, n_turns: int
) -> dict[str, Any]:
    small, large = folder / "small", folder / "large"
    make(small, 10_000, 100, shuffled)
    make(large, rows, sets, shuffled)
    results: dict[str, Any] = {}
    for name in imports:
        works: dict[str, Work] = {"read": read, "import": IMPORTS[name]}
        if name == "computed frame":
            works["partitions"] = read_frame
        turns = in_turns(works, small, large, folder / name, n_turns)
        seconds, cpu, _ = np.median(turns["import"], axis=0)
        its = results[name] = {"seconds": seconds, "cpu": cpu, "peak_mb": turns["import"][:, 2].max()}
        its["speed"], its["cpu_speed"] = np.median(turns["read"] / turns["import"], axis=0)[:2]
        if "partitions" in works:
            its["speed_of_partitions"] = np.median(turns["partitions"] / turns["import"], axis=0)[0]
        reading = np.median(turns["read"], axis=0)
        results.setdefault("read", {"seconds": reading[0], "cpu": reading[1]})
    stored = dk.open_sets(folder / imports[0] / "import 0.zarr")
    first = stored[:1000].load()
    means = np.add.reduceat(first.points[:, 0], first.offsets[:-1]) / first.sizes
    errors = (means - stored.targets["age"][:1000]) * np.sqrt(first.sizes)  # standard normal
    results |= {"rows": stored.n_points, "sets": len(stored), "spread": float(errors.std())}
    return results


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help="what to import (everything)")
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--sets", type=int, default=100_000)
    parser.add_argument("--folder", type=Path, help="where files go; they are removed at the end")
    args = parser.parse_args()
    n_turns = 1 if args.quick else TURNS
    if args.quick:
        args.rows, args.sets = 20_000, 500
    report = start_report()
    parts = args.parts or list(PARTS)
    grouped = [PARTS[part] for part in parts if part != "shuffled"]
    for name, imports in (("grouped", grouped), ("shuffled", ["table"] if "shuffled" in parts else [])):
        if not imports:
            continue
        with tempfile.TemporaryDirectory(dir=args.folder) as folder:
            sizes = args.rows, args.sets
            report[name] = row = compared(Path(folder), *sizes, imports, name == "shuffled", n_turns)
        print(
            f"{name}: {row['rows']:,} rows of {row['sets']:,} sets, read in {row['read']['seconds']:.2f} s "
            f"({row['read']['cpu']:.2f} s of processors)"
        )
        for kind in [kind for kind in IMPORTS if kind in row]:
            its = row[kind]
            print(
                f"  {kind:<15}{its['seconds']:6.2f} s, {its['peak_mb']:.0f} MB; {its['speed']:.0%} of the speed "
                f"({its['cpu_speed']:.0%} by the time of processors, {its['cpu']:.2f} s)"
            )
            if "speed_of_partitions" in its:
                print(f"  {'':<15}{its['speed_of_partitions']:.0%} of that of its partitions alone")
    write(args.output, report)


if __name__ == "__main__":
    main()
