"""The two samples of a test, in memory or read block by block: some of their points, and sums over bins of them.

A bin is a random group of points of one sample. Its sums are those of sines and cosines of w . u for points
u = (x - centre) / unit, and of moments and waves of the ranks of coordinates.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
from scipy.special import ndtr

from dkdist.kernel.comparing.kernel_family import Family
from dkdist.kernel.comparing.sphere import within
from dkdist.kernel.distance.kernel_inputs import points_of
from dkdist.kernel.distance.shapes import Shape, is_mesh
from dkdist.kernel.sums.random_loops import Waves, mean_features, waves_of
from dkdist.loops.array_types import F32, F64, I64, U16
from dkdist.sets import SampleSetError, SampleSets

FARTHEST = 1e30  # units from the centre; a point beyond, which has no phase in float32, counts there
AT_ONCE = 2**18  # coordinates of points that are copied at a time


class Look(NamedTuple):
    """How points are seen: from a centre (d,), in a unit, through waves of F frequencies, by a family's kernels."""

    centre: F64
    unit: float
    waves: Waves
    n_frequencies: int
    family: Family

    @property
    def n_sums(self) -> int:
        """How many sums a bin has: of sines, cosines and moments, and of sines and cosines over ranks."""
        return 2 * (self.n_frequencies + len(self.family.ranks.W)) + self.family.n_moments

    def sums(self, x: F64, offsets: I64) -> F32:
        """Sums over points ``offsets[i]`` to ``offsets[i + 1]`` - 1, one at least, of (n, d): (bins, n_sums)."""
        u = in_units(x, self.centre, self.unit)
        g = self.family.scores.of(x)
        found = [_wave_sums(within(u, self.family.radius), offsets, self.waves, self.n_frequencies)]
        found += [np.add.reduceat(some, offsets[:-1]).astype(np.float32) for some in self.family.moments(g)]
        W = self.family.ranks.W
        found.append(_wave_sums(ndtr(g), offsets, waves_of(W, np.zeros(W.shape[1])), len(W)))
        return np.concatenate(found, axis=1)


def _wave_sums(u: F64, offsets: I64, waves: Waves, F: int) -> F32:
    """Sums of sines and cosines of F frequencies: (bins, 2F)."""
    means = np.empty((len(offsets) - 1, 2 * F), np.float32)
    mean_features(u.astype(np.float32), offsets, None, waves, means)
    return np.asarray(means * (np.sqrt(F) * np.diff(offsets))[:, None], np.float32)


def in_units(x: F64, centre: F64, unit: float) -> F64:
    """Points (n, d) from the centre, in units."""
    with np.errstate(over="ignore"):
        return np.asarray(np.clip((x - centre) / unit, -FARTHEST, FARTHEST))


class Sample(Protocol):
    """Points of one sample."""

    @property
    def n(self) -> int:
        """The number of points."""

    @property
    def d(self) -> int:
        """Their dimension."""

    def rows(self, positions: I64) -> F64:
        """The points at some positions, in rising order."""

    def bin_sums(self, look: Look, bins: U16, n_bins: int) -> F32:
        """Sums of sines, cosines and moments over the points of each bin: (n_bins, n_sums)."""


@dataclass(frozen=True)
class Held:
    """A sample in memory: points (n, d)."""

    x: F64

    @property
    def n(self) -> int:
        """The number of points."""
        return len(self.x)

    @property
    def d(self) -> int:
        """Their dimension."""
        return int(self.x.shape[1])

    def rows(self, positions: I64) -> F64:
        """The points at some positions."""
        return self.x[positions]

    def bin_sums(self, look: Look, bins: U16, n_bins: int) -> F32:
        """Sums over the points of each bin."""
        return sums_over_bins(look, self.x, bins, n_bins)


def sums_over_bins(look: Look, x: F64, bins: U16, n_bins: int) -> F32:
    """Sums of sines, cosines and moments over those of the points (n, d) that are in each bin: (n_bins, n_sums)."""
    sums = np.zeros((n_bins, look.n_sums), np.float32)
    order = np.argsort(bins, kind="stable")
    offsets = np.searchsorted(bins[order], np.arange(n_bins + 1))
    present = np.flatnonzero(np.diff(offsets))
    first = 0
    while first < len(present):
        begin = offsets[present[first]]
        last = max(first + 1, int(np.searchsorted(offsets[present], begin + AT_ONCE // x.shape[1])))
        some = present[first:last]
        end = offsets[some[-1] + 1]
        sums[some] = look.sums(x[order[begin:end]], np.append(offsets[some], end) - begin)
        first = last
    return sums


def sample_of(name: str, P: Any) -> Sample:
    """P as a sample: arrays (n, d) and `SampleSets` in memory; arrays of Dask and Zarr and stores block by block."""
    if isinstance(P, Shape) or is_mesh(P):
        raise ValueError("P and Q must be point sets, not shapes: give arrays (n, d)")
    if isinstance(P, SampleSets):
        if P.weights is not None:
            raise weighted(name)
        if P.alphabet is not None:
            raise SampleSetError(f"{name} holds strings of characters, whose codes are no coordinates")
        return Held(np.ascontiguousarray(P.points, np.float64))
    if hasattr(P, "blocks"):  # what reads them is loaded for them alone
        from dkdist.kernel.comparing.streamed_samples import streamed_sample

        lazy = streamed_sample(name, P)
        if lazy is not None:
            return lazy
    return Held(points_of(name, P))


def weighted(name: str) -> SampleSetError:
    """The error for points with weights."""
    return SampleSetError(
        f"{name} has weights, and a test by permutations takes points that are exchangeable: draw points by weight, or "
        "leave the weights out"
    )
