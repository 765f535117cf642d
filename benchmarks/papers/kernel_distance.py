"""Time and error of the kernel distance by every method, and growth with n (claims of P3).

    python benchmarks/papers/kernel_distance.py [--quick] [--seconds 5] [--output FILE.json] [--figure FILE.png]

P and Q are n uniform points in a cube of diameter 1, and n points of a skewed distribution; sigma is 0.02, 0.1 and 0.5
diameters; d = 2, 3, 10; eps = 1e-2, 1e-4 and 1e-6; one thread. Errors are differences of D^2 to a reference:

    exact      all pairs in float64, for n <= 1e5 (also timed)
    fourier    eps = 1e-10, for n = 1e6 and d <= 3
    none       for n = 1e6 and d = 10

A cell is cut if its predicted seconds, extrapolated from fewer points, exceed --seconds (except exact references).
Refusals are printed with their reason. Growth is the slope of log time over log n, over all n >= 10,000 if there are at
least two, otherwise over all n. Seconds are medians of three runs if a run takes less than 0.3 s, otherwise of one run.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from kernel_distance_tables import draw, print_cells, print_growth, print_markdown, print_refusals, slopes
from study import options, two_clouds, write
from threadpoolctl import threadpool_limits

import dkdist as dk

METHODS = ("exact", "fourier", "tree", "taylor", "rff", "wspd", "auto")
QUADRATIC_METHODS = {"exact", "tree", "wspd"}  # at most n^2; others are linear
MAX_REPEATED_SECONDS = 0.3


@dataclass(frozen=True)
class Sizes:
    """Parameters of the cells; up to ``n_exact`` points the reference is exact."""

    n: tuple[int, ...] = (1_000, 3_000, 10_000, 100_000, 1_000_000)
    d: tuple[int, ...] = (2, 3, 10)
    sigma: tuple[float, ...] = (0.02, 0.1, 0.5)
    eps: tuple[float, ...] = (1e-2, 1e-4, 1e-6)
    n_exact: int = 100_000


FULL, QUICK = Sizes(), Sizes((200, 400), (2, 10), (0.1, 0.5), (1e-2, 1e-4), 400)


def measure(pair: Any, sigma: float, method: str, eps: float) -> dict[str, Any]:
    """Return seconds and D^2, or the reason and the seconds of a refusal."""
    seconds: list[float] = []
    while len(seconds) < (3 if not seconds or seconds[0] < MAX_REPEATED_SECONDS else 1):
        start = time.perf_counter()
        try:
            value = dk.kernel_distance(
                *pair, sigma=sigma, squared=True, method=method, eps=eps, random_state=0
            )
        except ValueError as error:
            return {"refused": str(error), "seconds": time.perf_counter() - start}
        seconds.append(time.perf_counter() - start)
    return {"seconds": float(np.median(seconds)), "value": value}


def predict_seconds(method: str, n: int, smaller_cells: list[dict[str, Any]]) -> float:
    """Extrapolate the seconds of smaller cells, by their growth or the maximum growth of the method."""
    timed = [cell for cell in smaller_cells if "seconds" in cell]
    if not timed:
        return 0.0 if not smaller_cells else np.inf
    slope = 2.0 if method in QUADRATIC_METHODS else 1.0
    if len(timed) > 1:
        ratio = timed[-1]["seconds"] / timed[-2]["seconds"]
        slope = float(np.clip(np.log(ratio) / np.log(timed[-1]["n"] / timed[-2]["n"]), 1.0, 2.0))
    return float(timed[-1]["seconds"] * (n / timed[-1]["n"]) ** slope)


def reference(pair: Any, n: int, d: int, sigma: float, size: Sizes) -> tuple[str, dict[str, Any]]:
    if n <= size.n_exact:
        return "exact", measure(pair, sigma, "exact", 1.0)
    if d <= 3:
        return "fourier, 1e-10", measure(pair, sigma, "fourier", 1e-10)
    return "none", {}


def run(size: Sizes, max_seconds: float) -> list[dict[str, Any]]:
    """Return all cells: method, n, d, sigma, eps, and seconds and error, or why there are none."""
    cells: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for n, d in product(size.n, size.d):
        pair = two_clouds(n, d, [n, d])
        for sigma in size.sigma:
            name, reference_cell = reference(pair, n, d, sigma, size)
            for method, eps in product(METHODS, size.eps):
                if method == "exact" and eps != size.eps[0]:
                    continue
                cell = {"method": method, "n": n, "d": d, "sigma": sigma, "eps": eps, "reference": name}
                smaller_cells = cells.setdefault((method, d, sigma, eps), [])
                predicted = predict_seconds(method, n, smaller_cells)
                if method == "exact" and name == "exact":
                    cell |= reference_cell
                elif predicted > max_seconds:
                    cell["cut"] = predicted if np.isfinite(predicted) else smaller_cells[-1]["cut"]
                else:
                    cell |= measure(pair, sigma, method, eps)
                if "value" in cell and "value" in reference_cell:
                    cell["error"] = abs(cell["value"] - reference_cell["value"])
                smaller_cells.append(cell)
            print_cells([group[-1] for key, group in cells.items() if key[1:3] == (d, sigma)])
    return [cell for group in cells.values() for cell in group]


def compile_methods(size: Sizes) -> None:
    """Run all methods once, which compiles them."""
    for d, method in product(size.d, METHODS):
        measure(two_clouds(300, d, [300, d]), 0.5, method, 0.1)
        measure(two_clouds(300, d, [300, d]), 0.02, method, 1e-6)
    large_pair = two_clouds(size.n[-1], 2, [size.n[-1], 2])
    for sigma in size.sigma:  # only many points use sums over frequencies
        measure(large_pair, sigma, "fourier", 1e-2)


def main(argv: list[str] | None = None) -> dict[str, Any]:
    parser = options(__doc__, quick="400 points, to see that it runs")
    parser.add_argument("--seconds", type=float, default=5.0, help="maximum predicted seconds of a cell")
    parser.add_argument("--figure", type=Path, help="draw error by time to this file")
    args = parser.parse_args(argv)
    size = QUICK if args.quick else FULL
    start = time.perf_counter()
    with threadpool_limits(1):
        compile_methods(size)
        cells = run(size, args.seconds)
    report = {"experiment": "kernel distance", "cells": cells, "growth": slopes(cells)}
    print_refusals(cells)
    print_growth(report["growth"])
    print_markdown(cells, size.n[-2:], size.eps[1])
    print(f"  {time.perf_counter() - start:.0f} s in total")
    write(args.output, report)
    if args.figure is not None:
        draw(cells, min(100_000, max(size.n)), args.figure)
    return report


if __name__ == "__main__":
    main(sys.argv[1:])
