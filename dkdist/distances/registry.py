"""What distances and samplers may be asked for: names and objects checked against the kind of the data.

Where a choice that was left to the data has to be guessed, a warning says so, and what to give.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from dkdist._base.inputs import Sets
from dkdist._base.parameter_checks import is_word, real_matrix, whole, within_float32
from dkdist._numba.arrays import F64
from dkdist._utils.validation import find_stacklevel
from dkdist.distances.base import Distance, capabilities
from dkdist.distances.distance_embedding_params import NAMED
from dkdist.distances.landmarks import FROM_DATA, OF_POINTS, OF_STRINGS, SAMPLERS, WITH_SIGMA, WITHOUT_LENGTHS
from dkdist.sets import SampleSets

CONTRACT = ("ordered", "codes", "takes_weights", "n_parts", "prepare", "fill")
LONGEST = {"codes": 64, "ordered": 32, "sets": 16}  # of omegas, unless asked for otherwise
LONG = 256  # points of objects that these lengths were not measured on
UNLIKE = 100  # times the spread of another column
WHOLE = {
    "codes": 256,
    "ordered": 0,
    "sets": 64,
}  # points of objects that are taken as they are: the cost is a square


def as_distance(given: Any, n_dims: int, seed: int) -> Distance:
    """The distance of that name, or the object itself."""
    if isinstance(given, str):
        if given not in NAMED:
            raise ValueError(
                f"distance must be one of {', '.join(map(repr, NAMED))}, or an object such as pairwise(function); "
                f"found {given!r}"
            )
        return NAMED[given](n_dims, seed)
    missing = [name for name in CONTRACT if not hasattr(given, name)]
    if missing or isinstance(given, type):
        hint = (
            "give pairwise(function) for a function of two objects"
            if callable(given)
            else f"it lacks {missing}"
        )
        raise ValueError(
            f"distance must be a name ({', '.join(map(repr, NAMED))}) or an object with {', '.join(CONTRACT)}; found "
            f"{given!r}: {hint}"
        )
    distance: Distance = given
    return distance


def register_distance(name: str, distance: Any) -> None:
    """Make a distance known by its name to all functions and estimators that take ``distance``.

    Parameters
    ----------
    name : str
        A new name, or one that was registered before with an equal distance.
    distance : object
        An object with the methods and properties of the package's distances; `pairwise` makes one from a function of
        two objects.

    Raises
    ------
    ValueError
        If the name is in use or not a string, or the object is not a distance.

    Examples
    --------
    >>> import dkdist as dk, numpy as np
    >>> gap = dk.pairwise(lambda x, y: abs(float(x.mean()) - float(y.mean())))
    >>> dk.register_distance("gap", gap)
    >>> print(dk.distance_matrix([np.zeros((2, 1)), np.ones((3, 1))], distance="gap"))
    [[0. 1.]
     [1. 0.]]
    """
    if not isinstance(name, str) or not name:
        raise ValueError(f"name must be a nonempty string; got {name!r:.200}")
    if isinstance(distance, str):
        raise ValueError(f"distance must be an object; got the name {distance!r:.200}")
    as_distance(distance, 1, 0)
    if name in NAMED and NAMED[name](1, 0) != distance:
        raise ValueError(f"name must be new; got {name!r}, which is registered. Choose another name")
    NAMED[name] = lambda n_dims, seed: distance


def as_sampler(given: Any, distance: Distance, sets: Sets, lengths: Any) -> str:
    """The sampler of that name, or the one that fits the distance."""
    text = sets.points_dtype != np.float32
    known = FROM_DATA | (OF_STRINGS if text else OF_POINTS)
    if is_word(given, "auto"):
        return _usual_sampler(distance, sets, lengths)
    if given not in known:
        other = f", which is for {'points' if text else 'strings'}" if given in SAMPLERS else ""
        raise ValueError(
            f"sampler must be one of 'auto', {', '.join(map(repr, known))}, a collection of objects, or a function of "
            f"a generator; found {given!r}{other}"
        )
    if given in ("leverage", "supervised") and distance.n_parts > 1:
        raise ValueError(
            f"sampler={given!r} needs a kernel, of one number a pair: {type(distance).__name__} gives "
            f"{distance.n_parts}. Take another sampler"
        )
    if given == "leverage":
        require_symmetric_distance("sampler='leverage'", distance)
    return str(given)


def require_symmetric_distance(what: str, distance: Distance) -> None:
    """Refuse a distance that depends on the direction where a kernel matrix is made of it."""
    if not capabilities(distance).symmetric:
        raise ValueError(
            f"{what} needs a kernel, which is symmetric, but {type(distance).__name__} with these options is not: d(x, "
            "y) is not d(y, x). Take another, or a distance that is"
        )


def _usual_sampler(distance: Distance, sets: Sets, lengths: Any) -> str:
    """Strings and sets as they are, unless they are long or pieces of some lengths are asked for; else pieces."""
    usual = "segment" if distance.codes else capabilities(distance).sampler
    if usual in WITHOUT_LENGTHS or not is_word(lengths, "auto"):
        return usual
    return "mixed" if np.median(sets.sizes) <= WHOLE[_kind(distance)] else usual


def _kind(distance: Distance) -> str:
    return "codes" if distance.codes else "ordered" if distance.ordered else "sets"


def omega_lengths(given: Any, sampler: str, distance: Distance, sample: SampleSets) -> tuple[int, int]:
    """The range that the lengths of omegas are drawn from; refuses pieces longer than every object."""
    if sampler in WITHOUT_LENGTHS:
        if given != "auto":
            raise ValueError(f"lengths={given!r} would change nothing for sampler={sampler!r}: leave it out")
        return 1, 1
    if isinstance(given, str):
        if given != "auto":
            raise ValueError(f"lengths must be 'auto' or (least, most); found {given!r}")
        return _usual_lengths(sampler, distance, sample)
    low, high = _as_range(given)
    longest = int(sample.sizes.max())
    if sampler in FROM_DATA and high > longest:
        raise ValueError(
            f"lengths={given!r} asks for random objects of up to {high} points, but the longest of the {len(sample)} "
            f"objects looked at has {longest}: ask for shorter ones, or give a sampler that makes them up"
        )
    return low, high


def made_up_sigma(given: Any, sampler: Any, sets: Sets) -> F64 | None:
    """The standard deviation of each coordinate of made-up points (d,), or None for that of the data."""
    if is_word(given, "auto"):
        return None
    if not any(is_word(sampler, word) for word in WITH_SIGMA):
        raise ValueError(
            f"sigma is of the samplers {' and '.join(map(repr, WITH_SIGMA))}, and would change nothing for "
            f"sampler={sampler!r:.200}: leave it out"
        )
    values = real_matrix("sigma", given)
    if values.shape not in ((), (sets.n_dims,)):
        raise ValueError(
            f"sigma must be 'auto', a number, or one for each of {sets.n_dims} dimension(s); found shape {values.shape}"
        )
    return np.array([within_float32("sigma", float(v)) for v in np.broadcast_to(values, sets.n_dims)])


def require_no_lengths(given: Any) -> None:
    """Refuse lengths where random objects are given."""
    if not is_word(given, "auto"):
        raise ValueError(
            f"lengths={given!r} would change nothing for random objects that are given: leave it out"
        )


def _as_range(given: Any) -> tuple[int, int]:
    try:
        low, high = given
    except (TypeError, ValueError) as error:
        raise ValueError(f"lengths must be 'auto' or (least, most); found {given!r}") from error
    low, high = whole("least of lengths", low), whole("most of lengths", high)
    if low > high:
        raise ValueError(f"lengths must be (least, most) with least <= most; found {given!r}")
    return low, high


def _usual_lengths(sampler: str, distance: Distance, sample: SampleSets) -> tuple[int, int]:
    """Beside whole objects nearly whole ones, else pieces from single points on."""
    median = int(np.median(sample.sizes))
    if sampler == "mixed":
        return -(-3 * median // 4), median
    return 1, min(LONGEST[_kind(distance)], median)


def warn_of_long_objects(sampler: str, lengths: tuple[int, int], sample: SampleSets) -> None:
    """Tell of objects longer than those whose random pieces were tried."""
    median = float(np.median(sample.sizes))
    if median > LONG and sampler not in ("mixed", *WITHOUT_LENGTHS):
        warnings.warn(
            f"half of the objects have more than {median:.0f} points, and lengths='auto' was measured on objects of up "
            f"to {LONG}: random objects of {lengths[0]} to {lengths[1]} points may tell too little of them. Choose "
            "lengths=(least, most) by validation",
            stacklevel=find_stacklevel(),
        )


def warn_of_unlike_columns(distance: Distance, sample: SampleSets) -> None:
    """Tell of columns so much wider than others that a distance between points sees nothing else."""
    if distance.codes or not capabilities(distance).knows_differences or capabilities(distance).by_function:
        return
    spread = sample.relative.std(axis=0, dtype=np.float64)
    varies = np.flatnonzero(spread > 0)
    if len(varies) and spread.max() > UNLIKE * spread[varies].min():
        wide, narrow = int(spread.argmax()), int(varies[spread[varies].argmin()])
        warnings.warn(
            f"{type(distance).__name__} takes all columns in one unit, and the standard deviation of column {wide} is "
            f"{spread[wide]:.3g} where that of column {narrow} is {spread[narrow]:.3g}: distances are those of the "
            "widest columns. Put SetScaler() before, or give columns in like units",
            stacklevel=find_stacklevel(),
        )
