"""Helpers of the benchmarks: options, reports, clocks, data and worker processes."""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from distributed import Client, LocalCluster

import dkdist as dk
from dkdist._utils.memory_budget import memory_limit

MAX_COMPONENTS = 10


def options(text: str | None, quick: str = "small sizes, to see that it runs") -> argparse.ArgumentParser:
    """Return a parser with --quick and --output; ``text`` is the docstring of the benchmark."""
    parser = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help=quick)
    parser.add_argument("--output", type=Path, help="write the figures to this JSON file")
    return parser


def start_report() -> dict[str, Any]:
    """Return a report with the description of the machine, and print it."""
    report = {"machine": describe_machine()}
    print(report["machine"])
    return report


def write(output: Path | None, report: Mapping[str, Any]) -> None:
    """Write the report as JSON if ``output`` is a path."""
    if output is not None:
        output.write_text(json.dumps(report, indent=1) + "\n")


def describe_machine() -> str:
    """Describe CPU, memory, Python and the libraries that affect speed."""
    cpuinfo = Path("/proc/cpuinfo")
    names = (
        [line.split(":")[1].strip() for line in cpuinfo.read_text().splitlines() if "model name" in line]
        if cpuinfo.exists()
        else []
    )
    flags = cpuinfo.read_text() if cpuinfo.exists() else ""
    simd = "AVX-512" if "avx512f" in flags else "AVX2" if "avx2" in flags else platform.machine()
    libraries = ", ".join(
        f"{name} {version(name)}" for name in ("numpy", "numba", "dask", "zarr", "scikit-learn")
    )
    memory = memory_limit() / 2**30
    return (
        f"{names[0] if names else platform.processor()} ({simd}), {os.cpu_count()} cores, {memory:.0f} GiB, "
        f"Python {platform.python_version()}, {libraries}"
    )


def seconds_of(work: Callable[[], Any]) -> float:
    """Return the seconds of one call."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def time_interleaved(
    calls: Sequence[Callable[[], Any]], repeats: int, clock: Callable[[], float] = time.perf_counter
) -> tuple[np.ndarray, list[Any]]:
    """Return seconds (repeats, calls) and the last values of interleaved calls."""
    seconds, values = np.zeros((repeats, len(calls))), [None] * len(calls)
    for r in range(repeats):
        for k, call in enumerate(calls):
            start = clock()
            values[k] = call()
            seconds[r, k] = clock() - start
    return seconds, values


def medians(calls: Sequence[Callable[[], Any]], repeats: int) -> tuple[np.ndarray, list[Any]]:
    """Return median seconds and last values of interleaved calls, after one round that compiles."""
    time_interleaved(calls, 1)
    seconds, values = time_interleaved(calls, repeats)
    return np.median(seconds, axis=0), values


def median_seconds(work: Callable[[], Any], repeats: int) -> float:
    """Return the median seconds of several calls, after one that compiles."""
    return float(medians([work], repeats)[0][0])


def two_clouds(n: int, d: int, seed: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return uniform points in the cube of diameter 1, and points of a skewed distribution."""
    rng = np.random.default_rng(seed)
    return rng.random((n, d)) / np.sqrt(d), rng.random((n, d)) ** 1.2 / np.sqrt(d)


class Mixtures:
    """Reader of random Gaussian mixtures; a source is (first set, number of sets, points per set)."""

    def sizes(self, source: tuple[int, int, int]) -> np.ndarray:
        return np.full(source[1], source[2])

    def read(self, source: tuple[int, int, int]) -> Any:
        first, n, points = source
        rng = np.random.default_rng((0, first))
        k = rng.integers(1, MAX_COMPONENTS + 1, n)
        means = rng.uniform(-5, 5, (n * MAX_COMPONENTS, 2)).astype("f4")
        A = rng.uniform(-1, 1, (n * MAX_COMPONENTS, 2, 2))
        covariance = rng.uniform(1, 4, (n * MAX_COMPONENTS, 1, 1)) * A @ A.transpose(0, 2, 1)
        covariance[:, [0, 1], [0, 1]] += rng.uniform(0, 1, (n * MAX_COMPONENTS, 2))
        roots = np.linalg.cholesky(covariance).astype("f4")
        which = (rng.random((n, points), dtype="f4") * k[:, None].astype("f4")).astype(np.int32)
        which = np.minimum(which, k[:, None] - 1) + MAX_COMPONENTS * np.arange(n)[:, None]
        which = which.ravel()
        z = rng.standard_normal((n * points, 2), dtype="f4")
        x = means[which]
        x[:, 0] += roots[which, 0, 0] * z[:, 0]
        x[:, 1] += roots[which, 1, 0] * z[:, 0] + roots[which, 1, 1] * z[:, 1]
        return dk.SampleSets(x, np.arange(n + 1) * points), k.astype(np.float64)


def sources(n_sets: int, points: int, step: int) -> list[tuple[int, int, int]]:
    return [(first, min(step, n_sets - first), points) for first in range(0, n_sets, step)]


def rmse(y: np.ndarray, predicted: np.ndarray) -> float:
    return float(np.sqrt(np.mean((y - predicted) ** 2)))


class Stages:
    """Seconds of stages, printed at their end."""

    def __init__(self, n_sets: int) -> None:
        self.n_sets, self.seconds = n_sets, dict[str, float]()

    def run(self, name: str, work: Callable[[], Any], passes: float = 1.0) -> Any:
        ((seconds,),), (result,) = time_interleaved([work], 1)
        self.seconds[name] = float(seconds)
        print(f"  {name:<26} {seconds:8.1f} s {passes * self.n_sets / seconds:12,.0f} sets/s", flush=True)
        return result


def peaks(client: Client) -> dict[str, float]:
    """Return the peak memory in MB of this process, and the largest of the workers."""
    workers = client.run(peak)
    return {"client": round(peak(), 1), "worker": round(max(workers.values()), 1)}


def peak() -> float:
    with open("/proc/self/status") as status:
        return next(float(line.split()[1]) / 1000 for line in status if line.startswith("VmHWM"))


def reset_peaks(client: Client | None) -> None:
    """Reset the peaks of this process and the workers."""
    reset_peak()
    if client is not None:
        client.run(reset_peak)


def reset_peak() -> None:
    with open("/proc/self/clear_refs", "w") as references:
        references.write("5")


@contextmanager
def cluster(n_workers: int) -> Iterator[Client]:
    """Start worker processes with one thread and yield a client."""
    with (
        LocalCluster(n_workers=n_workers, threads_per_worker=1, dashboard_address="127.0.0.1:0") as workers,
        Client(workers) as client,
    ):
        yield client
