"""Kernel distances of merged coresets to all points, compared with a coreset of all points.

    OPENBLAS_NUM_THREADS=1 python benchmarks/merged_coresets.py [--quick] [--output merged_coresets.json]

64 of 4,096 normal points in eight parts; means over the same five seeds. Rows have the distance by all pairs, divided
by that of `coreset(method="swap")` of all points ("at once"), and the reported distance, an upper bound, divided by the
same. Rows with optimal weights are divided by "at once" with optimal weights.

herding     kernel herding (Chen, Welling, Smola 2010) on all points: adds the best point in each iteration
8 x 64      coresets of 64 points per part, merged in one call or in a binary tree with 64 points per node
8 x 512     coresets of 512 points per part, merged likewise
            "of optimal weights": the coresets of the parts have optimal instead of equal weights
stream      `RunningCoreset` with blocks of 1,024 points
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from common import options, start_report, write

import dkdist as dk
from dkdist.coresets import merging as running_coreset

CASES = ((2, 1.0), (2, 0.3), (10, 3.0))  # d, sigma
PARTS = 8


def herding(P: np.ndarray, size: int, sigma: float) -> dk.Coreset:
    squares = (P**2).sum(axis=1)
    K = np.exp(-(squares[:, None] + squares - 2 * P @ P.T) / (2 * sigma**2))
    mean, total, indices = K.mean(axis=1), np.zeros(len(P)), list[int]()
    for i in range(size):
        indices.append(int(np.argmax(mean - total / (i + 1))))
        total += K[indices[-1]]
    return dk.Coreset(np.array(indices), np.full(size, 1 / size), float("nan"), P[indices], sigma, len(P))


def tree(parts: list[dk.Coreset], size: int, *, optimal_weights: bool = False) -> dk.Coreset:
    while len(parts) > 1:
        parts = [
            dk.merge_coresets(parts[i : i + 2], size, optimal_weights=optimal_weights, random_state=0)
            for i in range(0, len(parts), 2)
        ]
    return parts[0]


def stream(P: np.ndarray, size: int, sigma: float) -> dk.RunningCoreset:
    running_coreset.BLOCK_POINTS = 1024
    return dk.RunningCoreset(size, sigma=sigma, random_state=0).add(P)


def merge_methods(P: np.ndarray, size: int, sigma: float, seed: int) -> dict[str, Callable[..., dk.Coreset]]:
    calls: dict[str, Callable[..., dk.Coreset]] = {
        "at once": partial(dk.coreset, P, size, sigma=sigma, random_state=seed),
        "stream": stream(P, size, sigma).coreset,
    }
    for n_points in (size, 8 * size):
        for kind, optimal in (("", False), (" of optimal weights", True)):
            parts = [
                dk.coreset(part, n_points, sigma=sigma, optimal_weights=optimal, random_state=seed)
                for part in np.array_split(P, PARTS)
            ]
            calls[f"{PARTS} x {n_points}{kind}, merged at once"] = partial(
                dk.merge_coresets, parts, size, random_state=0
            )
            calls[f"{PARTS} x {n_points}{kind}, in a tree"] = partial(tree, parts, size)
    return calls


def case(d: int, sigma: float, n: int, size: int, seeds: int) -> list[dict[str, Any]]:
    distances: dict[str, list[tuple[float, float]]] = {}
    for seed in range(seeds):
        P = np.random.default_rng(seed).normal(size=(n, d))
        coreset_by_method = {"herding": herding(P, size, sigma)}
        coreset_by_method |= {method: dk.coreset(P, size, sigma=sigma, method=method, random_state=seed)
                 for method in ("random", "stratified", "halving")}  # fmt: skip
        for name, make in merge_methods(P, size, sigma, seed).items():
            coreset_by_method[f"{name}, optimal weights"] = make(optimal_weights=True)
            if "of optimal weights" not in name:  # points of those were chosen for unequal weights
                coreset_by_method[name] = make()
        for name, selected in coreset_by_method.items():
            D = dk.kernel_distance(
                P, selected.points, sigma=sigma, weights=(None, selected.weights), method="exact"
            )
            distances.setdefault(name, []).append((D, selected.distance))
    means = {name: np.mean(pairs, axis=0) for name, pairs in distances.items()}
    print(
        f"{size} of {n:,} points, d = {d}, sigma = {sigma}: distance, ratio to at once, bound ratio to at once"
    )
    rows = []
    for name, (D, bound) in means.items():
        base = means["at once, optimal weights" if "optimal" in name else "at once"][0]
        rows.append(
            {"d": d, "sigma": sigma, "way": name, "distance": D, "ratio": D / base, "bound": bound / base}
        )
        print(f"  {name:42s} {D:.5f} {D / base:7.3f} {bound / base:7.3f}", flush=True)
    return rows


def main() -> None:
    args = options(__doc__).parse_args()
    report = start_report()
    n, size, seeds = (1024, 16, 2) if args.quick else (4096, 64, 5)
    rows = [
        row for d, sigma in (CASES[:1] if args.quick else CASES) for row in case(d, sigma, n, size, seeds)
    ]
    worst = max(row["ratio"] for row in rows if f"x {8 * size}" in row["way"])
    print(f"maximum ratio of coresets merged from parts of {8 * size}: {worst:.3f}")
    write(args.output, {**report, "rows": rows, "worst": worst})


if __name__ == "__main__":
    main()
