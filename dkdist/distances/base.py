"""Distances between objects, a block of them against all random objects at once.

An object is a set of points, a series or a string; R random objects ("omegas") are held fixed, and N objects come by
in blocks (D2KE: phi_j(x) = exp(-gamma d(x, omega_j)) / sqrt(R), Wu et al. 2018). Every distance is a frozen dataclass
of its options with

``ordered``
    whether the order of an object's points matters,
``codes``
    whether points are integer codes, (T, 1) uint8 or uint16; else they are (T, d) float32; those of
    `dkdist` know differences alone, and are given points counted from anywhere,
``takes_weights``
    whether points may have weights,
``n_parts``
    features for each omega,
``prepare(points, offsets, weights) -> packed``
    the omegas made ready, once: object j is ``points[offsets[j]:offsets[j + 1]]``, ``offsets`` (R + 1,) int64. The
    result can be pickled, is never changed, and has the attribute ``n_omegas``,
``fill(packed, points, offsets, weights, out) -> None``
    the distance of every object to every omega: ``out`` (n, R * n_parts) float32, C-contiguous, columns in the order
    in which the omegas were given.

Row i depends on object i alone and column j on omega j alone, bit for bit, whatever is in the block and whatever else
is packed. Nothing runs in threads here; compiled loops release the interpreter, so blocks can.

Few plain points as sets, at once: to look at a collection takes ten times as long as to compare two series.

Plain are floats of which there is nothing to say: `OrderedSample` (`sets/origins.py`) would find no origin and no
crowded column, `require_units` nothing to refuse, and `warn_if_coarse` nothing to tell. Each column is looked at in
its own order, S_0 <= .. <= S_(n-1). It is plain if it is as wide as many steps of float32, and

    all its values are float32; or
    different values stay different there, and both S_(n/4) and S_(3n/4) are further from the median than a 64th of it.

Fewer than half of the values lie between these quarters, so the median distance from the median, which a natural origin
is chosen by, is no less than that to the nearer one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from dkdist._base.inputs import DataSummary, Sets, check_both, summarize
from dkdist._base.invalid_sets import naming, require_finite_distances
from dkdist._numba.arrays import F32, I64, Array
from dkdist._numba.compilation import loop
from dkdist._numba.elementary import f32
from dkdist.io import SetStore
from dkdist.sets import SampleSetError, SampleSets
from dkdist.sets.origins import FAR, SAMPLE_ROWS, SAMPLE_VALUES
from dkdist.sets.point_checks import locate
from dkdist.sets.strings import translation

NEAREST, FARTHEST = 1e-15, 1e15  # coordinates and widths whose squares, and long sums of them, are float32
FLOATS = np.dtype(np.float64), np.dtype(np.float32)
MOST_DIMS = SAMPLE_VALUES // SAMPLE_ROWS  # in which all of so many rows are looked at
LEAST, MOST = 2 * NEAREST, FARTHEST / 2  # rounded to float32 they are still within what distances take
STEPS = 2.0**-16  # of the largest value: 128 steps of float32


def few_sets(arrays: Any) -> SampleSets | None:
    """The sets of a list of (n_i, d) arrays as `as_sample_sets` makes them, if they are few and plain; else None."""
    if type(arrays) not in (list, tuple):
        return None
    edges, d = [0], 0
    for points in arrays:
        if type(points) is not np.ndarray or points.dtype not in FLOATS or points.ndim != 2:
            return None
        n, own = points.shape
        if n == 0 or own == 0 or own != (d or own):
            return None
        edges.append(edges[-1] + n)
        d = own
    if not 0 < edges[-1] <= SAMPLE_ROWS or d > MOST_DIMS:
        return None
    rows = np.concatenate(arrays, dtype=np.float64)
    if not _are_plain(np.sort(rows, axis=0)):
        return None
    return SampleSets._trusted(rows.astype(np.float32), np.array(edges))


@loop()
def _are_plain(S):  # type: ignore[no-untyped-def]
    """Whether all columns of S (n, d), each in order, are plain; NaN stands last."""
    n, d = S.shape
    for j in range(d):
        low, high = S[0, j], S[n - 1, j]
        width, size = high - low, max(-low, high)
        if not (size <= MOST and (width == 0.0 or width >= max(LEAST, STEPS * size))):
            return False
        exact = distinct = True
        before = low
        for i in range(n):
            value = S[i, j]
            exact &= np.float64(f32(value)) == value
            distinct &= value == before or f32(value) != f32(before)
            before = value
        below, above = S[(n - 1) // 2, j], S[n // 2, j]
        spread = min(below - S[n // 4, j], S[n - 1 - n // 4, j] - above)
        if not (exact or (distinct and spread >= LEAST and max(-below, above) < FAR * spread)):
            return False
    return True


class CostModel(NamedTuple):
    """How all pairs are cut into tasks: what it costs to take fewer columns, and to take them again.

    ``lanes`` prepared objects are compared as fast as one; ``ahead`` is how many objects are compared with
    prepared ones in the time of making these ready, 0 where that is nothing. Neither changes a bit.
    """

    lanes: int
    ahead: float


class Distance:
    """What a distance says of itself, as most distances say it; those of `dkdist` derive from it."""

    ordered: bool = False
    codes: bool = False
    takes_weights: bool = False
    n_parts: int = 1
    symmetric: bool = True
    squares = False  # coordinates, in float32: points and widths must have squares there
    knows_differences = True  # alone: points may be counted from anywhere
    by_function = False  # of a user's: it takes points, codes, and text as str, and is tried on some objects
    dtype: type[np.floating] = np.float32
    sampler = "subsample"  # of random objects, unless asked for otherwise
    symbols: str = ""  # of text, that mean something by themselves and not only as equal or unequal

    def prepare(self, points: Any, offsets: I64, weights: F32 | None) -> Any:
        """Objects made ready to be compared with, once."""
        raise NotImplementedError

    def fill(self, packed: Any, points: Any, offsets: I64, weights: F32 | None, out: F32) -> None:
        """The distances of objects to the prepared ones: ``out`` (n, R n_parts) float32."""
        raise NotImplementedError

    def grain(self, sizes: I64, n_dims: int) -> CostModel:
        """How pairs of objects of such sizes are best cut into tasks; that of sets in `loops.lanes`."""
        return CostModel(64, 100 / sizes.mean())

    def __call__(self, x: Any, y: Any) -> float:
        """The distance of two objects, checked and bit for bit as `distance_matrix` has it.

        For many pairs `distance_matrix` is much faster. Overhead of a call: 0.5 ms; 40 us for few points; 0.5 us for
        two str.
        """
        return distance_of(self, x, y)

    def refuse_weights(self, weights: F32 | None) -> None:
        """Raise ValueError if objects come with weights that change nothing."""
        if weights is not None:
            raise ValueError(
                f"{type(self).__name__} has no use for weights, but weights were given: leave them out, or take a "
                "distance of measures, such as Energy"
            )

    def for_alphabet(self, alphabet: str | None) -> Distance:
        """The same for codes in an alphabet, which has all ``symbols``; None for codes of another kind."""
        return self

    def validate_on(self, sets: SampleSets, positions: Any) -> None:
        """Refuse what is no distance of these sets, which stand at some positions of the user's collection."""


