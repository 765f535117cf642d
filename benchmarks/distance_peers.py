"""Time of distances between collections, compared with other libraries through their public functions, one thread.

    python benchmarks/distance_peers.py [strings] [edits] [long] [series] [elastic] [line] [--quick] [--output FILE]

strings  all pairs of short strings by `dk.distance_matrix`, compared with `process.cdist` of rapidfuzz
edits    all pairs of strings of 20, 200 and 2,000 symbols by other string distances, compared with `cdist` of rapidfuzz
long     two strings of 20 to 100,000 symbols: unrelated, 10 % changed, and nearly equal; by a call of the distance, by
         a matrix (compared with `cdist` of rapidfuzz), and, if long, by only the compiled function; and 30 strings that
         are nearly equal
series   dynamic time warping of 2 to 20 series in one and several variables, by a matrix and by a call, compared with
         dtaidistance
elastic  ERP, TWED, MSM and soft-DTW of 20 series, compared with aeon (which defines ERP differently, and soft-DTW of a
         series to itself as 0: see docs/benchmarks.md)
line     the exact Wasserstein distance in one and two dimensions, compared with POT

Seconds are the minimum processor time of interleaved runs; the ratio is the time of the other library divided by that
of dkdist. "apart" is the maximum difference of the results, relative to max(1, value). Missing libraries are named and
skipped.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import dask
import numpy as np
from common import options, start_report, write

import dkdist as dk

Rows = list[dict[str, Any]]
rng = np.random.default_rng(0)
MIN_TIMED_SECONDS = 2e-3  # shorter calls are repeated
MIN_COMPILED_SYMBOLS = 2000  # for longer strings, the compiled function is most of the time of a pair


def compare(case: str, dkdist_call: Callable[[], Any], peer: Callable[[], Any], repeats: int) -> Rows:
    """Return a row with seconds of both functions and the maximum difference of their results."""
    values, peer_values = np.asarray(dkdist_call(), np.float64), np.asarray(peer(), np.float64)
    call_seconds: tuple[list[float], list[float]] = ([], [])
    for _ in range(repeats):
        for seconds, work in zip(call_seconds, (dkdist_call, peer), strict=True):
            start, n_calls = time.process_time(), 0
            while not n_calls or time.process_time() - start < MIN_TIMED_SECONDS:
                for _ in range(
                    max(1, n_calls)
                ):  # reading the clock takes as long as a call of some microseconds
                    work()
                n_calls += max(1, n_calls)
            seconds.append((time.process_time() - start) / n_calls)
    a, b = min(call_seconds[0]), min(call_seconds[1])
    max_difference = float(np.max(np.abs(values - peer_values) / np.maximum(1, np.abs(peer_values))))
    print(f"{case:<68}{a:>11.2e} s{b:>11.2e} s   ratio {b / a:7.2f}   apart {max_difference:.0e}", flush=True)
    return [{"case": case, "seconds": a, "peer_seconds": b, "ratio": b / a, "apart": max_difference}]


def random_string(n: int, symbols: int) -> str:
    return "".join(map(chr, rng.integers(97, 97 + symbols, n)))


def edit(text: str, n_edits: int) -> str:
    characters = list(text)
    for position, kind in zip(rng.integers(0, len(text), n_edits), rng.integers(0, 3, n_edits), strict=True):
        characters[position : position + (kind < 2)] = [random_string(1, 4)] if kind else []
    return "".join(characters)


def compiled_call(text: str, other: str) -> Callable[[], Any]:
    """Return a function that computes the distance of two strings without the overhead of a call."""
    x, y = (np.frombuffer(s.encode(), np.uint8)[:, None] for s in (text, other))
    distance, out = dk.Levenshtein(), np.empty((1, 1), np.float32)
    packed = distance.prepare(y, np.array([0, len(y)]), None)

    def fill() -> Any:
        distance.fill(packed, x, np.array([0, len(x)]), None, out)
        return out

    return fill


def bench_strings(quick: bool) -> Rows:
    from rapidfuzz.distance import Levenshtein
    from rapidfuzz.process import cdist

    rows: Rows = []
    n = 200 if quick else 2000
    for low, high, symbols in ((5, 20, 26), (5, 60, 26), (60, 60, 4)):
        words = [random_string(int(size), symbols) for size in rng.integers(low, high + 1, n)]
        rows += compare(
            f"{n} strings of {low} to {high} of {symbols} symbols",
            lambda w=words: dk.distance_matrix(w, distance="levenshtein"),
            lambda w=words: cdist(w, w, scorer=Levenshtein.distance, workers=1, dtype=np.int32),
            1 if quick else 5,
        )
    return rows


def bench_edits(quick: bool) -> Rows:
    from rapidfuzz import distance as peers
    from rapidfuzz.process import cdist

    def weighted(insertion: float, deletion: float, substitution: float) -> tuple[Any, Any, dict[str, Any]]:
        weights = (insertion, deletion, substitution)
        return dk.Levenshtein(False, None, *weights), peers.Levenshtein, {"weights": weights}

    rows: Rows = []
    for n, length in ((40, 20), (9, 200)) if quick else ((2000, 20), (300, 200), (60, 2000)):
        texts = [random_string(length, 8) for _ in range(n)]
        for name, (dkdist_call, peer_values, kwargs) in {
            "optimal string alignment": ("osa", peers.OSA, {}),
            "Damerau and Levenshtein": ("damerau-levenshtein", peers.DamerauLevenshtein, {}),
            "insertions and deletions": ("indel", peers.Indel, {}),
            "costs 3, 3, 2": weighted(3, 3, 2),
            "costs 1, 2, 2": weighted(1, 2, 2),
            "costs 300, 300, 401": weighted(300, 300, 401),
            "Jaro-Winkler": ("jaro-winkler", peers.JaroWinkler, {}),
        }.items():
            # rapidfuzz is slow here
            words = (
                texts[: n // (4 if length == 2000 else 2)]
                if kwargs or peer_values is peers.DamerauLevenshtein
                else texts
            )
            rows += compare(
                f"{name}, {len(words)} strings of {length} symbols",
                lambda w=words, o=dkdist_call: dk.distance_matrix(w, distance=o),
                lambda w=words, t=peer_values, k=kwargs: cdist(
                    w, w, scorer=t.distance, workers=1, dtype=np.float64, scorer_kwargs=k
                ),
                1 if quick else 2,
            )
    return rows


def bench_long(quick: bool) -> Rows:
    from rapidfuzz.distance import Levenshtein
    from rapidfuzz.process import cdist

    rows: Rows = []
    for n in (5000,) if quick else (20, 200, 2000, 10_000, 100_000):
        text = random_string(n, 4)
        for label, other in (
            ("unrelated", random_string(n, 4)),
            ("a tenth changed", edit(text, n // 10)),
            ("ten edits", edit(text, 10)),
        ):
            case, distance = f"two strings of {n} symbols, {label}", dk.Levenshtein()
            repeats = 1 if quick else 9 if n < 1e5 else 3

            def peer(x: str = text, y: str = other) -> Any:
                return Levenshtein.distance(x, y)

            rows += compare(
                f"{case}, a call of the distance",
                lambda x=text, y=other, d=distance: d(x, y),
                peer,
                repeats,
            )
            rows += compare(
                case,
                lambda x=text, y=other: dk.distance_matrix([x], [y], distance="levenshtein"),
                lambda x=text, y=other: cdist([x], [y], scorer=Levenshtein.distance, workers=1),
                repeats,
            )
            if n >= MIN_COMPILED_SYMBOLS:
                rows += compare(
                    f"{case}, only the compiled function", compiled_call(text, other), peer, repeats
                )
    n = 2000 if quick else 10_000
    text = random_string(n, 4)
    texts = [edit(text, 30) for _ in range(30)]
    rows += compare(
        f"30 strings of {n} symbols, 30 edits each",
        lambda: dk.distance_matrix(texts, distance="levenshtein"),
        lambda: cdist(texts, texts, scorer=Levenshtein.distance, workers=1, dtype=np.int32),
        1 if quick else 2,
    )
    return rows


def series(n: int, length: int, d: int) -> list[np.ndarray]:
    return [rng.standard_normal((length, d)) for _ in range(n)]


def bench_series(quick: bool) -> Rows:
    from dtaidistance import dtw, dtw_ndim

    rows: Rows = []
    distance = dk.DynamicTimeWarping(root=True)
    for n, length, d in (
        ((10, 100, 1),)
        if quick
        else ((2, 100, 1), (6, 100, 1), (20, 100, 1), (20, 100, 3), (20, 100, 22), (2, 2000, 1), (2, 2000, 3))
    ):
        x = series(n, length, d)
        peer_series = [np.ascontiguousarray(s[:, 0]) for s in x] if d == 1 else x
        peer_values = dtw.distance_matrix_fast if d == 1 else dtw_ndim.distance_matrix_fast
        rows += compare(
            f"DTW, {n} series of {length} points in {d} variables",
            lambda x=x: dk.distance_matrix(x, distance=distance),
            lambda s=peer_series, f=peer_values: f(s, parallel=False),
            1 if quick else 5,
        )
        if n == 2:
            peer_call = dtw.distance_fast if d == 1 else dtw_ndim.distance_fast
            rows += compare(
                f"DTW, {n} series of {length} points in {d} variables, a call",
                lambda x=x: distance(*x),
                lambda s=peer_series, f=peer_call: f(*s),
                1 if quick else 5,
            )
    return rows


def bench_elastic(quick: bool) -> Rows:
    from aeon import distances as aeon

    rows: Rows = []
    for n, length, d in ((4, 30, 1),) if quick else ((20, 100, 1), (20, 100, 3)):
        x = series(n, length, d)
        X = np.array([s.T for s in x])
        for name, dkdist_call, peer_values in (
            ("ERP", dk.ERP(), lambda X=X: aeon.erp_pairwise_distance(X, g=0.0, n_jobs=1)),
            ("TWED", dk.TWED(), lambda X=X: aeon.twe_pairwise_distance(X, n_jobs=1)),
            ("MSM", dk.MSM(), lambda X=X: aeon.msm_pairwise_distance(X, n_jobs=1)),
            (
                "soft-DTW, absolute values",
                dk.SoftDTW(divergence=False),
                lambda X=X: aeon.soft_dtw_pairwise_distance(X, gamma=1.0, n_jobs=1),
            ),
        ):
            rows += compare(
                f"{name}, {n} series of {length} points in {d} variables",
                lambda x=x, o=dkdist_call: np.abs(dk.distance_matrix(x, distance=o)) * (1 - np.eye(len(x))),
                peer_values,
                1 if quick else 3,
            )
    return rows


def bench_line(quick: bool) -> Rows:
    import ot

    rows: Rows = []
    for n, size, d in ((5, 10, 1), (5, 10, 2)) if quick else ((30, 100, 1), (30, 30, 2), (10, 200, 2)):
        x = series(n, size, d)
        w = np.full(size, 1 / size)
        if d == 1:
            peer = lambda x=x: [[ot.wasserstein_1d(a[:, 0], b[:, 0]) for b in x] for a in x]  # noqa: E731
        else:
            peer = lambda x=x, w=w: [[ot.emd2(w, w, ot.dist(a, b, "euclidean")) for b in x] for a in x]  # noqa: E731
        rows += compare(
            f"W1, {n} sets of {size} points in {d} dimension(s)",
            lambda x=x: dk.distance_matrix(x, x, distance="wasserstein"),
            peer,
            1 if quick else 3,
        )
    return rows


BENCHES = {
    "strings": (bench_strings, "rapidfuzz"),
    "edits": (bench_edits, "rapidfuzz"),
    "long": (bench_long, "rapidfuzz"),
    "series": (bench_series, "dtaidistance"),
    "elastic": (bench_elastic, "aeon"),
    "line": (bench_line, "ot"),
}


def main(argv: list[str] | None = None) -> dict[str, Any]:
    parser = options(__doc__)
    parser.add_argument("parts", nargs="*", help=f"{', '.join(BENCHES)} (default: all)")
    args = parser.parse_args(argv)
    if unknown := set(args.parts) - set(BENCHES):
        parser.error(f"parts must be among {', '.join(BENCHES)}; got {', '.join(sorted(unknown))}")
    figures = start_report()
    with dask.config.set(num_workers=1), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # warnings of Numba from aeon
        for name in args.parts or BENCHES:
            bench, peer = BENCHES[name]
            if find_spec(peer) is None:
                print(f"{name}: {peer} is not installed: skipped")
                continue
            figures[name] = bench(args.quick)
    write(args.output, figures)
    return figures


if __name__ == "__main__":
    main()
