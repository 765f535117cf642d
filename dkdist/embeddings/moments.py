"""`MomentEmbedding`: sample sets to their means, or means and covariances; what every study compares with.

Parameters of moment embeddings: sample sets -> means and covariances, in units fixed for all sets.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement
from typing import Any

import numpy as np

from dkdist._base.embedding import SetEmbedding
from dkdist._base.influence import weight_fractions
from dkdist._base.inputs import DataSummary, Sets, common_units
from dkdist._base.parameter_checks import check_choice
from dkdist._base.params import ChunkedRowSum, Params, iter_chunks, set_spans
from dkdist._numba.arrays import F32, F64
from dkdist._numba.points import are_long
from dkdist._utils.serialization import serializable
from dkdist.embeddings._moments_numba import moments
from dkdist.sets import SampleSets


@serializable("MomentSpec")
@dataclass(frozen=True)
class MomentSpec(Params[Any]):
    """What defines a moment embedding, in plain numbers: moments up to ``degree`` of (x - centre) / scale."""

    centre: tuple[float, ...]
    scale: tuple[float, ...]
    degree: int

    @property
    def n_dims(self) -> int:
        """The dimension d of the points."""
        return len(self.centre)

    @property
    def domain(self) -> None:
        """None: points may lie anywhere."""

    @property
    def n_features(self) -> int:
        """Length m of a set's row."""
        d = self.n_dims
        return d if self.degree == 1 else d + d * (d + 1) // 2

    def column_names(self, names: Sequence[str]) -> list[str]:
        """mean_NAME, then cov_NAME_NAME."""
        means = [f"mean_{name}" for name in names]
        pairs = combinations_with_replacement(names, 2)
        return means if self.degree == 1 else means + [f"cov_{a}_{b}" for a, b in pairs]

    def embed(self, sets: SampleSets) -> F32:
        """Rows of the embedding: (n_sets, m) float32. Sets of many points are taken run by run."""
        spans = set_spans(sets)
        long = np.flatnonzero(are_long(spans, sets.n_dims))
        if not len(long):
            return self._at_once(sets)
        out, short = np.empty((len(sets), self.n_features), np.float32), np.delete(np.arange(len(sets)), long)
        for i in long:
            pooled = PooledMoments(self._at_once, self.n_dims)
            for run, weight in iter_chunks(sets, spans[i]):
                pooled.take(run, weight)
            out[i] = pooled.row()
        if len(short):
            out[short] = self._at_once(sets[short])
        return out

    def row_sum(self, n_points: int, weight: float) -> ChunkedRowSum:
        """The row (m,) of one set that comes in pieces: the same bits as of all at once."""
        pooled = PooledMoments(self._at_once, self.n_dims)
        return ChunkedRowSum(self.n_dims, pooled.take, pooled.row)

    def _at_once(self, sets: SampleSets) -> F32:
        units = np.array(self.centre), np.array(self.scale)
        return moments(sets.relative, sets.offsets, sets.weights, *units, self.degree)

    def influence(self, one: SampleSets, at: F32, gradient: F64) -> F64:
        """(q, k) influence of points ``at`` (q, d), up to a constant: y for the mean, (y - mean) (y - mean)' for the
        covariance.
        """
        y, d = self._in_units(at), self.n_dims
        found = y @ gradient[:d]
        if self.degree == 2:
            y = y - weight_fractions(one) @ self._in_units(one.relative)
            i, j = np.triu_indices(d)
            found += (y[:, i] * y[:, j] * np.where(i == j, 1, np.sqrt(2))) @ gradient[d:]
        return found

    def _in_units(self, points: F32) -> F64:
        return np.asarray((points - np.array(self.centre)) / np.array(self.scale))


