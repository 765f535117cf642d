"""Symmetries of a box: reflections at its centre and permutations of its axes, as signed permutations.

    u'_j = u_p(j)  or  1 - u_p(j),   u = (x - low) / width in [0, 1]^d

An element is a tuple of numbers +-(p(j) + 1), one for each axis; those of a word form a group, the identity first.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from dkdist.loops.array_types import F32

Element = tuple[int, ...]

GROUPS = ("reflections", "permutations", "all")


def group(word: str, d: int, axes: Sequence[int]) -> tuple[Element, ...]:
    """The symmetries of d axes that move the listed ones alone.

    Of k listed axes there are 2^k "reflections", k! "permutations", and 2^k k! of "all".
    """
    orders = [tuple(axes)] if word == "reflections" else list(itertools.permutations(axes))
    signs = itertools.product((1,) if word == "permutations" else (1, -1), repeat=len(axes))
    elements = []
    for order, sign in itertools.product(orders, signs):
        element = list(range(1, d + 1))
        for axis, source, s in zip(axes, order, sign, strict=True):
            element[axis] = s * (source + 1)
        elements.append(tuple(element))
    return tuple(elements)


def generated(elements: Sequence[Element], most: int) -> tuple[Element, ...]:
    """The group that some elements generate, the identity first; () if it has more than ``most``."""
    identity = tuple(range(1, len(elements[0]) + 1))
    found = {identity: None}
    fresh = [identity]
    while fresh:
        products = [_after(g, h) for g in fresh for h in elements]
        fresh = [element for element in dict.fromkeys(products) if element not in found]
        found |= dict.fromkeys(fresh)
        if len(found) > most:
            return ()
    return tuple(found)


def _after(first: Element, second: Element) -> Element:
    """The symmetry that is ``first`` and then ``second``."""
    return tuple((1 if s > 0 else -1) * first[abs(s) - 1] for s in second)


def moved(points: F32, element: Element, low: F32, high: F32) -> F32:
    """The points (n, d) under a symmetry of the box [low, high]: (n, d) float32."""
    out = np.empty_like(points)
    for j, signed in enumerate(element):
        p = abs(signed) - 1
        x = points[:, p]
        if signed < 0:
            x = (low[p] + high[p]) - x
        if p != j:
            width = high[p] - low[p]
            x = low[j] + (x - low[p]) * ((high[j] - low[j]) / width if width > 0 else np.float32(0))
        out[:, j] = x
    return out
