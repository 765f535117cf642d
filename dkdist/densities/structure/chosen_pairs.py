"""The pairs of dimensions that are worth a density: those whose dependence differs between sets, strongest first."""

from __future__ import annotations

import numpy as np
from scipy.stats import false_discovery_control

from dkdist.base.inputs import Sets, sample_sets
from dkdist.densities.structure.dependence import DEGREES, differing_dependence
from dkdist.loops.array_types import I64
from dkdist.sets import SampleSets

LEVEL = 0.01  # of false pairs among those that are found, at most, on average (Benjamini, Hochberg 1995)
MOST_DIMS = 512  # among which pairs are looked for
SEARCH_SETS, SEARCH_NUMBERS, SEARCH_SUMS = 1024, 2**22, 2**27  # sets, coordinates, numbers that are summed

Pair = tuple[int, int]


def looked_at(sets: Sets, bad: I64) -> SampleSets:
    """Up to 1,024 sets of about four million coordinates, in memory: what is chosen by, fewer of many dimensions."""
    d = sets.n_dims
    n_sets = int(np.clip(SEARCH_SUMS // (DEGREES * d) ** 2, 1, SEARCH_SETS))
    return sample_sets(sets, bad, n_sets, SEARCH_NUMBERS // d)


def found_pairs(sets: SampleSets) -> list[Pair]:
    """All pairs that are found, strongest first; the same for the same sets."""
    tests = differing_dependence(sets)
    if len(tests.p) == 0:
        return []
    first, second = np.triu_indices(sets.n_dims, 1)
    order = np.argsort(-tests.t, kind="stable")
    kept = order[false_discovery_control(tests.p)[order] <= LEVEL]
    return [(int(first[i]), int(second[i])) for i in kept]
