"""Time and memory of importing a folder of Parquet files, compared with reading the same columns by pyarrow.

    python benchmarks/tables.py [table] [frame] [computed] [shuffled] [--rows 5000000] [--sets 100000] [--quick]
                                [--folder DIR] [--output tables.json]

A row is one point: an id, a target, two coordinates. There are 16 files.

table, frame  rows of a set are adjacent and may continue in the next file ("grouped"); imported as a table, and as a
              Dask DataFrame with one partition per file
computed      the same Dask DataFrame after `map_partitions` with an identity function, also compared with computing and
              discarding its partitions in sequence
shuffled      rows in random order, imported as a table

The reference is a scan by pyarrow that discards the data. Scans and imports are interleaved, each in a separate process
that has first processed a small table. Seconds are medians. ``speed`` is the median over rounds of scan time / import
time; ``cpu_speed`` is the same ratio of processor times, on which other programs have little effect. Memory is the
growth of the process in MB.
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
N_ROUNDS = 5
READER = dk.TableReader("id", ["x", "y"], targets=["age"])


def write_table(folder: Path, rows: int, sets: int, shuffled: bool) -> None:
    """Write the table; the mean of x of a set is its target."""
    rng = np.random.default_rng(0)
    set_numbers = np.sort(rng.integers(0, sets, rows))
    set_numbers = rng.permutation(set_numbers) if shuffled else set_numbers
    folder.mkdir()
    for k, part in enumerate(np.array_split(set_numbers, FILES)):
        age = part % 80
        columns = {"x": age + rng.standard_normal(len(part)), "y": rng.standard_normal(len(part))}
        ids = pa.array([f"donor {i:07d}" for i in range(sets)]).take(pa.array(part))
        pyarrow.parquet.write_table(
            pa.table({"id": ids, "age": age, **columns}), folder / f"part-{k:02d}.parquet"
        )


def scan(folder: Path, _: Path) -> None:
    for _batch in pyarrow.dataset.dataset(folder).scanner().to_batches():
        pass


def compute_partitions(folder: Path, _: Path) -> None:
    import dask.dataframe as dd

    frame = dd.read_parquet(folder)
    for i in range(frame.npartitions):
        frame.partitions[i].compute()


def import_table(folder: Path, store: Path) -> None:
    dk.import_sets(store, folder, READER)


def import_dask_frame(folder: Path, store: Path) -> None:
    import dask.dataframe as dd

    frame = dd.read_parquet(folder)
    dk.import_frame(store, frame, READER.set_id, READER.points, READER.targets)


def import_computed_frame(folder: Path, store: Path) -> None:
    import dask.dataframe as dd

    frame = dd.read_parquet(folder).map_partitions(lambda rows: rows)
    dk.import_frame(store, frame, READER.set_id, READER.points, READER.targets)


IMPORTS = {
    "table": import_table,
    "Dask DataFrame": import_dask_frame,
    "computed frame": import_computed_frame,
}
PARTS = {"table": "table", "frame": "Dask DataFrame", "computed": "computed frame", "shuffled": "table"}

Work = Callable[[Path, Path], None]


def measure(work: Work, folder: Path, store_folder: Path) -> tuple[float, float, float]:
    """Return wall seconds, processor seconds, and the peak memory of this process in MB."""
    cpu = time.process_time()
    seconds = seconds_of(lambda: work(folder, store_folder))
    return seconds, time.process_time() - cpu, peak()


def measure_interleaved(
    works: dict[str, Work], small: Path, large: Path, store_folder: Path, n_rounds: int
) -> dict[str, Any]:
    """Return results (rounds, 3) of `measure` for each function; memory is relative to a small table."""
    store_folder.mkdir()
    with ExitStack() as stack:
        pools = {name: stack.enter_context(ProcessPoolExecutor(1, get_context("spawn"))) for name in works}

        def run(name: str, folder: Path, label: str) -> tuple[float, float, float]:
            return (
                pools[name]
                .submit(measure, works[name], folder, store_folder / f"{name} {label}.zarr")
                .result()
            )

        small_results = {name: run(name, small, "small") for name in works}
        results = [{name: run(name, large, str(i)) for name in works} for i in range(n_rounds)]
    return {name: np.array([row[name] for row in results]) - [0, 0, small_results[name][2]] for name in works}


def compare(
    folder: Path, rows: int, sets: int, imports: list[str], shuffled: bool, n_rounds: int
) -> dict[str, Any]:
    small, large = folder / "small", folder / "large"
    write_table(small, 10_000, 100, shuffled)
    write_table(large, rows, sets, shuffled)
    results: dict[str, Any] = {}
    for name in imports:
        works: dict[str, Work] = {"read": scan, "import": IMPORTS[name]}
        if name == "computed frame":
            works["partitions"] = compute_partitions
        rounds = measure_interleaved(works, small, large, folder / name, n_rounds)
        seconds, cpu, _ = np.median(rounds["import"], axis=0)
        figures = results[name] = {"seconds": seconds, "cpu": cpu, "peak_mb": rounds["import"][:, 2].max()}
        figures["speed"], figures["cpu_speed"] = np.median(rounds["read"] / rounds["import"], axis=0)[:2]
        if "partitions" in works:
            figures["speed_of_partitions"] = np.median(rounds["partitions"] / rounds["import"], axis=0)[0]
        read_times = np.median(rounds["read"], axis=0)
        results.setdefault("read", {"seconds": read_times[0], "cpu": read_times[1]})
    stored = dk.open_sets(folder / imports[0] / "import 0.zarr")
    first = stored[:1000].load()
    means = np.add.reduceat(first.points[:, 0], first.offsets[:-1]) / first.sizes
    errors = (means - stored.targets["age"][:1000]) * np.sqrt(first.sizes)  # standard normal
    results |= {"rows": stored.n_points, "sets": len(stored), "spread": float(errors.std())}
    return results


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help="what to import (default: all)")
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--sets", type=int, default=100_000)
    parser.add_argument("--folder", type=Path, help="folder of temporary files, which are removed at the end")
    args = parser.parse_args()
    n_rounds = 1 if args.quick else N_ROUNDS
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
            report[name] = row = compare(Path(folder), *sizes, imports, name == "shuffled", n_rounds)
        print(
            f"{name}: {row['rows']:,} rows of {row['sets']:,} sets, read in {row['read']['seconds']:.2f} s "
            f"({row['read']['cpu']:.2f} processor seconds)"
        )
        for kind in [kind for kind in IMPORTS if kind in row]:
            figures = row[kind]
            print(
                f"  {kind:<15}{figures['seconds']:6.2f} s, {figures['peak_mb']:.0f} MB; {figures['speed']:.0%} of the "
                f"reading speed ({figures['cpu_speed']:.0%} by processor time, {figures['cpu']:.2f} s)"
            )
            if "speed_of_partitions" in figures:
                print(
                    f"  {'':<15}{figures['speed_of_partitions']:.0%} of the speed of computing its partitions"
                )
    write(args.output, report)


if __name__ == "__main__":
    main()
