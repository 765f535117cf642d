"""`explain`: contributions of points, dimensions or places to predictions of sets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, overload

from numpy.typing import ArrayLike

from dkdist._base.inputs import SetsLike
from dkdist._base.parameter_checks import RandomStateLike, draw_seed
from dkdist._numba.arrays import F64
from dkdist.inspection.answers import answer
from dkdist.inspection.fitted_pipeline import subject_of

if TYPE_CHECKING:
    import pandas as pd


@overload
def explain(
    model: Any, sets: SetsLike, *, by: Literal["point"] = ..., at: None = ...,
    reference: ArrayLike | None = ..., background: SetsLike | None = ...,
    random_state: RandomStateLike = ..., as_frame: Literal[False] = ...,
) -> list[F64]: ...  # fmt: skip
@overload
def explain(
    model: Any, sets: SetsLike, *, by: Literal["dimension"],
    reference: ArrayLike | None = ..., background: SetsLike | None = ...,
    random_state: RandomStateLike = ..., as_frame: Literal[False] = ...,
) -> F64: ...  # fmt: skip
@overload
def explain(
    model: Any, sets: SetsLike, *, at: ArrayLike,
    reference: ArrayLike | None = ..., background: SetsLike | None = ...,
    random_state: RandomStateLike = ..., as_frame: Literal[False] = ...,
) -> F64: ...  # fmt: skip
@overload
def explain(
    model: Any, sets: SetsLike, *, by: str = ..., at: ArrayLike | None = ...,
    reference: ArrayLike | None = ..., background: SetsLike | None = ...,
    random_state: RandomStateLike = ..., as_frame: Literal[True],
) -> pd.DataFrame: ...  # fmt: skip
def explain(
    model: Any,
    sets: SetsLike,
    *,
    by: str = "point",
    at: ArrayLike | None = None,
    reference: ArrayLike | None = None,
    background: SetsLike | None = None,
    random_state: RandomStateLike = None,
    as_frame: bool = False,
) -> Any:
    """Explain predictions of sets by contributions of points, dimensions or places.

        by="point"        c_i = u_i (f(P) - reference + G . IF_row(x_i)),   sum_i c_i = f(P) - reference
        at=places         IF(x) = d/dt f((1 - t) P + t delta_x) at t = 0
        by="dimension"    phi_j,                                            sum_j phi_j = f(P) - mean_R f(R)

    f is the decision value of a classifier (of its second class if it has two), or the predicted number of a regressor.
    u are the weights of the points of the set P, normalised to sum 1. IF_row(x_i) is the derivative of the row of P
    with respect to the weight of point i. G is the gradient of f with respect to the row, averaged along the straight
    path from a background row to the row of P (integrated gradients). IF is the influence function of f at the set.

    Parameters
    ----------
    model : fitted pipeline, search over pipelines, SetClassifier, SetRegressor or SetSurvival
        A pipeline of `SetScaler`, `SetPCA`, `PrincipalAxes` and `DistanceProfiles` (all optional), one embedding of
        sets (of `dkdist` or your own), `RandomFourierFeatures` and StandardScaler (optional), and a linear learner such
        as `IncrementalRidge` or `IncrementalSGDClassifier`.
    sets : sets
        A `SetStore` is read block by block.
    by : {"point", "dimension"}, default="point"
        Units of the contributions.
    at : (q, d) array, optional
        Places in the coordinates of the sets. The result is the derivative of each prediction with respect to the
        weight of new points there, a witness function: positive where points increase the prediction. Its weighted mean
        over the points of the set is 0. It is close to 0 where the model is flat.
    reference : number or (k,) array, optional
        Reference prediction of contributions of points, such as the mean over the training sets. By default the
        intercept of a pipeline, 0 for `SetClassifier` and `SetSurvival`, the mean of the targets for `SetRegressor`.
    background : sets, optional
        Reference sets R, such as some of the training sets; more than 32 are subsampled. For by="point" they are
        starts of paths. Default for a pipeline: none. Then G is the derivative at P, which is the same if the learner
        directly follows the embedding, and by="dimension" raises an error. `SetClassifier` and `SetRegressor` store
        some training sets (16 for by="dimension").
    random_state : int, Generator or None, default=None
        Seed of the subsample of background sets and, for by="dimension", of the pairing of points and the orders.
    as_frame : bool, default=False
        Return a pandas DataFrame. It has one row for each point, with the columns "set" (the set's id, or
        its position if sets have no ids), "point" (position within the set), and "contribution", or
        "contribution_<class>" for each of several classes or targets. by="dimension" has a row for each set and
        dimension (columns "set", "dimension", ...), at=places one for each set and place ("set", "place",
        "influence").

    Returns
    -------
    list of (n_i,) float64 arrays, or (n_i, k)
        By point, for each set in the order of its points; k outputs for several targets, labels, or more than two
        classes.
    (n_sets, d) float64 array, or (n_sets, d, k)
        By dimension. The mean of absolute values over sets measures the importance of a dimension.
    (n_sets, q) float64 array, or (n_sets, q, k)
        At places. The mean over sets is a witness function of all of them.
    pandas.DataFrame
        With ``as_frame``.

    Raises
    ------
    ImportError
        For ``as_frame`` without pandas.
    SampleSetError, StoreFormatError
        As the embedding's ``transform``, naming the set; for sets of another dimension.
    ValueError
        For a model that is not fitted, an unsupported step, ``at`` with an embedding without a derivative,
        options that have no effect on the requested explanation, strings by dimension,
        and by="dimension" without a background.

    Notes
    -----
    *Points.* If classes are well separated, f is flat at P and its derivative there is uninformative. The average
    along a path keeps the slope: G . (row - start) = f(row) - f(start). The start is the mean of the background rows,
    weighted by the difference of their predictions from f(P), separately for each output, because the plain mean may
    lie in the class of P. The result is exact if rows are means over points
    (`MeanEmbedding`, `L2Embedding`, ``MomentEmbedding(1)``) and the learner is linear in them: c_i = u_i coef .
    row(x_i) for any background. Other rows are linearised in the points, by exact derivatives of densities,
    histograms, moments, and quantiles of projections. For other embeddings (such as distances, or any after
    `PrincipalAxes`, `DistanceProfiles` or a `SetScaler` with per_set=True) every point is removed once, and the change
    of the row replaces the derivative. The contribution of a point is then small if similar points exist, because its
    removal changes no distance. After `PrincipalAxes` and `DistanceProfiles`, points ``at`` are added instead. The sum
    is always exact. A point outside the domain is clipped to its boundary. Members that are step functions, such as
    trees, assign jumps on the path to the feature that crosses a threshold; their influence at places is 0.

    *Dimensions.* Shapley values of the game v(S): the mean prediction, over background sets R, of sets with columns S
    of P and the other columns of R, whose points are paired at random (for series in order). R is resampled to the
    number of points of P, at even steps of its weight, with the weights of P; the sum refers to resampled R, which
    equals R for sets of one size without weights. Shapley values are exact for up to 6 dimensions; for more, each R
    uses one random order of the dimensions and its reverse, and only the sum is exact. No derivative is needed, so
    every embedding is supported. Dependence between columns of R and of P is ignored, as in all interventional
    attributions.

    The result of a set depends only on that set, bit for bit. Cost of a set of n points: by point and at q places n (q)
    embeddings of one point, and the gradient of the features once, 4 m D k flops, or for kernels 16 k exponentials per
    training set; n embeddings of n - 1 points if points are removed. By dimension 2^d embeddings (2 d for more than six
    dimensions) per background set. Memory: a block of sets and the result.

    References
    ----------
    Hampel: The influence curve and its role in robust estimation (1974). Shapley: A value for n-person games (1953).
    Lundberg, Lee: A unified approach to interpreting model predictions (2017). Sundararajan, Taly, Yan: Axiomatic
    attribution for deep networks (2017). Aumann, Shapley: Values of non-atomic games (1974).

    Examples
    --------
    >>> import numpy as np, dkdist as dk
    >>> from sklearn.pipeline import make_pipeline
    >>> rng = np.random.default_rng(0)
    >>> y = np.arange(40) % 2
    >>> sets = [np.concatenate([rng.normal(size=(50, 2)), np.tile([[4.0, 0]], (5 * c, 1))]) for c in y]
    >>> model = make_pipeline(dk.MeanEmbedding(64, sigma=1.0, random_state=0), dk.IncrementalRidge(random_state=0))
    >>> model = model.fit(sets, y)
    >>> points = dk.explain(model, sets[1:2])[0]
    >>> bool(points[50:].min() > points[:50].mean())  # the five points at (4, 0) raise the prediction
    True
    >>> right, left = dk.explain(model, sets[1:2], at=[[4.0, 0], [-4, 0]])[0]
    >>> bool(right > left)
    True
    >>> first, second = dk.explain(model, sets[1:2], by="dimension", background=sets[:20], random_state=0)[0]
    >>> bool(first > abs(second))
    True
    """
    if hasattr(model, "explain"):
        return model.explain(
            sets, by=by, at=at, reference=reference, background=background, random_state=random_state,
            as_frame=as_frame,
        )  # fmt: skip
    return answer(subject_of(model), sets, by, at, reference, background, draw_seed(random_state), as_frame)
