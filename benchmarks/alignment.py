"""Success rate and time of `align` for rigid motions, compared with multi-start ICP.

    OPENBLAS_NUM_THREADS=1 python benchmarks/alignment.py [--quick] [--output alignment.json]

P and Q are two independent samples of 500 points of one random shape, with Gaussian noise of 1 % of its diameter on
every coordinate; Q is rotated and shifted at random. A shape is a star-shaped closed curve or surface: its radius as a
function of the direction is the exponential of random waves, eight harmonics of the angle in the plane and ten plane
waves in space. In the case "cut", Q is the whole shape with 100 outliers, and P lacks 30 % of the shape, beyond a line
or plane. A rotation is right if it is within 5 degrees of the true one.

ICP: nearest neighbours by scipy's cKDTree, the best motion by SVD (Kabsch), until the mean squared distance decreases
by less than a factor of 1e-6, at most 50 iterations; starts are rotations of a uniform grid about the centroids; the
result with the minimum mean squared distance counts. Both methods use all points, and `align` gets no sigma. Runs are
interleaved on the same pairs, on one thread; seconds and ratios are medians. ICP is compared at the smallest number of
starts with at least the success rate of `align`, or at the largest number if there is none.

Further tables, in the order of printing:

- right results by sigma, on the shapes that the default sigma was selected on;
- right results on shapes of other seeds, without sigma and with the same sigma passed as a parameter;
- seconds and degrees for whole shapes of 100,000 points, which `align` reduces to coresets, sigma = diameter / 40;
- whole shapes in space by sigma: right results, and results whose distance is at most that of the true rotation with
  its best shift. If the distance is smaller and the rotation is wrong, no minimisation of the distance can succeed;
- the search with a guarantee, on five whole shapes in the plane and one in space: seconds, and the maximum excess of
  D^2 by local refinement only.
"""

from __future__ import annotations

import os
import time
from typing import Any

os.environ["OPENBLAS_NUM_THREADS"] = "1"  # before numpy: its products are too small for threads

import numpy as np
from common import options, start_report, write
from scipy.spatial import cKDTree
from scipy.spatial.transform import Rotation
from threadpoolctl import threadpool_limits

import dkdist as dk
from dkdist.alignment.motion_search import rotation_from, rotation_grid

F64 = np.ndarray
N, NOISE, DEGREES = 500, 0.01, 5.0
CUT, STRAY = 0.3, 100
SIGMA = 0.025  # of the diameter; the highest success rate on the pairs of these seeds
SELECTION_SEEDS, SELECTION_SIGMAS = range(100, 400), (0.02, 0.025, 0.03, 0.035, 0.04, 0.05, 0.06)
VALIDATION_CASES = (
    ("whole", 3, N, 600),
    ("whole", 3, 200, 600),
    ("cut", 3, N, 300),
    ("whole", 2, N, 50),
    ("cut", 2, N, 50),
)
FIRST_SEED = 1000  # of VALIDATION_CASES; the square root of weights was selected on some of the first 200, nothing else
WIDTHS = (0.02, 0.025, 0.03, 0.04, 0.05, 0.07)  # of the diameter
HEIGHT = {2: 0.15, 3: 0.3}  # standard deviation of the waves
STARTS = {("whole", 2): (2, 4, 6, 8, 12), ("cut", 2): (24,), ("whole", 3): (32, 128), ("cut", 3): (32,)}
TRIALS = {2: 100, 3: 60}
GUARANTEES = ((2, 0.1, 0.05), (2, 0.05, 0.05), (2, 0.1, 0.01), (3, 0.3, 0.2))  # d, sigma of the diameter, eps
ITERATIONS, MIN_GAIN = 50, 1e-6


class Shape:
    """A random star-shaped closed curve or surface; ``sample`` draws points of it."""

    def __init__(self, d: int, rng: np.random.Generator) -> None:
        self.d = d
        if d == 2:
            self.waves, self.phases = np.arange(1, 9), rng.uniform(0, 2 * np.pi, 8)
            self.heights = rng.normal(size=8) * HEIGHT[2]
        else:
            self.waves, self.phases = 2 * rng.normal(size=(3, 10)), rng.uniform(0, 2 * np.pi, 10)
            self.heights = rng.normal(size=10) * HEIGHT[3]

    def sample(self, n: int, rng: np.random.Generator) -> F64:
        u = rng.normal(size=(n, self.d))
        u /= np.linalg.norm(u, axis=1, keepdims=True)
        phase = np.arctan2(u[:, :1], u[:, 1:]) * self.waves if self.d == 2 else u @ self.waves
        return u * np.exp(np.cos(phase + self.phases) @ self.heights)[:, None]


def diameter(x: F64) -> float:
    return float(np.sqrt(((x[:, None] - x) ** 2).sum(axis=2).max()))


