"""Rows of several collections side by side: their random features, and the choice of sigma and penalty.

Rows of up to 100,000 numbers are held, and learned from without random features too; wider ones are made for some
sets at a time and go into their features at once.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline
from study import ALPHAS

import dkdist as dk

LINEAR_ALPHAS = tuple(10.0 ** (k / 2) for k in range(-6, 3))
WIDEST, TOGETHER = 100_000, 128
Tried = tuple[float, float, float]  # score, sigma, penalty


def width(embedding: Any, parts: list[dk.SampleSets]) -> int:
    """The length of the rows of all parts side by side."""
    return int(embedding.transform(parts[0][:1]).shape[1] * len(parts))


def with_features(A: np.ndarray, y: np.ndarray, sigmas: list[float], D: int) -> Tried:
    """(score, sigma, penalty) that are best on a quarter of the rows."""
    features, learner = dk.RandomFourierFeatures(D, random_state=0), dk.IncrementalRidgeClassifier(ALPHAS)
    model = Pipeline([("features", features), ("learn", learner)])
    grid = {"features__sigma": sigmas}
    search = dk.OnePassSearch(model, grid, 0.25, refit=False, random_state=0).fit(A, y)
    return (
        search.best_score_, search.best_params_["features__sigma"], search.cv_results_["alpha"][search.best_index_]
    )  # fmt: skip


def without(A: np.ndarray, y: np.ndarray) -> Tried:
    """The same without random features (sigma 0): rows are wide and few, so one kernel matrix serves all penalties."""
    n, names = len(A) * 3 // 4, np.unique(y)
    X = A - A[:n].mean(axis=0)
    values, V = np.linalg.eigh((X[:n] @ X[:n].T).astype(float))
    targets = np.where(y[:n, None] == names, 1.0, -1.0)
    means, across = targets.mean(axis=0), (X[n:] @ X[:n].T).astype(float) @ V
    right, scores = V.T @ (targets - means), {}
    for a in LINEAR_ALPHAS:
        result = across @ (right / (np.maximum(values, 0) + a)[:, None]) + means
        scores[a] = float(np.mean(names[result.argmax(axis=1)] == y[n:]))
    best = max(scores, key=scores.__getitem__)
    return scores[best], 0.0, best


def streamed(
    parts: list[dk.SampleSets],
    embedding: Any,
    D: int,
    multiples: tuple[float, ...] | list[float],
    seed: int | None,
) -> tuple[list[float], list[np.ndarray]]:
    """Sigmas and random features of rows side by side that are never held: some images at a time.

    With a ``seed`` the multiples are sigmas; without one, of the median distance of the first images' rows.
    """

    def beside(a: int) -> np.ndarray:
        return np.hstack([embedding.transform(part[a : a + TOGETHER]) for part in parts])

    first = beside(0)
    median = 1.0 if seed is not None else dk.RandomFourierFeatures(2, random_state=0).fit(first).sigma_
    sigmas = [float(m * median) for m in multiples]
    maps = [dk.RandomFourierFeatures(D, sigma=s, random_state=seed or 0).fit(first) for s in sigmas]
    output = [[z.transform(A) for z in maps] for A in map(beside, range(0, len(parts[0]), TOGETHER))]
    return sigmas, [np.vstack(Z) for Z in zip(*output, strict=True)]


def wide_rows(
    parts: list[dk.SampleSets], embedding: Any, y: np.ndarray, multiples: tuple[float, ...], D: int
) -> list[Tried]:
    """(score, sigma, penalty) with random features of rows that are streamed."""
    result = []
    for sigma, Z in zip(*streamed(parts, embedding, D, multiples, None), strict=True):
        learner = dk.IncrementalRidgeClassifier(ALPHAS)
        search = dk.OnePassSearch(learner, {}, 0.25, refit=False, random_state=0).fit(Z, y)
        result.append((search.best_score_, sigma, search.cv_results_["alpha"][search.best_index_]))
    return [max(result)]


def held_rows(
    parts: list[dk.SampleSets], embedding: Any, y: np.ndarray, multiples: tuple[float, ...], D: int
) -> list[Tried]:
    """(score, sigma, penalty) with random features and without."""
    A = np.hstack([embedding.transform(part) for part in parts])
    median = dk.RandomFourierFeatures(2, random_state=0).fit(A).sigma_
    return [with_features(A, y, [float(m * median) for m in multiples], D), without(A, y)]
