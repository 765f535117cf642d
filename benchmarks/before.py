"""Speed of a fit compared with an earlier commit, for the same sets and parameters in one run.

    python benchmarks/before.py [--commit 8388125] [--sets 100000] [--repeats 3] [--quick] [--output results.json]

Sets are 200 points in the plane from Gaussian mixtures of 1 to 10 components; the target is the number of components.
Each version is checked out into a separate folder and writes the sets with its own writer. Timed are fit and
predictions from the store: Jensen-Shannon embedding with 100 nodes, D = 5000 random features, five epochs of SGD with
one replica, on all cores, without a client. Runs of both versions are interleaved, each in a new process, after
compilation and a fit on 512 sets. Printed are minimum and median seconds, minimum processor seconds, root mean
squared errors on the same 4,000 sets, and ratios.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

POINTS, D, EPOCHS, MAX_COMPONENTS = 200, 5000, 5, 10
N_TEST_SETS, N_WARMUP_SETS = 4000, 512
REPOSITORY = Path(__file__).resolve().parents[1]


def draw_sets(n_sets: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return points (n_sets, 200, 2) float32 in the unit square, and numbers of components."""
    rng = np.random.default_rng(seed)
    k = rng.integers(1, MAX_COMPONENTS + 1, n_sets)
    means, spread = (
        rng.random((n_sets, MAX_COMPONENTS, 2)),
        rng.uniform(0.03, 0.1, (n_sets, MAX_COMPONENTS, 2)),
    )
    z = (rng.random((n_sets, POINTS)) * k[:, None]).astype(np.int64)[:, :, None]
    x = np.take_along_axis(means, z, 1) + np.take_along_axis(spread, z, 1) * rng.standard_normal(
        (n_sets, POINTS, 2)
    )
    return np.clip(1 - np.abs(1 - np.abs(x)), 0, 1).astype(np.float32), k.astype(np.float64)


def measure_fit(folder: Path, n_sets: int) -> dict[str, float]:
    """Write stores, fit and predict with the imported dkdist; return seconds and error."""
    import dask
    from sklearn.pipeline import make_pipeline

    import dkdist as dk

    def fit_and_predict(name: str, n: int, seed: int) -> tuple[float, float, float]:
        (x, y), (x_test, y_test) = draw_sets(n, seed), draw_sets(N_TEST_SETS, seed + 1)
        sets = [
            dk.write_sets(str(folder / f"{name}{i}.zarr"), dk.SampleSets.from_arrays(list(points)))
            for i, points in enumerate((x, x_test))
        ]
        model = make_pipeline(
            dk.DivergenceEmbedding("jensen-shannon", n_basis=10, bandwidth=0.05),
            dk.RandomFourierFeatures(D, random_state=0),
            dk.IncrementalSGDRegressor(n_epochs=EPOCHS, random_state=0),
        )
        start, cpu = time.perf_counter(), time.process_time()
        model.fit(sets[0], y)
        predicted = np.asarray(dask.compute(model.predict(sets[1]))[0])
        seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
        return seconds, cpu, float(np.sqrt(((predicted - y_test) ** 2).mean()))

    fit_and_predict("warmup", N_WARMUP_SETS, 2)
    seconds, cpu, error = fit_and_predict("all", n_sets, 0)
    return {"seconds": seconds, "processors": cpu, "rmse": error}


def run_version(code: Path, cache: Path, n_sets: int) -> dict[str, float]:
    """Measure the code of a folder in a new process."""
    with tempfile.TemporaryDirectory() as folder:
        call = [sys.executable, "-W", "ignore", __file__, "--measure", folder, "--sets", str(n_sets)]
        variables = os.environ | {"PYTHONPATH": str(code), "NUMBA_CACHE_DIR": str(cache)}
        out = subprocess.run(call, env=variables, check=True, stdout=subprocess.PIPE, text=True).stdout
    return dict(json.loads(out.splitlines()[-1]))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--commit", default="8388125")
    parser.add_argument("--sets", type=int, default=100_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="2,000 sets, one run")
    parser.add_argument("--output", type=Path, help="write the figures to this JSON file")
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.measure:
        print(json.dumps(measure_fit(args.measure, args.sets)))
        return
    n_sets, repeats = (2000, 1) if args.quick else (args.sets, args.repeats)
    with tempfile.TemporaryDirectory() as folder:
        before = Path(folder) / "before"
        subprocess.run(["git", "clone", "-q", "--no-checkout", str(REPOSITORY), str(before)], check=True)
        subprocess.run(["git", "-C", str(before), "checkout", "-q", args.commit], check=True)
        versions = {args.commit: before, "now": REPOSITORY}
        caches = {name: Path(folder) / f"numba-{name}" for name in versions}
        for name, code in versions.items():
            run_version(code, caches[name], N_WARMUP_SETS)  # compiles
        results: dict[str, list[dict[str, float]]] = {name: [] for name in versions}
        for _ in range(repeats):
            for name, code in versions.items():
                results[name].append(run_version(code, caches[name], n_sets))
    figures: dict[str, Any] = {"sets": n_sets, "repeats": repeats}
    print(f"{n_sets:,} sets, {EPOCHS} epochs, {N_TEST_SETS:,} predicted")
    print(f"{'':<10} {'minimum s':>9} {'median':>8} {'processors':>11} {'RMSE':>8}")
    for name, rows in results.items():
        s, cpu = ([row[key] for row in rows] for key in ("seconds", "processors"))
        figures[name] = {
            "least": min(s),
            "median": float(np.median(s)),
            "processors": min(cpu),
            "rmse": rows[0]["rmse"],
        }
        print(
            f"{name:<10} {min(s):>9.2f} {np.median(s):>8.2f} {min(cpu):>11.2f} {rows[0]['rmse']:>8.4f}",
            flush=True,
        )
    old, new = figures[args.commit], figures["now"]
    print(
        f"{'times':<10} {old['least'] / new['least']:>9.2f} {old['median'] / new['median']:>8.2f} "
        f"{old['processors'] / new['processors']:>11.2f}"
    )
    if args.output is not None:
        args.output.write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
