"""Training of all candidates of a search in shared passes, and their decision values on held-out rows.

Candidates share a step if it and all earlier steps have equal parameters. An embedding is fitted on all training rows,
other steps on at most 512 of them, the sample of `RandomFourierFeatures`. SGD candidates share epochs: features of a
block are computed once for all candidates. The statistics of ridge candidates are summed in as many passes as needed to
use at most half of the memory. A last pass computes decision values of held-out rows. Candidates with different
``class_weight`` have separate columns of row weights.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, pairwise
from typing import Any

import joblib
import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.pipeline import Pipeline

from dkdist._base.embedding import SetEmbedding
from dkdist._base.invalid_sets import format_positions
from dkdist._base.parameter_checks import median_seed
from dkdist._base.random_streams import RngStream
from dkdist._numba.arrays import F64, I64
from dkdist._runtime.arrays import take_rows
from dkdist._runtime.blocks import Blocks, is_lazy
from dkdist._runtime.map_reduce import fold, map_blocks, tree_sum
from dkdist._runtime.process import warn
from dkdist._runtime.run import plan_blocks, resources
from dkdist.io.lazy_sets import LazySets
from dkdist.kernels.random_fourier_features import RandomFourierFeatures, median_rows
from dkdist.linear._tuning import (
    MAX_SCORE,
    MAX_SEARCH_TREE_LEVELS,
    MAX_WAITING_SUMS,
    MIN_AUTO_EPOCH_LIMIT,
    N_AUTO_SEARCH_STEPS,
    N_SEARCH_RIDGE_JOBS,
    N_STEP_SIZE_ROWS,
)
from dkdist.linear.epochs import BatchJobs, BatchSampler, epochs_for
from dkdist.linear.feature_trees import Node, SearchData, SharedFeatureGraph
from dkdist.linear.many_models import (
    GramKey,
    LinearModel,
    ModelBatchState,
    ModelGroup,
    StatisticsByKey,
    accumulate_outputs,
    held_out_values,
    merge_outputs,
    prepare_outputs,
    select_model,
    step_all,
)
from dkdist.linear.problems import (
    LinearLearner,
    apply_class_factors,
    block_range_job,
    class_factors,
    normalize_weights,
)
from dkdist.linear.ridge_statistics import iter_inverses, normal_equations, shift_targets, solve
from dkdist.linear.rows import RowLabels, n_blocks_to_shuffle
from dkdist.linear.sgd_steps import Objective, State, signs, step_size
from dkdist.sets import SampleSets


@dataclass
class Candidate:
    """One set of parameters, its learner, and the leaf (feature map) of the learner."""

    params: Mapping[str, Any]
    learner: Any
    leaf: int


@dataclass
class _GraphBuilder:
    """Builder of the feature graph: a fitted step and the steps that follow it."""

    transformer: Any
    sample_rows: Callable[[int], Any]
    children: dict[str, _GraphBuilder] = field(default_factory=dict)
    leaf: int = -1
    samples: dict[int, Any] = field(default_factory=dict)

    def sample(self, seed: int) -> Any:
        """Return cached rows of up to 512 sets, sampled with the seed of the next step."""
        if seed not in self.samples:
            self.samples[seed] = self.sample_rows(seed)
        return self.samples[seed]

    @property
    def width(self) -> int:
        """Number of columns."""
        return int(self.sample(0).shape[1] if self.transformer is None else self.transformer.spec_.n_features)

    def node(self) -> Node:
        spec = None if self.transformer is None else self.transformer.spec_
        return Node(spec, tuple(child.node() for child in self.children.values()), self.leaf)


def build_candidates(
    model: BaseEstimator, grid: Sequence[Mapping[str, Any]], X: Any, y: Any, rows: I64
) -> tuple[SharedFeatureGraph, list[int], list[Candidate]]:
    """Return the feature graph, the number of columns of each leaf, and the candidates; fit steps on ``rows``."""
    root = _GraphBuilder(None, partial(_sample_rows, X, rows))
    if isinstance(X, (SampleSets, LazySets)):
        X, y = X[rows], y[rows]
    widths: list[int] = []
    candidates = []
    for params in grid:
        *transformers, learner = _pipeline_steps(clone(model).set_params(**params))
        _require_embedding(X, [*transformers, learner])
        branch = root
        for transformer in transformers:
            key = joblib.hash([type(transformer).__name__, transformer.get_params()])
            if key not in branch.children:
                if isinstance(transformer, SetEmbedding):
                    _fit_embedding(transformer, X, y, rows)
                else:
                    transformer.fit(_median_sample(transformer, branch))
                branch.children[key] = _GraphBuilder(
                    transformer, partial(_transform_sample, transformer, branch)
                )
            branch = branch.children[key]
        if branch.leaf < 0:
            branch.leaf = len(widths)
            widths.append(branch.width)
        candidates.append(Candidate(params, learner, branch.leaf))
    if root.leaf >= 0:
        roots = (replace(root.node(), children=()), *(child.node() for child in root.children.values()))
    else:
        roots = tuple(child.node() for child in root.children.values())
    return SharedFeatureGraph(roots), widths, candidates


def _fit_embedding(embedding: Any, X: Any, y: Any, rows: I64) -> None:
    """Fit on the sets X, the ``rows`` of all sets; a warning gives positions of skipped sets among all sets."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"\d+ invalid set\(s\) left out of fit")
        embedding.fit(X, y)
    if len(skipped := rows[np.asarray(embedding.skipped_, np.int64)]):
        warn(f"{len(skipped)} invalid set(s) left out of fit: {format_positions(skipped)}")


