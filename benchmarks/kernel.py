"""Time and error of the kernel distance of two point sets, compared with scikit-learn and with exact sums.

    python benchmarks/kernel.py [exact] [fourier] [growth] [kinds] [gradient] [peers] [--quick] [--output kernel.json]

exact     all pairs in float64, compared with three matrices of scikit-learn's `rbf_kernel`, in blocks of 1,000 rows
fourier   the Fourier grid at eps = 1e-4, compared with exact sums
growth    seconds by n of exact sums, Fourier grid and tree; one run each
kinds     other kernels by "auto", compared with exact sums: processor seconds of one run
gradient  D^2 with all derivatives by "auto", compared with exact sums; the error is the maximum over derivatives by
          weights, and by coordinates times n sigma
peers     other libraries (`kernel_peers.py`)

P and Q are n uniform points in a cube of diameter 1, and n points of a skewed distribution. Times are median seconds of
interleaved runs on one thread, unless stated otherwise. Errors are differences of D^2.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from functools import partial
from typing import Any

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"  # before KeOps and NumPy read them

import numpy as np
from common import options, start_report, time_interleaved, two_clouds, write
from kernel_peers import peer_rows
from sklearn.metrics.pairwise import rbf_kernel
from threadpoolctl import threadpool_limits

import dkdist as dk

EPS = 1e-4
ROWS = 1000


def by_scikit_learn(P: np.ndarray, Q: np.ndarray, sigma: float) -> float:
    def mean(x: np.ndarray, y: np.ndarray) -> float:
        blocks = [rbf_kernel(x[i : i + ROWS], y, 0.5 / sigma**2).sum() for i in range(0, len(x), ROWS)]
        return sum(blocks) / len(x) / len(y)

    return mean(P, P) + mean(Q, Q) - 2 * mean(P, Q)


def distance(P: np.ndarray, Q: np.ndarray, sigma: float, method: str) -> Callable[[], float]:
    return lambda: dk.kernel_distance(P, Q, sigma=sigma, squared=True, method=method, eps=EPS)


def exact_rows(quick: bool) -> list[dict[str, Any]]:
    n, repeats = (300, 2) if quick else (10_000, 5)
    rows = []
    print("  exact      d        n   seconds  scikit-learn   ratio  difference")
    for d in (2, 3, 10):
        P, Q = two_clouds(n, d, d)
        calls = [distance(P, Q, 0.3, "exact"), lambda P=P, Q=Q: by_scikit_learn(P, Q, 0.3)]
        time_interleaved(calls, 1)
        seconds, (dkdist_result, reference_result) = time_interleaved(calls, repeats)
        row = {
            "d": d, "n": n, "seconds": float(np.median(seconds[:, 0])), "peer_seconds": float(np.median(seconds[:, 1])),
            "ratio": float(np.median(seconds[:, 1] / seconds[:, 0])), "error": abs(dkdist_result - reference_result),
        }  # fmt: skip
        rows.append(row)
        print(
            f"  {'':<8} {d:>3} {n:>8,} {row['seconds']:>9.4f} {row['peer_seconds']:>13.3f} {row['ratio']:>7.1f}"
            f" {row['error']:>11.1e}"
        )
    return rows


def fourier_rows(quick: bool) -> list[dict[str, Any]]:
    n, repeats = (1000, 1) if quick else (100_000, 5)
    rows = []
    print(f"  fourier    d        n  sigma   seconds    exact   ratio     error  (eps {EPS:.0e})")
    for d in (1, 2, 3):
        P, Q = two_clouds(n, d, d)
        for sigma in (0.02, 0.1, 0.5):
            fast, exact = distance(P, Q, sigma, "fourier"), distance(P, Q, sigma, "exact")
            time_interleaved([fast], 1)
            seconds, (result,) = time_interleaved([fast], repeats)
            exact_seconds, (expected,) = time_interleaved([exact], 1)
            row = {
                "d": d, "n": n, "sigma": sigma,
                "seconds": float(np.median(seconds)), "exact_seconds": float(exact_seconds[0, 0]),
                "ratio": float(exact_seconds[0, 0] / np.median(seconds)), "error": abs(result - expected), "eps": EPS,
            }  # fmt: skip
            rows.append(row)
            print(
                f"  {'':<8} {d:>3} {n:>8,} {sigma:>6} {row['seconds']:>9.4f} {row['exact_seconds']:>8.2f}"
                f" {row['ratio']:>7.0f} {row['error']:>9.1e}"
            )
    return rows


def kind_rows(quick: bool) -> list[dict[str, Any]]:
    """Measure all kernels by "auto" and by all pairs, in processor seconds."""
    rows = []
    print(
        f"  kinds                   d        n   seconds    exact   ratio     error  (sigma 0.1, eps {EPS:.0e})"
    )
    for d in (1, 2, 3):
        P, Q = two_clouds(1500 if quick else 50_000, d, d)
        for kernel in (
            "gaussian",
            "rational-quadratic",
            "matern52",
            "matern32",
            "matern12",
            "laplace",
            "energy",
        ):
            seconds, result = [], []
            for x, y, method in (
                (P[:1200], Q[:1200], "auto"),
                (P, Q, "auto"),
                (P, Q, "exact"),
            ):  # the first call compiles
                if d == 1 and method == "exact":
                    # in the plane: on a line, exact sums use sorting
                    x, y = (np.c_[s, np.zeros(len(s))] for s in (x, y))
                start = time.process_time()
                options = {"sigma": 0.1, "kernel": kernel, "squared": True, "method": method, "eps": EPS}
                result.append(dk.kernel_distance(x, y, **options))
                seconds.append(time.process_time() - start)
            row = {
                "kernel": kernel, "d": d, "n": len(P), "seconds": seconds[1], "exact_seconds": seconds[2],
                "ratio": seconds[2] / seconds[1], "error": abs(result[2] - result[1]), "eps": EPS,
            }  # fmt: skip
            rows.append(row)
            print(
                f"  {kernel:<20} {d:>4} {len(P):>8,} {row['seconds']:>9.3f} {row['exact_seconds']:>8.2f}"
                f" {row['ratio']:>7.1f} {row['error']:>9.1e}"
            )
    return rows


def gradient_rows(quick: bool) -> list[dict[str, Any]]:
    rows = []
    print(f"  gradient   d        n  sigma   seconds    exact   ratio     error  (eps {EPS:.0e})")
    for d in (1, 2, 3):
        P, Q = two_clouds(1000 if quick else 20_000, d, d)
        for sigma in (0.02, 0.1, 0.5):
            kwargs = {"sigma": sigma, "squared": True, "gradient": True, "eps": EPS}
            fast, exact = (
                partial(dk.kernel_distance, P, Q, method=method, **kwargs) for method in ("auto", "exact")
            )
            time_interleaved([fast], 1)
            seconds, (result,) = time_interleaved([fast], 1 if quick else 5)
            exact_seconds, (expected,) = time_interleaved([exact], 1)
            differences = [sigma * len(P) * np.abs(result[1].P - expected[1].P).max()]
            differences += [
                np.abs(a - b).max() for a, b in zip(result[1].weights, expected[1].weights, strict=True)
            ]
            row = {
                "d": d, "n": len(P), "sigma": sigma,
                "seconds": float(np.median(seconds)), "exact_seconds": float(exact_seconds[0, 0]),
                "ratio": float(exact_seconds[0, 0] / np.median(seconds)), "error": float(max(differences)), "eps": EPS,
            }  # fmt: skip
            rows.append(row)
            print(
                f"  {'':<8} {d:>3} {row['n']:>8,} {sigma:>6} {row['seconds']:>9.4f} {row['exact_seconds']:>8.2f}"
                f" {row['ratio']:>7.0f} {row['error']:>9.1e}"
            )
    return rows


def growth_rows(quick: bool) -> list[dict[str, Any]]:
    rows = []
    print("  growth (d = 3, sigma 0.1)     n   exact   fourier      tree")
    for n in (300, 600) if quick else (1_000, 10_000, 100_000, 1_000_000):
        P, Q = two_clouds(n, 3, 3)
        row: dict[str, Any] = {"n": n}
        for method, max_points in (("exact", 20_000), ("fourier", 1_000_000), ("tree", 20_000)):
            if n <= max_points:
                row[method] = float(time_interleaved([distance(P, Q, 0.1, method)], 1)[0][0, 0])
        rows.append(row)
        print(f"  {n:>28,}" + "".join(f" {row.get(m, np.nan):>8.3f}" for m in ("exact", "fourier", "tree")))
    return rows


def main(argv: list[str] | None = None) -> dict[str, Any]:
    parser = options(__doc__)
    parser.add_argument(
        "parts", nargs="*", help="exact, fourier, growth, kinds, gradient, peers; default: all"
    )
    args = parser.parse_args(argv)
    parts = {
        "exact": lambda: exact_rows(args.quick),
        "fourier": lambda: fourier_rows(args.quick),
        "growth": lambda: growth_rows(args.quick),
        "kinds": lambda: kind_rows(args.quick),
        "gradient": lambda: gradient_rows(args.quick),
        "peers": lambda: peer_rows(args.quick, EPS),
    }
    if unknown := set(args.parts) - set(parts):
        parser.error(f"unknown parts {sorted(unknown)}: choose from {', '.join(parts)}")
    figures = start_report()
    with threadpool_limits(1):
        for part in args.parts or parts:
            figures[part] = parts[part]()
    write(args.output, figures)
    return figures


if __name__ == "__main__":
    main()
