"""`adjusted_p_values`: many tests at once."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import false_discovery_control

from dkdist.base.parameter_checks import one_of
from dkdist.loops.array_types import F64
from dkdist.plain.real_arrays import real_array


def adjusted_p_values(p_values: ArrayLike, method: str = "holm") -> F64:
    """p-values of many tests, each as large as the level at which it would be rejected together with the others.

    Parameters
    ----------
    p_values : (n,) array-like
        p-values of n tests, such as those of `two_sample_test` or `group_test`.
    method : {"holm", "benjamini-hochberg", "benjamini-yekutieli"}, default="holm"
        What is kept below the level a by taking those of at most a. "holm": the probability of any false one, however
        the tests depend on each other. "benjamini-hochberg": the share of false ones among those taken, in the mean, of
        tests that are independent or positively dependent; "benjamini-yekutieli": the same of any tests.

    Returns
    -------
    (n,) float64 ndarray
        In the order of the tests.

    Raises
    ------
    ValueError
        For another method, and for values that are no probabilities (a p-value is above 0).

    Notes
    -----
    A permutation test has no p-value below 1 / (1 + n_permutations), and the least of n is multiplied by up to n: give
    each of n tests at least 20 n permutations, or a level of .05 is beyond the reach of one that stands alone.

    References
    ----------
    Holm: A simple sequentially rejective multiple test procedure (1979). Benjamini, Hochberg: Controlling the false
    discovery rate (1995). Benjamini, Yekutieli (2001).

    Examples
    --------
    >>> import dkdist as dk
    >>> dk.adjusted_p_values([0.01, 0.04, 0.03]), dk.adjusted_p_values([0.01, 0.04, 0.03], "benjamini-hochberg")
    (array([0.03, 0.06, 0.06]), array([0.03, 0.04, 0.04]))
    """
    one_of("method", method, ("holm", "benjamini-hochberg", "benjamini-yekutieli"))
    p = real_array("p_values", p_values).astype(np.float64)
    if p.ndim != 1:
        raise ValueError(
            f"p_values must be one number for each test; found shape {p.shape}: give a flat list"
        )
    bad = ~((p > 0) & (p <= 1))
    if bad.any():
        i = int(np.argmax(bad))
        raise ValueError(f"p-value {i} is {p[i]}: every one must be a number above 0 and at most 1")
    if method != "holm":
        return np.asarray(false_discovery_control(p, method="bh" if method == "benjamini-hochberg" else "by"))
    order, adjusted = np.argsort(p, kind="stable"), np.empty(len(p))
    left = np.arange(len(p), 0, -1)
    adjusted[order] = np.minimum(np.maximum.accumulate(left * p[order]), 1)
    return adjusted
