"""`DensityRegressor`: regression whose response is a distribution (Oliva, Poczos, Schneider 2013; Oliva et al. 2015).

    C_i = mean of phi_a(y) over the points y of the response set of set i,   phi_a: orthonormal cosines, a in V
    c(P) = g_a (W z(P) + b)_a,   z: features of a set,   g_a = exp(-sum_j (pi a_j h_j)^2 / 2)

C_i is an unbiased estimate of the coefficients c_i of the response density. W and b are a ridge regression of all
coefficients. With leave-one-out predictions r_i, which do not depend on C_i, the integrated squared error is

    sum_i |g r_i - c_i|^2 = sum_i sum_a g_a^2 r_ia^2 - 2 g_a r_ia c_ia + const

and C_i in place of c_i estimates it without bias. The bandwidth h minimises this sum. It is smaller than the best
bandwidth of a single set, because the regression averages the noise of many sets.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.pipeline import make_pipeline
from sklearn.utils.validation import check_is_fitted

from dkdist._base.embedding import set_feature_names, transform_sets
from dkdist._base.inputs import Sets, SetsLike, check_sets, error_context, map_set_blocks, weighted_context
from dkdist._base.parameter_checks import RandomStateLike, draw_seed, is_literal
from dkdist._base.row_ids import align_to_index, find_ids
from dkdist._numba.arrays import F64, I64
from dkdist._utils.memory_budget import require_memory
from dkdist.embeddings._tuning import CANDIDATES_PER_OCTAVE
from dkdist.embeddings.cross_validation import CoefficientSums, best_bandwidth
from dkdist.embeddings.density_choices import max_nodes_per_dim, resolve_bandwidth
from dkdist.embeddings.l2 import L2Embedding, L2Spec
from dkdist.embeddings.named_embedding import make_embedding
from dkdist.embeddings.structure import MAX_TENSOR_DIMS
from dkdist.kernels.random_fourier_features import RandomFourierFeatures
from dkdist.linear._tuning import (
    MAX_BANDWIDTH_RATIO,
    MIN_BANDWIDTH_RATIO,
    MIN_PILOT_DAMPING,
    N_RANDOM_FEATURES,
    PILOT_BANDWIDTH_RATIO,
)
from dkdist.linear.density_errors import squared_errors
from dkdist.linear.predicted_density import PredictedDensity
from dkdist.linear.problems import as_weights
from dkdist.linear.ridge import IncrementalRidge
from dkdist.linear.ridge_fitting import DEFAULT_ALPHAS, RidgeResult


class DensityRegressor(RegressorMixin, BaseEstimator):
    """Predict the density of a distribution from a set: distribution-to-distribution regression.

    Each input set has one response set, a sample of the distribution to predict. The coefficients of the response
    densities in a cosine basis are regressed on features of the input sets. Predictions are projected on the
    densities: they are not negative, and their integral is one.

    Parameters
    ----------
    embedding : {"hellinger", "jensen-shannon", "total-variation", "chi2", "l2"} or transformer, default="hellinger"
        Features of the input sets: 1,000 random Fourier features of the rows of `DivergenceEmbedding` or `L2Embedding`,
        or the rows of a transformer of sets or a pipeline, which is cloned.
    bandwidth : float, (d,) sequence or "auto", default="auto"
        Standard deviation of the Gaussian that smooths the responses, on their scaled domain; 0 means no smoothing.
        "auto" minimises the leave-one-out integrated squared error, of up to 1,024 sets.
    n_basis : int or "auto", default="auto"
        Cosines per dimension of the responses. "auto" resolves a quarter of the cross-validated bandwidth of single
        sets, or a given bandwidth: at most 1,331 in one dimension, 36 in two and 11 in three.
    domain : {"robust", "data", "unit"} or (low, high), default="robust"
        Box of the responses, as in `L2Embedding`. Densities are zero outside. Points of the responses outside a box
        from the data are clipped to its boundary; points outside a given box raise an error.
    alphas : float or array-like of shape (n_alphas,), default=(1e-4, ..., 1e3)
        Penalties of `IncrementalRidge`, selected by the leave-one-out error up to 4,000 sets, by held-out sets above.
    random_state : int, Generator or None, default=None
        Seed of the random features and of held-out sets.

    Attributes
    ----------
    embedding_ : fitted transformer
    ridge_ : IncrementalRidge
        Model of the coefficients of the degrees a > 0, multiplied by g_a.
    basis_ : L2Spec
        Basis of the responses; ``basis_.exponents`` are the degrees.
    bandwidth_ : (d,) float64 array
        Bandwidth h on the scaled domain.
    mean_density_ : PredictedDensity
        Mean of the response densities of `fit`, at the same bandwidth.
    n_features_in_ : int
        Dimension of the points of the input sets.

    Raises
    ------
    ValueError
        For responses with more than three dimensions or a constant dimension, different numbers or ids of input and
        response sets, fewer than two sets, input sets with equal features, or several bandwidths per dimension.
    SampleSetError, StoreFormatError
        As in the embedding and in `L2Embedding`.

    Notes
    -----
    Input and response sets may be stores. A fit on stores equals a fit on sets in memory up to the rounding of sums. It
    holds the coefficients of all responses in memory, 24 bytes each. Response sets may have different sizes, and count
    equally unless ``sample_weight`` is given. The cost of `fit` is that of the embeddings and of a ridge regression
    with one target per coefficient. A prediction holds its coefficients; the first call of ``pdf`` or ``sample`` adds a
    grid.

    References
    ----------
    Oliva, Poczos, Schneider: Distribution to distribution regression (2013). Oliva et al.: Fast function to function
    regression (2015). Gajek: On improving density estimators which are not bona fide functions (1986).

    Examples
    --------
    >>> import numpy as np, dkdist as dk
    >>> rng = np.random.default_rng(0)
    >>> shift = rng.uniform(-1, 1, 120)
    >>> inputs = [rng.normal(s, 1, (100, 1)) for s in shift]
    >>> responses = [rng.normal(s**2, 0.2, (60, 1)) for s in shift]
    >>> model = dk.DensityRegressor(random_state=0).fit(inputs[:100], responses[:100])
    >>> density = model.predict(inputs[100:])[0]
    >>> bool(abs(density.sample(1000, random_state=0).mean() - shift[100] ** 2) < 0.2)
    True
    >>> model.score(inputs[100:], responses[100:]) > 0.5
    True
    """

    saved_attributes: ClassVar[dict[str, Any]] = {
        "n_features_in_": int, "feature_names_in_": NDArray[np.generic] | None, "embedding_": BaseEstimator,
        "ridge_": IncrementalRidge, "basis_": L2Spec, "bandwidth_": F64, "_mean": F64, "_origin": F64,
    }  # fmt: skip

    def __init__(
        self,
        embedding: Any = "hellinger",
        *,
        bandwidth: Any = "auto",
        n_basis: int | str = "auto",
        domain: str | tuple[ArrayLike, ArrayLike] = "robust",
        alphas: ArrayLike = DEFAULT_ALPHAS,
        random_state: RandomStateLike = None,
    ) -> None:
        self.embedding = embedding
        self.bandwidth = bandwidth
        self.n_basis = n_basis
        self.domain = domain
        self.alphas = alphas
        self.random_state = random_state

    def fit(self, X: SetsLike, y: SetsLike, sample_weight: ArrayLike | None = None) -> DensityRegressor:
        """Regress the response sets ``y`` on the input sets ``X``.

        Parameters
        ----------
        X : n input sets
        y : n response sets, in one to three dimensions
        sample_weight : array-like of shape (n,) or None
            Weights of the pairs; those of weight 0 are ignored.
        """
        embedding, seed = make_embedding(self.embedding), draw_seed(self.random_state)
        if isinstance(self.embedding, str):
            embedding = make_pipeline(embedding, RandomFourierFeatures(N_RANDOM_FEATURES, random_state=seed))
        # scikit-learn requires seeds below 2^32
        ridge = _LeaveOneOutRidge(self.alphas, random_state=seed % 2**32)
        ridge.penalties()  # raises ValueError before work starts
        X, sample_weight = align_to_index(X, sample_weight=sample_weight)
        sets, responses = check_pairs(X, y)
        n_sets, used = len(sets), np.arange(len(sets))
        weights = as_weights(sample_weight, n_sets)
        if weights is not None and not weights.all():
            used = np.flatnonzero(weights)
            sets, responses, weights = sets[used], responses[used], weights[used]
        if len(sets) < 2:
            raise ValueError(f"X must have at least 2 sets with a weight above 0; got {len(sets)}.")
        self.n_features_in_, self._origin = sets.n_dims, responses.origin
        set_feature_names(self, sets)
        with weighted_context(used, n_sets), error_context("one of y"):
            self.basis_, single_bandwidth = self._fit_basis(responses)
            coefficients = _coefficients(self.basis_, responses)
        is_auto = is_literal(self.bandwidth, "auto")
        pilot_bandwidth = single_bandwidth * (PILOT_BANDWIDTH_RATIO if is_auto else 1)
        pilot_factors = np.maximum(damping(self.basis_.exponents[1:], pilot_bandwidth), MIN_PILOT_DAMPING)
        self.embedding_ = embedding
        with weighted_context(used, n_sets):
            rows = self.embedding_.fit_transform(sets)
        ridge.fit(require_finite_rows(rows, used), coefficients * pilot_factors, weights)
        self.bandwidth_ = single_bandwidth
        if is_auto:
            predictions, targets, row_weights = ridge.leave_one_out
            self.bandwidth_ = _select_bandwidth(
                self.basis_.exponents[1:],
                single_bandwidth,
                predictions / pilot_factors,
                targets / pilot_factors,
                row_weights,
            )
        factors = damping(self.basis_.exponents[1:], self.bandwidth_)
        self.ridge_ = ridge.with_scaled_targets(factors / pilot_factors)
        self._mean = np.average(coefficients, axis=0, weights=weights) * factors
        return self

    def _fit_basis(self, responses: Sets) -> tuple[L2Spec, F64]:
        """Return the basis without smoothing, and the bandwidth (d,) of single sets, passed or cross-validated."""
        d = responses.n_dims
        if d > MAX_TENSOR_DIMS:
            raise ValueError(
                f"y must have 1 to {MAX_TENSOR_DIMS} dimensions; got {d}. Reduce it (SetPCA), fit one model for each "
                "group of dimensions, or predict the rows of an embedding of y with IncrementalRidge."
            )
        bandwidths = resolve_bandwidth(self.bandwidth, self.n_basis, d, zero=True).bandwidths
        if is_literal(bandwidths, "scott") or (not isinstance(bandwidths, str) and len(bandwidths) > 1):
            raise ValueError(
                f"bandwidth must be 'auto', one number or {d} of them; got {self.bandwidth!r:.200}."
            )
        embedding = L2Embedding(self.n_basis, self.bandwidth, self.domain, structure="joint")
        spec: Any = embedding.fit(responses).spec_
        width = np.array(spec.domain.high) - np.array(spec.domain.low)
        if not (width > 0).all():
            raise ValueError(
                f"y must vary in every dimension; got the same value of dimension {int(np.argmin(width))} in all sets, "
                "which have no density. Drop the dimension."
            )
        n_basis = spec.n_basis
        if is_literal(self.bandwidth, "auto") and is_literal(self.n_basis, "auto"):
            n_basis = min(int(n_basis / MIN_BANDWIDTH_RATIO), max_nodes_per_dim("tensor", d))
        return replace(spec, bandwidth=(0.0,) * d, n_basis=n_basis), np.array(spec.bandwidth)

    def predict(self, X: SetsLike) -> list[PredictedDensity]:
        """Return the predicted density for each of the sets X, in a list."""
        check_is_fitted(self)
        rows = self.embedding_.transform(X)
        rows = require_finite_rows(rows, np.arange(len(rows)))
        return [self._density(row) for row in self.ridge_.predict(rows)]

    @property
    def mean_density_(self) -> PredictedDensity:
        """Mean of the response densities of `fit`."""
        check_is_fitted(self)
        return self._density(self._mean)

    def _density(self, row: NDArray[Any]) -> PredictedDensity:
        spec = self.basis_
        coefficients = np.concatenate([[1.0], row]).reshape((spec.n_basis,) * spec.n_dims)
        low, high = (np.array(side) + self._origin for side in (spec.domain.low, spec.domain.high))
        return PredictedDensity(coefficients, low, high)

    def score(self, X: SetsLike, y: SetsLike, sample_weight: ArrayLike | None = None) -> float:
        """Return 1 - (integrated squared error) / (that of `mean_density_`), summed over sets; 1 is perfect.

        Errors int (f - p)^2 = int f^2 - 2 int f p + int p^2 are estimated without bias from the points of the
        responses ``y``, which need two points each: int f p by the mean of f over the points, and int p^2 by the sum of
        unbiased estimates of the squared coefficients of p, which omits the degrees outside the basis. Predictions
        depend on the noise of the responses of `fit`, so the score of these responses is too large and may exceed 1.
        The result is NaN if the estimated error of the mean density is not positive.
        """
        check_is_fitted(self)
        X, sample_weight = align_to_index(X, sample_weight=sample_weight)
        sets, responses = check_pairs(X, y)
        weights = as_weights(sample_weight, len(sets))
        with error_context("one of y"):
            responses = check_sets(responses, self.basis_.n_dims, origin=self._origin)
        work = partial(squared_errors, self.basis_, self.predict(sets), self.mean_density_)
        errors = np.concatenate(map_set_blocks(work, responses, "density_score"))
        model, mean = np.average(errors, axis=0, weights=weights)
        return float(1 - model / mean) if mean > 0 else float("nan")

    def check_loaded(self) -> None:
        """Raise ValueError if loaded attributes are inconsistent."""
        basis, d = self.basis_, self.basis_.n_dims
        t = basis.n_basis**d - 1
        shapes = self.bandwidth_.shape, self._origin.shape, self._mean.shape, np.shape(self.ridge_.coef_)[:1]
        is_tensor = basis.structure == "tensor" and basis.order == np.inf and basis.bandwidth == (0.0,) * d
        is_box = np.less(basis.domain.low, basis.domain.high).all()
        if d > MAX_TENSOR_DIMS or not is_tensor or not is_box or shapes != ((d,), (d,), (t,), (t,)):
            raise ValueError(
                f"The model must have a basis of {t + 1} functions in {d} dimensions; got {shapes}."
            )


class _LeaveOneOutRidge(IncrementalRidge):
    """Ridge regression that stores leave-one-out predictions, targets and weights of up to 1,024 rows."""

    calibrates = True

    def _predict_by(self, result: RidgeResult, X: Any, y: F64) -> None:
        super()._predict_by(result, X, y)
        self.leave_one_out = result.calibration_values, result.targets, result.weights

    def with_scaled_targets(self, factors: F64) -> IncrementalRidge:
        """Return the model of the targets times ``factors`` (n_targets,), without leave-one-out predictions."""
        ridge = IncrementalRidge(**self.get_params())
        for name, value in vars(self).items():
            if name != "leave_one_out":
                setattr(ridge, name, value)
        ridge.coef_ = (self.coef_ * factors[:, None]).astype(self.coef_.dtype)
        ridge.intercept_ = self.intercept_ * factors
        return ridge


def check_pairs(X: Any, y: Any) -> tuple[Sets, Sets]:
    """Return input and response sets; ValueError if their numbers or ids differ."""
    sets = check_sets(X, text=True)
    with error_context("one of y"):
        responses = check_sets(y)
    if len(responses) != len(sets):
        raise ValueError(
            f"y must have one response set for each of the {len(sets)} sets of X; got {len(responses)}."
        )
    ids, response_ids = find_ids(sets), find_ids(responses)
    if ids is not None and response_ids is not None and not np.array_equal(ids, response_ids):
        i = int(np.argmax(ids != response_ids))
        raise ValueError(
            f"y must have the ids of X in the same order; got {response_ids[i]!r} for {ids[i]!r} (set {i}). Reorder y."
        )
    return sets, responses


def require_finite_rows(rows: Any, positions: I64) -> Any:
    """Return rows; ValueError names the first set without finite features, unless rows are lazy, as blocks raise."""
    if isinstance(rows, np.ndarray) and not np.isfinite(rows).all():
        i = int(np.argmin(np.isfinite(rows).all(axis=1)))
        raise ValueError(
            f"the features of all sets must be finite; those of set {positions[i]} are not. Drop the set."
        )
    return rows


def damping(exponents: I64, bandwidth: F64) -> F64:
    """Return g_a (n_functions,) of degrees a (n_functions, d)."""
    return np.asarray(np.exp(-((np.pi * exponents * bandwidth) ** 2).sum(axis=1) / 2))


def _coefficients(basis: L2Spec, responses: Sets) -> F64:
    """Return the coefficients of degrees a > 0 of all sets, in memory."""
    n_bytes = 24 * len(responses) * basis.n_features  # float32, float64 and the targets of the ridge
    require_memory(n_bytes, "the coefficients of all responses need", "pass a smaller n_basis")
    rows = transform_sets(basis, responses, "response_coefficients", skip=False)
    return np.asarray(rows.compute() if hasattr(rows, "compute") else rows)[:, 1:].astype(np.float64)


def _select_bandwidth(exponents: I64, single: F64, predictions: F64, targets: F64, weights: F64) -> F64:
    """Return the bandwidths (d,) of the smallest estimated error of leave-one-out predictions (n, n_functions)."""
    sums = CoefficientSums(exponents, weights @ predictions**2, weights @ (predictions * targets))
    high, low = MAX_BANDWIDTH_RATIO * single.max(), MIN_BANDWIDTH_RATIO * single.min()
    n = int(np.ceil(CANDIDATES_PER_OCTAVE * np.log2(high / low))) + 1
    return best_bandwidth(sums, np.geomspace(high, low, n))
