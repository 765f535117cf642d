"""Time, memory and accuracy of `SetClassifier` on large collections, beside a pipeline by hand and boosting.

    python benchmarks/automatic_large.py [--sizes 8000 100000 1000000] [--repeats 3] [--methods automatic hand boosting]
                                         [--landmarks 384 768 1536] [--training-sets 32768 65536 131072]
                                         [--before FOLDER] [--folder DIR] [--quick] [--output automatic_large.json]

Sets are the Gaussian mixtures of million.py (200 points, two dimensions); classes are at most 5, and more than 5,
components. Collections of up to 100,000 sets are in memory, larger ones in a store. Every fit has a process of its
own, after a fit to 5,000 sets that compiles.

automatic   `SetClassifier()`; with --before also that of another copy of the library in a folder; with --landmarks and
            --training-sets also with other values of `N_LANDMARKS` and `MAX_STREAMED_SETS` of `auto/_tuning.py`
hand        `DivergenceEmbedding("hellinger")`, `RandomFourierFeatures()`, `IncrementalSGDClassifier()`
boosting    scikit-learn's histogram gradient boosting on 32 quantiles of each dimension, computed in memory

Medians of the repeats: seconds of the wall clock and of the processor, and MB of the peak above the points and the
memory of the library after a fit to 100 sets. Accuracy is that on 50,000 fresh sets; differences are paired.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from common import Mixtures, options, peak, reset_peak, sources, start_report, write

import dkdist as dk

POINTS, N_FRESH, SETS_PER_SOURCE = 200, 50_000, 4096
N_IMPORT, N_WARMUP = 100, 5000  # sets of the fits that import and compile
MAX_IN_MEMORY, N_QUANTILES = 100_000, 32
METHODS = "automatic", "hand", "boosting"
FRESH_SEED = 10**9  # first set of the fresh collection, which no training collection reaches


def mixtures(n: int, first: int = 0) -> tuple[dk.SampleSets, np.ndarray]:
    """Return n sets and their classes."""
    batches = sources(n, POINTS, SETS_PER_SOURCE)
    pairs = [Mixtures().read((first + start, size, points)) for start, size, points in batches]
    points = np.concatenate([sets.points for sets, _ in pairs])
    return dk.SampleSets(points, np.arange(n + 1) * POINTS), np.concatenate([k for _, k in pairs]) > 5


def quantiles(sets: Any) -> np.ndarray:
    """Return quantiles (n, 2 * N_QUANTILES) of each dimension of each set, block by block."""
    levels = np.linspace(0, POINTS - 1, N_QUANTILES).round().astype(int)
    blocks = (sets[i : i + SETS_PER_SOURCE] for i in range(0, len(sets), SETS_PER_SOURCE))
    loaded = (one if isinstance(one, dk.SampleSets) else one.load() for one in blocks)
    rows = [np.sort(one.points.reshape(-1, POINTS, 2), axis=1)[:, levels] for one in loaded]
    return np.concatenate(rows).reshape(len(sets), -1)


class Boosting:
    """Gradient boosting on quantiles."""

    def fit(self, sets: Any, y: np.ndarray) -> Boosting:
        from sklearn.ensemble import HistGradientBoostingClassifier

        self.model = HistGradientBoostingClassifier(random_state=0).fit(quantiles(sets), y)
        return self

    def predict(self, sets: Any) -> Any:
        return self.model.predict(quantiles(sets))


def make_model(method: str) -> Any:
    """Return an unfitted model."""
    from sklearn.pipeline import make_pipeline

    if method == "automatic":
        return dk.SetClassifier(random_state=0)
    if method == "boosting":
        return Boosting()
    embedding, features = dk.DivergenceEmbedding("hellinger"), dk.RandomFourierFeatures(random_state=0)
    return make_pipeline(embedding, features, dk.IncrementalSGDClassifier(random_state=0))


def measure(
    method: str, n: int, store: Path | None, constants: Mapping[str, int] | None = None
) -> dict[str, Any]:
    """Fit one model in this process; return seconds, memory and flags (N_FRESH,) of correct predictions."""
    for name, value in (constants or {}).items():
        setattr(import_module("dkdist.auto._tuning"), name, value)
    make_model(method).fit(*mixtures(N_IMPORT))
    before = peak()
    make_model(method).fit(*mixtures(N_WARMUP))
    if store is None:
        sets, y = mixtures(n)
    else:
        sets = dk.open_sets(store)
        y = sets.targets["y"] > 5
    reset_peak()
    data = 0 if store is not None else sets.points.nbytes / 1e6
    start, start_processor = time.perf_counter(), time.process_time()
    model = make_model(method).fit(sets, y)
    seconds, processor = time.perf_counter() - start, time.process_time() - start_processor
    result = {"seconds": seconds, "processor": processor, "MB": peak() - before - data}
    fresh, y_fresh = mixtures(N_FRESH, FRESH_SEED)
    start = time.perf_counter()
    predicted = model.predict(fresh)
    result |= {"ms_per_set": (time.perf_counter() - start) * 1e3 / N_FRESH, "correct": predicted == y_fresh}
    return result


def in_new_process(
    method: str, n: int, store: Path | None, before: Path | None, constants: Mapping[str, int]
) -> dict[str, Any]:
    """Run `measure` in a process of its own; with ``before`` on the library in that folder."""
    if before is None:
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as executor:
            return executor.submit(measure, method, n, store, constants).result()
    with tempfile.TemporaryDirectory() as name:
        output = Path(name) / "result.npz"
        call = f"a.measure({method!r}, {n}, {store and str(store)!r})"
        code = f"import numpy, automatic_large as a; numpy.savez({str(output)!r}, **{call})"
        paths = os.pathsep.join([str(before), str(Path(__file__).parent)])
        environment = os.environ | {"PYTHONPATH": paths}
        subprocess.run([sys.executable, "-c", code], check=True, env=environment, cwd=before)
        return {key: value[()] for key, value in np.load(output).items()}


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--sizes", nargs="+", type=int, default=[8000, 100_000, 1_000_000])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=METHODS)
    parser.add_argument("--landmarks", nargs="+", type=int, default=[])
    parser.add_argument("--training-sets", nargs="+", type=int, default=[])
    parser.add_argument("--before", type=Path, help="folder of another copy of the library")
    parser.add_argument("--folder", type=Path, help="folder of the stores, which are removed at the end")
    args = parser.parse_args()
    if args.quick:
        args.sizes, args.repeats = [5000], 1
    runs: list[tuple[str, str, Path | None, dict[str, int]]] = [(one, one, None, {}) for one in args.methods]
    if args.before is not None:
        runs.append(("automatic, before", "automatic", args.before, {}))
    for m in args.landmarks:
        runs.append((f"{m} landmarks", "automatic", None, {"N_LANDMARKS": m, "N_LANDMARKS_OF_MANY_SETS": m}))
    for most in args.training_sets:
        runs.append((f"{most} sets", "automatic", None, {"MAX_STREAMED_SETS": most}))
    report = start_report()
    with tempfile.TemporaryDirectory(dir=args.folder) as name:
        for n in args.sizes:
            store = Path(name) / f"{n}.zarr" if n > MAX_IN_MEMORY else None
            if store is not None:
                dk.import_sets(store, sources(n, POINTS, SETS_PER_SOURCE), Mixtures())
            results: dict[str, list[dict[str, Any]]] = {label: [] for label, *_ in runs}
            for _ in range(args.repeats):
                for label, method, before, constants in runs:
                    results[label].append(in_new_process(method, n, store, before, constants))
            print(f"{n:,} sets")
            first = results[runs[0][0]][0]["correct"].astype(float)
            for label, of_label in results.items():
                figures = {
                    key: float(np.median([one[key] for one in of_label]))
                    for key in ("seconds", "processor", "MB", "ms_per_set")
                }
                correct = of_label[0]["correct"]
                difference = first - correct
                figures |= {"accuracy": correct.mean(), "behind": difference.mean()}
                error = difference.std() / np.sqrt(len(difference))
                print(
                    f"  {label:<18} {figures['seconds']:7.2f} s {figures['processor']:7.2f} CPU s "
                    f"{figures['MB']:7.0f} MB {figures['ms_per_set']:7.4f} ms a prediction, accuracy "
                    f"{figures['accuracy']:.4f}, behind by {figures['behind']:+.4f} ± {error:.4f}",
                    flush=True,
                )
                report[f"{n} {label}"] = figures
    write(args.output, report)


if __name__ == "__main__":
    main()
