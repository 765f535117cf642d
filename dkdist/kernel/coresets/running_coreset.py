"""`RunningCoreset`: the coreset of points that come one after the other."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from dkdist.base.parameter_checks import draw_seed, positive, whole
from dkdist.base.roles import Role
from dkdist.kernel.coresets.coreset import Coreset, coreset, points_and_weights
from dkdist.kernel.coresets.coreset_choice import given_kernel
from dkdist.kernel.coresets.coreset_union import Union, n_kept, thinned, together
from dkdist.kernel.coresets.merge_coresets import merged, union_of
from dkdist.loops.array_types import F64, I64
from dkdist.plain.validation import as_flag, dimension_names, require_same_names
from dkdist.sets import SampleSetError

BLOCK = 2**15  # points that wait until there are as many; each block becomes a coreset


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
        self.kernel = given_kernel(kernel)
        self.n_points = 0
        self.names: list[Any] | None = None  # of the columns, if points came as data frames
        self._seed = draw_seed(random_state)
        self._weighted = False
        self._waiting = list[tuple[F64, F64, I64]]()  # points, weights and rows since the row ``_start``
        self._start = 0
        self._nodes = list[tuple[int, Union]]()  # of 2^level blocks each, the oldest first
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
        if sum(len(part[1]) for part in self._waiting) >= BLOCK:
            points, p, rows = self._together()
            whole_ones = len(p) // BLOCK * BLOCK
            for first in range(0, whole_ones, BLOCK):
                part = slice(first, first + BLOCK)
                self._push(self._union(points[part], p[part], rows[part], int(rows[part][-1]) + 1))
                self._start = int(rows[part][-1]) + 1
            self._waiting = [(points[whole_ones:], p[whole_ones:], rows[whole_ones:])]
        return self

    def coreset(self, *, optimal_weights: bool = False) -> Coreset:
        """The points that stand for all that were added, as from `merge_coresets`; ``indices`` count from the first."""
        optimal_weights = as_flag("optimal_weights", optimal_weights)
        if self.n_points == 0:
            raise SampleSetError("there is no coreset of no points: add some before")
        points, p, rows = self._together()
        unions = [union for _, union in self._nodes]
        if len(p):
            unions.append(self._union(points, p, rows, self.n_points))
        few = merged(unions, self.size, self.sigma, self.kernel, optimal_weights, self._seed)
        return replace(few, names=self.names)

    def _together(self) -> tuple[F64, F64, I64]:
        points, p, rows = (np.concatenate(column) for column in zip(*self._waiting, strict=True))
        return points, p, rows

    def _union(self, points: F64, p: F64, rows: I64, end: int) -> Union:
        """What stands for points that wait, of rows up to ``end`` - 1."""
        rng = np.random.default_rng([self._seed, Role.CORESET, self._blocks])
        kept = min(len(p), n_kept(self.size))
        few = coreset(points, kept, sigma=self.sigma, kernel=self.kernel, weights=p, random_state=rng)
        scale, total = (1.0, float(p.sum())) if self._weighted else (1 / len(p), None)
        union = union_of(few)
        return union._replace(
            indices=rows[few.indices] - self._start, weights=scale * few.weights, shares=scale * few.weights,
            distance=scale * few.distance, n_points=end - self._start, total=total,
        )  # fmt: skip

    def _push(self, union: Union) -> None:
        """Add a block; two nodes of as many blocks become one."""
        level, self._blocks = 0, self._blocks + 1
        while self._nodes and self._nodes[-1][0] == level:
            union = together([self._nodes.pop()[1], union])
            if len(union.weights) > n_kept(self.size):
                union = thinned(union, n_kept(self.size), self.sigma, self.kernel, optimal=True)
            level += 1
        self._nodes.append((level, union))
