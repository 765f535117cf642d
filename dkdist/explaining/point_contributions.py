"""What each point of a set adds to a prediction that is linear in features of the set's row.

    f(P) = coef . z(row(P)) + intercept,    c_i = u_i (f(P) - reference + IF(x_i)),    sum_i c_i = f(P) - reference

with u the weights of the points over their sum, and IF the influence function (`dkdist.base.influence`): how fast f
rises when the point counts more and all others less. Where rows are means over points (`MeanEmbedding`, `L2Embedding`,
`MomentEmbedding`) and the model is linear in them, c_i = u_i coef . row(x_i) with the intercept as reference:
nothing is approximated. Elsewhere contributions are of first order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from dkdist.base.bad_sets import attempt
from dkdist.base.embedding import count_outside, origin_of
from dkdist.base.embedding_spec import Selective
from dkdist.base.influence import influences, shares
from dkdist.base.inputs import Sets, check_sets, of_blocks
from dkdist.base.parameter_checks import real_matrix
from dkdist.execution.processes.process import drawn
from dkdist.explaining.row_maps import backwards, forwards, row_maps
from dkdist.loops.array_types import F32, F64
from dkdist.sets import SampleSets

SETS_AT_ONCE = 64  # whose rows and features are held


@dataclass(frozen=True)
class _Prediction:
    """The function that is explained: the specification of an embedding, maps of its rows, and k linear functions."""

    spec: Any
    maps: tuple[Any, ...]
    coef: F64
    intercept: F64

    def explained(self, sets: SampleSets, at: F32 | None = None) -> Iterator[tuple[SampleSets, F64, F64]]:
        """Each set alone, its k values, and the influence (n_i, k) of its points, or of others."""
        parameters, coef = drawn(self.spec), np.ascontiguousarray(self.coef.T)
        for start in range(0, len(sets), SETS_AT_ONCE):
            some = sets[start : start + SETS_AT_ONCE]
            *before, last = forwards(self.maps, parameters.embed(some))
            for i in range(len(some)):
                value = last[i].astype(np.float64) @ coef + self.intercept
                gradient = backwards(self.maps, [rows[i] for rows in before], coef)
                one = some[i : i + 1]
                yield one, value, influences(parameters, one, gradient, at)


def point_contributions(
    embedding: Any,
    features: Any,
    coef: ArrayLike,
    intercept: ArrayLike,
    sets: Any,
    reference: ArrayLike | None = None,
) -> list[F64]:
    """What each point adds to ``coef . z(row) + intercept``; of each set they sum to its value less the reference.

    Parameters
    ----------
    embedding : fitted embedding of sets
        Any of `dkdist`, or one of your own.
    features : None, fitted RandomFourierFeatures or StandardScaler, or a list of them
        What rows go through on their way to the linear model.
    coef : (m,) or (k, m) array
        Of the linear model: one function, or k of them.
    intercept : number or (k,) array
    sets : sets
        A `SetStore` is read block by block.
    reference : number or (k,) array, optional
        What a set with no evidence would have, such as the mean prediction of the training sets; by default the
        intercept.

    Returns
    -------
    list of (n_i,) float64 arrays, or (n_i, k) for ``coef`` of two dimensions
        Of each set, in the order of its points.

    Raises
    ------
    SampleSetError, StoreFormatError
        As the embedding's ``transform``, naming the set.
    ValueError
        For features other than those above, and coefficients of another length.

    Notes
    -----
    Exact derivatives for embeddings by means, moments, densities, histograms, and by quantiles of projections (of the
    mean quantile of each cell). For others, distances among them, every point is left out once, and what that changes
    takes the place of the derivative: n embeddings of n - 1 points for a set of n. A point outside the domain counts at
    its wall. Cost of a set of n points otherwise: that of embedding it n times as a set of one point, and of the
    features' derivative once, 2 m D k flops. Memory: one block of sets, and what is returned.

    References
    ----------
    Hampel: The influence curve and its role in robust estimation (1974).

    Examples
    --------
    >>> import numpy as np, dkdist as dk
    >>> from dkdist.explaining.point_contributions import point_contributions
    >>> rng = np.random.default_rng(0)
    >>> y = np.arange(40) % 2
    >>> sets = [np.concatenate([rng.normal(size=(50, 1)), np.full((5 * c, 1), 4.0)]) for c in y]
    >>> embedding = dk.MeanEmbedding(64, sigma=0.5, random_state=0).fit(sets)
    >>> ridge = dk.IncrementalRidge(random_state=0).fit(embedding.transform(sets), y)
    >>> found = point_contributions(embedding, None, ridge.coef_, ridge.intercept_, sets[1:2])[0]
    >>> bool(found[50:].min() > found[:50].max())  # the five points at 4 made it so
    True
    """
    check_is_fitted(embedding)
    coef, several = _coefficients(coef)
    prediction = _Prediction(
        embedding.spec_, row_maps(features), coef, _of_each("intercept", intercept, len(coef))
    )
    _require_length(prediction)
    base = prediction.intercept if reference is None else _of_each("reference", reference, len(coef))
    given = check_sets(
        sets, embedding.n_features_in_, text=embedding._takes_text, origin=origin_of(embedding)
    )
    work = partial(_of_sets, prediction, base)
    found = list(chain.from_iterable(of_blocks(work, given, "explain")))
    return found if several else [c[:, 0] for c in found]


def influence_at(
    embedding: Any, features: Any, coef: ArrayLike, intercept: ArrayLike, one: Any, at: Any
) -> F64:
    """How fast a set's prediction would rise if points came in at given places: a witness of what the model looks for.

    Parameters as in `point_contributions`, but for ``one``, a collection of one set, and ``at`` (q, d), places: (q,)
    or (q, k) influences, whose weighted mean over the set's own points is zero. Raises ValueError for embeddings
    whose derivative is not known.
    """
    check_is_fitted(embedding)
    coef, several = _coefficients(coef)
    prediction = _Prediction(
        embedding.spec_, row_maps(features), coef, _of_each("intercept", intercept, len(coef))
    )
    _require_length(prediction)
    origin = origin_of(embedding)
    sets = check_sets(one, embedding.n_features_in_, origin=origin)
    places = check_sets([at], embedding.n_features_in_, origin=origin)
    if len(sets) != 1:
        raise ValueError(
            f"one must be a collection of a single set; found {len(sets)} sets: give sets[i : i + 1]"
        )
    loaded, points = (_loaded(given) for given in (sets, places))
    _require_good(prediction.spec, loaded, 0)
    (_, _, found), *_ = prediction.explained(loaded, points.relative)
    return found if several else found[:, 0]


def _loaded(sets: Sets) -> SampleSets:
    return sets if isinstance(sets, SampleSets) else sets.load()


def _of_sets(prediction: _Prediction, base: F64, sets: Sets, first: int) -> list[F64]:
    """The contributions of every set of a block."""
    positions = range(first, first + len(sets))
    work = partial(_of_loaded, prediction, base)
    none: list[F64] = []
    return list(chain.from_iterable(attempt(work, sets, positions, none, skip=False).results))


def _of_loaded(prediction: _Prediction, base: F64, sets: SampleSets, first: int) -> list[F64]:
    _require_good(prediction.spec, sets, first)
    return [
        np.asarray(shares(one)[:, None] * (value - base + influence))
        for one, value, influence in prediction.explained(sets)
    ]


def _require_good(spec: Any, sets: SampleSets, first: int) -> None:
    """Refuse sets that the embedding would refuse, by name."""
    if isinstance(spec, Selective):
        spec.require(sets, first)
    count_outside(spec.domain, sets, first)


def _coefficients(coef: ArrayLike) -> tuple[F64, bool]:
    """(k, m) float64, and whether several functions were asked for."""
    given = real_matrix("coef", coef)
    if given.ndim not in (1, 2) or not np.isfinite(given).all():
        raise ValueError(f"coef must be finite, of shape (m,) or (k, m); found shape {given.shape}")
    return np.atleast_2d(given), given.ndim == 2


def _of_each(name: str, values: ArrayLike, k: int) -> F64:
    """One number for each function."""
    given = real_matrix(name, values)
    if given.size not in (1, k) or not np.isfinite(given).all():
        raise ValueError(f"{name} must be a finite number, or {k} of them; found shape {given.shape}")
    return np.broadcast_to(given.ravel(), (k,))


def _require_length(prediction: _Prediction) -> None:
    """Refuse coefficients of another length than that of the last row."""
    m = prediction.spec.n_features
    for step in prediction.maps:
        if step.n_features_in_ != m:
            raise ValueError(f"features take rows of {step.n_features_in_}, but those before have {m}")
        m = step.spec_.n_features if hasattr(step, "spec_") else m
    if prediction.coef.shape[1] != m:
        raise ValueError(f"coef has {prediction.coef.shape[1]} columns, but rows have {m} features")
