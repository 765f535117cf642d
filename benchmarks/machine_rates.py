"""Peak rates of this machine: operations in registers, elementary functions, and memory bandwidth by cache level.

    steps      float32 operations per second: fused multiply-adds, additions, products or minima
    words      operations on 64-bit words per second
    log ...    elementary functions of float32 numbers in the L1 cache per second, by the polynomials of dkdist
    product    fused multiply-adds per second of a float32 matrix product by BLAS, 2,048 rows and columns
    sorted     float32 numbers sorted per second by NumPy, 200 per row
    L1 ...     bytes read or written per second, by copying between halves of 16 KB, 128 KB, 4 MB and 64 MB per thread

All threads run the same function; rates are totals of all threads per processor second. The maximum over some short
runs counts, because other programs can only slow a run down.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np

from dkdist._numba import elementary
from dkdist._numba.compilation import FINITE_FMA, jit
from dkdist._numba.simd import fused, load, store

TILE = 12  # independent accumulators, which hide the latency of the additions
LEVELS = {"L1": 2**14, "L2": 2**17, "L3": 2**22, "memory": 2**26}
FUNCTIONS = ("log", "exp", "cospi", "sincospi", "sqrt")


def _multiply_adds(lanes: int) -> Any:
    @jit()
    def run(x, n):  # type: ignore[no-untyped-def]
        tile = load(x, 0, lanes, TILE, lanes)
        factor, more = load(x, 0, 0, TILE, lanes), load(x, lanes, 0, TILE, lanes)
        for _ in range(n):
            tile = fused(tile, factor, more)
        store(tile, x, 0, lanes)

    return run


_NARROW, _WIDE = _multiply_adds(8), _multiply_adds(16)


@jit()
def _mix_words(x, n):  # type: ignore[no-untyped-def]
    """Run eleven operations on each word, n times."""
    word, seven = np.uint64(1), np.uint64(7)
    for _ in range(n):
        for i in range(len(x)):
            a = x[i]
            a = ((a ^ (a << word)) + seven) & ~(a >> seven)
            a = ((a ^ (a << word)) + seven) | (a >> seven)
            x[i] = a


def _elementwise(name: str) -> Any:
    function = np.sqrt if name == "sqrt" else getattr(elementary, name)

    @jit(FINITE_FMA)
    def run(x, out, other, n):  # type: ignore[no-untyped-def]
        for _ in range(n):
            for i in range(len(x)):
                out[i] = function(x[i])

    @jit(FINITE_FMA)
    def run_both(x, out, other, n):  # type: ignore[no-untyped-def]
        for _ in range(n):
            for i in range(len(x)):
                a, b = function(x[i])
                out[i] = a
                other[i] = b

    return run_both if name == "sincospi" else run


_ELEMENTWISE = {name: _elementwise(name) for name in FUNCTIONS}


@jit()
def _copy(a, b, n):  # type: ignore[no-untyped-def]
    for _ in range(n):
        for i in range(len(a)):
            b[i] = a[i]


class Probe(NamedTuple):
    """A function and the number of operations or bytes of one call."""

    run: Callable[[], Any]
    amount: float


def probes() -> dict[str, list[Probe]]:
    """Return the probes of one thread by name; the fastest counts. Each takes milliseconds, a product 0.1 s."""
    rng = np.random.default_rng(0)
    results: dict[str, list[Probe]] = {"steps": [], "words": [], "sorted": []}
    for run, lanes in ((_NARROW, 8), (_WIDE, 16)):
        x = rng.uniform(0.1, 0.5, TILE * lanes).astype(np.float32)
        results["steps"].append(Probe(lambda run=run, x=x: run(x, 100_000), 1e5 * TILE * lanes))  # type: ignore[misc]
    words = rng.integers(0, 2**63, 256, np.uint64)
    results["words"].append(Probe(lambda: _mix_words(words, 4000), 4000 * 256 * 11))
    A = rng.random((2048, 2048), np.float32)
    results["product"] = [Probe(lambda: A @ A, 2048**3)]
    lines = rng.random((256, 200), np.float32)
    results["sorted"].append(Probe(lambda: np.sort(lines, axis=1), lines.size))
    x, out, other = rng.uniform(0.1, 0.9, (3, 1024)).astype(np.float32)
    for name, call in _ELEMENTWISE.items():
        results[name] = [Probe(lambda call=call: call(x, out, other, 1000), 1000 * len(x))]  # type: ignore[misc]
    for level, n_bytes in LEVELS.items():
        a, b = np.ones((2, n_bytes // 8), np.float32)  # both halves fit into that level
        n = max(1, 2**24 // n_bytes)
        results[level] = [Probe(lambda a=a, b=b, n=n: _copy(a, b, n), n * n_bytes)]  # type: ignore[misc]
    return results


def rates(threads: int, repeats: int) -> Mapping[str, float]:
    """Return operations or bytes per second of all threads together: the maximum over runs."""
    probes_by_thread = [probes() for _ in range(threads)]
    best: dict[str, float] = {}
    with ThreadPoolExecutor(threads) as pool:
        for name in probes_by_thread[0]:
            for copies in zip(*(results[name] for results in probes_by_thread), strict=True):
                list(pool.map(lambda probe: probe.run(), copies))  # compiles
                for _ in range(repeats):
                    seconds = processor_seconds(pool, threads, lambda probe: probe.run(), copies)
                    best[name] = max(best.get(name, 0.0), threads * copies[0].amount / seconds)
    return best


def processor_seconds(
    pool: Executor, threads: int, work: Callable[[Any], Any], parts: Sequence[Any]
) -> float:
    """Return the processor seconds of all parts, divided by the number of threads."""

    def timed(part: Any) -> float:
        start = time.thread_time()
        work(part)
        return time.thread_time() - start

    return sum(pool.map(timed, parts)) / threads


class Work(NamedTuple):
    """Minimum work per set: counts of operations, function calls by name, and bytes by cache level."""

    steps: float = 0.0
    words: float = 0.0
    functions: Mapping[str, float] = {}
    bytes: Mapping[str, float] = {}

    def seconds(self, rates: Mapping[str, float]) -> float:
        """Return the minimum time: operations in sequence, overlapped with memory traffic."""
        busy = self.steps / rates["steps"] + self.words / rates["words"]
        busy += sum(n / rates[name] for name, n in self.functions.items())
        return max(busy, *(n / rates[level] for level, n in self.bytes.items()), 0.0)

    def __add__(self, other: Work) -> Work:  # type: ignore[override]
        """Return the total work; bytes of the same level are added."""
        functions, moved = (
            {name: a.get(name, 0.0) + b.get(name, 0.0) for name in {**a, **b}}
            for a, b in ((self.functions, other.functions), (self.bytes, other.bytes))
        )
        return Work(self.steps + other.steps, self.words + other.words, functions, moved)
