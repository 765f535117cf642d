"""`SetClassifier` compared with methods for series, strings and shapes, on the same training and test sets.

    python benchmarks/structure_peers.py [series] [strings] [shapes] [--quick] [--output FILE]

series   the classification problems in the package aeon with their official splits, compared with MiniRocket (Dempster,
         Schmidt, Webb 2021) and the nearest neighbour by dynamic time warping of aeon
strings  first names, surnames (of the package faker), splice junctions, digit contours, and simulated strings with a
         motif; compared with a linear support vector machine on tf-idf of character n-grams and, for strings of equal
         length, logistic regression on one-hot positions (scikit-learn)
shapes   rotated silhouettes, rotated solids and upright digits of rotations.py; compared with a random forest on
         quantiles of distances and principal moments

Accuracies are of test sets. "difference" is that of `SetClassifier` and the best other method, with the standard error
of the paired difference. For series, p-values of the differences to MiniRocket are corrected by Holm's method. Seconds
contain fit and prediction. Parts whose packages or files (DKDIST_DATA) are missing are named and skipped.
"""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from common import options, start_report, write
from scipy.stats import norm
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.svm import LinearSVC

import dkdist as dk

sys.path.insert(0, str(Path(__file__).parent / "papers"))
import distance_tasks
import real_collections
import rotations
from study import data_file

Peer = Callable[[Any, np.ndarray, Any], np.ndarray]
MODEL = "SetClassifier"
SERIES = (
    "ACSF1", "ArrowHead", "BasicMotions", "GunPoint", "ItalyPowerDemand", "JapaneseVowels", "OSULeaf",
    "PickupGestureWiimoteZ",
)  # fmt: skip
LOCALES = (
    "cs_CZ", "da_DK", "de_DE", "en_GB", "es_ES", "fi_FI", "fr_FR", "hu_HU", "it_IT", "nl_NL", "pl_PL", "pt_PT", "ro_RO",
    "sv_SE", "tr_TR",
)  # fmt: skip
MAX_DTW_CELLS = 3e10  # cells of the alignments of all pairs; about five minutes


@dataclass(frozen=True)
class Task:
    """Training and test sets with labels, and methods to compare with."""

    name: str
    train: list[Any]
    y: np.ndarray
    test: list[Any]
    y_test: np.ndarray
    peers: dict[str, Peer]


