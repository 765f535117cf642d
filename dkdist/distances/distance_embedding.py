"""`DistanceEmbedding`: random features of objects, based on any distance between them (D2KE)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from dkdist._base.embedding import SetEmbedding
from dkdist._base.inputs import Sets, SetsLike, check_sets
from dkdist._base.invalid_sets import should_skip
from dkdist._base.parameter_checks import (
    MAX_SCALE,
    RandomStateLike,
    check_choice,
    check_int,
    draw_seed,
    is_literal,
)
from dkdist._base.random_streams import RngStream
from dkdist._base.sampling import random_subset
from dkdist._numba.arrays import F64
from dkdist._utils.validation import check_bool
from dkdist.distances._tuning import (
    AUTO_GAMMA_RATIOS,
    DEFAULT_N_LANDMARKS,
    MAX_SCALE_OBJECTS,
    MIN_CANDIDATES,
    N_VALIDATED_OBJECTS,
)
from dkdist.distances.base import Distance, capabilities, require_kind, require_units
from dkdist.distances.distance_embedding_params import DistanceSpec, Landmarks
from dkdist.distances.landmark_selection import select_landmarks, target_matrix, user_landmarks
from dkdist.distances.landmarks import DISTINCT_OBJECT_SAMPLERS, LandmarkSource, draw_landmarks
from dkdist.distances.pair_function import Pairwise
from dkdist.distances.registry import (
    require_no_lengths,
    require_symmetric_distance,
    resolve_distance,
    resolve_lengths,
    resolve_sampler,
    resolve_sigma,
    warn_long_objects,
    warn_unequal_columns,
)
from dkdist.distances.scales import (
    ObjectSample,
    kernel_leverage_scores,
    landmark_distances,
    median_gamma,
    pairwise_features,
    sample_objects,
    with_nystroem_rows,
    with_standardized_columns,
    with_unit_rows,
)
from dkdist.sets import SampleSetError, SampleSets


def pairwise(function: Callable[[Any, Any], float], *, symmetric: bool = True) -> Pairwise:
    """Build a distance from a function of two objects.

    Parameters
    ----------
    function : callable
        ``function(a, b)`` of two (n_i, d) float64 arrays of true coordinates (codes without an alphabet stay
        integers), or of two str if the objects are strings of characters. It returns a finite number >= 0.
        `DistanceEmbedding` calls it N R times, in Python. `distance_matrix` returns its float64 values; features are
        float32, and values that overflow or underflow there raise an error, as do exceptions of the function.
    symmetric : bool, default=True
        Whether f(a, b) = f(b, a); `fit` checks this on a few objects.

    Examples
    --------
    >>> import dkdist as dk
    >>> length = dk.pairwise(lambda a, b: abs(len(a) - len(b)))
    >>> dk.distance_matrix(["a", "abc"], distance=length)
    array([[0., 2.],
           [2., 0.]])
    """
    if not callable(function):
        raise TypeError(f"function must be a callable of two objects; got {function!r}.")
    return Pairwise(function, check_bool("symmetric", symmetric))


class DistanceEmbedding(SetEmbedding):
    """Embed sets, series or strings by their distances to R random objects.

    Features are exp(-gamma d(x, omega_j)) / sqrt(R) for random objects omega_j (landmarks). Inner products of rows
    estimate the kernel k(x, y) = E exp(-gamma (d(x, omega) + d(y, omega))), which is positive definite for any
    dissimilarity d. By default features are centred and scaled for learners, so that rows have mean length 1. The cost
    is linear: N x R distances.

    Parameters
    ----------
    distance : str or object
        "dtw", "erp", "twed", "msm", "soft-dtw", "global-alignment" (series: rows of a set in order); "levenshtein",
        "osa" (with swaps of neighbours), "indel" (insertions and deletions only), "damerau-levenshtein" (with edits
        between swapped symbols), "jaro-winkler" (names);
        "modified-hausdorff", "directed-modified-hausdorff" (both terms, 2R features), "hausdorff", "chamfer", "energy",
        "sliced-wasserstein" (p = 2, 50 directions), "wasserstein" (or "w1": p = 1, exact, by POT, slow); an
        object with options (`DynamicTimeWarping`, `ERP`, `GlobalAlignment`, `Levenshtein`, `DamerauLevenshtein`,
        `JaroWinkler`, `Energy`, `Wasserstein`, ...); `pairwise` of a function; or a user's object with ``prepare`` and
        ``fill``, which get true coordinates (float32, or float64 if the sets have an origin).
    sampler : str, collection or callable, default="auto"
        Source of the random objects. Pieces of the data: "subsample" (random points of an object, in order), "segment"
        (a contiguous piece), "element" (single points). Whole objects without repetition: "object" (uniform; the
        representative-set method), "leverage" (by ridge leverage scores of the kernel exp(-gamma d), which favour rare
        objects), "supervised" (forward selection, among max(512, 2 R) objects, of those whose features explain
        ``y`` best in ridge regression. Rows then depend on ``y``, so a learner's internal cross-validation is too
        optimistic; cross-validate the whole pipeline). "mixed": all objects once, then pieces
        (segments of strings, subsamples of others). Generated: "gaussian" and "walk" (independent points, or a
        Gaussian random walk, with the data's mean and standard deviation ``sigma``), "sphere" and "ball" (about the
        origin; the radius is the root mean square, or the largest, norm of the data); for strings "uniform" and
        "markov" (over the data's symbols; a first-order chain). "auto": "mixed" for strings with a median of up to 256
        symbols and sets with a median of up to 64 points, unless ``lengths`` is given; "segment" for other strings,
        "object" for `pairwise`, else "subsample". Or a collection of objects of the same kind as the sets (a list of
        arrays or strings, `SampleSets`, a store), or a function from a ``numpy.random.Generator`` to one object, which
        `fit` calls R times.
    n_components : int, optional
        The number R of random objects; by default 1024, or the size of the collection ``sampler``.
    gamma : float, list of floats, "auto" or "median", default="auto"
        Rate of exp(-gamma d), in units of 1/d. "median": 1 over the median distance between sampled and random
        objects. "auto": the same for strings, and 0.3 times that value otherwise. 0: features are the distances, not
        divided by sqrt(R). A list: features for all values, concatenated.
    standardize : bool, "auto" or "nystroem", default="auto"
        True: features have mean 0 and standard deviation 1 over the sets of `fit`; costs another pass over them.
        "nystroem": inner products of rows approximate exp(-gamma d), exactly between random objects, if that kernel is
        positive definite (for metrics such as "energy"; negative eigenvalues are set to 0). Requires one gamma above 0
        and costs R^2 per row.
        "auto": with gamma="auto", features have mean 0 and standard deviation 1 / sqrt(n_features) over a sample of
        at most 256 sets, so that rows have mean length 1, as learners expect. With another gamma the same as False.
    lengths : (int, int) or "auto", default="auto"
        Range of the lengths of random pieces and generated objects, drawn uniformly, ends included. "auto": from 1 to
        the median length of an object, but at most 64 for strings, 32 for series and 16 for sets; with "mixed" from
        three quarters of the median to the median.
    unknown_symbols : {"differ", "raise"}, default="differ"
        Treatment, in `transform`, of a character that did not occur in `fit`, neither in strings nor in random objects:
        treat it as different from all others, as `distance_matrix` does, or raise an error that names the set. Codes
        without an alphabet (bytes, integers) never raise.
    on_error : {"raise", "skip"}, default="raise"
        Treatment of an invalid set: "raise" raises an error that names the first one; "skip" skips it in `fit` and
        gives it a row of NaN in `transform`, with a warning.
    random_state : int, Generator or None
        Seed of the random objects.
    sigma : float, (d,) array or "auto", default="auto"
        Standard deviation of the coordinates of "gaussian" and "walk" objects, in units of the points. "auto": that of
        the data.

    Attributes
    ----------
    spec_ : DistanceSpec
        Fitted parameters: the distance, the random objects as arrays, gammas, centre and scale.
    gamma_ : float or list of floats
        Values of gamma.
    omegas_ : SampleSets
        R random objects.
    n_features_in_ : int
        The dimension d of the points; 1 for strings.
    origin_ : (d,) float64 array
        Origin of the points of `fit` and of ``spec_`` (see `SampleSets`).
    skipped_ : (n_skipped,) int64 array
        Sorted positions of the sets that `fit` skipped.

    Raises
    ------
    SampleSetError
        For empty sets, NaN or infinite points, another number of variables, an unknown symbol with "raise", and a
        user's distance that is negative or not finite; for points beyond 1e15, or a total width below 1e-15, if a
        distance squares them in float32 ("dtw" and other elastic distances, "energy", the Hausdorff distances,
        "chamfer"). The message names the set.
    ValueError
        For an unknown distance or sampler, random objects longer than the data, more whole objects than sets, and a
        wrong size of a collection ``sampler``; for "supervised" without y, or with y of another length, not finite or
        all equal; if a user's function is negative, not finite or not symmetric on a sample.

    Warns
    -----
    UserWarning
        If a default may be unsuitable: lengths="auto" for pieces of objects with a median of more than 256 points;
        gamma="auto" for columns whose standard deviations differ by more than a factor of 100.

    Notes
    -----
    `LazySets` give a lazy dask array with known chunks; any other input an ndarray. Rows are float32. A row depends
    only on its object, and is bitwise identical on CPUs of one type. Random objects are drawn from a sample of at most
    max(256, R) objects (2 R for "leverage" and max(512, 2 R) for "supervised", which compare all pairs of them) or four
    million points. A model file stores the random objects; they replace a function or a collection as ``sampler``. The
    error of the kernel is proportional to 1 / sqrt(R) (Proposition 2 of the paper). docs/distances.md describes how the
    defaults were chosen. Cost of an object of length n against one of length l: dtw n l d, levenshtein n l / 64 words,
    Hausdorff and energy n l d, sliced 50 (n + l) after sorting.

    Wu, Yen, Xu, Ravikumar, Witbrock, D2KE: from distance to kernel and embedding (2018), Eqs. 2-4.

    Examples
    --------
    >>> import dkdist as dk
    >>> words = ["GATTACA", "GATTACCA", "TTTTTTT", "TTTTTATT"]
    >>> A = dk.DistanceEmbedding("levenshtein", n_components=64, random_state=0).fit_transform(words)
    >>> A.shape, bool(((A[0] - A[1]) ** 2).sum() < ((A[0] - A[2]) ** 2).sum())
    ((4, 64), True)
    >>> bool(abs((A**2).sum(axis=1).mean() - 1) < 1e-3)
    True
    """

    _label = "distance_embedding"
    _accepts_strings = True
    spec_: DistanceSpec

    def __init__(
        self,
        distance: Any,
        sampler: Any = "auto",
        n_components: int | None = None,
        gamma: float | Sequence[float] | str = "auto",
        standardize: bool | str = "auto",
        lengths: tuple[int, int] | str = "auto",
        unknown_symbols: str = "differ",
        on_error: str = "raise",
        random_state: RandomStateLike = None,
        sigma: Any = "auto",
    ) -> None:
        self.distance = distance
        self.sampler = sampler
        self.n_components = n_components
        self.gamma = gamma
        self.standardize = standardize
        self.lengths = lengths
        self.unknown_symbols = unknown_symbols
        self.on_error = on_error
        self.random_state = random_state
        self.sigma = sigma

    def fit(self, X: SetsLike, y: Any = None) -> DistanceEmbedding:
        """Draw random objects from the sets X; one pass over the data, or two with standardize=True.

        ``y`` (n_sets,) or (n_sets, k) is used only by sampler="supervised". Floats are regression targets, other types
        are classes. A Series or DataFrame is aligned with the ids of the sets.
        """
        scaling = _scaling_mode(self)
        n_components = None if self.n_components is None else check_int("n_components", self.n_components)
        unknown = check_choice("unknown_symbols", self.unknown_symbols, ("differ", "raise"))
        sets, seed = check_sets(X, text=True), draw_seed(self.random_state)
        distance = resolve_distance(self.distance, sets.n_dims, seed)
        gammas = _resolve_gammas(self.gamma, distance)
        if scaling == "kernel":
            _require_kernel(distance, gammas)
        require_kind(distance, sets)
        sigma = resolve_sigma(self.sigma, self.sampler, sets)
        sampler, landmarks = "user", None
        if isinstance(self.sampler, str):
            sampler = resolve_sampler(self.sampler, distance, sets, self.lengths)
        else:
            require_no_lengths(self.lengths)
            landmarks = user_landmarks(self.sampler, n_components, sets, distance, seed)
        R = n_components or DEFAULT_N_LANDMARKS if landmarks is None else len(landmarks)
        result = self._summarize_fit_sets(sets, None)
        require_units(distance, result)
        n_sampled = {"leverage": 2 * R, "supervised": max(MIN_CANDIDATES, 2 * R)}.get(sampler, R)
        sample = sample_objects(sets, result.bad, n_sampled, seed, should_skip(self))
        capabilities(distance).validate_on(sample.sets[:N_VALIDATED_OBJECTS], sample.positions)
        T = target_matrix(sets, y) if sampler == "supervised" else None
        if landmarks is None:
            landmarks = self._draw_landmarks(sampler, R, sigma, distance, sample, seed, T)
        if is_literal(self.gamma, "auto"):
            warn_unequal_columns(distance, sample.sets)
        raw = DistanceSpec(
            distance, Landmarks.of(landmarks, distance), (0.0,), sets.n_dims, landmarks.alphabet, unknown
        )
        self.spec_ = raw if isinstance(gammas, float) else replace(raw, gammas=gammas)
        if isinstance(gammas, float):
            rows = random_subset(len(sample.sets), MAX_SCALE_OBJECTS, seed)
            D = landmark_distances(raw, ObjectSample(sample.sets[rows], sample.positions[rows], sample.skip))
            self.spec_ = replace(raw, gammas=(median_gamma(D, gammas),))
            if scaling == "rows":
                self.spec_ = with_unit_rows(self.spec_, D)
        if scaling == "columns":
            self.spec_ = with_standardized_columns(self.spec_, sets, result.bad, should_skip(self))
        if scaling == "kernel":
            self.spec_ = with_nystroem_rows(self.spec_, landmarks)
        return self

    def _draw_landmarks(
        self,
        sampler: str,
        R: int,
        sigma: F64 | None,
        distance: Distance,
        sample: ObjectSample,
        seed: int,
        T: F64 | None,
    ) -> SampleSets:
        sets = sample.sets
        if sampler in DISTINCT_OBJECT_SAMPLERS and len(sets) < R:
            raise ValueError(
                f"n_components must be at most {len(sets)}, the number of sampled objects, for sampler={sampler!r}; "
                f"got {R}. Use fewer, or another sampler."
            )
        lengths = resolve_lengths(self.lengths, sampler, distance, sets)
        if is_literal(self.lengths, "auto"):
            warn_long_objects(sampler, lengths, sets)
        scores, selected, gammas = None, None, _resolve_gammas(self.gamma, distance)
        if sampler == "leverage":
            scores = kernel_leverage_scores(distance, sample, gammas, R)
        if T is not None:
            F = pairwise_features(distance, sample, gammas)
            selected = select_landmarks(F, T[sample.positions], R)
        rng = np.random.default_rng([seed, RngStream.OBJECTS])
        return draw_landmarks(sampler, LandmarkSource(sets, rng, sigma, scores, selected), R, lengths)

    def saved_params(self) -> dict[str, Any]:
        """Return replacements for a model file: a function or collection ``sampler`` becomes the random objects."""
        return {} if isinstance(self.sampler, str) else {"sampler": self.omegas_}

    @property
    def omegas_(self) -> SampleSets:
        """R random objects."""
        check_is_fitted(self)
        return self.spec_.omegas.sets(self.spec_.alphabet, self.spec_.distance, self.origin_)

    @property
    def gamma_(self) -> float | list[float]:
        """Value of gamma, or the list of values."""
        check_is_fitted(self)
        gammas = list(self.spec_.gammas)
        return gammas if isinstance(self.gamma, (list, tuple, np.ndarray)) else gammas[0]

    def _check_transform_sets(self, X: Any) -> Sets:
        check_is_fitted(self)
        require_fitted_kind(self, self.spec_, X)
        return super()._check_transform_sets(X)


def require_fitted_kind(estimator: Any, spec: DistanceSpec, X: Any) -> None:
    """Raise SampleSetError unless the objects X are of the same kind (points, codes or strings) as in ``fit``."""
    sets = check_sets(X, estimator.n_features_in_, text=True, origin=estimator.origin_)
    require_kind(spec.distance, sets)
    if (sets.alphabet is None) != (spec.alphabet is None):
        kinds = "strings of characters", "points or codes without an alphabet"
        expected, actual = kinds if spec.alphabet is not None else kinds[::-1]
        raise SampleSetError(
            f"X must hold {expected}, as in fit; got {actual} in all sets. Pass sets of the same kind."
        )


def _resolve_gammas(param: Any, distance: Any) -> tuple[float, ...] | float:
    """Return the values of gamma; for "auto" and "median", the factor of 1 / (median distance)."""
    if isinstance(param, str):
        ratio = AUTO_GAMMA_RATIOS["strings" if distance.codes else "others"]
        return ratio if check_choice("gamma", param, ("auto", "median")) == "auto" else 1.0
    values = np.atleast_1d(np.asarray(param, np.float64))
    if values.ndim != 1 or len(values) == 0 or not ((values >= 0) & (values <= MAX_SCALE)).all():
        raise ValueError(
            f"gamma must be 'auto', 'median', a number from 0 to {MAX_SCALE:g} or a list of them; got {param!r}."
        )
    return tuple(values.tolist())


def _scaling_mode(embedding: DistanceEmbedding) -> str | None:
    """Return the kind of scaling that ``standardize`` requests: "rows", "columns", "kernel", or None."""
    if is_literal(embedding.standardize, "auto"):
        return "rows" if is_literal(embedding.gamma, "auto") else None
    if is_literal(embedding.standardize, "nystroem"):
        return "kernel"
    return "columns" if check_bool("standardize", embedding.standardize) else None


def _require_kernel(distance: Distance, gammas: tuple[float, ...] | float) -> None:
    if distance.n_parts > 1 or not (isinstance(gammas, float) or (len(gammas) == 1 and gammas[0] > 0)):
        raise ValueError(
            "standardize='nystroem' requires a distance with 1 number per pair and one gamma above 0; got "
            f"{type(distance).__name__} with {distance.n_parts} and gamma={gammas!r:.80}."
        )
    require_symmetric_distance("standardize='nystroem'", distance)