class PooledMoments:
    """Means and covariances of runs, of weights W and W', taken together (Chan, Golub, LeVeque 1979):

        mean = mean + t (mean' - mean),    cov = (1 - t) cov + t cov' + t (1 - t) (mean' - mean) (mean' - mean)'

    with t = W' / (W + W').
    """

    def __init__(self, of_run: Callable[[SampleSets], F32], d: int) -> None:
        self._of_run, self._d, self._weight = of_run, d, 0.0
        self._row: F64 | None = None

    def take(self, run: SampleSets, weight: float) -> None:
        """One more run."""
        own, d = self._of_run(run)[0].astype(np.float64), self._d
        self._weight += weight
        if self._row is None:
            self._row = own
            return
        t, apart = weight / self._weight, own[:d] - self._row[:d]
        self._row = self._row + t * (own - self._row)
        if len(own) > d:
            i, j = np.triu_indices(d)
            self._row[d:] += t * (1 - t) * apart[i] * apart[j] * np.where(i == j, 1, np.sqrt(2))

    def row(self) -> F32:
        """The mean, and the covariance as in `MomentSpec`."""
        assert self._row is not None
        return self._row.astype(np.float32)


class MomentEmbedding(SetEmbedding):
    """Embed sample sets by their mean, or their mean and covariance: the baseline that knows no more of a set.

    Points are put in common units first, (x - centre) / scale, so that rows do not depend on the units of the
    dimensions. The squared distance between rows is that of the means plus, for degree 2, the squared Frobenius
    distance of the covariance matrices.

    Parameters
    ----------
    degree : {1, 2}, default=1
        1: the (weighted) mean, d numbers. 2: the mean, then the covariance with divisor n (or the total weight): its
        upper triangle row by row, entries off the diagonal times sqrt(2), d + d (d + 1) / 2 numbers in all.
    on_error : {"raise", "skip"}, default="raise"
        What becomes of a bad set (damaged or lost chunk, weights that are no measure): "raise" names the first one;
        "skip" leaves it out of `fit` and gives it a row of NaN, with a warning.

    Attributes
    ----------
    spec_ : MomentSpec
        What was chosen, in plain numbers.
    centre_, scale_ : (d,) arrays
        Mean and standard deviation of the points, each set counting the same, of up to 256 sets, in runs
        drawn at random; the scale of a constant dimension is 1.
    n_features_in_, origin_, skipped_
        As in `DivergenceEmbedding`.

    Raises
    ------
    SampleSetError
        Naming the set: empty sets, NaN or infinite points, different numbers of dimensions, negative weights; or if
        no set is left.
    StoreFormatError
        Naming the set that cannot be read.
    ValueError
        For another degree.

    Notes
    -----
    A `SetStore` gives a lazy dask array with known chunks; anything else an ndarray. Rows are float32, and a set's row
    depends on that set alone, bit for bit on processors of one kind; sums are centred, so points far from the origin
    are fine. Cost of 200 points in d = 2: below 1 us (degree 1), 2 us (degree 2) on one core; n d^2 / 2 multiply-adds
    for large d.

    Examples
    --------
    >>> import numpy as np, dkdist as dk
    >>> rng = np.random.default_rng(0)
    >>> sets = [rng.normal(1e6 + i % 2, 2, size=(500, 3)) for i in range(10)]
    >>> A = dk.MomentEmbedding(degree=2).fit_transform(sets)
    >>> A.shape, A.dtype
    ((10, 9), dtype('float32'))
    >>> bool(abs(A[1::2, :3] - A[0::2, :3] - 0.5).max() < 0.3)  # means differ by 1, about half a scale
    True
    """

    _label = "moment_embedding"

    def __init__(self, degree: int = 1, on_error: str = "raise") -> None:
        self.degree = degree
        self.on_error = on_error

    def fit(self, X: Any, y: Any = None) -> MomentEmbedding:
        """Choose centre and scale from the sets X; one pass over the data. ``y`` is not used."""
        check_choice("degree", self.degree, (1, 2))
        return super().fit(X)

    def _fit(self, sets: Sets, summary: DataSummary) -> MomentSpec:
        centre, self.scale_ = common_units(sets, summary.bad)
        self.centre_ = centre + self.origin_
        return MomentSpec(tuple(centre.tolist()), tuple(self.scale_.tolist()), int(self.degree))
