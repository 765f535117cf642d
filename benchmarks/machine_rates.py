"""Peak rates of this machine: operations in registers, square roots, and memory bandwidth by cache level.

    fused      float32 fused multiply-adds per second, or products
    both       fused multiply-adds and additions per second, one of each in turn: processors with separate units for
               additions (AMD Zen) are twice as fast; an addition may also run as a fused multiply-add
    minima     minima and maxima per second; they have no equivalent among fused multiply-adds
    words      operations on 64-bit words per second
    sqrt       square roots of float32 numbers in the L1 cache per second, by the instruction of the processor
    product    fused multiply-adds per second of a float32 matrix product by BLAS, 2,048 rows and columns
    L1 ...     bytes read or written per second, by copying between halves of 16 KB, 128 KB, 4 MB and 64 MB per thread

Other elementary functions are rated by their instructions (`INSTRUCTIONS`), at these rates, not by timing functions of
dkdist: otherwise a slow polynomial would raise the minimum.

All threads run the same function; rates are totals of all threads per processor second. The maximum over some short
runs counts, because other programs can only slow a run down.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np

from dkdist._numba.compilation import FINITE_FMA, jit
from dkdist._numba.simd import fused, larger, load, plus, smaller, store

TILE = 12  # independent accumulators, which hide the latency of the additions
LEVELS = {"L1": 2**14, "L2": 2**17, "L3": 2**22, "memory": 2**26}
# Instructions of range reduction and minimax polynomial at float32 accuracy (Cephes): products and fused multiply-adds,
# additions and roundings, 32-bit integer operations.
INSTRUCTIONS = {"log": (14, 2, 5), "cospi": (7, 1, 0), "sincospi": (13, 2, 3)}


def _operations(name: str, lanes: int) -> Any:
    @jit()
    def run(x, n):  # type: ignore[no-untyped-def]
        tile = load(x, 0, lanes, TILE, lanes)
        factor, more = load(x, 0, 0, TILE, lanes), load(x, lanes, 0, TILE, lanes)
        for _ in range(n):
            tile = fused(tile, factor, more)
        store(tile, x, 0, lanes)

    @jit()
    def run_both(x, n):  # type: ignore[no-untyped-def]
        tile, total = load(x, 0, lanes, TILE, lanes), load(x, lanes, 0, TILE, lanes)
        factor, more = load(x, 0, 0, TILE, lanes), load(x, lanes, 0, TILE, lanes)
        for _ in range(n):
            tile, total = fused(tile, factor, more), plus(total, more)
        store(plus(tile, total), x, 0, lanes)

    @jit()
    def run_minima(x, n):  # type: ignore[no-untyped-def]
        tile, high, low = (
            load(x, 0, lanes, TILE, lanes),
            load(x, 0, 0, TILE, lanes),
            load(x, lanes, 0, TILE, lanes),
        )
        for _ in range(n):
            tile = larger(smaller(tile, high), low)
        store(tile, x, 0, lanes)

    return {"fused": run, "both": run_both, "minima": run_minima}[name]


OPERATIONS_PER_RUN = {"fused": 1, "both": 2, "minima": 2}
_OPERATIONS = {name: [(_operations(name, w), w) for w in (8, 16)] for name in OPERATIONS_PER_RUN}


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


@jit(FINITE_FMA)
def _square_roots(x, out, n):  # type: ignore[no-untyped-def]
    for _ in range(n):
        for i in range(len(x)):
            out[i] = np.sqrt(x[i])


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
    results: dict[str, list[Probe]] = {name: [] for name in (*_OPERATIONS, "words")}
    for name, operations in _OPERATIONS.items():
        for run, lanes in operations:
            x = rng.uniform(0.1, 0.5, TILE * lanes).astype(np.float32)
            amount = 1e5 * TILE * lanes * OPERATIONS_PER_RUN[name]
            results[name].append(Probe(lambda run=run, x=x: run(x, 100_000), amount))  # type: ignore[misc]
    words = rng.integers(0, 2**63, 256, np.uint64)
    results["words"].append(Probe(lambda: _mix_words(words, 4000), 4000 * 256 * 11))
    A = rng.random((2048, 2048), np.float32)
    results["product"] = [Probe(lambda: A @ A, 2048**3)]
    x, out = rng.uniform(0.1, 0.9, (2, 1024)).astype(np.float32)
    results["sqrt"] = [Probe(lambda: _square_roots(x, out, 1000), 1000 * len(x))]
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
    """Minimum work per set: counts of operations, calls of ``functions`` by name, and bytes by cache level."""

    fused: float = 0.0  # fused multiply-adds and products
    added: float = 0.0
    minima: float = 0.0
    words: float = 0.0
    functions: Mapping[str, float] = {}  # square roots and matrix products
    bytes: Mapping[str, float] = {}

    def seconds(self, rates: Mapping[str, float]) -> float:
        """Return the minimum time, if all kinds of operations and memory traffic overlap."""
        busy = (self.fused + self.added + self.minima) / rates["both"] + self.words / rates["words"]
        counts = {"fused": self.fused, "minima": self.minima, **self.functions, **self.bytes}
        return max(busy, *(n / rates[name] for name, n in counts.items()))

    def __add__(self, other: Work) -> Work:  # type: ignore[override]
        """Return the total work; bytes of the same level are added."""
        functions, moved = (
            {name: a.get(name, 0.0) + b.get(name, 0.0) for name in {**a, **b}}
            for a, b in ((self.functions, other.functions), (self.bytes, other.bytes))
        )
        counts = (a + b for a, b in zip(self[:4], other[:4], strict=True))
        return Work(*counts, functions, moved)


def calls(name: str, n: float) -> Work:
    """Return the work of n calls of an elementary function; a word holds two 32-bit integers."""
    fused, added, integer = INSTRUCTIONS[name]
    return Work(n * fused, n * added, words=n * integer / 2)
