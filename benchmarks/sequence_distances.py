"""Speed of distances of series and strings to landmarks, compared with other libraries; growth with sizes.

    python benchmarks/sequence_distances.py [dtw] [levenshtein] [growth] [threads] [--quick] [--output FILE]

dtw          dynamic time warping of series of 45 to 136 points in 22 variables, and in one, to landmarks of 5 to 25
             points, compared with dtaidistance (C) and aeon (Numba), one pair per call
levenshtein  edit distance of strings of 60 symbols from an alphabet of 4 to landmarks of several lengths, compared with
             rapidfuzz (`process.cdist`, one worker) for both orders of its arguments
growth       time per pair relative to that at the maximum number of objects N, of landmarks R, and length of landmarks
             L; 1 means linear growth (small R leaves SIMD lanes idle, small L has overhead at the ends)
threads      speedup of two threads over one; also of two compiled functions without memory access, scalar and
             vectorised, which shows the attainable speedup (virtual processors may share the vector units of a core)

Pairs per second are from median times of interleaved runs on one thread; compare ratios within one run. "error" is the
maximum relative difference of the results. Missing libraries are named and skipped.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np
from common import medians, options, start_report, write
from numba import njit

from dkdist.distances.dtw import DynamicTimeWarping
from dkdist.distances.strings.levenshtein import Levenshtein

Collection = tuple[np.ndarray, np.ndarray]  # points, offsets
SETTINGS = {
    "dtw": (DynamicTimeWarping(), (45, 136), (5, 25)),
    "levenshtein": (Levenshtein(), (60, 60), (2, 63)),
}


def series(n: int, lengths: tuple[int, int], d: int, seed: int) -> Collection:
    rng = np.random.default_rng(seed)
    offsets = np.cumsum([0, *rng.integers(lengths[0], lengths[1] + 1, n)])
    return rng.standard_normal((offsets[-1], d)).astype(np.float32), offsets


def strings(n: int, lengths: tuple[int, int], seed: int) -> Collection:
    rng = np.random.default_rng(seed)
    offsets = np.cumsum([0, *rng.integers(lengths[0], lengths[1] + 1, n)])
    return rng.integers(97, 101, (offsets[-1], 1)).astype(np.uint8), offsets


def draw(name: str, n: int, lengths: tuple[int, int], seed: int) -> Collection:
    return series(n, lengths, 22, seed) if name == "dtw" else strings(n, lengths, seed)


def parts(collection: Collection) -> list[np.ndarray]:
    points, offsets = collection
    return np.split(points, offsets[1:-1])


def installed(name: str) -> str | None:
    try:
        return f"{name} {version(name)}"
    except PackageNotFoundError:
        print(f"  {name} is not installed: skipped")
        return None


def filler(distance: Any, objects: Collection, landmarks: Collection) -> Callable[[], np.ndarray]:
    packed = distance.prepare(*landmarks, None)
    out = np.empty((len(objects[1]) - 1, packed.n_omegas), np.float32)

    def fill() -> np.ndarray:
        distance.fill(packed, *objects, None, out)
        return out

    return fill


def compare(
    dkdist_call: Callable[[], np.ndarray],
    rivals: dict[str, Callable[[], np.ndarray]],
    repeats: int,
    label: str,
) -> list[dict[str, Any]]:
    """Compare pairs per second with other libraries, which may compute only the first objects and landmarks."""
    seconds = medians([dkdist_call, *rivals.values()], repeats)[0]
    result = dkdist_call()
    rate = result.size / seconds[0]
    print(f"{label}: {rate:.3g} pairs/s")
    rows = []
    for (name, rival), rival_seconds in zip(rivals.items(), seconds[1:], strict=True):
        rival_values = np.asarray(rival(), np.float64)
        values = result[: rival_values.shape[0], : rival_values.shape[1]]
        error = float(np.max(np.abs(values - rival_values) / np.maximum(rival_values, 1e-9)))
        row = {
            "case": label,
            "rival": name,
            "pairs_per_s": rate,
            "rival_pairs_per_s": rival_values.size / rival_seconds,
        }
        rows.append(row | {"ratio": rate * rival_seconds / rival_values.size, "error": error})
        print(
            "  {rival}: {rival_pairs_per_s:.3g} pairs/s, ratio {ratio:.1f}, error {error:.1e}".format(
                **rows[-1]
            )
        )
    return rows or [{"case": label, "rival": None, "pairs_per_s": rate}]


def bench_dtw(n: int, R: int, repeats: int) -> list[dict[str, Any]]:
    rows = []
    for d in (22, 1):
        objects, landmarks = series(n, (45, 136), d, 0), series(R, (5, 25), d, 1)
        xs, ys = ([part.astype(np.float64) for part in parts(c)] for c in (objects, landmarks))
        xs, ys = xs[: max(2, n // 8)], ys[: max(2, R // 8)]
        rivals: dict[str, Callable[[], np.ndarray]] = {}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if name := installed("dtaidistance"):
                from dtaidistance import dtw_ndim

                rivals[name] = lambda xs=xs, ys=ys, f=dtw_ndim.distance_fast: (
                    np.array([[f(x, y) for y in ys] for x in xs]) ** 2
                )
            if name := installed("aeon"):
                from aeon.distances import dtw_pairwise_distance

                Xs, Ys = ([np.ascontiguousarray(x.T) for x in part] for part in (xs, ys))
                rivals[name] = lambda X=Xs, Y=Ys, f=dtw_pairwise_distance: f(X, Y, n_jobs=1)
        dkdist_call = filler(DynamicTimeWarping(), objects, landmarks)
        rows += compare(dkdist_call, rivals, repeats, f"DTW, {d} variables")
    return rows


def bench_levenshtein(n: int, R: int, repeats: int) -> list[dict[str, Any]]:
    rows = []
    for lengths in ((2, 63), (2, 8), (2, 20), (31, 31), (63, 63), (64, 200)):
        objects, landmarks = strings(n, (60, 60), 0), strings(R, lengths, 1)
        xs, ys = ([part.tobytes().decode() for part in parts(c)] for c in (objects, landmarks))
        rivals: dict[str, Callable[[], np.ndarray]] = {}
        if name := installed("rapidfuzz"):
            from rapidfuzz.distance import Levenshtein as rapidfuzz
            from rapidfuzz.process import cdist

            options = {"scorer": rapidfuzz.distance, "workers": 1, "dtype": np.int32}
            rivals[f"{name}, cdist(objects, landmarks)"] = lambda xs=xs, ys=ys, o=options: cdist(xs, ys, **o)
            rivals[f"{name}, cdist(landmarks, objects)"] = lambda xs=xs, ys=ys, o=options: (
                cdist(ys, xs, **o).T
            )
        ratios = compare(
            filler(Levenshtein(), objects, landmarks), rivals, repeats, f"Levenshtein, landmarks of {lengths}"
        )
        print(f"  {ratios[0]['pairs_per_s'] / R:.0f} strings/s at R = {R}")
        rows += ratios
    return rows


def bench_growth(n: int, R: int, repeats: int) -> dict[str, Any]:
    """Return seconds per pair (L: per pair and symbol) relative to the largest size, on a grid of powers of two."""
    figures: dict[str, Any] = {}
    for name, (distance, lengths, _) in SETTINGS.items():
        sizes = {
            "N": [(n // k, R, 16) for k in (4, 2, 1)],
            "R": [(n, R // k, 16) for k in (4, 2, 1)],
            "L": [(n, R, L) for L in (8, 16, 32, 64, 128)],
        }
        figures[name] = {}
        for size_name, cases in sizes.items():
            works = [
                filler(distance, draw(name, N, lengths, 0), draw(name, r, (L, L), 1)) for N, r, L in cases
            ]
            unit_seconds = medians(works, repeats)[0] / [
                N * r * (L if size_name == "L" else 1) for N, r, L in cases
            ]
            keys = [{"N": N, "R": r, "L": L}[size_name] for N, r, L in cases]
            figures[name][size_name] = dict(
                zip(keys, (unit_seconds / unit_seconds[-1]).tolist(), strict=True)
            )
            text = ", ".join(f"{key}: {value:.2f}" for key, value in figures[name][size_name].items())
            print(
                f"{name}, time of a pair{' and landmark point' * (size_name == 'L')} by {size_name}: {text}"
            )
    return figures


@njit(nogil=True)
def scalar_loop(n: int) -> float:
    total = 0.0
    for i in range(n):
        total += np.sqrt(np.float64(i))
    return total


@njit(nogil=True, fastmath={"contract"})
def vector_loop(n: int) -> float:
    a = np.ones(1024, np.float32)  # in the L1 cache
    for _ in range(n):
        for j in range(len(a)):
            a[j] = a[j] * np.float32(0.999) + np.float32(0.001)
    return float(a[0])


def bench_threads(n: int, R: int, repeats: int) -> dict[str, float]:
    works: dict[str, tuple[Callable[[Any], Any], list[Any]]] = {
        "loop": (scalar_loop, [n * 10_000] * 8),
        "vector loop": (vector_loop, [n * 200] * 8),
    }
    for name, (distance, lengths, short) in SETTINGS.items():
        packed = distance.prepare(*draw(name, R, short, 1), None)

        def fill(block: Collection, distance: Any = distance, packed: Any = packed) -> None:
            distance.fill(packed, *block, None, np.empty((len(block[1]) - 1, packed.n_omegas), np.float32))

        n_block = n // 8 if name == "dtw" else 8 * n  # blocks of all threads take some tenths of a second
        works[name] = (fill, [draw(name, n_block, lengths, seed) for seed in range(8)])
    figures = {}
    with ThreadPoolExecutor(2) as pool:
        for name, (work, blocks) in works.items():
            runs = [lambda b=blocks, f=work, m=m: list(m(f, b)) for m in (map, pool.map)]
            one_thread, two_threads = medians(runs, repeats)[0]
            figures[name] = float(one_thread / two_threads)
            print(f"{name}: two threads {figures[name]:.2f} times as fast as one ({two_threads:.3g} s)")
    return figures


def main(argv: list[str] | None = None) -> dict[str, Any]:
    parser = options(__doc__)
    parser.add_argument("parts", nargs="*", help="dtw, levenshtein, growth, threads (default: all)")
    args = parser.parse_args(argv)
    benches = {
        "dtw": (bench_dtw, 80, 1024),
        "levenshtein": (bench_levenshtein, 200, 4096),
        "growth": (bench_growth, 80, 2048),
        "threads": (bench_threads, 1600, 1024),
    }
    if unknown := set(args.parts) - set(benches):
        parser.error(f"parts must be among {', '.join(benches)}; got {', '.join(sorted(unknown))}")
    figures = start_report()
    for name in args.parts or benches:
        bench, n, R = benches[name]
        figures[name] = bench(16, 256, 1) if args.quick else bench(n, R, 7)
    write(args.output, figures)
    return figures


if __name__ == "__main__":
    main()
