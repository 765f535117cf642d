"""Time of each stage of a fit compared with the minimum on this machine: microseconds per set, 1 and 2 threads.

    python benchmarks/roofline.py [read] [embed] [powers] [features] [fused] [ridge] [pipeline] [distances] [others]
                                  [--quick] [--output results.json]

read      blocks of 2,048 sets (200 points in the plane) of a store in the page cache, in order and in random order;
          compared with file access, crc32c and decompression of the same chunks, once each, into a reused array
pipeline  from a store to SGD with a fitted embedding; every set is read and embedded in each of two epochs
          (`cache=False`); compared with the sum of the minima of reading, embed, powers and fused

The minimum ("attainable") of every other stage is the operation count of `roofline_stages.py` divided by the rates that
`machine_rates.py` measures in the same run. A ratio of 1 requires full SIMD vectors in all units at once, no other
operations (such as loads and stores) and no stalls.

For read, seconds are medians of wall time, and ratios are medians over rounds. For other stages, the minimum processor
time of several runs, divided by the number of threads, is compared with the best rates, so that other programs have
little effect. Run on an idle machine.
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
    """Functions and their arguments, one per part of ``n_sets`` sets; threads share the parts."""

    n_sets: int
    attainable: tuple[Callable[[Any], Any], Sequence[Any]]
    achieved: Mapping[str, tuple[Callable[[Any], Any], Sequence[Any]]]


@contextmanager
def read_stage(quick: bool) -> Iterator[Stage]:
    """Yield the stage that reads the blocks of a store."""
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
    """Read the points of blocks, as tasks of a fit do."""
    for block in blocks:
        block.points_alone()


def read_files(files: Sequence[Path]) -> None:
    """Read, check and decompress files."""
    stored = np.empty(2**21, np.uint8)
    content = np.empty(2**20, np.uint8)  # one chunk
    for path in files:
        with open(path, "rb", buffering=0) as file:
            n = file.readinto(memoryview(stored)) - 4
        if crc32c(stored[:n]) != int.from_bytes(stored[n : n + 4].tobytes(), "little"):
            raise ValueError(f"checksum of {path} does not match")
        decompress(stored[:n], content)


STAGES = ("read", *COMPUTED, "pipeline")
THREADS = (1, 2)
EPOCHS = 2

Rates = Mapping[str, float]


def row(
    stage: str, label: str, threads: int, achieved: float, attainable: float, ratio: float
) -> dict[str, Any]:
    """Print and return one row of the table; times are microseconds per set."""
    print(
        f"{stage:<10} {label:<22} {threads:>7} {achieved:>9.3f} {attainable:>11.3f} {ratio:>6.2f}", flush=True
    )
    figures = {"achieved": achieved, "attainable": attainable, "ratio": ratio}
    return {"stage": stage, "what": label, "threads": threads, **figures}


def measure_reading(quick: bool) -> Iterator[dict[str, Any]]:
    """Compare reading with file access, checksum and decompression."""
    with read_stage(quick) as stage:
        for threads in THREADS:
            with ThreadPoolExecutor(threads) as pool:

                def run(work: Any, pool: ThreadPoolExecutor = pool) -> Callable[[], Any]:
                    return lambda: list(pool.map(*work))

                calls = [run(stage.attainable), *map(run, stage.achieved.values())]
                time_interleaved(calls, 1)
                seconds, _ = time_interleaved(calls, 3 if quick else 21)
            floor, *stage_rates = np.median(seconds, axis=0) / stage.n_sets * 1e6
            ratios = np.median(seconds[:, :1] / seconds[:, 1:], axis=0)  # of one round
            for label, achieved, ratio in zip(stage.achieved, stage_rates, ratios.tolist(), strict=True):
                yield row("read", label, threads, achieved, floor, ratio)


def measure_computed(
    name: str, rates_by_threads: Mapping[int, Rates], quick: bool
) -> Iterator[dict[str, Any]]:
    """Compare a stage with the minimum time from its operation count."""
    for label, make in COMPUTED[name].items():
        stage = make(quick)
        for threads in THREADS:
            with ThreadPoolExecutor(threads) as pool:
                repeats = 3 if quick else 7 if name == "ridge" else 31
                stage_rates = [
                    processor_seconds(pool, threads, stage.run, stage.parts) for _ in range(1 + repeats)
                ]
            achieved = min(stage_rates[1:]) / stage.n_sets * 1e6  # the first compiles
            floor = stage.work.seconds(rates_by_threads[threads]) * 1e6
            yield row(name, label, threads, achieved, floor, floor / achieved)


def measure_pipeline(rates_by_threads: Mapping[int, Rates], quick: bool) -> Iterator[dict[str, Any]]:
    """Compare the pipeline with the sum of its stages; runs of one and two threads are interleaved."""
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
                achieved, read_us = stage_rates[:, k] / (EPOCHS * shared, shared)
                floor = read_us + fitted(JS).seconds(rates_by_threads[threads]) * 1e6
                yield row("pipeline", label, threads, achieved, floor, floor / achieved)
            if clock is time.perf_counter:
                speedup = float(np.median(seconds[:, 0] / seconds[:, 1]))
                print(f"pipeline       speedup of two threads: {speedup:.2f}", flush=True)


def main(argv: list[str] | None = None) -> dict[str, Any]:
    parser = options(__doc__)
    parser.add_argument("stages", nargs="*", choices=[*STAGES, []], help="what to measure (default: all)")
    args = parser.parse_args(argv)
    figures, rows, quick = start_report(), [], args.quick
    keep_freed_memory()  # as in fits
    with threadpool_limits(1):
        rates_by_threads = {threads: rates(threads, 2 if quick else 15) for threads in THREADS}
        for threads, stage_rates in rates_by_threads.items():
            text = ", ".join(f"{name} {rate / 1e9:.2f}" for name, rate in stage_rates.items())
            print(f"1e9 per second on {threads} thread{'s' if threads > 1 else ''}: {text}")
        print(
            f"{'stage':<10} {'what':<22} {'threads':>7} {'achieved':>9} {'attainable':>11} {'ratio':>6}   us per set"
        )
        for name in args.stages or STAGES:
            if name == "read":
                rows += measure_reading(quick)
            elif name == "pipeline":
                rows += measure_pipeline(rates_by_threads, quick)
            else:
                rows += measure_computed(name, rates_by_threads, quick)
    figures |= {"rates": rates_by_threads, "rows": rows}
    write(args.output, figures)
    return figures


if __name__ == "__main__":
    main()
