"""Interface of distances, which compare the objects of a block with R landmarks (D2KE, Wu et al. 2018).

An object is a set of points, a series or a string. A distance is a frozen dataclass of its options, with

``ordered``
    whether the order of an object's points matters,
``codes``
    whether points are integer codes, (T, 1) uint8 or uint16; otherwise they are (T, d) float32,
``takes_weights``
    whether points may have weights,
``n_parts``
    number of features per landmark,
``prepare(points, offsets, weights) -> packed``
    returns the landmarks in the form that `fill` reads; object j is ``points[offsets[j]:offsets[j + 1]]``, ``offsets``
    (R + 1,) int64. The result must be picklable and is never modified,
``fill(packed, points, offsets, weights, out) -> None``
    computes the distance of every object to every landmark: ``out`` (n, R * n_parts) float32, C-contiguous, columns in
    the order of the landmarks.

Optional attributes have defaults in `Distance`. User-defined distances need not inherit from it. They get points in
true coordinates (``is_translation_invariant`` False), dkdist's distances get points relative to the origin of the sets.

Row i must depend only on object i, and column j only on landmark j, bitwise. Distances start no threads; compiled
functions release the GIL, so that blocks can run in threads.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from dkdist._base.inputs import DataSummary, Sets, check_two_collections, summarize
from dkdist._base.invalid_sets import name_pair_errors, require_finite_distances
from dkdist._numba.arrays import F32, I64, Array
from dkdist._numba.compilation import jit
from dkdist._numba.elementary import f32
from dkdist.io.lazy_sets import LazySets
from dkdist.sets import SampleSetError, SampleSets
from dkdist.sets.origins import MAX_SAMPLE_ROWS, MAX_SAMPLE_VALUES, MIN_OFFSET_RATIO
from dkdist.sets.point_checks import locate
from dkdist.sets.strings import translate_codes

# In this range, squares of coordinates and widths, and long sums of them, are within float32 (3.4e38, IEEE 754-2019).
MIN_WIDTH, MAX_COORDINATE = 1e-15, 1e15
FLOAT_DTYPES = np.dtype(np.float64), np.dtype(np.float32)
# With more dimensions, dkdist/sets/origins.py samples rows.
MAX_UNCHECKED_DIMS = MAX_SAMPLE_VALUES // MAX_SAMPLE_ROWS
# Points within these limits are within the limits above after rounding to float32 (tests/distances/test_few_points.py).
MIN_UNCHECKED_WIDTH, MAX_UNCHECKED_COORDINATE = 2 * MIN_WIDTH, MAX_COORDINATE / 2
MIN_WIDTH_RATIO = 2.0**-16  # width over largest value: 128 float32 steps (tests/distances/test_few_points.py)


def small_sample_sets(arrays: Any) -> SampleSets | None:
    """Convert a short list of (n_i, d) arrays that obviously passes all checks; return None for any other input.

    The result equals that of `as_sample_sets`, whose checks would take ten times as long as a distance.
    """
    if type(arrays) not in (list, tuple):
        return None
    edges, d = [0], 0
    for points in arrays:
        if type(points) is not np.ndarray or points.dtype not in FLOAT_DTYPES or points.ndim != 2:
            return None
        n, n_dims = points.shape
        if n == 0 or n_dims == 0 or n_dims != (d or n_dims):
            return None
        edges.append(edges[-1] + n)
        d = n_dims
    if not 0 < edges[-1] <= MAX_SAMPLE_ROWS or d > MAX_UNCHECKED_DIMS:
        return None
    rows = np.concatenate(arrays, dtype=np.float64)
    if not _columns_need_no_checks(np.sort(rows, axis=0)):
        return None
    return SampleSets._trusted(rows.astype(np.float32), np.array(edges))


@jit()
def _columns_need_no_checks(S):  # type: ignore[no-untyped-def]
    """Return whether `OrderedSample` needs no origin and all checks pass, for columns of sorted values S (n, d).

    A column passes if its relative width is at least `MIN_WIDTH_RATIO` and one of two conditions holds: all values are
    float32; or distinct values remain distinct in float32, and the quartiles differ from the median by more than 1/64
    of it. Fewer than half of the values lie between the quartiles, so the median absolute deviation, which determines
    whether an origin is used, is at least that large.
    """
    n, d = S.shape
    for j in range(d):
        low, high = S[0, j], S[n - 1, j]  # NaN is sorted last
        width, size = high - low, max(-low, high)
        is_wide = width == 0.0 or width >= max(MIN_UNCHECKED_WIDTH, MIN_WIDTH_RATIO * size)
        if not (size <= MAX_UNCHECKED_COORDINATE and is_wide):
            return False
        is_exact = is_distinct = True
        previous = low
        for i in range(n):
            value = S[i, j]
            is_exact &= np.float64(f32(value)) == value
            is_distinct &= value == previous or f32(value) != f32(previous)
            previous = value
        median_low, median_high = S[(n - 1) // 2, j], S[n // 2, j]
        spread = min(median_low - S[n // 4, j], S[n - 1 - n // 4, j] - median_high)
        is_near = spread >= MIN_UNCHECKED_WIDTH and max(-median_low, median_high) < MIN_OFFSET_RATIO * spread
        if not (is_exact or (is_distinct and is_near)):
            return False
    return True


class CostModel(NamedTuple):
    """Relative costs, used to split the matrix of all pairs into tasks; they do not affect results.

    Comparing an object with ``group_size`` prepared objects takes as long as with one. Preparing an object takes as
    long as ``prepare_cost`` comparisons with it; 0 means negligible.
    """

    group_size: int
    prepare_cost: float


class Distance:
    """Base class of distances, with default capabilities."""

    ordered: bool = False
    codes: bool = False
    takes_weights: bool = False
    n_parts: int = 1
    symmetric: bool = True
    squares_coordinates = False  # in float32, so coordinates must not overflow or underflow
    is_translation_invariant = True  # points may be relative to any origin
    is_user_function = False  # accepts points, codes and str; validated on sampled objects
    dtype: type[np.floating] = np.float32
    default_sampler = "subsample"
    symbols: str = ""  # characters with their own costs

    def prepare(self, points: Any, offsets: I64, weights: F32 | None) -> Any:
        """Convert landmarks to the form that `fill` reads."""
        raise NotImplementedError

    def fill(self, packed: Any, points: Any, offsets: I64, weights: F32 | None, out: F32) -> None:
        """Compute the distances of objects to prepared ones: ``out`` (n, R n_parts) float32."""
        raise NotImplementedError

    def cost_model(self, sizes: I64, n_dims: int) -> CostModel:
        """Return the costs for objects of these sizes; the default is for packed sets (`pack_landmarks`)."""
        return CostModel(64, 100 / sizes.mean())

    def __call__(self, x: Any, y: Any) -> float:
        """Return the distance of two objects, after checks; bitwise identical to `distance_matrix`.

        For many pairs `distance_matrix` is much faster. Overhead of a call: 0.5 ms; 40 us for small sets; 0.5 us
        for two str.
        """
        return compute_distance(self, x, y)

    def reject_weights(self, weights: F32 | None) -> None:
        """Raise ValueError if objects have weights."""
        if weights is not None:
            raise ValueError(
                f"{type(self).__name__} does not use weights; got weights. Omit them, or use a distance of weighted "
                "sets, such as Energy."
            )

    def for_alphabet(self, alphabet: str | None) -> Distance:
        """Return this distance for codes in an alphabet of ``symbols``; None means codes without an alphabet."""
        return self

    def validate_on(self, sets: SampleSets, positions: Any) -> None:
        """Raise ValueError if the distance is invalid for ``sets``, at ``positions`` of the user's collection."""


