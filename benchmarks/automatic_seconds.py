"""Seconds of a fit of the automatic models, with candidates on one thread and on several threads.

    python benchmarks/automatic_seconds.py [--quick] [--sizes 60 120 250 500 1000] [--output seconds.json]

Sets are 200 points in ten dimensions. Medians of three fits of SetClassifier and SetRegressor, after a fit that
compiles; nested evaluation is included. Above `MIN_PARALLEL_ROWS` several threads should be faster.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from common import options, start_report, write

import dkdist as dk
from dkdist.auto import budgets

N_FITS = 3


def seconds(n: int, n_points: int, is_classifier: bool, seed: int) -> float:
    """Return the seconds of one fit to n sets with random effects, half of which are shifted."""
    rng = np.random.default_rng([seed, n])
    shifted = np.arange(n) % 2
    effects = 0.3 * rng.normal(size=(n, 10)) + 0.3 * np.outer(shifted, np.eye(10)[0])
    sets = [rng.normal(effect, 1, (n_points, 10)) for effect in effects]
    y = shifted if is_classifier else shifted + rng.normal(size=n)
    start = time.perf_counter()
    (dk.SetClassifier if is_classifier else dk.SetRegressor)(random_state=seed).fit(sets, y)
    return time.perf_counter() - start


def main(argv: list[str] | None = None) -> dict[str, Any]:
    parser = options(__doc__)
    parser.add_argument("--sizes", nargs="+", type=int, default=[60, 120, 250, 500, 1000])
    arguments = parser.parse_args(argv)
    report, n_points = start_report(), 20 if arguments.quick else 200
    for n in [20] if arguments.quick else arguments.sizes:
        for is_classifier in (True, False):
            seconds(n, n_points, is_classifier, N_FITS)
            for name, rows in (("one thread", 10**9), ("threads", 0), ("default", budgets.MIN_PARALLEL_ROWS)):
                default, budgets.MIN_PARALLEL_ROWS = budgets.MIN_PARALLEL_ROWS, rows
                try:
                    fit_seconds = [seconds(n, n_points, is_classifier, seed) for seed in range(N_FITS)]
                finally:
                    budgets.MIN_PARALLEL_ROWS = default
                kind = "classes" if is_classifier else "numbers"
                report[f"{n} {kind} {name}"] = float(np.median(fit_seconds))
                print(f"{n:5d} sets, {kind}, {name:10}: {np.median(fit_seconds):6.2f} s", flush=True)
    write(arguments.output, report)
    return report


if __name__ == "__main__":
    main()
