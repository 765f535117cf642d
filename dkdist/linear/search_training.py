"""Training all candidates of a search at once, and measuring them on the rows that were held out.

SGD candidates go through the epochs together, each block's features made once for all of them; ridge candidates sum
the statistics of their features, as many at a time as fit into half of the memory. A last pass over the held-out rows
gives every model's decision values there, which any scorer of scikit-learn can be asked about.

Candidates of a search: which steps they have in common, each such step fitted once, and which features result.

Two candidates share a step if it and all steps before it have the same parameters. Steps are fitted on the rows that
are not held out: an embedding on all of them, other steps on the rows of at most 512 of them, those that
`RandomFourierFeatures` would sample.

What a search is to learn, and how rows are weighted: candidates with another ``class_weight`` have a column each.
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
from dkdist.io import SetStore
from dkdist.kernels.random_fourier_features import RandomFourierFeatures, median_rows
from dkdist.linear.epochs import FEW_EPOCHS, BatchSampler, Jobs, epochs_for
from dkdist.linear.feature_trees import Node, SearchData, SharedFeatureGraph
from dkdist.linear.many_models import (
    GramKey,
    Linear,
    ModelBatchState,
    ModelGroup,
    accumulate_leaves,
    held_out_values,
    merge_leaves,
    one_of,
    prepare_leaves,
    step_all,
)
from dkdist.linear.problems import LinearLearner, class_factors, neighbours_job, of_mean_one, times_factors
from dkdist.linear.ridge_statistics import centred, inverses, of_targets_plus, solution
from dkdist.linear.rows import RowLabels, n_blocks_to_shuffle
from dkdist.linear.sgd_steps import Objective, State, signs, step_size
from dkdist.sets import SampleSets


@dataclass
class Candidate:
    """One set of parameters: its learner, and the leaf whose features the learner takes."""

    params: Mapping[str, Any]
    learner: Any
    leaf: int


@dataclass
class _Branch:
    """A fitted step and the steps that follow it, while the trees are built."""

    transformer: Any
    taken: Callable[[int], Any]
    children: dict[str, _Branch] = field(default_factory=dict)
    leaf: int = -1
    samples: dict[int, Any] = field(default_factory=dict)

    def sample(self, seed: int) -> Any:
        """Rows of up to 512 sets, which the seed of a step that follows draws, made when it needs them."""
        if seed not in self.samples:
            self.samples[seed] = self.taken(seed)
        return self.samples[seed]

    @property
    def width(self) -> int:
        """Columns of its rows."""
        return int(self.sample(0).shape[1] if self.transformer is None else self.transformer.spec_.n_features)

    def node(self) -> Node:
        spec = None if self.transformer is None else self.transformer.spec_
        return Node(spec, tuple(child.node() for child in self.children.values()), self.leaf)


def build_candidates(
    model: BaseEstimator, grid: Sequence[Mapping[str, Any]], X: Any, y: Any, rows: I64
) -> tuple[SharedFeatureGraph, list[int], list[Candidate]]:
    """The trees of all features, the width of each leaf, and the candidates; transformers are fitted on ``rows``."""
    root = _Branch(None, partial(_sample, X, rows))
    if isinstance(X, (SampleSets, SetStore)):
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
                    transformer.fit(_looked_at(transformer, branch))
                branch.children[key] = _Branch(transformer, partial(_transformed, transformer, branch))
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
    """Fit on the sets X, which are ``rows`` of all; a warning names those that are left out among all."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"\d+ bad set\(s\) left out of fit")
        embedding.fit(X, y)
    if len(skipped := rows[np.asarray(embedding.skipped_, np.int64)]):
        warn(f"{len(skipped)} bad set(s) left out of fit: {format_positions(skipped)}")


def _looked_at(transformer: Any, below: _Branch) -> Any:
    """The rows that a median of this step is taken of."""
    return below.sample(median_seed(transformer.random_state))


def _transformed(transformer: Any, below: _Branch, seed: int) -> Any:
    return transformer.transform(below.sample(seed))


def _pipeline_steps(model: Any) -> list[Any]:
    """The steps of a candidate, the learner last; `TypeError` for those that cannot share a pass."""
    steps = [step for _, step in model.steps] if isinstance(model, Pipeline) else [model]
    steps = [step for step in steps[:-1] if step not in (None, "passthrough")] + steps[-1:]
    allowed = [(SetEmbedding, RandomFourierFeatures)] * (len(steps) - 1) + [(LinearLearner,)]
    for i, (step, kinds) in enumerate(zip(steps, allowed, strict=True)):
        if not isinstance(step, kinds) or (isinstance(step, SetEmbedding) and i > 0):
            raise TypeError(
                f"step {i} is {step!r}: a search in one pass takes an embedding of sets first, then "
                "RandomFourierFeatures, and last an Incremental... learner. For other steps use scikit-learn's "
                "GridSearchCV"
            )
    return steps


def _require_embedding(X: Any, steps: list[Any]) -> None:
    """Refuse sets for a pipeline that has no place for them."""
    if isinstance(X, (SampleSets, SetStore)) and not isinstance(steps[0], SetEmbedding):
        raise ValueError(
            f"X are sample sets, and the first step is {type(steps[0]).__name__}, which takes rows of features: put "
            "an embedding of sets first, such as DivergenceEmbedding, or give features"
        )


