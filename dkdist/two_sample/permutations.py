"""Statistics of groups of rows, for the labels as they are and for permutations of them within strata.

How far groups lie apart under a Gaussian kernel:

    T = sum over groups g of 1/n_g sum_{i, j in g} k(r_i, r_j),    k about the means of the strata

which is n_1 n_2 / n times the squared maximum mean discrepancy of two groups, but for a constant. Up to 2,048 rows the
kernel is exact; beyond, random features stand for it, at a cost linear in rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from dkdist._base.random_streams import RngStream
from dkdist._base.sampling import median_distance
from dkdist._numba.arrays import F32, F64, I64
from dkdist.kernels.random_fourier_features import MAX_DENSE_INPUTS, FourierSpec

MOST_EXACT = 2048  # rows: 32 MiB of kernel values
N_FEATURES = 1024  # of the kernel beyond
AT_ONCE = 64  # permutations
TIE_TOL = 1e-6  # combined statistics that differ by less are equal

Statistic = Callable[[F64], F64]
"""Indicators of groups (n, b, G), divided by the root of each group's size, to a statistic of each labelling (b,)."""
Energy = Callable[[F64], F64]
"""Shares (n, k) to sums over rows and columns of shares[i] k(r_i, r_j) shares[j]: (k,)."""


def permuted_statistics(
    statistics: Mapping[str, Statistic], groups: I64, strata: I64, n_permutations: int, seed: int
) -> dict[str, F64]:
    """Each statistic of the labels, then of the same permutations of them: (1 + n_permutations,) float64."""
    roots = np.sqrt(np.bincount(groups))
    values: dict[str, list[F64]] = {name: [] for name in statistics}
    for labels in permuted(groups, strata, n_permutations, seed):
        shares = (labels[:, :, None] == np.arange(len(roots))) / roots
        for name, statistic in statistics.items():
            values[name].append(statistic(shares))
    return {name: np.concatenate(parts) for name, parts in values.items()}


def kernel_statistic(rows: F32, strata: I64, seed: int) -> Statistic:
    """T by a Gaussian kernel of the median distance between rows."""
    energy = _energy(rows, strata, seed)

    def statistic(shares: F64) -> F64:
        n, n_labellings, n_groups = shares.shape
        return np.asarray(energy(shares.reshape(n, -1)).reshape(n_labellings, n_groups).sum(axis=1))

    return statistic


def permuted(groups: I64, strata: I64, n_permutations: int, seed: int) -> Iterator[I64]:
    """Labels (n, up to 64): first those of ``groups``, then permutations of them within strata, from the seed."""
    rng = np.random.default_rng([seed, RngStream.GROUP_PERMUTATIONS])
    places, columns = np.argsort(strata, kind="stable"), [groups]
    for _ in range(n_permutations):
        labels = np.empty_like(groups)
        labels[places] = groups[np.lexsort((rng.random(len(groups)), strata))]
        columns.append(labels)
        if len(columns) == AT_ONCE:
            yield np.stack(columns, axis=1)
            columns = []
    if columns:
        yield np.stack(columns, axis=1)


def p_value(statistics: F64) -> float:
    """(1 + number of permutations with a statistic as large as the first) / (1 + number of permutations)."""
    return float((statistics >= statistics[0] - TIE_TOL).mean())


def _energy(rows: F32, strata: I64, seed: int) -> Energy:
    sigma = _median(rows, seed)
    if sigma == 0:
        return lambda shares: np.zeros(shares.shape[1])
    if len(rows) <= MOST_EXACT:
        K = within_strata(within_strata(_gaussian(rows, sigma), strata).T, strata)
        return lambda shares: np.asarray((shares * (K @ shares)).sum(axis=0))
    method = "structured" if rows.shape[1] > MAX_DENSE_INPUTS else "orthogonal"
    spec = FourierSpec(rows.shape[1], N_FEATURES, sigma, method, seed)
    Z = np.concatenate(
        [spec.materialize().transform(rows[i : i + MOST_EXACT]) for i in range(0, len(rows), MOST_EXACT)]
    )
    Z = within_strata(Z, strata)
    return lambda shares: np.asarray(((Z.T @ shares.astype(np.float32)).astype(np.float64) ** 2).sum(axis=0))


def _median(rows: F32, seed: int) -> float:
    """The median distance between rows, of some drawn from all of them: whose they are is not known."""
    if len(rows) > MOST_EXACT // 2:
        rng = np.random.default_rng([seed, RngStream.MEDIANS])
        rows = rows[rng.choice(len(rows), MOST_EXACT // 2, replace=False)]
    return median_distance(rows)


def _gaussian(rows: F32, sigma: float) -> F64:
    X = rows.astype(np.float64) / sigma
    X -= np.median(X, axis=0)
    squares = (X**2).sum(axis=1)
    distances = np.maximum(squares[:, None] + squares - 2 * X @ X.T, 0)
    return np.asarray(np.exp(-distances / 2))


def within_strata(values: Any, strata: I64) -> Any:
    """Rows of ``values`` from the mean of those of their stratum."""
    means = np.zeros((int(strata.max()) + 1, values.shape[1]))
    for stratum in range(len(means)):
        means[stratum] = values[strata == stratum].mean(axis=0, dtype=np.float64)
    return (values - means[strata]).astype(values.dtype)
