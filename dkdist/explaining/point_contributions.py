"""What each point of a set adds to a prediction, and what a point at another place would.

    c_i = u_i (f(P) - reference + IF(x_i)),    sum_i c_i = f(P) - reference

with u the weights of the points over their sum, and IF the influence function (`dkdist.base.influence`): how fast f
rises when the point counts more and all others less. Where rows are means over points (`MeanEmbedding`, `L2Embedding`,
`MomentEmbedding`) and the model is linear in them, c_i = u_i coef . row(x_i) with the intercept as reference:
nothing is approximated. Elsewhere contributions are of first order.
"""

from __future__ import annotations

import numpy as np

from dkdist.base.influence import shares
from dkdist.explaining.set_function import SetFunction
from dkdist.loops.array_types import F32, F64
from dkdist.sets import SampleSets


def point_contributions(function: SetFunction, reference: F64, sets: SampleSets, first: int) -> list[F64]:
    """(n_i, k) of every set, which sum to its values less the ``reference`` (k,); ``first`` is set 0's position."""
    function.require(sets, first)
    return [
        np.asarray(shares(one)[:, None] * (value - reference + influence))
        for one, value, influence in function.looked_at(sets)
    ]


def influence_at(function: SetFunction, at: F32, sets: SampleSets, first: int) -> list[F64]:
    """(q, k) of every set: how fast its values would rise if points came in at places ``at`` (q, d).

    The weighted mean over a set's own points is zero. Raises ValueError where no derivative is known.
    """
    function.require(sets, first)
    return [influence for _, _, influence in function.looked_at(sets, at)]
