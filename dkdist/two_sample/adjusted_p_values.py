"""`adjusted_p_values`: corrections of p-values for multiple tests."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import false_discovery_control

from dkdist._base.parameter_checks import check_choice
from dkdist._numba.arrays import F64
from dkdist._utils.validation import as_real_array


def adjusted_p_values(p_values: ArrayLike, method: str = "holm") -> F64:
    """Correct p-values of multiple tests; reject hypotheses with corrected p-values up to the level.

    Parameters
    ----------
    p_values : (n,) array-like
        p-values of n tests, such as those of `two_sample_test` or `group_test`.
    method : {"holm", "benjamini-hochberg", "benjamini-yekutieli"}, default="holm"
        "holm" controls the probability of any false rejection, for any dependence between tests.
        "benjamini-hochberg" controls the expected fraction of false rejections of independent or positively dependent
        tests (Benjamini, Hochberg 1995), "benjamini-yekutieli" of any tests (Benjamini, Yekutieli 2001).

    Returns
    -------
    (n,) float64 ndarray
        In the order of the tests.

    Raises
    ------
    ValueError
        For an unknown method, and for values outside (0, 1].

    Notes
    -----
    The smallest of n p-values is multiplied by up to n, and no p-value of a permutation test is below
    1 / (1 + n_permutations). For a level of 0.05 use at least 20 n permutations in each of n tests.

    Examples
    --------
    >>> import dkdist as dk
    >>> dk.adjusted_p_values([0.01, 0.04, 0.03]), dk.adjusted_p_values([0.01, 0.04, 0.03], "benjamini-hochberg")
    (array([0.03, 0.06, 0.06]), array([0.03, 0.04, 0.04]))
    """
    check_choice("method", method, ("holm", "benjamini-hochberg", "benjamini-yekutieli"))
    p = as_real_array("p_values", p_values).astype(np.float64)
    if p.ndim != 1:
        raise ValueError(f"p_values must have shape (n,); got {p.shape}. Pass a flat list.")
    invalid = ~((p > 0) & (p <= 1))
    if invalid.any():
        i = int(np.argmax(invalid))
        raise ValueError(f"p_values must be above 0 and at most 1; got {p[i]} at position {i}.")
    if method != "holm":
        return np.asarray(false_discovery_control(p, method="bh" if method == "benjamini-hochberg" else "by"))
    order, adjusted = np.argsort(p, kind="stable"), np.empty(len(p))
    adjusted[order] = np.minimum(np.maximum.accumulate(np.arange(len(p), 0, -1) * p[order]), 1)
    return adjusted
