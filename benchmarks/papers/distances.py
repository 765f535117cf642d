"""Classification of series, strings and sets by distances to landmarks, compared with other methods (P2, Tables 1-3).

    python benchmarks/papers/distances.py [auslan] [pentip] [splice] [mnist_str4] [mnist_str8] [mnist_sift]
                                          [mnist_str4_60000] [mnist_str8_60000]
                                          [width] [theory] [--methods D2KE RSM pairs] [--landmarks R]
                                          [--quick] [--output results.json] [--figure FILE.png]

auslan, pentip             series, dynamic time warping; variables are divided by their standard deviation
splice, mnist_str4, _str8  strings, edit distance; mnist_str*_60000 have all digits (`chain_codes.py`)
mnist_sift                 sets of descriptors, Hausdorff distances
width                      accuracy and time by the number R of landmarks, 4 to 4096 (--figure draws them)
theory                     error of the kernel by R, compared with its exact value (Proposition 2: 1 / sqrt(R))

D2KE, the paper's sampler  ridge on standardised features of R landmarks (random objects): Gaussian series, uniform
                           strings, sets on the sphere
D2KE, best                 any sampler and distance, and optionally random Fourier features
RSM                        training objects as landmarks (representative sets)
..., linear SVM            LIBLINEAR on the features of the paper's sampler, or of RSM
nearest neighbours, ...    need all pairs (`distance_rivals.py`); for mnist_str* they use 2,000 training and 1,000 test
                           objects, as their rows state, and nearest neighbours also all of them

Distance, sampler, lengths, gamma, sigma, C and the parameters of other methods are selected on 25 % of at most 4,000
training objects; the penalty of ridge by leave-one-out, or on 10 % of more than 5,000 objects. Test objects are used
once. Accuracies are those on test objects, times are seconds of one run. The last table compares all methods with the
figures of the paper.

Data: NAME.npz in the folder DKDIST_DATA: values, offsets, labels, is_test. Object i is values[offsets[i]:offsets[i+1]].

P2: Wu, Yen, Xu, Ravikumar, Witbrock, D2KE: from distance to kernel and embedding (2018).
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from distance_rivals import ALPHAS, COSTS, RIVALS, Matrices, compare, linear_svm, nearest_in_blocks
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
METHODS = ("D2KE", "RSM", "pairs")


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
        n_landmarks = min(R, len(sets)) if sampler == "object" else R
        embedding = model.embedding(n_landmarks, standardize=False)
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


def unfitted_embedding(model: Model, sets: dk.SampleSets, R: int) -> dk.DistanceEmbedding:
    R = min(R, len(sets)) if model.sampler == "object" else R
    gamma = model.gamma * model.embedding(R, "median").fit(sets).gamma_ if model.gamma else 0.0
    return model.embedding(R, gamma)


def tune_svm(model: Model, data: Data, split: Any, R: int) -> float:
    """Return the cost of a linear SVM that is best on held-out training objects."""
    train, held_out = split
    embedding = unfitted_embedding(model, data.train[train], R).fit(data.train[train])
    rows, new = embedding.transform(data.train[train]), embedding.transform(data.train[held_out])
    return max(COSTS, key=lambda cost: linear_svm(rows, data.y[train], cost).score(new, data.y[held_out]))


def run(model: Model, data: Data, R: int, D: int, svm_cost: float = 0.0) -> dict[str, Any]:
    """Return test accuracy after training on all other objects, and seconds of every stage."""
    embedding = unfitted_embedding(model, data.train, R)
    start = time.perf_counter()
    rows = embedding.fit(data.train).transform(data.train)
    embedded = time.perf_counter()
    stage = None if model.sigma is None else fourier(rows, model.sigma, D)
    rows = rows if stage is None else stage.transform(rows)
    alphas = ALPHAS if stage is None else FOURIER_ALPHAS
    learner = linear_svm(rows, data.y, svm_cost) if svm_cost else ridge(alphas, len(rows)).fit(rows, data.y)
    trained = time.perf_counter()
    new = embedding.transform(data.test)
    accuracy = learner.score(new if stage is None else stage.transform(new), data.y_test)
    return {
        "accuracy": float(accuracy),
        "embed_seconds": embedded - start,
        "train_seconds": trained - embedded,
        "test_seconds": time.perf_counter() - trained,
        "R": embedding.n_components,
        "D": D if stage else 0,
        "penalty": svm_cost or learner.alpha_,
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


def features(name: str, task: Task, data: Data, size: Sizes, samplers: Any) -> dict[str, Any]:
    """Return the rows of ridge and of a linear SVM on features of landmarks from the best of some samplers."""
    split = split_training(data, size.tuned_on)
    model = tune(task, samplers, data, split, size.tuning[0], 0)
    cost = tune_svm(model, data, split, size.tuning[0])
    return {
        name: run(model, data, size.R, 0),
        f"{name.split(',')[0]}, linear SVM": run(model, data, size.R, 0, cost),
    }


def all_pairs(name: str, task: Task, data: Data, size: Sizes) -> dict[str, Any]:
    """Return the rows of the methods with all pairs, by the distance that is best for representative sets."""
    report, is_large = dict[str, Any](), len(data.y) > 2 * size.all_pairs[0]
    small = load(name, *size.all_pairs) if is_large else data
    symmetric = replace(task, distances=[d for d in task.distances if d != "directed-modified-hausdorff"])
    rsm = tune(symmetric, (("object", "auto"),), data, split_training(data, size.tuned_on), size.tuning[0], 0)
    D, seconds = distances(small, rsm.distance)
    pairs = compare(list(RIVALS), D, small.y, small.y_test, *split_training(small, size.tuned_on))
    for row in pairs.values():
        row |= {"embed_seconds": seconds, "distance": str(rsm.distance), "training_objects": len(small.y)}
    report |= {f"{key}, {len(small.y):,} objects" if is_large else key: row for key, row in pairs.items()}
    if is_large:
        start, split = time.perf_counter(), split_training(data, size.tuned_on)
        labels, k = nearest_in_blocks(rsm.distance, data.train, data.y, data.test, split)
        report["nearest neighbours"] = {
            "accuracy": float((labels == data.y_test).mean()),
            "embed_seconds": time.perf_counter() - start,
            "parameter": k,
        }
    return report


def experiment(name: str, size: Sizes, methods: Any) -> dict[str, Any]:
    task, report = TASKS[name], dict[str, Any]()
    data = load(name, size.n_train, size.n_test)
    if "D2KE" in methods:
        report |= features("D2KE, the paper's sampler", task, data, size, task.paper_samplers)
        samplers, split = task.paper_samplers + task.other_samplers, split_training(data, size.tuned_on)
        best = tune(task, samplers, data, split, *size.tuning)
        report["D2KE, best"] = run(best, data, size.R, size.D)
    if "RSM" in methods:
        report |= features("RSM", task, data, size, (("object", "auto"),))
    if "pairs" in methods:
        report |= all_pairs(name, task, data, size)
    columns = ("accuracy", "embed_seconds", "train_seconds")
    published = (
        "" if task.published is None else f" published {task.published} (of {task.n_published:,} objects);"
    )
    show(f"{name}:{published} {len(data.y):,} training and {len(data.y_test):,} test objects", columns, {
        key: [row.get(column, "") for column in columns] for key, row in report.items()
    })  # fmt: skip
    for key, row in report.items():
        if "chosen" in row and "SVM" not in key:
            print(f"  {key}: R = {row['R']}, {row['chosen']}", flush=True)
    return {"published": task.published, "n_published": task.n_published, "rows": report}


def show_accuracies(names: list[str], report: dict[str, Any]) -> None:
    """Print the accuracies of all methods on some data sets, next to the published ones."""
    methods = dict.fromkeys(method for name in names for method in report[name]["rows"])
    rows = {"published D2KE": [report[name]["published"] or "" for name in names]}
    for method in methods:
        rows[method] = [report[name]["rows"].get(method, {}).get("accuracy", "") for name in names]
    show("accuracy", names, rows)


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
    parser.add_argument("parts", nargs="*", help="data sets, width, theory; default: all but mnist_*_60000")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=METHODS, help="default: all")
    parser.add_argument(
        "--landmarks", type=int, help="number R of landmarks, also of the selection; default: 2048, 512"
    )
    parser.add_argument("--figure", type=Path, help="draw accuracy and time by R to this file")
    args = parser.parse_args(argv)
    all_parts = [*TASKS, "width", "theory"]
    if unknown := set(args.parts) - set(all_parts):
        parser.error(f"unknown parts {sorted(unknown)}: choose from {', '.join(all_parts)}")
    size, report = QUICK if args.quick else FULL, dict[str, Any](experiment="distances")
    if args.landmarks:
        size = replace(size, R=args.landmarks, tuning=(args.landmarks, size.tuning[1]))
    for part in args.parts or [part for part in all_parts if not part.endswith("_60000")]:
        if part == "width":
            report["width"] = {name: by_width(name, size) for name in WIDTH_TASKS}
            if args.figure is not None:
                draw(report["width"], args.figure)
        elif part == "theory":
            report["theory"] = kernel_error(size.seeds)
        else:
            report[part] = experiment(part, size, args.methods)
        write(args.output, report)
    if names := [name for name in TASKS if name in report]:
        show_accuracies(names, report)
    return report


if __name__ == "__main__":
    main(sys.argv[1:])
