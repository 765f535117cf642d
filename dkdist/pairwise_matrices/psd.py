"""`project_psd`: projection of symmetric matrices to positive semi-definite kernels (Chen et al. 2009).

clip     lambda -> max(lambda, 0): the nearest positive semi-definite matrix in the Frobenius norm
flip     lambda -> |lambda|
shift    lambda -> lambda - min(lambda_min, 0): changes only the diagonal
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import eigh, eigvalsh

from dkdist._base.parameter_checks import check_choice, check_real_array, require_symmetric
from dkdist._numba.arrays import F64
from dkdist.pairwise_matrices._tuning import KERNEL_SYMMETRY_TOL

MAX_ENTRY = 1e150  # keeps squares below 1.8e308, the largest float64 (IEEE 754-2019)


def _shift(gram: F64) -> F64:
    smallest = float(eigvalsh(gram, subset_by_index=[0, 0])[0])
    return np.asarray(gram - min(smallest, 0.0) * np.eye(len(gram)))


def _rebuild(gram: F64, repair: Callable[[F64], F64]) -> F64:
    values, vectors = eigh(gram)
    if values[0] >= 0:
        return gram.copy()
    projected = (vectors * repair(values)) @ vectors.T
    return np.asarray((projected + projected.T) / 2)


METHODS: Mapping[str, Callable[[F64], F64]] = {
    "clip": lambda gram: _rebuild(gram, lambda values: np.maximum(values, 0)),
    "flip": lambda gram: _rebuild(gram, np.abs),
    "shift": _shift,
}


def project_psd(gram: ArrayLike, method: str = "clip") -> F64:
    """Return a positive semi-definite matrix without the negative eigenvalues of a symmetric matrix.

    Kernel machines require positive semi-definite kernels; kernels of estimated divergences may have small negative
    eigenvalues.

    Parameters
    ----------
    gram : (N, N) array
        Symmetric to 1e-8 of its largest entry.
    method : {"clip", "flip", "shift"}, default="clip"
        "clip" sets negative eigenvalues to zero (the nearest positive semi-definite matrix), "flip" takes absolute
        values, "shift" subtracts the smallest eigenvalue from all, which changes only the diagonal.

    Returns
    -------
    (N, N) float64 ndarray
        Exactly symmetric; eigenvalues non-negative up to rounding (1e-14 of the largest).

    Raises
    ------
    ValueError
        For an unknown method, or a matrix that is not square, not finite or not symmetric.

    Notes
    -----
    Cost: O(N^3) time and about 24 N^2 bytes; about a second for N = 1,000.

    *Inductive* use: fit on the projected matrix of the training sets and predict from the raw kernel values of test
    against training sets. This is exact for "shift", which changes only the diagonal. With "clip" and "flip" training
    and test rows belong to slightly different kernels; the effect is small if the negative eigenvalues are small.
    *Transductive* use: project the matrix of training and test sets together and split it. Both then belong to one
    kernel, but test sets (not their labels) influence training, scores are valid only for tasks with known test sets,
    and a new set requires another projection. The kernel of `DivergenceEmbedding` is positive semi-definite and needs
    no projection.

    References
    ----------
    Chen, Garcia, Gupta, Rahimi, Cazzanti: Similarity-based classification (2009).

    Examples
    --------
    >>> import numpy as np, dkdist as dk
    >>> dk.project_psd([[1.0, 2.0], [2.0, 1.0]])
    array([[1.5, 1.5],
           [1.5, 1.5]])
    >>> dk.project_psd([[1.0, 2.0], [2.0, 1.0]], method="shift")
    array([[2., 2.],
           [2., 2.]])

    Inductive use, with raw rows of test sets:

    >>> from sklearn.svm import SVC
    >>> rng = np.random.default_rng(0)
    >>> y = np.arange(40) % 2
    >>> sets = dk.SampleSets.from_arrays([rng.normal(0, 1 + label, (60, 2)) for label in y])
    >>> train, test = sets[:30], sets[30:]
    >>> kernel = lambda D: np.exp(-D / 0.2)  # sigma^2 = 0.1
    >>> K = dk.project_psd(kernel(dk.divergence_matrix(train)))
    >>> model = SVC(kernel="precomputed").fit(K, y[:30])
    >>> float(model.score(kernel(dk.divergence_matrix(test, other=train)), y[30:]))
    1.0
    """
    check_choice("method", method, tuple(METHODS))
    K = check_real_array("gram", gram)
    if K.ndim != 2 or K.shape[0] != K.shape[1] or len(K) == 0:
        raise ValueError(
            f"gram must be a nonempty square matrix; got shape {K.shape}. Use rows of test sets without projection."
        )
    if not np.isfinite(K).all():
        i, j = np.argwhere(~np.isfinite(K))[0]
        raise ValueError(f"gram must be finite; got {K[i, j]} at ({i}, {j}). Check that pair of sets.")
    if np.abs(K).max() > MAX_ENTRY:
        raise ValueError(
            f"gram must have entries up to {MAX_ENTRY:g}; got {np.abs(K).max():.3g}. Rescale the matrix."
        )
    require_symmetric(
        "gram", K, KERNEL_SYMMETRY_TOL, "(gram + gram.T) / 2, or divergence_matrix(..., symmetric=True)"
    )
    return METHODS[method]((K + K.T) / 2)
