"""`SetSmoother`: kernel smoothing of targets over the nearest sets (Poczos et al. 2013).

    f(P) = sum_i w_i K(d(P, P_i) / h) y_i / sum_i w_i K(d(P, P_i) / h),    i: the k nearest of the n sets of fit

K is exp(-u^2 / 2), (1 - u^2)+ or (1 - u)+. The leave-one-out prediction of set i omits the set from its own sum, so
that the error of every h follows from one search of neighbours. If all K are zero, f is the target of the nearest set
(the mean, if several are equally near), which is also the limit of the Gaussian far from all sets.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from dkdist._base.embedding import set_feature_names
from dkdist._base.inputs import SetsLike, check_sets, weighted_context
from dkdist._base.parameter_checks import (
    RandomStateLike,
    check_choice,
    check_int,
    check_scale,
    check_set_targets,
    draw_seed,
    is_literal,
)
from dkdist._base.row_ids import align_to_index
from dkdist._base.sampling import random_subset
from dkdist._numba.arrays import F32, F64, I64
from dkdist._utils.memory_budget import require_memory
from dkdist.embeddings.named_embedding import make_embedding
from dkdist.linear.problems import as_weights
from dkdist.pairwise_matrices._tuning import MAX_LEAVE_ONE_OUT_SETS, MAX_NEIGHBOUR_VALUES, N_BANDWIDTHS
from dkdist.pairwise_matrices.nearest import NearestSets, SearchableRows, drop_self

KERNELS = ("gaussian", "epanechnikov", "triangular")


def kernel_weights(kernel: str, distances: F64, bandwidth: float) -> F64:
    """Return K(d / h) of sorted distances (m, k), times a factor per row; 1 for the nearest sets if all K are zero."""
    nearest = distances[:, :1]
    if kernel == "gaussian":  # relative to the nearest set, so that not all values underflow
        return np.exp((nearest - distances) / bandwidth * ((nearest + distances) / bandwidth) / 2)
    u = distances / bandwidth
    weights = np.maximum(1 - (u**2 if kernel == "epanechnikov" else u), 0)
    return np.where(weights[:, :1] > 0, weights, distances == nearest)


class SetSmoother(RegressorMixin, BaseEstimator):
    """Regression by kernel smoothing: the weighted mean of the targets of the nearest sets.

    Weights decrease with the distance between distributions. Neither the distributions nor the regression function
    have a parametric form.

    Parameters
    ----------
    embedding : {"hellinger", "jensen-shannon", "total-variation", "chi2", "l2"} or transformer, default="hellinger"
        Distance d between sets: the square root of a divergence (`DivergenceEmbedding`), the L2 distance of densities
        (`L2Embedding`), or the Euclidean distance between the rows of a transformer of sets, such as `MeanEmbedding` or
        a pipeline. It is cloned.
    n_neighbors : int, default=100
        Number k of nearest sets in a sum; all sets if there are fewer.
    kernel : {"gaussian", "epanechnikov", "triangular"}, default="gaussian"
        K(u): exp(-u^2 / 2), max(0, 1 - u^2) or max(0, 1 - |u|), for u = d / bandwidth.
    bandwidth : float or "auto", default="auto"
        Bandwidth h in units of d. "auto" minimises the leave-one-out error over 40 values, from a quarter of the median
        distance of nearest sets to four times the largest distance of neighbours.
    engine : {"exact", "faiss", "approximate"}, default="exact"
        Search of `NearestSets`.
    random_state : int, Generator or None, default=None
        Seed of engine="approximate", and of the sample that selects the bandwidth if there are more than 4,096 sets.

    Attributes
    ----------
    embedding_ : fitted transformer
    neighbors_ : NearestSets
        The rows of the sets of `fit`.
    bandwidth_ : float
        Bandwidth h.
    bandwidths_, bandwidth_errors_ : (n_candidates,) float64 arrays, or None if ``bandwidth`` is a number
        Candidates in descending order, and their leave-one-out errors: mean squared errors divided by the variance of
        the target, averaged over targets.
    n_features_in_ : int
        Dimension d of the points.

    Raises
    ------
    ValueError
        For invalid parameters, targets that are not finite, or bandwidth="auto" with fewer than two sets.
    TypeError
        If ``embedding`` is not a transformer of sets.
    SampleSetError, StoreFormatError
        As in the embedding.

    Notes
    -----
    A leave-one-out prediction of a set excludes the set itself, and uses its k nearest other sets. A set farther than h
    from all sets of `fit` has no neighbour within the support of "epanechnikov" and "triangular". It gets the target of
    the nearest set, without a warning. The Gaussian has the same limit.

    Rows of `fit` are in memory, 4 m bytes per set. Predictions for stores compute rows block by block and return an
    ndarray. Cost: the embedding, and 2 n m flops per predicted set. `fit` searches the neighbours of at most 4,096
    sets.

    ``sample_weight`` multiplies K and the squared errors; sets of weight 0 are ignored. ``n_neighbors`` counts sets.

    References
    ----------
    Nadaraya: On estimating regression (1964). Poczos, Rinaldo, Singh, Wasserman: Distribution-free distribution
    regression (2013).

    Examples
    --------
    >>> import numpy as np, dkdist as dk
    >>> rng = np.random.default_rng(0)
    >>> y = rng.uniform(1, 2, 300)
    >>> sets = [rng.normal(0, scale, (200, 1)) for scale in y]
    >>> model = dk.SetSmoother().fit(sets[:250], y[:250])
    >>> model.score(sets[250:], y[250:]) > 0.9
    True
    """

    saved_attributes: ClassVar[dict[str, Any]] = {
        "n_features_in_": int, "feature_names_in_": NDArray[np.generic] | None, "embedding_": BaseEstimator,
        "neighbors_": NearestSets, "bandwidth_": float, "bandwidths_": F64 | None, "bandwidth_errors_": F64 | None,
        "_targets": F64, "_weights": F64, "_single": bool,
    }  # fmt: skip

    def __init__(
        self,
        embedding: Any = "hellinger",
        *,
        n_neighbors: int = 100,
        kernel: str = "gaussian",
        bandwidth: float | str = "auto",
        engine: str = "exact",
        random_state: RandomStateLike = None,
    ) -> None:
        self.embedding = embedding
        self.n_neighbors = n_neighbors
        self.kernel = kernel
        self.bandwidth = bandwidth
        self.engine = engine
        self.random_state = random_state

    def fit(self, X: SetsLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> SetSmoother:
        """Embed the sets X and choose the bandwidth.

        Parameters
        ----------
        X : sets
        y : array-like of shape (n_sets,) or (n_sets, n_targets)
        sample_weight : array-like of shape (n_sets,) or None
        """
        check_int("n_neighbors", self.n_neighbors)
        check_choice("kernel", self.kernel, KERNELS)
        is_auto = is_literal(self.bandwidth, "auto")
        bandwidth = np.nan if is_auto else check_scale("bandwidth", self.bandwidth)
        embedding, seed = make_embedding(self.embedding), draw_seed(self.random_state)
        X, y, sample_weight = align_to_index(X, y=y, sample_weight=sample_weight)
        sets = check_sets(X, text=True)
        targets = check_set_targets(y, len(sets))
        weights = as_weights(sample_weight, len(sets))
        positive_rows = np.arange(len(sets)) if weights is None else np.flatnonzero(weights)
        if is_auto and len(positive_rows) < 2:
            raise ValueError(
                f"bandwidth='auto' requires at least 2 sets with a weight above 0; got {len(positive_rows)}. Pass "
                "bandwidth=."
            )
        if len(positive_rows) < len(sets):
            sets = sets[positive_rows]
        self.n_features_in_, self._single = sets.n_dims, targets.ndim == 1
        set_feature_names(self, sets)
        self._targets = targets.reshape(len(targets), -1)[positive_rows]
        self._weights = (
            np.ones(len(positive_rows)) if weights is None else weights[positive_rows] / weights.max()
        )
        self.embedding_ = embedding
        with weighted_context(positive_rows, len(targets)):
            rows = rows_in_memory(self.embedding_.fit_transform(sets), positive_rows)
        self.neighbors_ = NearestSets(engine=self.engine, random_state=seed).fit(rows)
        self.bandwidth_ = bandwidth
        self.bandwidths_: F64 | None = None
        self.bandwidth_errors_: F64 | None = None
        if is_auto:
            self.bandwidths_, self.bandwidth_errors_ = self._leave_one_out(rows, seed)
            self.bandwidth_ = float(self.bandwidths_[np.argmin(self.bandwidth_errors_)])
        return self

    def _leave_one_out(self, rows: F32, seed: int) -> tuple[F64, F64]:
        """Return candidate bandwidths in descending order, and their leave-one-out errors."""
        k = min(self.n_neighbors, len(rows) - 1)
        n_queries = int(np.clip(MAX_NEIGHBOUR_VALUES // k, 64, MAX_LEAVE_ONE_OUT_SETS))
        sample = random_subset(len(rows), n_queries, seed)
        distances, positions = self.neighbors_.kneighbors(rows[sample], k + 1)
        distances, positions = drop_self(distances, positions, sample)
        bandwidths = candidate_bandwidths(distances)
        truth, weights = self._targets[sample], self._weights[sample]
        variance = np.average((truth - np.average(truth, 0, weights)) ** 2, 0, weights)
        scale = np.where(truth.max(axis=0) > truth.min(axis=0), variance, 1)
        predictions = (self._smooth(distances, positions, h) for h in bandwidths.tolist())
        errors = [(np.average((p - truth) ** 2, 0, weights) / scale).mean() for p in predictions]
        return bandwidths, np.array(errors)

    def _smooth(self, distances: F64, positions: I64, bandwidth: float) -> F64:
        """Return the weighted means (m, t) of the targets at ``positions`` (m, k), in batches of bounded memory."""
        out = np.empty((len(distances), self._targets.shape[1]))
        step = max(1, MAX_NEIGHBOUR_VALUES // (positions.shape[1] * out.shape[1]))
        for a in range(0, len(out), step):
            batch = positions[a : a + step]
            weights = kernel_weights(self.kernel, distances[a : a + step], bandwidth) * self._weights[batch]
            weights /= weights.sum(axis=1, keepdims=True)
            out[a : a + step] = np.einsum("mk,mkt->mt", weights, self._targets[batch])
        return out

    def predict(self, X: SetsLike) -> F64:
        """Return the predicted targets (n_sets,) or (n_sets, n_targets), as in ``fit``."""
        check_is_fitted(self)
        k = min(self.n_neighbors, len(self._targets))
        step, predictions = max(1, MAX_NEIGHBOUR_VALUES // k), []
        for block in SearchableRows(self.embedding_.transform(X)):
            for a in range(0, len(block), step):
                distances, positions = self.neighbors_.kneighbors(block[a : a + step], k)
                predictions.append(self._smooth(distances, positions, self.bandwidth_))
        values = np.concatenate(predictions)
        return values[:, 0] if self._single else values

    def score(self, X: SetsLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Return the coefficient of determination R^2, averaged over targets."""
        X, y, sample_weight = align_to_index(X, y=y, sample_weight=sample_weight)
        return float(super().score(X, y, sample_weight))

    def check_loaded(self) -> None:
        """Raise ValueError if loaded attributes are inconsistent."""
        n = self.neighbors_.n_samples_fit_
        if self._targets.ndim != 2 or len(self._targets) != n or self._weights.shape != (n,):
            raise ValueError(
                f"The model must have targets and weights of {n} sets; got {self._targets.shape}."
            )
        if not (self.bandwidth_ > 0 and (self._weights > 0).all()):
            raise ValueError("The model must have a positive bandwidth and positive weights.")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


def rows_in_memory(rows: Any, positions: I64) -> F32:
    """Return finite rows (n, m) float32, computed if they are lazy; errors name the set by its position (n,)."""
    require_memory(
        4 * int(np.prod(rows.shape)), "the rows of all sets need", "use an embedding with fewer features"
    )
    values = np.asarray(rows.compute() if hasattr(rows, "compute") else rows, np.float32)
    is_finite = np.isfinite(values).all(axis=1)
    if not is_finite.all():
        raise ValueError(
            f"rows must be finite; got NaN or infinity (set {positions[np.argmin(is_finite)]}). Drop the set."
        )
    return values


def candidate_bandwidths(distances: F64) -> F64:
    """Return bandwidths in descending order for distances (m, k) to neighbours; [1.0] if all are zero."""
    nearest = distances[:, 0]
    if not distances.any():
        return np.ones(1)
    low = np.median(nearest[nearest > 0]) if nearest.any() else distances[distances > 0].min()
    return np.geomspace(4 * distances.max(), low / 4, N_BANDWIDTHS)
