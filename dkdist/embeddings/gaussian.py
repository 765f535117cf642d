"""`GaussianEmbedding`: mean and logarithm of the covariance of sets, in units common to all sets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement
from typing import Any

import numpy as np

from dkdist._base.inputs import DataSummary, Sets, SetsLike
from dkdist._base.parameter_checks import check_positive
from dkdist._numba.arrays import F32
from dkdist._utils.serialization import serializable
from dkdist.embeddings.gaussian_fits import LEDOIT_WOLF, check_shrinkage, fit_gaussians
from dkdist.embeddings.standardized import StandardizedEmbedding, StandardizedParams
from dkdist.sets import SampleSets


@serializable("GaussianSpec")
@dataclass(frozen=True)
class GaussianSpec(StandardizedParams):
    """Parameters of a Gaussian embedding of points (x - centre) / scale.

    ``shrinkage`` is a fraction, or None for that of Ledoit and Wolf.
    """

    shrinkage: float | None
    reg_covar: float

    @property
    def n_features(self) -> int:
        """Length m of a set's row."""
        return self.n_dims * (self.n_dims + 3) // 2

    def column_names(self, names: Sequence[str]) -> list[str]:
        """Return mean_NAME for each dimension, then log_cov_NAME_NAME for each pair."""
        pairs = combinations_with_replacement(names, 2)
        return [f"mean_{name}" for name in names] + [f"log_cov_{a}_{b}" for a, b in pairs]

    def embed(self, sets: SampleSets) -> F32:
        """Return rows (n_sets, m) float32."""
        mean, S = fit_gaussians(sets, self.shrinkage, np.array(self.centre), np.array(self.scale))
        variances, axes = np.linalg.eigh(S)
        logs = np.log(np.maximum(variances, 0) + self.reg_covar)
        log_covariance = (axes * logs[:, None, :]) @ axes.transpose(0, 2, 1)
        i, j = np.triu_indices(self.n_dims)
        upper = log_covariance[:, i, j] * np.where(i == j, 1, np.sqrt(2))
        return np.concatenate([mean, upper], axis=1).astype(np.float32)


class GaussianEmbedding(StandardizedEmbedding):
    """Embed sets by the mean and the logarithm of the covariance of Gaussian distributions fitted to them.

    Points are first standardised, (x - centre) / scale, as in `MomentEmbedding`. With mean m and regularised covariance
    S of each set,

        |row_p - row_q|^2 = |m_p - m_q|^2 + |log S_p - log S_q|_F^2,

    the squared Euclidean distance of the means and log-Euclidean distance of the covariances. The matrix logarithm
    compares ratios of variances: twice a variance and half of it are equally far from it.

    Parameters
    ----------
    shrinkage : "ledoit-wolf" or float, default="ledoit-wolf"
        Fraction a of the covariance (1 - a) cov + a tr(cov) / d I, from 0 to 1, or that of Ledoit and Wolf for each
        set, as in scikit-learn. The covariance has divisor n or the total weight.
    reg_covar : float, default=1e-6
        Positive number added to the diagonal of the covariance, in units of the squared scale. It makes the logarithm
        finite for sets of one point or on a line. The logarithm of a set of one point is log(reg_covar) I.
    on_error : {"raise", "skip"}, default="raise"
        Treatment of an invalid set (damaged or lost chunk, negative weights): "raise" names the first one; "skip" omits
        it in `fit` and gives it a row of NaN, with a warning.

    Attributes
    ----------
    spec_ : GaussianSpec
        Fitted parameters.
    centre_, scale_ : (d,) arrays
        Mean and standard deviation of the points of up to 256 randomly selected sets of equal weight. The scale of a
        constant dimension is 1.
    n_features_in_, origin_, skipped_
        As in `DivergenceEmbedding`.

    Raises
    ------
    SampleSetError
        For empty sets, NaN or infinite points, different numbers of dimensions, or negative weights (the message names
        the set); or if no valid set remains.
    StoreFormatError
        For a set that cannot be read; the message names it.
    ValueError
        For an invalid shrinkage or reg_covar.

    Notes
    -----
    A row has d + d (d + 1) / 2 columns: the mean, then the upper triangle of the logarithm row by row, with
    off-diagonal entries times sqrt(2). Rows are float32, computed in float64; a row depends only on its set, and is
    bitwise identical on processors of one type. `LazySets` give a lazy dask array with known chunks; anything else an
    ndarray. Only ratios of weights matter. Shrinkage uses the effective sample size 1 / sum w^2 (w of sum 1), so
    it is smaller for repeated points than for weighted points. Cost per set: n d^2 / 2 multiply-adds and an eigenvalue
    decomposition of d^3; on one core about 10 us for 200 points in d = 2 and 30 us in d = 5.

    References
    ----------
    Arsigny, Fillard, Pennec, Ayache: Log-Euclidean metrics for fast and simple calculus on diffusion tensors (2006).
    Ledoit, Wolf: A well-conditioned estimator for large-dimensional covariance matrices (2004).

    Examples
    --------
    >>> import numpy as np, dkdist as dk
    >>> rng = np.random.default_rng(0)
    >>> sets = [rng.normal(0, 1 + i % 2, size=(200, 3)) for i in range(10)]
    >>> A = dk.GaussianEmbedding().fit_transform(sets)
    >>> A.shape, A.dtype
    ((10, 9), dtype('float32'))
    >>> bool(abs(A[1::2, 3] - A[0::2, 3] - np.log(4)).max() < 0.6)  # variances 4 and 1
    True
    """

    _label = "gaussian_embedding"

    def __init__(
        self, shrinkage: float | str = LEDOIT_WOLF, reg_covar: float = 1e-6, on_error: str = "raise"
    ) -> None:
        self.shrinkage = shrinkage
        self.reg_covar = reg_covar
        self.on_error = on_error

    def fit(self, X: SetsLike, y: Any = None) -> GaussianEmbedding:
        """Choose centre and scale from the sets X in one pass. ``y`` is ignored."""
        check_shrinkage(self.shrinkage)
        check_positive("reg_covar", self.reg_covar)
        return super().fit(X)

    def _fit(self, sets: Sets, summary: DataSummary) -> GaussianSpec:
        units = self._fit_units(sets, summary)
        return GaussianSpec(*units, check_shrinkage(self.shrinkage), float(self.reg_covar))
