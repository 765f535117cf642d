"""A few of the sets that a model learned from, kept so that dimensions of others can be compared with them."""

from __future__ import annotations

import numpy as np

from dkdist.automatic.views.representations import is_text
from dkdist.base.roles import Role
from dkdist.loops.array_types import I64
from dkdist.sets import SampleSets
from dkdist.sets.labels import Labels

SETS, POINTS = 16, 512  # that are kept, and of each set


def kept_background(sample: SampleSets, seed: int) -> SampleSets | None:
    """Up to 16 of the sets, of up to 512 points each in their order; None of strings, which have no dimensions."""
    if is_text(sample):
        return None
    rng = np.random.default_rng([seed, Role.BACKGROUND])
    chosen = sample[some_of(rng, len(sample), SETS)]
    rows = [some_of(rng, n, POINTS) for n in chosen.sizes.tolist()]
    taken = np.concatenate([start + own for start, own in zip(chosen.offsets, rows, strict=False)])
    offsets = np.concatenate([[0], np.cumsum([len(own) for own in rows])])
    return chosen._of_rows(taken, offsets, Labels(names=chosen.names))


def some_of(rng: np.random.Generator, n: int, most: int) -> I64:
    """All positions below n, or ``most`` at random, ascending."""
    return np.arange(n) if n <= most else np.sort(rng.choice(n, most, replace=False))
