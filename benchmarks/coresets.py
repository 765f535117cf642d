"""Huge stored sets: a coreset from two passes beside the one found in memory, and a mean embedding from one pass.

    python benchmarks/coresets.py [--points 10000000] [--size 256] [--embed 100000000] [--folder DIR] [--quick]
                                  [--output coresets.json]

One set of points in the plane (ten Gaussians in the unit square, float32) is written to a store. Each stage is a
process of its own, whose peak memory is what the system counts; "nothing" thins a thousand points.

stored      the coreset of the stored set, read piece by piece (all cores)
memory      the same of the loaded set; a random sample beside it; and the distance of the stored set's coreset to the
            whole set, found by `kernel_distance` in memory, beside the one that was reported
kernels     coresets of at most 50,000 points by each kernel: true distances by all pairs, what was reported over them,
            those of coresets five times as large that `merge_coresets` thins, and that of a random sample by theory
embed       ``MeanEmbedding(method="fourier")`` of a stored set of ``--embed`` points: bounds in one pass, the row in
            another
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from common import options, peak, report_here, write

import dkdist as dk

SIGMA = 0.1
KERNELS = ("gaussian", "rational-quadratic", "matern52", "matern32", "matern12", "laplace")
MOST_PAIRS = 50_000  # points of which all pairs are taken
NOWHERE = np.full((1, 2), 1e6)  # where no kernel reaches


def make_points(n: int) -> np.ndarray:
    rng = np.random.default_rng(0)
    means, widths = rng.random((10, 2), dtype="f4"), rng.uniform(0.02, 0.12, 10).astype("f4")
    which = rng.integers(0, 10, n, dtype=np.int8)
    x = rng.standard_normal((n, 2), dtype="f4")
    x *= widths[which, None]
    x += means[which]
    return np.clip(x, 0, 1, out=x)


def generate(path: Path, n: int, size: int) -> dict[str, Any]:
    dk.write_sets(path, [make_points(n)])
    return {"bytes": sum(f.stat().st_size for f in path.rglob("*") if f.is_file())}


def nothing(path: Path, n: int, size: int) -> dict[str, Any]:
    dk.coreset(make_points(1000), 10, sigma=SIGMA, random_state=0)
    return {}


def stored(path: Path, n: int, size: int) -> dict[str, Any]:
    dk.coreset(make_points(1000), 10, sigma=SIGMA, random_state=0)  # compiles
    start = time.perf_counter()
    few = dk.coreset(dk.open_sets(path), size, sigma=SIGMA, random_state=0)
    return {
        "seconds": time.perf_counter() - start,
        "distance": few.distance,
        "indices": few.indices.tolist(),
        "weights": few.weights.tolist(),
    }


def memory(path: Path, n: int, size: int) -> dict[str, Any]:
    x, other = dk.open_sets(path)[0], json.loads(Path(f"{path}.json").read_text())
    start = time.perf_counter()
    few = dk.coreset(x, size, sigma=SIGMA, random_state=0)
    seconds = time.perf_counter() - start
    sample = [dk.coreset(x, size, sigma=SIGMA, method="random", random_state=s).distance for s in range(3)]
    theirs = x[np.array(other["indices"])], np.array(other["weights"])
    independent = dk.kernel_distance(x, theirs[0], sigma=SIGMA, weights=(None, theirs[1]), eps=1e-7)
    return {
        "seconds": seconds,
        "distance": few.distance,
        "random": float(np.median(sample)),
        "independent": independent,
    }


def kernels(path: Path, n: int, size: int) -> dict[str, Any]:
    x = make_points(min(n, MOST_PAIRS)).astype("f8")
    given, rows = {"memory": x, "stored": dk.write_sets(f"{path}.few", [x])}, {}
    for kernel in KERNELS:
        by = partial(dk.kernel_distance, x, sigma=SIGMA, kernel=kernel, method="exact")
        one_and_mean = by(NOWHERE, squared=True)  # k(x, x) and the mean of all k
        rows[kernel] = row = {"random": float(np.sqrt((2 - one_and_mean) / size))}
        for name, points in given.items():
            dk.coreset(points, 2, sigma=SIGMA, kernel=kernel, random_state=0)  # compiles
            start = time.perf_counter()
            few = dk.coreset(points, size, sigma=SIGMA, kernel=kernel, random_state=0)
            row[f"{name}_seconds"] = time.perf_counter() - start
            row[name] = by(few.points, weights=(None, few.weights))
            row[f"{name}_reported"] = few.distance / row[name]
        many = dk.coreset(x, 5 * size, sigma=SIGMA, kernel=kernel, random_state=0)
        few = dk.merge_coresets([many], size, random_state=0)
        row["merged"] = by(few.points, weights=(None, few.weights))
    return {"rows": rows}


def embed(path: Path, n: int, size: int) -> dict[str, Any]:
    sets = dk.open_sets(path)
    start = time.perf_counter()
    embedding = dk.MeanEmbedding(1000, SIGMA, "fourier").fit(sets)
    fitted = time.perf_counter()
    row = embedding.transform(sets).compute()[0]
    seconds = {"fit": fitted - start, "transform": time.perf_counter() - fitted}
    few = embedding.transform([make_points(1_000_000)])[0]  # of the same distribution
    return {
        "seconds": seconds,
        "features": len(row),
        "error_bound": embedding.error_bound_,
        "distance_to_a_million": float(np.sqrt(((row - few) ** 2).sum())),
    }


STAGES = {f.__name__: f for f in (generate, nothing, stored, memory, kernels, embed)}


def run(stage: str, path: Path, n: int, size: int, quick: bool) -> Any:
    if quick:  # in this process, whose peak is that of all stages
        start = time.perf_counter()
        return STAGES[stage](path, n, size) | {
            "peak_mb": peak(),
            "process_seconds": time.perf_counter() - start,
        }
    command = [
        sys.executable,
        __file__,
        "--stage",
        stage,
        "--store",
        str(path),
        "--points",
        str(n),
        "--size",
        str(size),
    ]
    start = time.perf_counter()
    found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    found["process_seconds"] = time.perf_counter() - start
    return found


def coresets(folder: Path, n: int, size: int, quick: bool) -> dict[str, Any]:
    path = folder / "coreset.zarr"
    run("generate", path, n, size, quick)
    base, ours = run("nothing", path, n, size, quick), run("stored", path, n, size, quick)
    Path(f"{path}.json").write_text(json.dumps(ours))
    beside = run("memory", path, n, size, quick)
    print(f"a coreset of {size} of {n:,} points, {8 * n / 1e6:,.0f} MB, sigma {SIGMA}")
    print(
        f"  stored    distance {ours['distance']:.3e}  {ours['seconds']:7.1f} s  peak {ours['peak_mb']:6.0f} MB"
    )
    print(
        f"  memory    distance {beside['distance']:.3e}  {beside['seconds']:7.1f} s  peak {beside['peak_mb']:6.0f} MB"
    )
    print(f"  random    distance {beside['random']:.3e}   (a thousand points: peak {base['peak_mb']:.0f} MB)")
    print(f"  stored, found independently in memory: {beside['independent']:.3e}")
    row = {"points": n, "size": size, "stored": ours["distance"], "memory": beside["distance"]}
    row |= {key: beside[key] for key in ("random", "independent")}
    row["seconds"] = {"stored": ours["seconds"], "memory": beside["seconds"]}
    row["peak_mb"] = {"stored": ours["peak_mb"], "memory": beside["peak_mb"], "nothing": base["peak_mb"]}
    return row


def other_kernels(folder: Path, n: int, size: int, quick: bool) -> dict[str, Any]:
    rows: dict[str, Any] = run("kernels", folder / "kernels.zarr", n, size, quick)["rows"]
    print(
        f"coresets of {size} of {min(n, MOST_PAIRS):,} points by other kernels: distance, reported over it, seconds"
    )
    for kernel, row in rows.items():
        each = (
            f"{name} {row[name]:.3e} {row[f'{name}_reported']:6.3f} {row[f'{name}_seconds']:6.2f} s"
            for name in ("memory", "stored")
        )
        print(f"  {kernel:18s}  random {row['random']:.3e}  {'  '.join(each)}  merged {row['merged']:.3e}")
    return rows


def embeddings(folder: Path, n: int, size: int, quick: bool) -> dict[str, Any]:
    path = folder / "embed.zarr"
    run("generate", path, n, size, quick)
    found = run("embed", path, n, size, quick)
    seconds = found["seconds"]
    print(f"a mean embedding of {n:,} points, {8 * n / 1e6:,.0f} MB, {found['features']} features")
    print(
        f"  fit {seconds['fit']:.1f} s, transform {seconds['transform']:.1f} s, peak {found['peak_mb']:.0f} MB"
    )
    print(
        f"  error bound {found['error_bound']:.1e}; distance to a million {found['distance_to_a_million']:.1e}"
    )
    return {"points": n} | found


def main(argv: list[str] | None = None) -> None:
    parser = options(__doc__)
    parser.add_argument("--points", type=int, default=10_000_000)
    parser.add_argument("--size", type=int, default=256)
    parser.add_argument("--embed", type=int, help="points of a set that is embedded, 100000000 say")
    parser.add_argument("--folder", type=Path, help="where the stores go; they are removed at the end")
    parser.add_argument("--stage", choices=STAGES, help=argparse.SUPPRESS)
    parser.add_argument("--store", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    if args.stage:
        found = STAGES[args.stage](args.store, args.points, args.size)
        print(json.dumps(found | {"peak_mb": peak()}))
        return
    if args.quick:
        args.points, args.embed, args.size = 8_000, 20_000, 64
    figures = report_here()
    with tempfile.TemporaryDirectory(dir=args.folder) as folder:
        figures["coreset"] = coresets(Path(folder), args.points, args.size, args.quick)
        figures["kernels"] = other_kernels(Path(folder), args.points, args.size, args.quick)
        if args.embed:
            figures["embed"] = embeddings(Path(folder), args.embed, args.size, args.quick)
    write(args.output, figures)


if __name__ == "__main__":
    main()
