"""`DistanceEmbedding`: objects to random features of any distance between them (D2KE)."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial, reduce
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from dkdist.base.bad_sets import Attempt, attempt, naming_random, skips
from dkdist.base.bandwidth import some
from dkdist.base.embedding import SetEmbedding, origin_of
from dkdist.base.inputs import SAMPLE_POINTS, SAMPLE_SETS, Sets, check_sets, unread_blocks
from dkdist.base.parameter_checks import MOST, draw_seed, one_of, settled, whole
from dkdist.base.roles import Role
from dkdist.distances import traits
from dkdist.distances.distance_choices import (
    as_distance,
    as_sampler,
    omega_lengths,
    require_kind,
    require_units,
)
from dkdist.distances.distance_embedding_loops import column_moments, merged
from dkdist.distances.distance_embedding_spec import DistanceParameters, DistanceSpec, Omegas
from dkdist.distances.pair_function import Pairwise
from dkdist.distances.random_objects import draw_omegas
from dkdist.execution.arrays import cut, fill_in_memory
from dkdist.execution.passes import collect
from dkdist.execution.processes.process import drawn
from dkdist.loops.array_types import F32, I64
from dkdist.plain.flags import as_flag
from dkdist.sets import SampleSetError, SampleSets
from dkdist.store import SetStore

CHECKED = 8  # objects that a user's own function is tried on
MEDIAN_OBJECTS = 256


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
    return Pairwise(function, as_flag("symmetric", symmetric))


class DistanceEmbedding(SetEmbedding):
    """Embed sets, series or strings by their distances to R random objects: linear time, whatever the distance.

    Features exp(-gamma d(x, omega_j)) / sqrt(R) of random objects omega_j; inner products of rows estimate the kernel
    k(x, y) = E exp(-gamma (d(x, omega) + d(y, omega))), positive definite for any dissimilarity d. N x R distances
    are computed, never N x N.

    Parameters
    ----------
    distance : str or object
        "dtw" (series: rows of a set in order), "levenshtein" (strings), "modified-hausdorff",
        "directed-modified-hausdorff" (both terms, 2R features), "hausdorff", "chamfer", "energy",
        "sliced-wasserstein" (p = 2, 50 directions), "wasserstein" (p = 1, exact, by POT, slow); an object with options
        (`DynamicTimeWarping`, `Levenshtein`, `Chamfer`, `Energy`, `SlicedWasserstein`, `Wasserstein`, ...);
        `pairwise` around a function of yours; or an object of yours with ``prepare`` and ``fill``, which is given true
        coordinates (float32, or float64 where the sets have an origin).
    sampler : str, default="auto"
        Where random objects come from. From the data: "subsample" (random points of an object, in order), "segment" (a
        contiguous piece), "element" (single points), "object" (whole objects without repetition: the
        representative-set method). Made up: "gaussian" and "walk" (independent points, or a Gaussian random walk, with
        the data's mean and standard deviation), "sphere" and "ball" (about the origin; radius the root mean square,
        and the largest, norm of the data); for strings "uniform" and "markov" (over the data's symbols; a
        first-order chain). "auto": "segment" for strings, "object" for `pairwise`, else "subsample".
    n_components : int, default=1024
        The number R of random objects.
    gamma : float, list of floats or "median", default="median"
        Of exp(-gamma d), in units of 1/d. "median": 1 over the median distance of sampled objects to the random
        ones. 0: the distances themselves, not divided by sqrt(R). A list: features of each side by side.
    standardize : bool, default=False
        Whether features have mean 0 and standard deviation 1 over the sets of `fit`; costs another pass over them.
    lengths : (int, int) or "auto", default="auto"
        Lengths of random objects are drawn uniformly from this range, ends included. "auto": from 1 to the median
        length of an object, but at most 64 for strings, 32 for series and 16 for sets.
    unknown_symbols : {"raise", "differ"}, default="raise"
        What becomes, in `transform`, of a character that no string had in `fit`: an error, or it differs from all
        others. Codes without an alphabet (bytes, integers) that no random object has just differ.
    on_error : {"raise", "skip"}, default="raise"
        What becomes of a bad set: "raise" names the first one; "skip" leaves it out of `fit` and gives it a row of NaN,
        with a warning.
    random_state : int, Generator or None
        Seed of the random objects.

    Attributes
    ----------
    spec_ : DistanceSpec
        What was chosen: the distance, the random objects as arrays, gammas, centre and scale.
    gamma_ : float or list of floats
        What was used.
    omegas_ : SampleSets
        The R random objects.
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
        squares them in float32 ("dtw", "energy", the Hausdorff distances, "chamfer").
    ValueError
        For an unknown distance or sampler, random objects longer than the data, more whole objects than there are; if
        a function of yours is negative, not finite or not symmetric on a sample.

    Notes
    -----
    A `SetStore` gives a lazy dask array with known chunks; anything else an ndarray. Rows are float32, and a row
    depends on its object alone, bit for bit on processors of one kind. Random objects are drawn from a sample of at
    most max(256, R) objects or four million points. The kernel's error falls as 1 / sqrt(R) (Proposition 2 of the
    paper); learners do best with standardised features. Cost of an object of length n against one of length l: dtw n l
    d, levenshtein n l / 64 words, Hausdorff and energy n l d, sliced 50 (n + l) after sorting.

    Wu, Yen, Xu, Ravikumar, Witbrock, D2KE: from distance to kernel and embedding (2018), Eqs. 2-4.

    Examples
    --------
    >>> import dkdist as dk
    >>> words = ["GATTACA", "GATTACCA", "TTTTTTT", "TTTTTATT"]
    >>> A = dk.DistanceEmbedding("levenshtein", n_components=64, random_state=0).fit_transform(words)
    >>> A.shape, bool(((A[0] - A[1]) ** 2).sum() < ((A[0] - A[2]) ** 2).sum())
    ((4, 64), True)
    """

    _label = "distance_embedding"
    _takes_text = True
    spec_: DistanceSpec

    def __init__(
        self,
        distance: Any,
        sampler: str = "auto",
        n_components: int = 1024,
        gamma: float | Sequence[float] | str = "median",
        standardize: bool = False,
        lengths: tuple[int, int] | str = "auto",
        unknown_symbols: str = "raise",
        on_error: str = "raise",
        random_state: Any = None,
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

    def fit(self, X: Any, y: Any = None) -> DistanceEmbedding:
        """Draw random objects from the sets X; one pass over the data, two if standardised. ``y`` is not used."""
        as_flag("standardize", self.standardize)
        R = whole("n_components", self.n_components)
        unknown = one_of("unknown_symbols", self.unknown_symbols, ("raise", "differ"))
        gammas = _gammas(self.gamma)
        sets, seed = check_sets(X, text=True), draw_seed(self.random_state)
        distance = as_distance(self.distance, sets.n_dims, seed)
        require_kind(distance, sets)
        sampler = as_sampler(self.sampler, distance, sets)
        found = self._look(sets, None)
        require_units(distance, found)
        sample, places = _sample(sets, found.bad, R, seed)
        if sampler == "object" and len(sample) < R:
            raise ValueError(
                f"sampler='object' takes different objects, and there are {len(sample)} to choose from: found "
                f"n_components={R}. Give at most {len(sample)}, or another sampler"
            )
        traits(distance).try_on(sample[:CHECKED], places)
        lengths = omega_lengths(self.lengths, sampler, distance, sample)
        omegas = Omegas.of(draw_omegas(sampler, sample, R, lengths, [seed, Role.OBJECTS]), distance)
        raw = DistanceSpec(distance, omegas, (0.0,), sets.n_dims, sets.alphabet, unknown)
        if gammas is None:
            looked_at = some(len(sample), MEDIAN_OBJECTS, seed)
            gammas = (_median_gamma(drawn(raw), sample[looked_at], places[looked_at], skips(self)),)
        self.spec_ = replace(raw, gammas=gammas)
        if as_flag("standardize", self.standardize):
            centre, scale = _column_moments(self.spec_, sets, found.bad, skips(self))
            self.spec_ = replace(self.spec_, centre=centre, scale=scale)
        return self

    @property
    def omegas_(self) -> SampleSets:
        """The R random objects."""
        check_is_fitted(self)
        return self.spec_.omegas.sets(self.spec_.alphabet, self.spec_.distance, origin_of(self))

    @property
    def gamma_(self) -> float | list[float]:
        """The gamma, or list of them, that was used."""
        check_is_fitted(self)
        gammas = list(self.spec_.gammas)
        return gammas if isinstance(self.gamma, (list, tuple, np.ndarray)) else gammas[0]

    def transform(self, X: Any) -> Any:
        """Rows of the sets X: (n_sets, m) float32, a dask array for a store and an ndarray for anything else."""
        check_is_fitted(self)
        sets = check_sets(X, self.n_features_in_, text=True, origin=origin_of(self))
        require_kind(self.spec_.distance, sets)
        if (sets.alphabet is None) != (self.spec_.alphabet is None):
            kinds = "strings of characters", "points or codes without an alphabet"
            was, are = kinds if self.spec_.alphabet is not None else kinds[::-1]
            raise SampleSetError(
                f"the sets (set 0 and all others) are {are}, but this embedding was fitted on {was}: give the same kind"
            )
        return super().transform(sets)


def _gammas(given: Any) -> tuple[float, ...] | None:
    if isinstance(given, str):
        one_of("gamma", given, ("median",))
        return None
    values = np.atleast_1d(np.asarray(given, np.float64))
    if values.ndim != 1 or len(values) == 0 or not ((values >= 0) & (values <= MOST)).all():
        raise ValueError(
            f"gamma must be 'median', a number from 0 to {MOST:g} or a list of them; found {given!r}"
        )
    return tuple(values.tolist())


def _sample(sets: Sets, bad: I64, R: int, seed: int) -> tuple[SampleSets, I64]:
    """Random objects, not bad ones, in their order, and their places: enough for R different ones, if memory allows."""
    good = np.setdiff1d(np.arange(len(sets)), bad)
    mean_size = max(1, sets.n_points // len(sets))
    count = int(np.clip(SAMPLE_POINTS // mean_size, 1, min(max(SAMPLE_SETS, R), len(good))))
    chosen = np.sort(np.random.default_rng([seed, Role.OBJECTS, 1]).permutation(good)[:count])
    return loaded(sets[chosen], chosen), chosen


def loaded(sets: Sets, positions: I64) -> SampleSets:
    """The sets in memory; an error names one that cannot be read by its position."""
    if isinstance(sets, SampleSets):
        return sets
    made: Attempt[SampleSets | None] = attempt(lambda read, first: read, sets, positions, None, skip=False)
    found = made.results[0]
    assert found is not None
    return found


def _median_gamma(parameters: DistanceParameters, sample: SampleSets, places: I64, skip: bool) -> float:
    def distances(sets: SampleSets, first: int) -> F32:
        with naming_random(range(first, first + len(sets))):
            return parameters.distances(sets)

    lost = np.empty((0, parameters.spec.n_distances), np.float32)
    D = np.concatenate(attempt(distances, sample, places[: len(sample)], lost, skip=skip).results)
    positive = D[D > 0]
    return settled(1 / float(np.median(positive))) if len(positive) else 1.0


def _column_moments(
    spec: DistanceSpec, sets: Sets, bad: I64, skip: bool
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and standard deviation of every feature over the good sets, to seven digits."""
    good = np.setdiff1d(np.arange(len(sets)), bad)
    kept = sets if len(bad) == 0 else sets[good]
    moments = partial(_moments, skip, drawn(spec))
    if isinstance(kept, SetStore):
        blocks = unread_blocks(kept, 4 * spec.n_features)
        places = [good[a:b] for a, b in itertools.pairwise(blocks.bounds.tolist())]
        found = collect(blocks, moments, places, label="feature_moments")
    else:
        bounds = cut(kept.sizes, 4 * kept.n_dims, 4 * spec.n_features)
        parts = dict[int, list[tuple[int, Any, Any]]]()

        def fill(rows: slice) -> None:
            parts[rows.start] = moments(kept[rows], good[rows])

        fill_in_memory(fill, bounds)
        found = [parts[start] for start in sorted(parts)]
    n, mean, spread = reduce(merged, itertools.chain.from_iterable(found))
    return tuple(map(settled, mean.tolist())), tuple(map(settled, np.sqrt(spread / n).tolist()))


def _moments(
    skip: bool, parameters: DistanceParameters, sets: Sets, places: I64
) -> list[tuple[int, Any, Any]]:
    def work(some: SampleSets, first: int) -> tuple[int, Any, Any] | None:
        with naming_random(range(first, first + len(some))):
            return column_moments(parameters.embed(some))

    return [part for part in attempt(work, sets, places, None, skip=skip).results if part is not None]