def split(name: str, sets: list[Any], y: Any, train_size: Any, quick: bool, peers: dict[str, Peer]) -> Task:
    """Return a task with a random stratified split."""
    y = np.asarray(y)
    if quick:
        sets, _, y, _ = train_test_split(
            sets, y, train_size=min(300, len(sets) // 2), stratify=y, random_state=0
        )
        train_size = 0.5
    parts = train_test_split(sets, y, train_size=train_size, stratify=y, random_state=0)
    return Task(name, parts[0], parts[2], parts[1], parts[3], peers)


def series_tasks(quick: bool) -> Iterator[Task]:
    """Yield the problems of aeon, and those of the papers."""
    datasets = importlib.import_module("aeon.datasets")
    for name in SERIES[3:5] if quick else SERIES:
        stem = Path(datasets.__file__).parent / "data" / name / name
        parts, padded = [], []
        for part in ("TRAIN", "TEST"):
            values, labels = datasets.load_from_ts_file(f"{stem}_{part}.ts")
            parts += [[np.asarray(one, np.float64).T for one in values], np.asarray(labels)]
            if Path(f"{stem}_eq_{part}.ts").exists():  # aeon's version of equal lengths
                padded.append(datasets.load_from_ts_file(f"{stem}_eq_{part}.ts")[0])
        cells = len(parts[0]) * len(parts[2]) * np.mean([len(x) for x in parts[0]]) ** 2
        peers: dict[str, Peer] = {"MiniRocket": partial(mini_rocket, padded=padded)}
        if cells < MAX_DTW_CELLS:
            peers["1-NN, time warping"] = nearest_by_time_warping
        yield Task(name, *parts, peers)
    for name in () if quick else ("pentip", "auslan"):
        data = distance_tasks.load(name)
        yield Task(name, list(data.train), data.y, list(data.test), data.y_test, {"MiniRocket": mini_rocket})


def mini_rocket(train: Any, y: np.ndarray, test: Any, padded: Sequence[Any] = ()) -> np.ndarray:
    """Predict by MiniRocket from ``padded`` arrays (n, d, T) of both parts, by default padded by their last values."""
    classifiers = importlib.import_module("aeon.classification.convolution_based")
    length = max(len(x) for x in [*train, *test])
    parts = padded or [
        np.stack([np.pad(x, ((0, length - len(x)), (0, 0)), mode="edge").T for x in part])
        for part in (train, test)
    ]
    return np.asarray(classifiers.MiniRocketClassifier(random_state=0).fit(parts[0], y).predict(parts[1]))


def nearest_by_time_warping(train: Any, y: np.ndarray, test: Any) -> np.ndarray:
    """Predict by the nearest training series."""
    module = importlib.import_module("aeon.classification.distance_based")
    model = module.KNeighborsTimeSeriesClassifier(n_neighbors=1, distance="dtw")
    model.fit([x.T for x in train], y)
    return np.asarray(model.predict([x.T for x in test]))


def string_tasks(quick: bool) -> Iterator[Task]:
    """Yield strings as text."""
    ngrams: dict[str, Peer] = {"n-grams": linear_ngrams}
    yield split("strings with a motif", *strings_with_a_motif(), 0.5, quick, ngrams)
    source = real_collections.FILES["names"]
    with np.load(data_file("names.npz", source.sha256, source.origin)) as f:
        yield split("first names", f["names"].tolist(), f["labels"], 27_000, quick, ngrams)
    if importlib.util.find_spec("faker"):
        yield split("surnames", *surnames(), 0.5, quick, ngrams)
    else:
        print("surnames: skipped, faker is not installed (pip install 'dkdist[peers]')")
    for name in ("splice", "mnist_str8"):
        data = distance_tasks.load(name, *((150, 150) if quick else (None, None)))
        train, test = (
            ["".join(chr(97 + int(symbol)) for symbol in one[:, 0]) for one in part]
            for part in (data.train, data.test)
        )
        peers = ngrams | ({"positions": one_hot_positions} if len({len(s) for s in train}) == 1 else {})
        yield Task(name, train, data.y, test, data.y_test, peers)


def surnames() -> tuple[list[str], list[str]]:
    """Return surnames and countries; a name of several countries occurs several times."""
    names, countries = [], []
    for locale in LOCALES:
        provider = importlib.import_module(f"faker.providers.person.{locale}").Provider
        of_country = sorted(set(getattr(provider, "last_names", ())))
        if len(of_country) >= 200:
            names += of_country
            countries += [locale] * len(of_country)
    return names, countries


def strings_with_a_motif(n: int = 4000) -> tuple[list[str], np.ndarray]:
    """Return strings of 40 to 60 letters that contain one of two motifs with one random letter."""
    rng, strings = np.random.default_rng(0), []
    y = rng.integers(0, 2, n)
    for label in y:
        letters = rng.choice(list("ACGT"), rng.integers(40, 60))
        motif = np.array(list(("GATTACA", "TACGTTC")[label]))
        motif[rng.integers(7)] = rng.choice(list("ACGT"))
        start = rng.integers(0, len(letters) - 7)
        letters[start : start + 7] = motif
        strings.append("".join(letters))
    return strings, y


def linear_ngrams(train: Any, y: np.ndarray, test: Any) -> np.ndarray:
    """Predict by a linear support vector machine on tf-idf of n-grams of up to five characters."""
    model = make_pipeline(TfidfVectorizer(analyzer="char_wb", ngram_range=(1, 5)), LinearSVC(random_state=0))
    return np.asarray(model.fit(train, y).predict(test))


def one_hot_positions(train: Any, y: np.ndarray, test: Any) -> np.ndarray:
    """Predict by logistic regression on the letters of all positions."""
    model = make_pipeline(OneHotEncoder(handle_unknown="ignore"), LogisticRegression(max_iter=2000))
    return np.asarray(model.fit([list(s) for s in train], y).predict([list(s) for s in test]))


def shape_tasks(quick: bool) -> Iterator[Task]:
    """Yield sets of points in the plane and in space, of which half are for training."""
    collections = {"solids, rotated": rotations.solids, "digits, upright": rotations.digits}
    collections |= {} if quick else {"silhouettes, rotated": rotations.silhouettes}
    for name, make in collections.items():
        sets, y = make(np.random.default_rng(0))
        n = 200 if quick else len(y)
        train, test = train_test_split(np.arange(len(y))[:n], train_size=0.5, stratify=y[:n], random_state=0)
        yield Task(name, sets[train], y[train], sets[test], y[test], {"distances, moments, forest": forest})


def forest(train: Any, y: np.ndarray, test: Any) -> np.ndarray:
    """Predict by a random forest on quantiles of distances and principal moments."""
    model = RandomForestClassifier(500, random_state=0)
    model.fit(rotations.distance_columns(train), y)
    return np.asarray(model.predict(rotations.distance_columns(test)))


def fitted_model(train: Any, y: np.ndarray, test: Any) -> np.ndarray:
    """Predict by `SetClassifier`."""
    return np.asarray(dk.SetClassifier(random_state=0).fit(train, y).predict(test))


def evaluate(task: Task) -> dict[str, Any]:
    """Return accuracies, seconds and paired differences of all methods, and print them."""
    results, is_correct = dict[str, Any](), {}
    for method, predict in {MODEL: fitted_model, **task.peers}.items():
        start = time.perf_counter()
        is_correct[method] = (predict(task.train, task.y, task.test) == task.y_test).astype(float)
        results[method] = {"accuracy": is_correct[method].mean(), "seconds": time.perf_counter() - start}
    for method in task.peers:
        d = is_correct[MODEL] - is_correct[method]
        results[method] |= {"difference": d.mean(), "std_error": d.std() / np.sqrt(len(d))}
    best = max(task.peers, key=lambda method: results[method]["accuracy"])
    texts = [f"{method} {row['accuracy']:.3f} in {row['seconds']:.1f} s" for method, row in results.items()]
    lead = f"difference {results[best]['difference']:+.3f} ± {results[best]['std_error']:.3f}"
    print(f"{task.name:<24}{len(task.train):>7}{len(task.test):>6}  {'; '.join(texts)}; {lead}", flush=True)
    return results


def holm_p_values(rows: dict[str, Any], peer: str) -> dict[str, float]:
    """Return two-sided p-values of the differences to a method, corrected for the number of tasks."""
    errors = {name: (row[peer]["difference"], row[peer]["std_error"]) for name, row in rows.items()}
    p = {name: 2 * norm.sf(abs(d) / s) if s > 0 else 1.0 for name, (d, s) in errors.items()}
    corrected, largest = {}, 0.0
    for rank, name in enumerate(sorted(p, key=lambda one: p[one])):
        largest = corrected[name] = max(largest, min(1.0, (len(p) - rank) * p[name]))
    return corrected


def compare_series(rows: dict[str, Any]) -> dict[str, Any]:
    """Return mean accuracies of all series and the corrected p-values of the differences."""
    means = {m: float(np.mean([row[m]["accuracy"] for row in rows.values()])) for m in (MODEL, "MiniRocket")}
    p_values = holm_p_values(rows, "MiniRocket")
    behind = [name for name, p in p_values.items() if p < 0.05 and rows[name]["MiniRocket"]["difference"] < 0]
    print(f"mean accuracy: {means}; significantly behind MiniRocket (Holm): {behind or 'none'}")
    return {"means": means, "p_values": p_values}


TASKS = {"series": series_tasks, "strings": string_tasks, "shapes": shape_tasks}


def main(argv: list[str] | None = None) -> dict[str, Any]:
    parser = options(__doc__)
    parser.add_argument("parts", nargs="*", help=f"any of {', '.join(TASKS)} (default: all)")
    arguments = parser.parse_args(argv)
    if unknown := set(arguments.parts) - set(TASKS):
        parser.error(f"unknown parts: {', '.join(sorted(unknown))}")
    report = start_report()
    for part in arguments.parts or TASKS:
        rows = {}
        try:
            for task in TASKS[part](arguments.quick):
                rows[task.name] = evaluate(task)
        except (ImportError, FileNotFoundError) as error:
            print(f"{part}: skipped, {str(error).rstrip('.')}. Packages: pip install 'dkdist[peers]'.")
        report[part] = rows
        if part == "series" and rows:
            report["series_summary"] = compare_series(rows)
    write(arguments.output, report)
    return report


if __name__ == "__main__":
    main()
