"""Estimators for `divergence_matrix`: each holds its options and builds the measure of a pair of sets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, cast, get_args

import numpy as np
from numpy.typing import ArrayLike

from dkdist._base.embedding import count_outside, tell_outside
from dkdist._base.inputs import Sets, error_context, map_set_blocks
from dkdist._base.invalid_sets import run_skipping_invalid
from dkdist._base.parameter_checks import draw_seed, one_of, positive, whole
from dkdist._numba.arrays import I64
from dkdist.embeddings.divergence import DivergenceEmbedding
from dkdist.embeddings.divergence_params import DivergenceSpec
from dkdist.embeddings.divergences import DIVERGENCES
from dkdist.embeddings.structure import MOST_TENSOR_DIMS
from dkdist.io import SetStore
from dkdist.pairwise_matrices import divergence_params as measures
from dkdist.pairwise_matrices import integrals
from dkdist.pairwise_matrices.held_out import HeldOutDensities
from dkdist.sets import SampleSetError

Divergence = str | Callable[[Any, Any], Any]

DIRECTED = ("kullback-leibler", "renyi")
DEFAULT_RENYI_ORDER = 0.5


@dataclass(frozen=True)
class EntropyDivergence:
    """Jensen-Shannon divergence H((p + q) / 2) - (H(p) + H(q)) / 2 of nearest-neighbour entropies ("entropy").

    It is nearly unbiased and may be slightly negative. It takes no weights.

    Parameters
    ----------
    k : int, default=4
        Which neighbour (with mixture="halves" in one dimension, how many spacings on either side). Larger is
        smoother; 4 to 20 differ little. Every set needs k + 1 points (2 k + 1 for spacings).
    mixture : {"all", "halves"}, default="all"
        "all" takes all points of both sets, each in the balls of its own set's entropy, so that most of the error
        cancels; ties do not matter. "halves" takes a random half of each set, as Sutherland et al. do (spacings in one
        dimension), which is much noisier.
    duplicates : {"raise", "floor"}, default="raise"
        For mixture="halves": what to do with neighbours at distance zero, whose density would be infinite. "raise"
        names the set. "floor" raises every distance to at least the smallest one between different points of the set.
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
    random_state: Any = None
    name = "entropy"
    divergences = ("jensen-shannon",)

    def measure(
        self, divergence: Divergence, alpha: float, symmetric: bool, rows: Sets, columns: Sets | None
    ) -> measures.DivergenceEstimator:
        """Build the measure of a pair of these sets; `divergence_matrix` calls this."""
        k, floor = whole("k", self.k), _is_floor(self.duplicates)
        halves = one_of("mixture", self.mixture, ("all", "halves")) == "halves"
        if not halves and (floor or self.random_state is not None):
            option = "duplicates" if floor else "random_state"
            raise ValueError(
                f"{option}={getattr(self, option)!r} would change nothing with mixture='all': leave it out, or give "
                "mixture='halves'"
            )
        if halves and rows.n_dims == 1:
            _require_points(self.name, rows, columns, 2 * k + 1, f"spacings of 2 x {k} points")
        else:
            _require_points(self.name, rows, columns, k + 1, f"k={k} neighbours of a point")
        return (
            measures.HalvedEntropies(k, draw_seed(self.random_state), floor)
            if halves
            else measures.KNNEntropyJS(k)
        )


