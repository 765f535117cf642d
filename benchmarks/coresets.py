"""Coresets of a huge stored set, compared with coresets in memory; mean embedding of a huge stored set.

    python benchmarks/coresets.py [--points 10000000] [--size 256] [--embed 100000000] [--folder DIR] [--quick]
                                  [--output coresets.json]

One set of points in the plane (ten Gaussians in the unit square, float32) is written to a store. Each stage runs once,
in a separate process; its peak memory in MB is that of the operating system. Stage "baseline" uses 1,000 points.

stored      the coreset of the stored set, which is read in pieces, on all cores: kernel distance, seconds, peak memory
memory      the same for the loaded set, compared with random samples (median of three); and the kernel distance of the
            coreset from "stored" to all points, recomputed in memory by `kernel_distance`
kernels     coresets of at most 50,000 points by each kernel: distances by all pairs, reported distance / distance by
            all pairs, distances after `merge_coresets` thins a coreset of 5 times the size, and the expected distance
            of a random sample
embed       ``MeanEmbedding(method="fourier")`` of a stored set of ``--embed`` points: one pass for the bounds, one for
            the row
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
from common import options, peak, start_report, write

import dkdist as dk

SIGMA = 0.1
KERNELS = ("gaussian", "rational-quadratic", "matern52", "matern32", "matern12", "laplace")
MAX_EXACT_POINTS = 50_000  # for distances by all pairs
FAR_POINT = np.full((1, 2), 1e6)  # all kernels are 0 at this distance


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


def baseline(path: Path, n: int, size: int) -> dict[str, Any]:
    dk.coreset(make_points(1000), 10, sigma=SIGMA, random_state=0)
    return {}


def stored(path: Path, n: int, size: int) -> dict[str, Any]:
    dk.coreset(make_points(1000), 10, sigma=SIGMA, random_state=0)  # compiles
    start = time.perf_counter()
    thinned = dk.coreset(dk.open_sets(path), size, sigma=SIGMA, random_state=0)
    return {
        "seconds": time.perf_counter() - start,
        "distance": thinned.distance,
        "indices": thinned.indices.tolist(),
        "weights": thinned.weights.tolist(),
    }


def memory(path: Path, n: int, size: int) -> dict[str, Any]:
    x, stored_result = dk.open_sets(path)[0], json.loads(Path(f"{path}.json").read_text())
    start = time.perf_counter()
    thinned = dk.coreset(x, size, sigma=SIGMA, random_state=0)
    seconds = time.perf_counter() - start
    sample = [dk.coreset(x, size, sigma=SIGMA, method="random", random_state=s).distance for s in range(3)]
    stored_coreset = x[np.array(stored_result["indices"])], np.array(stored_result["weights"])
    independent = dk.kernel_distance(
        x, stored_coreset[0], sigma=SIGMA, weights=(None, stored_coreset[1]), eps=1e-7
    )
    return {
        "seconds": seconds,
        "distance": thinned.distance,
        "random": float(np.median(sample)),
        "independent": independent,
    }


def kernels(path: Path, n: int, size: int) -> dict[str, Any]:
    x = make_points(min(n, MAX_EXACT_POINTS)).astype("f8")
    inputs, rows = {"memory": x, "stored": dk.write_sets(f"{path}.few", [x])}, {}
    for kernel in KERNELS:
        distance = partial(dk.kernel_distance, x, sigma=SIGMA, kernel=kernel, method="exact")
        one_and_mean = distance(FAR_POINT, squared=True)  # k(x, x) + the mean of k over all pairs
        rows[kernel] = row = {"random": float(np.sqrt((2 - one_and_mean) / size))}
        for name, points in inputs.items():
            dk.coreset(points, 2, sigma=SIGMA, kernel=kernel, random_state=0)  # compiles
            start = time.perf_counter()
            thinned = dk.coreset(points, size, sigma=SIGMA, kernel=kernel, random_state=0)
            row[f"{name}_seconds"] = time.perf_counter() - start
            row[name] = distance(thinned.points, weights=(None, thinned.weights))
            row[f"{name}_reported"] = thinned.distance / row[name]
        large_coreset = dk.coreset(x, 5 * size, sigma=SIGMA, kernel=kernel, random_state=0)
        thinned = dk.merge_coresets([large_coreset], size, random_state=0)
        row["merged"] = distance(thinned.points, weights=(None, thinned.weights))
    return {"rows": rows}


def embed(path: Path, n: int, size: int) -> dict[str, Any]:
    sets = dk.open_sets(path)
    start = time.perf_counter()
    embedding = dk.MeanEmbedding(1000, SIGMA, "fourier").fit(sets)
    fitted = time.perf_counter()
    row = embedding.transform(sets).compute()[0]
    seconds = {"fit": fitted - start, "transform": time.perf_counter() - fitted}
    thinned = embedding.transform([make_points(1_000_000)])[0]  # of the same distribution
    return {
        "seconds": seconds,
        "features": len(row),
        "error_bound": embedding.error_bound_,
        "distance_to_a_million": float(np.sqrt(((row - thinned) ** 2).sum())),
    }


STAGES = {f.__name__: f for f in (generate, baseline, stored, memory, kernels, embed)}


def run(stage: str, path: Path, n: int, size: int, quick: bool) -> Any:
    if quick:  # in this process: the peak is that of all stages
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
    result = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    result["process_seconds"] = time.perf_counter() - start
    return result


def coresets(folder: Path, n: int, size: int, quick: bool) -> dict[str, Any]:
    path = folder / "coreset.zarr"
    run("generate", path, n, size, quick)
    base, from_store = run("baseline", path, n, size, quick), run("stored", path, n, size, quick)
    Path(f"{path}.json").write_text(json.dumps(from_store))
    in_memory = run("memory", path, n, size, quick)
    print(f"a coreset of {size} of {n:,} points, {8 * n / 1e6:,.0f} MB, sigma {SIGMA}")
    print(
        f"  stored    distance {from_store['distance']:.3e}  {from_store['seconds']:7.1f} s  "
        f"peak {from_store['peak_mb']:6.0f} MB"
    )
    print(
        f"  memory    distance {in_memory['distance']:.3e}  {in_memory['seconds']:7.1f} s  "
        f"peak {in_memory['peak_mb']:6.0f} MB"
    )
    print(
        f"  random    distance {in_memory['random']:.3e}   (a thousand points: peak {base['peak_mb']:.0f} MB)"
    )
    print(f"  stored, recomputed in memory: {in_memory['independent']:.3e}")
    row = {"points": n, "size": size, "stored": from_store["distance"], "memory": in_memory["distance"]}
    row |= {key: in_memory[key] for key in ("random", "independent")}
    row["seconds"] = {"stored": from_store["seconds"], "memory": in_memory["seconds"]}
    row["peak_mb"] = {
        "stored": from_store["peak_mb"],
        "memory": in_memory["peak_mb"],
        "baseline": base["peak_mb"],
    }
    return row


def other_kernels(folder: Path, n: int, size: int, quick: bool) -> dict[str, Any]:
    rows: dict[str, Any] = run("kernels", folder / "kernels.zarr", n, size, quick)["rows"]
    print(
        f"coresets of {size} of {min(n, MAX_EXACT_POINTS):,} points by other kernels: distance, "
        "reported / distance, seconds"
    )
    for kernel, row in rows.items():
        columns = (
            f"{name} {row[name]:.3e} {row[f'{name}_reported']:6.3f} {row[f'{name}_seconds']:6.2f} s"
            for name in ("memory", "stored")
        )
        print(f"  {kernel:18s}  random {row['random']:.3e}  {'  '.join(columns)}  merged {row['merged']:.3e}")
    return rows


def embeddings(folder: Path, n: int, size: int, quick: bool) -> dict[str, Any]:
    path = folder / "embed.zarr"
    run("generate", path, n, size, quick)
    result = run("embed", path, n, size, quick)
    seconds = result["seconds"]
    print(f"a mean embedding of {n:,} points, {8 * n / 1e6:,.0f} MB, {result['features']} features")
    print(
        f"  fit {seconds['fit']:.1f} s, transform {seconds['transform']:.1f} s, peak {result['peak_mb']:.0f} MB"
    )
    print(
        f"  error bound {result['error_bound']:.1e}; distance to a million {result['distance_to_a_million']:.1e}"
    )
    return {"points": n} | result


def main(argv: list[str] | None = None) -> None:
    parser = options(__doc__)
    parser.add_argument("--points", type=int, default=10_000_000)
    parser.add_argument("--size", type=int, default=256)
    parser.add_argument("--embed", type=int, help="points of a set to embed, for example 100000000")
    parser.add_argument("--folder", type=Path, help="folder of the stores, which are removed at the end")
    parser.add_argument("--stage", choices=STAGES, help=argparse.SUPPRESS)
    parser.add_argument("--store", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    if args.stage:
        result = STAGES[args.stage](args.store, args.points, args.size)
        print(json.dumps(result | {"peak_mb": peak()}))
        return
    if args.quick:
        args.points, args.embed, args.size = 8_000, 20_000, 64
    figures = start_report()
    with tempfile.TemporaryDirectory(dir=args.folder) as folder:
        figures["coreset"] = coresets(Path(folder), args.points, args.size, args.quick)
        figures["kernels"] = other_kernels(Path(folder), args.points, args.size, args.quick)
        if args.embed:
            figures["embed"] = embeddings(Path(folder), args.embed, args.size, args.quick)
    write(args.output, figures)


if __name__ == "__main__":
    main()
