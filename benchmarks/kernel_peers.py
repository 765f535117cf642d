"""Comparisons of `kernel.py` with other libraries; missing libraries are named and skipped.

    pip install finufft faiss-cpu pykeops goodpoints        (the last two need a C++ compiler)

keops      exact sums in float64, compared with KeOps in float32 on the CPU
finufft    kernel_distance by "fourier", compared with only the non-uniform FFT for the same frequencies by finufft;
           with equal and with random weights
coresets   128 of 16,384 points, compared with Compress++ of goodpoints and random samples; 256 of a million points
mean       random features of many sets, compared with NumPy in float64
nearest    10 of 100,000 rows of 128, 256 and 512 columns, compared with the exact search of faiss

Times are median seconds of one thread; "ratio" is the time of the other library divided by that of dkdist.
"""

from __future__ import annotations

import time
from importlib import import_module
from typing import Any

import numpy as np
from common import medians, two_clouds

import dkdist as dk

METHODS = ("swap", "halving", "stratified", "random")


def installed(name: str) -> Any:
    """Return a module, or None after printing why it is missing."""
    try:
        return import_module(name)
    except Exception as error:  # KeOps compiles on import and may raise any error
        print(
            f"  {name}: not installed ({type(error).__name__}: {str(error).splitlines()[0][:90]})", flush=True
        )
        return None


def line(name: str, row: dict[str, Any]) -> dict[str, Any]:
    cells = [
        f"{key} {value:.4g}" if isinstance(value, float) else f"{key} {value}" for key, value in row.items()
    ]
    print(f"  {name:<10} " + ", ".join(cells), flush=True)
    return row


def by_keops(keops: Any, P: np.ndarray, Q: np.ndarray, sigma: float) -> float:
    def mean(x: np.ndarray, y: np.ndarray) -> float:
        a, b = keops.LazyTensor(x[:, None]), keops.LazyTensor(y[None])
        sums = (-((a - b) ** 2).sum(-1) / (2 * sigma**2)).exp().sum(axis=1, backend="CPU")
        return float(sums.sum(dtype=np.float64)) / len(x) / len(y)

    return mean(P, P) + mean(Q, Q) - 2 * mean(P, Q)


def keops_rows(quick: bool) -> list[dict[str, Any]]:
    keops = installed("pykeops.numpy")
    if keops is None:
        return []
    rows, n = [], 500 if quick else 10_000
    for d in (2, 3):
        P, Q = two_clouds(n, d, d)
        P32, Q32 = P.astype(np.float32), Q.astype(np.float32)
        calls = [
            lambda P=P, Q=Q: dk.kernel_distance(P, Q, sigma=0.3, squared=True, method="exact"),
            lambda P=P32, Q=Q32: by_keops(keops, P, Q, 0.3),
        ]
        (a, b), (x, y) = medians(calls, 2 if quick else 5)
        rows.append(line("keops", {
            "d": d, "n": n, "seconds": float(a), "peer_seconds": float(b), "ratio": float(b / a),
            "difference": abs(x - y),
        }))  # fmt: skip
    return rows


def finufft_rows(quick: bool, eps: float) -> list[dict[str, Any]]:
    finufft = installed("finufft")
    if finufft is None:
        return []
    rows, n, sigma = [], 1000 if quick else 100_000, 0.1 if quick else 0.02
    for d, weighted in ((2, False), (2, True), (3, False), (3, True)):
        P, Q = two_clouds(n, d, d)
        p, q = np.random.default_rng(0).dirichlet(np.ones(n), 2) if weighted else np.full((2, n), 1 / n)
        reach = np.sqrt(2 * np.log(40 / eps)) * sigma
        L = 1 / np.sqrt(d) + reach
        n_frequencies = int(np.sqrt(2 * np.log(40 / eps)) / sigma * L / (2 * np.pi)) + 1
        k = np.arange(-n_frequencies, n_frequencies + 1)
        w = np.sqrt(2 * np.pi) * sigma / L * np.exp(-((2 * np.pi * k / L * sigma) ** 2) / 2)
        turns = [np.ascontiguousarray(c) for c in (np.concatenate([P, Q]) * (2 * np.pi / L) - np.pi).T]
        z = np.concatenate([p, -q]).astype(complex)
        kwargs = {"sigma": sigma, "eps": eps, "weights": (p, q) if weighted else None}

        def by_finufft(d: int = d, turns: Any = turns, z: Any = z, k: Any = k, w: Any = w) -> float:
            F = getattr(finufft, f"nufft{d}d1")(*turns, z, (len(k),) * d, eps=eps / 10, nthreads=1)
            E = np.abs(F) ** 2
            for _ in range(d):
                E = np.tensordot(w, E, axes=(0, 0))
            return float(E)

        def run_dkdist(P: np.ndarray = P, Q: np.ndarray = Q, kwargs: Any = kwargs) -> float:
            return dk.kernel_distance(P, Q, squared=True, method="fourier", **kwargs)

        (a, b), (x, y) = medians([run_dkdist, by_finufft], 2 if quick else 7)
        rows.append(line("finufft", {
            "d": d, "n": n, "sigma": sigma, "weighted": weighted, "seconds": float(a), "peer_seconds": float(b),
            "ratio": float(b / a), "difference": abs(x - y),
        }))  # fmt: skip
    return rows


