"""Conformal quantiles: how wrong predictions of rows that were held out have been, and how wrong the next one may be.

If the scores s_1, .., s_n of held-out rows and that of the next one are exchangeable,

    P(s <= the k-th smallest of s_1, .., s_n) >= coverage,    k = ceil((n + 1) coverage),

and at most 1 / (n + 1) more if no two are equal. With fewer rows than coverage / (1 - coverage) nothing finite is
enough. (Vovk, Gammerman, Shafer 2005; Lei et al. 2018, theorem 2.)

Rows of one group (a patient) are not exchangeable with those of another, but groups are. For the next row of a new
group each of G groups counts the same, however many rows it has, and the mass 1 / (G + 1) is the new group's:

    P(s <= q) >= coverage,   q the smallest with  1/(G + 1) sum_g (share of s in group g that are <= q)  >= coverage

so that with fewer than coverage / (1 - coverage) groups nothing finite is enough. (Dunn, Wasserman, Ramdas 2022,
Distribution-free prediction sets for two-layer hierarchical models; Lee, Barber, Willett 2023.)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from dkdist.loops.array_types import F64
from dkdist.plain.kept import kept
from dkdist.plain.real_arrays import real_array

MOST_KEPT = 10_000  # scores: a ten-thousandth of the coverage
ROUNDING = 1e-9  # of a rank


@kept
@dataclass(frozen=True)
class ConformalScores:
    """Sorted scores of held-out rows at even ranks, of ``n_rows`` rows or of as many groups of equal weight."""

    n_rows: int
    values: tuple[float, ...]

    def check_loaded(self) -> None:
        """Raise ValueError unless there are as many scores as rows or groups, or 10,000, in ascending order."""
        if (
            not min(self.n_rows, MOST_KEPT) <= len(self.values) <= MOST_KEPT
            or (np.diff(self.values) < 0).any()
        ):
            raise ValueError(
                f"{len(self.values)} conformal scores of {self.n_rows} rows do not fit, or are unsorted"
            )

    def quantile(self, coverage: float) -> float:
        """What the score of the next row is at most, with a probability of ``coverage``; infinite for too few rows.

        Raises ValueError unless 0 < coverage < 1.
        """
        rank = int(np.ceil((self.n_rows + 1) * require_coverage(coverage) - ROUNDING))
        if rank > self.n_rows:
            return float("inf")
        place = -(-rank * len(self.values) // self.n_rows)  # the first kept rank that is no smaller
        return self.values[place - 1]


def conformal_scores(scores: F64, groups: Any = None) -> ConformalScores:
    """The record of scores (n,), which must be finite, of rows or of ``groups`` (n,) of rows; n >= 1."""
    scores = finite_rows("scores", scores, 1)
    require_held_out(len(scores))
    order = np.argsort(scores, kind="stable")
    n_kept = min(len(scores), MOST_KEPT)
    if groups is None:
        n = len(scores)
        ranks = -(-np.arange(1, n_kept + 1) * n // n_kept)
        return ConformalScores(n, tuple(scores[order][ranks - 1].tolist()))
    _, group, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    below = np.cumsum(1.0 / sizes[group[order]]) / len(sizes)  # share of the groups at or below each score
    places = np.searchsorted(below, np.arange(1, n_kept + 1) / n_kept - ROUNDING)
    return ConformalScores(len(sizes), tuple(scores[order][np.minimum(places, len(scores) - 1)].tolist()))


def require_held_out(n: int) -> None:
    """Refuse to learn from no rows how sure predictions are."""
    if n == 0:
        raise ValueError("found no row that was held out: how sure predictions are is learned from such rows")


def require_coverage(coverage: Any) -> float:
    """``coverage`` as a float between 0 and 1, neither of them."""
    try:
        number = float(coverage)
    except (TypeError, ValueError, OverflowError):
        number = np.nan
    if isinstance(coverage, (bool, str, bytes)) or not 0 < number < 1:
        raise ValueError(f"coverage must be a number between 0 and 1, such as 0.9; found {coverage!r:.200}")
    return number


def finite_rows(name: str, values: Any, n_dims: int, n_rows: int | None = None) -> F64:
    """``values`` as float64 of so many dimensions, all finite, of ``n_rows`` rows if given; ValueError by name."""
    array = real_array(name, values).astype(np.float64, copy=False)
    if array.ndim != n_dims or (n_rows is not None and len(array) != n_rows):
        wanted = "some rows" if n_rows is None else f"{n_rows} rows"
        raise ValueError(f"{name} must be {n_dims}-D, of {wanted}; found shape {array.shape}")
    if not np.isfinite(array).all():
        row = int(np.argmax(~np.isfinite(array.reshape(len(array), -1)).all(axis=1)))
        raise ValueError(f"{name} must be finite; found {array[row]} in row {row}: leave it out")
    return array
