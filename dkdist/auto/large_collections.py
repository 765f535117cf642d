"""Fits on large collections: landmarks approximate the selected kernels, in one pass over the data.

A member consists of an embedding and kernel ridge regression with landmarks (`landmark_ridge`). All members are trained
in the same pass and averaged with weights that are selected on held-out sets. Members on n-grams of strings use
sparse rows of up to 131,072 n-grams: a first name has about 35 n-grams, and the conjugate gradient method needs only
products with the sparse rows. A thousand landmarks do not approximate a Gaussian kernel of such rows well. If n-grams
are clearly better than other candidates on a few thousand strings (`sufficient_ngrams`), the other candidates are not
fitted.
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
from dkdist.auto import _tuning
from dkdist.auto.budgets import Budget
from dkdist.auto.cox_members import landmark_cox_member
from dkdist.auto.ensemble import Ensemble, KernelMember, LinearMember
from dkdist.auto.folds import draw_hold_out, sample_positions
from dkdist.auto.landmark_ridge import LandmarkData, LandmarkKernel, LandmarkModels, sum_landmark_statistics
from dkdist.auto.representation_rows import FittedRepresentation, RowKernel, leaf_rows
from dkdist.auto.representations import is_text
from dkdist.auto.scoring import EvaluationSet, TrainingData
from dkdist.auto.successive_halving import Rows, Trial, WeightedAverage, best_average
from dkdist.embeddings.ngrams import NGramEmbedding, NGramParams
from dkdist.embeddings.positions import PositionParams
from dkdist.linear.feature_trees import Node, SearchData, SharedFeatureGraph
from dkdist.linear.search_training import SearchProblem
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
    max_features = max(1, min(_tuning.MAX_NGRAMS, _tuning.MAX_NGRAM_COEFFICIENTS // n_targets))
    embedding = NGramEmbedding(max_features=max_features).fit(sets)
    return replace(view, entry=replace(view.entry, embedding=embedding), spec=embedding.spec_)


def fit_sparse_ridge(rows: sparse.csr_array, y: F64, weights: F64, alpha: float) -> tuple[F64, F64]:
    """Return coefficients (t, m) and intercepts (t,) for rows (n, m), targets y (n, t) and weights (n,)."""
    ridge = Ridge(alpha, solver="sparse_cg", tol=_tuning.SPARSE_RIDGE_TOL).fit(rows, y, sample_weight=weights)
    return np.atleast_2d(ridge.coef_), np.atleast_1d(ridge.intercept_)


def sparse_rows(spec: NGramParams, sets: Sets) -> sparse.csr_array:
    """Return the rows (n_sets, m) of n-grams as a sparse array."""
    return sparse.vstack(map_set_blocks(partial(_sparse_rows, spec), sets, "ngrams"), format="csr")


def _sparse_rows(spec: NGramParams, sets: Sets, first: int) -> sparse.csr_array:
    loaded = sets if isinstance(sets, SampleSets) else sets.points_alone()
    return spec.materialize().sparse_rows(loaded)


@dataclass(frozen=True)
class SparseModels:
    """Models of one leaf with sparse rows (n, m)."""

    leaf: int
    rows: sparse.csr_array


@dataclass(frozen=True)
class FittedMembers:
    """Trials of all members and penalties with their predictions for the held-out rows, and models to refit them."""

    trees: SharedFeatureGraph
    widths: tuple[int, ...]
    trials: list[Trial]
    models: list[LandmarkModels | SparseModels]
    evaluation: EvaluationSet
    data: TrainingData
    search: LandmarkData

    def member(self, trial: Trial, share: float = 1.0) -> LinearMember | KernelMember:
        """Return the ensemble member of one of the trials, fitted on all sets."""
        source = next(m for t, m in zip(self.trials, self.models, strict=True) if t is trial)
        if isinstance(source, SparseModels):
            W, b = fit_sparse_ridge(source.rows, self.data.y, self.data.weights, trial.alpha)
            return LinearMember(source.leaf, W, b, share)
        kernel = source.kernel
        a, b = source.fit_all(trial.alpha)
        if self.data.survival is not None and self.data.survival.event.any():
            index = self.search.kernels.index(kernel)
            return landmark_cox_member(self.search, index, self.data.survival, trial.alpha, a[:, 0], share)
        return KernelMember(kernel.leaf, kernel.kernel, kernel.images, a, kernel.centre, share, b)

    def ensemble(self, parts: Sequence[LinearMember | KernelMember]) -> Ensemble:
        """Return the ensemble of some members."""
        return Ensemble.of(self.trees, self.widths, parts, self.data.y.shape[1])

    @property
    def has_only_sparse_rows(self) -> bool:
        """Whether all models are on the same sparse rows."""
        return len(self.widths) == 1 and isinstance(self.models[0], SparseModels)


@dataclass(frozen=True)
class FittedAverage:
    """A weighted average of trials, fitted on all sets, and ensembles of some baselines by name."""

    average: WeightedAverage
    ensemble: Ensemble
    is_constant: bool
    calibration: F64 | None
    baselines: dict[str, Ensemble]


def fit_streamed(
    data: TrainingData, members: Sequence[Trial], landmarks: Rows, baselines: Mapping[str, Trial]
) -> FittedAverage:
    """Select penalties and weights of an average on up to 25 % of the sets, and fit its members on all.

    ``landmarks`` are rows of landmark sets by leaf. Baselines on symbols of strings are fitted on the same sets; others
    are left to the caller.
    """
    views = [trial.view for trial in members]
    symbolic = {name: trial for name, trial in baselines.items() if has_symbols(trial)}
    added = [trial for trial in symbolic.values() if trial.view not in views]
    held_out_fraction = min(_tuning.HELD_OUT_FRACTION, _tuning.MAX_HELD_OUT_SETS / len(data))
    fitted = _fit_members(data, [*members, *added], landmarks, held_out_fraction)
    ranked = sorted(fitted.trials, key=lambda trial: trial.loss)
    if fitted.has_only_sparse_rows:  # one penalty, so that a later fit can repeat it
        ranked = ranked[:1]
    average = best_average(ranked, fitted.evaluation)
    machines = [
        fitted.member(trial, share) for trial, share in zip(average.members, average.shares, strict=True)
    ]
    best = {trial.name: trial for trial in reversed(ranked) if trial.name in symbolic}
    ensemble = fitted.ensemble(machines)
    known = {id(trial): ensemble for trial in average.members if len(machines) == 1}
    baseline_ensembles = {
        name: known.get(id(trial)) or fitted.ensemble([fitted.member(trial)]) for name, trial in best.items()
    }
    evaluation = fitted.evaluation
    is_constant = not evaluation.beats_constant(average.values)
    calibration = evaluation.calibration(average.values)
    return FittedAverage(average, ensemble, is_constant, calibration, baseline_ensembles)


def refit_ngrams(best: Trial, data: TrainingData) -> tuple[FittedRepresentation, Ensemble]:
    """Fit a linear trial on n-grams, with its penalty, on all sets of ``data``."""
    view = _refit_view(best.view, data.sets, data.y.shape[1])
    W, b = fit_sparse_ridge(sparse_rows(view.spec, data.sets), data.y, data.weights, best.alpha)
    graph = SharedFeatureGraph((Node(view.spec, (), 0, sparse=True),))
    return view, Ensemble.of(graph, [view.n_features], [LinearMember(0, W, b, 1.0)], data.y.shape[1])


def has_symbols(trial: Trial) -> bool:
    """Return whether columns are n-grams or positions of symbols."""
    return isinstance(trial.view.spec, (NGramParams, PositionParams))


def sufficient_ngrams(
    data: TrainingData, trials: Sequence[Trial], landmarks: Rows, budget: Budget
) -> Trial | None:
    """Return the trial on n-grams, as a linear model, if all other candidates are clearly worse; otherwise None.

    Only for many strings, and with time left and no limit of memory. The candidates are fitted on a few thousand
    strings. N-grams gain more from further strings than distances, which take most of the time of a fit. N-grams must
    be better than the other candidates by `SIGNIFICANCE_Z` standard errors of the paired difference, and better than
    the constant.
    """
    is_large = is_text(data.sets) and len(data) > _tuning.MAX_SELECTION_SETS and not data.needs_exact_fit
    if not is_large or np.isfinite(budget.memory) or budget.is_exhausted:
        return None
    best = {trial.view.entry.family: trial for trial in reversed(trials) if trial.name != "sizes"}
    ngrams = best.pop("ngrams", None)
    rng = np.random.default_rng([data.seed, RngStream.HELD_OUT, 1])
    max_strings = min(
        _tuning.PILOT_SETS,
        max(_tuning.MIN_SELECTION_SETS, _tuning.PILOT_SYMBOLS * len(data) // data.sets.n_points),
    )
    pilot = replace(data.take(sample_positions(rng, len(data), max_strings)), criterion=None)
    if ngrams is None or (pilot.groups is not None and len(np.unique(pilot.groups)) < 2):
        return None
    members = [ngrams, *best.values()]
    fitted = _fit_members(pilot, members, landmarks, _tuning.PILOT_HELD_OUT_FRACTION)
    values = {trial.name: trial.values for trial in sorted(fitted.trials, key=lambda trial: -trial.loss)}
    ngram_values, evaluation = values.pop(ngrams.name), fitted.evaluation
    is_sufficient = evaluation.beats_constant(ngram_values) and all(
        evaluation.is_significantly_worse(other, ngram_values) for other in values.values()
    )
    return replace(ngrams, kernel=RowKernel(None)) if is_sufficient else None


def _fit_members(
    data: TrainingData, members: Sequence[Trial], landmarks: Rows, held_out_fraction: float
) -> FittedMembers:
    """Fit every member with several penalties, without a fraction of the sets."""
    sets, y, weights, seed = data.sets, data.y, data.weights, data.seed
    held_out = np.zeros(len(data), np.bool_)
    held_out[
        draw_hold_out(len(data), data.classes, data.groups, held_out_fraction, seed, RngStream.HELD_OUT)
    ] = True
    evaluation = _held_out_evaluation(data, held_out)
    members, are_sparse = with_sparse_ngrams(members, sets, y.shape[1])
    trees, widths, leaves = _make_graph(members, are_sparse)
    problem = SearchProblem(y, None, weights, held_out, seed, False)
    dense = [i for i in range(len(members)) if not are_sparse[i]]
    kernels = tuple(
        LandmarkKernel(leaves[i], members[i].row_kernel, tuple(members[i].view.of(landmarks))) for i in dense
    )
    search = LandmarkData(sets, trees, [len(one.images[0]) for one in kernels], False, kernels)
    held_out_data = SearchData(sets[np.flatnonzero(held_out)], trees, widths, False)
    held_out_rows = leaf_rows(held_out_data, sorted({leaves[i] for i in dense}))
    dense_models = dict(zip(dense, sum_landmark_statistics(search, problem, held_out_rows), strict=True))
    trials, models = list[Trial](), list[LandmarkModels | SparseModels]()
    for i, trial in enumerate(members):
        if are_sparse[i]:
            source: Any = SparseModels(leaves[i], sparse_rows(trial.view.spec, sets))
            alphas, values = _fit_sparse(source.rows, data, held_out, evaluation)
        else:
            source, alphas = dense_models[i], _penalties(trial)
            values = source.held_out_values(alphas)
        models += [source] * len(alphas)
        trials += [
            replace(trial, alpha=alpha, values=one[None], loss=evaluation.loss(one[None]))
            for alpha, one in zip(alphas, values, strict=True)
        ]
    return FittedMembers(trees, widths, trials, models, evaluation, data, search)


def _held_out_evaluation(data: TrainingData, held_out: NDArray[np.bool_]) -> EvaluationSet:
    """Return the targets of the held-out sets; these may be one group, which has no folds of groups."""
    is_one_group = data.groups is not None and len(np.unique(data.groups[held_out])) < 2
    return (replace(data, groups=None) if is_one_group else data).evaluation_set(np.flatnonzero(held_out))


def _fit_sparse(
    rows: sparse.csr_array, data: TrainingData, held_out: NDArray[np.bool_], evaluation: EvaluationSet
) -> tuple[list[float], list[F64]]:
    """Return falling penalties, until the loss increases, and the held-out values of each.

    Smaller penalties need more iterations of conjugate gradients.
    """
    training_rows, y, weights = rows[~held_out], data.y[~held_out], data.weights[~held_out]
    alphas, values, loss = list[float](), list[F64](), np.inf
    for alpha in _tuning.SPARSE_PENALTIES:
        W, b = fit_sparse_ridge(training_rows, y, weights, alpha)
        alphas.append(alpha)
        values.append(rows[held_out] @ W.T + b)
        previous, loss = loss, evaluation.loss(values[-1][None])
        if loss > previous:
            break
    return alphas, values


def _penalties(trial: Trial) -> list[float]:
    return [factor * trial.alpha for factor in _tuning.STREAMED_PENALTY_FACTORS]


def _make_graph(
    members: Sequence[Trial], are_sparse: Sequence[bool]
) -> tuple[SharedFeatureGraph, tuple[int, ...], list[int]]:
    """Return the feature graph of the members, the columns of its leaves, and the leaf of each member."""
    nodes = dict.fromkeys((trial.view.spec, flag) for trial, flag in zip(members, are_sparse, strict=True))
    leaf_by_node = {node: leaf for leaf, node in enumerate(nodes)}
    roots = tuple(Node(spec, (), leaf, sparse=flag) for (spec, flag), leaf in leaf_by_node.items())
    leaves = [leaf_by_node[trial.view.spec, flag] for trial, flag in zip(members, are_sparse, strict=True)]
    return SharedFeatureGraph(roots), tuple(spec.n_features for spec, _ in nodes), leaves