def coreset_rows(quick: bool) -> list[dict[str, Any]]:
    """Return rows of median seconds and median distances by all pairs, over seeds."""
    n, size, seeds = (1024, 32, 2) if quick else (16_384, 128, 7)
    compress = installed("goodpoints.compress")
    results: dict[str, list[tuple[float, float]]] = {}
    for method in METHODS:
        dk.coreset(np.random.default_rng(0).normal(size=(n, 2)), size, sigma=1.0, method=method)
    for seed in range(seeds):
        P = np.random.default_rng(seed).normal(size=(n, 2))

        def peer(g: int, P: np.ndarray = P, seed: int = seed) -> Any:
            return compress.compresspp_kt(P, b"gaussian", k_params=np.array([2.0]), g=g, seed=seed)

        calls = {
            method: lambda P=P, m=method: dk.coreset(P, size, sigma=1.0, method=m, random_state=0).indices
            for method in METHODS
        }
        calls |= {f"Compress++ g={g}": lambda g=g: peer(g) for g in (0, 4)} if compress else {}
        for name, call in calls.items():
            start = time.perf_counter()
            indices = call()
            elapsed = time.perf_counter() - start
            distance = dk.kernel_distance(P, P[indices], sigma=1.0, method="exact")
            results.setdefault(name, []).append((elapsed, distance))
    swap = np.median(results["swap"], axis=0)
    rows = []
    for name, values in results.items():
        elapsed, distance = np.median(values, axis=0)
        rows.append(line("coreset", {
            "method": name, "n": n, "size": size, "seconds": float(elapsed), "distance": float(distance),
            "error_ratio": float(swap[1] / distance), "speed_ratio": float(elapsed / swap[0]),
        }))  # fmt: skip
    return rows


def million_row(quick: bool) -> dict[str, Any]:
    n = 20_000 if quick else 1_000_000
    P = np.random.default_rng(0).normal(size=(n, 2))
    (elapsed,), (thinned,) = medians(
        [lambda: dk.coreset(P, 256, sigma=1.0, random_state=0)], 1 if quick else 3
    )
    row = {"method": "swap", "n": n, "size": 256, "seconds": float(elapsed), "distance": thinned.distance}
    return line("coreset", row)


def mean_rows(quick: bool) -> list[dict[str, Any]]:
    n_sets, n, D, rows = (20 if quick else 500), 200, 2000, []
    for d in (2, 10):
        X = np.random.default_rng(0).normal(size=(n_sets, n, d))
        sets = dk.SampleSets.from_arrays(list(X.astype(np.float32)))
        embedding = dk.MeanEmbedding(D, 1.0, "iid", random_state=0).fit(sets)
        W = np.random.default_rng(1).normal(size=(d, D // 2))

        def in_numpy(X: np.ndarray = X, W: np.ndarray = W) -> np.ndarray:
            rows = [
                (phase := x @ W, np.concatenate([np.sin(phase).mean(0), np.cos(phase).mean(0)]))[1] for x in X
            ]
            return np.stack(rows) / np.sqrt(W.shape[1])

        (a, b), (x, y) = medians([lambda e=embedding, s=sets: e.transform(s), in_numpy], 1 if quick else 5)
        values = [float((v[:-1] * v[1:]).sum(axis=1).mean()) for v in (x, y)]  # means of the same kernel
        rows.append(line("mean", {
            "d": d, "sets": n_sets, "n": n, "D": D, "seconds": float(a), "peer_seconds": float(b),
            "ratio": float(b / a), "difference": abs(values[0] - values[1]),
        }))  # fmt: skip
    return rows


def nearest_rows(quick: bool) -> list[dict[str, Any]]:
    faiss = installed("faiss")
    if faiss is None:
        return []
    faiss.omp_set_num_threads(1)
    n, m, rows = *((1000, 20) if quick else (100_000, 1000)), []
    rng = np.random.default_rng(0)
    for D in (128, 256, 512):
        X, Y = rng.random((n, D), np.float32), rng.random((m, D), np.float32)
        search, index = dk.NearestSets(10).fit(X), faiss.IndexFlatL2(D)
        index.add(X)
        (a, b), (neighbours, peer_neighbours) = medians(
            [lambda s=search, q=Y: s.kneighbors(q)[1], lambda i=index, q=Y: i.search(q, 10)[1]],
            1 if quick else 5,
        )
        rows.append(line("nearest", {
            "n": n, "queries": m, "dims": D, "seconds": float(a), "peer_seconds": float(b), "ratio": float(b / a),
            "same": float((neighbours == peer_neighbours).mean()),
        }))  # fmt: skip
    return rows


def peer_rows(quick: bool, eps: float) -> dict[str, Any]:
    """Return the rows of all comparisons by name."""
    return {
        "keops": keops_rows(quick),
        "finufft": finufft_rows(quick, eps),
        "coreset": [*coreset_rows(quick), million_row(quick)],
        "mean": mean_rows(quick),
        "nearest": nearest_rows(quick),
    }