class _UserDistance(Distance):
    is_translation_invariant = False


def capabilities(distance: Any) -> Distance:
    """Return ``distance`` itself, or default capabilities for a user-defined object."""
    return distance if isinstance(distance, Distance) else _UserDistance()


@dataclass(frozen=True)
class DistanceEvaluator:
    """Distance with the alphabet of the prepared strings; symbols outside it differ from all others."""

    distance: Distance
    alphabet: str | None

    def prepare(self, points: Any, offsets: I64, weights: F32 | None) -> Any:
        """Prepare landmarks whose codes are in the alphabet."""
        return self._distance.prepare(_convert_points(self.distance, points), offsets, weights)

    @property
    def dtype(self) -> Any:
        """Dtype of distances: float32 for compiled functions, float64 for a user's function."""
        return capabilities(self.distance).dtype

    def fill(self, packed: Any, sets: SampleSets, out: Array) -> None:
        """Compute the distances of sets to prepared objects."""
        weights = None if sets.weights is None else sets.weights.reshape(-1)
        distance, points = self._distance, _convert_points(self.distance, self._translate(sets))
        if sets.alphabet is not None and capabilities(self.distance).is_user_function:
            # A function receives the strings themselves, so that unknown symbols stay distinct.
            distance, points = self.distance.for_alphabet(sets.alphabet), sets.points
        distance.fill(packed, points, sets.offsets, weights, out)
        require_finite_distances(out, self.distance.n_parts)

    @property
    def _distance(self) -> Distance:
        is_known = isinstance(self.distance, Distance)
        return self.distance.for_alphabet(self._alphabet) if is_known else self.distance

    @property
    def _alphabet(self) -> str | None:
        """Return the alphabet of the prepared strings, extended by the symbols of the distance."""
        if self.alphabet is None:
            return None
        added = (symbol for symbol in capabilities(self.distance).symbols if symbol not in self.alphabet)
        return self.alphabet + "".join(added)

    def _translate(self, sets: SampleSets) -> Array:
        alphabet = self._alphabet
        if sets.alphabet is None or alphabet is None or sets.alphabet == self.alphabet:
            return points_for(self.distance, sets)
        table = translate_codes(sets.alphabet, alphabet)
        codes = table[sets.relative]
        return np.where(codes < 0, len(alphabet), codes).astype(np.uint16)


def points_for(distance: Distance, sets: SampleSets) -> Array:
    """Return points relative to their origin, or true coordinates for a user's distance."""
    return sets.relative if capabilities(distance).is_translation_invariant else sets.points


