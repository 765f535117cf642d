"""Fits of the same models have the same bits: on one or two threads, on two workers, for several block sizes.

Rows are equal for any block size. Models by stochastic gradients are equal for one block size. Ridge is equal for one
block size, and for others up to rounding.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import dask
import numpy as np
import pytest
from distributed import Client
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

import dkdist as dk

# a busy machine, whose workers are heard late
pytestmark = pytest.mark.filterwarnings("ignore:worker .* has not answered:RuntimeWarning")

N_SETS, N_FEATURES = 120, 80
BLOCK_SIZES = (7, 24, N_SETS)
BACK_ENDS = ("one thread", "two threads", "synchronous", "two workers")
N_SETTINGS = len(BLOCK_SIZES) * len(BACK_ENDS)
MAX_DELAY_SECONDS = 0.004
RIDGE_TOL = 120 * 2.0**-24 * 100  # float32 products of 120 rows; condition 100 at alpha 1


@pytest.fixture(scope="module")
def problem(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """A store of sets in the plane, and their labels."""
    rng = np.random.default_rng(0)
    y = np.arange(N_SETS) % 2
    sets = [rng.beta(2, 2 + k, (rng.integers(5, 40), 2)) for k in y]
    path = tmp_path_factory.mktemp("bits") / "sets.zarr"
    dk.write_sets(path, sets, targets=y)
    return path, y


@contextmanager
def on_back_end(name: str, client: Client) -> Iterator[None]:
    options: dict[str, dict[str, Any]] = {
        "one thread": {"num_workers": 1},
        "two threads": {"num_workers": 2},
        "synchronous": {"scheduler": "synchronous"},
    }
    if name == "two workers":
        with client.as_current():
            yield
    else:
        with dask.config.set(options[name]):
            yield


def delayed(rows: Any, seed: int) -> Any:
    """The same lazy rows, whose blocks are computed in another order: each takes a random time more."""

    def wait(block: Any, block_info: Any = None) -> Any:
        place = block_info[0]["chunk-location"] if block_info else (0, 0)
        time.sleep(np.random.default_rng([seed, *place]).uniform(0, MAX_DELAY_SECONDS))
        return block

    return rows.map_blocks(wait, dtype=rows.dtype, name=f"delayed_{seed}_{rows.name}")


def fits(sets: Any, y: Any, seed: int) -> dict[str, Any]:
    """Rows of sets and coefficients of three learners. Every second time blocks are delayed at random."""
    embedding = dk.DivergenceEmbedding("jensen-shannon", bandwidth=0.2, domain="unit", n_basis=6)
    features = dk.RandomFourierFeatures(N_FEATURES, sigma=0.5, random_state=0)
    rows = make_pipeline(embedding, features).fit_transform(sets)
    if seed % 2:
        rows = delayed(rows, seed)
    learners = {
        "sgd": dk.IncrementalSGDClassifier(n_epochs=2, random_state=0),
        "two_lanes": dk.IncrementalSGDClassifier(n_epochs=2, n_lanes=2, random_state=0),
        "ridge": dk.IncrementalRidgeClassifier(alphas=1.0, random_state=0),
    }
    results = {name: learner.fit(rows, y).coef_ for name, learner in learners.items()}
    return {**results, "rows": np.asarray(rows)}


@pytest.mark.parametrize("n_fits", [N_SETTINGS, pytest.param(50, marks=pytest.mark.slow)])
def test_fits_are_bit_identical(n_fits: int, problem: tuple[Path, Any], two_workers: Client) -> None:
    path, y = problem
    first: dict[tuple[str, int], Any] = {}
    settings = itertools.cycle(itertools.product(BLOCK_SIZES, BACK_ENDS))
    for seed, (block_sets, back_end) in zip(range(n_fits), settings, strict=False):
        with on_back_end(back_end, two_workers):
            results = fits(dk.open_sets(path, block_sets=block_sets), y, seed // len(BACK_ENDS))
        for name, values in results.items():
            key = (name, 0 if name == "rows" else block_sets)
            expected = first.setdefault(key, values)
            assert values.tobytes() == expected.tobytes(), (name, block_sets, back_end, seed)
    reference = first["ridge", N_SETS]
    for block_sets in BLOCK_SIZES:
        error = np.abs(first["ridge", block_sets] - reference).max()
        assert error <= RIDGE_TOL * np.linalg.norm(reference)


def test_automatic_models_are_bit_identical(problem: tuple[Path, Any], two_workers: Client) -> None:
    path, y = problem
    sets = dk.open_sets(path, block_sets=24)[:60]
    model = dk.SetClassifier(["means", "hellinger"], cv=3, random_state=0)
    bits = set()
    for back_end in BACK_ENDS:
        with on_back_end(back_end, two_workers):
            bits.add(clone(model).fit(sets, y[:60]).predict_proba(sets).tobytes())
    assert len(bits) == 1
