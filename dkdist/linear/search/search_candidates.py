"""Candidates of a search: which steps they have in common, each such step fitted once, and which features result.

Two candidates share a step if it and all steps before it have the same parameters. Steps are fitted on the rows that
are not held out: an embedding on all of them, other steps on the rows of at most 512 of them, those that
`RandomFourierFeatures` would sample.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import joblib
import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.pipeline import Pipeline

from dkdist.base.bad_sets import listed
from dkdist.base.embedding import SetEmbedding
from dkdist.base.parameter_checks import median_seed
from dkdist.execution.arrays import take_rows
from dkdist.execution.blocks import is_lazy
from dkdist.execution.processes.warn import warn
from dkdist.kernel.features.random_fourier_features import RandomFourierFeatures, median_rows
from dkdist.linear.problems import LinearLearner
from dkdist.linear.search.feature_trees import FeatureTrees, Node
from dkdist.loops.array_types import I64
from dkdist.sets import SampleSets
from dkdist.store import SetStore


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
) -> tuple[FeatureTrees, list[int], list[Candidate]]:
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
    return FeatureTrees(roots), widths, candidates


def _fit_embedding(embedding: Any, X: Any, y: Any, rows: I64) -> None:
    """Fit on the sets X, which are ``rows`` of all; a warning names those that are left out among all."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"\d+ bad set\(s\) left out of fit")
        embedding.fit(X, y)
    if len(skipped := rows[np.asarray(embedding.skipped_, np.int64)]):
        warn(f"{len(skipped)} bad set(s) left out of fit: {listed(skipped)}")


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