def _convert_points(distance: Distance, points: Array) -> Array:
    takes_codes = distance.codes or capabilities(distance).is_user_function
    return points if takes_codes or points.dtype.kind == "f" else points.astype(np.float32)


def compute_distances(distance: Distance, a: SampleSets, b: SampleSets) -> Array:
    """Compute the (len(a), len(b) n_parts) distances, in the dtype of the distance."""
    evaluator = DistanceEvaluator(distance, b.alphabet)
    weights = None if b.weights is None else b.weights.reshape(-1)
    out = np.empty((len(a), len(b) * distance.n_parts), evaluator.dtype)
    evaluator.fill(evaluator.prepare(points_for(distance, b), b.offsets, weights), a, out)
    return out


def compute_distance(distance: Distance, x: Any, y: Any) -> float:
    """Compute d(x, y); raise SampleSetError for incomparable objects, ValueError for a distance with several parts."""
    require_one_part(distance)
    rows, columns = (None, None) if distance.codes else (small_sample_sets([x]), small_sample_sets([y]))
    if rows is None or columns is None or rows.n_dims != columns.n_dims:
        rows, columns = _check_pair(distance, x, y)
    with name_pair_errors(lambda i, j: "the first object to the second"):
        return float(compute_distances(distance, rows, columns)[0, 0])


def _check_pair(distance: Distance, x: Any, y: Any) -> tuple[SampleSets, SampleSets]:
    rows, columns = check_two_collections([x], [y], "distance(x, y)", text=True)
    for side in (rows, columns):
        assert side is not None
        require_kind(distance, side)
        require_units(distance, summarize(side, None, skip=False))
    require_same_kind(rows, columns)
    assert isinstance(rows, SampleSets)
    assert isinstance(columns, SampleSets)
    return rows, columns


def require_same_kind(rows: Sets, columns: Sets | None) -> None:
    """Raise SampleSetError if only one of two collections contains strings of characters."""
    if columns is not None and (columns.alphabet is None) != (rows.alphabet is None):
        raise SampleSetError(
            "sets and other must both contain characters or both contain codes; got one of each."
        )


def require_one_part(distance: Distance) -> None:
    """Raise ValueError for a distance with several values per pair."""
    if distance.n_parts != 1:
        raise ValueError(
            f"distance must give 1 number per pair; {type(distance).__name__} gives {distance.n_parts}. "
            "Use another distance."
        )


def require_kind(distance: Distance, sets: Sets) -> None:
    """Raise SampleSetError if the distance does not accept the kind of objects (points or strings) or weights."""
    name, is_coded = type(distance).__name__, sets.points_dtype != np.float32
    if distance.codes and not is_coded:
        raise SampleSetError(
            f"{name} compares strings; got real-valued points of {sets.n_dims} dimension(s) in all sets. "
            "Pass a list of str, of bytes, or of integer sequences."
        )
    if sets.alphabet is not None and not distance.codes and not capabilities(distance).is_user_function:
        raise SampleSetError(
            f"{name} compares points; got strings of characters in all sets. Use 'levenshtein' or "
            "pairwise(function)."
        )
    if distance.codes and isinstance(distance, Distance):
        distance.for_alphabet(None if sets.alphabet is None else sets.alphabet + distance.symbols)
    has_weights = sets.weights_shape is not None if isinstance(sets, LazySets) else sets.weights is not None
    if has_weights and not distance.takes_weights:
        raise SampleSetError(
            f"{name} does not use weights; got weights in all sets. Omit them, or use a distance "
            "of weighted sets, such as 'energy'."
        )


def require_units(distance: Distance, summary: DataSummary) -> None:
    """Raise SampleSetError if squared distances in a collection exceed the range of float32."""
    if not capabilities(distance).squares_coordinates:
        return
    low, high = summary.low.astype(np.float64), summary.high.astype(np.float64)
    width, size = float((high - low).max()), float(np.maximum(-low, high).max())
    if size > MAX_COORDINATE or 0 < width < MIN_WIDTH:
        raise SampleSetError(
            f"{type(distance).__name__} squares distances in float32 and requires a width >= {MIN_WIDTH:g} and "
            f"coordinates <= {MAX_COORDINATE:g}; got width {width:.3g} and coordinates up to {size:.3g} (set 0 and "
            "all others). Convert the points to other units."
        )


def require_squares(distance: Distance, sets: SampleSets, first: int) -> None:
    """Raise SampleSetError for points whose squares exceed float32, if the distance squares coordinates."""
    if not capabilities(distance).squares_coordinates:
        return
    sizes = np.abs(sets.relative)
    if sizes.max(initial=0) <= MAX_COORDINATE:
        return
    i, r = locate(sets.offsets, int(np.argmax((sizes > MAX_COORDINATE).any(axis=1))))
    size = float(sizes[sets.offsets[i] + r].max())
    raise SampleSetError(
        f"point {r} of set {first + i} has a coordinate of {size:.3g} (relative to the origin); "
        f"{type(distance).__name__} squares distances in float32 and requires coordinates <= {MAX_COORDINATE:g}. "
        "Convert the points to larger units."
    )
