"""Seconds of the automatic models: fits on one thread and on several, the first fit of a machine, and predictions.

    python benchmarks/automatic_seconds.py [fit] [cold] [import] [predict] [--quick] [--sizes 60 120] [--output x.json]

fit      200 points in ten dimensions: medians of three fits of SetClassifier and SetRegressor, after a fit that
         compiles; nested evaluation is included. Above `MIN_PARALLEL_ROWS` several threads should be faster
cold     wall-clock and processor seconds of the example of README.md in a new process, with an empty cache of compiled
         functions, and again with the filled cache
import   seconds of ``import dkdist; dkdist.SetClassifier`` in a new process, and of ``import sklearn.base``
predict  milliseconds per set of an ensemble fitted to 800 sets of 200 points in the plane, two classes of equal means
         and covariances, with and without weights of points; and of its members (rows and values), on one thread
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from common import median_seconds, options, start_report, write
from threadpoolctl import threadpool_limits

import dkdist as dk
from dkdist.auto import _tuning

N_FITS = 3
STAGES = "fit", "cold", "import", "predict"
README = Path(__file__).parents[1] / "README.md"
IMPORTS = {"dkdist": "import dkdist; dkdist.SetClassifier", "sklearn.base": "import sklearn.base"}


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


def bench_fit(quick: bool, sizes: list[int]) -> dict[str, Any]:
    report, n_points = {}, 20 if quick else 200
    for n in [20] if quick else sizes:
        for is_classifier in (True, False):
            seconds(n, n_points, is_classifier, N_FITS)
            for name, rows in (("one thread", 10**9), ("threads", 0), ("default", _tuning.MIN_PARALLEL_ROWS)):
                default, _tuning.MIN_PARALLEL_ROWS = _tuning.MIN_PARALLEL_ROWS, rows
                try:
                    fit_seconds = [seconds(n, n_points, is_classifier, seed) for seed in range(N_FITS)]
                finally:
                    _tuning.MIN_PARALLEL_ROWS = default
                kind = "classes" if is_classifier else "numbers"
                report[f"{n} {kind} {name}"] = float(np.median(fit_seconds))
                print(f"{n:5d} sets, {kind}, {name:10}: {np.median(fit_seconds):6.2f} s", flush=True)
    return report


def process_seconds(code: str, **variables: str) -> tuple[float, float]:
    """Return wall-clock and processor seconds of a new Python process."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    command = [sys.executable, "-c", code]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=os.environ | variables)
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def bench_cold(quick: bool) -> dict[str, Any]:
    code = "import dkdist" if quick else README.read_text().split("```python\n")[1].split("```")[0]
    report = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in ("empty cache", "filled cache"):
            wall, processor = process_seconds(code, NUMBA_CACHE_DIR=folder)
            report[name] = {"seconds": wall, "processor_seconds": processor}
            print(f"README.md, {name:12}: {wall:6.2f} s, of the processor {processor:6.2f} s", flush=True)
    return report


def bench_import(quick: bool) -> dict[str, Any]:
    report = {}
    for name, code in IMPORTS.items():
        times = [process_seconds(code) for _ in range(1 if quick else 7)]
        wall, processor = np.median(times, axis=0)
        report[name] = {"seconds": wall, "processor_seconds": processor}
        print(f"{code:36}: {wall:6.2f} s, of the processor {processor:6.2f} s", flush=True)
    return report


def shape_classes(n: int, n_points: int, seed: int, weighted: bool) -> tuple[dk.SampleSets, np.ndarray]:
    """Return sets of two classes in the plane: normal points, and mixtures with the same mean and covariance."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 2
    x = rng.normal(size=(n, n_points, 2))
    x[y == 1] = 0.8 * rng.choice([-1, 1], x[y == 1].shape) + 0.6 * x[y == 1]
    weights = list(rng.random((n, n_points))) if weighted else None
    return dk.SampleSets.from_arrays(list(x.astype(np.float32)), weights), y


def bench_predict(quick: bool) -> dict[str, Any]:
    report: dict[str, Any] = {}
    n, n_new, n_points, repeats = (40, 64, 20, 1) if quick else (800, 8000, 200, 5)
    for name in ("equal weights", "weights"):
        sets, y = shape_classes(n, n_points, 0, name == "weights")
        new_sets, truth = shape_classes(n_new, n_points, 1, name == "weights")
        model = dk.SetClassifier(random_state=0).fit(sets, y)
        total = 1e3 * median_seconds(partial(model.predict, new_sets), repeats) / n_new
        print(f"{name}: {total:.4f} ms per set, accuracy {model.score(new_sets, truth):.3f}", flush=True)
        with threadpool_limits(1):
            parts = member_times(model, new_sets[: min(n_new, 1024)], repeats)
        report[name] = {"all": total, **parts}
    return report


def member_times(model: Any, sets: dk.SampleSets, repeats: int) -> dict[str, float]:
    """Return milliseconds per set for the rows of each representation, and for the values of each member."""
    machine, scaled, times = model.machine_, model._scaled(sets), {}
    for root in machine.trees.only(machine.leaves).roots:
        embed = root.spec.materialize().embed
        rows, name = embed(scaled), type(getattr(root.spec, "embedding", root.spec)).__name__
        works = {f"rows of {name}, {rows.shape[1]} columns": partial(embed, scaled)}
        members = [(i, part) for i, part in enumerate(machine.parts) if part.leaf == root.leaf]
        works |= {f"values of member {i}": partial(part.values, rows) for i, part in members}
        for label, work in works.items():
            times[label] = 1e3 * median_seconds(work, repeats) / len(scaled)
            print(f"    {label:44} {times[label]:.4f} ms per set", flush=True)
    return times


def main(argv: list[str] | None = None) -> dict[str, Any]:
    parser = options(__doc__)
    parser.add_argument("stages", nargs="*", default=STAGES, metavar="stage", help=", ".join(STAGES))
    parser.add_argument("--sizes", nargs="+", type=int, default=[60, 120, 250, 500, 1000])
    arguments = parser.parse_args(argv)
    report, quick = start_report(), arguments.quick
    stages = {"fit": lambda: bench_fit(quick, arguments.sizes), "cold": lambda: bench_cold(quick),
              "import": lambda: bench_import(quick), "predict": lambda: bench_predict(quick)}  # fmt: skip
    if unknown := set(arguments.stages) - set(STAGES):
        parser.error(f"stage must be one of {', '.join(STAGES)}; got {sorted(unknown)[0]!r}")
    report.update({name: stages[name]() for name in arguments.stages})
    write(arguments.output, report)
    return report


if __name__ == "__main__":
    main()
