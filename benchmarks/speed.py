"""Speed and accuracy from a store to a fitted model, printed as tables.

    python benchmarks/speed.py [embedding] [rivals] [mean] [pipeline] [memory] [--quick] [--output results.json]

embedding   sets/s of divergence embedding plus random features on one thread (Jensen-Shannon, D = 5000, 10^d basis),
            and the rms error of d^2 relative to numerical integration on a fine grid; compared, for d = 2, with the
            paper's recipe in NumPy (n_e = 4000 Monte Carlo points, M = 5 random frequencies, iid features)
rivals      microseconds per set of the other embeddings (d = 2, n = 200), compared with NumPy in float64, one set per
            call, on one thread; minima of interleaved runs, and the maximum difference of a row, relative to the
            longest row
mean        kernel mean embeddings (D = 1000, n = 200) by every method: time, compared with NumPy (iid frequencies,
            float64 sines and cosines of X W), and rms error of MMD^2, compared with exact kernels
pipeline    seconds from a store to a fitted SGD model (five epochs) on the cores of this machine, compared with the
            same computation without store or graph: two threads compute features, the main thread updates the model
memory      peak memory in MB of a fit on 200,000 sets, compared with one on 20,000, each in a separate process

Times are medians unless stated otherwise. Compare ratios within one run.
"""

from __future__ import annotations

import argparse
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from common import median_seconds, options, start_report, write
from rivals import RIVALS
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.pipeline import make_pipeline
from threadpoolctl import threadpool_limits

import dkdist as dk

D = 5000


def mixture_sets(n_sets: int, n: int, d: int, seed: int = 0) -> dk.SampleSets:
    """Sets from random Gaussian mixtures in the unit cube, 1 to 5 components each."""
    rng = np.random.default_rng(seed)
    k = 5
    means, spread = rng.random((n_sets, k, d)), rng.uniform(0.03, 0.25, (n_sets, k, d))
    z = rng.integers(0, k, (n_sets, n)) % rng.integers(1, k + 1, (n_sets, 1))
    x = np.take_along_axis(means, z[:, :, None], 1)
    x += np.take_along_axis(spread, z[:, :, None], 1) * rng.standard_normal((n_sets, n, d))
    x = np.clip(1 - np.abs(1 - np.abs(x)), 0, 1)  # reflected into the cube
    return dk.SampleSets(x.reshape(-1, d), np.arange(n_sets + 1) * n)


# ---------------------------------------------------------------------------------------------- embedding


def reflected_kde(points: np.ndarray, nodes: np.ndarray, h: np.ndarray) -> np.ndarray:
    """Return the density estimate at a tensor grid of nodes in float64, as a sum over reflections of the points."""
    d = points.shape[1]
    factors = []
    for j in range(d):
        images = np.concatenate(
            [points[:, j] + 2 * m for m in (-1, 0, 1)] + [2 * m - points[:, j] for m in (0, 1)]
        )
        kernel = np.exp(-((nodes[:, None] - images) ** 2) / (2 * h[j] ** 2)) / (np.sqrt(2 * np.pi) * h[j])
        factors.append(kernel.reshape(len(nodes), -1, len(points)).sum(1))
    grid = {1: "an->a", 2: "an,bn->ab", 3: "an,bn,cn->abc"}[d]
    return np.einsum(grid, *factors, optimize=True).ravel() / len(points)


def reference_distances(sets: dk.SampleSets, h: np.ndarray, n_pairs: int) -> np.ndarray:
    """Return Jensen-Shannon divergences of the estimates of sets 0-1, 2-3, .. by a fine Gauss-Legendre rule."""
    d = sets.n_dims
    x, w = np.polynomial.legendre.leggauss({1: 400, 2: 80, 3: 40}[d])
    x, w = (x + 1) / 2, w / 2
    weights = np.ones(1)
    for _ in range(d):
        weights = np.outer(weights, w).ravel()
    result = []
    for i in range(n_pairs):
        p, q = (
            np.maximum(reflected_kde(sets[2 * i + side].astype(np.float64), x, h), 1e-6) for side in (0, 1)
        )
        kappa = 0.5 * (p * np.log(2 * p / (p + q)) + q * np.log(2 * q / (p + q)))
        result.append(float(weights @ kappa))
    return np.array(result)


