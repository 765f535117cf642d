"""Random features of the concatenated rows of several collections, and selection of sigma and penalty.

Rows of up to 100,000 columns are stored, and also used without random features. Wider rows are computed for a block of
sets and transformed to random features immediately.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline
from study import ALPHAS

import dkdist as dk

LINEAR_ALPHAS = tuple(10.0 ** (k / 2) for k in range(-6, 3))
MAX_STORED_COLUMNS, BLOCK_SETS = 100_000, 128
Selected = tuple[float, float, float]  # score, sigma, penalty


def width(embedding: Any, parts: list[dk.SampleSets]) -> int:
    """Return the number of columns of the concatenated rows of all parts."""
    return int(embedding.transform(parts[0][:1]).shape[1] * len(parts))


def select_with_features(A: np.ndarray, y: np.ndarray, sigmas: list[float], D: int) -> Selected:
    """Return the best (score, sigma, penalty) on a held-out quarter of the rows."""
    features, learner = dk.RandomFourierFeatures(D, random_state=0), dk.IncrementalRidgeClassifier(ALPHAS)
    model = Pipeline([("features", features), ("learn", learner)])
    grid = {"features__sigma": sigmas}
    search = dk.OnePassSearch(model, grid, 0.25, refit=False, random_state=0).fit(A, y)
    return (
        search.best_score_, search.best_params_["features__sigma"], search.cv_results_["alpha"][search.best_index_]
    )  # fmt: skip


def select_linear(A: np.ndarray, y: np.ndarray) -> Selected:
    """Return the best (score, 0, penalty) without random features, by one kernel matrix for all penalties."""
    n, names = len(A) * 3 // 4, np.unique(y)
    X = A - A[:n].mean(axis=0)
    values, V = np.linalg.eigh((X[:n] @ X[:n].T).astype(float))
    targets = np.where(y[:n, None] == names, 1.0, -1.0)
    means, test_projections = targets.mean(axis=0), (X[n:] @ X[:n].T).astype(float) @ V
    target_projections, scores = V.T @ (targets - means), {}
    for a in LINEAR_ALPHAS:
        result = test_projections @ (target_projections / (np.maximum(values, 0) + a)[:, None]) + means
        scores[a] = float(np.mean(names[result.argmax(axis=1)] == y[n:]))
    best = max(scores, key=scores.__getitem__)
    return scores[best], 0.0, best


def stream_features(
    parts: list[dk.SampleSets],
    embedding: Any,
    D: int,
    multiples: tuple[float, ...] | list[float],
    seed: int | None,
) -> tuple[list[float], list[np.ndarray]]:
    """Return sigmas and random features of concatenated rows, which are computed block by block.

    With a ``seed`` the multiples are sigmas; otherwise they are in units of the median distance of the first block.
    """

    def block_rows(a: int) -> np.ndarray:
        return np.hstack([embedding.transform(part[a : a + BLOCK_SETS]) for part in parts])

    first = block_rows(0)
    median = 1.0 if seed is not None else dk.RandomFourierFeatures(2, random_state=0).fit(first).sigma_
    sigmas = [float(m * median) for m in multiples]
    maps = [dk.RandomFourierFeatures(D, sigma=s, random_state=seed or 0).fit(first) for s in sigmas]
    output = [[z.transform(A) for z in maps] for A in map(block_rows, range(0, len(parts[0]), BLOCK_SETS))]
    return sigmas, [np.vstack(Z) for Z in zip(*output, strict=True)]


def select_streamed(
    parts: list[dk.SampleSets], embedding: Any, y: np.ndarray, multiples: tuple[float, ...], D: int
) -> list[Selected]:
    """Return the best (score, sigma, penalty) with random features of rows that are not stored."""
    result = []
    for sigma, Z in zip(*stream_features(parts, embedding, D, multiples, None), strict=True):
        learner = dk.IncrementalRidgeClassifier(ALPHAS)
        search = dk.OnePassSearch(learner, {}, 0.25, refit=False, random_state=0).fit(Z, y)
        result.append((search.best_score_, sigma, search.cv_results_["alpha"][search.best_index_]))
    return [max(result)]


def select_stored(
    parts: list[dk.SampleSets], embedding: Any, y: np.ndarray, multiples: tuple[float, ...], D: int
) -> list[Selected]:
    """Return the best (score, sigma, penalty) with and without random features."""
    A = np.hstack([embedding.transform(part) for part in parts])
    median = dk.RandomFourierFeatures(2, random_state=0).fit(A).sigma_
    return [select_with_features(A, y, [float(m * median) for m in multiples], D), select_linear(A, y)]
