"""`CodebookEmbedding`: bag of words, the fractions of the points of a set at their nearest words (k-means centres).

points --nearest of K centres--> fractions p_k --p^(1/2 + i l_j)--> row,   |row_p - row_q|^2 ~ sum_k kappa(p_k, q_k)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.cluster import MiniBatchKMeans
from threadpoolctl import threadpool_limits

from dkdist._base.array_record import Matrix
from dkdist._base.embedding import SetEmbedding
from dkdist._base.inputs import SetsLike, check_sets
from dkdist._base.parameter_checks import RandomStateLike, check_choice, check_int, draw_seed, is_literal
from dkdist._base.params import Params
from dkdist._base.random_streams import RngStream
from dkdist._base.sampling import PooledSample, random_subset
from dkdist._numba.arrays import F32, F64, I64
from dkdist._runtime.process import one_blas_thread
from dkdist._utils.serialization import serializable
from dkdist.embeddings._codebook_numba import power_of_two_scale, word_fractions
from dkdist.embeddings._density_numba import n_parts
from dkdist.embeddings._tuning import POINTS_PER_WORD
from dkdist.embeddings.cell_features import CellFeatures, histogram_divergence
from dkdist.embeddings.density_choices import resolve_frequencies
from dkdist.embeddings.divergences import DIVERGENCES, canonical_name
from dkdist.sets import SampleSets


@serializable("CodebookSpec")
@dataclass(frozen=True)
class CodebookSpec(Params["CodebookParameters"]):
    """Parameters of a codebook embedding, with words (n_words, d) relative to the origin of ``fit``.

    Without ``frequencies`` (of the spectral measure), rows are the fractions.
    """

    words: Matrix
    frequencies: tuple[float, ...] | None = None
    masses: tuple[float, ...] | None = None
    domain: None = None

    @property
    def n_dims(self) -> int:
        """Dimension d of the points."""
        return int(self.words.values.shape[1])

    @property
    def n_features(self) -> int:
        """Length m of a set's row."""
        return len(self.words) * (1 if self.frequencies is None else n_parts(self.frequencies))

    def _build(self) -> CodebookParameters:
        return CodebookParameters(self, [()], len(self.words))


class CodebookParameters(CellFeatures[CodebookSpec]):
    """Fitted parameters of a `CodebookSpec`."""

    def _compute(self, group: tuple[int, ...], sets: SampleSets, spans: I64) -> F32:
        return word_fractions(sets.relative, spans, sets.weights, self.spec.words.values)


