"""The error of the kernel by the number of random objects, against its exact value; figures (see `distances.py`).

Strings of 12 symbols of four, random strings of 1 to 4 symbols: there are 340 of these, so the kernel

    k(x, y) = sum over omega of p(omega) exp(-gamma (d(x, omega) + d(y, omega)))

is a finite sum, whose soft minimum -(1 / gamma) log k(x, y) is compared with the least d(x, omega) + d(y, omega).
"""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from study import show

import dkdist as dk

SYMBOLS, LONGEST, N, GAMMA = "ACGT", 4, 40, 0.3
SIZES = (4, 16, 64, 256, 1024, 4096)
LARGE_GAMMAS = (0.3, 1.0, 3.0, 10.0, 30.0)


def kernel_error(seeds: int) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    words = ["".join(rng.choice(list(SYMBOLS), 12)) for _ in range(N)]
    omegas = ["".join(s) for n in range(1, LONGEST + 1) for s in product(SYMBOLS, repeat=n)]
    p = np.array([4.0 ** -len(omega) / LONGEST for omega in omegas])
    d = dk.distance_matrix(words, omegas, "levenshtein")
    phi = np.exp(-GAMMA * d)
    exact = (phi * p) @ phi.T
    variance = (phi**2 * p) @ (phi**2).T - exact**2
    rows = []
    for R in SIZES:
        gaps = []
        for seed in range(seeds):
            embedding = dk.DistanceEmbedding(
                "levenshtein", "uniform", R, GAMMA, lengths=(1, LONGEST), random_state=seed
            )
            A = embedding.fit_transform(words).astype(np.float64)
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
    show(f"error of the kernel over its largest value; slopes {slopes}", columns, {
        f"R = {row['R']}": [row[c] for c in columns] for row in rows
    })  # fmt: skip
    through = d[:, None] + d
    shortest = through.min(axis=2)
    soft = {}
    for gamma in LARGE_GAMMAS:
        value = shortest - np.log((np.exp(-gamma * (through - shortest[..., None])) * p).sum(axis=2)) / gamma
        soft[gamma] = {
            "gap": float((value - shortest).max()),
            "largest_kernel": float(np.exp(-gamma * value).max()),
        }
    show("soft minimum: largest gap to the minimum, largest value of the kernel", ("gap", "kernel"), {
        f"gamma = {gamma}": [row["gap"], f"{row['largest_kernel']:.1e}"] for gamma, row in soft.items()
    })  # fmt: skip
    return {"error": rows, "slopes": slopes, "softmin": soft}


def draw(width: dict[str, list[dict[str, Any]]], file: Path) -> None:
    """Accuracy and seconds by R."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
    for name, rows in width.items():
        R = [row["R"] for row in rows]
        left.plot(R, [row["accuracy"] for row in rows], "o-", label=name)
        (line,) = right.plot(R, [row["embed_seconds"] for row in rows], "o-", label=f"{name}, embedding")
        right.plot(R, [row["train_seconds"] for row in rows], "o:", color=line.get_color())
    left.set(xscale="log", xlabel="random objects R", ylabel="accuracy on test objects")
    right.set(xscale="log", yscale="log", xlabel="random objects R", ylabel="seconds (dotted: ridge)")
    left.legend()
    for axes in (left, right):
        axes.grid(alpha=0.3)
    figure.savefig(file, dpi=80)
    plt.close(figure)
