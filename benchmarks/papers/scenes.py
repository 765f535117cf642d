"""Accuracy of embeddings on fifteen scenes as sets of local descriptors (P1, Figure 6).

    python benchmarks/papers/scenes.py [--quick] [--splits 5] [--activations FILE.npz] [--cache FILE.npz]
                                       [--output results.json]

An image is a set of dense SIFT descriptors (three cell sizes, a patch every 8 pixels: about 2,700 points), reduced to
64 principal components of training images. A logistic function through the 10th and 90th percentiles maps each
component to [0, 1]; each component has its own density (structure="marginal"), like the activations in P1. There are
100 random training images per class; all others are test images. Learners are ridge on 5,000 random features of the
rows, and on the rows ("linear") with up to 100,000 columns; wider rows are not stored. Bandwidth, sigma and penalty of
every embedding are selected on a quarter of the training images of the first split (16 pairs, nine penalties).
Accuracies are means over splits with standard deviations.

"bands" adds the sets of three horizontal bands to that of the whole image; "pairs" has joint densities of neighbouring
components (12 x 12 nodes, Hellinger); "D3" is the baseline of P1 (d3.py).

``--activations`` uses activations of a network, as P1 does (the last convolutional layer of VGG-16 at every position):
an .npz file of values (T, d), offsets (4486,), labels (4485,) and places (T, 2) in [0, 1], for the images of the
archive in its order. P1 reports about 92.1 % for these; there is no published result for SIFT.

Data: scene15.tar in the folder DKDIST_DATA, data/{train,test}/CLASS/*.jpg of
https://github.com/lionelmessi6410/Scene-Recognition-with-Bag-of-Words (Lazebnik, Schmid, Ponce 2006). Pillow and OpenCV
are required (pip install 'dkdist[papers]'). ``--cache`` stores the descriptors (1.5 GB) for the next run.

P1: Sutherland, Oliva, Poczos, Schneider, Linear-time learning on distributions with approximate kernel embeddings
(2016).
"""

from __future__ import annotations

import io
import sys
import tarfile
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from d3 import D3
from side_by_side import MAX_STORED_COLUMNS, select_stored, select_streamed, stream_features, width
from sift import dense_sift
from sklearn.linear_model import RidgeClassifier
from study import Rival, data_file, options, show, spread, write

import dkdist as dk

SHA256 = "2ec6a9250809249e6fb09c991cde1e997af283d0f032c79bc80cb2315eea5a64"
COMPONENTS, TRAIN_PER_CLASS, STEP, CELLS, BANDS = 64, 100, 8, (4, 6, 8), 3
SIGMAS = (0.5, 1.0, 2.0, 4.0)
BANDWIDTHS = (0.04, 0.08, 0.12, 0.2)
MANY_SIGMAS = tuple(2.0 ** (k / 3 - 2) for k in range(16))


@dataclass(frozen=True)
class Scenes:
    """Points of all images, offsets of the images, labels, and positions of the points in their image."""

    values: np.ndarray
    offsets: np.ndarray
    labels: np.ndarray
    places: np.ndarray

    def parts(self, points: np.ndarray) -> list[dk.SampleSets]:
        """Return the sets of whole images and of their three bands."""
        parts = [dk.SampleSets(points, self.offsets)]
        for band in range(BANDS):
            is_inside = np.minimum(BANDS * self.places[:, 1], BANDS - 1).astype(int) == band
            parts.append(dk.SampleSets(points[is_inside], np.append(0, np.cumsum(is_inside))[self.offsets]))
        return parts


def descriptors(cache: Path | None, limit: int | None) -> Scenes:
    """Return dense SIFT of all images of the archive, or of the first ``limit`` of every class."""
    if cache is not None and cache.exists():
        return activations(cache)
    from PIL import Image

    file = data_file("scene15.tar", SHA256, "github.com/lionelmessi6410/Scene-Recognition-with-Bag-of-Words")
    values, places, labels, count_by_label = [], [], [], dict[str, int]()
    with tarfile.open(file) as archive:
        for member in archive:
            if not member.name.endswith(".jpg"):
                continue
            label = member.name.split("/")[2]
            count_by_label[label] = count_by_label.get(label, 0) + 1
            if limit is not None and count_by_label[label] > limit:
                continue
            stream = archive.extractfile(member)
            assert stream is not None
            image = np.asarray(Image.open(io.BytesIO(stream.read())).convert("L"))
            result, positions = zip(*(dense_sift(image, STEP, cell) for cell in CELLS), strict=True)
            values.append(np.concatenate(result))
            places.append(np.concatenate(positions))
            labels.append(label)
    offsets = np.append(0, np.cumsum([len(v) for v in values]))
    scenes = Scenes(np.concatenate(values), offsets, np.array(labels), np.concatenate(places))
    if cache is not None:
        np.savez(
            cache, values=scenes.values, offsets=scenes.offsets, labels=scenes.labels, places=scenes.places
        )
    return scenes


