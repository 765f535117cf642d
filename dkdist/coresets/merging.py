"""`RunningCoreset`: the coreset of points that come one after the other.

`merge_coresets`: coresets of parts to one of the whole, with a bound of its distance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from dkdist._base.parameter_checks import draw_seed, positive, whole
from dkdist._base.random_streams import RngStream
from dkdist._numba.arrays import F64, I64
from dkdist._utils.validation import check_bool, dimension_names, require_same_names
from dkdist.coresets.coreset import Coreset, coreset, points_and_weights
from dkdist.coresets.selection import check_kernel
from dkdist.coresets.union import (
    MAX_SWAP_ROUNDS,
    CoresetUnion,
    concatenate_unions,
    merge_size,
    reduce_unions,
    thin_union,
)
from dkdist.sets import SampleSetError


def merge_coresets(
    coresets: Sequence[Coreset],
    size: int | None = None,
    *,
    optimal_weights: bool = False,
    random_state: Any = None,
) -> Coreset:
    """Make one coreset of a whole from coresets of its parts, such as days, files or workers; in a tree if you like.

    Parameters
    ----------
    coresets : sequence of `Coreset`
        Of disjoint parts, with one kernel, bandwidth and dimension, in the order of the parts. If the parts had no
        weights, each counts by its number of points; if they had, by its weight.
    size : int, optional
        How many points to keep; without it, or if there are no more, those of all.
    optimal_weights : bool, default=False
        As in `coreset`: signed weights that bring the points nearest, instead of equal ones.
    random_state : int, Generator or None
        Seed of the order of swaps.

    Returns
    -------
    Coreset
        ``indices`` into the parts one after the other, ``weights`` and ``points``. ``distance`` is a bound of the
        kernel distance between the whole and the coreset. ``finer`` is what it was chosen from, at most 16 times as
        many points: these are taken when it is merged again.

    Raises
    ------
    ValueError
        For no coresets, several kernels, bandwidths, dimensions or names or orders of columns, some of weighted sets
        and some not, and those that were made without their points.

    Notes
    -----
    The kernel distance is a norm, so that with shares s_i of the parts P_i, their coresets S_i and the result R

        D(sum s_i P_i, R) <= sum s_i D(P_i, S_i) + D(sum s_i S_i, R),

    of which the last is found exactly: the bound holds at every level of a tree. (It is certified where those of the
    parts are: always, but where `coreset` estimates them.) The true distance is less, since errors of parts are not all
    of one direction.

    Points are swapped for better ones of all parts until none is found, up to 8 times each. Before, where there are
    more than 16 times ``size``, halves of the parts are thinned to 8 times ``size`` (at most 1,024 more than it), with
    the signed weights that bring them nearest. What parts lack no merging brings back: coresets of 8 times the size
    wanted in the end give one as near as a coreset made at once (docs/kernel.md). Points as heavy as the others are for
    each place left keep their weight, as in `coreset`. Cost, with M = 16 size: M^2 kernels, M size for each round
    of swaps, and for more points than M, as often as they hold M, M^3 / 24 multiply-adds for each of some ten solves.

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
    counted = None if size is None else whole("size", size)
    few = merge_unions(
        [as_union(part) for part in parts], counted, parts[0].sigma, parts[0].kernel, optimal_weights, seed
    )
    return replace(few, names=next((part.names for part in parts if part.names is not None), None))


def merge_unions(
    unions: list[CoresetUnion], size: int | None, sigma: float, kernel: str, optimal: bool, seed: int
) -> Coreset:
    """The coreset of all unions together: of all of their points, or ``size`` of them."""
    if size is None or size >= sum(len(union.weights) for union in unions):
        few, finer = concatenate_unions(unions), None
    else:
        finer = reduce_unions(unions, size, sigma, kernel)
        few = thin_union(finer, size, sigma, kernel, optimal=optimal, rounds=MAX_SWAP_ROUNDS, seed=seed)
    indices, weights, distance, points, _, n_points, total = few
    return Coreset(indices, weights, distance, points, sigma, n_points, total, finer, kernel)