def _sample(X: Any, rows: I64, seed: int) -> Any:
    """Up to 512 of some sets or rows: those that a median distance is taken from."""
    chosen = rows[median_rows(len(rows), seed)]
    return take_rows(X, chosen) if is_lazy(X) else X[chosen]


@dataclass(frozen=True)
class Problem:
    """What is to be learned: targets of the learners, class indices (None for regression), and what is held out."""

    y: NDArray[Any]
    classes: NDArray[Any] | None
    weights: F64 | None
    held_out: NDArray[np.bool_]
    seed: int
    verbose: bool

    @property
    def trained(self) -> NDArray[np.bool_]:
        """(n,): the rows that candidates learn from."""
        return ~self.held_out if self.weights is None else ~self.held_out & (self.weights > 0)


@dataclass(frozen=True)
class Weightings:
    """``columns`` (n, c) of weights, and the column of each ``class_weight``; None where all rows count one."""

    columns: F64 | None
    places: dict[str, int]

    @classmethod
    def of(cls, candidates: Sequence[Candidate], problem: Problem) -> Weightings:
        """Those of some candidates: weights of rows times those of classes, counted where they are learned from."""
        asked = {_name(c): getattr(c.learner, "class_weight", None) for c in candidates}
        places = {name: i for i, name in enumerate(asked)}
        plain = problem.weights is None and all(class_weight is None for class_weight in asked.values())
        if plain or not candidates:
            return cls(None, places)
        own = np.where(problem.trained, 1.0 if problem.weights is None else problem.weights, 0.0)
        columns = []
        for class_weight in asked.values():
            weights: F64 | None = own
            if problem.classes is not None:
                factors = class_factors(class_weight, problem.classes, problem.y, own)
                weights = times_factors(own, factors, problem.y)
            columns.append(weights)
        return cls(np.stack([column for column in columns if column is not None], axis=1), places)

    def __len__(self) -> int:
        return len(self.places)

    def column(self, candidate: Candidate) -> int:
        """The column that counts for a candidate."""
        return self.places[_name(candidate)]

    def of_mean_one(self) -> F64 | None:
        """The columns, each with mean 1 over the rows that are learned from."""
        if self.columns is None:
            return None
        return np.stack([np.asarray(of_mean_one(column)) for column in self.columns.T], axis=1)

    def longer(self) -> F64:
        """By how much each column's longest steps must be shortened: E c^2 / E c."""
        columns = self.of_mean_one()
        return np.ones(len(self)) if columns is None else (columns**2).sum(axis=0) / columns.sum(axis=0)


def _name(candidate: Candidate) -> str:
    """A ``class_weight`` as text, which tells equal ones."""
    class_weight = getattr(candidate.learner, "class_weight", None)
    return repr(sorted(map(repr, class_weight.items())) if isinstance(class_weight, dict) else class_weight)


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
    n_mixed = n_blocks_to_shuffle(targets, blocks.bounds, n_classes)
    known = RowLabels(targets, problem.held_out, weightings.of_mean_one())
    order = BatchSampler(blocks, known, problem.seed, n_mixed, skip=data.skip)
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
    with plan.run(problem.verbose) as progress:
        reached: ModelBatchState = fold(
            blocks, Jobs(order, list(chain(*epochs))), partial(prepare_leaves, features, dtype),
            partial(step_all, groups), ModelBatchState(0, tuple(starts)), label="search",
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
    i = int(np.random.default_rng((seed, RngStream.ROW_ORDER)).choice(np.flatnonzero(np.diff(blocks.bounds))))
    found = map_blocks(
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
        known = RowLabels(y - offset, problem.held_out, weightings.columns)
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


def _wanted(candidate: Candidate, weightings: Weightings) -> GramKey:
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
    wanted: Sequence[GramKey],
    known: RowLabels,
    problem: Problem,
) -> Any:
    blocks, features = data.blocks(leaves, together=False), data.features(leaves)
    edges = np.unique(np.linspace(0, len(blocks), RIDGE_JOBS + 1).round().astype(int))
    jobs = [neighbours_job(blocks, a, b, known, data.skip) for a, b in pairwise(edges.tolist())]
    state_bytes = sum(8 * data.widths[leaf] ** 2 for leaf, *_ in wanted) * (LEVELS + WAITING)
    plan = plan_blocks(blocks, what="search, ridge", passes=1, waiting=1, state_bytes=state_bytes)
    work = partial(accumulate_leaves, features, np.dtype(np.float32), wanted)
    with plan.run(problem.verbose) as progress:
        return tree_sum(blocks, jobs, work, merge_leaves, window=WAITING, label="grams", progress=progress)


def measure(data: SearchData, models: Sequence[Linear], problem: Problem) -> list[F64]:
    """Decision values of every model on all held-out rows: each (n_held, n_outputs)."""
    leaves = sorted({model.leaf for model in models})
    blocks, features = data.blocks(leaves, together=False), data.features(leaves)
    extras = [(int(blocks.bounds[i]), problem.held_out[blocks.rows(i)]) for i in range(len(blocks))]
    parts = map_blocks(blocks, partial(held_out_values, features, models), extras, label="search_score")
    return [np.concatenate(of_model) for of_model in zip(*parts, strict=True)]