@dataclass(frozen=True)
class KNNDivergence:
    """Divergences from ratios of nearest-neighbour densities ("knn").

    It estimates "kullback-leibler", "renyi" and "hellinger", is nearly unbiased and may be slightly negative. It takes
    no weights.

    Parameters
    ----------
    k : int, default=4
        Which neighbour; for "renyi" more than |alpha - 1|. Larger is smoother. Every set needs k + 1 points.
    duplicates : {"raise", "floor"}, default="raise"
        What to do with neighbours at distance zero, as for `EntropyDivergence`.

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
    divergences = ("kullback-leibler", "renyi", "hellinger")

    def measure(
        self, divergence: Divergence, alpha: float, symmetric: bool, rows: Sets, columns: Sets | None
    ) -> measures.DivergenceEstimator:
        """Build the measure of a pair of these sets; `divergence_matrix` calls this."""
        k, floor = whole("k", self.k), _is_floor(self.duplicates)
        _require_points(self.name, rows, columns, k + 1, f"k={k} neighbours of a point")
        if divergence == "renyi" and abs(alpha - 1) >= k:
            raise ValueError(
                f"a Renyi divergence of order {alpha} needs more than {abs(alpha - 1):g} neighbours: found k={k}"
            )
        return measures.NeighbourRatios(str(divergence), k, alpha, symmetric, floor)


@dataclass(frozen=True)
class PluginDivergence:
    """Divergences of kernel density estimates, integrated over nodes ("plugin").

    It estimates every divergence of `divergence_matrix`, and a vectorised kappa(p, q) of densities: int kappa(p(x),
    q(x)) dx over the domain scaled to [0, 1]^d (independent of the scaling if kappa is homogeneous of degree one). It
    is zero between equal sets, never negative except for rounding, and takes weights. The domain and the bandwidth are
    chosen from the columns (``other`` if it is given: the training sets, say). Points of the rows outside the domain
    are clipped to its boundary, with a warning.

    Parameters
    ----------
    n_basis : int, default=32
        Nodes per dimension, of a product grid up to three dimensions.
    bandwidth, domain : default="auto", "robust"
        As for `DivergenceEmbedding`.
    structure : {"auto", "joint", "marginal"}, default="auto"
        One density per set, or one per dimension, whose divergences are added. "auto" is "joint" up to three
        dimensions.

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
        """Build the measure of a pair of these sets; `divergence_matrix` calls this."""
        spec = _fit_densities(self, self.n_basis, rows, columns)
        mean = symmetric and _is_directed(divergence)
        return measures.PluginDensities(spec, _integrand(divergence, alpha), symmetric, mean)


