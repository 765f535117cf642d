"""Fits on large collections: random features approximate the selected kernels, in one pass over the data.

A member consists of an embedding, random features of its rows, and ridge regression. All members are trained in the
same pass and averaged with weights that are selected on held-out sets. Members on n-grams of strings use
sparse rows of up to 131,072 n-grams, which cost less than 4,096 dense columns: a first name has about 35 n-grams, and
the conjugate gradient method needs only products with the sparse rows. A few thousand random features do not
approximate a Gaussian kernel of such rows well. If n-grams are clearly better than other candidates on a few thousand
strings (`sufficient_ngrams`), the other candidates are not fitted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.linear_model import Ridge

from dkdist._base.inputs import Sets, map_set_blocks
from dkdist._base.random_streams import RngStream
from dkdist._numba.arrays import F64
from dkdist._utils.memory_budget import memory_limit, resident_bytes
from dkdist.auto._tuning import (
    HELD_OUT_FRACTION,
    MAX_NGRAM_COEFFICIENTS,
    MAX_NGRAMS,
    MIN_SELECTION_SETS,
    PILOT_COMPONENTS,
    PILOT_HELD_OUT_FRACTION,
    PILOT_SETS,
    PILOT_SYMBOLS,
    SPARSE_PENALTIES,
    SPARSE_RIDGE_TOL,
    STREAMED_PENALTY_FACTORS,
)
from dkdist.auto.ensemble import LinearMember
from dkdist.auto.folds import draw_hold_out, sample_positions
from dkdist.auto.representation_rows import FittedRepresentation, RowKernel
from dkdist.auto.scoring import EvaluationSet, TrainingData
from dkdist.auto.successive_halving import Trial, WeightedAverage, best_average
from dkdist.embeddings.invariant_features import InvariantSpec
from dkdist.embeddings.ngrams import NGramEmbedding, NGramParams
from dkdist.embeddings.positions import PositionParams
from dkdist.kernels._tuning import MAX_DENSE_INPUTS
from dkdist.kernels.random_fourier_params import FourierSpec
from dkdist.linear.feature_trees import Node, SearchData, SharedFeatureGraph
from dkdist.linear.many_models import LinearModel
from dkdist.linear.ridge import IncrementalRidge
from dkdist.linear.search_training import Candidate, SearchProblem, held_out_decision_values, train
from dkdist.sets import SampleSets

BYTES_PER_SYMBOL = 3 * 5 * 12  # 5 n-grams of 12 bytes in three copies (tests/auto/test_sparse_ngrams.py)


def with_sparse_ngrams(
    trials: Sequence[Trial], sets: Sets, n_targets: int = 1
) -> tuple[list[Trial], list[bool]]:
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
            result.append(
                replace(trial, kernel=RowKernel(None), view=_refit_view(trial.view, sets, n_targets))
            )
    return result, [isinstance(trial.view.spec, NGramParams) for trial in result]


def _refit_view(view: FittedRepresentation, sets: Sets, n_targets: int) -> FittedRepresentation:
    if view.entry.family != "ngrams":
        return view
    max_features = max(1, min(MAX_NGRAMS, MAX_NGRAM_COEFFICIENTS // n_targets))
    embedding = NGramEmbedding(max_features=max_features).fit(sets)
    return replace(view, entry=replace(view.entry, embedding=embedding), spec=embedding.spec_)


def fit_sparse_ridge(rows: sparse.csr_array, y: F64, weights: F64, alpha: float) -> tuple[F64, F64]:
    """Return coefficients (t, m) and intercepts (t,) for rows (n, m), targets y (n, t) and weights (n,)."""
    ridge = Ridge(alpha, solver="sparse_cg", tol=SPARSE_RIDGE_TOL).fit(rows, y, sample_weight=weights)
    return np.atleast_2d(ridge.coef_), np.atleast_1d(ridge.intercept_)


def sparse_rows(spec: NGramParams, sets: Sets) -> sparse.csr_array:
    """Return the rows (n_sets, m) of n-grams as a sparse array."""
    return sparse.vstack(map_set_blocks(partial(_sparse_rows, spec), sets, "ngrams"), format="csr")


def _sparse_rows(spec: NGramParams, sets: Sets, first: int) -> sparse.csr_array:
    loaded = sets if isinstance(sets, SampleSets) else sets.points_alone()
    return spec.materialize().sparse_rows(loaded)


@dataclass(frozen=True)
class FittedMembers:
    """Linear models of all members and penalties, and trials with their predictions for the held-out rows."""

    trees: SharedFeatureGraph
    widths: list[int]
    trials: list[Trial]
    models: list[LinearModel]
    evaluation: EvaluationSet
    data: TrainingData
    sparse_rows: dict[int, sparse.csr_array]

    def member(self, trial: Trial, share: float = 1.0) -> LinearMember:
        """Return the ensemble member of one of the trials; on sparse rows it is fitted on all sets."""
        model = next(m for t, m in zip(self.trials, self.models, strict=True) if t is trial)
        W, b = model.W, model.b
        if (rows := self.sparse_rows.get(model.leaf)) is not None:
            W, b = fit_sparse_ridge(rows, self.data.y, self.data.weights, trial.alpha)
        return LinearMember(model.leaf, W, b, share)


@dataclass(frozen=True)
class StreamedResult:
    """Fitted members, their weighted average on the held-out rows, and the members of the baselines by name."""

    trees: SharedFeatureGraph
    widths: list[int]
    machines: list[LinearMember]
    average: WeightedAverage
    calibration: F64 | None
    baselines: dict[str, LinearMember]


def fit_streamed(
    data: TrainingData, members: Sequence[Trial], n_components: int, baselines: Mapping[str, Trial]
) -> StreamedResult:
    """Fit all members on 90 % of the sets, and select the weights of their average on the others.

    Baselines on symbols of strings are fitted on the same sets; others are left to the caller.
    """
    views = [trial.view for trial in members]
    symbolic = {name: trial for name, trial in baselines.items() if has_symbols(trial)}
    added = [trial for trial in symbolic.values() if trial.view not in views]
    fitted = _fit_members(data, [*members, *added], n_components, HELD_OUT_FRACTION)
    ranked = sorted(fitted.trials, key=lambda trial: trial.loss)
    if len(fitted.widths) == len(fitted.sparse_rows) == 1:  # one penalty, so that a later fit can repeat it
        ranked = ranked[:1]
    average = best_average(ranked, fitted.evaluation)
    machines = [
        fitted.member(trial, share) for trial, share in zip(average.members, average.shares, strict=True)
    ]
    best = {trial.name: trial for trial in reversed(ranked) if trial.name in symbolic}
    known = {id(t): m for t, m in zip(average.members, machines, strict=True) if m.share == 1}
    baseline_members = {name: known.get(id(trial)) or fitted.member(trial) for name, trial in best.items()}
    calibration = fitted.evaluation.calibration(average.values)
    return StreamedResult(fitted.trees, fitted.widths, machines, average, calibration, baseline_members)


def refit_ngrams(best: Trial, data: TrainingData) -> tuple[FittedRepresentation, LinearMember]:
    """Fit a linear trial on n-grams, with its penalty, on all sets of ``data``."""
    view = _refit_view(best.view, data.sets, data.y.shape[1])
    W, b = fit_sparse_ridge(sparse_rows(view.spec, data.sets), data.y, data.weights, best.alpha)
    return view, LinearMember(0, W, b, 1.0)


def has_symbols(trial: Trial) -> bool:
    """Return whether columns are n-grams or positions of symbols."""
    return isinstance(trial.view.spec, (NGramParams, PositionParams))


def sufficient_ngrams(data: TrainingData, trials: Sequence[Trial]) -> Trial | None:
    """Return the trial on n-grams, as a linear model, if all other candidates are clearly worse; otherwise None.

    The candidates are fitted on a few thousand strings. N-grams gain more from further strings than random features
    of distances, which take most of the time of a fit. N-grams must be better than the other candidates by
    `SIGNIFICANCE_Z` standard errors of the paired difference, and better than the constant.
    """
    best = {trial.view.entry.family: trial for trial in reversed(trials) if trial.name != "sizes"}
    ngrams = best.pop("ngrams", None)
    rng = np.random.default_rng([data.seed, RngStream.HELD_OUT, 1])
    max_strings = min(PILOT_SETS, max(MIN_SELECTION_SETS, PILOT_SYMBOLS * len(data) // data.sets.n_points))
    pilot = replace(data.take(sample_positions(rng, len(data), max_strings)), criterion=None)
    if ngrams is None or (pilot.groups is not None and len(np.unique(pilot.groups)) < 2):
        return None
    members = [ngrams, *best.values()]
    fitted = _fit_members(pilot, members, PILOT_COMPONENTS, PILOT_HELD_OUT_FRACTION)
    values = {trial.name: trial.values for trial in sorted(fitted.trials, key=lambda trial: -trial.loss)}
    ngram_values, evaluation = values.pop(ngrams.name), fitted.evaluation
    is_sufficient = evaluation.beats_constant(ngram_values) and all(
        evaluation.is_significantly_worse(other, ngram_values) for other in values.values()
    )
    return replace(ngrams, kernel=RowKernel(None)) if is_sufficient else None


def _fit_members(
    data: TrainingData, members: Sequence[Trial], n_components: int, held_out_fraction: float
) -> FittedMembers:
    """Fit every member with several penalties, without a fraction of the sets."""
    sets, y, weights, seed = data.sets, data.y, data.weights, data.seed
    held_out = np.zeros(len(data), np.bool_)
    held_out[
        draw_hold_out(len(data), data.classes, data.groups, held_out_fraction, seed, RngStream.HELD_OUT)
    ] = True
    members, are_sparse = with_sparse_ngrams(members, sets, y.shape[1])
    trees, widths = _make_graph(members, are_sparse, n_components, seed)
    problem = SearchProblem(y, None, weights, held_out, seed, False)
    search, evaluation = SearchData(sets, trees, widths, False), _held_out_evaluation(data, held_out)
    dense = [
        Candidate({}, IncrementalRidge(alphas=_penalties(trial)), leaf)
        for leaf, trial in enumerate(members)
        if not are_sparse[leaf]
    ]
    dense_models = dict(zip([c.leaf for c in dense], train(search, dense, problem), strict=True))
    all_models = [model for models in dense_models.values() for model in models]
    dense_values = iter(held_out_decision_values(search, all_models, problem) if all_models else ())
    trials, models, rows = list[Trial](), list[LinearModel](), dict[int, sparse.csr_array]()
    for leaf, trial in enumerate(members):
        if are_sparse[leaf]:
            rows[leaf] = sparse_rows(trial.view.spec, sets)
            fits = _fit_sparse(leaf, rows[leaf], data, held_out, evaluation)
        else:
            alphas = zip(dense_models[leaf], _penalties(trial), strict=False)
            fits = [(model, alpha, next(dense_values)) for model, alpha in alphas]
        for model, alpha, values in fits:
            models.append(model)
            trials.append(
                replace(trial, alpha=alpha, values=values[None], loss=evaluation.loss(values[None]))
            )
    return FittedMembers(trees, widths, trials, models, evaluation, data, rows)


def _held_out_evaluation(data: TrainingData, held_out: NDArray[np.bool_]) -> EvaluationSet:
    """Return the targets of the held-out sets; these may be one group, which has no folds of groups."""
    is_one_group = data.groups is not None and len(np.unique(data.groups[held_out])) < 2
    return (replace(data, groups=None) if is_one_group else data).evaluation_set(np.flatnonzero(held_out))


def _fit_sparse(
    leaf: int,
    rows: sparse.csr_array,
    data: TrainingData,
    held_out: NDArray[np.bool_],
    evaluation: EvaluationSet,
) -> list[tuple[LinearModel, float, F64]]:
    """Return a model, its penalty and its held-out values for falling penalties, until the loss increases.

    Smaller penalties need more iterations of conjugate gradients.
    """
    training_rows, y, weights = rows[~held_out], data.y[~held_out], data.weights[~held_out]
    fits, loss = list[tuple[LinearModel, float, F64]](), np.inf
    for alpha in SPARSE_PENALTIES:
        W, b = fit_sparse_ridge(training_rows, y, weights, alpha)
        values = rows[held_out] @ W.T + b
        fits.append((LinearModel(leaf, W, b), alpha, values))
        previous, loss = loss, evaluation.loss(values[None])
        if loss > previous:
            break
    return fits


def _penalties(trial: Trial) -> list[float]:
    return [factor * trial.alpha for factor in STREAMED_PENALTY_FACTORS]


def _make_graph(
    members: Sequence[Trial], are_sparse: Sequence[bool], n_components: int, seed: int
) -> tuple[SharedFeatureGraph, list[int]]:
    """Return a feature graph with one leaf per member; members with the same embedding share its rows."""
    node_by_spec: dict[Any, Node] = {}
    roots, widths = [], []
    for leaf, trial in enumerate(members):
        spec, sigma = trial.view.spec, trial.row_kernel.sigma
        if sigma is None:
            node = node_by_spec.get(spec, Node(spec, sparse=are_sparse[leaf]))
            if node.leaf < 0:
                node_by_spec[spec] = replace(node, leaf=leaf)
            else:
                roots.append(replace(node, children=(), leaf=leaf))
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
