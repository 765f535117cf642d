"""Classification tasks of five kinds, with fresh test sets, and the accuracy of `SetClassifier` on them.

``PYTHONPATH=.:tests python -m golden.accuracy_tasks`` writes the golden accuracies.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

import dkdist as dk

from .harness import FOLDER

TABLE = FOLDER / "accuracies.json"
N_TRAINING_SETS, N_TEST_SETS = 60, 500
SEEDS = (0, 1, 2)
Draw = Callable[[np.random.Generator, int], Any]


def moments(rng: np.random.Generator, label: int) -> Any:
    """Two dimensions whose correlation differs; means scatter."""
    correlation = 0.5 * label
    points = rng.normal(size=(20, 2)) @ np.array([[1, correlation], [0, np.sqrt(1 - correlation**2)]])
    return points + rng.normal(size=2)


def shapes(rng: np.random.Generator, label: int) -> Any:
    """Normal points, or points of two clusters with the same mean and variance."""
    if label == 0:
        return rng.normal(size=(40, 1))
    return 0.85 * rng.choice([-1, 1], (40, 1)) + np.sqrt(1 - 0.85**2) * rng.normal(size=(40, 1))


def strings(rng: np.random.Generator, label: int) -> str:
    """Letters in any order, or a letter that often repeats the one before it."""
    letters = rng.choice(list("abcd"), 20)
    for i in range(1, len(letters)):
        if rng.random() < 0.4 * label:
            letters[i] = letters[i - 1]
    return "".join(letters)


def series(rng: np.random.Generator, label: int) -> Any:
    """A wave of noise in one of two phases, at any offset of a few steps."""
    t = np.arange(30) + rng.integers(0, 4)
    wave = np.where((t > 12) & (t < 18), 1.0 if label else -1.0, 0.0) + np.where(
        (t > 20) & (t < 26), 0.5, 0.0
    )
    return (wave + 0.8 * rng.normal(size=30))[:, None]


def rare_points(rng: np.random.Generator, label: int) -> Any:
    """60 points around the origin; of some sets three lie in a corner."""
    points = rng.normal(size=(60, 2))
    if label:
        points[:3] = rng.normal([2.0, 2.0], 0.4, (3, 2))
    return points


TASKS: dict[str, Draw] = {draw.__name__: draw for draw in (moments, shapes, strings, series, rare_points)}


def accuracy(name: str, seed: int) -> float:
    """Fraction of fresh test sets that are classified correctly."""
    rng = np.random.default_rng([31, seed, list(TASKS).index(name)])
    y = rng.permutation(np.arange(N_TRAINING_SETS + N_TEST_SETS) % 2)
    sets = [TASKS[name](rng, int(label)) for label in y]
    training, test = slice(None, N_TRAINING_SETS), slice(N_TRAINING_SETS, None)
    model = dk.SetClassifier(cv=3, random_state=0).fit(sets[training], y[training])
    return float((model.predict(sets[test]) == y[test]).mean())


if __name__ == "__main__":
    accuracies = {name: [accuracy(name, seed) for seed in SEEDS] for name in TASKS}
    TABLE.write_text(json.dumps(accuracies, indent=1) + "\n")
    print(accuracies, file=sys.stderr)
