"""Accuracy of `DistanceEmbedding` with default parameters, compared with earlier defaults and tuned parameters.

    python benchmarks/distance_defaults.py [task ...] [--quick] [--splits 3] [--vary | --few] [--output results.json]

Tasks of docs/benchmarks.md, all by default: auslan, pentip (without zero padding), splice, mnist_str4, mnist_str8,
mnist_sift. "given" is the accuracy on the published test objects after training on all others. The other columns are
from random splits of the training objects, at most 1,500 for training and 1,000 for testing: mean accuracy, and the
difference to the earlier defaults ("ahead") with its standard error, paired by split. Learners have default parameters.

--vary changes one parameter at a time (gamma, sampler, lengths, R, ...), on the random splits only; gammas are in units
of 1 / median distance.

--few compares small numbers of landmarks that are drawn at random, by leverage scores, and with the targets
("supervised"), on the random splits only (mnist_sift by "modified-hausdorff", which has one value per pair).
Data: DKDIST_DATA.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from common import options, start_report, write
from sklearn.pipeline import make_pipeline

import dkdist as dk

sys.path.insert(0, str(Path(__file__).parent / "papers"))
import distance_tasks

R_TUNED = 2048
EUCLIDEAN = dk.DynamicTimeWarping("euclidean")


@dataclass(frozen=True)
class Choice:
    """Name of a distance, earlier defaults, and tuned parameters of the task without random features."""

    distance: str
    earlier: dict[str, Any]
    tuned: dict[str, Any]


def earlier_params(sampler: str) -> dict[str, Any]:
    return {"sampler": sampler, "lengths": "auto", "gamma": "median", "standardize": False}


def tuned_params(sampler: str, lengths: Any, gamma: float, **extra: Any) -> dict[str, Any]:
    return {"sampler": sampler, "lengths": lengths, "gamma": gamma, "standardize": True} | extra


CHOICES = {
    "auslan": Choice("dtw", earlier_params("subsample"), tuned_params("subsample", (1, 25), 0, distance=EUCLIDEAN)),
    "pentip": Choice("dtw", earlier_params("subsample"), tuned_params(
        "gaussian", (5, 40), 3, distance=dk.DynamicTimeWarping("euclidean", normalize=True)
    )),
    "splice": Choice("levenshtein", earlier_params("segment"), tuned_params("object", "auto", 1)),
    "mnist_str4": Choice("levenshtein", earlier_params("segment"), tuned_params("object", "auto", 1)),
    "mnist_str8": Choice("levenshtein", earlier_params("segment"), tuned_params("segment", (16, 60), 0.3)),
    "mnist_sift": Choice("directed-modified-hausdorff", earlier_params("subsample"), tuned_params("object", "auto", 0)),
}  # fmt: skip
VARIED: dict[str, dict[str, Any]] = {
    "gamma 0": {"gamma": 0, "standardize": True},
    "gamma 0.3": {"gamma": 0.3, "standardize": True},
    "gamma 1": {"gamma": 1.0, "standardize": True},
    "gamma 3": {"gamma": 3.0, "standardize": True},
    "not standardised": {"standardize": False},
    "pieces of 1 to 8": {"lengths": (1, 8)},
    "pieces of 5 to 40": {"lengths": (5, 40)},
    "whole objects": {"sampler": "object"},
    "R = 512": {"n_components": 512},
    "R = 2048": {"n_components": 2048},
}
SMALL_LANDMARK_COUNTS = (16, 64, 256)
Split = tuple[dk.SampleSets, np.ndarray, dk.SampleSets, np.ndarray]


def embedding(choice: Choice, config: dict[str, Any], train: dk.SampleSets) -> dk.DistanceEmbedding:
    """Return an embedding; gamma is in units of 1 / median distance, and R is at most the number of objects."""
    config = dict[str, Any](distance=choice.distance, random_state=0) | config
    R = config.get("n_components", 1024)
    if config.get("sampler") in ("object", "leverage", "supervised"):
        config["n_components"] = min(R, len(train))
    if isinstance(config.get("gamma"), (int, float)) and config["gamma"]:
        raw = dk.DistanceEmbedding(**config | {"gamma": "median", "standardize": False})
        config["gamma"] = config["gamma"] * raw.fit(train).gamma_
    return dk.DistanceEmbedding(**config)


def ridge() -> list[Any]:
    return [dk.IncrementalRidgeClassifier(random_state=0)]


def ridge_of_columns() -> list[Any]:
    return [dk.IncrementalRidgeClassifier(10.0 ** np.arange(-3, 6), random_state=0)]


def sgd() -> list[Any]:
    return [dk.IncrementalSGDClassifier(random_state=0)]


def methods(choice: Choice) -> dict[str, tuple[dict[str, Any], Callable[[], list[Any]]]]:
    return {
        "defaults, ridge": ({}, ridge),
        "defaults, SGD": ({}, sgd),
        "earlier defaults, ridge": (choice.earlier, ridge),
        "earlier defaults, SGD": (choice.earlier, sgd),
        "tuned, ridge": (choice.tuned | {"n_components": R_TUNED}, ridge_of_columns),
    }


def varied_methods(choice: Choice) -> Iterator[tuple[str, tuple[dict[str, Any], Callable[[], list[Any]]]]]:
    yield "defaults, ridge", ({}, ridge)
    for name, change in VARIED.items():
        yield name, (change, ridge_of_columns if change.get("standardize") else ridge)


def small_landmark_runs(
    choice: Choice,
) -> Iterator[tuple[str, tuple[dict[str, Any], Callable[[], list[Any]]]]]:
    base_name = choice.distance.removeprefix("directed-")  # one value per pair
    for R in SMALL_LANDMARK_COUNTS:
        for sampler in ("object", "leverage", "supervised"):
            yield (
                f"{sampler}, R = {R}",
                ({"distance": base_name, "sampler": sampler, "n_components": R}, ridge),
            )


def unpadded(sets: dk.SampleSets) -> dk.SampleSets:
    """Return series without their zero padding."""
    return dk.SampleSets.from_arrays([x[x.any(axis=1)] for x in sets])


def load(name: str, quick: bool) -> Split:
    data = distance_tasks.load(name, *((200, 100) if quick else (None, None)))
    sides = [unpadded(side) if name == "pentip" else side for side in (data.train, data.test)]
    return sides[0], data.y, sides[1], data.y_test


def random_split(task: Split, seed: int) -> Split:
    """Split the training objects: 70 %, at most 1,500, for training, and at most 1,000 others for testing."""
    sets, y = task[:2]
    order = np.random.default_rng([seed, 99]).permutation(len(y))
    n = min(1500, int(0.7 * len(y)))
    train, new = np.sort(order[:n]), np.sort(order[n : n + 1000])
    return sets[train], y[train], sets[new], y[new]


def accuracy(choice: Choice, method: tuple[dict[str, Any], Callable[[], list[Any]]], split: Split) -> float:
    train, y, new, y_new = split
    model = make_pipeline(embedding(choice, method[0], train), *method[1]())
    return float(model.fit(train, y).score(new, y_new))


def mean_lead(candidate_scores: np.ndarray, reference: np.ndarray) -> tuple[float, float]:
    """Return the mean difference to the reference and its standard error over the splits."""
    gain = candidate_scores - reference
    return float(gain.mean()), float(gain.std(ddof=1) / np.sqrt(len(gain)))


def figures(name: str, n_splits: int, quick: bool, mode: str) -> dict[str, Any]:
    """Return accuracies of all methods on a task, and differences to the earlier defaults or the defaults."""
    choice, task = CHOICES[name], load(name, quick)
    method_by_name = (
        dict({"vary": varied_methods, "few": small_landmark_runs}[mode](choice)) if mode else methods(choice)
    )
    splits = [random_split(task, seed) for seed in range(n_splits)]
    scores = {
        key: np.array([accuracy(choice, method, split) for split in splits])
        for key, method in method_by_name.items()
    }
    default_reference = "defaults, ridge" if mode else "earlier defaults, ridge"
    rows = dict[str, Any]()
    for key, method in method_by_name.items():
        start = time.perf_counter()
        final = None if mode else accuracy(choice, method, task)
        reference = f"object, {key.split(', ')[1]}" if mode == "few" else default_reference
        gain, error = mean_lead(scores[key], scores[reference])
        rows[key] = {"given": final, "mean": float(scores[key].mean()), "ahead": gain, "error": error,
                     "seconds": time.perf_counter() - start}  # fmt: skip
        text = "" if final is None else f"given {final:.4f}, "
        print(
            f"{name:<11} {key:<24} {text}mean {rows[key]['mean']:.4f}, ahead {gain:+.4f} +- {error:.4f}",
            flush=True,
        )
    return rows


def main(argv: list[str] | None = None) -> dict[str, Any]:
    parser = options(__doc__)
    parser.add_argument("tasks", nargs="*", help=f"any of {', '.join(CHOICES)} (default: all)")
    parser.add_argument("--splits", type=int, default=3, help="random splits of the training objects")
    parser.add_argument("--vary", action="store_true", help="change one default parameter at a time")
    parser.add_argument("--few", action="store_true", help="compare samplers for small numbers of landmarks")
    arguments = parser.parse_args(argv)
    mode = "vary" if arguments.vary else "few" if arguments.few else ""
    if unknown := set(arguments.tasks) - set(CHOICES):
        parser.error(f"unknown tasks: {', '.join(sorted(unknown))}")
    report = start_report()
    for name in arguments.tasks or CHOICES:
        report[name] = figures(name, arguments.splits, arguments.quick, mode)
    write(arguments.output, report)
    return report


if __name__ == "__main__":
    main()
