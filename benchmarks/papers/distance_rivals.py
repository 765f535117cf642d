"""Learners on the distances of all pairs of objects, with which the distance embedding is compared.

Parameters of all methods are selected on the same 25 % of the training objects as those of the embedding. Only
"transductive" uses the distances of test objects (never their labels), as in the comparison of the paper.

nearest neighbours       majority label of the k nearest training objects
DSK_RBF                  exp(-gamma d^2) (Haasdonk, Bahlmann 2004), negative eigenvalues set to zero, SVM
DSK_ND                   centred -d^beta as inner products (Haasdonk, Bahlmann 2004), SVM
GDK_LED                  pseudo-Euclidean coordinates of the distance matrix (Pekalska, Duin 2001), ridge

The kernel between test and training objects is not modified (see `dkdist.project_psd`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import SVC, LinearSVC

import dkdist as dk

F64 = np.ndarray
TrainAndNew = tuple[F64, F64]  # inputs of a learner for training and prediction
NEIGHBOURS, COSTS, POWERS, SPREADS = (1, 3, 5, 9), (1.0, 10.0, 100.0), (1.0, 2.0), (0.25, 1.0, 4.0)
COMPONENTS = (64, 256)
BLOCK_OBJECTS = 500  # objects per block of `nearest_in_blocks`: 240 MB of distances to 60,000 objects
ALPHAS = tuple(10.0 ** (k / 2) for k in range(-6, 11))


@dataclass(frozen=True)
class Matrices:
    """Distances among training objects (N, N), from new to training objects (M, N), optionally among new ones."""

    train: F64
    new: F64
    among_new: F64 | None = None

    def subset(self, rows: np.ndarray, held_out: np.ndarray) -> Matrices:
        """Return the matrices of some training objects, with other training objects as new ones."""
        among_new = None if self.among_new is None else self.train[np.ix_(held_out, held_out)]
        return Matrices(self.train[np.ix_(rows, rows)], self.train[np.ix_(held_out, rows)], among_new)


def raw_distances(D: Matrices, _: None) -> TrainAndNew:
    return D.train, D.new


def radial(D: Matrices, spread: float) -> TrainAndNew:
    """Return Gaussian kernels; ``spread`` is gamma in units of 1 / median distance^2."""
    gamma = spread / np.median(D.train[D.train > 0]) ** 2
    return dk.project_psd(np.exp(-gamma * D.train**2)), np.exp(-gamma * D.new**2)


def negative(D: Matrices, power: float) -> TrainAndNew:
    S, S_new = D.train**power, D.new**power
    means = S.mean(axis=0)
    K = -(S - means - means[:, None] + means.mean()) / 2
    K_new = -(S_new - means - S_new.mean(axis=1, keepdims=True) + means.mean()) / 2
    scale = np.trace(K) / len(K)
    return dk.project_psd(K / scale), K_new / scale


def embed_inductive(D: Matrices, n_components: int) -> TrainAndNew:
    """Return coordinates; new objects are projected."""
    embedding = dk.PseudoEuclideanEmbedding(min(n_components, len(D.train) // 4)).fit(D.train)
    return embedding.transform(D.train), embedding.transform(D.new)


def embed_transductive(D: Matrices, n_components: int) -> TrainAndNew:
    """Return coordinates of a space that is computed from training and new objects."""
    if D.among_new is None:
        raise ValueError("among_new must have the distances among new objects; got None.")
    n, all_distances = len(D.train), np.block([[D.train, D.new.T], [D.new, D.among_new]])
    rows = dk.PseudoEuclideanEmbedding(min(n_components, n // 4)).fit_transform(all_distances)
    return rows[:n], rows[n:]


def majority_labels(D: F64, y: np.ndarray, k: int) -> np.ndarray:
    """Return the majority label of the k nearest objects (columns) to each row, the smaller one in ties."""
    nearest_labels = y[np.argsort(D, axis=1, kind="stable")[:, :k]]
    return np.array([np.bincount(labels).argmax() for labels in nearest_labels])


def nearest_in_blocks(
    distance: Any, train: dk.SampleSets, y: np.ndarray, new: dk.SampleSets, split: Any
) -> tuple[np.ndarray, int]:
    """Return the labels of new objects by nearest neighbours, and k, without the matrix of all pairs."""
    rows, held_out = split
    D = dk.distance_matrix(train[held_out], train[rows], distance)
    k = max(NEIGHBOURS, key=lambda k: (majority_labels(D, y[rows], k) == y[held_out]).mean())
    blocks = [new[a : a + BLOCK_OBJECTS] for a in range(0, len(new), BLOCK_OBJECTS)]
    return np.concatenate(
        [majority_labels(dk.distance_matrix(block, train, distance), y, k) for block in blocks]
    ), k


def nearest(D: F64) -> list[Any]:
    return [KNeighborsClassifier(k, metric="precomputed") for k in NEIGHBOURS]


def support_vector_machines(K: F64) -> list[Any]:
    return [SVC(C=cost, kernel="precomputed") for cost in COSTS]


def linear_svm(rows: F64, y: np.ndarray, cost: float) -> LinearSVC:
    """Return a fitted SVM of LIBLINEAR; ``cost`` is C in units of 1 over the mean square length of rows."""
    unit = float((rows**2).sum(axis=1).mean())
    return LinearSVC(C=cost / unit, dual="auto", max_iter=5000, random_state=0).fit(rows, y)


def ridge(rows: F64) -> list[Any]:
    """Return ridge with penalties in units of the mean square of rows, selected by leave-one-out."""
    unit = float((rows**2).mean())
    return [dk.IncrementalRidgeClassifier([a * unit for a in ALPHAS], selection="leave-one-out")]


@dataclass(frozen=True)
class Rival:
    """Function of distances and a parameter, values of the parameter, and learners on its result."""

    make: Callable[[Matrices, Any], TrainAndNew]
    values: tuple[Any, ...]
    learners: Callable[[F64], list[Any]]


RIVALS = {
    "nearest neighbours": Rival(raw_distances, (None,), nearest),
    "DSK_RBF": Rival(radial, SPREADS, support_vector_machines),
    "DSK_ND": Rival(negative, POWERS, support_vector_machines),
    "GDK_LED, inductive": Rival(embed_inductive, COMPONENTS, ridge),
    "GDK_LED, transductive": Rival(embed_transductive, COMPONENTS, ridge),
}


def compare(
    names: Sequence[str],
    D: Matrices,
    y: np.ndarray,
    y_new: np.ndarray,
    rows: np.ndarray,
    held_out: np.ndarray,
) -> dict[str, Any]:
    """Return the accuracy of every method on new objects; parameters are selected on held-out training objects."""
    report, subset = {}, D.subset(rows, held_out)
    for name in names:
        rival, trials = RIVALS[name], []
        for i, value in enumerate(rival.values):
            train, new = rival.make(subset, value)
            for k, learner in enumerate(rival.learners(train)):
                trials.append((learner.fit(train, y[rows]).score(new, y[held_out]), -i, -k))
        score, i, k = max(trials)
        start = time.perf_counter()
        train, new = rival.make(D, rival.values[-i])
        learner = rival.learners(train)[-k].fit(train, y)
        seconds = time.perf_counter() - start
        report[name] = {
            "accuracy": float(learner.score(new, y_new)),
            "held_out": float(score),
            "train_seconds": seconds,
            "parameter": rival.values[-i],
            "learner": repr(learner) if rival.learners is not ridge else f"alpha {learner.alpha_:.3g}",
        }
    return report