class CodebookEmbedding(SetEmbedding):
    """Embed sets by the fractions of their points at each word: a bag of words, a histogram for many dimensions.

    Words are the centres of k-means on a sample of the points of all sets. A row holds the (weighted) fractions p_k of
    the points of a set whose nearest word is word k, or the feature map of these fractions for an additive histogram
    kernel.

    Parameters
    ----------
    n_words : int, default=64
        Number of words, at most the number of distinct points in the sample.
    divergence : str or callable, default="linear"
        "linear": rows are the fractions (n_words features). Otherwise squared distances between rows are the divergence
        sum_k kappa(p_k, q_k) of `HistogramEmbedding`: "hellinger" (exact, n_words features), "jensen-shannon", "chi2",
        "total-variation", "intersection", or a vectorised kappa(x, y), with 2 n_words features for each frequency.
    random_state : int, Generator or None, default=None
        Seed of k-means.
    on_error : {"raise", "skip"}, default="raise"
        Treatment of an invalid set (damaged or lost chunk, negative weights): "raise" names the first one; "skip" omits
        it in `fit` and gives it a row of NaN, with a warning.

    Attributes
    ----------
    spec_ : CodebookSpec
        Fitted parameters.
    words_ : (n_words, d) float64 array
        Words, in the coordinates of the data.
    n_features_in_, origin_, skipped_
        As in `DivergenceEmbedding`.

    Raises
    ------
    SampleSetError
        For empty sets, strings, NaN or infinite points, another number of dimensions, or negative weights (the message
        names the set); or if no valid set remains.
    StoreFormatError
        For a set that cannot be read; the message names it.
    ValueError
        For an unknown divergence, or more words than distinct points.

    Notes
    -----
    `LazySets` give a lazy dask array with known chunks; anything else an ndarray. Rows are float32, and a row depends
    only on its set, and is bitwise identical on processors of one type. `fit` reads the data once. K-means is
    scikit-learn's `MiniBatchKMeans` on a random sample of 256 points per word, at most 65,536 points (4,194,304 / d
    above 64 dimensions, at least 4,096); results do not depend on blocks or workers. In the sample, the weight of a set
    is its number of points, and weights of points matter only within a set. Distances are Euclidean, so columns need
    similar units: use `SetScaler` or `SetPCA` first. A point that is equally near to several words counts for the
    first. Distances are computed in float32: a point farther away than 1e6 times the largest word may count for any
    word. "hellinger" is exact; the other maps have errors as in `HistogramEmbedding` (0.1 % of a smooth kappa). Cost:
    n_words d products per point.

    References
    ----------
    Sculley, Web-scale k-means clustering (2010). Csurka, Dance, Fan, Willamowski, Bray, Visual categorization with bags
    of keypoints (2004). Vedaldi, Zisserman, Efficient additive kernels via explicit feature maps (2012). Sutherland,
    Oliva, Poczos, Schneider (2016) compare densities with bags of words.

    Examples
    --------
    >>> import numpy as np, dkdist as dk
    >>> sets = [[[0.0, 0.0], [0.1, 0.0], [5.0, 5.0]], [[5.1, 5.0], [5.0, 5.1]]]
    >>> embedding = dk.CodebookEmbedding(n_words=2, random_state=0).fit(sets)
    >>> A = embedding.transform(sets)
    >>> order = embedding.words_[:, 0].argsort()
    >>> A[:, order].round(3)
    array([[0.667, 0.333],
           [0.   , 1.   ]], dtype=float32)
    """

    _label = "codebook_embedding"
    spec_: CodebookSpec

    def __init__(
        self,
        n_words: int = 64,
        divergence: str | Callable[[Any, Any], Any] = "linear",
        random_state: RandomStateLike = None,
        on_error: str = "raise",
    ) -> None:
        self.n_words = n_words
        self.divergence = divergence
        self.random_state = random_state
        self.on_error = on_error

    def fit(self, X: SetsLike, y: Any = None) -> CodebookEmbedding:
        """Choose words from the sets X in one pass. ``y`` is ignored."""
        n_words, map_params = check_int("n_words", self.n_words), self._map_params()
        sets, seed = check_sets(X), draw_seed(self.random_state)
        summary = self._summarize_fit_sets(sets, None, sampled=True)
        assert summary.sample is not None
        self.spec_ = CodebookSpec(Matrix(cluster_centres(summary.sample, n_words, seed)), *map_params)
        return self

    def _map_params(self) -> tuple[Any, ...]:
        """Return frequencies and masses of the feature map, or () if rows are the fractions."""
        if is_literal(self.divergence, "linear"):
            return ()
        if isinstance(self.divergence, str):
            check_choice(
                "divergence", canonical_name(self.divergence), ("linear", "intersection", *DIVERGENCES)
            )
        return resolve_frequencies(histogram_divergence(self.divergence), "auto", "auto", None)

    @property
    def words_(self) -> F64:
        """Words (n_words, d), in the coordinates of the data."""
        return np.asarray(self.spec_.words.values + self.origin_)


def cluster_centres(sample: PooledSample, n_clusters: int, seed: int) -> F32:
    """Return the centres (n_clusters, d) of mini-batch k-means; ValueError if there are fewer distinct points."""
    points, weights = sample.points, sample.weights
    if weights is not None:
        points, weights = points[weights > 0], weights[weights > 0]
    rows = random_subset(len(points), POINTS_PER_WORD * n_clusters, seed)
    # a few points have enough distinct ones, unless points are repeated
    n_distinct = len(np.unique(points[: 2 * n_clusters], axis=0))
    if n_distinct < n_clusters:
        n_distinct = len(np.unique(points, axis=0))
    if n_distinct < n_clusters:
        raise ValueError(
            f"n_words must be at most {n_distinct}, the number of distinct points in a sample of {len(points):,}; got "
            f"{n_clusters}. Use fewer words."
        )
    scale = np.float32(power_of_two_scale(points))  # avoids overflow and underflow of squares
    random_state = int(np.random.default_rng([seed, RngStream.WORDS]).integers(2**31))
    kmeans = MiniBatchKMeans(n_clusters, n_init=1, random_state=random_state, compute_labels=False)
    # the order of sums depends on the number of threads
    with one_blas_thread(), threadpool_limits(1, user_api="openmp"):
        kmeans.fit(points[rows] * scale, sample_weight=None if weights is None else weights[rows])
    return np.asarray(kmeans.cluster_centers_ / scale, np.float32)
