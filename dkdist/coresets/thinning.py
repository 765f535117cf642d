"""`CoresetThinning`: large sets become their coresets, sets to sets."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from dkdist._base.embedding import known_sets, learn_names
from dkdist._base.inputs import check_sets, sample_points, summarize
from dkdist._base.invalid_sets import require_nonnegative_weights
from dkdist._base.parameter_checks import draw_seed, median_seed, one_of, whole
from dkdist._numba.arrays import F32, F64
from dkdist.coresets import selection as choosing
from dkdist.sets import SampleSets


class CoresetThinning(TransformerMixin, BaseEstimator):
    """Make large sets small: every set becomes its coreset, sets to sets, before any embedding.

    Parameters
    ----------
    size : int, default=256
        Points that a set has at most; smaller ones stay as they are.
    sigma : float or "median", default="median"
        As for `coreset`; "median" is the median distance between 1,024 points of at most 256 sets of `fit`,
        drawn at random from the seed.
    method : {"swap", "halving", "stratified", "random", "every"}, default="swap"
        As for `coreset`.
    random_state : int, Generator or None
        Seed; a set's coreset depends on the seed and on its own points alone.
    kernel : str, default="gaussian"
        As for `coreset`.

    Attributes
    ----------
    sigma_ : float
        What was used.
    n_features_in_ : int
        The dimension d of the points.

    Raises
    ------
    SampleSetError
        Naming the set: empty, not finite, negative weights.
    ValueError
        For method="every" in more than one dimension, and a kernel that has no frequencies.

    Notes
    -----
    `transform` gives `SampleSets` in memory, for a store too: at most ``size`` points a set, read one block at a time.
    Weighted sets keep their total weight. Cost a set: see `coreset`.

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
        sigma: float | str = "median",
        method: str = "swap",
        random_state: Any = None,
        kernel: str = "gaussian",
    ) -> None:
        self.size = size
        self.sigma = sigma
        self.method = method
        self.random_state = random_state
        self.kernel = kernel

    def fit(self, X: Any, y: Any = None) -> CoresetThinning:
        """Check the sets X and find sigma; one pass over the data for "median". ``y`` is not used."""
        whole("size", self.size)
        one_of("method", self.method, choosing.METHODS)
        choosing.check_kernel(self.kernel)
        sets = check_sets(X)
        choosing.check_every_method(self.method, sets.n_dims)
        given = choosing.check_sigma(self.sigma)
        if given is None:
            bad = summarize(sets, None, skip=False).bad
            given = choosing.median_sigma(sample_points(sets, bad, median_seed(self.random_state)))
        self.sigma_ = given
        choosing.check_float32_range(bandwidth_sigma=self.sigma_)
        self.n_features_in_, self.origin_ = sets.n_dims, sets.origin
        learn_names(self, sets)
        self._seed = draw_seed(self.random_state)
        return self

    def transform(self, X: Any) -> SampleSets:
        """The sets X with at most ``size`` points each, in memory."""
        check_is_fitted(self)
        whole("size", self.size)
        one_of("method", self.method, choosing.METHODS)
        choosing.check_kernel(self.kernel)
        sets = known_sets(self, X)
        blocks = [sets] if isinstance(sets, SampleSets) else sets.blocks()
        points, weights, position = list[F32](), list[F64](), 0
        weighted = False
        for block in blocks:
            require_nonnegative_weights(block, position)
            weighted = block.weights is not None
            for i, x in enumerate(block):
                w = block.weights_of(i)
                few, their = self._thin(x, np.ones(len(x)) if w is None else w.reshape(-1).astype(np.float64))
                points.append(few)
                weights.append(their)
            position += len(block)
        made = SampleSets.from_arrays(points, weights if weighted else None, origin=sets.origin)
        return made.labelled(sets.ids, sets.names, sets.targets)

    def _thin(self, x: F32, w: F64) -> tuple[F32, F64]:
        if len(x) <= self.size:
            return x, w
        centred = (x - x.mean(axis=0, dtype=np.float64)).astype(np.float32)
        choice = choosing.CoresetParams(self.size, self.sigma_, self.method, self._seed, self.kernel)
        indices, weights = choosing.choose_points(centred, w, choice)
        return x[indices], weights
