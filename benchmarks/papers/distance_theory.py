"""Error of the distance kernel by number of landmarks, compared with its exact value; figures (see `distances.py`).

Strings have 12 symbols from an alphabet of four, landmarks (random objects omega) 1 to 4 symbols. There are only 340
landmarks, so the kernel

    k(x, y) = sum over omega of p(omega) exp(-gamma (d(x, omega) + d(y, omega)))

is a finite sum. Its soft minimum -(1 / gamma) log k(x, y) is compared with the minimum of d(x, omega) + d(y, omega).
"""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from study import show

import dkdist as dk

SYMBOLS, MAX_LENGTH, N, GAMMA = "ACGT", 4, 40, 0.3
SIZES = (4, 16, 64, 256, 1024, 4096)
LARGE_GAMMAS = (0.3, 1.0, 3.0, 10.0, 30.0)


def kernel_error(seeds: int) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    strings = ["".join(rng.choice(list(SYMBOLS), 12)) for _ in range(N)]
    landmarks = ["".join(s) for n in range(1, MAX_LENGTH + 1) for s in product(SYMBOLS, repeat=n)]
    p = np.array([4.0 ** -len(omega) / MAX_LENGTH for omega in landmarks])
    d = dk.distance_matrix(strings, landmarks, "levenshtein")
    phi = np.exp(-GAMMA * d)
    exact = (phi * p) @ phi.T
    variance = (phi**2 * p) @ (phi**2).T - exact**2
    rows = []
    for R in SIZES:
        gaps = []
        for seed in range(seeds):
            embedding = dk.DistanceEmbedding(
                "levenshtein", "uniform", R, GAMMA, lengths=(1, MAX_LENGTH), random_state=seed
            )
            A = embedding.fit_transform(strings).astype(np.float64)
            gaps.append(np.abs(A @ A.T - exact) / exact.max())
        predicted = float(np.sqrt(variance.mean() / R) / exact.max())
        result = {"largest": float(np.mean([g.max() for g in gaps]))}
        rows.append(
            {"R": R, "rms": float(np.sqrt(np.mean(np.square(gaps)))), "predicted": predicted} | result
        )
    slopes = {
        key: float(np.polyfit(np.log(SIZES), np.log([row[key] for row in rows]), 1)[0])
        for key in ("rms", "largest")
    }
    columns = ("rms", "predicted", "largest")
    show(f"error of the kernel relative to its maximum; slopes {slopes}", columns, {
        f"R = {row['R']}": [row[c] for c in columns] for row in rows
    })  # fmt: skip
    path_lengths = d[:, None] + d
    minimum = path_lengths.min(axis=2)
    results = {}
    for gamma in LARGE_GAMMAS:
        value = (
            minimum - np.log((np.exp(-gamma * (path_lengths - minimum[..., None])) * p).sum(axis=2)) / gamma
        )
        results[gamma] = {
            "gap": float((value - minimum).max()),
            "largest_kernel": float(np.exp(-gamma * value).max()),
        }
    show("soft minimum: maximum gap to the minimum, maximum of the kernel", ("gap", "kernel"), {
        f"gamma = {gamma}": [row["gap"], f"{row['largest_kernel']:.1e}"] for gamma, row in results.items()
    })  # fmt: skip
    return {"error": rows, "slopes": slopes, "softmin": results}


def draw(width: dict[str, list[dict[str, Any]]], file: Path) -> None:
    """Draw accuracy and seconds by R."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
    for name, rows in width.items():
        R = [row["R"] for row in rows]
        left.plot(R, [row["accuracy"] for row in rows], "o-", label=name)
        (line,) = right.plot(R, [row["embed_seconds"] for row in rows], "o-", label=f"{name}, embedding")
        right.plot(R, [row["train_seconds"] for row in rows], "o:", color=line.get_color())
    left.set(xscale="log", xlabel="landmarks R", ylabel="accuracy on test objects")
    right.set(xscale="log", yscale="log", xlabel="landmarks R", ylabel="seconds (dotted: ridge)")
    left.legend()
    for axes in (left, right):
        axes.grid(alpha=0.3)
    figure.savefig(file, dpi=80)
    plt.close(figure)
