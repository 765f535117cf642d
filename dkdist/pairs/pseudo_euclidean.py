"""`PseudoEuclideanEmbedding`: coordinates from a matrix of distances, whatever the distance."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from dkdist.base.parameter_checks import real_matrix, require_symmetric, whole
from dkdist.loops.array_types import F64
from dkdist.pairs.pseudo_euclidean_space import placed, spectrum, towards
from dkdist.plain.validation import as_flag

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
        negative = as_flag("negative", self.negative)
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
