"""Quasi-random normal vectors: Sobol points under a random digital shift, through the normal quantile function.

The shift (one random word a dimension, added without carry) keeps the points evenly spread, and makes each of them
uniform: means over them are unbiased, and vary less than over independent ones.
"""

from __future__ import annotations

import numpy as np
from scipy.special import ndtri
from scipy.stats import qmc

from dkdist.loops.array_types import F64

BITS = 30


def sobol_normals(rng: np.random.Generator, count: int, d: int) -> F64:
    """(count, d) standard normal vectors; the shift is drawn from ``rng``."""
    log2 = int(np.ceil(np.log2(count)))
    points = qmc.Sobol(d, scramble=False, bits=BITS).random_base2(log2)[:count]
    words = (points * 2**BITS).astype(np.int64) ^ rng.integers(2**BITS, size=d)
    return np.asarray(ndtri((words + 0.5) / 2**BITS))
