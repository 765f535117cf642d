"""Statistics of groups of rows, for the observed labels and for permutations within strata.

The kernel statistic measures differences between groups with a Gaussian kernel:

    T = sum over groups g of 1/n_g sum_{i, j in g} k(r_i, r_j),    k centred in each stratum

For two groups it is n_1 n_2 / n times the squared maximum mean discrepancy, up to a constant. Up to 2,048 rows the
kernel is exact; above, random features approximate it, at a cost linear in the number of rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from dkdist._base.random_streams import RngStream
from dkdist._base.sampling import median_distance
from dkdist._numba.arrays import F32, F64, I64
from dkdist.kernels._tuning import MAX_DENSE_INPUTS
from dkdist.kernels.random_fourier_params import FourierSpec
from dkdist.two_sample._tuning import (
    MAX_DENSE_ROWS,
    MIN_RELATIVE_NORM,
    N_KERNEL_FEATURES,
    PERMUTATION_BATCH_SIZE,
    ROW_TIE_TOL,
)

Statistic = Callable[[F64], F64]
"""Maps indicators of groups (n, b, G), divided by the root of each group's size, to statistics (b,) of labellings."""
Energy = Callable[[F64], F64]
"""Maps weights (n, k) to sums (k,) over i and j of weights[i] k(r_i, r_j) weights[j]."""


def permuted_statistics(
    statistics: Mapping[str, Statistic],
    basis: F64,
    strata: I64,
    n_permutations: int,
    seed: int,
    nuisance: F64 | None = None,
) -> dict[str, F64]:
    """Compute each statistic for ``basis`` (n, k) and for permutations of its rows: (1 + n_permutations,) float64.

    Permutations are the same for all statistics. With nuisance columns (n, q), permuted columns are made orthonormal in
    the space orthogonal to them; the statistics compare residuals, so that the projection itself is not needed.
    """
    values: dict[str, list[F64]] = {name: [] for name in statistics}
    for order in iter_labellings(np.arange(len(basis)), strata, n_permutations, seed):
        weights = basis[order] if nuisance is None else _orthonormalize(basis[order], nuisance)
        for name, statistic in statistics.items():
            values[name].append(statistic(weights))
    return {name: np.concatenate(parts) for name, parts in values.items()}


def kernel_statistic(rows: F32, strata: I64, seed: int, nuisance: F64 | None = None) -> Statistic:
    """Return the statistic T of a Gaussian kernel, whose bandwidth is the median distance between rows.

    With nuisance columns (n, q), rows and kernel are residuals.
    """
    if nuisance is not None:
        rows = residuals(rows, strata, nuisance)
    energy = _kernel_energy(rows, strata, seed, nuisance)

    def statistic(weights: F64) -> F64:
        n, n_labellings, n_groups = weights.shape
        return np.asarray(energy(weights.reshape(n, -1)).reshape(n_labellings, n_groups).sum(axis=1))

    return statistic


def _orthonormalize(weights: F64, nuisance: F64) -> F64:
    """Combine columns (n, b, r) so that their projections orthogonal to (n, q) orthonormal columns are orthonormal."""
    columns = weights.transpose(1, 0, 2)
    explained = nuisance.T @ columns
    gram = columns.transpose(0, 2, 1) @ columns - explained.transpose(0, 2, 1) @ explained
    eigenvalues, vectors = np.linalg.eigh(gram)
    is_free = eigenvalues > MIN_RELATIVE_NORM  # the others are explained by nuisance columns
    scale = np.where(is_free, 1 / np.sqrt(np.where(is_free, eigenvalues, 1.0)), 0.0)
    return np.ascontiguousarray((columns @ (vectors * scale[:, None, :])).transpose(1, 0, 2))


def iter_labellings(groups: I64, strata: I64, n_permutations: int, seed: int) -> Iterator[I64]:
    """Yield batches of labels (n, up to 64): those of ``groups`` first, then permutations of them within strata.

    ``groups`` may be positions 0, ..., n - 1, which are permuted.
    """
    rng = np.random.default_rng([seed, RngStream.GROUP_PERMUTATIONS])
    order, columns = np.argsort(strata, kind="stable"), [groups]
    for _ in range(n_permutations):
        labels = np.empty_like(groups)
        labels[order] = groups[np.lexsort((rng.random(len(groups)), strata))]
        columns.append(labels)
        if len(columns) == PERMUTATION_BATCH_SIZE:
            yield np.stack(columns, axis=1)
            columns = []
    if columns:
        yield np.stack(columns, axis=1)


def p_value(statistics: F64) -> float:
    """Return the fraction of labellings, including the first, with a statistic at least as large as the first."""
    return float((statistics >= statistics[0] - ROW_TIE_TOL).mean())


def _kernel_energy(rows: F32, strata: I64, seed: int, nuisance: F64 | None) -> Energy:
    sigma = _median_distance(rows, seed)
    if sigma == 0:
        return lambda weights: np.zeros(weights.shape[1])
    if len(rows) <= MAX_DENSE_ROWS:
        K = residuals(residuals(_gaussian_kernel(rows, sigma), strata, nuisance).T, strata, nuisance)
        return lambda weights: np.asarray((weights * (K @ weights)).sum(axis=0))
    method = "structured" if rows.shape[1] > MAX_DENSE_INPUTS else "orthogonal"
    spec = FourierSpec(rows.shape[1], N_KERNEL_FEATURES, sigma, method, seed)
    Z = np.concatenate(
        [
            spec.materialize().transform(rows[i : i + MAX_DENSE_ROWS])
            for i in range(0, len(rows), MAX_DENSE_ROWS)
        ]
    )
    Z = residuals(Z, strata, nuisance)
    return lambda weights: np.asarray(
        ((Z.T @ weights.astype(np.float32)).astype(np.float64) ** 2).sum(axis=0)
    )


def _median_distance(rows: F32, seed: int) -> float:
    """Return the median distance between rows, or between random rows of all groups."""
    if len(rows) > MAX_DENSE_ROWS // 2:
        rng = np.random.default_rng([seed, RngStream.MEDIANS])
        rows = rows[rng.choice(len(rows), MAX_DENSE_ROWS // 2, replace=False)]
    return median_distance(rows)


def _gaussian_kernel(rows: F32, sigma: float) -> F64:
    X = rows.astype(np.float64) / sigma
    X -= np.median(X, axis=0)
    squares = (X**2).sum(axis=1)
    distances = np.maximum(squares[:, None] + squares - 2 * X @ X.T, 0)
    return np.asarray(np.exp(-distances / 2))


def residuals(values: Any, strata: I64, nuisance: F64 | None) -> Any:
    """Subtract from values (n, k) the mean of each stratum, and their projection on orthonormal columns (n, q)."""
    centred = center_within_strata(values, strata)
    if nuisance is None:
        return centred
    return (centred - nuisance @ (nuisance.T @ centred)).astype(values.dtype)


def center_within_strata(values: Any, strata: I64) -> Any:
    """Subtract the mean of each stratum from its rows."""
    return (values - stratum_means(values, strata)[strata]).astype(values.dtype)


def stratum_means(values: Any, strata: I64) -> F64:
    """Return the mean row of each stratum, (n_strata, k) float64."""
    means = np.zeros((int(strata.max()) + 1, values.shape[1]))
    for stratum in range(len(means)):
        means[stratum] = values[strata == stratum].mean(axis=0, dtype=np.float64)
    return means
