"""`merge_coresets`: coresets of parts to one of the whole, with a bound of its distance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from dkdist.base.parameter_checks import draw_seed, whole
from dkdist.kernel.coresets.coreset import Coreset
from dkdist.kernel.coresets.coreset_union import ROUNDS, Union, reduced, thinned, together
from dkdist.plain.validation import as_flag, require_same_names


def merge_coresets(
    coresets: Sequence[Coreset],
    size: int | None = None,
    *,
    optimal_weights: bool = False,
    random_state: Any = None,
) -> Coreset:
    """Make one coreset of a whole from coresets of its parts, such as days, files or workers; in a tree if you like.

    Parameters
    ----------
    coresets : sequence of `Coreset`
        Of disjoint parts, with one kernel, bandwidth and dimension, in the order of the parts. If the parts had no
        weights, each counts by its number of points; if they had, by its weight.
    size : int, optional
        How many points to keep; without it, or if there are no more, those of all.
    optimal_weights : bool, default=False
        As in `coreset`: signed weights that bring the points nearest, instead of equal ones.
    random_state : int, Generator or None
        Seed of the order of swaps.

    Returns
    -------
    Coreset
        ``indices`` into the parts one after the other, ``weights`` and ``points``. ``distance`` is a bound of the
        kernel distance between the whole and the coreset. ``finer`` is what it was chosen from, at most 16 times as
        many points: these are taken when it is merged again.

    Raises
    ------
    ValueError
        For no coresets, several kernels, bandwidths, dimensions or names or orders of columns, some of weighted sets
        and some not, and those that were made without their points.

    Notes
    -----
    The kernel distance is a norm, so that with shares s_i of the parts P_i, their coresets S_i and the result R

        D(sum s_i P_i, R) <= sum s_i D(P_i, S_i) + D(sum s_i S_i, R),

    of which the last is found exactly: the bound holds at every level of a tree. (It is certified where those of the
    parts are: always, but where `coreset` estimates them.) The true distance is less, since errors of parts are not all
    of one direction.

    Points are swapped for better ones of all parts until none is found, up to 8 times each. Before, where there are
    more than 16 times ``size``, halves of the parts are thinned to 8 times ``size`` (at most 1,024 more than it), with
    the signed weights that bring them nearest. What parts lack no merging brings back: coresets of 8 times the size
    wanted in the end give one as near as a coreset made at once (docs/kernel.md). Points as heavy as the others are for
    each place left keep their weight, as in `coreset`. Cost, with M = 16 size: M^2 kernels, M size for each round
    of swaps, and for more points than M, as often as they hold M, M^3 / 24 multiply-adds for each of some ten solves.

    References
    ----------
    Feldman, Langberg: A unified framework for approximating and clustering data (2011), for merging in a tree; Shetty,
    Dwivedi, Mackey: Distribution compression in near-linear time (2022).

    Examples
    --------
    >>> import numpy as np, dkdist as dk
    >>> days = [np.random.default_rng(i).normal(i, 1, (1000, 2)) for i in range(4)]
    >>> few = [dk.coreset(day, 128, sigma=1.0, random_state=0) for day in days]
    >>> all_days = dk.merge_coresets(few, 32, random_state=0)
    >>> own = dk.kernel_distance(np.concatenate(days), all_days.points, sigma=1.0, weights=(None, all_days.weights))
    >>> len(all_days.indices), bool(own <= all_days.distance < 0.05)
    (32, True)
    """
    optimal_weights = as_flag("optimal_weights", optimal_weights)
    parts, seed = _checked(coresets), draw_seed(random_state)
    counted = None if size is None else whole("size", size)
    few = merged(
        [union_of(part) for part in parts], counted, parts[0].sigma, parts[0].kernel, optimal_weights, seed
    )
    return replace(few, names=next((part.names for part in parts if part.names is not None), None))


def merged(
    unions: list[Union], size: int | None, sigma: float, kernel: str, optimal: bool, seed: int
) -> Coreset:
    """The coreset of all unions together: of all of their points, or ``size`` of them."""
    if size is None or size >= sum(len(union.weights) for union in unions):
        few, finer = together(unions), None
    else:
        finer = reduced(unions, size, sigma, kernel)
        few = thinned(finer, size, sigma, kernel, optimal=optimal, rounds=ROUNDS, seed=seed)
    indices, weights, distance, points, _, n_points, total = few
    return Coreset(indices, weights, distance, points, sigma, n_points, total, finer, kernel)


def union_of(part: Coreset) -> Union:
    """What a coreset was chosen from, or itself; points of weights of both signs were chosen for equal shares."""
    if part.finer is not None:
        return part.finer
    shares = part.weights
    if shares.min() < 0:
        shares = np.full(len(shares), (1.0 if part.total is None else part.total) / len(shares))
    return Union(part.indices, part.weights, part.distance, part.points, shares, part.n_points, part.total)


def _checked(coresets: Any) -> list[Coreset]:
    """The coresets as a list, each with its points and all of one kind."""
    parts = list(coresets) if isinstance(coresets, (list, tuple)) else [coresets]
    if not parts:
        raise ValueError("coresets is empty: give one or more")
    for i, part in enumerate(parts):
        if not isinstance(part, Coreset):
            raise ValueError(
                f"coresets must be a list of Coreset; item {i} is {type(part).__name__}: give coreset(P, ...)"
            )
        if not part.sigma > 0:
            raise ValueError(
                f"coreset {i} does not know its points: take one that coreset or merge_coresets has made"
            )
    require_same_names(**{f"coreset {i}": part for i, part in enumerate(parts)})
    first = parts[0]
    for i, part in enumerate(parts):
        if part.kernel != first.kernel:
            raise ValueError(
                f"coreset {i} has kernel={part.kernel!r}, and coreset 0 kernel={first.kernel!r}: make all of them with "
                "one kernel"
            )
        if part.points.shape[1] != first.points.shape[1] or part.sigma != first.sigma:
            raise ValueError(
                f"coreset {i} has sigma={part.sigma:.7g} and {part.points.shape[1]} dimensions, and coreset 0 "
                f"sigma={first.sigma:.7g} and {first.points.shape[1]}: give one number as sigma to all of them"
            )
        if (part.total is None) != (first.total is None):
            raise ValueError(
                f"coresets 0 and {i} are of a set with weights and one without: make all of them with weights"
            )
    return parts
