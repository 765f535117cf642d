"""The kernel distance by every method: error against time, and growth with n (P3's claims, measured).

    python benchmarks/papers/kernel_distance.py [--quick] [--seconds 5] [--output FILE.json] [--figure FILE.png]

Two uniform samples of the cube of diameter 1, the second one bent, n points each; sigma .02, .1 and .5 of the diameter;
d = 2, 3, 10; each method with eps = 1e-2, 1e-4 and 1e-6 of D^2, on one thread. Errors are those of D^2, against

    exact      float64, all pairs, where n <= 1e5: it is timed as well
    fourier    certified to 1e-10, for n = 1e6 and d <= 3
    none       for n = 1e6 and d = 10

A cell whose time, foretold from fewer points, is above --seconds is cut (not exact sums that are the reference); what a
method refuses is shown with its reason. Growth: the slope of log time over log n, of at least two n >= 10,000, or of
all where there are no two. Medians of three where a cell takes less than .3 s.
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
BY_PAIRS = {"exact", "tree", "wspd"}  # time is at most as n^2; of the others as n
SHORT = 0.3


@dataclass(frozen=True)
class Sizes:
    """What is measured; up to ``n_exact`` points the reference is exact."""

    n: tuple[int, ...] = (1_000, 3_000, 10_000, 100_000, 1_000_000)
    d: tuple[int, ...] = (2, 3, 10)
    sigma: tuple[float, ...] = (0.02, 0.1, 0.5)
    eps: tuple[float, ...] = (1e-2, 1e-4, 1e-6)
    n_exact: int = 100_000


FULL, QUICK = Sizes(), Sizes((200, 400), (2, 10), (0.1, 0.5), (1e-2, 1e-4), 400)


def measure(pair: Any, sigma: float, method: str, eps: float) -> dict[str, Any]:
    """Seconds and D^2, or why the method refuses and how long it took to say so."""
    taken: list[float] = []
    while len(taken) < (3 if not taken or taken[0] < SHORT else 1):
        start = time.perf_counter()
        try:
            value = dk.kernel_distance(
                *pair, sigma=sigma, squared=True, method=method, eps=eps, random_state=0
            )
        except ValueError as error:
            return {"refused": str(error), "seconds": time.perf_counter() - start}
        taken.append(time.perf_counter() - start)
    return {"seconds": float(np.median(taken)), "value": value}


def foretold(method: str, n: int, before: list[dict[str, Any]]) -> float:
    """Seconds for n points, from the cells of fewer points: as they grew, else as the method grows at most."""
    timed = [cell for cell in before if "seconds" in cell]
    if not timed:
        return 0.0 if not before else np.inf
    slope = 2.0 if method in BY_PAIRS else 1.0
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


def run(size: Sizes, most_seconds: float) -> list[dict[str, Any]]:
    """Every cell: method, n, d, sigma, eps, with seconds and error, or what it is not for."""
    cells: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for n, d in product(size.n, size.d):
        pair = two_clouds(n, d, [n, d])
        for sigma in size.sigma:
            name, right = reference(pair, n, d, sigma, size)
            for method, eps in product(METHODS, size.eps):
                if method == "exact" and eps != size.eps[0]:
                    continue
                cell = {"method": method, "n": n, "d": d, "sigma": sigma, "eps": eps, "reference": name}
                before = cells.setdefault((method, d, sigma, eps), [])
                expected = foretold(method, n, before)
                if method == "exact" and name == "exact":
                    cell |= right
                elif expected > most_seconds:
                    cell["cut"] = expected if np.isfinite(expected) else before[-1]["cut"]
                else:
                    cell |= measure(pair, sigma, method, eps)
                if "value" in cell and "value" in right:
                    cell["error"] = abs(cell["value"] - right["value"])
                before.append(cell)
            print_cells([group[-1] for key, group in cells.items() if key[1:3] == (d, sigma)])
    return [cell for group in cells.values() for cell in group]


def warm(size: Sizes) -> None:
    """Compile everything."""
    for d, method in product(size.d, METHODS):
        measure(two_clouds(300, d, [300, d]), 0.5, method, 0.1)
        measure(two_clouds(300, d, [300, d]), 0.02, method, 1e-6)
    many = two_clouds(size.n[-1], 2, [size.n[-1], 2])
    for sigma in size.sigma:  # by frequencies, which few points are not worth looking for
        measure(many, sigma, "fourier", 1e-2)


def main(argv: list[str] | None = None) -> dict[str, Any]:
    parser = options(__doc__, quick="400 points, to see that it runs")
    parser.add_argument("--seconds", type=float, default=5.0, help="most that a cell may take")
    parser.add_argument("--figure", type=Path, help="error against time, drawn with matplotlib")
    args = parser.parse_args(argv)
    size = QUICK if args.quick else FULL
    start = time.perf_counter()
    with threadpool_limits(1):
        warm(size)
        cells = run(size, args.seconds)
    report = {"experiment": "kernel distance", "cells": cells, "growth": slopes(cells)}
    print_refusals(cells)
    print_growth(report["growth"])
    print_markdown(cells, size.n[-2:], size.eps[1])
    print(f"  {time.perf_counter() - start:.0f} s in all")
    write(args.output, report)
    if args.figure is not None:
        draw(cells, min(100_000, max(size.n)), args.figure)
    return report


if __name__ == "__main__":
    main(sys.argv[1:])