@dataclass(frozen=True)
class HeldOutDivergence:
    """Jensen-Shannon divergence of densities at held-out points, as Sutherland et al. estimate it ("held-out").

    Kernel densities of a random half of each set; log p and log (p + q) / 2 are averaged over the other halves, in
    both directions. It may be negative. It takes no weights, and joint densities of up to three dimensions.

    Parameters
    ----------
    bandwidth, domain, structure : default="auto", "robust", "auto"
        As for `PluginDivergence`.
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
    random_state: Any = None
    name = "held-out"
    divergences = ("jensen-shannon",)

    def measure(
        self, divergence: Divergence, alpha: float, symmetric: bool, rows: Sets, columns: Sets | None
    ) -> measures.DivergenceEstimator:
        """Build the measure of a pair of these sets; `divergence_matrix` calls this."""
        _require_points(self.name, rows, columns, 2, "two halves")
        spec = _fit_densities(self, PluginDivergence.n_basis, rows, columns)
        if spec.structure == "ball":
            raise ValueError(
                f"estimator='held-out' takes joint densities of up to {MOST_TENSOR_DIMS} dimensions, found "
                f"{spec.n_dims}: use structure='marginal', or estimator='plugin' or 'entropy'"
            )
        return HeldOutDensities(spec, draw_seed(self.random_state))


PairEstimator = EntropyDivergence | KNNDivergence | PluginDivergence | HeldOutDivergence
ESTIMATORS: dict[str, Any] = {cls.name: cls for cls in get_args(PairEstimator)}


def estimator_for(divergence: Divergence, estimator: str | PairEstimator, k: int | None) -> PairEstimator:
    """The estimator itself, or one of that name with the option ``k``; refuses one that cannot estimate it."""
    if isinstance(estimator, PairEstimator):
        if k is not None:
            name = type(estimator).__name__
            hint = f"give {name}(k={k!r})" if hasattr(estimator, "k") else f"{name} has none"
            raise ValueError(
                f"k={k!r} was given together with estimator={estimator!r}, which has its own options: {hint}"
            )
        selected = estimator
    else:
        cls = ESTIMATORS[one_of("estimator", estimator, tuple(ESTIMATORS))]
        if k is not None and not hasattr(cls, "k"):
            raise ValueError(f"k={k!r} would change nothing for estimator={estimator!r}: leave it out")
        selected = cls() if k is None else cls(k=k)
    _require_known(selected, divergence)
    return selected


def order_and_symmetry(
    divergence: Divergence, alpha: float | None, symmetric: bool | None
) -> tuple[float, bool]:
    """The order of a Renyi divergence, and whether the divergence is symmetric or is made so."""
    if alpha is not None and divergence != "renyi":
        raise ValueError(f"alpha={alpha!r} would change nothing for divergence={divergence!r}: leave it out")
    if symmetric is False and not _is_directed(divergence):
        raise ValueError(
            f"symmetric=False with {divergence!r}, which is symmetric: leave it out. Two directions have "
            f"{', '.join(map(repr, DIRECTED))} and a callable"
        )
    order = positive("alpha", DEFAULT_RENYI_ORDER if alpha is None else alpha)
    if order == 1:
        raise ValueError("alpha must not be 1: the Renyi divergence of order 1 is 'kullback-leibler'")
    return order, bool(symmetric) or not _is_directed(divergence)


def _require_known(estimator: PairEstimator, divergence: Divergence) -> None:
    if not callable(divergence) and not isinstance(divergence, str):
        raise ValueError(
            f"divergence must be a name or a function, found {type(divergence).__name__}: other sets come third, "
            "divergence_matrix(sets, 'jensen-shannon', other)"
        )
    able = [
        name
        for name, cls in ESTIMATORS.items()
        if (cls is PluginDivergence if callable(divergence) else divergence in cls.divergences)
    ]
    if estimator.name not in able:
        elsewhere = f", which is known to estimator {' and '.join(map(repr, able))}" if able else ""
        raise ValueError(
            f"estimator {estimator.name!r} knows the divergences {', '.join(map(repr, estimator.divergences))}; "
            f"found {divergence!r}{elsewhere}"
        )


def _is_directed(divergence: Divergence) -> bool:
    return callable(divergence) or divergence in DIRECTED


def _is_floor(duplicates: str) -> bool:
    return bool(one_of("duplicates", duplicates, ("raise", "floor")) == "floor")


def _integrand(divergence: Divergence, alpha: float) -> integrals.Integrand | float:
    if divergence == "renyi":
        return alpha
    if divergence == "kullback-leibler":
        return integrals.kullback_leibler
    if not callable(divergence):
        return DIVERGENCES[divergence].kappa
    p, q = np.array([1e-6, 0.5, 1.0, 30.0]), np.array([1.0, 1.0, 1.0, 1e-6])
    values = np.asarray(divergence(p, q))
    if values.shape != p.shape or values.dtype.kind != "f" or not np.isfinite(values).all():
        raise ValueError(
            f"kappa(p, q) must give one finite float for each element: for p={p.tolist()} and q={q.tolist()} "
            f"found {values!r}"
        )
    return divergence


def _fit_densities(
    estimator: PluginDivergence | HeldOutDivergence, n_basis: int, rows: Sets, columns: Sets | None
) -> DivergenceSpec:
    """Densities as chosen from the columns; the rows are checked."""
    structure = one_of("structure", estimator.structure, ("auto", "joint", "marginal"))
    if structure == "auto":
        structure = "joint" if rows.n_dims <= MOST_TENSOR_DIMS else "marginal"
    # whatever the divergence: only its densities are used
    embedding = DivergenceEmbedding(
        "hellinger", n_basis, bandwidth=estimator.bandwidth, domain=estimator.domain, structure=structure
    )
    if columns is None:
        return cast(DivergenceSpec, embedding.fit(rows).spec_)
    with error_context("one of other"):
        spec = cast(DivergenceSpec, embedding.fit(columns).spec_)
    outside = np.concatenate(map_set_blocks(partial(_count_outside, spec), rows, "survey"))
    tell_outside(outside, 0, spec.domain, rows.n_points)
    return spec


def _count_outside(spec: DivergenceSpec, sets: Sets, first: int) -> I64:
    none = np.zeros(1, np.int64)
    count = partial(count_outside, spec.domain)
    return np.concatenate(
        run_skipping_invalid(count, sets, range(first, first + len(sets)), none, skip=False).results
    )


def _require_points(name: str, rows: Sets, columns: Sets | None, n_min: int, purpose: str) -> None:
    """Refuse sets with fewer points than ``n_min``, and weights."""
    for sets, side in ((rows, ""), (columns, " of other")):
        if sets is None:
            continue
        sizes: I64 = sets.sizes
        if sizes.min() < n_min:
            i = int(np.argmin(sizes >= n_min))
            raise SampleSetError(
                f"set {i}{side} has {sizes[i]} point(s); {purpose} need at least {n_min}: drop the set, or use a "
                "smaller k"
            )
        weights = sets.weights_shape if isinstance(sets, SetStore) else sets.weights
        if weights is not None:
            raise SampleSetError(
                f"the sets{side} (set 0 and all others) have weights, and estimator={name!r} counts points: use "
                "estimator='plugin', which takes weights, or sets without them"
            )