def _median_sample(transformer: Any, below: _GraphBuilder) -> Any:
    """Return the rows for sigma="median" of this step."""
    return below.sample(median_seed(transformer.random_state))


def _transform_sample(transformer: Any, below: _GraphBuilder, seed: int) -> Any:
    return transformer.transform(below.sample(seed))


def _pipeline_steps(model: Any) -> list[Any]:
    """Return the steps of a candidate, the learner last; TypeError if a step cannot share passes."""
    steps = [step for _, step in model.steps] if isinstance(model, Pipeline) else [model]
    steps = [step for step in steps[:-1] if step not in (None, "passthrough")] + steps[-1:]
    allowed = [(SetEmbedding, RandomFourierFeatures)] * (len(steps) - 1) + [(LinearLearner,)]
    for i, (step, kinds) in enumerate(zip(steps, allowed, strict=True)):
        if not isinstance(step, kinds) or (isinstance(step, SetEmbedding) and i > 0):
            raise TypeError(
                "estimator must consist of an embedding of sets, RandomFourierFeatures and an Incremental... learner, "
                f"in this order; got {step!r} as step {i}. Use scikit-learn's GridSearchCV for other steps."
            )
    return steps


def _require_embedding(X: Any, steps: list[Any]) -> None:
    """Raise ValueError if X are sets and the first step is not an embedding."""
    if isinstance(X, (SampleSets, LazySets)) and not isinstance(steps[0], SetEmbedding):
        raise ValueError(
            f"X must be an array of features for {type(steps[0]).__name__} as the first step; got sample sets. Insert "
            "an embedding of sets first, such as DivergenceEmbedding."
        )


def _sample_rows(X: Any, rows: I64, seed: int) -> Any:
    """Return up to 512 random rows of X, for a median distance."""
    chosen = rows[median_rows(len(rows), seed)]
    return take_rows(X, chosen) if is_lazy(X) else X[chosen]


@dataclass(frozen=True)
class SearchProblem:
    """Targets, classes (None for regression), row weights and the held-out mask of a search."""

    y: NDArray[Any]
    classes: NDArray[Any] | None
    weights: F64 | None
    held_out: NDArray[np.bool_]
    seed: int
    verbose: bool

    @property
    def trained(self) -> NDArray[np.bool_]:
        """Mask (n,) of the training rows."""
        return ~self.held_out if self.weights is None else ~self.held_out & (self.weights > 0)