def as_union(part: Coreset) -> CoresetUnion:
    """What a coreset was chosen from, or itself; points of weights of both signs were chosen for equal shares."""
    if part.finer is not None:
        return part.finer
    shares = part.weights
    if shares.min() < 0:
        shares = np.full(len(shares), (1.0 if part.total is None else part.total) / len(shares))
    return CoresetUnion(
        part.indices, part.weights, part.distance, part.points, shares, part.n_points, part.total
    )


def _check_coresets(coresets: Any) -> list[Coreset]:
    """The coresets as a list, each with its points and all of one kind."""
    parts = list(coresets) if isinstance(coresets, (list, tuple)) else [coresets]
    if not parts:
        raise ValueError("coresets is empty: give one or more")
    for i, part in enumerate(parts):
        if not isinstance(part, Coreset):
            raise ValueError(
                f"coresets must be a list of Coreset; item {i} is {type(part).__name__}: give coreset(P, ...)"
            )
        if not part.sigma > 0:
            raise ValueError(
                f"coreset {i} does not know its points: take one that coreset or merge_coresets has made"
            )
    require_same_names(**{f"coreset {i}": part for i, part in enumerate(parts)})
    first = parts[0]
    for i, part in enumerate(parts):
        if part.kernel != first.kernel:
            raise ValueError(
                f"coreset {i} has kernel={part.kernel!r}, and coreset 0 kernel={first.kernel!r}: make all of them with "
                "one kernel"
            )
        if part.points.shape[1] != first.points.shape[1] or part.sigma != first.sigma:
            raise ValueError(
                f"coreset {i} has sigma={part.sigma:.7g} and {part.points.shape[1]} dimensions, and coreset 0 "
                f"sigma={first.sigma:.7g} and {first.points.shape[1]}: give one number as sigma to all of them"
            )
        if (part.total is None) != (first.total is None):
            raise ValueError(
                f"coresets 0 and {i} are of a set with weights and one without: make all of them with weights"
            )
    return parts


BLOCK_POINTS = 2**15  # points that wait until there are as many; each block becomes a coreset