def paper_recipe(points: list[np.ndarray], h: float, seed: int = 0) -> Callable[[], None]:
    """Return the algorithm of P1 in NumPy, d = 2: Monte Carlo projections on 10^2 cosines, random frequencies, iid."""
    rng = np.random.default_rng(seed)
    n_e, M, V = 4000, 5, 10
    nodes = rng.random((n_e, 2))
    square = (nodes**2).sum(1)
    a = np.arange(V)
    cosines = np.cos(np.pi * nodes[:, :, None] * a) * np.where(a == 0, 1, np.sqrt(2))
    basis = (cosines[:, 0, :, None] * cosines[:, 1, None, :]).reshape(n_e, -1)
    lam = rng.standard_normal(M)  # the distribution of the frequencies does not change the cost
    W = rng.standard_normal((D // 2, 2 * M * V * V))

    def run() -> None:
        for x in points:
            d2 = square[:, None] + (x**2).sum(1) - 2 * nodes @ x.T
            p = np.exp(d2 / (-2 * h**2)).mean(1) / (2 * np.pi * h**2) + 1e-12
            g = np.sqrt(p)[:, None] * np.exp(1j * np.outer(np.log(p), lam))
            A = basis.T @ g / n_e
            A = np.concatenate([A.real.ravel(), A.imag.ravel()])
            phase = W @ A
            np.concatenate([np.sin(phase), np.cos(phase)])

    return run


def bench_embedding(quick: bool) -> list[dict[str, Any]]:
    rows = []
    for d, n, n_sets, target in ((1, 200, 8192, 100_000), (2, 200, 4096, 25_000), (3, 2048, 512, 4_000)):
        n_sets = n_sets // 8 if quick else n_sets
        sets = mixture_sets(n_sets, n, d)
        with threadpool_limits(1):
            embed = dk.DivergenceEmbedding(
                "jensen-shannon", n_basis=10, bandwidth="scott", domain="unit"
            ).fit(sets)
            features = dk.RandomFourierFeatures(D, random_state=0).fit(embed.transform(sets[:512]))
            spec, frequencies = embed.spec_.materialize(), features.spec_.materialize()
            n_pairs = (20 if quick else 200) if d < 3 else (5 if quick else 40)

            def block(
                rows: slice, spec: Any = spec, frequencies: Any = frequencies, sets: Any = sets
            ) -> None:
                frequencies.transform(spec.embed(sets[rows]))

            step = 512

            def run(n_sets: int = n_sets, step: int = step, block: Any = block) -> None:
                for a in range(0, n_sets, step):
                    block(slice(a, a + step))

            seconds = median_seconds(run, 3 if quick else 7)
            embedding_seconds = median_seconds(lambda spec=spec, sets=sets: spec.embed(sets[:512]), 7) / min(
                512, n_sets
            )  # type: ignore[misc]
            A = spec.embed(sets[: 2 * n_pairs]).astype(np.float64)
            d2 = ((A[0::2] - A[1::2]) ** 2).sum(1)
            truth = reference_distances(sets, embed.bandwidth_, n_pairs)
            error = float(np.sqrt(np.mean((d2 - truth) ** 2) / np.mean(truth**2)))
            row = {
                "d": d, "n": n, "features": A.shape[1], "sets_per_s": n_sets / seconds, "target": target,
                "embedding_us": embedding_seconds * 1e6, "total_us": seconds / n_sets * 1e6, "rms_error": error,
            }  # fmt: skip
            if d == 2:
                sample_points = [sets[i].astype(np.float64) for i in range(4 if quick else 20)]
                paper = median_seconds(paper_recipe(sample_points, float(embed.bandwidth_[0])), 3) / len(
                    sample_points
                )
                row |= {"paper_us": paper * 1e6, "ratio_to_paper": paper / (seconds / n_sets)}
        rows.append(row)
    print("one thread, Jensen-Shannon, D = 5000, 10^d basis")
    print("  d     n  features    sets/s   (target)  us/set  of which A  rms error of d^2   x paper in NumPy")
    for r in rows:
        ratio = f"{r['ratio_to_paper']:.0f} ({r['paper_us']:.0f} us)" if "paper_us" in r else ""
        print(
            f"  {r['d']} {r['n']:>5} {r['features']:>9} {r['sets_per_s']:>9,.0f} {r['target']:>10,}"
            f" {r['total_us']:>7.1f} {r['embedding_us']:>11.1f} {r['rms_error']:>16.2%}   {ratio}"
        )
    return rows


# ---------------------------------------------------------------------------------------------- rivals


def bench_rivals(quick: bool) -> list[dict[str, Any]]:
    n_sets, n_few, step, repeats = (512, 64, 512, 5) if quick else (4096, 256, 512, 25)
    sets = mixture_sets(n_sets, 200, 2)
    sample_points = [sets[i].astype(np.float64) for i in range(n_few)]
    rows = []
    for name, (embedding, in_numpy) in RIVALS.items():
        fitted = embedding.fit(sets)
        embed, numpy_embed = fitted.spec_.materialize().embed, in_numpy(fitted)
        times = []
        with threadpool_limits(1):
            embed(sets[:step])
            for _ in range(repeats):
                start = time.perf_counter()
                for a in range(0, n_sets, step):
                    embed(sets[a : a + step])
                middle = time.perf_counter()
                expected = np.array([numpy_embed(x) for x in sample_points])
                times.append(((middle - start) / n_sets, (time.perf_counter() - middle) / n_few))
        dkdist_us, plain_us = np.min(times, axis=0) * 1e6
        norm = np.linalg.norm(expected, axis=1).max()
        error = float(np.linalg.norm(embed(sets[:n_few]) - expected, axis=1).max() / norm)
        rows.append({"name": name, "features": expected.shape[1], "us": dkdist_us, "numpy_us": plain_us,
                     "ratio": plain_us / dkdist_us, "error": error, "target": 10})  # fmt: skip
    print("one thread, d = 2, n = 200, 10 functions or bins a dimension; target: 10 x NumPy")
    print(f"  {'embedding':<26} features  us/set  NumPy us/set  ratio  error of a row")
    for r in rows:
        print(
            f"  {r['name']:<26} {r['features']:>8} {r['us']:>7.2f} {r['numpy_us']:>13.1f} {r['ratio']:>6.0f}"
            f" {r['error']:>15.1e}"
        )
    return rows


# ---------------------------------------------------------------------------------------------- mean embeddings


def plain_means(points: list[np.ndarray], sigma: float, n_components: int) -> Callable[[], np.ndarray]:
    """Return a function of NumPy that averages random Fourier features over the points of each set."""
    F = n_components // 2
    W = np.random.default_rng(0).standard_normal((points[0].shape[1], F)) / sigma

    def run() -> np.ndarray:
        phases = (x @ W for x in points)
        rows = [np.concatenate([np.sin(p).mean(axis=0), np.cos(p).mean(axis=0)]) for p in phases]
        return np.array(rows) / np.sqrt(F)

    return run


def exact_mmd2(points: list[np.ndarray], sigma: float) -> np.ndarray:
    """Return MMD^2 of sets 0-1, 2-3, .. by means over all pairs of points."""
    gamma = 1 / (2 * sigma**2)
    return np.array(
        [
            rbf_kernel(x, x, gamma).mean()
            + rbf_kernel(y, y, gamma).mean()
            - 2 * rbf_kernel(x, y, gamma).mean()
            for x, y in zip(points[0::2], points[1::2], strict=True)
        ]
    )


def bench_mean(quick: bool) -> list[dict[str, Any]]:
    n, n_sets, n_exact, n_components = 200, 128 if quick else 1024, 20 if quick else 200, 1000
    rows = []
    for d in (1, 2, 3, 8):
        sets = mixture_sets(n_sets, n, d)
        points = [sets[i].astype(np.float64) for i in range(n_exact)]
        for method in ("fourier", "orthogonal", "sobol", "iid")[d > 3 :]:
            with threadpool_limits(1):
                mean = dk.MeanEmbedding(n_components, method=method, random_state=0).fit(sets)
                parameters, sigma = mean.spec_.materialize(), float(mean.sigma_)
                numpy_embed, plain_call = (
                    plain_means(points, sigma, n_components),
                    plain_means(points[:20], sigma, n_components),
                )
                plain_s = median_seconds(plain_call, 3 if quick else 7) / 20
                seconds = median_seconds(lambda p=parameters, s=sets: p.embed(s), 3 if quick else 7) / n_sets  # type: ignore[misc]
            truth = exact_mmd2(points, sigma)
            results = (parameters.embed(sets[:n_exact]), numpy_embed())
            d2 = [((A[0::2].astype(np.float64) - A[1::2]) ** 2).sum(axis=1) for A in results]
            errors = [float(np.sqrt(np.mean((x - truth) ** 2) / np.mean(truth**2))) for x in d2]
            rows.append({
                "d": d, "method": method, "features": mean.spec_.n_features, "us": seconds * 1e6,
                "plain_us": plain_s * 1e6, "ratio": plain_s / seconds, "target": 25,
                "rms_error": errors[0], "plain_error": errors[1], "error_bound": mean.error_bound_,
            })  # fmt: skip
    print(f"one thread, mean embeddings at D <= {n_components}, n = {n}, sigma the median distance")
    print(
        "  d  method      features  us/set  x plain NumPy  (target)  rms error of MMD^2  of plain  certified bound"
    )
    for r in rows:
        bound = f"{r['error_bound']:.1e}" if r["error_bound"] else ""
        print(
            f"  {r['d']}  {r['method']:<10} {r['features']:>9} {r['us']:>7.1f} {r['ratio']:>14.0f} {r['target']:>9}"
            f" {r['rms_error']:>19.1e} {r['plain_error']:>9.1e} {bound:>16}"
        )
    return rows


# ---------------------------------------------------------------------------------------------- the whole pipeline


def write_store(path: str, n_sets: int) -> np.ndarray:
    """Write sets of two classes of mixtures, 200 points in the plane; return their classes."""
    rng = np.random.default_rng(1)
    y = rng.integers(0, 2, n_sets)
    with dk.SetWriter(path, n_dims=2) as writer:
        for a in range(0, n_sets, 10_000):
            k = y[a : a + 10_000]
            means = rng.uniform(0.2, 0.8, (len(k), 2, 2))
            z = rng.integers(0, 2, (len(k), 200)) * k[:, None]
            x = np.take_along_axis(means, z[:, :, None].repeat(2, 2), 1)
            x = np.clip(x + 0.08 * rng.standard_normal(x.shape), 0, 1).astype(np.float32)
            writer.append(dk.SampleSets(x.reshape(-1, 2), np.arange(len(k) + 1) * 200), targets=k)
    return y


def pipeline(epochs: int) -> Any:
    return make_pipeline(
        dk.DivergenceEmbedding("jensen-shannon", n_basis=10, bandwidth="scott"),
        dk.RandomFourierFeatures(D, random_state=0),
        dk.IncrementalSGDClassifier(n_epochs=epochs, random_state=0),
    )


def bare_loop(model: Any, sets: dk.SampleSets, y: np.ndarray, epochs: int, rows: int = 1024) -> None:
    """Run the computation of ``fit`` without store, graph or scheduler, on points in memory.

    Two threads compute features, and SGD uses the blocks in order. Bounds, bandwidths and step size are computed, too.
    """
    from dkdist._base.sampling import median_distance, moments
    from dkdist.linear.rows import RowBatch, RowLabels
    from dkdist.linear.sgd_steps import Objective, State, prepare, step, step_size

    assert len(sets.bounds) == 2
    moments(sets[:256].points, sets[:256].offsets, None)
    sample = model[0].spec_.materialize().embed(sets[:1024])
    median_distance(sample[:512])
    step_size("log_loss", model[1].spec_.materialize().transform(sample))
    spec, frequencies = model[0].spec_.materialize(), model[1].spec_.materialize()
    objective = Objective("log_loss", model[-1].alpha, model[-1].eta0_, n_classes=2)
    state = State.start(1, D, np.dtype(np.float32))

    def prepare_batch(a: int) -> Any:
        part = sets[a : a + rows]
        Z = frequencies.transform(spec.embed(part))
        held_out = np.zeros(len(part), bool)
        extra = RowBatch((a,), (len(part),), D, RowLabels(y[a : a + rows], held_out), seed=(a,))
        return prepare(np.dtype(np.float32), iter([Z]), extra)

    with ThreadPoolExecutor(2) as pool, threadpool_limits(1):
        pending: list[Future[Any]] = []
        for _ in range(epochs):
            for a in range(0, len(sets), rows):
                pending.append(pool.submit(prepare_batch, a))
                if len(pending) == 4:
                    state = step(objective, state, pending.pop(0).result())
        while pending:
            state = step(objective, state, pending.pop(0).result())


def bench_pipeline(quick: bool) -> dict[str, Any]:
    n_sets, epochs = (4_096, 2) if quick else (51_200, 5)
    with tempfile.TemporaryDirectory() as folder:
        y = write_store(f"{folder}/sets.zarr", n_sets)
        sets = dk.open_sets(f"{folder}/sets.zarr")
        loaded = sets.load()
        model = pipeline(epochs)
        model.fit(sets[:2048], y[:2048])  # compile
        ratios, pipeline_seconds, loop_seconds = [], [], []
        for _ in range(1 if quick else 5):
            start = time.perf_counter()
            model.fit(sets, y)
            middle = time.perf_counter()
            bare_loop(model, loaded, y, epochs)
            end = time.perf_counter()
            pipeline_seconds.append(middle - start)
            loop_seconds.append(end - middle)
            ratios.append(pipeline_seconds[-1] / loop_seconds[-1])
    row = {
        "sets": n_sets, "epochs": epochs, "pipeline_s": float(np.median(pipeline_seconds)),
        "bare_loop_s": float(np.median(loop_seconds)), "ratio": float(np.median(ratios)), "target": 1.15,
    }  # fmt: skip
    print(
        f"store to fitted SGD, {n_sets:,} sets, {epochs} epochs, two cores: {row['pipeline_s']:.2f} s; "
        f"the same numerics in a bare loop: {row['bare_loop_s']:.2f} s; ratio {row['ratio']:.3f} (target 1.15)"
    )
    return row


# ---------------------------------------------------------------------------------------------- memory


def fit_and_measure(path: str) -> float:
    """Return the peak resident memory of this process in MB after a fit on a store."""
    sets = dk.open_sets(path)
    pipeline(1).fit(sets, sets.targets["y"])
    # ru_maxrss would include the peak of the parent process before the fork
    status = Path("/proc/self/status")
    if status.exists():
        return float(re.search(r"VmHWM:\s+(\d+)", status.read_text()).group(1)) / 1024  # type: ignore[union-attr]
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def bench_memory(quick: bool) -> dict[str, Any]:
    sizes = (4_000, 20_000) if quick else (20_000, 200_000)
    peaks = []
    with tempfile.TemporaryDirectory() as folder:
        for n_sets in sizes:
            path = f"{folder}/{n_sets}.zarr"
            write_store(path, n_sets)
            command = [sys.executable, __file__, "--measure", path]
            peaks.append(float(subprocess.run(command, check=True, capture_output=True, text=True).stdout))
    row = {"sets": sizes, "peak_mb": peaks, "ratio": peaks[1] / peaks[0], "target": 1.2}
    print(
        f"peak memory of a fit: {peaks[0]:.0f} MB over {sizes[0]:,} sets, {peaks[1]:.0f} MB over {sizes[1]:,}; "
        f"ratio {row['ratio']:.3f} (target 1.2)"
    )
    return row


PARTS: dict[str, Callable[[bool], Any]] = {
    "embedding": bench_embedding,
    "rivals": bench_rivals,
    "mean": bench_mean,
    "pipeline": bench_pipeline,
    "memory": bench_memory,
}


def main(argv: list[str] | None = None) -> dict[str, Any]:
    parser = options(__doc__)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help="what to measure (default: all)")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    if args.measure:
        print(fit_and_measure(args.measure))
        return {}
    figures = start_report() | {part: PARTS[part](args.quick) for part in args.parts or PARTS}
    write(args.output, figures)
    return figures


if __name__ == "__main__":
    main()