def activations(file: Path) -> Scenes:
    with np.load(file, allow_pickle=False) as data:
        return Scenes(*(data[name] for name in ("values", "offsets", "labels", "places")))


def split(labels: np.ndarray, n_per_class: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    train = np.concatenate(
        [rng.permutation(np.flatnonzero(labels == name))[:n_per_class] for name in np.unique(labels)]
    )
    train = rng.permutation(train)
    return train, np.setdiff1d(np.arange(len(labels)), train)


def reduce_points(scenes: Scenes, train: np.ndarray) -> np.ndarray:
    """Return the components (T, COMPONENTS) of all points in [0, 1], fitted on points of training images."""
    rng = np.random.default_rng(0)
    sample = np.concatenate([rng.integers(scenes.offsets[i], scenes.offsets[i + 1], 100) for i in train])
    X = scenes.values[sample].astype(np.float32)
    mean = X.mean(0)
    _, vectors = np.linalg.eigh(np.cov((X - mean).T))
    axes = vectors[:, ::-1][:, :COMPONENTS].astype(np.float32)
    low, high = np.percentile((X - mean) @ axes, (10, 90), axis=0).astype(np.float32)
    slope = 2 * np.log(9) / (high - low)  # the logistic function is 0.1 at low and 0.9 at high
    out = np.empty((len(scenes.values), axes.shape[1]), np.float32)
    for a in range(0, len(out), 65_536):
        z = (scenes.values[a : a + 65_536] - mean) @ axes
        out[a : a + 65_536] = 1 / (1 + np.exp(-slope * (z - (low + high) / 2)))
    return out


class Pairs:
    """Concatenated rows of pairs of neighbouring components."""

    def __init__(self, bandwidth: float = 0.08) -> None:
        self.embedding = dk.DivergenceEmbedding("hellinger", 12, bandwidth=bandwidth, domain="unit")

    def fit(self, sets: dk.SampleSets) -> Pairs:
        self.embedding.fit(dk.SampleSets(sets.points[:, :2], sets.offsets))
        return self

    def transform(self, sets: dk.SampleSets) -> np.ndarray:
        pairs = (dk.SampleSets(sets.points[:, j : j + 2], sets.offsets) for j in range(sets.n_dims - 1))
        return np.hstack([self.embedding.transform(pair) for pair in pairs])


def divergence(name: str) -> Callable[..., Any]:
    return partial(dk.DivergenceEmbedding, name, structure="marginal", domain="unit")


RIVALS = (
    Rival("Hellinger", divergence("hellinger"), "bandwidth", BANDWIDTHS),
    Rival("Jensen-Shannon", divergence("jensen-shannon"), "bandwidth", BANDWIDTHS),
    Rival("total variation", divergence("total-variation"), "bandwidth", BANDWIDTHS),
    Rival("L2", partial(dk.L2Embedding, structure="marginal", domain="unit"), "bandwidth", BANDWIDTHS),
    Rival("MMD", partial(dk.MeanEmbedding, 1000, random_state=0), "sigma", (1.0, 2.0, 4.0, 8.0)),
    Rival("histogram, Jensen-Shannon", partial(dk.HistogramEmbedding, structure="marginal", domain="unit"),
          "n_bins", (5, 10, 20, 30)),
    Rival("mean", partial(dk.MomentEmbedding, 1), sigmas=MANY_SIGMAS),
    Rival("D3", D3, "n_words", (1, 8, 32, 64)),
    Rival("bag of words, Hellinger", partial(dk.CodebookEmbedding, divergence="hellinger", random_state=0),
          "n_words", (64, 256, 1024)),
    Rival("pairs, Hellinger", Pairs, "bandwidth", BANDWIDTHS),
)  # fmt: skip
LAYOUTS = {"whole": slice(0, 1), "bands": slice(None)}
KINDS = ("random features", "linear")


def choose(parts: list[dk.SampleSets], y: np.ndarray, rival: Rival, D: int) -> dict[str, Any]:
    """Return the best parameters of an embedding for each layout and learner on training images."""
    best: dict[str, Any] = {f"{layout}, {kind}": (-1.0,) for layout in LAYOUTS for kind in KINDS}
    for values in rival.candidates():
        embedding = rival.make(**values).fit(parts[0])
        for layout, selection in LAYOUTS.items():
            wide = width(embedding, parts[selection]) > MAX_STORED_COLUMNS
            select = select_streamed if wide else select_stored
            for kind, result in zip(
                KINDS, select(parts[selection], embedding, y, rival.sigmas, D), strict=not wide
            ):
                if result[0] > best[f"{layout}, {kind}"][0]:
                    best[f"{layout}, {kind}"] = (*result, values)
    return {key: result for key, result in best.items() if len(result) > 1}


def one_split(
    parts: list[dk.SampleSets], y: np.ndarray, rival: Rival, choice: dict[str, Any], train: np.ndarray,
    test: np.ndarray, D: int, seed: int,
) -> dict[str, float]:  # fmt: skip
    """Return the accuracy on test images for each layout and learner."""
    result, embedding_by_values = {}, dict[str, Any]()
    for key, (_, sigma, alpha, values) in choice.items():
        layout_parts = parts[LAYOUTS[key.split(",")[0]]]
        if str(values) not in embedding_by_values:
            embedding_by_values[str(values)] = rival.make(**values).fit(parts[0][train])
        embedding = embedding_by_values[str(values)]
        if width(embedding, layout_parts) > MAX_STORED_COLUMNS:
            (A,) = stream_features(layout_parts, embedding, D, [sigma], seed)[1]
        else:
            A = np.hstack([embedding.transform(part) for part in layout_parts])
            if sigma:
                A = dk.RandomFourierFeatures(D, sigma=sigma, random_state=seed).fit_transform(A)
        model = dk.IncrementalRidgeClassifier(alpha) if sigma else RidgeClassifier(alpha, solver="cholesky")
        result[key] = float(model.fit(A[train], y[train]).score(A[test], y[test]))
    return result


def main(argv: list[str] | None = None) -> dict[str, Any]:
    parser = options(__doc__, quick="6 images per class, 4 of them for training, one split")
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument(
        "--only", nargs="+", choices=[r.name for r in RIVALS], help="run only these embeddings"
    )
    parser.add_argument("--activations", type=Path)
    parser.add_argument("--cache", type=Path)
    args = parser.parse_args(argv)
    # fine bandwidths are tested on purpose
    warnings.filterwarnings("ignore", message="bandwidth .* is much finer")
    n_per_class, limit, D, tuning_D, n_splits = TRAIN_PER_CLASS, None, 5000, 1000, args.splits
    if args.quick:
        n_per_class, limit, D, tuning_D, n_splits = 4, 6, 200, 200, 1
    start = time.perf_counter()
    scenes = descriptors(args.cache, limit) if args.activations is None else activations(args.activations)
    print(
        f"{len(scenes.labels):,} images, {len(scenes.values):,} descriptors, {time.perf_counter() - start:.0f} s"
    )
    rivals = [r for r in RIVALS if not args.only or r.name in args.only]
    results: dict[str, Any] = {r.name: {"runs": [], "seconds": 0.0} for r in rivals}
    y = scenes.labels
    for seed in range(n_splits):
        train, test = split(y, n_per_class, seed)
        parts = scenes.parts(reduce_points(scenes, train))
        train_parts = [part[train] for part in parts] if seed == 0 else []
        for rival in rivals:
            row, start = results[rival.name], time.perf_counter()
            if seed == 0:
                row["chosen"] = choose(train_parts, y[train], rival, tuning_D)
            row["runs"].append(one_split(parts, y, rival, row["chosen"], train, test, D, seed))
            row["seconds"] += time.perf_counter() - start
            print(f"  split {seed} {rival.name}: {row['runs'][-1]} {row['seconds']:.0f} s", flush=True)
    for row in results.values():
        row["accuracy"] = {key: spread([run[key] for run in row["runs"]]) for key in row["runs"][0]}
    columns = [f"{layout}, {kind}" for layout in LAYOUTS for kind in KINDS]
    table = {name: [row["accuracy"].get(key, "-") for key in columns] for name, row in results.items()}
    show(f"accuracy on test images, D = {D:,}, {n_splits} split(s)", columns, table)
    report = {"experiment": "scenes", "D": D, "splits": n_splits, "rivals": results}
    write(args.output, report)
    return report


if __name__ == "__main__":
    main(sys.argv[1:])
