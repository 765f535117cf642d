"""Real collections and tasks of docs/benchmarks.md with train-test splits, for `honesty.py`.

Collections of at most 200 sets or patients have five repeats of shuffled five-fold cross-validation, stratified by
class and by group. Larger collections have one repeat of five folds. Tasks of docs/benchmarks.md keep their test sets.
Data: DKDIST_DATA.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import defaults  # puts benchmarks/papers on the path
import numpy as np
from study import data_file

import dkdist as dk

sys.path.insert(0, str(Path(__file__).parent / "peers"))
import simple_baselines

N_REPEATS, N_FOLDS = 5, 5
N_NAMES = 20_000


@dataclass(frozen=True)
class Source:
    """A data file: SHA-256, origin, whether targets are numbers, and whether splits keep groups together."""

    sha256: str
    origin: str
    is_regression: bool = False
    is_grouped: bool = False


MI_DATASETS = "github.com/komartom/MIDatasets.jl"
FILES = {
    "fox": Source("41034e15899e960954e0bee96b33d0bc3e20bc60d3741284e3d58ccdad7f77cb", MI_DATASETS),
    "newsgroups2": Source("46ea949e50a8925fcf3b3a2daa1368ebf55c4f4e03e2360b10a5a5104c1c6677", MI_DATASETS),
    "mutagenesis1": Source("2f3bf97b398107d0b0eac091838720dd7c1316bfbaf7ef75d681a0878d37341d", MI_DATASETS),
    "pickup": Source(
        "897e0fb9d547a7d7e6ccb3069173b57c88f9ec1262e4d3d43430736fc41aece9",
        "PickupGestureWiimoteZ of the UCR archive (timeseriesclassification.com)",
    ),
    "esol": Source(
        "7dcd1bdb95f71a6382d0f032f2656fe43d36706a696bbf354c0a5bd0dcd61d79",
        "the solubilities of Delaney (2004), atoms by RDKit", True,
    ),
    "bike": Source(
        "442ddf35e1e14bfcf19dbf6ee14209e6ef1abf712423f355a3bef4c6cd347035",
        "UCI Bike Sharing (archive.ics.uci.edu/dataset/275)", True,
    ),
    "parkinson": Source(
        "adc20362d699412ed2b90106f08ab558894dfd42660824512d57a521d0f9636e",
        "UCI Parkinsons Telemonitoring (archive.ics.uci.edu/dataset/189)", True, True,
    ),
    "names": Source(
        "072a1de9d90465479bb9f52bb6b7f807d87e3cad96fd90577f23c545b1b1b8a6",
        "the name list of the package gender-guesser (pypi.org/project/gender-guesser)",
    ),
}  # fmt: skip
SMALL = ("fox", "newsgroups2", "mutagenesis1", "pickup", "parkinson")
LARGER = ("esol", "bike", "names")
TASKS = (
    "mixtures", "images", "pentip", "auslan", "mnist_sift", "scenes", "splice", "mnist_str8", "mnist_str4",
)  # fmt: skip
COLLECTIONS = (*SMALL, *LARGER, *TASKS)


@dataclass(frozen=True)
class Collection:
    """Sets with targets, and (train, test) indices of every split, repeat by repeat."""

    sets: Any
    y: np.ndarray
    groups: np.ndarray | None
    splits: tuple[tuple[np.ndarray, np.ndarray], ...]
    n_repeats: int

    @property
    def is_classifier(self) -> bool:
        return self.y.dtype.kind != "f"

    @property
    def variance(self) -> float:
        """Variance of all targets, the denominator of R^2 in every fold; 1 for classes."""
        return 1.0 if self.is_classifier else float(self.y.var())


def split_keys(names: Any, quick: bool) -> Iterator[tuple[str, int]]:
    """Yield (collection, index of a split) of all splits without reading data."""
    for name in names:
        n_splits = 1 if name in TASKS else 2 if quick else N_FOLDS if name in LARGER else N_REPEATS * N_FOLDS
        yield from ((name, k) for k in range(n_splits))


@lru_cache(maxsize=1)
def load_collection(name: str, seed: int, quick: bool) -> Collection:
    """Return a collection with its splits; ``seed`` determines the folds and the sample of "names"."""
    return _task(name, quick) if name in TASKS else _from_file(name, seed, quick)


def _task(name: str, quick: bool) -> Collection:
    if name in ("mixtures", "images", "scenes"):
        task = getattr(defaults, name)(quick)
    else:
        task = defaults.of_distances(name, quick)
    train, test = np.arange(len(task.y)), len(task.y) + np.arange(len(task.y_test))
    sets = concatenate([task.train, task.test])
    return Collection(sets, np.concatenate([task.y, task.y_test]), None, ((train, test),), 1)


def concatenate(parts: list[Any]) -> Any:
    """Return the sets of several collections in sequence."""
    points = np.concatenate([np.asarray(part.points) for part in parts])
    return dk.SampleSets(points, np.concatenate([[0], np.cumsum(np.concatenate([p.sizes for p in parts]))]))


def _from_file(name: str, seed: int, quick: bool) -> Collection:
    source = FILES[name]
    with np.load(data_file(f"{name}.npz", source.sha256, source.origin), allow_pickle=False) as data:
        arrays = {key: data[key] for key in data.files}
    y = arrays["labels"].astype(float) if source.is_regression else arrays["labels"]
    groups = arrays["groups"] if source.is_grouped else None
    if name == "names":
        rows = np.random.default_rng(seed).permutation(len(y))[: 400 if quick else N_NAMES]
        sets, y = dk.SampleSets.from_strings(arrays["names"][rows].tolist()), y[rows]
    else:
        sets = dk.SampleSets(arrays["values"], arrays["offsets"])
    n_repeats = 1 if quick or name in LARGER else N_REPEATS
    splits = [
        split
        for repeat in range(n_repeats)
        for split in simple_baselines.folds(y, groups, not source.is_regression, N_FOLDS, seed * 100 + repeat)
    ]
    return Collection(sets, y, groups, tuple(splits), n_repeats)