@dataclass(frozen=True)
class WeightColumns:
    """Weights (n, c), one column per distinct ``class_weight``; None if all are 1."""

    columns: F64 | None
    column_by_key: dict[str, int]

    @classmethod
    def of(cls, candidates: Sequence[Candidate], problem: SearchProblem) -> WeightColumns:
        """Return products of row and class weights; classes are counted on training rows."""
        class_weights = {_weighting_key(c): getattr(c.learner, "class_weight", None) for c in candidates}
        places = {name: i for i, name in enumerate(class_weights)}
        is_unweighted = problem.weights is None and all(
            class_weight is None for class_weight in class_weights.values()
        )
        if is_unweighted or not candidates:
            return cls(None, places)
        train_weights = np.where(problem.trained, 1.0 if problem.weights is None else problem.weights, 0.0)
        columns = []
        for class_weight in class_weights.values():
            weights: F64 | None = train_weights
            if problem.classes is not None:
                factors = class_factors(class_weight, problem.classes, problem.y, train_weights)
                weights = apply_class_factors(train_weights, factors, problem.y)
            columns.append(weights)
        return cls(np.stack([column for column in columns if column is not None], axis=1), places)

    def __len__(self) -> int:
        return len(self.column_by_key)

    def column(self, candidate: Candidate) -> int:
        """Return the column of a candidate."""
        return self.column_by_key[_weighting_key(candidate)]

    def of_mean_one(self) -> F64 | None:
        """Return the columns scaled to mean 1 over the training rows."""
        if self.columns is None:
            return None
        return np.stack([np.asarray(normalize_weights(column)) for column in self.columns.T], axis=1)

    def curvature_ratios(self) -> F64:
        """Return the curvature factor E c^2 / E c of each column; default steps are divided by it."""
        columns = self.of_mean_one()
        return np.ones(len(self)) if columns is None else (columns**2).sum(axis=0) / columns.sum(axis=0)


def _weighting_key(candidate: Candidate) -> str:
    """Return ``class_weight`` as text that is equal for equal weights."""
    class_weight = getattr(candidate.learner, "class_weight", None)
    return repr(sorted(map(repr, class_weight.items())) if isinstance(class_weight, dict) else class_weight)


def train(
    data: SearchData, candidates: Sequence[Candidate], problem: SearchProblem
) -> list[list[LinearModel]]:
    """Return the models of every candidate: one, one per ridge penalty, or none if SGD diverged."""
    ridge = [c for c in candidates if c.learner.by_sums]
    sgd = [c for c in candidates if not c.learner.by_sums]
    models_by_candidate = {
        id(c): models for c, models in (*_train_sgd(data, sgd, problem), *_train_ridge(data, ridge, problem))
    }
    return [models_by_candidate[id(c)] for c in candidates]


