"""What each point of a set adds to a machine's prediction: derivatives go back from values to rows, to points.

    c_i = u_i (f(P) - reference + IF(x_i)),    sum_i c_i = f(P) - reference

with u the weights over their sum, and IF the influence function of f, whose mean over the set is zero
(`dkdist.base.influence`): of first order where f is not linear in the distribution.
"""

from __future__ import annotations

from functools import partial
from itertools import chain

import numpy as np

from dkdist.automatic.machines import Machine
from dkdist.base.bad_sets import attempt
from dkdist.base.influence import influences, shares
from dkdist.base.inputs import Sets, of_blocks
from dkdist.execution.processes.process import drawn
from dkdist.linear.search.feature_trees import Node
from dkdist.loops.array_types import F32, F64
from dkdist.sets import SampleSets


def contributions(machine: Machine, sets: Sets) -> list[F64]:
    """(n_i, t) for every set, whose sums are its prediction (t,); a store is read block by block."""
    return list(chain.from_iterable(of_blocks(partial(_of_block, machine), sets, "explain")))


def _of_block(machine: Machine, sets: Sets, first: int) -> list[F64]:
    positions = range(first, first + len(sets))
    nothing: list[F64] = []
    made = attempt(partial(_of_loaded, machine), sets, positions, nothing, skip=False)
    return list(chain.from_iterable(made.results))


def _of_loaded(machine: Machine, sets: SampleSets, first: int) -> list[F64]:
    total = [np.zeros((n, machine.n_outputs)) for n in sets.sizes]
    for root in machine.trees.only(machine.leaves).roots:
        parameters = drawn(root.spec)
        rows = parameters.embed(sets)
        for i, row in enumerate(rows):
            one = sets[i : i + 1]
            value, gradient = _value_and_gradient(root, row, machine)
            total[i] += shares(one)[:, None] * (value + influences(parameters, one, gradient))
    return total


def _value_and_gradient(node: Node, row: F32, machine: Machine) -> tuple[F64, F64]:
    """(t,) what grows on a row (m,) adds to the prediction, and (m, t) its derivative by the row."""
    value, gradient = np.zeros(machine.n_outputs), np.zeros((len(row), machine.n_outputs))
    for part in machine.parts:
        if part.leaf == node.leaf:
            value += part.values(row[None])[0]
            gradient += part.gradient(row)
    for child in node.children:
        features = child.spec.draw()
        above, back = _value_and_gradient(child, features.transform(row[None])[0], machine)
        value += above
        gradient += features.pull_back(row, back)
    return value, gradient
