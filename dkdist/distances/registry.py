"""Names of distances and samplers, and checks of the parameters of a `DistanceEmbedding` against the data."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from dkdist._base.inputs import Sets
from dkdist._base.parameter_checks import check_int, check_real_array, check_scale, is_literal
from dkdist._numba.arrays import F64
from dkdist._utils.validation import find_stacklevel
from dkdist.distances._tuning import (
    MAX_PIECE_POINTS,
    MAX_SPREAD_RATIO,
    MAX_TESTED_POINTS,
    MAX_WHOLE_OBJECT_POINTS,
)
from dkdist.distances.base import Distance, capabilities
from dkdist.distances.distance_embedding_params import DISTANCE_FACTORIES
from dkdist.distances.landmarks import (
    DATA_SAMPLERS,
    FIXED_LENGTH_SAMPLERS,
    POINT_SAMPLERS,
    SAMPLERS,
    SIGMA_SAMPLERS,
    STRING_SAMPLERS,
)
from dkdist.sets import SampleSets

REQUIRED_ATTRIBUTES = "ordered", "codes", "takes_weights", "n_parts", "prepare", "fill"


DISTANCE_ALIASES = {"w1": "wasserstein"}


def resolve_distance(param: Any, n_dims: int, seed: int) -> Distance:
    """Return the distance with this name or abbreviation, or the object itself after checking its attributes."""
    names = ", ".join(map(repr, DISTANCE_FACTORIES))
    if isinstance(param, str):
        param = param if param in DISTANCE_FACTORIES else DISTANCE_ALIASES.get(param, param)
        if param not in DISTANCE_FACTORIES:
            hint = " Rows of MeanEmbedding have Euclidean distances that are MMDs." if param == "mmd" else ""
            raise ValueError(
                f"distance must be one of {names}, or an object such as pairwise(function); got {param!r}.{hint}"
            )
        return DISTANCE_FACTORIES[param](n_dims, seed)
    missing = [name for name in REQUIRED_ATTRIBUTES if not hasattr(param, name)]
    if missing or isinstance(param, type):
        hint = (
            "Pass pairwise(function) for a function of two objects."
            if callable(param)
            else f"Add the attributes {missing}."
        )
        raise ValueError(
            f"distance must be a name ({names}) or an object with {', '.join(REQUIRED_ATTRIBUTES)}; got {param!r}. "
            f"{hint}"
        )
    distance: Distance = param
    return distance


def register_distance(name: str, distance: Any) -> None:
    """Register a distance under a name, for the parameter ``distance`` of all estimators.

    Parameters
    ----------
    name : str
        A new name, or a name that is registered for an equal distance.
    distance : object
        An object with the attributes and methods of dkdist's distances; `pairwise` builds one from a function of two
        objects.

    Raises
    ------
    ValueError
        If the name is registered for another distance or is not a string, or the object is not a distance.

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
    resolve_distance(distance, 1, 0)
    if name in DISTANCE_FACTORIES and DISTANCE_FACTORIES[name](1, 0) != distance:
        raise ValueError(f"name must be new; got {name!r}, which is registered. Choose another name")
    DISTANCE_FACTORIES[name] = lambda n_dims, seed: distance


def resolve_sampler(param: Any, distance: Distance, sets: Sets, lengths: Any) -> str:
    """Return the name of the sampler, after checking that it suits the distance and the data."""
    is_text = sets.points_dtype != np.float32
    samplers = DATA_SAMPLERS | (STRING_SAMPLERS if is_text else POINT_SAMPLERS)
    if is_literal(param, "auto"):
        return _default_sampler(distance, sets, lengths)
    if param not in samplers:
        purpose = f", a sampler of {'points' if is_text else 'strings'}" if param in SAMPLERS else ""
        raise ValueError(
            f"sampler must be one of 'auto', {', '.join(map(repr, samplers))}, a collection of objects, or a function "
            f"of a generator; got {param!r}{purpose}."
        )
    if param in ("leverage", "supervised") and distance.n_parts > 1:
        raise ValueError(
            f"sampler={param!r} requires a distance with one number per pair; {type(distance).__name__} gives "
            f"{distance.n_parts}. Use another sampler."
        )
    if param == "leverage":
        require_symmetric_distance("sampler='leverage'", distance)
    return str(param)


def require_symmetric_distance(option: str, distance: Distance) -> None:
    """Raise ValueError if the distance is not symmetric; ``option`` is the parameter that requires symmetry."""
    if not capabilities(distance).symmetric:
        raise ValueError(
            f"{option} requires a symmetric distance; {type(distance).__name__} with these options is not symmetric. "
            "Use another option, or a symmetric distance."
        )


