"""Fifteen scenes as sets of local descriptors (P1, Figure 6).

    python benchmarks/papers/scenes.py [--quick] [--splits 5] [--activations FILE.npz] [--cache FILE.npz]
                                       [--output results.json]

An image is a set of dense SIFT descriptors (three cell sizes, a patch every 8 pixels: some 2,700 points), reduced to 64
principal components fitted on training images. Each component is mapped to [0, 1] by a logistic curve through its 10th
and 90th percentiles, and its density taken alone (structure="marginal"), as P1 does with the activations of a network.
100 random training images of every class, all others to test; ridge on 5,000 random features of the rows, and on the
rows themselves ("linear") up to 100,000 columns; wider rows are streamed into their features, never held. Bandwidth,
sigma and penalty are chosen for every rival alike on a quarter of the first split's training images (16 pairs, nine
penalties).

"bands" adds the sets of three horizontal bands side by side with the whole image's; "pairs" takes the densities
of pairs of neighbouring components together (12 x 12 nodes, Hellinger). "D3" is P1's baseline (d3.py).

``--activations``: sets of activations of a network instead, as P1 (the last convolutional layer of VGG-16 at every
place): an .npz file of values (T, d), offsets (4486,), labels (4485,) and places (T, 2) in [0, 1], for the
images of the archive in its order. P1 reports 92.1 % or so there; nothing is published for SIFT in this form.

Data: scene15.tar in the folder DKDIST_DATA, data/{train,test}/CLASS/*.jpg of
https://github.com/lionelmessi6410/Scene-Recognition-with-Bag-of-Words (Lazebnik, Schmid, Ponce 2006). Needs
Pillow and OpenCV to read and describe the images (pip install 'dkdist[papers]'); ``--cache`` keeps the descriptors
(1.5 GB) for the next run.

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
from side_by_side import WIDEST, held_rows, streamed, wide_rows, width
from sift import dense_sift
from sklearn.linear_model import RidgeClassifier
from study import Rival, data_file, options, show, spread, write

import dkdist as dk

SHA256 = "2ec6a9250809249e6fb09c991cde1e997af283d0f032c79bc80cb2315eea5a64"
COMPONENTS, A_CLASS, STEP, CELLS, BANDS = 64, 100, 8, (4, 6, 8), 3
SIGMAS = (0.5, 1.0, 2.0, 4.0)
BANDWIDTHS = (0.04, 0.08, 0.12, 0.2)
MANY = tuple(2.0 ** (k / 3 - 2) for k in range(16))


@dataclass(frozen=True)
class Scenes:
    """All points of all images, where each image's begin, where in it they lie, and what it shows."""

    values: np.ndarray
    offsets: np.ndarray
    labels: np.ndarray
    places: np.ndarray

    def parts(self, points: np.ndarray) -> list[dk.SampleSets]:
        """The sets of whole images, and those of their three bands."""
        parts = [dk.SampleSets(points, self.offsets)]
        for band in range(BANDS):
            inside = np.minimum(BANDS * self.places[:, 1], BANDS - 1).astype(int) == band
            parts.append(dk.SampleSets(points[inside], np.append(0, np.cumsum(inside))[self.offsets]))
        return parts


def descriptors(cache: Path | None, limit: int | None) -> Scenes:
    """Dense SIFT of the archive's images; of the first ``limit`` of every class, if given."""
    if cache is not None and cache.exists():
        return activations(cache)
    from PIL import Image

    file = data_file("scene15.tar", SHA256, "github.com/lionelmessi6410/Scene-Recognition-with-Bag-of-Words")
    values, places, labels, seen = [], [], [], dict[str, int]()
    with tarfile.open(file) as archive:
        for member in archive:
            if not member.name.endswith(".jpg"):
                continue
            label = member.name.split("/")[2]
            seen[label] = seen.get(label, 0) + 1
            if limit is not None and seen[label] > limit:
                continue
            stream = archive.extractfile(member)
            assert stream is not None
            image = np.asarray(Image.open(io.BytesIO(stream.read())).convert("L"))
            result, where = zip(*(dense_sift(image, STEP, cell) for cell in CELLS), strict=True)
            values.append(np.concatenate(result))
            places.append(np.concatenate(where))
            labels.append(label)
    offsets = np.append(0, np.cumsum([len(v) for v in values]))
    output = Scenes(np.concatenate(values), offsets, np.array(labels), np.concatenate(places))
    if cache is not None:
        np.savez(
            cache, values=output.values, offsets=output.offsets, labels=output.labels, places=output.places
        )
    return output


def activations(file: Path) -> Scenes:
    with np.load(file, allow_pickle=False) as data:
        return Scenes(*(data[name] for name in ("values", "offsets", "labels", "places")))