def pair(d: int, seed: int, case: str, n: int = N) -> tuple[F64, F64, F64, float]:
    """Return (Q, P, the rotation from Q to P, diameter)."""
    rng = np.random.default_rng([d, seed])
    shape = Shape(d, rng)
    size = diameter(shape.sample(N, rng))
    P, Q = (x + NOISE * size * rng.normal(size=x.shape) for x in (shape.sample(n, rng), shape.sample(n, rng)))
    if case == "cut":
        across = P @ rng.normal(size=d)
        P = P[across < np.quantile(across, 1 - CUT)]
        Q = np.concatenate([Q, Q.mean(axis=0) + 0.4 * size * rng.normal(size=(STRAY, d))])
    R = rotation_from(rng.uniform(0, 2 * np.pi, 1), 2) if d == 2 else Rotation.random(rng=rng).as_matrix()
    return Q @ R + rng.normal(size=d) * size, P, R, size


def degrees(R: F64, S: F64) -> float:
    """Return the angle between two rotations."""
    return float(np.degrees(2 * np.arcsin(min(1.0, np.linalg.norm(R - S) / np.sqrt(8)))))


def icp(Q: F64, P: F64, starts: F64) -> F64:
    """Return the rotation of the run with the minimum error."""
    tree, d = cKDTree(P), P.shape[1]
    results = [icp_run(Q, P, tree, rotation_from(start, d)) for start in starts]
    return min(results, key=lambda result: result[0])[1]


def icp_run(Q: F64, P: F64, tree: cKDTree, R: F64) -> tuple[float, F64]:
    centroid = Q.mean(axis=0)
    t, previous_error = P.mean(axis=0) - R @ centroid, np.inf
    for _ in range(ITERATIONS):
        distances, i = tree.query(Q @ R.T + t)
        error = float((distances**2).mean())
        if previous_error - error < MIN_GAIN * error:
            break
        previous_error, neighbours = error, P[i]
        U, _, Vt = np.linalg.svd((neighbours - neighbours.mean(axis=0)).T @ (Q - centroid))
        signs = np.ones(len(R))
        signs[-1] = np.linalg.det(U @ Vt)
        R = (U * signs) @ Vt
        t = neighbours.mean(axis=0) - R @ centroid
    return error, R


def rows(case: str, d: int, quick: bool) -> list[dict[str, Any]]:
    trials, starts = (4, (4,)) if quick else (TRIALS[d], STARTS[case, d])
    names = ["align", *(f"ICP, {n} starts" for n in starts)]
    seconds, errors = np.zeros((trials, len(names))), np.zeros((trials, len(names)))
    for trial in range(-1, trials):  # the first one compiles
        Q, P, R, _ = pair(d, max(0, trial), case)
        calls = [lambda: dk.align(Q, P).rotation]  # noqa: B023
        calls += [lambda n=n: icp(Q, P, rotation_grid(d, n)) for n in starts]  # noqa: B023
        for k, call in enumerate(calls):
            start = time.perf_counter()
            result = call()
            if trial >= 0:
                seconds[trial, k], errors[trial, k] = time.perf_counter() - start, degrees(result, R)
    ratios = np.median(seconds / seconds[:, :1], axis=0)
    return [
        {
            "case": case, "d": d, "trials": trials, "method": name, "success": float((errors[:, k] <= DEGREES).mean()),
            "degrees": float(np.median(errors[:, k])), "seconds": float(np.median(seconds[:, k])),
            "ratio": float(ratios[k]),
        }
        for k, name in enumerate(names)
    ]  # fmt: skip