def _default_sampler(distance: Distance, sets: Sets, lengths: Any) -> str:
    sampler = "segment" if distance.codes else capabilities(distance).default_sampler
    if sampler in FIXED_LENGTH_SAMPLERS or not is_literal(lengths, "auto"):
        return sampler
    return "mixed" if np.median(sets.sizes) <= MAX_WHOLE_OBJECT_POINTS[_data_kind(distance)] else sampler


def _data_kind(distance: Distance) -> str:
    return "codes" if distance.codes else "ordered" if distance.ordered else "sets"


def resolve_lengths(param: Any, sampler: str, distance: Distance, sample: SampleSets) -> tuple[int, int]:
    """Return the range of landmark lengths; raise ValueError if pieces are longer than every object."""
    if sampler in FIXED_LENGTH_SAMPLERS:
        if param != "auto":
            raise ValueError(f"lengths={param!r} has no effect with sampler={sampler!r}. Omit lengths.")
        return 1, 1
    if isinstance(param, str):
        if param != "auto":
            raise ValueError(f"lengths must be 'auto' or (min, max); got {param!r}.")
        return _default_lengths(sampler, distance, sample)
    low, high = _check_range(param)
    longest = int(sample.sizes.max())
    if sampler in DATA_SAMPLERS and high > longest:
        raise ValueError(
            f"lengths must be at most {longest}, the size of the longest of {len(sample)} sampled objects; got "
            f"{param!r}. Use shorter lengths, or a sampler that generates objects."
        )
    return low, high


def resolve_sigma(param: Any, sampler: Any, sets: Sets) -> F64 | None:
    """Return the standard deviations (d,) of generated coordinates; None for the standard deviations of the data."""
    if is_literal(param, "auto"):
        return None
    if not any(is_literal(sampler, word) for word in SIGMA_SAMPLERS):
        raise ValueError(
            f"sigma has no effect with sampler={sampler!r:.200}, only with "
            f"{' and '.join(map(repr, SIGMA_SAMPLERS))}. Omit sigma."
        )
    values = check_real_array("sigma", param)
    if values.shape not in ((), (sets.n_dims,)):
        raise ValueError(
            f"sigma must be 'auto', a number, or an array of shape ({sets.n_dims},); got shape {values.shape}."
        )
    return np.array([check_scale("sigma", float(v)) for v in np.broadcast_to(values, sets.n_dims)])


def require_no_lengths(param: Any) -> None:
    """Raise ValueError if ``lengths`` is given together with a collection of landmarks."""
    if not is_literal(param, "auto"):
        raise ValueError(
            f"lengths={param!r} has no effect if sampler is a collection or a function. Omit lengths."
        )


def _check_range(param: Any) -> tuple[int, int]:
    try:
        low, high = param
    except (TypeError, ValueError) as error:
        raise ValueError(f"lengths must be 'auto' or (min, max); got {param!r}.") from error
    low, high = check_int("lengths[0]", low), check_int("lengths[1]", high)
    if low > high:
        raise ValueError(f"lengths must be (min, max) with min <= max; got {param!r}.")
    return low, high


def _default_lengths(sampler: str, distance: Distance, sample: SampleSets) -> tuple[int, int]:
    median = int(np.median(sample.sizes))
    if sampler == "mixed":  # pieces are nearly whole objects
        return -(-3 * median // 4), median
    return 1, min(MAX_PIECE_POINTS[_data_kind(distance)], median)


def warn_long_objects(sampler: str, lengths: tuple[int, int], sample: SampleSets) -> None:
    """Warn if half of the objects are longer than those for which the default lengths were tuned."""
    median = float(np.median(sample.sizes))
    if median > MAX_TESTED_POINTS and sampler not in ("mixed", *FIXED_LENGTH_SAMPLERS):
        warnings.warn(
            f"half of the objects have more than {median:.0f} points; lengths='auto' was tuned for up to "
            f"{MAX_TESTED_POINTS} points. Random objects of {lengths[0]} to {lengths[1]} points may represent "
            "them poorly. Choose lengths=(min, max) by validation.",
            stacklevel=find_stacklevel(),
        )


def warn_unequal_columns(distance: Distance, sample: SampleSets) -> None:
    """Warn if some columns are so much wider than others that the narrow ones hardly affect distances."""
    if (
        distance.codes
        or not capabilities(distance).is_translation_invariant
        or capabilities(distance).is_user_function
    ):
        return
    spread = sample.relative.std(axis=0, dtype=np.float64)
    varies = np.flatnonzero(spread > 0)
    if len(varies) and spread.max() > MAX_SPREAD_RATIO * spread[varies].min():
        wide, narrow = int(spread.argmax()), int(varies[spread[varies].argmin()])
        warnings.warn(
            f"{type(distance).__name__} uses one unit for all columns; the standard deviation of column {wide} is "
            f"{spread[wide]:.3g}, that of column {narrow} is {spread[narrow]:.3g}. The widest columns determine the "
            "distances. Put SetScaler() before, or convert columns to similar units.",
            stacklevel=find_stacklevel(),
        )
