"""What the distance embedding is compared with: learners that need the distances of all pairs of objects.

Every rival is tried with each of its parameters on the same quarter of the training objects as the embedding, without
the test objects; only "transductive" looks at their distances (never their labels), as the paper's own comparison did.

nearest neighbours       the label of most of the k nearest training objects
DSK_RBF                  exp(-gamma d^2) (Haasdonk, Bahlmann 2004), negative eigenvalues set to zero, SVM
DSK_ND                   -d^beta, centred, as the inner products of a space (Haasdonk, Bahlmann 2004), SVM
GDK_LED                  pseudo-Euclidean coordinates of the matrix of distances (Pekalska, Duin 2001), ridge

The kernel between test and training objects is taken as it is (see `dkdist.project_psd`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import SVC

import dkdist as dk

F64 = np.ndarray
Fitted = tuple[F64, F64]  # what a learner is trained on, and what it predicts from
NEIGHBOURS, COSTS, POWERS, SPREADS = (1, 3, 5, 9), (1.0, 10.0, 100.0), (1.0, 2.0), (0.25, 1.0, 4.0)
COMPONENTS = (64, 256)
ALPHAS = tuple(10.0 ** (k / 2) for k in range(-6, 11))


@dataclass(frozen=True)
class Matrices:
    """Distances of training objects to each other (N, N), of new ones to them (M, N) and, if given, among new ones."""

    train: F64
    new: F64
    among_new: F64 | None = None

    def part(self, rows: np.ndarray, held_out: np.ndarray) -> Matrices:
        """The same of some training objects, others of them as the new ones."""
        among = None if self.among_new is None else self.train[np.ix_(held_out, held_out)]
        return Matrices(self.train[np.ix_(rows, rows)], self.train[np.ix_(held_out, rows)], among)


def as_they_are(D: Matrices, _: None) -> Fitted:
    return D.train, D.new


def radial(D: Matrices, spread: float) -> Fitted:
    """``spread`` is gamma in units of one over the squared median distance."""
    gamma = spread / np.median(D.train[D.train > 0]) ** 2
    return dk.project_psd(np.exp(-gamma * D.train**2)), np.exp(-gamma * D.new**2)


def negative(D: Matrices, power: float) -> Fitted:
    S, S_new = D.train**power, D.new**power
    means = S.mean(axis=0)
    K = -(S - means - means[:, None] + means.mean()) / 2
    K_new = -(S_new - means - S_new.mean(axis=1, keepdims=True) + means.mean()) / 2
    scale = np.trace(K) / len(K)
    return dk.project_psd(K / scale), K_new / scale


def embedded(D: Matrices, n_components: int) -> Fitted:
    """Inductive: new objects are projected."""
    embedding = dk.PseudoEuclideanEmbedding(min(n_components, len(D.train) // 4)).fit(D.train)
    return embedding.transform(D.train), embedding.transform(D.new)


def embedded_together(D: Matrices, n_components: int) -> Fitted:
    """Transductive: new objects take part in finding the space."""
    if D.among_new is None:
        raise ValueError(
            "expected the distances of the new objects to each other, found none: give among_new"
        )
    n, both = len(D.train), np.block([[D.train, D.new.T], [D.new, D.among_new]])
    rows = dk.PseudoEuclideanEmbedding(min(n_components, n // 4)).fit_transform(both)
    return rows[:n], rows[n:]


def nearest(D: F64) -> list[Any]:
    return [KNeighborsClassifier(k, metric="precomputed") for k in NEIGHBOURS]


def machines(K: F64) -> list[Any]:
    return [SVC(C=cost, kernel="precomputed") for cost in COSTS]


def ridge(rows: F64) -> list[Any]:
    """Penalties in units of the rows' mean square; chosen by leaving out one object at a time."""
    unit = float((rows**2).mean())
    return [dk.IncrementalRidgeClassifier([a * unit for a in ALPHAS], selection="leave-one-out")]


@dataclass(frozen=True)
class Rival:
    """Arrays made of the distances and a parameter, its values, and the learners that are tried on the arrays."""

    make: Callable[[Matrices, Any], Fitted]
    values: tuple[Any, ...]
    learners: Callable[[F64], list[Any]]


RIVALS = {
    "nearest neighbours": Rival(as_they_are, (None,), nearest),
    "DSK_RBF": Rival(radial, SPREADS, machines),
    "DSK_ND": Rival(negative, POWERS, machines),
    "GDK_LED, inductive": Rival(embedded, COMPONENTS, ridge),
    "GDK_LED, transductive": Rival(embedded_together, COMPONENTS, ridge),
}


def compare(
    names: Sequence[str],
    D: Matrices,
    y: np.ndarray,
    y_new: np.ndarray,
    rows: np.ndarray,
    held_out: np.ndarray,
) -> dict[str, Any]:
    """Accuracy on new objects of every rival, its parameters chosen on the held-out training objects."""
    report, part = {}, D.part(rows, held_out)
    for name in names:
        rival, tried = RIVALS[name], []
        for i, value in enumerate(rival.values):
            train, new = rival.make(part, value)
            for k, learner in enumerate(rival.learners(train)):
                tried.append((learner.fit(train, y[rows]).score(new, y[held_out]), -i, -k))
        score, i, k = max(tried)
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