class _UserDistance(Distance):
    knows_differences = False


def capabilities(distance: Any) -> Distance:
    """What a distance says of itself beyond what is listed above, or, for an object of a user's, the defaults."""
    return distance if isinstance(distance, Distance) else _UserDistance()


@dataclass(frozen=True)
class Comparing:
    """A distance, and the alphabet that the prepared strings have their codes in; other symbols differ from all."""

    distance: Distance
    alphabet: str | None

    def prepare(self, points: Any, offsets: I64, weights: F32 | None) -> Any:
        """Objects made ready to be compared with, their codes in the alphabet."""
        return self._distance.prepare(_as_kind(self.distance, points), offsets, weights)

    @property
    def dtype(self) -> Any:
        """Of distances: float32, as compiled loops make them, or float64 for those of a user's function."""
        return capabilities(self.distance).dtype

    def fill(self, packed: Any, sets: SampleSets, out: Array) -> None:
        """The distances of objects to prepared ones."""
        weights = None if sets.weights is None else sets.weights.reshape(-1)
        points = _as_kind(self.distance, self._translated(sets))
        self._distance.fill(packed, points, sets.offsets, weights, out)
        require_finite_distances(out, self.distance.n_parts)

    @property
    def _distance(self) -> Distance:
        known = isinstance(self.distance, Distance)
        return self.distance.for_alphabet(self._alphabet) if known else self.distance

    @property
    def _alphabet(self) -> str | None:
        """That of the prepared strings, and after it what else the distance knows."""
        if self.alphabet is None:
            return None
        more = (symbol for symbol in capabilities(self.distance).symbols if symbol not in self.alphabet)
        return self.alphabet + "".join(more)

    def _translated(self, sets: SampleSets) -> Array:
        alphabet = self._alphabet
        if sets.alphabet is None or alphabet is None or sets.alphabet == self.alphabet:
            return points_for(self.distance, sets)
        table = translation(sets.alphabet, alphabet)
        codes = table[sets.relative]
        return np.where(codes < 0, len(alphabet), codes).astype(np.uint16)


def points_for(distance: Distance, sets: SampleSets) -> Array:
    """The points of sets: as they are kept for distances of this library, true coordinates for a user's own."""
    return sets.relative if capabilities(distance).knows_differences else sets.points


