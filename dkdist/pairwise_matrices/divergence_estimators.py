"""Estimators of `divergence_matrix`: options, their validation, and fits to the sets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, cast, get_args

import numpy as np
from numpy.typing import ArrayLike

from dkdist._base.embedding import count_outside, warn_outside
from dkdist._base.inputs import Sets, error_context, map_set_blocks
from dkdist._base.invalid_sets import run_skipping_invalid
from dkdist._base.parameter_checks import RandomStateLike, check_choice, check_int, check_positive, draw_seed
from dkdist._numba.arrays import I64
from dkdist.embeddings.divergence import DivergenceEmbedding
from dkdist.embeddings.divergence_params import DivergenceSpec
from dkdist.embeddings.divergences import DIVERGENCES
from dkdist.embeddings.grid_densities import max_grid_basis
from dkdist.embeddings.structure import MAX_TENSOR_DIMS
from dkdist.io.lazy_sets import LazySets
from dkdist.pairwise_matrices import divergence_params as measures
from dkdist.pairwise_matrices import integrals
from dkdist.pairwise_matrices.gaussian_divergences import GaussianDivergence
from dkdist.pairwise_matrices.held_out import HeldOutDensities
from dkdist.sets import SampleSetError

Divergence = str | Callable[[Any, Any], Any]

DIRECTED = "kullback-leibler", "renyi"
# The only symmetric order: -2 log int sqrt(p q), by the formula in neighbour_ratios.py.
DEFAULT_RENYI_ORDER = 0.5


@dataclass(frozen=True)
class EntropyDivergence:
    """Jensen-Shannon divergence from nearest-neighbour entropies ("entropy").

    The estimate of H((p + q) / 2) - (H(p) + H(q)) / 2 is nearly unbiased and may be slightly negative. Sets must not
    have weights.

    Parameters
    ----------
    k : int, default=4
        Neighbour whose distance is used (with mixture="halves" in one dimension: number of spacings on each side).
        Larger values give smoother estimates; 4 to 20 differ little. Every set needs k + 1 points (2 k + 1 for
        spacings).
    mixture : {"all", "halves"}, default="all"
        "all" uses all points of both sets; entropies of a set and of the mixture use the same balls, so that most of
        the error cancels; ties are allowed. "halves" uses a random half of each set, as in Sutherland et al. (spacings
        in one dimension), and is much noisier.
    duplicates : {"raise", "floor"}, default="raise"
        For mixture="halves": treatment of neighbours at distance zero, which would have infinite density. "raise"
        raises an error that names the set. "floor" replaces smaller distances by the smallest distance between
        different points.
    random_state : int, Generator or None, default=None
        For mixture="halves": seed of the halves.

    Examples
    --------
    >>> import numpy as np, dkdist as dk
    >>> sets = [np.random.default_rng(i).normal(size=(50, 2)) for i in range(3)]
    >>> dk.divergence_matrix(sets, estimator=dk.EntropyDivergence(k=6)).shape
    (3, 3)
    """

    k: int = 4
    mixture: str = "all"
    duplicates: str = "raise"
    random_state: RandomStateLike = None
    name = "entropy"
    divergences = ("jensen-shannon",)

    def measure(
        self, divergence: Divergence, alpha: float, symmetric: bool, rows: Sets, columns: Sets | None
    ) -> measures.DivergenceEstimator:
        """Check the options and fit the estimator to the sets; called by `divergence_matrix`."""
        k, floor = check_int("k", self.k), _uses_floor(self.duplicates)
        halves = check_choice("mixture", self.mixture, ("all", "halves")) == "halves"
        if not halves and (floor or self.random_state is not None):
            option = "duplicates" if floor else "random_state"
            raise ValueError(
                f"{option}={getattr(self, option)!r} has no effect with mixture='all'. Omit it, or pass "
                "mixture='halves'."
            )
        if halves and rows.n_dims == 1:
            require_points(self.name, rows, columns, 2 * k + 1, f"spacings of 2 x {k} points")
        else:
            require_points(self.name, rows, columns, k + 1, f"k={k} neighbours of a point")
        return (
            measures.HalfEntropyJS(k, draw_seed(self.random_state), floor)
            if halves
            else measures.KNNEntropyJS(k)
        )


@dataclass(frozen=True)
class KNNDivergence:
    """Divergences from ratios of nearest-neighbour densities ("knn").

    Estimates of "kullback-leibler", "renyi" and "hellinger" are nearly unbiased and may be slightly negative. Sets must
    not have weights.

    Parameters
    ----------
    k : int, default=4
        Neighbour whose distance is used; for "renyi" k > |alpha - 1|. Larger values give smoother estimates. Every set
        needs k + 1 points.
    duplicates : {"raise", "floor"}, default="raise"
        Treatment of neighbours at distance zero, as in `EntropyDivergence`.

    Examples
    --------
    >>> import numpy as np, dkdist as dk
    >>> sets = [np.random.default_rng(i).normal(size=(50, 2)) for i in range(3)]
    >>> dk.divergence_matrix(sets, "kullback-leibler", estimator=dk.KNNDivergence(k=5), symmetric=True).shape
    (3, 3)
    """

    k: int = 4
    duplicates: str = "raise"
    name = "knn"
    divergences = "kullback-leibler", "renyi", "hellinger"

    def measure(
        self, divergence: Divergence, alpha: float, symmetric: bool, rows: Sets, columns: Sets | None
    ) -> measures.DivergenceEstimator:
        """Check the options and fit the estimator to the sets; called by `divergence_matrix`."""
        k, floor = check_int("k", self.k), _uses_floor(self.duplicates)
        require_points(self.name, rows, columns, k + 1, f"k={k} neighbours of a point")
        if divergence == "renyi" and abs(alpha - 1) >= k:
            raise ValueError(
                f"k must be above {abs(alpha - 1):g} for a Renyi divergence of order {alpha}; got k={k}."
            )
        return measures.KNNRatioDivergence(str(divergence), k, alpha, symmetric, floor)


@dataclass(frozen=True)
class PluginDivergence:
    """Divergences of kernel density estimates, by numerical integration ("plugin").

    Estimates every divergence of `divergence_matrix`, and int kappa(p(x), q(x)) dx for a vectorised function kappa(p,
    q) over the domain scaled to [0, 1]^d (independent of the scaling if kappa is homogeneous of degree one). The
    estimate is zero between equal sets, never negative except for rounding, and accepts weights. Domain and bandwidth
    are fitted to the columns (``other`` if not None, for example the training sets). Points of the rows outside the
    domain are clipped to its boundary, with a warning.

    Parameters
    ----------
    n_basis : int, default=32
        Number of nodes per dimension of a product grid. Joint densities in four, five or six dimensions use at most 16,
        9 or 6.
    bandwidth, domain : default="auto", "robust"
        As in `DivergenceEmbedding`.
    structure : {"auto", "joint", "marginal"}, default="auto"
        One density per set ("joint"), or one per dimension with the sum of their divergences ("marginal"). "auto" is
        "joint" up to three dimensions.

    Examples
    --------
    >>> import numpy as np, dkdist as dk
    >>> sets = [np.random.default_rng(i).random((50, 2)) for i in range(3)]
    >>> dk.divergence_matrix(sets, "chi2", estimator=dk.PluginDivergence(n_basis=16, domain="unit")).shape
    (3, 3)
    """

    n_basis: int = 32
    bandwidth: float | Sequence[float] | str = "auto"
    domain: str | tuple[ArrayLike, ArrayLike] = "robust"
    structure: str = "auto"
    name = "plugin"
    divergences = (*DIVERGENCES, *DIRECTED)

    def measure(
        self, divergence: Divergence, alpha: float, symmetric: bool, rows: Sets, columns: Sets | None
    ) -> measures.DivergenceEstimator:
        """Check the options and fit the estimator to the sets; called by `divergence_matrix`."""
        spec = _fit_densities(self, self.n_basis, rows, columns)
        mean = symmetric and _is_directed(divergence)
        return measures.PluginIntegral(spec, _integrand(divergence, alpha), symmetric, mean)


@dataclass(frozen=True)
class HeldOutDivergence:
    """Jensen-Shannon divergence of densities at held-out points ("held-out").

    Densities are estimated from a random half of each set; log p and log((p + q) / 2) are averaged over the other
    halves; then halves are exchanged (JS_ent of Sutherland et al. 2016). The estimate may be negative. Sets must not
    have weights, and joint densities have up to three dimensions.

    Parameters
    ----------
    bandwidth, domain, structure : default="auto", "robust", "auto"
        As in `PluginDivergence`.
    random_state : int, Generator or None, default=None
        Seed of the halves.

    Examples
    --------
    >>> import numpy as np, dkdist as dk
    >>> sets = [np.random.default_rng(i).random((50, 2)) for i in range(3)]
    >>> dk.divergence_matrix(sets, estimator=dk.HeldOutDivergence(bandwidth=0.1, random_state=0)).shape
    (3, 3)
    """

    bandwidth: float | Sequence[float] | str = "auto"
    domain: str | tuple[ArrayLike, ArrayLike] = "robust"
    structure: str = "auto"
    random_state: RandomStateLike = None
    name = "held-out"
    divergences = ("jensen-shannon",)

    def measure(
        self, divergence: Divergence, alpha: float, symmetric: bool, rows: Sets, columns: Sets | None
    ) -> measures.DivergenceEstimator:
        """Check the options and fit the estimator to the sets; called by `divergence_matrix`."""
        require_points(self.name, rows, columns, 2, "two halves")
        spec = _fit_densities(self, PluginDivergence.n_basis, rows, columns)
        if spec.structure == "grid":
            raise ValueError(
                f"estimator='held-out' with joint densities needs at most {MAX_TENSOR_DIMS} dimensions; got "
                f"{spec.n_dims}. Use structure='marginal', or estimator='plugin' or 'entropy'."
            )
        return HeldOutDensities(spec, draw_seed(self.random_state))


PairEstimator = EntropyDivergence | KNNDivergence | PluginDivergence | HeldOutDivergence | GaussianDivergence
ESTIMATORS: dict[str, Any] = {cls.name: cls for cls in get_args(PairEstimator)}


def resolve_estimator(divergence: Divergence, estimator: str | PairEstimator, k: int | None) -> PairEstimator:
    """Return the estimator, built from a name and ``k``; ValueError if it cannot estimate the divergence."""
    if isinstance(estimator, PairEstimator):
        if k is not None:
            name = type(estimator).__name__
            hint = f"Pass {name}(k={k!r})." if hasattr(estimator, "k") else f"{name} has no k; omit it."
            raise ValueError(
                f"k must be omitted if estimator is an object; got k={k!r} and {estimator!r}. {hint}"
            )
        selected = estimator
    else:
        cls = ESTIMATORS[check_choice("estimator", estimator, tuple(ESTIMATORS))]
        if k is not None and not hasattr(cls, "k"):
            raise ValueError(f"k={k!r} has no effect with estimator={estimator!r}. Omit k.")
        selected = cls() if k is None else cls(k=k)
    _require_supported(selected, divergence)
    return selected


def resolve_order_and_symmetry(
    divergence: Divergence, alpha: float | None, symmetric: bool | None
) -> tuple[float, bool]:
    """Return the order of a Renyi divergence, and whether the matrix is symmetric."""
    if alpha is not None and divergence != "renyi":
        raise ValueError(f"alpha={alpha!r} has no effect with divergence={divergence!r}. Omit alpha.")
    if symmetric is False and not _is_directed(divergence):
        raise ValueError(
            f"symmetric=False requires an asymmetric divergence ({', '.join(map(repr, DIRECTED))} or a callable); "
            f"got {divergence!r}. Omit symmetric."
        )
    order = check_positive("alpha", DEFAULT_RENYI_ORDER if alpha is None else alpha)
    if order == 1:
        raise ValueError("alpha must differ from 1; got 1. Use 'kullback-leibler', the limit of order 1.")
    return order, bool(symmetric) or not _is_directed(divergence)


def _require_supported(estimator: PairEstimator, divergence: Divergence) -> None:
    if not callable(divergence) and not isinstance(divergence, str):
        raise ValueError(
            f"divergence must be a name or a function; got {type(divergence).__name__}. Pass other sets as the third "
            "argument: divergence_matrix(sets, 'jensen-shannon', other)."
        )
    supporting = [
        name
        for name, cls in ESTIMATORS.items()
        if (cls is PluginDivergence if callable(divergence) else divergence in cls.divergences)
    ]
    if estimator.name not in supporting:
        hint = f" Use estimator {' or '.join(map(repr, supporting))}." if supporting else ""
        raise ValueError(
            f"divergence must be one of {', '.join(map(repr, estimator.divergences))} with estimator "
            f"{estimator.name!r}; got {divergence!r}.{hint}"
        )


def _is_directed(divergence: Divergence) -> bool:
    return callable(divergence) or divergence in DIRECTED


def _uses_floor(duplicates: str) -> bool:
    return bool(check_choice("duplicates", duplicates, ("raise", "floor")) == "floor")


def _integrand(divergence: Divergence, alpha: float) -> str | integrals.Integrand | float:
    if not callable(divergence):
        return alpha if divergence == "renyi" else divergence
    p, q = np.array([1e-6, 0.5, 1.0, 30.0]), np.array([1.0, 1.0, 1.0, 1e-6])
    values = np.asarray(divergence(p, q))
    if values.shape != p.shape or values.dtype.kind != "f" or not np.isfinite(values).all():
        raise ValueError(
            f"kappa(p, q) must return one finite float per element; got {values!r} for p={p.tolist()} and "
            f"q={q.tolist()}."
        )
    return divergence


def _fit_densities(
    estimator: PluginDivergence | HeldOutDivergence, n_basis: int, rows: Sets, columns: Sets | None
) -> DivergenceSpec:
    """Fit densities to the columns (without columns to the rows), and warn if points of rows are outside."""
    structure = check_choice("structure", estimator.structure, ("auto", "joint", "marginal"))
    if structure == "auto":
        structure = "joint" if rows.n_dims <= MAX_TENSOR_DIMS else "marginal"
    if structure == "joint" and rows.n_dims > MAX_TENSOR_DIMS and isinstance(n_basis, int):
        n_basis = min(n_basis, max_grid_basis(rows.n_dims))
    # Only the densities of the embedding are used; they do not depend on its divergence.
    embedding = DivergenceEmbedding(
        "hellinger", n_basis, bandwidth=estimator.bandwidth, domain=estimator.domain, structure=structure
    )
    if columns is None:
        return cast(DivergenceSpec, embedding.fit(rows).spec_)
    with error_context("one of other"):
        spec = cast(DivergenceSpec, embedding.fit(columns).spec_)
    outside = np.concatenate(map_set_blocks(partial(_count_outside, spec), rows, "validate_sets"))
    warn_outside(outside, 0, spec.domain, rows.n_points)
    return spec


def _count_outside(spec: DivergenceSpec, sets: Sets, first: int) -> I64:
    count, fill = partial(count_outside, spec.domain), np.zeros(1, np.int64)
    positions = range(first, first + len(sets))
    return np.concatenate(run_skipping_invalid(count, sets, positions, fill, skip=False).results)


def require_points(name: str, rows: Sets, columns: Sets | None, n_min: int, purpose: str) -> None:
    """Raise SampleSetError for sets of fewer than ``n_min`` points, or with weights, which ``name`` does not use."""
    for sets, side in ((rows, ""), (columns, " of other")):
        if sets is None:
            continue
        sizes: I64 = sets.sizes
        if sizes.min() < n_min:
            i = int(np.argmin(sizes >= n_min))
            raise SampleSetError(
                f"set {i}{side} has {sizes[i]} point(s); {purpose} need at least {n_min}. Drop the set, or use a "
                "smaller k."
            )
        weights = sets.weights_shape if isinstance(sets, LazySets) else sets.weights
        if weights is not None:
            raise SampleSetError(
                f"all sets{side} have weights; estimator={name!r} does not use weights. Use "
                "estimator='plugin' or 'gaussian', or omit the weights."
            )
