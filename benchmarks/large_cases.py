"""Time and memory of large cases: sets of millions of points, many classes, dimensions, targets, strings and series.

    python benchmarks/large_cases.py [--cases million classes] [--memory-budget] [--quick] [--output large_cases.json]

Each case runs once at half and at full size, each in a fresh process, after a small run that compiles. Columns: wall
and processor seconds, peak memory above the data (VmHWM, after the data exist), the memory that the library states
before the work (plans of runs, checks of free memory; "-" if nothing is stated), their ratio, and the exponents of
processor time and memory from half to full size: 1 is linear. `--memory-budget` also fits automatic models at full size
with budget={"memory": 500 MB}, which is then the stated memory.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from typing import Any, NamedTuple

import numpy as np
from common import options, peak, reset_peak, start_report, write

import dkdist as dk
from dkdist._runtime.run import Plan
from dkdist._utils import memory_budget

MB = 1e6
MEMORY_BUDGET = 500 * MB
QUICK_DIVISOR = 100
Data = Any


class Case(NamedTuple):
    """A name, the full size, data of a size, and the work on these data."""

    name: str
    size: int
    data: Callable[[int], Data]
    work: Callable[..., Any]


def one_set(n: int) -> Data:
    """Return a set of n points in the plane, and another from a slightly shifted distribution."""
    rng = np.random.default_rng(0)
    return [
        dk.SampleSets(rng.normal(shift, 1, (n, 2)).astype(np.float32), np.array([0, n]))
        for shift in (0, 0.01)
    ]


def classes(n: int, n_classes: int = 1000, d: int = 2, n_points: int = 100) -> Data:
    """Return n sets of classes with different means and scales."""
    rng = np.random.default_rng(0)
    n_classes = min(n_classes, n // 5)
    y = rng.permutation(n) % n_classes
    means, scales = rng.normal(0, 2, (n_classes, 1, d)), rng.uniform(0.5, 1.5, (n_classes, 1, d))
    points = np.concatenate(
        [rng.normal(means[part], scales[part], (len(part), n_points, d)) for part in np.array_split(y, 20)]
    )
    return dk.SampleSets(points.astype(np.float32).reshape(-1, d), np.arange(n + 1) * n_points), y


def wide(n: int) -> Data:
    """Return two classes in 200 dimensions, whose means differ in ten dimensions."""
    X, y = classes(n, 2, 200)
    return X, y


def targets(n: int) -> Data:
    """Return sets and 1,000 targets, which are functions of the mean."""
    X, _ = classes(n)
    means = X.points.reshape(n, -1, 2).mean(axis=1)
    W = np.random.default_rng(1).normal(size=(2, 1000))
    return X, np.sin(means @ W)


def rows(n: int) -> Data:
    """Return rows (n, 2000) and 1,000 linear targets."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 2000)).astype(np.float32)
    return X, X @ rng.normal(size=(2000, 1000)).astype(np.float32)


def strings(n: int) -> Data:
    """Return strings of 60 symbols of four, whose class is the transition matrix."""
    rng = np.random.default_rng(0)
    y, text = rng.permutation(n) % 5, np.empty((n, 60), np.uint8)
    steps = np.cumsum(0.6 / 4 + 0.4 * rng.dirichlet(np.ones(4), (5, 4)), axis=2)
    text[:, 0] = rng.integers(4, size=n)
    for t in range(1, 60):
        text[:, t] = (rng.random((n, 1)) > steps[y, text[:, t - 1]][:, :-1]).sum(axis=1)
    return dk.SampleSets(text.reshape(-1, 1), np.arange(n + 1) * 60), y


def series(n: int) -> Data:
    """Return series of 50 points in one dimension: sums of a random phase's sine, whose class is the frequency."""
    rng = np.random.default_rng(0)
    y = rng.permutation(n) % 5
    angles = np.linspace(0, 2 * np.pi, 50) * (1 + 0.3 * y[:, None]) + rng.uniform(0, 2 * np.pi, (n, 1))
    points = np.sin(angles) + rng.normal(0, 0.5, angles.shape)
    return dk.SampleSets(points.astype(np.float32).reshape(-1, 1), np.arange(n + 1) * 50), y


def embed(embedding: Callable[[], Any]) -> Callable[..., Any]:
    """Return work that fits an embedding to the first set and transforms it."""
    return lambda P, Q: embedding().fit_transform(P)


def classify(X: Any, y: Any, **kwargs: Any) -> float:
    return dk.SetClassifier(random_state=0, **kwargs).fit(X, y).leaderboard_[0]["score"]


def regress(X: Any, y: Any, **kwargs: Any) -> float:
    return dk.SetRegressor(random_state=0, **kwargs).fit(X, y).leaderboard_[0]["score"]


def by_hand(embedding: Callable[[], Any]) -> Callable[..., Any]:
    """Return work that fits ridge regression on the rows of an embedding."""

    def fit(X: Any, y: Any) -> float:
        rows = embedding().fit_transform(X)
        return dk.IncrementalRidgeClassifier(random_state=0).fit(rows, y).score(rows, y)

    return fit