class RunningCoreset:
    """A coreset of a stream: points are added as they come, and `coreset` says at any time which ones stand for all.

    Parameters
    ----------
    size : int
        How many points to choose.
    sigma : float
        Bandwidth, as for `coreset`.
    kernel : str, default="gaussian"
        As for `coreset`.
    random_state : int, Generator or None
        Seed.

    Raises
    ------
    ValueError
        For a kernel that has no frequencies.
    SampleSetError
        For points or weights that are not finite, negative weights, pieces of other dimensions than the first, data
        frames whose columns have other names or another order, and pieces with and without weights.

    Notes
    -----
    Blocks of 32,768 points become coresets of eight times the size (at most 1,024 points more than it), and two that
    stand for as many points become one, with optimal weights: blocks, pairs, fours, eights. What is kept grows with the
    logarithm of the number of points. The ``distance`` of the result is a bound (`merge_coresets`), certified for the
    Gaussian kernel in up to three dimensions, exponential ones on a line and "laplace" in the plane; by others, those
    of blocks are estimated. Where the stream is cut into pieces changes no bit. An object of this kind can be pickled,
    to go on later; those of several streams are put together by `merge_coresets` of their coresets.

    Cost: some 1e5 points a second in the plane, for sizes of hundreds.

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
        self, size: int, *, sigma: float, kernel: str = "gaussian", random_state: Any = None
    ) -> None:
        self.size, self.sigma = whole("size", size), positive("sigma", sigma)
        self.kernel = check_kernel(kernel)
        self.n_points = 0
        self.names: list[Any] | None = None  # of the columns, if points came as data frames
        self._seed = draw_seed(random_state)
        self._weighted = False
        self._waiting = list[tuple[F64, F64, I64]]()  # points, weights and rows since the row ``_start``
        self._start = 0
        self._nodes = list[tuple[int, CoresetUnion]]()  # of 2^level blocks each, the oldest first
        self._blocks = 0

    def add(self, P: Any, weights: Any = None) -> RunningCoreset:
        """Add points (n, d), each of weight 1 or of ``weights`` (n,) >= 0; itself."""
        points, p = points_and_weights(P, weights)
        require_same_names(SampleSetError, **{"earlier points": self, "P": P})
        if self.names is None:
            self.names = dimension_names(P)
        if self.n_points == 0:
            self._weighted, self._d = weights is not None, points.shape[1]
        if points.shape[1] != self._d or self._weighted != (weights is not None):
            kinds = [f"{d} dimensions {'with' if w else 'without'} weights" for d, w in
                     ((points.shape[1], weights is not None), (self._d, self._weighted))]  # fmt: skip
            raise SampleSetError(
                f"found points of {kinds[0]}, after points of {kinds[1]}: add points of one kind"
            )
        rows = np.flatnonzero(p > 0)
        self._waiting.append(
            (points[rows], p[rows] if self._weighted else np.ones(len(p)), self.n_points + rows)
        )
        self.n_points += len(p)
        if sum(len(part[1]) for part in self._waiting) >= BLOCK_POINTS:
            points, p, rows = self._together()
            whole_ones = len(p) // BLOCK_POINTS * BLOCK_POINTS
            for first in range(0, whole_ones, BLOCK_POINTS):
                part = slice(first, first + BLOCK_POINTS)
                self._push(self._union(points[part], p[part], rows[part], int(rows[part][-1]) + 1))
                self._start = int(rows[part][-1]) + 1
            self._waiting = [(points[whole_ones:], p[whole_ones:], rows[whole_ones:])]
        return self

    def coreset(self, *, optimal_weights: bool = False) -> Coreset:
        """The points that stand for all that were added, as from `merge_coresets`; ``indices`` count from the first."""
        optimal_weights = check_bool("optimal_weights", optimal_weights)
        if self.n_points == 0:
            raise SampleSetError("there is no coreset of no points: add some before")
        points, p, rows = self._together()
        unions = [union for _, union in self._nodes]
        if len(p):
            unions.append(self._union(points, p, rows, self.n_points))
        few = merge_unions(unions, self.size, self.sigma, self.kernel, optimal_weights, self._seed)
        return replace(few, names=self.names)

    def _together(self) -> tuple[F64, F64, I64]:
        points, p, rows = (np.concatenate(column) for column in zip(*self._waiting, strict=True))
        return points, p, rows

    def _union(self, points: F64, p: F64, rows: I64, end: int) -> CoresetUnion:
        """What stands for points that wait, of rows up to ``end`` - 1."""
        rng = np.random.default_rng([self._seed, RngStream.CORESET, self._blocks])
        kept = min(len(p), merge_size(self.size))
        few = coreset(points, kept, sigma=self.sigma, kernel=self.kernel, weights=p, random_state=rng)
        scale, total = (1.0, float(p.sum())) if self._weighted else (1 / len(p), None)
        union = as_union(few)
        return union._replace(
            indices=rows[few.indices] - self._start, weights=scale * few.weights, shares=scale * few.weights,
            distance=scale * few.distance, n_points=end - self._start, total=total,
        )  # fmt: skip

    def _push(self, union: CoresetUnion) -> None:
        """Add a block; two nodes of as many blocks become one."""
        level, self._blocks = 0, self._blocks + 1
        while self._nodes and self._nodes[-1][0] == level:
            union = concatenate_unions([self._nodes.pop()[1], union])
            if len(union.weights) > merge_size(self.size):
                union = thin_union(union, merge_size(self.size), self.sigma, self.kernel, optimal=True)
            level += 1
        self._nodes.append((level, union))
