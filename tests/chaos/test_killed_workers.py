"""Worker processes are killed during embeddings and fits: identical results, and few repeated blocks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dkdist as dk

from .killing import Killer, four_workers, slow_down

N_SETS, BLOCK, D = 9600, 64, 1000
EVERY = 3.0  # seconds between two kills


@pytest.fixture(scope="module")
def problem(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Any, Any, Any]:
    """Return a store, its lazy features, their values, and targets."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, N_SETS)
    sets = list(np.clip(rng.standard_normal((N_SETS, 40, 2)) * (0.1 + 0.05 * y[:, None, None]) + 0.5, 0, 1))
    path = tmp_path_factory.mktemp("killed") / "sets.zarr"
    dk.write_sets(path, sets, targets=y)
    embedding = dk.DivergenceEmbedding("jensen-shannon", n_basis=6, domain="unit", bandwidth=0.15).fit(
        sets[:50]
    )
    features = dk.RandomFourierFeatures(D, sigma=0.5, random_state=0).fit(embedding.transform(sets[:50]))
    lazy = features.transform(embedding.transform(dk.open_sets(path, block_sets=BLOCK)))
    return path, lazy, lazy.compute(), y


def embed_and_kill(problem: Any, folder: Path, seed: int) -> None:
    _, lazy, expected, _ = problem
    n_blocks, log = lazy.numblocks[0], folder / f"{seed}.log"
    with four_workers() as client:
        with Killer(client, EVERY, seed) as killer:
            stored = dk.write_features(folder / f"{seed}.zarr", slow_down(lazy, 0.4, log))
        assert killer.killed >= 2
        assert log.stat().st_size <= 1.25 * n_blocks
    np.testing.assert_array_equal(stored.compute(), expected)


def fit_and_kill(problem: Any, folder: Path, seed: int) -> None:
    _, lazy, values, y = problem
    model = dk.IncrementalSGDClassifier(n_epochs=2, random_state=0)
    n_blocks, log = 2 * lazy.numblocks[0], folder / f"{seed}.log"
    expected = model.fit(lazy, y).coef_
    with four_workers() as client:
        with Killer(client, EVERY, seed) as killer:
            result = model.fit(slow_down(lazy, 0.2, log), y).coef_
        assert killer.killed >= 2
        assert log.stat().st_size <= 1.25 * n_blocks
    np.testing.assert_array_equal(result, expected)
    assert model.score(values, y) > 0.8


@pytest.mark.network
def test_embedding_with_killed_workers(problem: Any, tmp_path: Path) -> None:
    embed_and_kill(problem, tmp_path, 0)


@pytest.mark.network
def test_fit_with_killed_workers(problem: Any, tmp_path: Path) -> None:
    fit_and_kill(problem, tmp_path, 0)


@pytest.mark.chaos
@pytest.mark.parametrize("seed", range(1, 11))
def test_ten_embeddings_with_killed_workers(problem: Any, tmp_path: Path, seed: int) -> None:
    embed_and_kill(problem, tmp_path, seed)


@pytest.mark.chaos
@pytest.mark.parametrize("seed", range(1, 11))
def test_ten_fits_with_killed_workers(problem: Any, tmp_path: Path, seed: int) -> None:
    fit_and_kill(problem, tmp_path, seed)
