"""What each stage of the main road achieves, beside what this machine can do: microseconds a set, one and two threads.

    python benchmarks/roofline.py [read] [--quick] [--output results.json]

read   blocks of 1,024 sets (200 points in the plane) in the order of a store on the disk, which is in the system's
       cache, and in random order; attainable is file, crc32c and decompression of the same store's chunks, each once,
       into an array that is used again

All run in turns; times are medians of seconds on the clock, ratios medians of those within a turn: leave the machine
idle. Whoever adds a stage adds a function to STAGES, which gives its calls: what is achieved by name, and what is
attainable.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import google_crc32c
import numpy as np
from common import alternately, options, report_here, write
from numcodecs.blosc import decompress
from speed import write_store
from threadpoolctl import threadpool_limits

import dkdist as dk
from dkdist.execution.processes.process import keep_freed_memory

BLOCK = 1024


class Stage(NamedTuple):
    """Work on ``n_sets`` in parts that threads share: ``attainable`` and each of ``achieved`` do part i."""

    n_sets: int
    attainable: tuple[Callable[[Any], Any], Sequence[Any]]
    achieved: Mapping[str, tuple[Callable[[Any], Any], Sequence[Any]]]


@contextmanager
def read_stage(quick: bool) -> Iterator[Stage]:
    """Blocks of a store."""
    n_blocks = 8 if quick else 64
    with tempfile.TemporaryDirectory() as folder:
        write_store(f"{folder}/sets.zarr", n_blocks * BLOCK)
        sets = dk.open_sets(f"{folder}/sets.zarr")
        blocks = [sets[i * BLOCK : (i + 1) * BLOCK] for i in range(n_blocks)]
        shuffled = [blocks[i] for i in np.random.default_rng(0).permutation(n_blocks)]
        files = sorted(Path(folder, "sets.zarr/points/c").glob("*/0"), key=lambda file: int(file.parent.name))
        calls = {"in order": (read_block, blocks), "in random order": (read_block, shuffled)}
        yield Stage(len(sets), (read_files, np.array_split(files, 2)), calls)


def read_block(block: dk.SetStore) -> None:
    """What a task of the road does first."""
    block.points_alone()


def read_files(files: Sequence[Path]) -> None:
    """File, checksum and decompression, and nothing else."""
    stored = np.empty(2**21, np.uint8)
    content = np.empty(2**20, np.uint8)  # of a chunk
    for path in files:
        with open(path, "rb", buffering=0) as file:
            n = file.readinto(memoryview(stored)) - 4
        if google_crc32c.value(stored[:n]) != int.from_bytes(stored[n : n + 4].tobytes(), "little"):
            raise ValueError(f"{path} is damaged")
        decompress(stored[:n], content)


STAGES: dict[str, Callable[[bool], Any]] = {"read": read_stage}


def measure(name: str, quick: bool) -> list[dict[str, Any]]:
    """The rows of one stage."""
    rows = []
    with STAGES[name](quick) as stage:
        for threads in (1, 2):
            with ThreadPoolExecutor(threads) as pool:

                def run(work: Any, pool: ThreadPoolExecutor = pool) -> Callable[[], Any]:
                    return lambda: list(pool.map(*work))

                calls = [run(stage.attainable), *map(run, stage.achieved.values())]
                alternately(calls, 1)
                seconds, _ = alternately(calls, 3 if quick else 21)
            least, *found = np.median(seconds, axis=0) / stage.n_sets * 1e6
            ratios = np.median(seconds[:, :1] / seconds[:, 1:], axis=0)  # within a turn
            for what, achieved, ratio in zip(stage.achieved, found, ratios.tolist(), strict=True):
                row = {"stage": name, "what": what, "threads": threads}
                rows.append(row | {"achieved": achieved, "attainable": least, "ratio": ratio})
                print(f"{name:<10} {what:<18} {threads:>7} {achieved:>9.3f} {least:>11.3f} {ratio:>6.2f}")
    return rows


def main(argv: list[str] | None = None) -> dict[str, Any]:
    parser = options(__doc__)
    parser.add_argument("stages", nargs="*", choices=[*STAGES, []], help="what to measure (everything)")
    args = parser.parse_args(argv)
    figures = report_here()
    print(
        f"{'stage':<10} {'what':<18} {'threads':>7} {'achieved':>9} {'attainable':>11} {'ratio':>6}   us a set"
    )
    keep_freed_memory()  # as runs do
    with threadpool_limits(1):
        figures |= {"rows": [row for name in args.stages or STAGES for row in measure(name, args.quick)]}
    write(args.output, figures)
    return figures


if __name__ == "__main__":
    main()