def _train_sgd(
    data: SearchData, candidates: Sequence[Candidate], problem: SearchProblem
) -> list[tuple[Candidate, list[LinearModel]]]:
    if not candidates:
        return []
    leaves = sorted({c.leaf for c in candidates})
    blocks, features = data.blocks(leaves, simultaneous=True), data.features(leaves)
    targets, n_classes, weights = problem.y, 0, normalize_weights(problem.weights)
    for candidate in candidates:  # the result is the same for all candidates
        targets, n_classes = candidate.learner.settle_targets(problem.y, problem.classes, weights)
    dtype = np.dtype(np.float32)
    weightings = WeightColumns.of(candidates, problem)
    n_trained = int(problem.trained.sum())
    n_epochs = max(_n_epochs(c, n_trained) for c in candidates)
    n_shuffled = n_blocks_to_shuffle(targets, blocks.bounds, n_classes)
    labels = RowLabels(targets, problem.held_out, weightings.of_mean_one())
    order = BatchSampler(blocks, labels, problem.seed, n_shuffled, skip=data.skip)
    epochs = [order.lanes(epoch)[0] for epoch in range(n_epochs)]
    steps, curvature_ratios = (
        _learning_steps(features, blocks, candidates, problem.seed),
        weightings.curvature_ratios(),
    )
    members_by_key: dict[Any, list[tuple[Candidate, Objective]]] = {}
    for candidate in candidates:
        step, column = candidate.learner.eta0, weightings.column(candidate)
        step = (
            steps[candidate.leaf, candidate.learner.loss] / curvature_ratios[column]
            if step == "auto"
            else float(step)
        )
        objective = candidate.learner.objective(step, n_classes)
        shared_objective = replace(objective, eta0=0.0, alpha=0.0)
        key = candidate.leaf, column, shared_objective, _n_epochs(candidate, n_trained)
        members_by_key.setdefault(key, []).append((candidate, objective))
    groups = [
        ModelGroup(
            leaf, column, shared_objective, np.array([objective.eta0 for _, objective in members]),
            np.array([objective.alpha for _, objective in members]), epochs_each * len(epochs[0]),
        )
        for (leaf, column, shared_objective, epochs_each), members in members_by_key.items()
    ]  # fmt: skip
    starts = [
        State.start(len(group.alpha) * group.objective.n_outputs, data.widths[group.leaf], dtype)
        for group in groups
    ]
    state_bytes = 8 * sum(start.coef.nbytes for start in starts)
    plan = plan_blocks(
        blocks, what="search, SGD", passes=n_epochs, waiting=4 * n_shuffled, state_bytes=state_bytes
    )
    with plan.run(problem.verbose) as progress:
        final_state: ModelBatchState = fold(
            blocks, BatchJobs(order, list(chain(*epochs))), partial(prepare_outputs, features, dtype),
            partial(step_all, groups), ModelBatchState(0, tuple(starts)), label="search",
            blocks_per_job=n_shuffled, progress=progress,
        )  # fmt: skip
    return [
        (candidate, _sgd_models(candidate, select_model(state, i, objective.n_outputs)))
        for state, members in zip(final_state.states, members_by_key.values(), strict=True)
        for i, (candidate, objective) in enumerate(members)
    ]


def _n_epochs(candidate: Candidate, n_trained: int) -> int:
    """Return the number of epochs; "auto" depends only on the number of rows, because candidates share passes."""
    n_epochs = candidate.learner.n_epochs
    return (
        epochs_for(n_trained, N_AUTO_SEARCH_STEPS, MIN_AUTO_EPOCH_LIMIT)
        if isinstance(n_epochs, str)
        else int(n_epochs)
    )


def _learning_steps(
    features: Any, blocks: Blocks, candidates: Sequence[Candidate], seed: int
) -> dict[tuple[int, str], float]:
    """Return the default step for every leaf and loss, estimated from one random block."""
    keys = sorted({(c.leaf, c.learner.loss) for c in candidates})
    i = int(np.random.default_rng((seed, RngStream.ROW_ORDER)).choice(np.flatnonzero(np.diff(blocks.bounds))))
    steps = map_blocks(
        blocks,
        partial(_step_sizes, features, keys),
        blocks.bounds[:-1].tolist(),
        only=[i],
        label="sgd_step_size",
    )[0]
    return dict(zip(keys, steps, strict=True))


def _step_sizes(features: Any, keys: Sequence[tuple[int, str]], block: Any, first: int) -> list[float]:
    step_by_key: dict[tuple[int, str], float] = {}
    for leaf, X in features(block, first, None):
        valid = X[:N_STEP_SIZE_ROWS][np.isfinite(X[:N_STEP_SIZE_ROWS]).all(axis=1)]
        step_by_key |= {
            key: step_size(key[1], valid) if len(valid) else 1.0 for key in keys if key[0] == leaf
        }
    return [step_by_key[key] for key in keys]


def _sgd_models(candidate: Candidate, state: State) -> list[LinearModel]:
    with np.errstate(invalid="ignore"):
        if not (np.abs(state.mean_coef) < MAX_SCORE).all():
            return []
    candidate.learner.set_model(state)
    return [_as_linear_model(candidate.leaf, candidate.learner.coef_, candidate.learner.intercept_)]


def _as_linear_model(leaf: int, coef: NDArray[Any], intercept: Any) -> LinearModel:
    return LinearModel(leaf, np.atleast_2d(coef), np.atleast_1d(np.asarray(intercept)))


