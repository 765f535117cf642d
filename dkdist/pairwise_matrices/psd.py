"""`project_psd`: matrices of estimated divergences made kernels that a kernel machine can take (Chen et al. 2009).

clip     lambda -> max(lambda, 0): the nearest positive semi-definite matrix in the Frobenius norm
flip     lambda -> |lambda|
shift    lambda -> lambda - min(lambda_min, 0): changes nothing but the diagonal
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import eigh, eigvalsh

from dkdist._base.parameter_checks import one_of, real_matrix, require_symmetric
from dkdist._numba.arrays import F64

ASYMMETRY = 1e-8  # of the largest entry: rounding
LARGEST = 1e150


def _shifted(gram: F64) -> F64:
    least = float(eigvalsh(gram, subset_by_index=[0, 0])[0])
    return np.asarray(gram - min(least, 0.0) * np.eye(len(gram)))


def _rebuilt(gram: F64, repair: Callable[[F64], F64]) -> F64:
    values, vectors = eigh(gram)
    if values[0] >= 0:
        return gram.copy()
    made = (vectors * repair(values)) @ vectors.T
    return np.asarray((made + made.T) / 2)


METHODS: Mapping[str, Callable[[F64], F64]] = {
    "clip": lambda gram: _rebuilt(gram, lambda values: np.maximum(values, 0)),
    "flip": lambda gram: _rebuilt(gram, np.abs),
    "shift": _shifted,
}


def project_psd(gram: ArrayLike, method: str = "clip") -> F64:
    """A symmetric matrix without its negative eigenvalues: what a kernel machine can take for a kernel.

    Kernels of estimated divergences are only nearly positive semi-definite.

    Parameters
    ----------
    gram : (N, N) array
        Symmetric, up to one part in 10^8 of its largest entry.
    method : {"clip", "flip", "shift"}, default="clip"
        "clip" sets negative eigenvalues to zero (the nearest such matrix), "flip" takes absolute values, "shift"
        subtracts the smallest one from all, which changes the diagonal only.

    Returns
    -------
    (N, N) float64 ndarray
        Exactly symmetric; eigenvalues non-negative up to rounding (1e-14 of the largest).

    Raises
    ------
    ValueError
        For an unknown method, and a matrix that is not square, not finite or not symmetric (with the asymmetry).

    Notes
    -----
    Cost O(N^3) time, some 3 N^2 numbers: about a second for N = 1,000.

    Rows of test sets need care. *Inductive*: fit on the projected matrix of the training sets and predict from the raw
    kernel values of test against training sets. Honest, and exact for "shift" (off the diagonal it changes nothing);
    for "clip" and "flip" training and test rows then are not of one kernel, which matters little where the negative
    eigenvalues are small. *Transductive*: project the matrix of training and test sets together and cut it. One
    kernel, but the test sets (never their labels) take part in training, so their scores are those of a task in
    which they are known beforehand, and a new set means everything again. `DivergenceEmbedding` has no such choice
    to make: its kernel is positive semi-definite.

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

    Inductively, with rows of test sets as they are:

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
    one_of("method", method, tuple(METHODS))
    given = real_matrix("gram", gram)
    if given.ndim != 2 or given.shape[0] != given.shape[1] or len(given) == 0:
        raise ValueError(
            f"gram must be a square matrix, found shape {given.shape}: rows of test sets are used as they are"
        )
    if not np.isfinite(given).all():
        i, j = np.argwhere(~np.isfinite(given))[0]
        raise ValueError(f"gram must be finite, found {given[i, j]} at ({i}, {j}): repair that pair of sets")
    if np.abs(given).max() > LARGEST:
        raise ValueError(
            f"gram has entries up to {np.abs(given).max():.3g}, more than {LARGEST:g}: divide it by a number"
        )
    require_symmetric(
        "gram", given, ASYMMETRY, "(gram + gram.T) / 2, or divergence_matrix(..., symmetric=True)"
    )
    return METHODS[method]((given + given.T) / 2)
