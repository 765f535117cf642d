"""Time of each stage of a fit, compared with the limits of this machine: microseconds per set, one and two threads.

    python benchmarks/roofline.py [read] [embed] [powers] [features] [fused] [ridge] [pipeline] [distances] [others]
                                  [--quick] [--output results.json]

read     blocks of 2,048 sets (200 points in the plane) in the order of a store on the disk, which is in the system's
         cache, and in random order; attainable is file, crc32c and decompression of the same store's chunks, each once,
         into an array that is used again
pipeline from a store to SGD, each set read and embedded in each of two epochs (`cache=False`), where the embedding is
         fitted already; attainable is that of reading, embed, powers and fused together

Of all others what is attainable is counted: `roofline_stages.py` says by which formulas, `machine_rates.py` measures in
the same run how fast this machine does one thing at a time. A ratio of 1 would need every vector full, no operation but
those of the formulas, and nothing waited for.

Of reading, times are medians of seconds on the clock, and ratios medians of those within a turn. Of all else the least
time of several runs stands beside the best rates, by the time that processors spend, shared evenly among the threads:
what else runs on the machine counts little. Leave it idle all the same.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import dask
import numpy as np
from common import options, start_report, time_interleaved, write
from crc32c import crc32c
from machine_rates import processor_seconds, rates
from numcodecs.blosc import decompress
from roofline_stages import COMPUTED, JS, fitted
from speed import write_store
from threadpoolctl import threadpool_limits

import dkdist as dk
from dkdist._runtime.blocks import max_block_sets
from dkdist._runtime.process import keep_freed_memory

BLOCK = 1024


class Stage(NamedTuple):
    """Work on ``n_sets`` in parts that threads share: ``attainable`` and each of ``achieved`` do part i."""

    n_sets: int
    attainable: tuple[Callable[[Any], Any], Sequence[Any]]
    achieved: Mapping[str, tuple[Callable[[Any], Any], Sequence[Any]]]


@contextmanager
def read_stage(quick: bool) -> Iterator[Stage]:
    """Blocks of a store."""
    n_sets = (8 if quick else 64) * BLOCK
    with tempfile.TemporaryDirectory() as folder:
        write_store(f"{folder}/sets.zarr", n_sets)
        sets = dk.open_sets(f"{folder}/sets.zarr")
        size = max_block_sets(n_sets)
        blocks = [sets[start : start + size] for start in range(0, n_sets, size)]
        shuffled = [blocks[i] for i in np.random.default_rng(0).permutation(len(blocks))]
        files = sorted(Path(folder, "sets.zarr/points/c").glob("*/0"), key=lambda file: int(file.parent.name))
        halves = slice(None, len(blocks) // 2), slice(len(blocks) // 2, None)
        calls = {
            label: (read_blocks, [samples[half] for half in halves])
            for label, samples in (("in order", blocks), ("in random order", shuffled))
        }
        yield Stage(len(sets), (read_files, np.array_split(files, 2)), calls)


def read_blocks(blocks: Sequence[dk.SetStore]) -> None:
    """Read and embed blocks, as tasks of a fit do."""
    for block in blocks:
        block.points_alone()


def read_files(files: Sequence[Path]) -> None:
    """File, checksum and decompression, and nothing else."""
    stored = np.empty(2**21, np.uint8)
    content = np.empty(2**20, np.uint8)  # of a chunk
    for path in files:
        with open(path, "rb", buffering=0) as file:
            n = file.readinto(memoryview(stored)) - 4
        if crc32c(stored[:n]) != int.from_bytes(stored[n : n + 4].tobytes(), "little"):
            raise ValueError(f"{path} is damaged")
        decompress(stored[:n], content)


STAGES = ("read", *COMPUTED, "pipeline")
THREADS = (1, 2)
EPOCHS = 2

Rates = Mapping[str, float]


def row(
    stage: str, label: str, threads: int, achieved: float, attainable: float, ratio: float
) -> dict[str, Any]:
    """One line of the table, printed; microseconds a set."""
    print(
        f"{stage:<10} {label:<22} {threads:>7} {achieved:>9.3f} {attainable:>11.3f} {ratio:>6.2f}", flush=True
    )
    figures = {"achieved": achieved, "attainable": attainable, "ratio": ratio}
    return {"stage": stage, "what": label, "threads": threads, **figures}


def measure_reading(quick: bool) -> Iterator[dict[str, Any]]:
    """Reading, beside what it consists of."""
    with read_stage(quick) as stage:
        for threads in THREADS:
            with ThreadPoolExecutor(threads) as pool:

                def run(work: Any, pool: ThreadPoolExecutor = pool) -> Callable[[], Any]:
                    return lambda: list(pool.map(*work))

                calls = [run(stage.attainable), *map(run, stage.achieved.values())]
                time_interleaved(calls, 1)
                seconds, _ = time_interleaved(calls, 3 if quick else 21)
            floor, *stage_rates = np.median(seconds, axis=0) / stage.n_sets * 1e6
            ratios = np.median(seconds[:, :1] / seconds[:, 1:], axis=0)  # within a turn
            for label, achieved, ratio in zip(stage.achieved, stage_rates, ratios.tolist(), strict=True):
                yield row("read", label, threads, achieved, floor, ratio)


def measure_computed(name: str, known: Mapping[int, Rates], quick: bool) -> Iterator[dict[str, Any]]:
    """Stages whose least time is counted."""
    for label, make in COMPUTED[name].items():
        stage = make(quick)
        for threads in THREADS:
            with ThreadPoolExecutor(threads) as pool:
                repeats = 3 if quick else 7 if name == "ridge" else 31
                stage_rates = [
                    processor_seconds(pool, threads, stage.run, stage.parts) for _ in range(1 + repeats)
                ]
            achieved = min(stage_rates[1:]) / stage.n_sets * 1e6  # the first compiles
            floor = stage.work.seconds(known[threads]) * 1e6
            yield row(name, label, threads, achieved, floor, floor / achieved)


def measure_pipeline(known: Mapping[int, Rates], quick: bool) -> Iterator[dict[str, Any]]:
    """The whole of it, and the least time of all its stages; one thread and two take turns."""
    n_sets = (2 if quick else 64) * BLOCK
    with tempfile.TemporaryDirectory() as folder:
        y = write_store(f"{folder}/sets.zarr", n_sets)
        sets = dk.open_sets(f"{folder}/sets.zarr")
        files = sorted(Path(folder, "sets.zarr/points/c").glob("*/0"))
        embedding = dk.DivergenceEmbedding(JS, n_basis=10, bandwidth="scott").fit(sets)
        Z = dk.RandomFourierFeatures(random_state=0).fit_transform(embedding.transform(sets))

        def fit(threads: int) -> None:
            with dask.config.set(num_workers=threads):
                sgd = dk.IncrementalSGDClassifier(eta0=4.0, n_epochs=EPOCHS, cache=False, random_state=0)
                sgd.fit(Z, y)

        def read(threads: int) -> None:
            with ThreadPoolExecutor(threads) as pool:
                list(pool.map(read_files, np.array_split(files, 2)))

        calls = [partial(work, threads) for work in (fit, read) for threads in THREADS]
        time_interleaved(calls, 1)
        for label, clock in (("by the clock", time.perf_counter), ("by processors", time.process_time)):
            seconds, _ = time_interleaved(calls, 1 if quick else 9, clock)
            stage_rates = seconds.min(axis=0).reshape(2, -1) / n_sets * 1e6
            for k, threads in enumerate(THREADS):
                shared = 1 if clock is time.perf_counter else threads
                achieved, read_alone = stage_rates[:, k] / (EPOCHS * shared, shared)
                floor = read_alone + fitted(JS).seconds(known[threads]) * 1e6
                yield row("pipeline", label, threads, achieved, floor, floor / achieved)
            if clock is time.perf_counter:
                gained = float(np.median(seconds[:, 0] / seconds[:, 1]))
                print(f"pipeline       two threads of one: {gained:.2f}", flush=True)


def main(argv: list[str] | None = None) -> dict[str, Any]:
    parser = options(__doc__)
    parser.add_argument("stages", nargs="*", choices=[*STAGES, []], help="what to measure (everything)")
    args = parser.parse_args(argv)
    figures, rows, quick = start_report(), [], args.quick
    keep_freed_memory()  # as runs do
    with threadpool_limits(1):
        known = {threads: rates(threads, 2 if quick else 15) for threads in THREADS}
        for threads, stage_rates in known.items():
            text = ", ".join(f"{name} {rate / 1e9:.2f}" for name, rate in stage_rates.items())
            print(f"1e9 a second on {threads} thread{'s' if threads > 1 else ''}: {text}")
        print(
            f"{'stage':<10} {'what':<22} {'threads':>7} {'achieved':>9} {'attainable':>11} {'ratio':>6}   us a set"
        )
        for name in args.stages or STAGES:
            if name == "read":
                rows += measure_reading(quick)
            elif name == "pipeline":
                rows += measure_pipeline(known, quick)
            else:
                rows += measure_computed(name, known, quick)
    figures |= {"rates": known, "rows": rows}
    write(args.output, figures)
    return figures


if __name__ == "__main__":
    main()
