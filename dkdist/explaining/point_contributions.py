"""What each point of a set adds to a prediction, and what a point at another place would.

    c_i = u_i (f(P) - reference + G . IF_row(x_i)),    sum_i c_i = f(P) - reference

with u the weights of the points over their sum, IF_row the influence of a point on the row (`dkdist.base.influence`):
how fast the row moves when the point counts more and all others less, and G the gradient of f by the row, averaged over
the path to the row of P from a mean row r_0 of background sets (`dkdist.inspection.path_gradients`). Where rows are
means over points, c_i = u_i (f(r_0) - reference + G . (row(x_i) - r_0)); where f is linear in them too,
c_i = u_i coef . row(x_i) with the intercept as reference, whatever the background. Elsewhere rows are of first order in
the points.
"""

from __future__ import annotations

import numpy as np

from dkdist.base.influence import shares
from dkdist.explaining.set_function import PathBackground, SetFunction
from dkdist.loops.array_types import F32, F64
from dkdist.sets import SampleSets


def point_contributions(
    function: SetFunction, reference: F64, background: PathBackground | None, sets: SampleSets, first: int
) -> list[F64]:
    """(n_i, k) of every set, which sum to its values less the ``reference`` (k,); ``first`` is set 0's position."""
    function.require(sets, first)
    return [
        np.asarray(shares(one)[:, None] * (value - reference + influence))
        for one, value, influence in function.path_influences(sets, background)
    ]


def influence_at(function: SetFunction, at: F32, sets: SampleSets, first: int) -> list[F64]:
    """(q, k) of every set: how fast its values would rise if points came in at places ``at`` (q, d).

    The weighted mean over a set's own points is zero. Raises ValueError where no derivative is known.
    """
    function.require(sets, first)
    return list(function.local_influences(sets, at))