def _as_kind(distance: Distance, points: Array) -> Array:
    """Codes where codes or text are compared, else float32."""
    keeps = distance.codes or capabilities(distance).by_function or points.dtype.kind == "f"
    return points if keeps else points.astype(np.float32)


def compare(distance: Distance, a: SampleSets, b: SampleSets) -> Array:
    """(len(a), len(b)) distances, as the distance has them."""
    comparing = Comparing(distance, b.alphabet)
    weights = None if b.weights is None else b.weights.reshape(-1)
    out = np.empty((len(a), len(b) * distance.n_parts), comparing.dtype)
    comparing.fill(comparing.prepare(points_for(distance, b), b.offsets, weights), a, out)
    return out


def distance_of(distance: Distance, x: Any, y: Any) -> float:
    """d(x, y); `SampleSetError` for objects that cannot be compared, ValueError for a distance of several numbers."""
    require_one_part(distance)
    rows, columns = (None, None) if distance.codes else (few_sets([x]), few_sets([y]))
    if rows is None or columns is None or rows.n_dims != columns.n_dims:
        rows, columns = _checked(distance, x, y)
    with naming(lambda i, j: "the first object to the second"):
        return float(compare(distance, rows, columns)[0, 0])


def _checked(distance: Distance, x: Any, y: Any) -> tuple[SampleSets, SampleSets]:
    rows, columns = check_both([x], [y], "distance(x, y)", text=True)
    for side in (rows, columns):
        assert side is not None
        require_kind(distance, side)
        require_units(distance, summarize(side, None, skip=False))
    require_alike(rows, columns)
    assert isinstance(rows, SampleSets)
    assert isinstance(columns, SampleSets)
    return rows, columns


def require_alike(rows: Sets, columns: Sets | None) -> None:
    """Raise SampleSetError if one collection holds strings of characters and the other codes."""
    if columns is not None and (columns.alphabet is None) != (rows.alphabet is None):
        raise SampleSetError(
            "sets and other (set 0 and all others) are strings of different kinds: give the same"
        )


def require_one_part(distance: Distance) -> None:
    """Refuse a distance that gives several numbers for a pair."""
    if distance.n_parts != 1:
        raise ValueError(
            f"{type(distance).__name__} gives {distance.n_parts} numbers for a pair: take one that gives one"
        )


def require_kind(distance: Distance, sets: Sets) -> None:
    """Refuse objects that a distance cannot compare: points for strings, strings for points, weights."""
    name, codes = type(distance).__name__, sets.points_dtype != np.float32
    if distance.codes and not codes:
        raise SampleSetError(
            f"{name} compares strings, but the sets (set 0 and all others) are real-valued points of {sets.n_dims} "
            "dimension(s): give a list of str, of bytes, or of integer sequences"
        )
    if sets.alphabet is not None and not distance.codes and not capabilities(distance).by_function:
        raise SampleSetError(
            f"{name} compares points, but the sets (set 0 and all others) are strings of characters: give "
            "'levenshtein', or pairwise(function)"
        )
    if distance.codes and isinstance(distance, Distance):
        distance.for_alphabet(None if sets.alphabet is None else sets.alphabet + distance.symbols)
    weighted = sets.weights_shape is not None if isinstance(sets, SetStore) else sets.weights is not None
    if weighted and not distance.takes_weights:
        raise SampleSetError(
            f"{name} has no use for weights, but the sets (set 0 and all others) have some: leave them out, or take a "
            "distance of measures, such as 'energy'"
        )


def require_units(distance: Distance, found: DataSummary) -> None:
    """Refuse collections in units in which squared distances are no float32."""
    if not capabilities(distance).squares:
        return
    low, high = found.low.astype(np.float64), found.high.astype(np.float64)
    width, size = float((high - low).max()), float(np.maximum(-low, high).max())
    if size > FARTHEST or 0 < width < NEAREST:
        raise SampleSetError(
            f"the sets (set 0 and all others) are {width:.3g} wide, with coordinates up to {size:.3g}: "
            f"{type(distance).__name__} squares distances in float32, for widths of at least {NEAREST:g} and "
            f"coordinates up to {FARTHEST:g}. Give the points in other units"
        )


def require_squares(distance: Distance, sets: SampleSets, first: int) -> None:
    """Refuse points whose squared distances are no float32, where a distance is made of them."""
    if not capabilities(distance).squares or np.abs(sets.relative).max(initial=0) <= FARTHEST:
        return
    far = (np.abs(sets.relative) > FARTHEST).any(axis=1)
    i, r = locate(sets.offsets, int(np.argmax(far)))
    value = float(np.abs(sets.relative[sets.offsets[i] + r]).max())  # from the origin
    raise SampleSetError(
        f"point {r} of set {first + i} has a coordinate of {value:.3g}, beyond {FARTHEST:g}: {type(distance).__name__} "
        "squares distances in float32. Give the points in larger units"
    )
