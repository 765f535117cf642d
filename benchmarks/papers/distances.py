"""Classification of series, strings and sets by distances to landmarks, compared with other methods (P2, Tables 1-3).

    python benchmarks/papers/distances.py [auslan] [pentip] [splice] [mnist_str4] [mnist_str8] [mnist_sift]
                                          [width] [theory] [--quick] [--output results.json] [--figure FILE.png]

auslan, pentip             series, dynamic time warping; variables are divided by their standard deviation
splice, mnist_str4, _str8  strings, edit distance
mnist_sift                 sets of descriptors, Hausdorff distances
width                      accuracy and time by the number R of landmarks, 4 to 4096 (--figure draws them)
theory                     error of the kernel by R, compared with its exact value (Proposition 2: 1 / sqrt(R))

"D2KE, ..." is ridge on standardised features of R landmarks (random objects) from the sampler of the paper (Gaussian
series, uniform strings, sets on the sphere). "best" has any sampler and distance, and optionally random Fourier
features. "RSM" has training objects as landmarks. The other methods need all pairs (`distance_rivals.py`): for
mnist_str* they use 2,000 training and 1,000 test objects, as their rows state; nearest neighbours also uses all.
Distance, sampler, lengths, gamma, sigma and the parameters of other methods are selected on 25 % of at most 4,000
training objects; the penalty by leave-one-out, or on 10 % of more than 5,000 objects. Test objects are used once.
Accuracies are those on test objects, times are seconds of one run.

Data: NAME.npz in the folder DKDIST_DATA: values, offsets, labels, is_test. Object i is values[offsets[i]:offsets[i+1]].

P2: Wu, Yen, Xu, Ravikumar, Witbrock, D2KE: from distance to kernel and embedding (2018).
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from distance_rivals import ALPHAS, RIVALS, Matrices, compare
from distance_tasks import TASKS, Data, Task, load
from distance_theory import draw, kernel_error
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler
from study import options, show, write

import dkdist as dk

GAMMAS = (0.0, 0.3, 1.0, 3.0)  # in units of 1 / median distance
SIGMAS = (0.7, 1.4, 2.8)  # times the median distance of standardised rows
FOURIER_ALPHAS = tuple(10.0 ** (k / 2) for k in range(-8, 3))
MAX_LEAVE_ONE_OUT_OBJECTS = 5000  # above this, the penalty is selected on 10 % held-out objects
WIDTH_TASKS = ("auslan", "splice", "mnist_str8")


@dataclass(frozen=True)
class Sizes:
    """Numbers of objects, landmarks R and features D; ``tuning`` has (R, D) of the selection of parameters."""

    n_train: int | None = None
    n_test: int | None = None
    tuned_on: int = 4000
    all_pairs: tuple[int, int] = (2000, 1000)
    tuning: tuple[int, int] = (512, 1500)
    R: int = 2048
    D: int = 5000
    widths: tuple[int, ...] = (4, 16, 64, 256, 1024, 4096)
    seeds: int = 20


FULL = Sizes()
QUICK = Sizes(400, 100, 300, (150, 80), (64, 100), 128, 200, (4, 64), 4)


@dataclass(frozen=True)
class Model:
    """Parameters: distance, sampler, lengths of landmarks, gamma times the median distance, sigma."""

    distance: Any
    sampler: str
    lengths: Any
    gamma: float = 0.0
    sigma: float | None = None
    score: float = 0.0

    def embedding(self, R: int, gamma: float = 0.0, standardize: bool = True) -> dk.DistanceEmbedding:
        return dk.DistanceEmbedding(
            self.distance, self.sampler, R, gamma, standardize, self.lengths, random_state=0
        )

    def record(self) -> dict[str, Any]:
        return {k: v if isinstance(v, (int, float, tuple)) else v and str(v) for k, v in vars(self).items()}


def ridge(alphas: Any, n: int) -> dk.IncrementalRidgeClassifier:
    selection = "leave-one-out" if n <= MAX_LEAVE_ONE_OUT_OBJECTS else "held-out"
    return dk.IncrementalRidgeClassifier(alphas, selection=selection, random_state=0)


def fourier(rows: np.ndarray, sigma: float, D: int) -> dk.RandomFourierFeatures:
    median = dk.RandomFourierFeatures(2, random_state=0).fit(rows).sigma_
    return dk.RandomFourierFeatures(D, sigma=sigma * median, random_state=0).fit(rows)


def tune(task: Task, samplers: Any, data: Data, split: Any, R: int, D: int) -> Model:
    """Return the best model on held-out training objects; random Fourier features (D > 0) on the best two."""
    train, held_out = split
    sets, y = data.train[train], data.y[train]
    new, y_new = data.train[held_out], data.y[held_out]
    result = []
    for distance, (sampler, lengths) in product(task.distances, samplers):
        model = Model(distance, sampler, lengths)
        embedding = model.embedding(min(R, len(sets)), standardize=False)
        raw, raw_new = embedding.fit_transform(sets), embedding.transform(new)
        for gamma in GAMMAS:
            scaler, unit = StandardScaler(), gamma / np.median(raw[raw > 0])
            features, features_new = (np.exp(-unit * r) if gamma else r for r in (raw, raw_new))
            features, features_new = scaler.fit_transform(features), scaler.transform(features_new)
            score = ridge(ALPHAS, 0).fit(features, y).score(features_new, y_new)
            result.append(
                (
                    score,
                    len(result),
                    Model(distance, sampler, lengths, gamma, None, score),
                    features,
                    features_new,
                )
            )
    result.sort(key=lambda row: (-row[0], row[1]))
    best = result[0][2]
    for (_, _, model, rows, rows_new), sigma in product(result[:2] if D else [], SIGMAS):
        stage = fourier(rows, sigma, D)
        score = ridge(FOURIER_ALPHAS, 0).fit(stage.transform(rows), y).score(stage.transform(rows_new), y_new)
        if score > best.score:
            best = Model(model.distance, model.sampler, model.lengths, model.gamma, sigma, score)
    return best


def run(model: Model, data: Data, R: int, D: int) -> dict[str, Any]:
    """Return test accuracy after training on all other objects, and seconds of every stage."""
    gamma, n = 0.0, len(data.y)
    R = min(R, n) if model.sampler == "object" else R
    if model.gamma:
        gamma = model.gamma * model.embedding(R, "median").fit(data.train).gamma_
    start = time.perf_counter()
    embedding = model.embedding(R, gamma).fit(data.train)
    rows = embedding.transform(data.train)
    embedded = time.perf_counter()
    stage = None if model.sigma is None else fourier(rows, model.sigma, D)
    learner = ridge(ALPHAS if stage is None else FOURIER_ALPHAS, n)
    learner.fit(rows if stage is None else stage.transform(rows), data.y)
    trained = time.perf_counter()
    new = embedding.transform(data.test)
    accuracy = learner.score(new if stage is None else stage.transform(new), data.y_test)
    return {
        "accuracy": float(accuracy),
        "embed_seconds": embedded - start,
        "train_seconds": trained - embedded,
        "test_seconds": time.perf_counter() - trained,
        "R": R,
        "D": D if stage else 0,
        "alpha": learner.alpha_,
        "chosen": model.record(),
    }


def split_training(data: Data, n_objects: int) -> tuple[np.ndarray, np.ndarray]:
    """Split at most ``n_objects`` training objects into 75 % for training and 25 % held out."""
    index = np.arange(min(len(data.y), n_objects))
    train, held_out = train_test_split(index, test_size=0.25, random_state=0)
    return train, held_out


def distances(data: Data, distance: Any) -> tuple[Matrices, float]:
    start = time.perf_counter()
    train = dk.distance_matrix(data.train, distance=distance)
    new = dk.distance_matrix(data.test, data.train, distance)
    return Matrices(train, new, dk.distance_matrix(data.test, distance=distance)), time.perf_counter() - start


def experiment(name: str, size: Sizes) -> dict[str, Any]:
    task = TASKS[name]
    data = load(name, size.n_train, size.n_test)
    split, is_large = split_training(data, size.tuned_on), len(data.y) > 2 * size.all_pairs[0]
    R_tune, D_tune, report = size.tuning[0], size.tuning[1], dict[str, Any]()
    start = time.perf_counter()
    paper_model = tune(task, task.paper_samplers, data, split, R_tune, 0)
    best = tune(task, task.paper_samplers + task.other_samplers, data, split, R_tune, D_tune)
    rsm = tune(task, (("object", "auto"),), data, split, R_tune, 0)
    tuning_seconds = time.perf_counter() - start
    report["D2KE, the paper's sampler"] = run(paper_model, data, size.R, 0)
    report["D2KE, best"] = run(best, data, size.R, size.D)
    report["RSM"] = run(rsm, data, size.R, 0)
    small = load(name, *size.all_pairs) if is_large else data
    symmetric = next(d for d in (rsm.distance, *task.distances) if d != "directed-modified-hausdorff")
    D, seconds = distances(small, symmetric)
    pairs = compare(list(RIVALS), D, small.y, small.y_test, *split_training(small, size.tuned_on))
    for row in pairs.values():
        row |= {"embed_seconds": seconds, "distance": str(symmetric), "training_objects": len(small.y)}
    report |= {f"{key}, {len(small.y):,} objects" if is_large else key: row for key, row in pairs.items()}
    if is_large:
        full, seconds = distances(data, symmetric)
        nearest = compare(
            ["nearest neighbours"], full, data.y, data.y_test, *split_training(data, size.tuned_on)
        )
        report["nearest neighbours"] = nearest["nearest neighbours"] | {"embed_seconds": seconds}
    columns = ("accuracy", "embed_seconds", "train_seconds")
    title = (
        f"{name}: published {task.published}, {len(data.y):,} training and {len(data.y_test):,} test objects"
    )
    show(title, columns, {
        key: [row.get(column, "") for column in columns] for key, row in report.items()
    })  # fmt: skip
    print(f"  best: {best.record()}", flush=True)
    return {"published": task.published, "tuning_seconds": tuning_seconds, "rows": report}


def by_width(name: str, size: Sizes) -> list[dict[str, Any]]:
    """Return accuracy and seconds by R, with the best sampler and without random Fourier features."""
    data, task = load(name, size.n_train, size.n_test), TASKS[name]
    model = tune(
        task,
        task.paper_samplers + task.other_samplers[:2],
        data,
        split_training(data, size.tuned_on),
        size.tuning[0],
        0,
    )
    result = [run(model, data, R, 0) for R in size.widths]
    show(f"{name} by R", ("accuracy", "embed_seconds", "train_seconds"), {
        f"R = {row['R']}": [row["accuracy"], row["embed_seconds"], row["train_seconds"]] for row in result
    })  # fmt: skip
    return result


def main(argv: list[str] | None = None) -> dict[str, Any]:
    parser = options(__doc__, quick="300 objects, R = 64")
    parser.add_argument("parts", nargs="*", help="data sets, width, theory; default: all")
    parser.add_argument("--figure", type=Path, help="draw accuracy and time by R to this file")
    args = parser.parse_args(argv)
    all_parts = [*TASKS, "width", "theory"]
    if unknown := set(args.parts) - set(all_parts):
        parser.error(f"unknown parts {sorted(unknown)}: choose from {', '.join(all_parts)}")
    size, report = QUICK if args.quick else FULL, dict[str, Any](experiment="distances")
    for part in args.parts or all_parts:
        if part == "width":
            report["width"] = {name: by_width(name, size) for name in WIDTH_TASKS}
            if args.figure is not None:
                draw(report["width"], args.figure)
        elif part == "theory":
            report["theory"] = kernel_error(size.seeds)
        else:
            report[part] = experiment(part, size)
        write(args.output, report)
    return report


if __name__ == "__main__":
    main(sys.argv[1:])