MILLIONS, SETS, SEQUENCES = 10_000_000, 5000, 20_000
CASES = [
    Case("one set: Jensen-Shannon embedding", MILLIONS, one_set, embed(lambda: dk.DivergenceEmbedding())),
    Case("one set: moments", MILLIONS, one_set, embed(lambda: dk.MomentEmbedding(2))),
    Case("one set: kernel mean, 1,000 features", MILLIONS, one_set, embed(lambda: dk.MeanEmbedding(1000))),
    Case("one set: sliced Wasserstein", MILLIONS, one_set, embed(lambda: dk.SlicedWassersteinEmbedding())),
    Case("two sets: kernel distance", MILLIONS, one_set, lambda P, Q: dk.kernel_distance(P.points, Q.points)),
    Case("one set: coreset of 1,000", MILLIONS, one_set, lambda P, Q: dk.coreset(P.points, 1000)),
    Case("two sets: two-sample test", MILLIONS, one_set, lambda P, Q: dk.two_sample_test(P.points, Q.points)),
    Case("1,000 classes: SetClassifier", SETS, classes, classify),
    Case("200 dimensions: SetClassifier", SETS, wide, classify),
    Case("200 dimensions: marginals, ridge", SETS, wide, by_hand(lambda: dk.DivergenceEmbedding(structure="marginal"))),
    Case("1,000 targets: SetRegressor", SETS, targets, regress),
    Case("1,000 targets: ridge, D = 2000", 10_000, rows, lambda X, y: dk.IncrementalRidge().fit(X, y)),
    Case("strings: SetClassifier", SEQUENCES, strings, classify),
    Case("strings: distances, ridge", SEQUENCES, strings, by_hand(lambda: dk.DistanceEmbedding("levenshtein"))),
    Case("series: SetClassifier", SEQUENCES, series, classify),
    Case("series: time warping, ridge", SEQUENCES, series, by_hand(lambda: dk.DistanceEmbedding("dtw"))),
]  # fmt: skip


@contextmanager
def stated_memory(base: float) -> Any:
    """Record the largest memory above ``base`` (MB) that a plan or a check of free memory states; in a list."""
    stated: list[float] = []
    check, may_allocate = Plan.check, memory_budget.may_allocate

    def record_plan(plan: Plan) -> None:
        stated.append(plan.peak_bytes / MB - base)
        check(plan)

    def record_need(n_bytes: int) -> bool:
        stated.append((memory_budget.resident_bytes() + n_bytes) / MB - base)
        return may_allocate(n_bytes)

    Plan.check, memory_budget.may_allocate = record_plan, record_need  # type: ignore[method-assign]
    yield stated
    Plan.check, memory_budget.may_allocate = check, may_allocate  # type: ignore[method-assign]


def measure(number: int, n: int, small: int, kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return the figures of a case for data of size n."""
    case = CASES[number]
    case.work(*case.data(small), **kwargs)
    data = case.data(n)
    reset_peak()
    base = peak()
    with stated_memory(base) as stated:
        start, cpu = time.perf_counter(), time.process_time()
        result = case.work(*data, **kwargs)
        seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    figures = {"n": n, "seconds": seconds, "cpu": cpu, "peak": max(peak() - base, 1.0)}
    figures["stated"] = max(stated, default=None)
    figures["score"] = result if isinstance(result, float) else None
    return figures


def run_fresh(*args: Any) -> dict[str, Any]:
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        return pool.submit(measure, *args).result()


def text(figures: dict[str, Any], half: dict[str, Any] | None) -> str:
    """Return the row of a table."""
    stated = figures["stated"]
    columns = [
        f"{figures['n']:>10,}",
        f"{figures['seconds']:8.2f}",
        f"{figures['cpu']:8.2f}",
        f"{figures['peak']:8,.0f}",
    ]
    columns += (
        ["       -", "    -"] if stated is None else [f"{stated:8,.0f}", f"{figures['peak'] / stated:5.2f}"]
    )
    if half is not None:
        columns += [
            f"{np.log2(max(figures[key], 1e-9) / max(half[key], 1e-9)):6.2f}" for key in ("cpu", "peak")
        ]
    return " | ".join(columns)


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--cases", nargs="+", default=[""], help="parts of names of cases")
    parser.add_argument("--memory-budget", action="store_true", help="also fit with a budget of memory")
    args = parser.parse_args()
    report = start_report()
    print(
        "case | size | seconds | CPU s | peak MB | stated MB | peak / stated | exponents of CPU time, memory"
    )
    for number, case in enumerate(CASES):
        if not any(part in case.name for part in args.cases):
            continue
        full = case.size // QUICK_DIVISOR if args.quick else case.size
        small = min(full // 2, max(50, case.size // 1000))
        figures: dict[str, Any] = {}
        for n in (full // 2, full):
            figures[str(n)] = run_fresh(number, n, small, {})
            print(
                f"{case.name} | {text(figures[str(n)], figures.get(str(full // 2)) if n == full else None)}",
                flush=True,
            )
        if args.memory_budget and case.work in (classify, regress):
            figures["memory budget"] = limited = run_fresh(
                number, full, small, {"budget": {"memory": MEMORY_BUDGET}}
            )
            limited["stated"] = MEMORY_BUDGET / MB
            print(f"{case.name}, budget | {text(limited, None)}", flush=True)
        report[case.name] = figures
    write(args.output, report)


if __name__ == "__main__":
    main()
