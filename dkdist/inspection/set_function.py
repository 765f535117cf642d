"""k functions of a set, each a sum of functions of its rows, and gradients averaged along paths.

    f(P) = constant + sum_t g_t(row_t(P)),    d/dt f((1 - t) P + t delta_x) = sum_t g_t'(row_t(P)) . IF_t(x)

A pipeline has one row, that of its embedding; an ensemble has one per representation. Instead of the derivative at the
row, contributions use its average along the straight path from a start to the row,

    G = int_0^1 f'(start + t (row - start)) dt,    G . (row - start) = f(row) - f(start)

These are integrated gradients (Sundararajan, Taly, Yan 2017), the Aumann-Shapley values of the path. If classes are
well separated, f is flat at the row and its derivative there is noise; the average keeps the slope between start and
row. Each of the k functions has its own start.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from dkdist._base.embedding import count_outside
from dkdist._base.influence import point_influences
from dkdist._numba.arrays import F32, F64, Array
from dkdist._runtime.process import materialize_params
from dkdist.inspection._tuning import N_PATH_NODES
from dkdist.linear.kernel_ridge import squared_distances
from dkdist.sets import SampleSets

NODES, NODE_WEIGHTS = np.polynomial.legendre.leggauss(N_PATH_NODES)  # Gauss-Legendre rule on [-1, 1]


def contrast_weights(values: F64, background_values: F64) -> F64:
    """Return weights (k, r) of r background sets with sum 1, proportional to differences from ``values`` (k,) of a set.

    The weighted mean of the background is a start at which f differs from its value at the set. The plain mean may lie
    in the region of one class, where there is no difference to explain.
    """
    weights = np.abs(background_values - values).T
    weights[weights.max(axis=1) == 0] = 1.0
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def gaussian_path_gradient(starts: Array, row: Array, centres: Array, coef: F64, sigma: float) -> F64:
    """Average the gradient of sum_j exp(-|x - y_j|^2 / (2 sigma^2)) coef_j from starts to a row (m,): (m, k).

    ``centres`` (n, m) are the y_j, ``coef`` (n, k), and ``starts`` (k, m). Squared distances from the points of a path
    follow from those of its ends, so the cost is that of the ends plus k n exponentials per node.
    """
    ends, Y = np.vstack([starts, row]).astype(np.float64), np.asarray(centres, np.float64)
    d2 = squared_distances(ends, Y)
    steps = ends[-1] - ends[:-1]
    lengths2 = (steps**2).sum(axis=1)[:, None]
    total = np.zeros(d2[:-1].shape)  # mean kernel over the path
    for node, weight in zip(NODES, NODE_WEIGHTS, strict=True):
        t = (node + 1) / 2
        path_d2 = (1 - t) * d2[:-1] + t * d2[-1] - t * (1 - t) * lengths2
        total += weight / 2 * np.exp(path_d2 / (-2 * sigma**2))
    mean = coef.T * total
    # Correct up to a multiple of the step, which match_rises determines from the values at both ends.
    gradient = (mean @ Y - mean.sum(axis=1)[:, None] * ends[:-1]).T / sigma**2
    kernel = np.exp(d2 / (-2 * sigma**2))
    rises = kernel[-1] @ coef - np.einsum("kn,nk->k", kernel[:-1], coef)
    return match_rises(gradient, steps, rises)


def match_rises(gradient: F64, steps: F64, rises: F64) -> F64:
    """Return the gradients (m, k) closest to ``gradient`` whose products with the steps (k, m) are the rises (k,)."""
    lengths2 = (steps**2).sum(axis=1)
    errors = rises - np.einsum("km,mk->k", steps, gradient)
    return np.asarray(
        gradient + steps.T * np.divide(errors, lengths2, out=np.zeros_like(errors), where=lengths2 > 0)
    )


class Term(Protocol):
    """A function of the rows of one embedding."""

    @property
    def spec(self) -> Any:
        """Parameters of the embedding that computes its rows."""

    @property
    def training_rows(self) -> F32 | None:
        """Rows (r, m) of training sets, the same sets for all terms; None if the term stores none."""

    def values(self, rows: F32) -> F64:
        """Return values (n, k) of rows (n, m)."""

    def gradient(self, row: F32, starts: F32 | None) -> F64 | None:
        """Return gradients (m, k) averaged from the starts (k, m), one per function, to a row (m,), or at the row.

        An averaged gradient times row - start is the difference of the values. None for a step function
        without starts.
        """


@dataclass(frozen=True)
class PathBackground:
    """Start sets of paths: their rows (.., r, m) or None for each term, and their values (r, k)."""

    rows: tuple[Any, ...]
    values: F64

    def starts(self, values: F64) -> list[Any]:
        """Return for each term k starts (.., k, m) of paths to a set with the values (k,); None without rows."""
        weights = contrast_weights(values, self.values)
        return [None if rows is None else np.asarray(weights @ rows, np.float32) for rows in self.rows]


@dataclass(frozen=True)
class SetFunction:
    """k functions of a set: ``constant`` (k,) and the sum of the terms."""

    terms: tuple[Term, ...]
    constant: F64

    @property
    def ordered(self) -> bool:
        """Whether the order of points may matter."""
        return any(getattr(term.spec, "ordered", False) for term in self.terms)

    def require(self, sets: SampleSets, first: int) -> None:
        """Raise an error that names a set that an embedding does not accept; ``first`` is the position of set 0."""
        for term in self.terms:
            term.spec.require(sets, first)
            count_outside(term.spec.domain, sets, first)

    def values(self, sets: SampleSets) -> F64:
        """Return values (n_sets, k)."""
        total = np.tile(self.constant, (len(sets), 1))
        for term in self.terms:
            total += term.values(materialize_params(term.spec).embed(sets))
        return total

    def at_set(self, position: int) -> SetFunction:
        """Return the function of the set at a position in the call, if functions of sets differ."""
        return self

    def path_values(self, values: F64) -> F64:
        """Return values (k,) that are comparable with those of a background."""
        return values

    @property
    def training_background(self) -> PathBackground | None:
        """Training sets of the terms that store rows; their values are those of these terms."""
        rows = tuple(term.training_rows for term in self.terms)
        values = [term.values(R) for term, R in zip(self.terms, rows, strict=True) if R is not None]
        return PathBackground(rows, np.sum(values, axis=0)) if values else None

    def background(self, sets: SampleSets) -> PathBackground:
        """Return the background of some sets for all terms."""
        tables = [materialize_params(term.spec) for term in self.terms]
        rows = (t.inner_rows(sets) if hasattr(t, "inner_rows") else t.embed(sets) for t in tables)
        return PathBackground(tuple(rows), self.values(sets))

    def path_influences(
        self, sets: SampleSets, background: PathBackground | None
    ) -> Iterator[tuple[SampleSets, F64, F64]]:
        """Yield each set, its values (k,), and the influence (n_i, k) of its points along the path to it.

        Without a background, derivatives at the set replace averages.
        """
        for i in range(len(sets)):
            sample_set = sets[i : i + 1]
            (values,) = self.values(sample_set)
            no_starts = [None] * len(self.terms)
            term_starts = no_starts if background is None else background.starts(self.path_values(values))
            total = np.zeros((sample_set.n_points, len(values)))
            for term, starts in zip(self.terms, term_starts, strict=True):
                tables = materialize_params(term.spec)
                has_inner_path = starts is not None and hasattr(tables, "path_influence")
                gradient = term.gradient(tables.embed(sample_set)[0], None if has_inner_path else starts)
                if gradient is not None:
                    total += (
                        tables.path_influence(sample_set, starts, gradient)
                        if has_inner_path
                        else point_influences(tables, sample_set, gradient)
                    )
            yield sample_set, values, total

    def local_influences(self, sets: SampleSets, at: F32) -> Iterator[F64]:
        """Yield for each set the influence (q, k) of points ``at`` (q, d), by derivatives at the set."""
        for i in range(len(sets)):
            sample_set, total = sets[i : i + 1], np.zeros((len(at), len(self.constant)))
            for term in self.terms:
                tables = materialize_params(term.spec)
                gradient = term.gradient(tables.embed(sample_set)[0], None)
                if gradient is not None:
                    total += point_influences(tables, sample_set, gradient, at)
            yield total