def split(labels: np.ndarray, a_class: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    train = np.concatenate(
        [rng.permutation(np.flatnonzero(labels == name))[:a_class] for name in np.unique(labels)]
    )
    train = rng.permutation(train)
    return train, np.setdiff1d(np.arange(len(labels)), train)


def reduced(scenes: Scenes, train: np.ndarray) -> np.ndarray:
    """(T, components) of all points in [0, 1]; everything is fitted on points of training images."""
    rng = np.random.default_rng(0)
    some = np.concatenate([rng.integers(scenes.offsets[i], scenes.offsets[i + 1], 100) for i in train])
    X = scenes.values[some].astype(np.float32)
    mean = X.mean(0)
    _, vectors = np.linalg.eigh(np.cov((X - mean).T))
    axes = vectors[:, ::-1][:, :COMPONENTS].astype(np.float32)
    low, high = np.percentile((X - mean) @ axes, (10, 90), axis=0).astype(np.float32)
    steep = 2 * np.log(9) / (high - low)  # the logistic curve is .1 and .9 there
    out = np.empty((len(scenes.values), axes.shape[1]), np.float32)
    for a in range(0, len(out), 65_536):
        z = (scenes.values[a : a + 65_536] - mean) @ axes
        out[a : a + 65_536] = 1 / (1 + np.exp(-steep * (z - (low + high) / 2)))
    return out


class Pairs:
    """Rows of pairs of neighbouring components, side by side."""

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
    Rival("mean", partial(dk.MomentEmbedding, 1), sigmas=MANY),
    Rival("D3", D3, "n_words", (1, 8, 32, 64)),
    Rival("pairs, Hellinger", Pairs, "bandwidth", BANDWIDTHS),
)  # fmt: skip
LAYOUTS = {"whole": slice(0, 1), "bands": slice(None)}
KINDS = ("random features", "linear")


def choose(parts: list[dk.SampleSets], y: np.ndarray, rival: Rival, D: int) -> dict[str, Any]:
    """The best values of a rival, for each layout and learner, on training images alone."""
    best: dict[str, Any] = {f"{layout}, {kind}": (-1.0,) for layout in LAYOUTS for kind in KINDS}
    for values in rival.candidates():
        embedding = rival.make(**values).fit(parts[0])
        for layout, taken in LAYOUTS.items():
            wide = width(embedding, parts[taken]) > WIDEST
            tried = wide_rows if wide else held_rows
            for kind, result in zip(
                KINDS, tried(parts[taken], embedding, y, rival.sigmas, D), strict=not wide
            ):
                if result[0] > best[f"{layout}, {kind}"][0]:
                    best[f"{layout}, {kind}"] = (*result, values)
    return {key: result for key, result in best.items() if len(result) > 1}


def one_split(
    parts: list[dk.SampleSets], y: np.ndarray, rival: Rival, choice: dict[str, Any], train: np.ndarray,
    test: np.ndarray, D: int, seed: int,
) -> dict[str, float]:  # fmt: skip
    """Accuracy on the test images."""
    result, fitted = {}, dict[str, Any]()
    for key, (_, sigma, alpha, values) in choice.items():
        taken = parts[LAYOUTS[key.split(",")[0]]]
        if str(values) not in fitted:
            fitted[str(values)] = rival.make(**values).fit(parts[0][train])
        embedding = fitted[str(values)]
        if width(embedding, taken) > WIDEST:
            (A,) = streamed(taken, embedding, D, [sigma], seed)[1]
        else:
            A = np.hstack([embedding.transform(part) for part in taken])
            if sigma:
                A = dk.RandomFourierFeatures(D, sigma=sigma, random_state=seed).fit_transform(A)
        model = dk.IncrementalRidgeClassifier(alpha) if sigma else RidgeClassifier(alpha, solver="cholesky")
        result[key] = float(model.fit(A[train], y[train]).score(A[test], y[test]))
    return result


def main(argv: list[str] | None = None) -> dict[str, Any]:
    parser = options(__doc__, quick="6 images a class, 4 to train on, one split")
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--only", nargs="+", choices=[r.name for r in RIVALS], help="these rivals alone")
    parser.add_argument("--activations", type=Path)
    parser.add_argument("--cache", type=Path)
    args = parser.parse_args(argv)
    warnings.filterwarnings("ignore", message="bandwidth .* is much finer")  # on purpose
    a_class, limit, D, tuning_D, n_splits = A_CLASS, None, 5000, 1000, args.splits
    if args.quick:
        a_class, limit, D, tuning_D, n_splits = 4, 6, 200, 200, 1
    start = time.perf_counter()
    scenes = descriptors(args.cache, limit) if args.activations is None else activations(args.activations)
    print(
        f"{len(scenes.labels):,} images, {len(scenes.values):,} descriptors, {time.perf_counter() - start:.0f} s"
    )
    rivals = [r for r in RIVALS if not args.only or r.name in args.only]
    results: dict[str, Any] = {r.name: {"runs": [], "seconds": 0.0} for r in rivals}
    y = scenes.labels
    for seed in range(n_splits):
        train, test = split(y, a_class, seed)
        parts = scenes.parts(reduced(scenes, train))
        some = [part[train] for part in parts] if seed == 0 else []
        for rival in rivals:
            row, start = results[rival.name], time.perf_counter()
            if seed == 0:
                row["chosen"] = choose(some, y[train], rival, tuning_D)
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
