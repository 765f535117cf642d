"""Helpers of the experiments of the papers: embeddings to compare, parameter selection, data files, tables.

A `Rival` is an embedding with one parameter (bandwidth, number of bins, ...). `tune` evaluates every value with several
sigmas of the random features and several penalties of ridge on held-out training sets, in one pass. All rivals of an
experiment have the same number of candidates: those without a parameter have more sigmas.
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

sys.path.insert(1, str(Path(__file__).parents[1]))  # folder of common.py
from common import options, rmse, start_report, time_interleaved, two_clouds, write  # noqa: F401

SIGMAS = (0.5, 1.0, 2.0, 4.0)  # times the median distance between rows
ALPHAS = tuple(10.0 ** (k / 2) for k in range(-6, 3))
STEPS = {  # parameter names of the embedding and of sigma in a pipeline, without and with symmetries
    False: ("embed__", "features__sigma"),
    True: ("embed__embedding__", "embed__features__sigma"),
}


@dataclass(frozen=True)
class Rival:
    """An embedding of sets, and candidate values of one of its parameters."""

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
    """Selected parameters of a rival, and their score on held-out rows."""

    embedding: dict[str, Any]
    sigma: float
    alpha: float
    score: float
    tried: int
    record: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        selected = {
            "features_sigma": self.sigma,
            "alpha": self.alpha,
            "held_out_score": self.score,
            "tried": self.tried,
        }
        self.record = self.embedding | selected


def tune(rival: Rival, sets: Any, y: Any, learner: Any, n_features: int, seed: int, **search: Any) -> Choice:
    """Return the best candidate on a held-out quarter of the sets."""
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
    best, n_candidates = result.best_params_, len(result.cv_results_["params"]) * len(ALPHAS)
    values = {k.removeprefix(embedding): v for k, v in best.items() if k != sigma}
    alpha = result.cv_results_["alpha"][result.best_index_]
    return Choice(values, best[sigma], alpha, result.best_score_, n_candidates)


def tuned_pipeline(rival: Rival, choice: Choice, learner: Any, n_features: int, seed: int) -> Pipeline:
    """Return the unfitted pipeline of a choice."""
    learner.set_params(alphas=choice.alpha)
    return pipeline(rival, choice.embedding, n_features, choice.sigma, learner, seed)


def pipeline(
    rival: Rival, values: Mapping[str, Any], n_features: int, sigma: float, learner: Any, seed: int
) -> Pipeline:
    embedding = rival.make(**values)
    features = dk.RandomFourierFeatures(n_features, sigma=sigma, random_state=seed)
    if rival.symmetries:
        invariant = dk.InvariantFeatures(embedding, features, rival.symmetries)
        return Pipeline([("embed", invariant), ("learn", learner)])
    return Pipeline([("embed", embedding), ("features", features), ("learn", learner)])


def data_file(name: str, sha256: str, source: str) -> Path:
    """Return the file in the folder DKDIST_DATA; raise an error with its source if it is missing or different."""
    file = Path(os.environ.get("DKDIST_DATA", "../shared/data")) / name
    if not file.exists():
        raise FileNotFoundError(
            f"{file} does not exist. Set DKDIST_DATA to the folder of {name}, which is made from {source}."
        )
    with file.open("rb") as stream:
        result = hashlib.file_digest(stream, "sha256").hexdigest()
    if result != sha256:
        raise ValueError(
            f"{file} must have SHA-256 {sha256}; got {result}. It is damaged or another version of {source}."
        )
    return file


def spread(values: Sequence[float]) -> dict[str, float]:
    """Return the mean over the runs, their standard deviation, and the standard error of the mean."""
    n, std = len(values), float(np.std(values, ddof=1)) if len(values) > 1 else 0.0
    return {"mean": float(np.mean(values)), "std": std, "sem": std / n**0.5}


def show(title: str, columns: Sequence[str], rows: Mapping[str, Sequence[Any]]) -> None:
    """Print a table of numbers, text, or means with standard deviations."""
    print(f"\n{title}\n  {'':<34}" + "".join(f"{c:>18}" for c in columns))
    for name, cells in rows.items():
        print(f"  {name:<34}" + "".join(f"{_cell(cell):>18}" for cell in cells), flush=True)


def _cell(cell: Any) -> str:
    if isinstance(cell, dict):
        return f"{cell['mean']:.4f} +- {cell['std']:.4f}"
    return f"{cell:.4f}" if isinstance(cell, float) else str(cell)
