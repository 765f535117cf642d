"""`DistanceEmbedding`: objects to random features of any distance between them (D2KE)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from dkdist._base.embedding import SetEmbedding
from dkdist._base.inputs import check_sets
from dkdist._base.invalid_sets import skips
from dkdist._base.parameter_checks import MOST, draw_seed, is_word, one_of, whole
from dkdist._base.random_streams import RngStream
from dkdist._base.sampling import some
from dkdist._numba.arrays import F64
from dkdist._utils.validation import check_bool
from dkdist.distances.base import Distance, capabilities, require_kind, require_units
from dkdist.distances.distance_embedding_params import DistanceSpec, Landmarks
from dkdist.distances.landmark_selection import CANDIDATES, DRAWN, chosen_objects, given_objects, targets_of
from dkdist.distances.landmarks import WITHOUT_REPETITION, Source, draw_omegas
from dkdist.distances.pair_function import Pairwise
from dkdist.distances.registry import (
    as_distance,
    as_sampler,
    made_up_sigma,
    omega_lengths,
    require_no_lengths,
    require_symmetric_distance,
    warn_of_long_objects,
    warn_of_unlike_columns,
)
from dkdist.distances.scales import (
    MEDIAN_OBJECTS,
    Looked,
    features_among,
    kernel_scores,
    median_gamma,
    sample_of,
    sampled_distances,
    with_kernel_rows,
    with_unit_columns,
    with_unit_rows,
)
from dkdist.sets import SampleSetError, SampleSets

CHECKED = 8  # objects that a user's own function is tried on
SHARES = {"strings": 1.0, "others": 0.3}  # gamma="auto", in one over the median distance


def pairwise(function: Callable[[Any, Any], float], *, symmetric: bool = True) -> Pairwise:
    """Make a distance of a function of two objects, for `DistanceEmbedding` and `distance_matrix`.

    Parameters
    ----------
    function : callable
        ``function(a, b)`` of two (n_i, d) float64 arrays of true coordinates (codes without an alphabet stay
        integers), or of two str if the objects are strings of characters; a finite number >= 0. Called once for every
        object and every random object, in Python: slow, so mind N times R. `distance_matrix` keeps its values;
        features are float32, and values that would be infinite or 0 there are refused, as is a set for which the
        function raises.
    symmetric : bool, default=True
        Whether f(a, b) = f(b, a), which is tried out on some objects in `fit`.

    Examples
    --------
    >>> import dkdist as dk
    >>> length = dk.pairwise(lambda a, b: abs(len(a) - len(b)))
    >>> dk.distance_matrix(["a", "abc"], distance=length)
    array([[0., 2.],
           [2., 0.]])
    """
    if not callable(function):
        raise TypeError(f"pairwise expects a function of two objects; found {function!r}")
    return Pairwise(function, check_bool("symmetric", symmetric))


class DistanceEmbedding(SetEmbedding):
    """Embed sets, series or strings by their distances to R random objects: linear time, whatever the distance.

    Features exp(-gamma d(x, omega_j)) / sqrt(R) of random objects omega_j; inner products of rows estimate the kernel
    k(x, y) = E exp(-gamma (d(x, omega) + d(y, omega))), positive definite for any dissimilarity d. By default features
    are centred and scaled for learners, so that rows have length 1 in the mean. N x R distances are computed, never
    N x N.

    Parameters
    ----------
    distance : str or object
        "dtw", "erp", "twed", "msm", "soft-dtw" (series: rows of a set in order), "levenshtein", "osa", "indel"
        (strings: with swaps of neighbours; of insertions and deletions alone), "damerau-levenshtein" (with swaps that
        are edited again), "jaro-winkler" (names),
        "modified-hausdorff", "directed-modified-hausdorff" (both terms, 2R features), "hausdorff", "chamfer", "energy",
        "sliced-wasserstein" (p = 2, 50 directions), "wasserstein" (p = 1, exact, by POT, slow); an object with options
        (`DynamicTimeWarping`, `ERP`, `Levenshtein`, `DamerauLevenshtein`, `JaroWinkler`, `Energy`, `Wasserstein`, ...);
        `pairwise` around a function of yours; or an object of yours with ``prepare`` and ``fill``, which is given true
        coordinates (float32, or float64 where the sets have an origin).
    sampler : str, collection or callable, default="auto"
        Where random objects come from. From the data: "subsample" (random points of an object, in order), "segment" (a
        contiguous piece), "element" (single points), "object" (whole objects without repetition: the representative-set
        method), "leverage" (the same, rare objects rather: drawn by ridge leverage scores of the kernel exp(-gamma d)),
        "supervised" (the same, one after the other those whose features explain ``y`` best by ridge regression; of up
        to max(512, 2 R) objects, which are all compared; its rows have seen ``y``, so that penalties, probabilities and
        intervals which a learner finds by leaving out some of them are too optimistic: score and choose by
        cross-validation of the whole pipeline), "mixed" (whole objects without repetition as far as they go, then
        pieces: segments of strings, subsamples of others). Made up: "gaussian" and "walk" (independent points, or a
        Gaussian random walk, with the data's mean and standard deviation ``sigma``), "sphere" and "ball" (about the
        origin; radius the root mean square, and the largest, norm of the data); for strings "uniform" and "markov"
        (over the data's symbols; a first-order chain). "auto": "mixed" for strings of up to 256 symbols and sets of up
        to 64 points in the median, unless ``lengths`` are given; "segment" for other strings, "object" for `pairwise`,
        else "subsample". Or your own: objects of the same kind as the sets (a list of arrays or strings, `SampleSets`,
        a store), or a function that is given a ``numpy.random.Generator`` and gives one object, called R times in
        `fit`.
    n_components : int, optional
        The number R of random objects; by default 1024, or as many as ``sampler`` gives.
    gamma : float, list of floats, "auto" or "median", default="auto"
        Of exp(-gamma d), in units of 1/d. "median": 1 over the median distance of sampled objects to the random
        ones. "auto": the same for strings, 0.3 of it for others. 0: the distances themselves, not divided by sqrt(R).
        A list: features of each side by side.
    standardize : bool, "auto" or "nystroem", default="auto"
        True: features have mean 0 and standard deviation 1 over the sets of `fit`; costs another pass over them.
        "nystroem": inner products of rows are exp(-gamma d), exactly so between random objects and the best
        approximation by them elsewhere, where that kernel is positive definite (for metrics such as "energy"; what is
        negative counts as 0); for one gamma above 0; costs R^2 a row.
        "auto": with gamma="auto" features have mean 0, and standard deviation 1 over the root of their number, over a
        sample of at most 256 sets, so that rows are as long as learners expect: 1 in the mean. With another gamma the
        same as False.
    lengths : (int, int) or "auto", default="auto"
        Lengths of random pieces and made-up objects are drawn uniformly from this range, ends included. "auto": from 1
        to the median length of an object, but at most 64 for strings, 32 for series and 16 for sets; with "mixed" from
        three quarters of the median to the median.
    unknown_symbols : {"raise", "differ"}, default="raise"
        What becomes, in `transform`, of a character that no string and no given object had in `fit`: an error, or it
        differs from all others. Codes without an alphabet (bytes, integers) that no random object has just differ.
    on_error : {"raise", "skip"}, default="raise"
        What becomes of a bad set: "raise" names the first one; "skip" leaves it out of `fit` and gives it a row of NaN,
        with a warning.
    random_state : int, Generator or None
        Seed of the random objects.
    sigma : float, (d,) array or "auto", default="auto"
        Standard deviation of the coordinates of "gaussian" and "walk" objects, in units of the points. "auto": that of
        the data.

    Attributes
    ----------
    spec_ : DistanceSpec
        What was chosen: the distance, the random objects as arrays, gammas, centre and scale.
    gamma_ : float or list of floats
        What was used.
    omegas_ : SampleSets
        The R random objects, drawn or given.
    n_features_in_ : int
        The dimension d of the points; 1 for strings.
    origin_ : (d,) float64 array
        What points are counted from, that of the sets of `fit` (see `SampleSets`): so are those of ``spec_``.
    skipped_ : (n_skipped,) int64 array
        Positions of the sets that `fit` left out, sorted.

    Raises
    ------
    SampleSetError
        Naming the set: empty, NaN or infinite points, another number of variables, an unknown symbol, a distance of
        yours that is negative or not finite; for points beyond 1e15, or less than 1e-15 wide in all, where a distance
        squares them in float32 ("dtw" and its kin, "energy", the Hausdorff distances, "chamfer").
    ValueError
        For an unknown distance or sampler, random objects longer than the data, more whole objects than there are,
        another number of given ones; for "supervised" without y, or with y of another length, not finite or all equal;
        if a function of yours is negative, not finite or not symmetric on a sample.

    Warns
    -----
    UserWarning
        Where a default has to guess: lengths="auto" with pieces of objects of more than 256 points in the median;
        gamma="auto" with columns whose standard deviations differ by more than a factor of 100.

    Notes
    -----
    A `SetStore` gives a lazy dask array with known chunks; anything else an ndarray. Rows are float32, and a row
    depends on its object alone, bit for bit on processors of one kind. Random objects are drawn from a sample of at
    most max(256, R) objects (2 R for "leverage" and max(512, 2 R) for "supervised", which compare all pairs of them) or
    four million points. A model file
    keeps random objects, also those of a function or a collection of yours, which are its ``sampler`` then. The
    kernel's error falls as 1 / sqrt(R) (Proposition 2 of the paper); the kernel itself is that of a gamma that is
    given. docs/distances.md says on what the defaults were chosen. Cost of an object of length n against one of
    length l: dtw n l d, levenshtein n l / 64 words,
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
    _takes_text = True
    spec_: DistanceSpec

    def __init__(
        self,
        distance: Any,
        sampler: Any = "auto",
        n_components: int | None = None,
        gamma: float | Sequence[float] | str = "auto",
        standardize: bool | str = "auto",
        lengths: tuple[int, int] | str = "auto",
        unknown_symbols: str = "raise",
        on_error: str = "raise",
        random_state: Any = None,
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

    def fit(self, X: Any, y: Any = None) -> DistanceEmbedding:
        """Draw random objects from the sets X; one pass over the data, two with standardize=True.

        ``y`` (n_sets,), or (n_sets, k) numbers, are targets for sampler="supervised" alone: numbers if they are floats,
        else classes. A Series or frame is joined by the ids of the sets.
        """
        unit = _unit(self)
        asked = None if self.n_components is None else whole("n_components", self.n_components)
        unknown = one_of("unknown_symbols", self.unknown_symbols, ("raise", "differ"))
        sets, seed = check_sets(X, text=True), draw_seed(self.random_state)
        distance = as_distance(self.distance, sets.n_dims, seed)
        gammas = _gammas(self.gamma, distance)
        if unit == "kernel":
            _require_kernel(distance, gammas)
        require_kind(distance, sets)
        sigma = made_up_sigma(self.sigma, self.sampler, sets)
        sampler, given = "given", None
        if isinstance(self.sampler, str):
            sampler = as_sampler(self.sampler, distance, sets, self.lengths)
        else:
            require_no_lengths(self.lengths)
            given = given_objects(self.sampler, asked, sets, distance, seed)
        R = asked or DRAWN if given is None else len(given)
        found = self._look(sets, None)
        require_units(distance, found)
        wanted = {"leverage": 2 * R, "supervised": max(CANDIDATES, 2 * R)}.get(sampler, R)
        looked = sample_of(sets, found.bad, wanted, seed, skips(self))
        capabilities(distance).validate_on(looked.sets[:CHECKED], looked.places)
        T = targets_of(sets, y) if sampler == "supervised" else None
        omegas = self._draw(sampler, R, sigma, distance, looked, seed, T) if given is None else given
        if is_word(self.gamma, "auto"):
            warn_of_unlike_columns(distance, looked.sets)
        raw = DistanceSpec(
            distance, Landmarks.of(omegas, distance), (0.0,), sets.n_dims, omegas.alphabet, unknown
        )
        self.spec_ = raw if isinstance(gammas, float) else replace(raw, gammas=gammas)
        if isinstance(gammas, float):
            chosen = some(len(looked.sets), MEDIAN_OBJECTS, seed)
            D = sampled_distances(raw, Looked(looked.sets[chosen], looked.places[chosen], looked.skip))
            self.spec_ = replace(raw, gammas=(median_gamma(D, gammas),))
            if unit == "rows":
                self.spec_ = with_unit_rows(self.spec_, D)
        if unit == "columns":
            self.spec_ = with_unit_columns(self.spec_, sets, found.bad, skips(self))
        if unit == "kernel":
            self.spec_ = with_kernel_rows(self.spec_, omegas)
        return self

    def _draw(
        self,
        sampler: str,
        R: int,
        sigma: F64 | None,
        distance: Distance,
        looked: Looked,
        seed: int,
        T: F64 | None,
    ) -> SampleSets:
        """The random objects of a sampler, from a sample of the sets."""
        sample = looked.sets
        if sampler in WITHOUT_REPETITION and len(sample) < R:
            raise ValueError(
                f"sampler={sampler!r} takes different objects, and there are {len(sample)} to choose from: found "
                f"n_components={R}. Give at most {len(sample)}, or another sampler"
            )
        lengths = omega_lengths(self.lengths, sampler, distance, sample)
        if is_word(self.lengths, "auto"):
            warn_of_long_objects(sampler, lengths, sample)
        scores, chosen, gammas = None, None, _gammas(self.gamma, distance)
        if sampler == "leverage":
            scores = kernel_scores(distance, looked, gammas, R)
        if T is not None:
            F = features_among(distance, looked, gammas)
            chosen = chosen_objects(F, T[looked.places], R)
        source = Source(sample, np.random.default_rng([seed, RngStream.OBJECTS]), sigma, scores, chosen)
        return draw_omegas(sampler, source, R, lengths)

    def saved_params(self) -> dict[str, Any]:
        """What a model file has in the place of parameters that are code: random objects for what gave them."""
        return {} if isinstance(self.sampler, str) else {"sampler": self.omegas_}

    @property
    def omegas_(self) -> SampleSets:
        """The R random objects."""
        check_is_fitted(self)
        return self.spec_.omegas.sets(self.spec_.alphabet, self.spec_.distance, self.origin_)

    @property
    def gamma_(self) -> float | list[float]:
        """The gamma, or list of them, that was used."""
        check_is_fitted(self)
        gammas = list(self.spec_.gammas)
        return gammas if isinstance(self.gamma, (list, tuple, np.ndarray)) else gammas[0]

    def transform(self, X: Any) -> Any:
        """Rows of the sets X: (n_sets, m) float32, a dask array for a store and an ndarray for anything else."""
        check_is_fitted(self)
        sets = check_sets(X, self.n_features_in_, text=True, origin=self.origin_)
        require_kind(self.spec_.distance, sets)
        if (sets.alphabet is None) != (self.spec_.alphabet is None):
            kinds = "strings of characters", "points or codes without an alphabet"
            was, are = kinds if self.spec_.alphabet is not None else kinds[::-1]
            raise SampleSetError(
                f"the sets (set 0 and all others) are {are}, but this embedding was fitted on {was}: give the same kind"
            )
        return super().transform(X)


def _gammas(given: Any, distance: Any) -> tuple[float, ...] | float:
    """The gammas that were given, or what share of one over the median distance to take."""
    if isinstance(given, str):
        usual = SHARES["strings" if distance.codes else "others"]
        return usual if one_of("gamma", given, ("auto", "median")) == "auto" else 1.0
    values = np.atleast_1d(np.asarray(given, np.float64))
    if values.ndim != 1 or len(values) == 0 or not ((values >= 0) & (values <= MOST)).all():
        raise ValueError(
            f"gamma must be 'auto', 'median', a number from 0 to {MOST:g} or a list of them; found {given!r}"
        )
    return tuple(values.tolist())


def _unit(embedding: DistanceEmbedding) -> str | None:
    """What shall have length 1: the rows, the columns, each random object in its kernel, or nothing."""
    if is_word(embedding.standardize, "auto"):
        return "rows" if is_word(embedding.gamma, "auto") else None
    if is_word(embedding.standardize, "nystroem"):
        return "kernel"
    return "columns" if check_bool("standardize", embedding.standardize) else None


def _require_kernel(distance: Distance, gammas: tuple[float, ...] | float) -> None:
    """Refuse what has no kernel exp(-gamma d)."""
    if distance.n_parts > 1 or not (isinstance(gammas, float) or (len(gammas) == 1 and gammas[0] > 0)):
        raise ValueError(
            "standardize='nystroem' needs a distance of one number a pair and one gamma above 0; found "
            f"{type(distance).__name__} of {distance.n_parts} and gamma={gammas!r:.80}"
        )
    require_symmetric_distance("standardize='nystroem'", distance)