def at_equal_success(result: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the row of ICP that `align` is compared with."""
    align_result, *other_methods = result
    equal = [row for row in other_methods if row["success"] >= align_result["success"]]
    return equal[0] if equal else other_methods[-1]


def choice_rows(quick: bool) -> list[dict[str, Any]]:
    """Count right results by sigma / diameter on the pairs that the default sigma was selected on."""
    result = []
    for kind, d in (("whole", 2), ("cut", 2), ("whole", 3), ("cut", 3)):
        n_right = dict.fromkeys(SELECTION_SIGMAS, 0)
        for seed in SELECTION_SEEDS[: 3 if quick else None]:
            Q, P, R, size = pair(d, seed, kind)
            for width in SELECTION_SIGMAS:
                n_right[width] += degrees(dk.align(Q, P, sigma=width * size).rotation, R) <= DEGREES
        result.append({"kind": kind, "d": d, "right": list(n_right.values())})
        text = ", ".join(f"{100 * width:g} % {n}" for width, n in n_right.items())
        print(f"  selection on {kind} shapes, d = {d}, right by sigma / diameter: {text}", flush=True)
    return result


def other_rows(quick: bool) -> list[dict[str, Any]]:
    """Count right results of `VALIDATION_CASES` without sigma, and with the same sigma as a parameter."""
    result = []
    for kind, d, n, trials in VALIDATION_CASES:
        trial_results = []
        for seed in range(FIRST_SEED, FIRST_SEED + (4 if quick else trials)):
            Q, P, R, _ = pair(d, seed, kind, n)
            start = time.process_time()
            auto = dk.align(Q, P)
            middle = time.process_time()
            with_sigma = dk.align(Q, P, sigma=auto.sigma)
            seconds = middle - start, time.process_time() - middle
            trial_results.append((degrees(auto.rotation, R), degrees(with_sigma.rotation, R), *seconds))
        a, b, s, t = np.array(trial_results).T
        for name, error, method_seconds in (("no width", a, s), ("as wide", b, t)):
            row: dict[str, Any] = {"kind": kind, "d": d, "n": n, "trials": len(trial_results), "sigma": name}
            row |= {"right": int((error <= DEGREES).sum()), "degrees": float(np.median(error))}
            row |= {"seconds": float(np.median(method_seconds))}
            result.append(row)
            print(
                f"  other {kind} shapes, d = {d}, {n} points, {name}: {row['right']} of {len(trial_results)} right, "
                f"median {row['degrees']:.2f} degrees, {1e3 * row['seconds']:.1f} ms of processor time",
                flush=True,
            )
    return result


def large_rows(quick: bool) -> list[dict[str, Any]]:
    """Measure seconds and degrees for many points."""
    n, result = 5000 if quick else 100_000, []
    for d in (2, 3):
        trial_results = []
        for seed in range(1 if quick else 5):
            Q, P, R, size = pair(d, seed, "whole", n)
            start = time.perf_counter()
            moved = dk.align(Q, P, sigma=SIGMA * size)
            trial_results.append((time.perf_counter() - start, degrees(moved.rotation, R)))
        seconds, errors = np.median(trial_results, axis=0)
        result.append({"d": d, "n": n, "seconds": float(seconds), "degrees": float(errors)})
        print(f"  {n:,} points each, d = {d}: {seconds:.2f} s, {errors:.3f} degrees", flush=True)
    return result


def width_rows(quick: bool) -> list[dict[str, Any]]:
    """Count right results, and distances at most that of the true rotation, by sigma for whole shapes in space."""
    result = []
    pairs = [pair(3, seed, "whole") for seed in range(4 if quick else TRIALS[3])]
    for width in WIDTHS:
        n_right = n_as_near = 0
        for Q, P, R, size in pairs:
            moved = dk.align(Q, P, sigma=width * size)
            truth = dk.align(Q @ R.T, P, sigma=width * size, transform="translation")
            n_right += degrees(moved.rotation, R) <= DEGREES
            n_as_near += moved.distance <= truth.distance
        result.append({"sigma": width, "trials": len(pairs), "right": n_right, "as_near": n_as_near})
        print(
            f"  sigma {width} of the diameter, d = 3: {n_right} of {len(pairs)} right, "
            f"{n_as_near} at most the true distance",
            flush=True,
        )
    return result


def certified_rows(quick: bool) -> list[dict[str, Any]]:
    """Measure the seconds of a guarantee, and the excess of D^2 by local refinement only."""
    result = []
    for d, sigma, eps in GUARANTEES[:1] if quick else GUARANTEES:
        trial_results = []
        for seed in range(1 if quick or d == 3 else 5):
            Q, P, _, size = pair(d, seed, "whole")
            refined_result = dk.align(Q, P, sigma=sigma * size)
            start = time.perf_counter()
            certified_result = dk.align(
                Q, P, sigma=sigma * size, guarantee=eps, max_seconds=1000, random_state=0
            )
            trial_results.append(
                (
                    time.perf_counter() - start,
                    refined_result.distance**2 - certified_result.distance**2,
                    certified_result.certified,
                )
            )
        seconds, missed, certified = map(np.array, zip(*trial_results, strict=True))
        row = {
            "d": d, "sigma": sigma, "eps": eps, "shapes": len(trial_results), "seconds": float(np.median(seconds)),
            "missed": float(missed.max()), "certified": bool(certified.all()),
        }  # fmt: skip
        result.append(row)
        print(
            f"  guarantee={eps}, d = {d}, sigma {sigma} of the diameter: {row['seconds']:.1f} s, "
            f"excess of local refinement {row['missed']:.0e} "
            f"({len(trial_results)} shapes, {'all' if row['certified'] else 'not all'} certified)",
            flush=True,
        )
    return result


def main(argv: list[str] | None = None) -> dict[str, Any]:
    parser = options(__doc__, quick="four pairs each, to see that it runs")
    args = parser.parse_args(argv)
    figures = start_report() | {"rows": [], "equal": {}}
    with threadpool_limits(1):
        for case, d in STARTS:
            result = rows(case, d, args.quick)
            figures["rows"] += result
            print(
                f"  {case:<5}, d = {d}, {result[0]['trials']} pairs right  median degrees  seconds  over align"
            )
            for row in result:
                print(
                    f"  {row['method']:<18} {row['success']:>8.1%} {row['degrees']:>15.2f} {row['seconds']:>8.4f}"
                    f" {row['ratio']:>11.1f}"
                )
            equal = figures["equal"][f"{case}, {d}"] = at_equal_success(result)
            print(
                f"  compared: {equal['method']}, right {equal['success']:.1%}, {equal['ratio']:.1f} times align"
            )
        figures["choice"] = choice_rows(args.quick)
        figures["others"] = other_rows(args.quick)
        figures["large"] = large_rows(args.quick)
        figures["widths"] = width_rows(args.quick)
        figures["certified"] = certified_rows(args.quick)
    write(args.output, figures)
    return figures


if __name__ == "__main__":
    main()
