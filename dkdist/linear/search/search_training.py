"""Training all candidates of a search at once, and measuring them on the rows that were held out.

SGD candidates go through the epochs together, each block's features made once for all of them; ridge candidates sum
the statistics of their features, as many at a time as fit into half of the memory. A last pass over the held-out rows
gives every model's decision values there, which any scorer of scikit-learn can be asked about.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkdist.base.roles import Role
from dkdist.execution.blocks import Blocks
from dkdist.execution.map_reduce import collect, fold, tree_sum
from dkdist.execution.run import plan_blocks, resources
from dkdist.learners.descent.sgd_steps import Objective, State, signs, step_size
from dkdist.learners.many_models import (
    GroupStates,
    Linear,
    ModelGroup,
    Wanted,
    accumulate_leaves,
    held_out_values,
    merge_leaves,
    one_of,
    prepare_leaves,
    step_all,
)
from dkdist.learners.ridge_solutions import inverses, solution
from dkdist.learners.ridge_statistics import centred, of_targets_plus
from dkdist.learners.rows import Known, blocks_to_mix
from dkdist.linear.problems import neighbours_job, of_mean_one
from dkdist.linear.search.feature_trees import SearchData
from dkdist.linear.search.search_candidates import Candidate
from dkdist.linear.search.search_problem import Problem, Weightings
from dkdist.linear.sgd.epochs import FEW_EPOCHS, Jobs, Order, epochs_for
from dkdist.loops.array_types import F64

AUTO_STEPS = 100_000  # of SGD candidates whose passes are not given
SAMPLE_ROWS = 1024  # rows that the default step of SGD is estimated from
RIDGE_JOBS, LEVELS, WAITING = 16, 4, 4  # tasks that sum statistics, levels of their tree, sums that wait
LARGEST = 1e8  # a coefficient beyond has run away


def train(data: SearchData, candidates: Sequence[Candidate], problem: Problem) -> list[list[Linear]]:
    """The models of every candidate: one, or one for each of a ridge's penalties; none if it ran away."""
    ridge = [c for c in candidates if c.learner.by_sums]
    sgd = [c for c in candidates if not c.learner.by_sums]
    found = {
        id(c): models for c, models in (*_train_sgd(data, sgd, problem), *_train_ridge(data, ridge, problem))
    }
    return [found[id(c)] for c in candidates]


def _train_sgd(
    data: SearchData, candidates: Sequence[Candidate], problem: Problem
) -> list[tuple[Candidate, list[Linear]]]:
    if not candidates:
        return []
    leaves = sorted({c.leaf for c in candidates})
    blocks, features = data.blocks(leaves, together=True), data.features(leaves)
    targets, n_classes, own_weights = problem.y, 0, of_mean_one(problem.weights)
    for candidate in candidates:  # the same for all
        targets, n_classes = candidate.learner.settle_targets(problem.y, problem.classes, own_weights)
    dtype = np.dtype(np.float32)
    weightings = Weightings.of(candidates, problem)
    n_trained = int(problem.trained.sum())
    n_epochs = max(_n_epochs(c, n_trained) for c in candidates)
    n_mixed = blocks_to_mix(targets, blocks.bounds, n_classes)
    known = Known(targets, problem.held_out, weightings.of_mean_one())
    order = Order(blocks, known, problem.seed, n_mixed, skip=data.skip)
    epochs = [order.lanes(epoch)[0] for epoch in range(n_epochs)]
    steps, longer = _learning_steps(features, blocks, candidates, problem.seed), weightings.longer()
    alike_members: dict[Any, list[tuple[Candidate, Objective]]] = {}
    for candidate in candidates:
        step, column = candidate.learner.eta0, weightings.column(candidate)
        step = (
            steps[candidate.leaf, candidate.learner.loss] / longer[column] if step == "auto" else float(step)
        )
        objective = candidate.learner.objective(step, n_classes)
        alike = replace(objective, eta0=0.0, alpha=0.0)
        key = candidate.leaf, column, alike, _n_epochs(candidate, n_trained)
        alike_members.setdefault(key, []).append((candidate, objective))
    groups = [
        ModelGroup(
            leaf, column, alike, np.array([own.eta0 for _, own in members]),
            np.array([own.alpha for _, own in members]), epochs_each * len(epochs[0]),
        )
        for (leaf, column, alike, epochs_each), members in alike_members.items()
    ]  # fmt: skip
    starts = [
        State.start(len(group.alpha) * group.objective.n_outputs, data.widths[group.leaf], dtype)
        for group in groups
    ]
    state_bytes = 8 * sum(start.coef.nbytes for start in starts)
    plan = plan_blocks(
        blocks, what="search, SGD", passes=n_epochs, waiting=4 * n_mixed, state_bytes=state_bytes
    )
    with plan.announced(problem.verbose) as progress:
        reached: GroupStates = fold(
            blocks, Jobs(order, list(chain(*epochs))), partial(prepare_leaves, features, dtype),
            partial(step_all, groups), GroupStates(0, tuple(starts)), label="search",
            blocks_per_job=n_mixed, progress=progress,
        )  # fmt: skip
    return [
        (candidate, _sgd_models(candidate, one_of(state, i, objective.n_outputs)))
        for state, members in zip(reached.states, alike_members.values(), strict=True)
        for i, (candidate, objective) in enumerate(members)
    ]


