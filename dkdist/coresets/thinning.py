"""`CoresetThinning`: transformer that replaces large sets by their coresets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from dkdist._base.embedding import check_fitted_sets, set_feature_names
from dkdist._base.inputs import SetsLike, check_sets, sample_points, summarize
from dkdist._base.invalid_sets import require_nonnegative_weights
from dkdist._base.parameter_checks import RandomStateLike, check_choice, check_int, draw_seed, median_seed
from dkdist._numba.arrays import F32, F64
from dkdist.coresets import selection
from dkdist.kernels.registry import check_kernel
from dkdist.sets import SampleSets


class CoresetThinning(TransformerMixin, BaseEstimator):
    """Transformer that replaces each large set by its coreset, before an embedding.

    Parameters
    ----------
    size : int, default=256
        Maximum number of points of a set; smaller sets are unchanged.
    sigma : float, sequence of floats or "median", default="median"
        As in `coreset`; "median" is the median distance between 1,024 random points of at most 256 sets of `fit`.
    method : {"swap", "halving", "stratified", "random", "every"}, default="swap"
        As in `coreset`.
    random_state : int, Generator or None
        Seed. The coreset of a set depends only on the seed and on its points.
    kernel : str, default="gaussian"
        As in `coreset`.

    Attributes
    ----------
    sigma_ : float, or (n_sigmas,) array
        Fitted bandwidth or bandwidths.
    n_features_in_ : int
        Dimension d of the points.

    Raises
    ------
    SampleSetError
        For empty sets, points that are not finite, and negative weights, with the index of the set.
    ValueError
        For method="every" in more than one dimension, and a kernel without random frequencies.

    Notes
    -----
    `transform` returns `SampleSets` in memory, also for a store, which is read block by block. Weighted sets keep their
    total weight. For the time per set see `coreset`.

    Examples
    --------
    >>> import numpy as np, dkdist as dk
    >>> rng = np.random.default_rng(0)
    >>> sets = [rng.normal(i % 2, 1, (3000, 1)) for i in range(4)]
    >>> dk.CoresetThinning(20, sigma=0.5, random_state=0).fit_transform(sets)
    SampleSets(n_sets=4, n_points=80, n_dims=1)
    """

    def __init__(
        self,
        size: int = 256,
        sigma: float | str | Sequence[float] = "median",
        method: str = "swap",
        random_state: RandomStateLike = None,
        kernel: str = "gaussian",
    ) -> None:
        self.size = size
        self.sigma = sigma
        self.method = method
        self.random_state = random_state
        self.kernel = kernel

    def fit(self, X: SetsLike, y: Any = None) -> CoresetThinning:
        """Check the sets X and choose sigma, with one pass over the data for "median"; ``y`` is ignored."""
        check_int("size", self.size)
        check_choice("method", self.method, selection.METHODS)
        check_kernel(self.kernel, "sample_frequencies")
        sets = check_sets(X)
        selection.check_dims(self.method, self.kernel, sets.n_dims)
        sigmas = selection.check_sigma(self.sigma)
        if sigmas is None:
            bad = summarize(sets, None, skip=False).bad
            sigmas = (selection.median_sigma(sample_points(sets, bad, median_seed(self.random_state))),)
        selection.check_bandwidths(sigmas)
        self.sigma_ = sigmas[0] if len(sigmas) == 1 else np.array(sigmas)
        self.n_features_in_, self.origin_ = sets.n_dims, sets.origin
        set_feature_names(self, sets)
        self._seed = draw_seed(self.random_state)
        return self

    def transform(self, X: SetsLike) -> SampleSets:
        """Return the sets X with at most ``size`` points each, in memory."""
        check_is_fitted(self)
        check_int("size", self.size)
        check_choice("method", self.method, selection.METHODS)
        check_kernel(self.kernel, "sample_frequencies")
        sets = check_fitted_sets(self, X)
        blocks = [sets] if isinstance(sets, SampleSets) else sets.blocks()
        points, weights, position = list[F32](), list[F64](), 0
        weighted = False
        for block in blocks:
            require_nonnegative_weights(block, position)
            weighted = block.weights is not None
            for i, x in enumerate(block):
                w = block.weights_of(i)
                thinned = self._thin(x, np.ones(len(x)) if w is None else w.reshape(-1).astype(np.float64))
                points.append(thinned[0])
                weights.append(thinned[1])
            position += len(block)
        coresets = SampleSets.from_arrays(points, weights if weighted else None, origin=sets.origin)
        return coresets.labelled(sets.ids, sets.names, sets.targets)

    def _thin(self, x: F32, w: F64) -> tuple[F32, F64]:
        if len(x) <= self.size:
            return x, w
        centred = (x - x.mean(axis=0, dtype=np.float64)).astype(np.float32)
        sigmas = tuple(np.atleast_1d(self.sigma_).tolist())
        params = selection.CoresetParams(self.size, sigmas, self.method, self._seed, self.kernel)
        indices, weights = selection.choose_points(centred, w, params)
        return x[indices], weights
