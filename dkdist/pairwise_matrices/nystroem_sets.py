"""`NystroemSets`: Nyström features of kernels between sets, from distances to landmark sets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from dkdist._base.embedding import SetEmbedding, check_fitted_sets
from dkdist._base.inputs import Sets, SetsLike, cached_summaries, check_sets
from dkdist._base.parameter_checks import (
    RandomStateLike,
    check_choice,
    check_int,
    check_scale,
    draw_seed,
    is_literal,
)
from dkdist._base.random_streams import RngStream
from dkdist._runtime.process import one_blas_thread
from dkdist.distances._tuning import MIN_CANDIDATES
from dkdist.distances.base import require_kind, require_one_part, require_units
from dkdist.distances.distance_embedding import require_fitted_kind
from dkdist.distances.distance_embedding_params import DistanceSpec, MixingMatrix
from dkdist.distances.registry import require_symmetric_distance, resolve_distance
from dkdist.distances.scales import inverse_root
from dkdist.embeddings.divergence import DivergenceEmbedding
from dkdist.embeddings.divergences import canonical_name
from dkdist.pairwise_matrices.divergence_estimators import (
    DIRECTED,
    PairEstimator,
    require_points,
    resolve_estimator,
    resolve_order_and_symmetry,
)
from dkdist.pairwise_matrices.landmark_candidates import (
    Candidates,
    compared_candidates,
    embedded_candidates,
    median_gamma,
    object_candidates,
    select_landmarks,
)
from dkdist.pairwise_matrices.nystroem_params import ComparedLandmarks, NystroemParams

LANDMARK_RULES = ("k-means++", "leverage", "random")


class NystroemSets(SetEmbedding):
    """Embed sets by Nyström features of a kernel exp(-gamma d^2) between sets, from distances to landmark sets.

    With kernel values k(L, x) of a set and R landmark sets L, a row is K_LL^(-1/2) k(L, x): inner products of rows are
    those of the kernel projected on the landmarks, and exact between landmarks. The cost is linear in the number of
    sets, for every distance and divergence of the library.

    Parameters
    ----------
    divergence : str, callable or embedding of sets, optional
        d^2 is this divergence: "hellinger", "jensen-shannon", "total-variation", "chi2" or a kappa(x, y), as in
        `DivergenceEmbedding`; an embedding whose squared distances between rows are d^2, such as
        ``HistogramEmbedding(divergence="chi2")`` or ``MeanEmbedding()``; or a divergence of `divergence_matrix`, such
        as "kullback-leibler" (the mean of both directions).
    distance : str or object, optional
        d is this distance of `distance_matrix`, such as "dtw", "levenshtein" or "energy". It must be symmetric, with
        one number per pair. Pass either ``divergence`` or ``distance``.
    n_components : int, default=100
        Number R of landmarks, and of features.
    landmarks : {"k-means++", "leverage", "random"}, default="k-means++"
        Choice of the landmarks among candidates. "k-means++" draws one landmark at a time, with a probability in
        proportion to the squared distance to the nearest landmark drawn before, which spreads the landmarks. "leverage"
        draws in proportion to ridge leverage scores of the kernel, with the penalty for R effective dimensions; it
        favours rare sets. "random" draws uniformly.
    gamma : float or "median", default="median"
        Rate of exp(-gamma d^2), in units of 1 / d^2. "median": 1 / (2 sigma^2) for the median distance sigma of
        candidates, as in `RandomFourierFeatures`.
    estimator : str or object, default="auto"
        "auto": rows of `DivergenceEmbedding`, or "plugin" for a divergence without rows ("kullback-leibler", "renyi").
        Otherwise an estimator of `divergence_matrix`: "knn", "plugin", "entropy" or an object that does not split sets
        into random halves.
    random_state : int, Generator or None, default=None
        Seed of candidates and landmarks.
    on_error : {"raise", "skip"}, default="raise"
        Treatment of an invalid set: "raise" raises an error that names the first one; "skip" skips it in `fit` and
        gives it a row of NaN in `transform`, with a warning.

    Attributes
    ----------
    spec_ : NystroemParams
        Fitted parameters: landmarks, gamma and K_LL^(-1/2).
    component_indices_ : (R,) int64 array
        Positions of the landmarks among the sets of `fit`, sorted.
    gamma_ : float
        Value of gamma.
    n_features_in_, origin_, skipped_
        As in `DivergenceEmbedding`.

    Raises
    ------
    SampleSetError
        For invalid sets, and sets that the distance or estimator does not accept (such as points for "levenshtein", or
        fewer points than neighbours). The message names the set.
    ValueError
        If both divergence and distance are passed, or neither of them; for an unknown name, an asymmetric distance, an
        estimator with random halves, or more landmarks than candidates.

    Notes
    -----
    `LazySets` give a lazy dask array with known chunks; any other input an ndarray. Rows are float32. A row depends
    only on its set, and is bitwise identical on CPUs of one type.

    Candidates are max(512, 2 R) random sets (2 R for an estimator of pairs, max(256, R) for "random"). They have at
    most four million points in total, unless d^2 comes from rows. `fit` compares all pairs of candidates. A row costs R
    comparisons and R^2 operations; an estimator of pairs compares in Python, at 0.1 to 4 ms per pair.

    Eigenvalues of K_LL below 1e-6 of the largest, and negative ones, are treated as 0. exp(-gamma d^2) is positive
    definite for divergences with rows, "energy" and "sliced-wasserstein". For others, such as "dtw", rows approximate
    the nearest positive semi-definite kernel on the landmarks (`project_psd` with "clip"). Estimates by "knn" and
    "entropy" compare independent samples: they differ from 0 for a set and its copy.

    References
    ----------
    Williams, Seeger, Using the Nyström method to speed up kernel machines (2001). Arthur, Vassilvitskii, k-means++:
    the advantages of careful seeding (2007). Musco, Musco, Recursive sampling for the Nyström method (2017).

    Examples
    --------
    >>> import numpy as np, dkdist as dk
    >>> rng = np.random.default_rng(0)
    >>> sets = [rng.normal(i % 3, 1, size=(80, 2)) for i in range(60)]
    >>> A = dk.NystroemSets(divergence="hellinger", n_components=20, random_state=0).fit_transform(sets)
    >>> A.shape, A.dtype
    ((60, 20), dtype('float32'))
    >>> words = ["GATTACA", "GATTACCA", "TTTTTTT", "TTTTTATT"]
    >>> B = dk.NystroemSets(distance="levenshtein", n_components=4, gamma=0.1).fit_transform(words)
    >>> K = np.exp(-0.1 * dk.distance_matrix(words, distance="levenshtein") ** 2)
    >>> bool(np.abs(B @ B.T - K).max() < 1e-5)
    True
    """

    _label = "nystroem_sets"
    spec_: NystroemParams

    def __init__(
        self,
        divergence: str | Callable[[Any, Any], Any] | SetEmbedding | None = None,
        distance: Any = None,
        n_components: int = 100,
        landmarks: str = "k-means++",
        gamma: float | str = "median",
        estimator: str | PairEstimator = "auto",
        random_state: RandomStateLike = None,
        on_error: str = "raise",
    ) -> None:
        self.divergence = divergence
        self.distance = distance
        self.n_components = n_components
        self.landmarks = landmarks
        self.gamma = gamma
        self.estimator = estimator
        self.random_state = random_state
        self.on_error = on_error

    def fit(self, X: SetsLike, y: Any = None) -> NystroemSets:
        """Choose landmarks from the sets X. ``y`` is ignored."""
        R, rule = check_int("n_components", self.n_components), self.landmarks
        check_choice("landmarks", rule, LANDMARK_RULES)
        requested_gamma = None if is_literal(self.gamma, "median") else check_scale("gamma", self.gamma)
        if (self.divergence is None) == (self.distance is None):
            raise ValueError(
                f"exactly one of divergence and distance must be given; got divergence={self.divergence!r:.80} and "
                f"distance={self.distance!r:.80}. Pass NystroemSets(divergence='hellinger'), for example."
            )
        sets, seed = check_sets(X, text=self.distance is not None), draw_seed(self.random_state)
        candidates = self._compare_candidates(sets, R, seed)
        C = len(candidates.positions)
        if R > C:
            raise ValueError(
                f"n_components must be at most {C}, the number of valid sets that were sampled; got {R}. Use fewer "
                "components."
            )
        gamma = requested_gamma or median_gamma(candidates.squares)
        rng = np.random.default_rng([seed, RngStream.LANDMARKS])
        with one_blas_thread():  # more threads would change the last bits
            indices = select_landmarks(rule, candidates.squares, gamma, R, rng)
            mixing = inverse_root(np.exp(-gamma * candidates.squares[np.ix_(indices, indices)]))
        self.component_indices_ = candidates.positions[indices]
        self.spec_ = NystroemParams(candidates.landmarks_at(indices), gamma, MixingMatrix(mixing))
        return self

    def _compare_candidates(self, sets: Sets, R: int, seed: int) -> Candidates:
        """Check the sets in one pass, and compare the candidates for R landmarks."""
        n = R if is_literal(self.landmarks, "random") else max(MIN_CANDIDATES, 2 * R)
        if self.distance is not None:
            if not is_literal(self.estimator, "auto"):
                raise ValueError(
                    f"estimator={self.estimator!r:.80} has no effect with distance. Omit estimator."
                )
            distance = resolve_distance(self.distance, sets.n_dims, seed)
            require_one_part(distance)
            require_symmetric_distance("NystroemSets", distance)
            require_kind(distance, sets)
            summary = self._summarize_fit_sets(sets, None)
            require_units(distance, summary)
            return object_candidates(distance, sets, summary, n, seed)
        divergence = canonical_name(self.divergence)
        is_directed = isinstance(divergence, str) and divergence in DIRECTED
        if is_literal(self.estimator, "auto") and not is_directed:
            is_embedding = isinstance(divergence, SetEmbedding)
            embedding = clone(divergence) if is_embedding else DivergenceEmbedding(divergence)
            with cached_summaries():
                spec = embedding.set_params(on_error=self.on_error).fit(sets).spec_
                is_fixed = spec.domain is not None and spec.domain.fixed
                summary = self._summarize_fit_sets(sets, spec.domain if is_fixed else None)
            return embedded_candidates(spec, sets, summary, n, seed)
        name: Any = "plugin" if is_literal(self.estimator, "auto") else self.estimator
        config = resolve_estimator(cast(Any, divergence), name, None)
        order, _ = resolve_order_and_symmetry(cast(Any, divergence), None, True)
        summary = self._summarize_fit_sets(sets, None)
        valid_sets = sets[np.setdiff1d(np.arange(len(sets)), summary.bad)] if len(summary.bad) else sets
        estimator = config.measure(cast(Any, divergence), order, True, valid_sets, None)
        if hasattr(estimator, "seed"):
            raise ValueError(
                f"estimator must compare all points of two sets; got {self.estimator!r:.80}, which draws random halves "
                "by position. Use 'plugin', 'knn' or 'entropy'."
            )
        return compared_candidates(estimator, sets, summary, 2 * R, seed)

    def _check_transform_sets(self, X: Any) -> Sets:
        check_is_fitted(self)
        landmarks = self.spec_.landmarks
        if isinstance(landmarks, DistanceSpec):
            require_fitted_kind(self, landmarks, X)
        sets = check_fitted_sets(self, X, text=isinstance(landmarks, DistanceSpec))
        k = getattr(landmarks.estimator, "k", None) if isinstance(landmarks, ComparedLandmarks) else None
        if k is not None:
            require_points("entropy' or 'knn", sets, None, k + 1, f"k={k} neighbours of a point")
        return sets

    @property
    def gamma_(self) -> float:
        """Value of gamma."""
        check_is_fitted(self)
        return self.spec_.gamma
