"""Data sets of the experiments with distances, and the candidates on each (see `distances.py`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from study import data_file

import dkdist as dk

SERIES = (
    dk.DynamicTimeWarping("euclidean"),
    dk.DynamicTimeWarping("euclidean", normalize=True),
    dk.DynamicTimeWarping("sqeuclidean", root=True),
)
SETS = ("modified-hausdorff", "directed-modified-hausdorff")


@dataclass(frozen=True)
class Task:
    """A data file, its candidate distances and samplers (of the paper, and others), and the published accuracy.

    ``n_published`` is the number of training and test objects in the paper.
    """

    sha256: str
    source: str
    distances: tuple[Any, ...]
    paper_samplers: tuple[tuple[str, Any], ...]
    other_samplers: tuple[tuple[str, Any], ...]
    published: float | None = None
    n_published: int | None = None


SERIES_SAMPLERS = (
    (("gaussian", (1, 10)), ("gaussian", (5, 40))),
    (("subsample", (1, 25)), ("subsample", (5, 40))),
)
STRING_SAMPLERS = (
    (("uniform", (1, 16)), ("uniform", (16, 60)), ("uniform", (40, 60))),
    (("segment", (4, 20)), ("segment", (16, 60)), ("markov", (16, 60)), ("object", "auto")),
)
SET_SAMPLERS = (
    (("sphere", (1, 4)), ("sphere", (2, 16))),
    (("subsample", (1, 8)), ("subsample", (2, 16)), ("object", "auto")),
)
CHAIN_CODES = "contours of MNIST digits as {} directions (yann.lecun.com/exdb/mnist)"
ALL_CHAIN_CODES = (
    "MNIST by `python benchmarks/papers/chain_codes.py` (https://github.com/taneishi/convnetjs, demo/mnist)"
)
TASKS = {
    "auslan": Task(
        "5e2f0c11b79dbca328631b06666aaf597bba50b2483e6f509079d6a6d7976301",
        "UCI Australian sign language, high quality (https://github.com/IBM/RandomWarpingSeries)",
        SERIES,
        *SERIES_SAMPLERS,
        0.926,
        2565,
    ),
    "pentip": Task(
        "4440e4e54c09871b618bd61b42ff815495b6a082adde402b66c90986e8e62a61",
        "UCI Character Trajectories (https://github.com/ShuningZhao/Character-Trajectories)",
        SERIES,
        *SERIES_SAMPLERS,
        0.9988,
        2858,
    ),
    "splice": Task(
        "fc313341e1ed1f45ccaa4963522458e8dd348fbf81c8a49dac93c208e31608a5",
        "UCI Splice-junction Gene Sequences (https://github.com/drusk/splice-junction-gene-sequences)",
        ("levenshtein",),
        (*STRING_SAMPLERS[0], ("uniform", (60, 60))),  # all strings have 60 symbols
        STRING_SAMPLERS[1],
        0.9017,
        3190,
    ),
    "mnist_str4": Task(
        "769755be51f4d5fad47c64dbd5b3ad198ec563d32a8bfb7a26701a7b7fb35cbf",
        CHAIN_CODES.format(4),
        ("levenshtein",),
        *STRING_SAMPLERS,
        0.9876,
        70_000,
    ),
    "mnist_str8": Task(
        "8e7a7845959e2141e819735c7c326e4636083b0d704cf4bdfae75b967a9d7908",
        CHAIN_CODES.format(8),
        ("levenshtein",),
        *STRING_SAMPLERS,
        0.9854,
        70_000,
    ),
    "mnist_str4_60000": Task(
        "dd0a949270d8a120ddd4495a27e3f9fd8303e6848a5028b3ba9c6a7247d0c38f",
        ALL_CHAIN_CODES,
        ("levenshtein",),
        *STRING_SAMPLERS,
        0.9876,
        70_000,
    ),
    "mnist_str8_60000": Task(
        "58d012931c57afe40a56bc37955e9da1a66eef10f13b662f0302d1caca01bffb",
        ALL_CHAIN_CODES,
        ("levenshtein",),
        *STRING_SAMPLERS,
        0.9854,
        70_000,
    ),
    "mnist_sift": Task(
        "f792590e64b7137d62b7fafb925d6f31fbf233669bd6df685389adb4fccdc5b2",
        "SIFT descriptors of enlarged MNIST digits (yann.lecun.com/exdb/mnist)",
        SETS,
        *SET_SAMPLERS,
    ),
}


@dataclass(frozen=True)
class Data:
    """Training objects in random order, and test objects."""

    train: dk.SampleSets
    y: np.ndarray
    test: dk.SampleSets
    y_test: np.ndarray


def load(name: str, n_train: int | None = None, n_test: int | None = None) -> Data:
    task = TASKS[name]
    with np.load(data_file(f"{name}.npz", task.sha256, task.source), allow_pickle=False) as data:
        x, offsets, y, test = (data[key] for key in ("values", "offsets", "labels", "is_test"))
    rng = np.random.default_rng(0)  # some files are sorted by class
    train, test = (
        rng.permutation(np.flatnonzero(~test))[:n_train],
        rng.permutation(np.flatnonzero(test))[:n_test],
    )
    if x.dtype == np.uint8 and x.ndim == 2:  # descriptors in 1 / 255, scaled to unit length
        x = x / np.linalg.norm(x.astype("f4"), axis=1, keepdims=True)
    sets = dk.SampleSets(x[:, None] if x.ndim == 1 else x, offsets)
    if task.distances is SERIES:
        sets = dk.SampleSets(x / sets[train].points.std(axis=0), offsets)
    return Data(sets[train], y[train].astype(int), sets[test], y[test].astype(int))
