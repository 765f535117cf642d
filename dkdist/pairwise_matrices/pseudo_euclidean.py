"""`PseudoEuclideanEmbedding`: coordinates from a matrix of distances, whatever the distance.

Coordinates from a matrix of distances, in a space whose squared lengths may be negative (Goldfarb 1985).

    B = -J S J / 2 = V Lambda V^T,   S_ij = d_ij^2,   J = I - 1 1^T / N
    x_ik = V_ik sqrt|lambda_k|,      d_ij^2 = sum_k sign(lambda_k) (x_ik - x_jk)^2

exact if all eigenvalues are kept. B holds the inner products about the centroid, so an object that is known by its
squared distances s to the N has

    b = -(s - mean_j s_j - mean_i S_i. + mean S) / 2,   x_k = sign(lambda_k) |lambda_k|^(-1/2) b V_k

(Pekalska, Paclik, Duin 2001), which is its row of V sqrt|Lambda| if it is one of the N.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import eigh
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from dkdist._base.parameter_checks import real_matrix, require_symmetric, whole
from dkdist._numba.arrays import F64
from dkdist._utils.validation import check_bool


def spectrum(D: F64) -> tuple[F64, F64, F64]:
    """Means of the columns of S, and all eigenvalues and vectors of B, by falling modulus."""
    S = D**2
    means = S.mean(axis=0)
    B = -(S - means - means[:, None] + means.mean()) / 2
    values, vectors = eigh(B)
    order = np.argsort(-np.abs(values), kind="stable")
    return means, values[order], vectors[:, order]


def towards(values: F64, vectors: F64) -> F64:
    """The map b -> x (N, m) of the eigenvalues that are kept; the largest entry of every eigenvector is positive."""
    largest = np.argmax(np.abs(vectors), axis=0)
    upright = vectors * np.sign(vectors[largest, np.arange(len(values))])
    return np.ascontiguousarray(upright * (np.sign(values) / np.sqrt(np.abs(values))))


def placed(D: F64, means: F64, components: F64) -> F64:
    """(n, m) coordinates of objects with distances D (n, N), from the means of the columns of S and the map b -> x."""
    out = np.empty((len(D), components.shape[1]))
    for row, made in zip(D, out, strict=True):  # one product a row: its bits do not depend on other rows
        s = row**2
        np.matmul(-(s - s.mean() - means + means.mean()) / 2, components, out=made)
    return out


ROUNDING = 1e-6  # of the largest eigenvalue: what distances in float32 leave uncertain
ASYMMETRY = 1e-6  # of the largest distance
LEAST, LARGEST = 1e-140, 1e140
DIAGONAL = 1e-3  # of the largest distance: roots of rounding errors


class PseudoEuclideanEmbedding(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Coordinates whose differences give back a matrix of distances: N^2 distances, then any linear learner.

    Squared distances are ``((x - y) ** 2) @ signature_``: components of negative eigenvalues, which only distances that
    are not Euclidean have, count with a minus sign. Learners that take the coordinates as they are work in
    the Euclidean space of the same coordinates.

    Parameters
    ----------
    n_components : int or None, default=None
        The number m of components, those with the largest eigenvalues in modulus. None keeps all above 1e-6 of the
        largest.
    negative : bool, default=True
        Whether components of negative eigenvalues may be kept. Without them this is classical scaling.

    Attributes
    ----------
    eigenvalues_ : (m,) float64 array
        By falling modulus.
    signature_ : (m,) float64 array of 1 and -1
        Their signs.
    n_features_in_ : int
        The number N of objects that distances are to be given to.

    Raises
    ------
    ValueError
        For a matrix that is not square, not finite, negative somewhere, not symmetric (to 1e-6 of its largest entry) or
        has a diagonal that is not zero (to 1e-3); if all objects are equal; for more components than there are.

    Notes
    -----
    ``fit`` takes O(N^3) time and some 4 N^2 numbers; ``transform`` N m operations a row. Rows are float64, and a row
    depends on that row of distances alone. New objects are projected (the inductive use); to embed training and test
    objects together, fit on the matrix of all of them (transductive: the test objects, never their labels, then
    take part in training). Cross-validation of scikit-learn cuts rows and columns of the matrix alike.

    References
    ----------
    Goldfarb: A new approach to pattern recognition (1985). Pekalska, Paclik, Duin: A generalized kernel approach to
    dissimilarity-based classification (2001), who place new objects.

    Examples
    --------
    >>> import numpy as np, dkdist as dk
    >>> words = ["GATTACA", "GATTACCA", "TTTTTTT", "TTTTTATT"]
    >>> D = dk.distance_matrix(words, distance="levenshtein")
    >>> embedding = dk.PseudoEuclideanEmbedding().fit(D)
    >>> x = embedding.transform(D)
    >>> bool(abs(((x[0] - x[2]) ** 2) @ embedding.signature_ - D[0, 2] ** 2) < 1e-9)
    True
    >>> new = dk.distance_matrix(["GATTACAT"], words, distance="levenshtein")
    >>> embedding.transform(new).shape
    (1, 3)
    """

    def __init__(self, n_components: int | None = None, negative: bool = True) -> None:
        self.n_components = n_components
        self.negative = negative

    def fit(self, X: ArrayLike, y: Any = None) -> PseudoEuclideanEmbedding:
        """Find the components of the (N, N) distances X. ``y`` is not used."""
        wanted = None if self.n_components is None else whole("n_components", self.n_components)
        negative = check_bool("negative", self.negative)
        D = _distances(X)
        if D.shape[0] != D.shape[1]:
            raise ValueError(
                f"fit expects the distances of N objects to each other, (N, N); found shape {D.shape}: distances of "
                "other objects to these are for transform"
            )
        _require_dissimilarities(D)
        D = (D + D.T) / 2
        np.fill_diagonal(D, 0)
        means, values, vectors = spectrum(D)
        kept = np.flatnonzero(np.abs(values) > ROUNDING * abs(values[0]))
        if not negative:
            kept = kept[values[kept] > 0]
        if len(kept) == 0:
            raise ValueError(
                f"all {len(D)} objects are at distance 0: found no component. Give objects that differ"
            )
        if wanted is not None and wanted > len(kept):
            raise ValueError(
                f"n_components={wanted}, but these distances have {len(kept)} components above rounding: ask for at "
                f"most {len(kept)}, or None for all"
            )
        kept = kept[:wanted]
        self.means_, self.eigenvalues_ = means, values[kept]
        self.components_, self.signature_ = towards(values[kept], vectors[:, kept]), np.sign(values[kept])
        self.n_features_in_ = len(means)
        return self

    def transform(self, X: ArrayLike) -> F64:
        """Coordinates of objects with distances X (M, N) to those of ``fit``: (M, m) float64."""
        check_is_fitted(self)
        D = _distances(X)
        if D.shape[1] != self.n_features_in_:
            raise ValueError(
                f"X has {D.shape[1]} features, but PseudoEuclideanEmbedding is expecting {self.n_features_in_} "
                "features as input: the distances to each of the objects of fit"
            )
        return placed(D, self.means_, self.components_)

    @property
    def _n_features_out(self) -> int:
        return len(self.eigenvalues_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = True
        tags.input_tags.positive_only = True
        return tags


def _distances(X: ArrayLike) -> F64:
    D = real_matrix("distances", X)
    if D.ndim != 2 or D.size == 0:
        raise ValueError(f"expected a matrix of distances, found shape {D.shape}: use distance_matrix")
    bad = ~(np.isfinite(D) & (D >= 0))
    if bad.any():
        i, j = np.argwhere(bad)[0]
        raise ValueError(
            f"distances must be finite and >= 0, found {D[i, j]} at ({i}, {j}): repair that pair of objects"
        )
    most = float(D.max())
    if most and not LEAST <= most <= LARGEST:
        raise ValueError(
            f"the largest distance is {most:.3g}, beyond {LEAST:g} to {LARGEST:g} whose squares add up: divide them by "
            "a number"
        )
    return D


def _require_dissimilarities(D: F64) -> None:
    require_symmetric("distances", D, ASYMMETRY, "(D + D.T) / 2")
    k = int(np.argmax(np.diag(D)))
    if D[k, k] > DIAGONAL * D.max():
        raise ValueError(
            f"the distance of an object to itself must be 0, found {D[k, k]:.6g} at ({k}, {k}): is this a kernel?"
        )
