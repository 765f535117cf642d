"""Accuracy, intervals, levels and explanations of the automatic models without arguments.

    python benchmarks/defaults.py [part ...] [--quick] [--output results.json]

Parts, all by default: gram (squared correlations in the Gram experiment of P1's appendix), divergence (d^2 compared
with the true divergence, by number of points), the tasks of docs/benchmarks.md (mixtures, images, scenes, auslan,
pentip, splice, mnist_str8, mnist_str4, mnist_sift), intervals (coverage), groups (level of `group_test`), points (area
under the ROC curve of planted points). On a task, accuracy or RMSE of `SetClassifier` or `SetRegressor` without
arguments is compared with the tuned result of docs/benchmarks.md, simple baselines, and the five-line pipeline with
default parameters; seconds are those of one fit. Data: DKDIST_DATA.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from common import options, rmse, start_report, write
from scipy.stats import norm
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline

import dkdist as dk

sys.path.insert(0, str(Path(__file__).parent / "papers"))
import cats_dogs
import distance_tasks
import gram_published
import mixture
import scenes as fifteen_scenes


@dataclass(frozen=True)
class Task:
    """Training sets, test sets, and the score of a tuned model with its standard error."""

    train: Any
    y: np.ndarray
    test: Any
    y_test: np.ndarray
    tuned: float
    tuned_error: float


def mixtures(quick: bool) -> Task:
    n, n_test = (600, 300) if quick else (16_000, 4_000)
    sets, y = mixture.mixtures(0, n + n_test, 200)
    return Task(sets[:n], y[:n], sets[n:], y[n:], 1.383, 0.017)


def images(quick: bool) -> Task:
    n, n_test = (400, 200) if quick else (10_000, 2_000)
    x, y, x_test, y_test = cats_dogs.images(0)
    return Task(
        cats_dogs.values(x[:n]), y[:n], cats_dogs.values(x_test[:n_test]), y_test[:n_test], 0.688, 0.010
    )


def scenes(quick: bool) -> Task:
    """Return images as sets of 2,700 SIFT descriptors in 128 dimensions."""
    result = fifteen_scenes.descriptors(None, 12 if quick else None)
    train, test = fifteen_scenes.split(result.labels, 8 if quick else fifteen_scenes.TRAIN_PER_CLASS, 0)
    parts = [
        [result.values[result.offsets[i] : result.offsets[i + 1]] for i in rows] for rows in (train, test)
    ]
    sets = [dk.SampleSets.from_arrays([part.astype(np.float32) for part in part_sets]) for part_sets in parts]
    return Task(sets[0], result.labels[train], sets[1], result.labels[test], 0.820, 0.007)


TUNED = {
    "auslan": 0.9883, "pentip": 0.9977, "splice": 0.9133, "mnist_str8": 0.9850, "mnist_str4": 0.9847,
    "mnist_sift": 0.9105,
}  # fmt: skip


def of_distances(name: str, quick: bool) -> Task:
    data = distance_tasks.load(name, *((300, 200) if quick else (None, None)))
    error = np.sqrt(TUNED[name] * (1 - TUNED[name]) / len(data.y_test))
    return Task(data.train, data.y, data.test, data.y_test, TUNED[name], float(error))


def five_lines(task: Task, classes: bool) -> tuple[float, float]:
    """Return score and fit seconds of the five-line pipeline with default parameters."""
    text = task.train.relative.dtype.kind == "u"
    embedding = (
        dk.DistanceEmbedding("levenshtein", random_state=0)
        if text
        else dk.DivergenceEmbedding(random_state=0)
    )
    learner = dk.IncrementalSGDClassifier if classes else dk.IncrementalSGDRegressor
    features = dk.RandomFourierFeatures(5000, random_state=0)
    model = make_pipeline(embedding, features, learner(random_state=0))
    start = time.perf_counter()
    model.fit(task.train, task.y)
    seconds = time.perf_counter() - start
    return score_of(model, task, classes), seconds


def score_of(model: Any, task: Task, classes: bool) -> float:
    return (
        float(model.score(task.test, task.y_test)) if classes else rmse(task.y_test, model.predict(task.test))
    )


def evaluate_task(task: Task) -> dict[str, Any]:
    """Compare `SetClassifier` or `SetRegressor` with the tuned score and the five-line pipeline."""
    classes = task.y.dtype.kind != "f"
    automatic = dk.SetClassifier(random_state=0) if classes else dk.SetRegressor(random_state=0)
    lines, seconds_of_lines = five_lines(task, classes)
    start = time.perf_counter()
    model = automatic.fit(task.train, task.y)
    seconds = time.perf_counter() - start
    score = score_of(model, task, classes)
    n = len(task.y_test)
    error = np.sqrt(score * (1 - score) / n) if classes else score / np.sqrt(2 * n)
    print(model.summary())
    return {
        "sets": len(task.y), "score": score, "error": float(error), "tuned": task.tuned,
        "tuned_error": task.tuned_error, "five_lines": lines, "seconds": seconds,
        "times_five_lines": seconds / seconds_of_lines, "leads": model.leads_,
    }  # fmt: skip


def gram(quick: bool) -> dict[str, Any]:
    """Return squared correlations of the Gram experiment with default parameters: rows A, 7,000 random features z."""
    result: dict[str, list[float]] = {"A": [], "z": []}
    for seed in range(1 if quick else 5):
        sets, truth = gram_published.collection(seed, *((12, 400) if quick else (50, 2500)))
        K, sigma2 = gram_published.kernel_and_scale(truth)
        A = np.asarray(dk.DivergenceEmbedding("jensen-shannon", random_state=seed).fit_transform(sets))
        features = dk.RandomFourierFeatures(7000, sigma=float(np.sqrt(sigma2)), random_state=seed)
        z = features.fit_transform(A)
        result["A"].append(gram_published.corr2(gram_published.by_rows(A, sigma2), K))
        result["z"].append(gram_published.corr2(z @ z.T, K))
    return {k: {"mean": float(np.mean(v)), "sd": float(np.std(v))} for k, v in result.items()} | {
        "paper": {"A": 0.9735, "z": 0.9662}
    }


def divergence(quick: bool) -> list[dict[str, float]]:
    """Return d^2 of N(0, 1) and N(0.5, 1) (Jensen-Shannon, nats, domain scaled to [0, 1]), and the true value."""
    rows = []
    for n in (200, 2000) if quick else (200, 2_000, 20_000, 200_000):
        result, true = [], []
        for seed in range(5):
            rng = np.random.default_rng(seed)
            pair = [rng.normal(m, 1, (n, 1)) for m in (0, 0.5)]
            model = dk.DivergenceEmbedding("jensen-shannon", random_state=0).fit(pair)
            A = np.asarray(model.transform(pair), np.float64)
            low, high = (side[0] for side in model.spec_.domain.arrays)
            x = np.linspace(low, high, 200_001) + model.origin_[0]
            p, q = (norm.pdf(x, m, 1) for m in (0, 0.5))
            js = p / 2 * np.log(2 * p / (p + q)) + q / 2 * np.log(2 * q / (p + q))
            true.append(float(np.trapezoid(js, x)))
            result.append(float(((A[0] - A[1]) ** 2).sum()))
        rows.append({"points": n, "d2": float(np.mean(result)), "true": float(np.mean(true))})
        rows[-1]["bias"] = rows[-1]["d2"] / rows[-1]["true"] - 1
    return rows


def intervals(quick: bool) -> dict[str, float]:
    """Return the coverage of 90 % intervals for sets of 20 points, and of 5 to 200 points."""
    result = {}
    for name, sizes in (("20 points", (20,)), ("5 to 200 points", (5, 20, 200))):
        covered = []
        for seed in range(2 if quick else 20):
            rng = np.random.default_rng(seed)
            y = rng.uniform(-1, 1, 1200)
            sets = [rng.normal(v, 1, (rng.choice(sizes), 1)) for v in y]
            model = dk.SetRegressor(random_state=seed).fit(sets[:200], y[:200])
            low, high = model.predict_interval(sets[200:], 0.9).T
            covered.append(((low <= y[200:]) & (y[200:] <= high)).mean())
        result[name] = float(np.mean(covered))
    return result


def groups(quick: bool) -> dict[str, float]:
    """Return the rejection rate of `group_test` at level 0.05 without a difference: 20 sets with random means."""
    n, rejected = 40 if quick else 5000, 0
    for seed in range(n):
        rng = np.random.default_rng(seed)
        sets = [rng.normal(rng.normal(), 1, (30, 2)) for _ in range(20)]
        test = dk.group_test(sets, np.arange(20) % 2, n_permutations=99, random_state=seed)
        rejected += test.p_value <= 0.05
    return {"level": rejected / n, "error": float(np.sqrt(0.05 * 0.95 / n))}


def points(quick: bool) -> dict[str, float]:
    """Return the area under the ROC curve of contributions from `explain` for planted points."""
    result = []
    for seed in range(1 if quick else 5):
        rng = np.random.default_rng(seed)

        def planted(c: int, rng: np.random.Generator = rng) -> np.ndarray:
            x = rng.normal(size=(200, 2))
            x[:10] = x[:10] / 5 + [2.5, -2.5] if c else x[:10]
            return x

        y = np.arange(200) % 2
        model = dk.SetClassifier(random_state=seed).fit([planted(c) for c in y], y)
        explained = model.explain([planted(1) for _ in range(50)])
        result.append(np.mean([roc_auc_score(np.arange(200) < 10, c) for c in explained]))
    return {"AUC": float(np.mean(result))}


PARTS: dict[str, Callable[[bool], Any]] = {
    "gram": gram, "divergence": divergence,
    "mixtures": lambda quick: evaluate_task(mixtures(quick)), "images": lambda quick: evaluate_task(images(quick)),
    "scenes": lambda quick: evaluate_task(scenes(quick)),
    **{name: lambda quick, name=name: evaluate_task(of_distances(name, quick)) for name in TUNED},
    "intervals": intervals, "groups": groups, "points": points,
}  # fmt: skip


def main(argv: list[str] | None = None) -> dict[str, Any]:
    parser = options(__doc__)
    parser.add_argument("parts", nargs="*", help=f"any of {', '.join(PARTS)} (default: all)")
    arguments = parser.parse_args(argv)
    if unknown := set(arguments.parts) - set(PARTS):
        parser.error(f"unknown parts: {', '.join(sorted(unknown))}")
    report = start_report()
    for name in arguments.parts or PARTS:
        report[name] = PARTS[name](arguments.quick)
        print(name, report[name], flush=True)
    write(arguments.output, report)
    return report


if __name__ == "__main__":
    main()