def _n_epochs(candidate: Candidate, n_trained: int) -> int:
    """Passes of a candidate: those of "auto" follow from the number of rows alone, as all share them."""
    own = candidate.learner.n_epochs
    return epochs_for(n_trained, AUTO_STEPS, FEW_EPOCHS) if isinstance(own, str) else int(own)


def _learning_steps(
    features: Any, blocks: Blocks, candidates: Sequence[Candidate], seed: int
) -> dict[tuple[int, str], float]:
    """The default step of every leaf and loss, from the rows of one block that the seed chooses."""
    wanted = sorted({(c.leaf, c.learner.loss) for c in candidates})
    i = int(np.random.default_rng((seed, Role.ROW_ORDER)).choice(np.flatnonzero(np.diff(blocks.bounds))))
    found = collect(
        blocks,
        partial(_step_sizes, features, wanted),
        blocks.bounds[:-1].tolist(),
        only=[i],
        label="sgd_step_size",
    )[0]
    return dict(zip(wanted, found, strict=True))


def _step_sizes(features: Any, wanted: Sequence[tuple[int, str]], block: Any, first: int) -> list[float]:
    found: dict[tuple[int, str], float] = {}
    for leaf, X in features(block, first, None):
        good = X[:SAMPLE_ROWS][np.isfinite(X[:SAMPLE_ROWS]).all(axis=1)]
        found |= {key: step_size(key[1], good) if len(good) else 1.0 for key in wanted if key[0] == leaf}
    return [found[key] for key in wanted]


def _sgd_models(candidate: Candidate, state: State) -> list[Linear]:
    with np.errstate(invalid="ignore"):
        if not (np.abs(state.mean_coef) < LARGEST).all():
            return []
    candidate.learner.set_model(state)
    return [_linear(candidate.leaf, candidate.learner.coef_, candidate.learner.intercept_)]


def _linear(leaf: int, coef: NDArray[Any], intercept: Any) -> Linear:
    return Linear(leaf, np.atleast_2d(coef), np.atleast_1d(np.asarray(intercept)))


def _train_ridge(
    data: SearchData, candidates: Sequence[Candidate], problem: Problem
) -> list[tuple[Candidate, list[Linear]]]:
    found: list[tuple[Candidate, list[Linear]]] = []
    y = problem.y.astype(np.float64) if problem.classes is None else signs(problem.y, len(problem.classes))
    y, weightings = y.reshape(len(y), -1), Weightings.of(candidates, problem)
    offset = y[problem.trained].mean(axis=0)
    for leaves in _shares(data, sorted({c.leaf for c in candidates}), len(weightings)):
        members = [c for c in candidates if c.leaf in leaves]
        wanted = sorted({_wanted(c, weightings) for c in members})
        known = Known(y - offset, problem.held_out, weightings.columns)
        sums = _sums(data, leaves, wanted, known, problem)
        for candidate in members:
            centre = bool(candidate.learner.fit_intercept)
            found_sums = sums[_wanted(candidate, weightings)]
            equations = centred(found_sums if centre else of_targets_plus(found_sums, offset), centre)
            models = []
            for inverse in inverses(equations, candidate.learner.penalties()):
                w, b = solution(equations, inverse)
                models.append(_linear(candidate.leaf, w.T, b + offset if centre else b))
            found.append((candidate, models))
    return found


def _wanted(candidate: Candidate, weightings: Weightings) -> Wanted:
    return candidate.leaf, bool(candidate.learner.fit_intercept), weightings.column(candidate)


def _shares(data: SearchData, leaves: Sequence[int], n_weightings: int) -> list[list[int]]:
    """Leaves whose Gram matrices, all that are alive of them, fit into half of the memory together."""
    there = resources()
    alive = there.threads + WAITING + LEVELS
    shares: list[list[int]] = []
    room, taken = there.free / 2, np.inf
    for leaf in leaves:
        need = alive * n_weightings * 8 * data.widths[leaf] ** 2
        if taken + need > room:
            shares.append([])
            taken = 0
        shares[-1].append(leaf)
        taken += need
    return shares


def _sums(
    data: SearchData,
    leaves: Sequence[int],
    wanted: Sequence[Wanted],
    known: Known,
    problem: Problem,
) -> Any:
    blocks, features = data.blocks(leaves, together=False), data.features(leaves)
    edges = np.unique(np.linspace(0, len(blocks), RIDGE_JOBS + 1).round().astype(int))
    jobs = [neighbours_job(blocks, a, b, known, data.skip) for a, b in pairwise(edges.tolist())]
    state_bytes = sum(8 * data.widths[leaf] ** 2 for leaf, *_ in wanted) * (LEVELS + WAITING)
    plan = plan_blocks(blocks, what="search, ridge", passes=1, waiting=1, state_bytes=state_bytes)
    work = partial(accumulate_leaves, features, np.dtype(np.float32), wanted)
    with plan.announced(problem.verbose) as progress:
        return tree_sum(blocks, jobs, work, merge_leaves, window=WAITING, label="grams", progress=progress)


def measure(data: SearchData, models: Sequence[Linear], problem: Problem) -> list[F64]:
    """Decision values of every model on all held-out rows: each (n_held, n_outputs)."""
    leaves = sorted({model.leaf for model in models})
    blocks, features = data.blocks(leaves, together=False), data.features(leaves)
    extras = [(int(blocks.bounds[i]), problem.held_out[blocks.rows(i)]) for i in range(len(blocks))]
    parts = collect(blocks, partial(held_out_values, features, models), extras, label="search_score")
    return [np.concatenate(of_model) for of_model in zip(*parts, strict=True)]
