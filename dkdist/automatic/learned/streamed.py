"""Learning from more sets than a kernel matrix holds: the chosen kernels as random features, from one pass.

Each chosen representation becomes an embedding, random features of its rows at the chosen width, and ridge regression;
all are trained in the same pass, and averaged as they do best on sets that were held out. Members by n-grams of
strings learn from sparse rows, of more n-grams.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dkdist.auto.evaluation_set import TrainingData
from dkdist.auto.folds import draw_hold_out
from dkdist.automatic.learned.machines import LinearMachine
from dkdist.automatic.learned.sparse_ngrams import fit_sparse_ridge, with_sparse_ngrams
from dkdist.automatic.trials import Average, Trial, best_average
from dkdist.base.roles import Role
from dkdist.kernel.features.random_fourier_features_spec import STRUCTURED_FROM, FourierSpec
from dkdist.learners.many_models import Linear
from dkdist.linear.ridge.ridge import IncrementalRidge
from dkdist.linear.search.feature_trees import FeatureTrees, Node, SearchData
from dkdist.linear.search.search_candidates import Candidate
from dkdist.linear.search.search_problem import Problem
from dkdist.linear.search.search_training import measure, train
from dkdist.loops.array_types import F64
from dkdist.moments.invariant_features_spec import InvariantSpec

HELD_OUT = 0.1
NEARBY = (0.1, 0.3, 1.0, 3.0, 10.0)  # times the penalty that was best on fewer sets


@dataclass(frozen=True)
class Streamed:
    """Machines on the leaves of trees, and their average on the rows that were held out to choose it."""

    trees: FeatureTrees
    widths: list[int]
    machines: list[LinearMachine]
    average: Average
    calibration: F64 | None


def learn_streamed(data: TrainingData, members: Sequence[Trial], n_components: int) -> Streamed:
    """Train all members on nine tenths of the sets, average what does best on the others."""
    sets, y, weights, seed = data.sets, data.y, data.weights, data.seed
    held_out = np.zeros(len(data), np.bool_)
    held_out[draw_hold_out(len(data), data.classes, data.groups, HELD_OUT, seed, Role.HELD_OUT)] = True
    learned = np.flatnonzero(~held_out)
    members, are_sparse = with_sparse_ngrams(members, sets[learned])
    trees, widths = _trees(members, n_components, seed)
    problem = Problem(y, None, weights, held_out, seed, False)
    search = SearchData(sets, trees, widths, False)
    dense, models = [], list[list[Linear]]()
    for leaf, (trial, is_sparse) in enumerate(zip(members, are_sparse, strict=True)):
        alphas = [factor * trial.alpha for factor in NEARBY]
        if is_sparse:
            found = fit_sparse_ridge(trial.view.spec, sets[learned], y[learned], weights[learned], alphas)
            models.append([Linear(leaf, W, b) for W, b in found])
        else:
            dense.append(Candidate({}, IncrementalRidge(alphas=alphas), leaf))
            models.append([])
    for candidate, of_member in zip(dense, train(search, dense, problem), strict=True):
        models[candidate.leaf] = of_member
    every = [model for of_member in models for model in of_member]
    values = iter(measure(search, every, problem))
    evaluation = data.evaluation_set(np.flatnonzero(held_out))
    tried = []
    for trial, of_member in zip(members, models, strict=True):
        for factor, _ in zip(NEARBY, of_member, strict=True):
            own = next(values)[None]
            tried.append(replace(trial, alpha=factor * trial.alpha, values=own, loss=evaluation.loss(own)))
    average = best_average(sorted(tried, key=lambda trial: trial.loss), evaluation)
    linear = {id(trial): model for trial, model in zip(tried, every, strict=True)}
    machines = [
        LinearMachine(linear[id(trial)].leaf, linear[id(trial)].W, linear[id(trial)].b, share)
        for trial, share in zip(average.members, average.shares, strict=True)
    ]
    return Streamed(trees, widths, machines, average, evaluation.calibration(average.values))


def _trees(members: Sequence[Trial], n_components: int, seed: int) -> tuple[FeatureTrees, list[int]]:
    """A leaf for each member; those of one embedding share its rows."""
    own: dict[Any, Node] = {}
    roots, widths = [], []
    for leaf, trial in enumerate(members):
        spec, sigma = trial.view.spec, trial.row_kernel.sigma
        if sigma is None:
            before = own.get(spec, Node(spec))
            if before.leaf < 0:
                own[spec] = replace(before, leaf=leaf)
            else:
                roots.append(Node(spec, (), leaf))
            widths.append(spec.n_features)
            continue
        method = "structured" if spec.n_features > STRUCTURED_FROM else "orthogonal"
        features = FourierSpec(spec.n_features, n_components, sigma, method, seed)
        widths.append(n_components)
        if trial.view.images:
            roots.append(Node(InvariantSpec(spec, features, trial.view.entry.images, spec.domain), (), leaf))
        else:
            before = own.get(spec, Node(spec))
            own[spec] = replace(before, children=(*before.children, Node(features, (), leaf)))
    return FeatureTrees((*own.values(), *roots)), widths
