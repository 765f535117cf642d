"""`PseudoEuclideanEmbedding`: coordinates from any matrix of distances (Goldfarb 1985).

    B = -J S J / 2 = V Lambda V^T,   S_ij = d_ij^2,   J = I - 1 1^T / N
    x_ik = V_ik sqrt|lambda_k|,      d_ij^2 = sum_k sign(lambda_k) (x_ik - x_jk)^2

The second formula is exact with all eigenvalues. Squared lengths may be negative. B contains the inner products of
centred points. A new object with squared distances s to the N objects has

    b = -(s - mean_j s_j - mean_i S_i. + mean S) / 2,   x_k = sign(lambda_k) |lambda_k|^(-1/2) b V_k

(Pekalska, Paclik, Duin 2001), which is its row of V sqrt|Lambda| if it is one of the N objects.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import eigh
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from dkdist._base.parameter_checks import check_int, check_real_array, require_symmetric
from dkdist._numba.arrays import F64
from dkdist._utils.validation import check_bool
from dkdist.pairwise_matrices._tuning import DIAGONAL_TOL, DISTANCE_SYMMETRY_TOL, EIGENVALUE_TOL


def eigendecompose(D: F64) -> tuple[F64, F64, F64]:
    """Return the column means of S, and eigenvalues and eigenvectors of B by decreasing absolute eigenvalue."""
    S = D**2
    means = S.mean(axis=0)
    B = -(S - means - means[:, None] + means.mean()) / 2
    values, vectors = eigh(B)
    order = np.argsort(-np.abs(values), kind="stable")
    return means, values[order], vectors[:, order]


def projection_matrix(values: F64, vectors: F64) -> F64:
    """Return the matrix (N, m) that maps b to x, with positive largest entries of the eigenvectors."""
    largest = np.argmax(np.abs(vectors), axis=0)
    signed = vectors * np.sign(vectors[largest, np.arange(len(values))])
    return np.ascontiguousarray(signed * (np.sign(values) / np.sqrt(np.abs(values))))


def project(D: F64, means: F64, components: F64) -> F64:
    """Return coordinates (n, m) of objects with distances D (n, N)."""
    out = np.empty((len(D), components.shape[1]))
    # One product per row: results are bitwise independent of other rows.
    for row, x in zip(D, out, strict=True):
        s = row**2
        np.matmul(-(s - s.mean() - means + means.mean()) / 2, components, out=x)
    return out


# Limits for which sums of squares are normal float64 numbers, 2.2e-308 to 1.8e308 (IEEE 754-2019).
MIN_DISTANCE, MAX_DISTANCE = 1e-140, 1e140


class PseudoEuclideanEmbedding(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Embedding of objects whose coordinate differences reproduce a matrix of distances.

    Squared distances are ``((x - y) ** 2) @ signature_``. Components with negative eigenvalues, which occur only for
    non-Euclidean distances, have a negative sign. Learners that ignore the signature use Euclidean distances of the
    same coordinates. The embedding requires N^2 distances.

    Parameters
    ----------
    n_components : int or None, default=None
        Number m of components, by decreasing absolute eigenvalue. None: all above 1e-6 of the largest.
    negative : bool, default=True
        Whether to keep components with negative eigenvalues. False gives classical multidimensional scaling.

    Attributes
    ----------
    eigenvalues_ : (m,) float64 array
        Eigenvalues, sorted by decreasing absolute value.
    signature_ : (m,) float64 array of 1 and -1
        Signs of the eigenvalues.
    n_features_in_ : int
        Number N of objects in `fit`; `transform` requires distances to these objects.

    Raises
    ------
    ValueError
        If the matrix is not square, not finite, negative, not symmetric (to 1e-6 of its largest entry), or has a
        nonzero diagonal (above 1e-3 of its largest entry); if all objects are equal; for more components than
        eigenvalues.

    Notes
    -----
    ``fit`` takes O(N^3) time and about 32 N^2 bytes; ``transform`` takes N m operations per row. Rows are float64, and
    a row depends only on its row of distances. New objects are projected (inductive use). To embed training and test
    objects together, fit on the matrix of all objects (transductive use: test objects, but not their labels, influence
    training). Cross-validation in scikit-learn splits rows and columns of the matrix consistently.

    References
    ----------
    Goldfarb: A new approach to pattern recognition (1985). Pekalska, Paclik, Duin: A generalized kernel approach to
    dissimilarity-based classification (2001), for new objects.

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
        """Compute the components of the (N, N) distances X. ``y`` is not used."""
        n_components = None if self.n_components is None else check_int("n_components", self.n_components)
        negative = check_bool("negative", self.negative)
        D = _check_distances(X)
        if D.shape[0] != D.shape[1]:
            raise ValueError(
                f"X must be a square matrix of distances, (N, N); got shape {D.shape}. Pass distances between new and "
                "fitted objects to transform()."
            )
        _require_dissimilarities(D)
        D = (D + D.T) / 2
        np.fill_diagonal(D, 0)
        means, values, vectors = eigendecompose(D)
        kept = np.flatnonzero(np.abs(values) > EIGENVALUE_TOL * abs(values[0]))
        if not negative:
            kept = kept[values[kept] > 0]
        if len(kept) == 0:
            raise ValueError(f"X must have positive distances; got distance 0 for all {len(D)} objects.")
        if n_components is not None and n_components > len(kept):
            raise ValueError(
                f"n_components must be at most {len(kept)}, the number of components above rounding; got "
                f"{n_components}. Use None for all."
            )
        kept = kept[:n_components]
        self.means_, self.eigenvalues_ = means, values[kept]
        self.components_, self.signature_ = (
            projection_matrix(values[kept], vectors[:, kept]),
            np.sign(values[kept]),
        )
        self.n_features_in_ = len(means)
        return self

    def transform(self, X: ArrayLike) -> F64:
        """Return coordinates (M, m) float64 of objects with distances X (M, N) to the objects of ``fit``."""
        check_is_fitted(self)
        D = _check_distances(X)
        if D.shape[1] != self.n_features_in_:
            raise ValueError(
                f"X has {D.shape[1]} features, but PseudoEuclideanEmbedding is expecting {self.n_features_in_} "
                "features as input, the distances to the objects of fit"
            )
        return project(D, self.means_, self.components_)

    @property
    def _n_features_out(self) -> int:
        return len(self.eigenvalues_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = True
        tags.input_tags.positive_only = True
        return tags


def _check_distances(X: ArrayLike) -> F64:
    D = check_real_array("distances", X)
    if D.ndim != 2 or D.size == 0:
        raise ValueError(f"distances must be a nonempty matrix; got shape {D.shape}. Use distance_matrix.")
    is_invalid = ~(np.isfinite(D) & (D >= 0))
    if is_invalid.any():
        i, j = np.argwhere(is_invalid)[0]
        raise ValueError(
            f"distances must be finite and >= 0; got {D[i, j]} at ({i}, {j}). Check that pair of objects."
        )
    largest = float(D.max())
    if largest and not MIN_DISTANCE <= largest <= MAX_DISTANCE:
        raise ValueError(
            f"the largest distance must be from {MIN_DISTANCE:g} to {MAX_DISTANCE:g}; got {largest:.3g}. Rescale the "
            "distances."
        )
    return D


def _require_dissimilarities(D: F64) -> None:
    require_symmetric("distances", D, DISTANCE_SYMMETRY_TOL, "(D + D.T) / 2")
    k = int(np.argmax(np.diag(D)))
    if D[k, k] > DIAGONAL_TOL * D.max():
        raise ValueError(
            f"distances must be 0 on the diagonal; got {D[k, k]:.6g} at ({k}, {k}). Check that this is not a kernel."
        )
