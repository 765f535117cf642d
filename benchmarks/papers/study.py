"""What the experiments of the papers have in common: rivals, an equal budget of tuning, data files, tables.

A `Rival` is an embedding with one parameter to choose (bandwidth, number of bins, ...). `tune` tries every value with
several sigmas of the random features and several penalties of ridge, all on rows held out of the training sets, in one
pass; every rival of an experiment gets the same number of candidates. A rival without a parameter has as many more
sigmas.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline

import dkdist as dk

sys.path.insert(1, str(Path(__file__).parents[1]))  # where common.py is
from common import options, rmse, two_clouds, write  # noqa: F401

SIGMAS = (0.5, 1.0, 2.0, 4.0)  # times the median distance between rows
ALPHAS = tuple(10.0 ** (k / 2) for k in range(-6, 3))
STEPS = {  # where a pipeline keeps the parameters of its embedding, and sigma; without symmetries and with
    False: ("embed__", "features__sigma"),
    True: ("embed__embedding__", "embed__features__sigma"),
}


@dataclass(frozen=True)
class Rival:
    """An embedding of sets, and the values that are tried of one of its parameters."""

    name: str
    make: Callable[..., Any]
    parameter: str = ""
    values: tuple[Any, ...] = ()
    sigmas: tuple[float, ...] = SIGMAS
    symmetries: str = ""  # features are averaged over these symmetries of the domain

    def candidates(self) -> list[dict[str, Any]]:
        return [{self.parameter: value} for value in self.values] if self.values else [{}]


@dataclass
class Choice:
    """What was chosen for a rival, and its score on the rows held out."""

    embedding: dict[str, Any]
    sigma: float
    alpha: float
    score: float
    tried: int
    record: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        own = {
            "features_sigma": self.sigma,
            "alpha": self.alpha,
            "held_out_score": self.score,
            "tried": self.tried,
        }
        self.record = self.embedding | own


def tune(rival: Rival, sets: Any, y: Any, learner: Any, n_features: int, seed: int, **search: Any) -> Choice:
    """The best of all candidates on a quarter of the sets, which the others were trained without."""
    grid, (embedding, sigma) = [], STEPS[bool(rival.symmetries)]
    for values in rival.candidates():
        rows = rival.make(**values).fit(sets).transform(sets[:512])
        median = dk.RandomFourierFeatures(2, random_state=0).fit(rows).sigma_
        grid.append(
            {embedding + k: [v] for k, v in values.items()}
            | {sigma: [float(f"{m * median:.3g}") for m in rival.sigmas]}
        )
    learner.set_params(alphas=ALPHAS)
    model = pipeline(rival, {}, n_features, 1.0, learner, seed)
    result = dk.OnePassSearch(model, grid, 0.25, refit=False, random_state=seed, **search).fit(sets, y)
    best, tried = result.best_params_, len(result.cv_results_["params"]) * len(ALPHAS)
    values = {k.removeprefix(embedding): v for k, v in best.items() if k != sigma}
    alpha = result.cv_results_["alpha"][result.best_index_]
    return Choice(values, best[sigma], alpha, result.best_score_, tried)


def chosen(rival: Rival, choice: Choice, learner: Any, n_features: int, seed: int) -> Pipeline:
    """The pipeline of a choice, not fitted."""
    learner.set_params(alphas=choice.alpha)
    return pipeline(rival, choice.embedding, n_features, choice.sigma, learner, seed)


def pipeline(
    rival: Rival, values: Mapping[str, Any], n_features: int, sigma: float, learner: Any, seed: int
) -> Pipeline:
    embedding = rival.make(**values)
    features = dk.RandomFourierFeatures(n_features, sigma=sigma, random_state=seed)
    if rival.symmetries:
        averaged = dk.InvariantFeatures(embedding, features, rival.symmetries)
        return Pipeline([("embed", averaged), ("learn", learner)])
    return Pipeline([("embed", embedding), ("features", features), ("learn", learner)])


def data_file(name: str, sha256: str, source: str) -> Path:
    """The file of that name in the folder DKDIST_DATA; an error that says where it is from, or that it is another."""
    file = Path(os.environ.get("DKDIST_DATA", "../shared/data")) / name
    if not file.exists():
        raise FileNotFoundError(
            f"no {file}: set DKDIST_DATA to the folder that holds {name}, made from {source}"
        )
    with file.open("rb") as stream:
        result = hashlib.file_digest(stream, "sha256").hexdigest()
    if result != sha256:
        raise ValueError(
            f"{file} has SHA-256 {result}, expected {sha256}: it is damaged or another version of {source}"
        )
    return file


def spread(values: Sequence[float]) -> dict[str, float]:
    """Mean over the runs, their standard deviation, and the standard error of the mean."""
    n, std = len(values), float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
    return {"mean": float(np.mean(values)), "std": std, "sem": std / n**0.5}


def show(title: str, columns: Sequence[str], rows: Mapping[str, Sequence[Any]]) -> None:
    """A table on standard output: (mean, std) pairs, numbers, or text."""
    print(f"\n{title}\n  {'':<34}" + "".join(f"{c:>18}" for c in columns))
    for name, cells in rows.items():
        print(f"  {name:<34}" + "".join(f"{_cell(cell):>18}" for cell in cells), flush=True)


def _cell(cell: Any) -> str:
    if isinstance(cell, dict):
        return f"{cell['mean']:.4f} +- {cell['std']:.4f}"
    return f"{cell:.4f}" if isinstance(cell, float) else str(cell)
