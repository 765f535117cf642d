"""Blocks in memory before a slow step: `dk.fold` and `dk.IncrementalWrapper`, compared with dask-ml's `Incremental`.

    python benchmarks/bounded_fold.py [--blocks 1000] [--megabytes 20] [--step-ms 40] [--window 8] [--output FILE]

Two worker processes compute blocks of random numbers faster than the step (a ``partial_fit`` that waits) uses them.
"alive" is the largest number of blocks that exist at a time in both processes, counted by weak references. "held" is
the largest size of all results on the cluster, in blocks, including those that Dask has spilled to disk. "peak" is the
largest resident memory of a worker (limit: 3 GiB). dask-ml is not a dependency: ``pip install dask-ml``.
"""

from __future__ import annotations

import os
import tempfile
import time
import weakref
from functools import partial
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
from common import options, seconds_of, start_report, write
from distributed import Client, LocalCluster, SchedulerPlugin
from sklearn.base import BaseEstimator

import dkdist as dk

N_COLUMNS = 1000


class SlowEstimator(BaseEstimator):
    """Estimator whose ``partial_fit`` takes a fixed time."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.seconds = seconds

    def partial_fit(self, X: Any, y: Any = None) -> SlowEstimator:
        time.sleep(self.seconds)
        self.n_rows_ = getattr(self, "n_rows_", 0) + len(X)
        return self

    fit = partial_fit

    def score(self, X: Any, y: Any = None) -> float:
        return 0.0


class HeldResults(SchedulerPlugin):
    """Largest number of bytes of all results on the cluster."""

    def __init__(self, scheduler: Any) -> None:
        self.scheduler, self.sizes, self.maximum = scheduler, dict[Any, int](), 0

    def transition(self, key: Any, start: str, finish: str, *args: Any, **kwargs: Any) -> None:
        if finish == "memory":
            self.sizes[key] = self.scheduler.tasks[key].nbytes
            self.maximum = max(self.maximum, sum(self.sizes.values()))
        elif start == "memory":
            self.sizes.pop(key, None)


def log(path: str, change: str) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(handle, f"{time.monotonic_ns()} {change}\n".encode())
    os.close(handle)


def make_block(numbers: Any, path: str, n_rows: int) -> Any:
    log(path, "+1")  # a block is alive while it is computed
    block = np.random.default_rng(int(numbers[0])).random((n_rows, N_COLUMNS), dtype=np.float32)
    weakref.finalize(block, log, path, "-1")
    return block


def lazy_blocks(path: str, n_blocks: int, n_rows: int) -> Any:
    work = partial(make_block, path=path, n_rows=n_rows)
    chunks = ((n_rows,) * n_blocks, (N_COLUMNS,))
    meta = np.empty((0, 0), np.float32)
    return da.arange(n_blocks, chunks=1).map_blocks(
        work, chunks=chunks, new_axis=1, dtype=np.float32, meta=meta
    )


def max_alive(path: str) -> int:
    changes = sorted(tuple(map(int, line.split())) for line in Path(path).read_text().splitlines())
    return int(np.cumsum([change for _, change in changes]).max())


def peak_bytes() -> int:
    return 1024 * int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0])


def by_fold(X: Any, seconds: float, window: int) -> int:
    return int(dk.fold(X, SlowEstimator.partial_fit, SlowEstimator(seconds), window=window).n_rows_)


def by_wrapper(X: Any, seconds: float, window: int) -> int:
    return int(dk.IncrementalWrapper(SlowEstimator(seconds)).fit(X).estimator_.n_rows_)


def by_dask_ml(X: Any, seconds: float, window: int) -> int:
    from dask_ml.wrappers import Incremental

    y = da.zeros(len(X), chunks=X.chunks[0])
    return int(Incremental(SlowEstimator(seconds)).fit(X, y).estimator_.n_rows_)


METHODS = {"dk.fold": by_fold, "dk.IncrementalWrapper": by_wrapper, "dask-ml Incremental": by_dask_ml}


def measure(name: str, n_blocks: int, n_rows: int, seconds: float, window: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "alive")
        X = lazy_blocks(path, n_blocks, n_rows)
        cluster = LocalCluster(
            n_workers=2, threads_per_worker=1, memory_limit="3GiB", dashboard_address="127.0.0.1:0",
            silence_logs="CRITICAL", local_directory=folder,
        )  # fmt: skip
        with cluster, Client(cluster) as client:
            held = HeldResults(cluster.scheduler)
            cluster.scheduler.add_plugin(held)
            n_rows_seen = []
            try:
                elapsed = seconds_of(lambda: n_rows_seen.append(METHODS[name](X, seconds, window)))
            except Exception as error:  # dask-ml may not support the installed dask
                return {"method": name, "error": f"{type(error).__name__}: {error}"}
            assert n_rows_seen == [n_blocks * n_rows]
            peak = max(client.run(peak_bytes).values())
        block_bytes = 4 * n_rows * N_COLUMNS
        return {
            "method": name,
            "seconds": elapsed,
            "alive": max_alive(path),
            "held": held.maximum / block_bytes,
            "peak_bytes": peak,
        }


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--blocks", type=int, default=1000)
    parser.add_argument("--megabytes", type=float, default=20)
    parser.add_argument("--step-ms", type=float, default=40)
    parser.add_argument("--window", type=int, default=8)
    args = parser.parse_args()
    n_blocks, megabytes = (40, 1.0) if args.quick else (args.blocks, args.megabytes)
    report = start_report()
    report |= {"blocks": n_blocks, "megabytes": megabytes, "step_ms": args.step_ms, "window": args.window}
    print(f"{n_blocks} blocks of {megabytes:g} MB, {args.step_ms:g} ms per step, window {args.window}")
    print(f"{'method':<22} {'seconds':>8} {'alive':>6} {'held':>6} {'peak':>9}")
    rows = []
    for name in METHODS:
        row = measure(name, n_blocks, round(megabytes * 1e6 / 4 / N_COLUMNS), args.step_ms / 1e3, args.window)
        rows.append(row)
        if "error" in row:
            print(f"{name:<22} did not run: {row['error']:.160}")
        else:
            print(
                f"{name:<22} {row['seconds']:8.1f} {row['alive']:6d} {row['held']:6.1f} "
                f"{row['peak_bytes'] / 1e6:6.0f} MB",
                flush=True,
            )
    write(args.output, report | {"rows": rows})


if __name__ == "__main__":
    main()
