"""Ridge regression on the n-grams of many strings: rows are sparse, and 32,768 columns cost less than 4,096 dense ones.

A name has some 35 n-grams among 30,000. Conjugate gradients take products with the sparse rows alone. A Gaussian kernel
of such rows, which is exact for few strings, has no good approximation by a few thousand random features.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np
from scipy import sparse
from sklearn.linear_model import Ridge

from dkdist._utils.memory_budget import memory_limit, resident_bytes
from dkdist.auto._tuning import MAX_NGRAMS
from dkdist.automatic.trials import Trial
from dkdist.automatic.views.representation_rows import RowKernel, View
from dkdist.base.inputs import Sets, of_blocks
from dkdist.embeddings.ngrams import NGramEmbedding, NGramParams
from dkdist.loops.array_types import F64
from dkdist.sets import SampleSets

SYMBOL_BYTES = 3 * 5 * 12  # five n-grams of 12 bytes each, in the parts, in their concatenation and in a copy


def with_sparse_ngrams(trials: Sequence[Trial], sets: Sets) -> tuple[list[Trial], list[bool]]:
    """The trials, with one that is linear in the n-grams of all sets in place of those by n-grams of a sample.

    The n-grams of a user's own embedding stay. Also which of the trials have sparse rows: none if these would take more
    than half of the memory that is left.
    """
    if SYMBOL_BYTES * sets.n_points > (memory_limit() - resident_bytes()) / 2:
        return list(trials), [False] * len(trials)
    result, specs = [], set()
    for trial in trials:
        if not isinstance(trial.view.spec, NGramParams):
            result.append(trial)
        elif trial.view.spec not in specs:
            specs.add(trial.view.spec)
            result.append(replace(trial, kernel=RowKernel(None), view=_widen(trial.view, sets)))
    return result, [isinstance(trial.view.spec, NGramParams) for trial in result]


def _widen(view: View, sets: Sets) -> View:
    if view.entry.family != "ngrams":
        return view
    embedding = NGramEmbedding(max_features=MAX_NGRAMS).fit(sets)
    return replace(view, entry=replace(view.entry, embedding=embedding), spec=embedding.spec_)


def fit_sparse_ridge(
    spec: NGramParams, sets: Sets, y: F64, weights: F64, alphas: Sequence[float]
) -> list[tuple[F64, F64]]:
    """Coefficients (t, m) and intercepts (t,) of ridge regression for each penalty; targets y (n, t), weights (n,)."""
    rows = sparse.vstack(of_blocks(partial(_sparse_rows, spec), sets, "ngrams"), format="csr")
    models = []
    for alpha in alphas:
        ridge = Ridge(alpha, solver="sparse_cg", tol=1e-4).fit(rows, y, sample_weight=weights)
        models.append((np.atleast_2d(ridge.coef_), np.atleast_1d(ridge.intercept_)))
    return models


def _sparse_rows(spec: NGramParams, sets: Sets, first: int) -> sparse.csr_array:
    loaded = sets if isinstance(sets, SampleSets) else sets.points_alone()
    return spec.draw().sparse_rows(loaded)