def _train_ridge(
    data: SearchData, candidates: Sequence[Candidate], problem: SearchProblem
) -> list[tuple[Candidate, list[LinearModel]]]:
    models_by_candidate: list[tuple[Candidate, list[LinearModel]]] = []
    y = problem.y.astype(np.float64) if problem.classes is None else signs(problem.y, len(problem.classes))
    y, weightings = y.reshape(len(y), -1), WeightColumns.of(candidates, problem)
    offset = y[problem.trained].mean(axis=0)
    for leaves in _split_by_memory(data, sorted({c.leaf for c in candidates}), len(weightings)):
        members = [c for c in candidates if c.leaf in leaves]
        keys = sorted({_gram_key(c, weightings) for c in members})
        labels = RowLabels(y - offset, problem.held_out, weightings.columns)
        sums = sum_statistics(data, leaves, keys, labels, problem)
        for candidate in members:
            centre = bool(candidate.learner.fit_intercept)
            statistics = sums[_gram_key(candidate, weightings)]
            equations = normal_equations(statistics if centre else shift_targets(statistics, offset), centre)
            models = []
            for inverse in iter_inverses(equations, candidate.learner.penalties()):
                w, b = solve(equations, inverse)
                models.append(_as_linear_model(candidate.leaf, w.T, b + offset if centre else b))
            models_by_candidate.append((candidate, models))
    return models_by_candidate


def _gram_key(candidate: Candidate, weightings: WeightColumns) -> GramKey:
    return candidate.leaf, bool(candidate.learner.fit_intercept), weightings.column(candidate)


def _split_by_memory(data: SearchData, leaves: Sequence[int], n_weightings: int) -> list[list[int]]:
    """Group leaves so that the Gram matrices of a group in memory fit into half of the free memory."""
    limits = resources()
    n_alive = limits.threads + MAX_WAITING_SUMS + MAX_SEARCH_TREE_LEVELS
    groups: list[list[int]] = []
    max_bytes, used_bytes = limits.free / 2, np.inf
    for leaf in leaves:
        leaf_bytes = n_alive * n_weightings * 8 * data.widths[leaf] ** 2
        if used_bytes + leaf_bytes > max_bytes:
            groups.append([])
            used_bytes = 0
        groups[-1].append(leaf)
        used_bytes += leaf_bytes
    return groups


def sum_statistics(
    data: SearchData,
    leaves: Sequence[int],
    keys: Sequence[GramKey],
    labels: RowLabels,
    problem: SearchProblem,
    dtype: type[Any] = np.float32,
) -> StatisticsByKey:
    """Return the statistics of the training rows of all blocks, with products in ``dtype``."""
    blocks, features = data.blocks(leaves, simultaneous=False), data.features(leaves)
    edges = np.unique(np.linspace(0, len(blocks), N_SEARCH_RIDGE_JOBS + 1).round().astype(int))
    jobs = [block_range_job(blocks, a, b, labels, data.skip) for a, b in pairwise(edges.tolist())]
    state_bytes = sum(8 * data.widths[leaf] ** 2 for leaf, *_ in keys) * (
        MAX_SEARCH_TREE_LEVELS + MAX_WAITING_SUMS
    )
    plan = plan_blocks(blocks, what="search, ridge", passes=1, waiting=1, state_bytes=state_bytes)
    work = partial(accumulate_outputs, features, np.dtype(dtype), keys)
    with plan.run(problem.verbose) as progress:
        sums: StatisticsByKey = tree_sum(
            blocks, jobs, work, merge_outputs, window=MAX_WAITING_SUMS, label="grams", progress=progress
        )
    return sums


def held_out_decision_values(
    data: SearchData, models: Sequence[LinearModel], problem: SearchProblem
) -> list[F64]:
    """Return the decision values (n_held_out, n_outputs) of every model on all held-out rows."""
    leaves = sorted({model.leaf for model in models})
    blocks, features = data.blocks(leaves, simultaneous=False), data.features(leaves)
    extras = [(int(blocks.bounds[i]), problem.held_out[blocks.rows(i)]) for i in range(len(blocks))]
    parts = map_blocks(blocks, partial(held_out_values, features, models), extras, label="search_score")
    return [np.concatenate(of_model) for of_model in zip(*parts, strict=True)]
