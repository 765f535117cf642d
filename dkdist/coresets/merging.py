"""`merge_coresets` for coresets of parts of a set, and `RunningCoreset` for streams of points."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from dkdist._base.parameter_checks import RandomStateLike, check_int, draw_seed
from dkdist._base.random_streams import RngStream
from dkdist._numba.arrays import F64, I64
from dkdist._utils.validation import check_bool, dimension_names, require_same_names
from dkdist.coresets._tuning import BLOCK_POINTS, MAX_SWAP_ROUNDS
from dkdist.coresets.coreset import Coreset, coreset, points_and_weights
from dkdist.coresets.selection import check_sigma, public_sigma
from dkdist.coresets.union import (
    CoresetUnion,
    concatenate_unions,
    merge_size,
    reduce_unions,
    thin_union,
)
from dkdist.kernels.registry import check_kernel, require_frequencies
from dkdist.sets import SampleSetError


def merge_coresets(
    coresets: Sequence[Coreset],
    size: int | None = None,
    *,
    optimal_weights: bool = False,
    random_state: RandomStateLike = None,
) -> Coreset:
    """Merge coresets of parts, such as days, files or workers, into one coreset of the whole set.

    Parameters
    ----------
    coresets : sequence of `Coreset`
        Coresets of disjoint parts, with one kernel, bandwidth and dimension, in the order of the parts. Parts without
        weights count by their number of points, parts with weights by their total weight.
    size : int, optional
        Number of points of the result; by default, or if the coresets have fewer points, all of them.
    optimal_weights : bool, default=False
        Return optimal signed weights instead of equal ones, as in `coreset`.
    random_state : int, Generator or None
        Seed of the order of swaps.

    Returns
    -------
    Coreset
        ``indices`` into the concatenated parts, ``weights`` and ``points``. ``distance`` is an upper bound of the
        kernel distance between the whole set and the coreset. ``finer`` holds the points it was chosen from, at most 16
        times as many; later merges of the result use them.

    Raises
    ------
    ValueError
        For no coresets; different kernels, bandwidths, dimensions, or names or order of columns; coresets of sets with
        and without weights; and coresets that were constructed without points.

    Notes
    -----
    By the triangle inequality, with fractions s_i of the parts P_i, their coresets S_i and the result R,

        D(sum s_i P_i, R) <= sum s_i D(P_i, S_i) + D(sum s_i S_i, R).

    The last term is computed exactly, so the bound holds at every level of a tree of merges. It is certified if the
    distances of the parts are, that is, if `coreset` does not estimate them. The true distance is smaller, because
    errors of parts have different directions.

    Up to 8 rounds of swaps replace each point by a better point of any part, until no swap helps. If there are at least
    16 times ``size`` points, halves of the parts are first thinned to 8 times ``size`` (at most 1,024 more than
    ``size``), with optimal weights. Merging cannot recover details that the parts have lost: coresets of 8 times the
    final size give the accuracy of a coreset of the whole set (docs/kernel.md). Heavy points keep their weight, as in
    `coreset`. Cost, with M = 16 size: M^2 kernel values, M size per round of swaps, and above M points M^3 / 24
    multiply-adds for each of about ten solves per M points.

    References
    ----------
    Feldman, Langberg: A unified framework for approximating and clustering data (2011), for merging in a tree; Shetty,
    Dwivedi, Mackey: Distribution compression in near-linear time (2022).

    Examples
    --------
    >>> import numpy as np, dkdist as dk
    >>> days = [np.random.default_rng(i).normal(i, 1, (1000, 2)) for i in range(4)]
    >>> few = [dk.coreset(day, 128, sigma=1.0, random_state=0) for day in days]
    >>> all_days = dk.merge_coresets(few, 32, random_state=0)
    >>> own = dk.kernel_distance(np.concatenate(days), all_days.points, sigma=1.0, weights=(None, all_days.weights))
    >>> len(all_days.indices), bool(own <= all_days.distance < 0.05)
    (32, True)
    """
    optimal_weights = check_bool("optimal_weights", optimal_weights)
    parts, seed = _check_coresets(coresets), draw_seed(random_state)
    max_points = None if size is None else check_int("size", size)
    sigmas = tuple(np.atleast_1d(parts[0].sigma).tolist())
    result = merge_unions(
        [as_union(part) for part in parts], max_points, sigmas, parts[0].kernel, optimal_weights, seed
    )
    return replace(result, names=next((part.names for part in parts if part.names is not None), None))


def merge_unions(
    unions: list[CoresetUnion],
    size: int | None,
    sigmas: tuple[float, ...],
    kernel: str,
    optimal: bool,
    seed: int,
) -> Coreset:
    """Return the merged coreset of unions: all of their points, or ``size`` of them."""
    if size is None or size >= sum(len(union.weights) for union in unions):
        union, finer = concatenate_unions(unions), None
    else:
        finer = reduce_unions(unions, size, sigmas, kernel)
        union = thin_union(finer, size, sigmas, kernel, optimal=optimal, rounds=MAX_SWAP_ROUNDS, seed=seed)
    indices, weights, distance, points, _, n_points, total = union
    return Coreset(indices, weights, distance, points, public_sigma(sigmas), n_points, total, finer, kernel)


def as_union(part: Coreset) -> CoresetUnion:
    """Return the points that a coreset was chosen from, else its points; signed weights get equal selection weights."""
    if part.finer is not None:
        return part.finer
    selection_weights = part.weights
    if selection_weights.min() < 0:
        selection_weights = np.full(
            len(selection_weights), (1.0 if part.total is None else part.total) / len(selection_weights)
        )
    return CoresetUnion(
        part.indices, part.weights, part.distance, part.points, selection_weights, part.n_points, part.total
    )


def _check_coresets(coresets: Any) -> list[Coreset]:
    """Return the coresets as a list, after checking that they have points and are compatible."""
    parts = list(coresets) if isinstance(coresets, (list, tuple)) else [coresets]
    if not parts:
        raise ValueError("coresets must contain at least one Coreset; got an empty list.")
    for i, part in enumerate(parts):
        if not isinstance(part, Coreset):
            raise ValueError(
                f"coresets must be a list of Coreset; got {type(part).__name__} at position {i}. Use coreset(P, ...)."
            )
        if part.points.size == 0:
            raise ValueError(f"coreset {i} has no points. Pass results of coreset or merge_coresets.")
    require_same_names(**{f"coreset {i}": part for i, part in enumerate(parts)})
    first = parts[0]
    for i, part in enumerate(parts):
        if part.kernel != first.kernel:
            raise ValueError(
                f"coresets must have the same kernel; got {first.kernel!r} (coreset 0) and {part.kernel!r} "
                f"(coreset {i})."
            )
        if part.points.shape[1] != first.points.shape[1] or part.sigma != first.sigma:
            raise ValueError(
                f"coresets must have the same sigma and number of dimensions; got sigma={first.sigma} and "
                f"{first.points.shape[1]} dimensions for coreset 0, sigma={part.sigma} and {part.points.shape[1]} "
                f"for coreset {i}. Pass the same number as sigma to each coreset."
            )
        if (part.total is None) != (first.total is None):
            raise ValueError(
                f"coresets must all have weights or all have none; got one of each, coresets 0 and {i}."
            )
    return parts


class RunningCoreset:
    """Coreset of a stream of points, available at any time.

    Parameters
    ----------
    size : int
        Number of points of the coreset.
    sigma : float, or sequence of floats
        Bandwidth or bandwidths, as in `coreset`.
    kernel : str, default="gaussian"
        As in `coreset`.
    random_state : int, Generator or None
        Seed.

    Raises
    ------
    ValueError
        For a kernel without random frequencies.
    SampleSetError
        For points or weights that are not finite, negative weights, pieces with other dimensions than the first, data
        frames whose columns have other names or another order, and pieces with and without weights.

    Notes
    -----
    Each block of 32,768 points is reduced to a coreset of 8 times the size (at most 1,024 more points), and two
    coresets of the same number of blocks are merged, with optimal weights. Memory grows with the logarithm of the
    number of points. The ``distance`` of the result is a bound (`merge_coresets`), certified for the Gaussian kernel in
    up to three dimensions, exponential kernels on a line and "laplace" in the plane; for others, distances of blocks
    are estimated. Results do not depend on the pieces, bit for bit. The object can be pickled and continued later. Use
    `merge_coresets` for the coresets of several streams.

    Speed: about 1e5 points per second in the plane, for sizes of a few hundred.

    Examples
    --------
    >>> import numpy as np, dkdist as dk
    >>> rng = np.random.default_rng(0)
    >>> running = dk.RunningCoreset(32, sigma=1.0, random_state=0)
    >>> for hour in range(5):
    ...     _ = running.add(rng.normal(hour, 1, (2000, 2)))
    >>> few = running.coreset()
    >>> running.n_points, few.points.shape, few.distance < 0.05
    (10000, (32, 2), True)
    """

    def __init__(
        self,
        size: int,
        *,
        sigma: float | Sequence[float],
        kernel: str = "gaussian",
        random_state: RandomStateLike = None,
    ) -> None:
        self.size, self.sigma = check_int("size", size), sigma
        sigmas = check_sigma(sigma)
        if sigmas is None:
            raise ValueError("sigma must be a positive number or a sequence of them; got 'median'.")
        self._sigmas = sigmas
        self.kernel = check_kernel(kernel, "sample_frequencies")
        self.n_points = 0
        self.names: list[Any] | None = None  # column names, if the points are data frames
        self._seed = draw_seed(random_state)
        self._weighted = False
        self._buffer = list[tuple[F64, F64, I64]]()  # points, weights and row numbers, from row ``_start`` on
        self._start = 0
        self._nodes = list[tuple[int, CoresetUnion]]()  # (level, union of 2^level blocks), oldest first
        self._blocks = 0

    def add(self, P: Any, weights: Any = None) -> RunningCoreset:
        """Add points (n, d) with weight 1, or with ``weights`` (n,) >= 0, and return self."""
        points, p = points_and_weights(P, weights)
        require_same_names(SampleSetError, **{"earlier points": self, "P": P})
        if self.names is None:
            self.names = dimension_names(P)
        if self.n_points == 0:
            require_frequencies(self.kernel, points.shape[1])
            self._weighted, self._d = weights is not None, points.shape[1]
        if points.shape[1] != self._d or self._weighted != (weights is not None):
            kinds = [f"{d} dimensions {'with' if w else 'without'} weights" for d, w in
                     ((points.shape[1], weights is not None), (self._d, self._weighted))]  # fmt: skip
            raise SampleSetError(f"P must have {kinds[1]} like earlier points; got {kinds[0]}.")
        rows = np.flatnonzero(p > 0)
        self._buffer.append(
            (points[rows], p[rows] if self._weighted else np.ones(len(p)), self.n_points + rows)
        )
        self.n_points += len(p)
        if sum(len(part[1]) for part in self._buffer) >= BLOCK_POINTS:
            points, p, rows = self._buffered()
            n_complete = len(p) // BLOCK_POINTS * BLOCK_POINTS
            for first in range(0, n_complete, BLOCK_POINTS):
                part = slice(first, first + BLOCK_POINTS)
                self._add_block(self._block_union(points[part], p[part], rows[part], int(rows[part][-1]) + 1))
                self._start = int(rows[part][-1]) + 1
            self._buffer = [(points[n_complete:], p[n_complete:], rows[n_complete:])]
        return self

    def coreset(self, *, optimal_weights: bool = False) -> Coreset:
        """Return the coreset of all points added so far, as from `merge_coresets`; ``indices`` refer to all points."""
        optimal_weights = check_bool("optimal_weights", optimal_weights)
        if self.n_points == 0:
            raise SampleSetError("RunningCoreset has no points yet. Call add before coreset.")
        points, p, rows = self._buffered()
        unions = [union for _, union in self._nodes]
        if len(p):
            unions.append(self._block_union(points, p, rows, self.n_points))
        result = merge_unions(unions, self.size, self._sigmas, self.kernel, optimal_weights, self._seed)
        return replace(result, names=self.names)

    def _buffered(self) -> tuple[F64, F64, I64]:
        points, p, rows = (np.concatenate(column) for column in zip(*self._buffer, strict=True))
        return points, p, rows

    def _block_union(self, points: F64, p: F64, rows: I64, end: int) -> CoresetUnion:
        """Return the coreset of buffered points, for rows up to ``end`` - 1."""
        rng = np.random.default_rng([self._seed, RngStream.CORESET, self._blocks])
        size = min(len(p), merge_size(self.size))
        part = coreset(points, size, sigma=self.sigma, kernel=self.kernel, weights=p, random_state=rng)
        scale, total = (1.0, float(p.sum())) if self._weighted else (1 / len(p), None)
        union = as_union(part)
        return union._replace(
            indices=rows[part.indices] - self._start,
            weights=scale * part.weights,
            selection_weights=scale * part.weights,
            distance=scale * part.distance,
            n_points=end - self._start,
            total=total,
        )

    def _add_block(self, union: CoresetUnion) -> None:
        """Add a block, and merge nodes with the same number of blocks."""
        level, self._blocks = 0, self._blocks + 1
        while self._nodes and self._nodes[-1][0] == level:
            union = concatenate_unions([self._nodes.pop()[1], union])
            if len(union.weights) > merge_size(self.size):
                union = thin_union(union, merge_size(self.size), self._sigmas, self.kernel, optimal=True)
            level += 1
        self._nodes.append((level, union))
