"""`SlicedWassersteinEmbedding`: sample sets to quantiles of projections, at sliced Wasserstein distance."""

from __future__ import annotations

from typing import Any

import numpy as np

from dkdist.base.embedding import SetEmbedding
from dkdist.base.inputs import check_sets, sample_moments
from dkdist.base.parameter_checks import draw_seed, one_of, settled, whole
from dkdist.distances.sliced.sliced_wasserstein_embedding_spec import SlicedWassersteinSpec
from dkdist.loops.array_types import F64

LEAST_DIRECTIONS = 64


class SlicedWassersteinEmbedding(SetEmbedding):
    """Embed sample sets so that the squared distance between rows is their squared sliced Wasserstein distance SW2^2.

    A row holds quantiles of the points' projections on random directions. It asks for no domain and no bandwidth, sees
    the joint distribution in any dimension, and a few points far away move it little.

    Parameters
    ----------
    n_directions : int or "auto", default="auto"
        Random directions L, in orthogonal frames of d; "auto" is 64, or two whole frames (2 d) where these are more,
        as fewer than d directions leave some unseen. In one dimension there is one, whatever is given.
    n_quantiles : int, default=16
        Quantiles Q of each projection, at (q + 1/2) / Q; up to a share 1 / (2 Q) of a set's points on either side
        may lie anywhere. Sets of Q points, or of a divisor of Q, have their exact distances.
    random_state : int, Generator or None, default=None
        Seed of the directions.
    on_error : {"raise", "skip"}, default="raise"
        What becomes of a bad set (damaged or lost chunk, weights that are no measure): "raise" names the first one;
        "skip" leaves it out of `fit` and gives it a row of NaN, with a warning.

    Attributes
    ----------
    spec_ : SlicedWassersteinSpec
        What was chosen, in plain numbers.
    directions_ : (L, d) float64 array
        The unit vectors that points are projected on.
    n_features_in_ : int
        The dimension d of the points.
    origin_ : (d,) float64 array
        What points are counted from, that of the sets of `fit` (see `SampleSets`): so are those of ``spec_``.
    skipped_ : (n_skipped,) int64 array
        Positions of the sets that `fit` left out, sorted; empty with on_error="raise".

    Raises
    ------
    SampleSetError
        Naming the set: empty sets, NaN or infinite points, different numbers of dimensions, negative weights; or if
        no set is left.
    StoreFormatError
        Naming the set that cannot be read.
    ValueError
        For counts that are no whole numbers from 1 on.

    Notes
    -----
    ``row[l Q + q] = F_l^-1((q + 1/2) / Q) / sqrt(L Q)`` in the units of the points, which are counted from the mean of
    some sets. The mean over directions estimates that over the sphere, with an error that falls as L^(-1/2) or faster;
    that over quantiles is the midpoint rule. A `SetStore` gives a lazy dask array with known chunks; anything else an
    ndarray. Rows are float32, and a set's row depends on that set alone, bit for bit on processors of one kind. Cost:
    L n (d + log2 n) steps a set of n points.

    References
    ----------
    Bonneel, Rabin, Peyre and Pfister (2015), Sliced and Radon Wasserstein barycenters of measures.

    Kolouri, Zou and Rohde (2016), Sliced Wasserstein kernels for probability distributions.

    Examples
    --------
    >>> import numpy as np, dkdist as dk
    >>> rng = np.random.default_rng(0)
    >>> sets = [rng.standard_t(2, (500, 2)) + i % 2 for i in range(10)]
    >>> A = dk.SlicedWassersteinEmbedding(random_state=0).fit_transform(sets)
    >>> A.shape, A.dtype
    ((10, 1024), dtype('float32'))
    >>> d2 = ((A[:, None] - A) ** 2).sum(axis=-1)  # shifts by (1, 1) have SW2^2 = 1, up to sampling
    >>> bool(d2[0, 1::2].min() > d2[0, 2::2].max())
    True
    """

    _label = "sliced_wasserstein_embedding"
    spec_: SlicedWassersteinSpec

    def __init__(
        self,
        n_directions: int | str = "auto",
        n_quantiles: int = 16,
        random_state: Any = None,
        on_error: str = "raise",
    ) -> None:
        self.n_directions = n_directions
        self.n_quantiles = n_quantiles
        self.random_state = random_state
        self.on_error = on_error

    def fit(self, X: Any, y: Any = None) -> SlicedWassersteinEmbedding:
        """Choose the centre from the sets X, and the directions; one pass over the data. ``y`` is not used."""
        given, Q = self.n_directions, whole("n_quantiles", self.n_quantiles)
        auto = isinstance(given, str) and one_of("n_directions", given, ("auto",)) == "auto"
        L = 0 if auto else whole("n_directions", given)
        sets, seed = check_sets(X), draw_seed(self.random_state)
        found = self._look(sets, None)
        mean, variance, _ = sample_moments(sets, found.bad)
        middle, spread = mean.mean(axis=0), np.sqrt(variance.mean(axis=0))
        unit = np.array([settled(s) if s > 0 else 1.0 for s in spread])
        centre = np.round(middle / unit, 3) * unit  # no more digits than are of use
        d = sets.n_dims
        count = 1 if d == 1 else L or max(LEAST_DIRECTIONS, 2 * d)
        self.spec_ = SlicedWassersteinSpec(tuple(centre.tolist()), count, Q, seed)
        return self

    @property
    def directions_(self) -> F64:
        """(L, d): the unit vectors that points are projected on."""
        directions: F64 = self.spec_.draw().directions.copy()
        return directions
