"""Fits on large collections: random features approximate the selected kernels, in one pass over the data.

A member consists of an embedding, random features of its rows, and ridge regression. All members are trained in the
same pass and averaged with weights that are selected on held-out sets. Members on n-grams of strings use
sparse rows of up to 32,768 n-grams, which cost less than 4,096 dense columns: a first name has about 35 n-grams, and
the conjugate gradient method needs only products with the sparse rows. A few thousand random features do not
approximate a Gaussian kernel of such rows well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.linear_model import Ridge

from dkdist._base.inputs import Sets, map_set_blocks
from dkdist._base.random_streams import RngStream
from dkdist._numba.arrays import F64
from dkdist._utils.memory_budget import memory_limit, resident_bytes
from dkdist.auto._tuning import HELD_OUT_FRACTION, MAX_NGRAMS, STREAMED_PENALTY_FACTORS
from dkdist.auto.ensemble import LinearMember
from dkdist.auto.folds import draw_hold_out
from dkdist.auto.representation_rows import FittedRepresentation, RowKernel
from dkdist.auto.scoring import TrainingData
from dkdist.auto.successive_halving import Trial, WeightedAverage, best_average
from dkdist.embeddings.invariant_features import InvariantSpec
from dkdist.embeddings.ngrams import NGramEmbedding, NGramParams
from dkdist.kernels._tuning import MAX_DENSE_INPUTS
from dkdist.kernels.random_fourier_params import FourierSpec
from dkdist.linear.feature_trees import Node, SearchData, SharedFeatureGraph
from dkdist.linear.many_models import LinearModel
from dkdist.linear.ridge import IncrementalRidge
from dkdist.linear.search_training import Candidate, SearchProblem, held_out_decision_values, train
from dkdist.sets import SampleSets

BYTES_PER_SYMBOL = 3 * 5 * 12  # 5 n-grams of 12 bytes in three copies (tests/auto/test_sparse_ngrams.py)


def with_sparse_ngrams(trials: Sequence[Trial], sets: Sets) -> tuple[list[Trial], list[bool]]:
    """Replace trials on n-grams of a sample by one linear trial on n-grams of all sets.

    User-defined embeddings are not replaced. Also returns a flag per trial for sparse rows; sparse rows are not used if
    they would take more than half of the free memory.
    """
    if BYTES_PER_SYMBOL * sets.n_points > (memory_limit() - resident_bytes()) / 2:
        return list(trials), [False] * len(trials)
    result, specs = [], set()
    for trial in trials:
        if not isinstance(trial.view.spec, NGramParams):
            result.append(trial)
        elif trial.view.spec not in specs:
            specs.add(trial.view.spec)
            result.append(replace(trial, kernel=RowKernel(None), view=_refit_ngrams(trial.view, sets)))
    return result, [isinstance(trial.view.spec, NGramParams) for trial in result]


def _refit_ngrams(view: FittedRepresentation, sets: Sets) -> FittedRepresentation:
    if view.entry.family != "ngrams":
        return view
    embedding = NGramEmbedding(max_features=MAX_NGRAMS).fit(sets)
    return replace(view, entry=replace(view.entry, embedding=embedding), spec=embedding.spec_)


def fit_sparse_ridge(
    spec: NGramParams, sets: Sets, y: F64, weights: F64, alphas: Sequence[float]
) -> list[tuple[F64, F64]]:
    """Return coefficients (t, m) and intercepts (t,) for each penalty; y is (n, t), weights (n,)."""
    rows = sparse.vstack(map_set_blocks(partial(_sparse_rows, spec), sets, "ngrams"), format="csr")
    models = []
    for alpha in alphas:
        ridge = Ridge(alpha, solver="sparse_cg", tol=1e-4).fit(rows, y, sample_weight=weights)
        models.append((np.atleast_2d(ridge.coef_), np.atleast_1d(ridge.intercept_)))
    return models


def _sparse_rows(spec: NGramParams, sets: Sets, first: int) -> sparse.csr_array:
    loaded = sets if isinstance(sets, SampleSets) else sets.points_alone()
    return spec.materialize().sparse_rows(loaded)


@dataclass(frozen=True)
class StreamedResult:
    """Fitted members, their feature graph, and their weighted average on the held-out rows."""

    trees: SharedFeatureGraph
    widths: list[int]
    machines: list[LinearMember]
    average: WeightedAverage
    calibration: F64 | None


def fit_streamed(data: TrainingData, members: Sequence[Trial], n_components: int) -> StreamedResult:
    """Fit all members on 90 % of the sets, and select the weights of their average on the others."""
    sets, y, weights, seed = data.sets, data.y, data.weights, data.seed
    held_out = np.zeros(len(data), np.bool_)
    held_out[
        draw_hold_out(len(data), data.classes, data.groups, HELD_OUT_FRACTION, seed, RngStream.HELD_OUT)
    ] = True
    training_rows = np.flatnonzero(~held_out)
    members, are_sparse = with_sparse_ngrams(members, sets[training_rows])
    trees, widths = _make_graph(members, n_components, seed)
    problem = SearchProblem(y, None, weights, held_out, seed, False)
    search = SearchData(sets, trees, widths, False)
    dense, models = [], list[list[LinearModel]]()
    for leaf, (trial, is_sparse) in enumerate(zip(members, are_sparse, strict=True)):
        alphas = [factor * trial.alpha for factor in STREAMED_PENALTY_FACTORS]
        if is_sparse:
            models_by_alpha = fit_sparse_ridge(
                trial.view.spec, sets[training_rows], y[training_rows], weights[training_rows], alphas
            )
            models.append([LinearModel(leaf, W, b) for W, b in models_by_alpha])
        else:
            dense.append(Candidate({}, IncrementalRidge(alphas=alphas), leaf))
            models.append([])
    for candidate, member_models in zip(dense, train(search, dense, problem), strict=True):
        models[candidate.leaf] = member_models
    all_models = [model for member_models in models for model in member_models]
    values = iter(held_out_decision_values(search, all_models, problem))
    evaluation = data.evaluation_set(np.flatnonzero(held_out))
    trials = []
    for trial, member_models in zip(members, models, strict=True):
        for factor, _ in zip(STREAMED_PENALTY_FACTORS, member_models, strict=True):
            member_values = next(values)[None]
            trials.append(
                replace(
                    trial,
                    alpha=factor * trial.alpha,
                    values=member_values,
                    loss=evaluation.loss(member_values),
                )
            )
    average = best_average(sorted(trials, key=lambda trial: trial.loss), evaluation)
    linear = {id(trial): model for trial, model in zip(trials, all_models, strict=True)}
    machines = [
        LinearMember(linear[id(trial)].leaf, linear[id(trial)].W, linear[id(trial)].b, share)
        for trial, share in zip(average.members, average.shares, strict=True)
    ]
    return StreamedResult(trees, widths, machines, average, evaluation.calibration(average.values))


def _make_graph(
    members: Sequence[Trial], n_components: int, seed: int
) -> tuple[SharedFeatureGraph, list[int]]:
    """Return a feature graph with one leaf per member; members with the same embedding share its rows."""
    node_by_spec: dict[Any, Node] = {}
    roots, widths = [], []
    for leaf, trial in enumerate(members):
        spec, sigma = trial.view.spec, trial.row_kernel.sigma
        if sigma is None:
            node = node_by_spec.get(spec, Node(spec))
            if node.leaf < 0:
                node_by_spec[spec] = replace(node, leaf=leaf)
            else:
                roots.append(Node(spec, (), leaf))
            widths.append(spec.n_features)
            continue
        method = "structured" if spec.n_features > MAX_DENSE_INPUTS else "orthogonal"
        features = FourierSpec(spec.n_features, n_components, sigma, method, seed)
        widths.append(n_components)
        if trial.view.images:
            roots.append(Node(InvariantSpec(spec, features, trial.view.entry.images, spec.domain), (), leaf))
        else:
            node = node_by_spec.get(spec, Node(spec))
            node_by_spec[spec] = replace(node, children=(*node.children, Node(features, (), leaf)))
    return SharedFeatureGraph((*node_by_spec.values(), *roots)), widths
