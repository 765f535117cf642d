"""Accuracy of densities of single dimensions, of selected pairs of dimensions, and of all dimensions jointly.

    python benchmarks/structure.py [part ...] [--quick] [--output results.json]

Parts: correlation6 and correlation12 (two classes of Gaussians with equal marginals; correlations differ in sign for 9
of 15 pairs, and for one of 66), auslan (series of 22 variables), mnist_sift (128 dimensions, and their principal
components). All by default. Data: DKDIST_DATA. A row is the Hellinger embedding with one structure and bandwidth: test
accuracy of ridge regression on the embedding ("linear") and on 5,000 random features of it, the structure, number of
pairs, number of columns, and seconds of one run of the embedding and the linear fit.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from common import options, start_report, write
from sklearn.pipeline import make_pipeline

import dkdist as dk

sys.path.insert(0, str(Path(__file__).parent / "papers"))
import distance_tasks

BANDWIDTHS = (0.1, "auto")
MAX_JOINT_DIMS = 6

Split = tuple[Any, np.ndarray, Any, np.ndarray]


def correlation(d: int, n_pairs: int, quick: bool) -> Split:
    """Return sets of 100 points whose classes differ only in the signs of correlations of pairs."""
    n = 200 if quick else 1000
    rng = np.random.default_rng(0)
    y = np.arange(2 * n) % 2
    roots = [np.linalg.cholesky(_covariance(d, n_pairs, sign)) for sign in (-1, 1)]
    sets = dk.SampleSets.from_arrays([rng.standard_normal((100, d)) @ roots[c].T for c in y])
    return sets[:n], y[:n], sets[n:], y[n:]


def _covariance(d: int, n_pairs: int, sign: int) -> np.ndarray:
    """Return unit variances with one correlation of +-0.4, or with one factor whose loadings may alternate in sign."""
    if n_pairs == 1:
        basis = np.eye(d)
        basis[3, 7] = basis[7, 3] = 0.4 * sign
        return basis
    loadings = np.where(np.arange(d) % 2, sign, 1) * np.sqrt(0.3)
    return np.outer(loadings, loadings) + 0.7 * np.eye(d)


def load_file(name: str, quick: bool) -> Split:
    data = distance_tasks.load(name, *((150, 100) if quick else (None, None)))
    return data.train, data.y, data.test, data.y_test


TASKS: dict[str, Callable[[bool], Split]] = {
    "correlation6": lambda quick: correlation(6, 15, quick),
    "correlation12": lambda quick: correlation(12, 1, quick),
    "auslan": lambda quick: load_file("auslan", quick),
    "mnist_sift": lambda quick: load_file("mnist_sift", quick),
}


def evaluate(
    split: Split, structure: Any, bandwidth: Any, steps_before: list[Any], n_features: int
) -> dict[str, Any]:
    """Return accuracies, structure, columns and seconds of one structure."""
    train, y, test, y_test = split
    embedding = dk.DivergenceEmbedding(structure=structure, bandwidth=bandwidth)
    rows, features = (
        make_pipeline(*steps_before, embedding),
        dk.RandomFourierFeatures(n_features, random_state=0),
    )
    learners = {"linear": [dk.IncrementalRidgeClassifier(random_state=0)]}
    learners["features"] = [features, dk.IncrementalRidgeClassifier(random_state=0)]
    start = time.perf_counter()
    A, scores, seconds = rows.fit_transform(train), {}, 0.0
    for name, steps in learners.items():
        model = make_pipeline(*steps).fit(A, y)
        seconds = seconds or time.perf_counter() - start
        scores[name] = float(model.score(rows.transform(test), y_test))
    return scores | {
        "taken": embedding.structure_, "pairs": len(embedding.pairs_), "found": embedding.n_pairs_found_,
        "columns": embedding.spec_.n_features, "seconds": seconds,
    }  # fmt: skip


def compare(name: str, quick: bool) -> dict[str, Any]:
    """Evaluate every possible structure and bandwidth; with 32 or more dimensions, also of principal components."""
    split = TASKS[name](quick)
    d = split[0].n_dims
    structures = ["marginal", "pairs", "auto", *(["joint"] if d <= MAX_JOINT_DIMS else [])]
    settings: list[tuple[str, Any, list[Any]]] = [(name, name, []) for name in structures]
    if d >= 32:
        settings += [(f"{name} of components", name, [dk.SetPCA(64)]) for name in ("marginal", "pairs")]
    rows = {}
    for label, structure, steps_before in settings:
        for h in (0.1,) if quick else BANDWIDTHS:
            row = evaluate(split, structure, h, steps_before, 500 if quick else 5000)
            rows[f"{label}, bandwidth {h}"] = row
            print(
                f"  {name:<14}{label:<24}{h!s:<6}", *(f"{k} {_short(v)}" for k, v in row.items()), flush=True
            )
    return rows


def _short(value: Any) -> Any:
    return round(value, 3) if isinstance(value, float) else value


def main(argv: list[str] | None = None) -> dict[str, Any]:
    parser = options(__doc__)
    parser.add_argument("parts", nargs="*", help=f"any of {', '.join(TASKS)} (default: all)")
    arguments = parser.parse_args(argv)
    if unknown := set(arguments.parts) - set(TASKS):
        parser.error(f"unknown parts: {', '.join(sorted(unknown))}")
    report = start_report()
    for name in arguments.parts or TASKS:
        report[name] = compare(name, arguments.quick)
    write(arguments.output, report)
    return report


if __name__ == "__main__":
    main()
