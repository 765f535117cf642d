"""Units of a permutation test, exchangeable labels, and nuisance columns.

Blocks with several groups (pairs, visits before and after, batches) are strata: rows are centred and labels are
permuted within blocks. If every block has one group (donors with repeated visits), rows are averaged over each block,
and labels of blocks are permuted.

Adjusted tests compare residuals R = (I - Q Q^T) Y of rows Y on nuisance columns Q with group indicators. An orthonormal
basis A of the indicators, orthogonal to Q, is permuted, and B = (I - Q Q^T) P A made orthonormal:

    |B^T R|^2 is the part of |R|^2 that B explains in a regression of Y on nuisance columns and B.

This is double semi-partialling (Dekker, Krackhardt, Snijders: Sensitivity of MRQAP tests to collinearity and
autocorrelation conditions, 2007). For normal rows, the F statistic of each permutation has the same distribution, so
that the level holds in small studies whose groups depend on nuisance columns. Permuting R instead (Freedman, Lane 1983)
had a level of 0.035 at 0.05 with twelve pairs (python benchmarks/studies_groups.py, 4,000 trials, 2026-11).

A contrast c of more than two groups with means mu tests c^T mu = 0: Q then also spans the group means that satisfy it.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import null_space
from scipy.special import gammaln
from scipy.stats import kruskal

from dkdist._base.design_columns import StudyDesign, encode, encodings
from dkdist._numba.arrays import F64, I64
from dkdist._utils.validation import find_stacklevel
from dkdist.two_sample._tuning import MIN_LABELLINGS, MIN_RELATIVE_NORM
from dkdist.two_sample.permutations import center_within_strata, stratum_means


@dataclass(frozen=True)
class PermutationDesign:
    """Labels ``groups`` (m,) of units, which are permuted within ``exchangeable`` (m,); integers from 0.

    Rows are averaged over ``units`` (n,) of sets, if any, centred within ``strata`` (m,), and made orthogonal to
    ``nuisance`` (m, q). ``basis`` spans the groups: an indicator per group, divided by the root of its size; or
    orthonormal columns (m, r), orthogonal to ``nuisance``.
    """

    groups: I64
    strata: I64
    exchangeable: I64
    units: I64 | None
    nuisance: F64 | None
    basis: F64
    description: str

    @property
    def n_contrasts(self) -> int:
        """Degrees of freedom of the groups."""
        if self.nuisance is None:
            return int(self.groups.max())
        return int(self.basis.shape[1])

    def unit_rows(self, rows: Any) -> Any:
        """Return the mean row of each unit (m, k) from rows of sets (n, k)."""
        return rows if self.units is None else stratum_means(rows, self.units).astype(rows.dtype)


def design_permutations(
    groups: I64, blocks: I64 | None, adjust: StudyDesign, contrast: F64 | None = None
) -> PermutationDesign:
    """Return the design for labels and blocks (n,) of sets, adjusted variables, and weights of groups (G,)."""
    n, names = len(groups), adjust.adjusted
    variables = encodings(adjust, np.ones(n))
    columns = {one.name: encode([one], adjust) for one in variables}
    categories = [
        np.unique(adjust.columns[one.name], return_inverse=True)[1].astype(np.int64)
        for one in variables
        if one.categories is not None
    ]
    strata, units, description = np.zeros_like(groups), None, f"labels of {n} sets permuted"
    if blocks is not None and _labels_per_block(groups, blocks).max() == 1:
        first = np.unique(blocks, return_index=True)[1]
        categories = [c[first] for c in categories if _labels_per_block(c, blocks).max() == 1]
        columns = {name: stratum_means(Z, blocks) for name, Z in columns.items()}
        categories.append(np.bincount(blocks))
        units, groups, strata = blocks, groups[first], np.zeros_like(first)
        description = f"labels of {len(first)} whole blocks permuted"
    elif blocks is not None:
        strata, description = blocks, f"labels permuted within {blocks.max() + 1} blocks"
    require_arrangements(groups, strata, "blocks" if units is not None else "sets")
    basis, nuisance = (groups[:, None] == np.arange(groups.max() + 1)) / np.sqrt(np.bincount(groups)), None
    # the only contrast of two groups is their difference, which needs no nuisance columns
    if names or (contrast is not None and len(contrast) > 2):
        basis, Q = _adjusted_basis(groups, columns, strata, contrast)
        nuisance = Q if Q.shape[1] else None
    if names:
        description += f", adjusted for {', '.join(names)}"
    exchangeable = strata
    for labels in categories:
        finer = np.unique(np.stack([exchangeable, labels]), axis=1, return_inverse=True)[1].ravel()
        if _log_n_labellings(groups, finer) >= np.log(MIN_LABELLINGS):
            exchangeable = finer.astype(np.int64)
        elif units is not None and labels is categories[-1]:
            _warn_unequal_sizes(groups, labels)
    return PermutationDesign(groups, strata, exchangeable, units, nuisance, basis, description)


def require_arrangements(groups: I64, strata: I64, unit: str = "sets") -> None:
    """Raise ValueError for a single group, groups of one unit, and strata without two different labels."""
    sizes = np.bincount(groups)
    if len(sizes) < 2:
        raise ValueError(
            "groups must contain at least 2 distinct labels; got a single label. Check the labels."
        )
    if sizes.min() < 2:
        i = int(np.flatnonzero(groups == np.argmin(sizes))[0])
        raise ValueError(
            f"groups must have at least 2 {unit} each; got only {unit[:-1]} {i} in its group. Drop the {unit[:-1]}, or "
            "merge groups."
        )
    if _labels_per_block(groups, strata).max() < 2:
        raise ValueError(
            "blocks must have sets of at least 2 groups in some stratum; got one group in every stratum, so that "
            "permutations change nothing. Use larger strata."
        )


def _adjusted_basis(
    groups: I64, columns: Mapping[str, F64], strata: I64, contrast: F64 | None
) -> tuple[F64, F64]:
    """Return orthonormal bases of the groups (m, r) and of the nuisance columns (m, q), orthogonal to each other."""
    indicators = (groups[:, None] == np.arange(groups.max() + 1)).astype(np.float64)
    centred = center_within_strata(indicators / np.sqrt(indicators.sum(axis=0)), strata)
    others = indicators[:, :0] if contrast is None else indicators @ null_space(contrast[None])

    def bases(names: Sequence[str]) -> tuple[F64, F64]:
        Z = np.hstack([others, *(columns[name] for name in names)])
        Q = _orthonormal(center_within_strata(Z, strata))
        return _orthonormal(centred - Q @ (Q.T @ centred)), Q

    n_contrasts = bases([])[0].shape[1]
    if n_contrasts == 0:
        raise ValueError(
            "contrast must compare groups within blocks; got groups without common blocks. Use larger blocks."
        )
    A, Q = bases(list(columns))
    if A.shape[1] < n_contrasts:
        confounded = [name for name in columns if bases([name])[0].shape[1] < n_contrasts] or list(columns)
        raise ValueError(
            f"adjust must not determine the groups; got {', '.join(map(repr, confounded))}, which some groups follow "
            "exactly, so that no test can separate them. Omit the column, or compare groups that overlap in it."
        )
    n_residual = len(strata) - len(np.unique(strata)) - Q.shape[1] - A.shape[1]
    if n_residual < 1:
        name, remedy = (
            ("adjust", "Omit columns with many categories") if columns else ("blocks", "Use larger blocks")
        )
        raise ValueError(
            f"{name} must leave degrees of freedom; got {Q.shape[1]} nuisance columns for {len(strata)} units. "
            f"{remedy}."
        )
    return A, Q


def _warn_unequal_sizes(groups: I64, sizes: I64) -> None:
    """Warn if numbers of sets per block differ significantly between groups."""
    if sizes.min() < sizes.max() and kruskal(*(sizes[groups == g] for g in np.unique(groups))).pvalue < 0.01:
        means = ", ".join(f"{sizes[groups == g].mean():.1f}" for g in np.unique(groups))
        warnings.warn(
            f"groups have different numbers of sets per block, {means} on average, so that means of blocks differ in "
            "their noise, which may make the p-value too small. Select equally many sets of each block.",
            UserWarning,
            stacklevel=find_stacklevel(),
        )


def _orthonormal(columns: F64) -> F64:
    """Return an orthonormal basis of columns (m, k), whose entries are of order 1 before centring."""
    U, s, _ = np.linalg.svd(columns, full_matrices=False)
    return np.asarray(U[:, s > MIN_RELATIVE_NORM])


def _labels_per_block(labels: I64, blocks: I64) -> I64:
    pairs = np.unique(np.stack([blocks, labels]), axis=1)
    return np.asarray(np.bincount(pairs[0]))


def _log_n_labellings(groups: I64, strata: I64) -> float:
    """Return the logarithm of the number of distinct labellings by permutations within strata."""
    counts = np.zeros((strata.max() + 1, groups.max() + 1))
    np.add.at(counts, (strata, groups), 1)
    return float(gammaln(counts.sum(axis=1) + 1).sum() - gammaln(counts + 1).sum())
