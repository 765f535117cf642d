"""Speed of distances of sets to landmarks, compared with SciPy and POT, which compute one pair per call.

    python benchmarks/set_distances.py [--quick] [--output set_distances.json]

Pairs per second of the compiled distances on one and two threads (a thread pool over blocks), compared with SciPy or
POT on one thread: medians of interleaved runs, and the maximum difference of the distances relative to the maximum
distance. Objects have 3 to 64 points, landmarks 1 to 20: normal points in 1, 2 and 3 dimensions, unit vectors in 128
dimensions, like SIFT descriptors. SciPy and POT get one float64 array per set; converting is not timed.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any

import numpy as np
from common import options, start_report, write
from scipy.spatial.distance import cdist
from scipy.stats import energy_distance, wasserstein_distance
from threadpoolctl import threadpool_limits

from dkdist.distances.energy import Energy
from dkdist.distances.hausdorff import ModifiedHausdorff
from dkdist.distances.sliced_wasserstein import SlicedWasserstein

N_DIRECTIONS = 50
Sets = tuple[np.ndarray, np.ndarray, None]
Pair = Callable[[np.ndarray, np.ndarray], float]


def make_sets(rng: np.random.Generator, n_sets: int, min_points: int, max_points: int, d: int) -> Sets:
    """Return (points, offsets, None for weights)."""
    offsets = np.concatenate([[0], np.cumsum(rng.integers(min_points, max_points + 1, n_sets))]).astype(
        np.int64
    )
    points = rng.standard_normal((offsets[-1], d))
    if d > 3:
        points /= np.linalg.norm(points, axis=1, keepdims=True)
    return points.astype(np.float32), offsets, None


def as_list(sets: Sets) -> list[np.ndarray]:
    return np.split(sets[0].astype(np.float64), sets[1][1:-1])


def modified_hausdorff(x: np.ndarray, y: np.ndarray) -> float:
    D = cdist(x, y)
    return max(D.min(axis=1).mean(), D.min(axis=0).mean())


def energy(x: np.ndarray, y: np.ndarray) -> float:
    """Return the mean distance between two sets; means within sets, needed once per set, are not timed."""
    return cdist(x, y).mean()


def sliced(U: np.ndarray) -> Pair:
    import ot

    return lambda x, y: ot.sliced_wasserstein_distance(x, y, projections=U.T, p=2)


def cases(rng: np.random.Generator) -> list[tuple[str, int, Any, str, Pair]]:
    """Return (name, d, distance, name of the other library, function of a pair in that library)."""
    rows: list[tuple[str, int, Any, str, Pair]] = [
        ("modified Hausdorff", d, ModifiedHausdorff(), "SciPy", modified_hausdorff) for d in (2, 3, 128)
    ]
    rows += [("energy", 1, Energy(), "SciPy", lambda x, y: energy_distance(x[:, 0], y[:, 0]))]
    rows += [("energy", d, Energy(), "SciPy", energy) for d in (2, 128)]
    line = SlicedWasserstein(np.ones((1, 1)), 1)
    rows += [("Wasserstein, p = 1", 1, line, "SciPy", lambda x, y: wasserstein_distance(x[:, 0], y[:, 0]))]
    if find_spec("ot"):
        for d in (3, 128):
            U = rng.standard_normal((N_DIRECTIONS, d))
            U /= np.linalg.norm(U, axis=1, keepdims=True)
            rows.append(("sliced, p = 2", d, SlicedWasserstein(U, 2), "POT", sliced(U)))
    return rows


def finish(name: str, d: int, values: np.ndarray, objects: Sets, landmarks: Sets) -> np.ndarray:
    """Return distances from the values of the other library; `energy` lacks the means within sets."""
    if name != "energy" or d == 1:
        return values
    within_means = [np.array([cdist(x, x).mean() for x in as_list(sets)]) for sets in (objects, landmarks)]
    return np.sqrt(2 * values - within_means[0][:, None] - within_means[1])


def measure(case: tuple[str, int, Any, str, Pair], quick: bool) -> dict[str, Any]:
    name, d, distance, peer, pair = case
    rng = np.random.default_rng(0)
    n, R, n_peer, repeats = (64, 128, 2, 3) if quick else (1024, 512, 8, 9)
    objects, landmarks = make_sets(rng, n, 3, 64, d), make_sets(rng, R, 1, 20, d)
    packed, out = distance.prepare(*landmarks), np.empty((n, R), np.float32)
    points, offsets, _ = objects

    def block(a: int) -> None:
        b = min(n, a + 64)
        cut = offsets[a : b + 1]
        distance.fill(packed, points[cut[0] : cut[-1]], cut - cut[0], None, out[a:b])

    peer_sets = (points[: offsets[n_peer]], offsets[: n_peer + 1], None)
    X, Y = as_list(peer_sets), as_list(landmarks)
    starts, times = range(0, n, 64), []
    with threadpool_limits(1), ThreadPoolExecutor(2) as pool:
        block(0)
        list(pool.map(block, [0, 0]))
        for _ in range(repeats):
            clock = [time.perf_counter()]
            for a in starts:
                block(a)
            clock.append(time.perf_counter())
            list(pool.map(block, starts))
            clock.append(time.perf_counter())
            values = np.array([[pair(x, y) for y in Y] for x in X])
            clock.append(time.perf_counter())
            times.append(np.diff(clock) / [n * R, n * R, n_peer * R])
    expected = finish(name, d, values, peer_sets, landmarks)
    one_thread, two_threads, peer_time = np.median(times, axis=0)
    ratios = np.median(np.array(times)[:, [2, 0]] / np.array(times)[:, [0, 1]], axis=0)
    return {
        "name": name, "d": d, "peer": peer, "pairs_per_s": 1 / one_thread,
        "pairs_per_s_two_threads": 1 / two_threads, "peer_pairs_per_s": 1 / peer_time,
        "ratio": ratios[0], "threads_ratio": ratios[1],
        "error": float(np.abs(out[:n_peer] - expected).max() / expected.max()),
    }  # fmt: skip


def main(argv: list[str] | None = None) -> dict[str, Any]:
    parser = options(__doc__)
    args = parser.parse_args(argv)
    peers = f"SciPy {version('scipy')}, " + (f"POT {version('POT')}" if find_spec("ot") else "no POT")
    figures = start_report()
    print(f"compared with {peers}; {N_DIRECTIONS} directions")
    print("  distance              d     pairs/s  peer     peer pairs/s  ratio  two threads  difference")
    rows = []
    for case in cases(np.random.default_rng(1)):
        r = measure(case, args.quick)
        rows.append(r)
        print(
            f"  {r['name']:<18} {r['d']:>4} {r['pairs_per_s']:>11,.0f}  {r['peer']:<6} {r['peer_pairs_per_s']:>14,.0f}"
            f" {r['ratio']:>6.0f} {r['threads_ratio']:>11.2f}x {r['error']:>11.1e}"
        )
    figures |= {"peers": peers, "distances": rows}
    write(args.output, figures)
    return figures


if __name__ == "__main__":
    main()
