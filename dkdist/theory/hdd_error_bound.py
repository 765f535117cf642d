"""`hdd_error_bound`: bounds on the error of density embeddings, from samples to inner products."""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Real

import numpy as np

from dkdist._base.parameter_checks import check_choice, check_int, check_positive
from dkdist.embeddings.divergences import canonical_name
from dkdist.embeddings.divergences import divergence as divergence_of
from dkdist.theory import hdd_terms as bounds

NAMES = ("hellinger", "jensen-shannon", "chi2", "total-variation")


@dataclass(frozen=True)
class HddErrorBound:
    """Bound ``total`` of the error of z(p) . z(q) against the kernel of the true densities, with probability 1 - delta.

    ``total`` is the sum of the others: ``kde`` for densities estimated from samples, ``frequencies`` for a finite sum
    over the spectral measure of kappa, ``truncation`` for a finite basis, ``integration`` for coefficients by random
    nodes, ``features`` for random Fourier features. Bounds above 1 are trivial.

    Examples
    --------
    >>> import dkdist as dk
    >>> bound = dk.hdd_error_bound(100_000, 5000, sigma=1.0, bandwidth=0.02, lipschitz=1.0, lowest=0.5)
    >>> isinstance(bound, dk.HddErrorBound), bound.total > bound.kde > bound.features
    (True, True)
    """

    kde: float
    frequencies: float
    truncation: float
    integration: float
    features: float
    total: float
    delta: float


def hdd_error_bound(
    n_points: int,
    n_components: int,
    *,
    sigma: float,
    bandwidth: float,
    lipschitz: float,
    divergence: str = "hellinger",
    n_dims: int = 1,
    holder: float = 1.0,
    lowest: float = 0.0,
    n_frequencies: int | None = None,
    frequency_error: float = 0.0,
    n_basis: int | None = None,
    smoothness: tuple[float, float] | None = None,
    n_nodes: int | None = None,
    delta: float = 0.05,
) -> HddErrorBound:
    """Bound the error of random features of a divergence between two densities, each estimated from a sample.

    The kernel is exp(-d^2(p, q) / (2 sigma^2)), d^2 = int kappa(p, q) over the unit cube; z are ``n_components`` random
    Fourier features of the embedded kernel density estimates.

    Parameters
    ----------
    n_points : int
        Number of points of the smaller sample.
    n_components : int
        Even number of random Fourier features, with independent frequencies.
    sigma : float
        Bandwidth of the kernel.
    bandwidth : float
        Standard deviation of the Gaussian of the density estimates, reflected at the boundary of the unit cube.
    lipschitz, holder : float
        The densities satisfy |p(x) - p(y)| <= lipschitz |x - y|^holder, 0 < holder <= 1.
    divergence : {"hellinger", "jensen-shannon", "chi2", "total-variation"}
    n_dims : int
    lowest : float, default=0.0
        Lower bound on the densities. If positive, the bound ``kde`` is smaller, except for total variation.
    n_frequencies : int, optional
        Number of frequencies with frequencies="random". Without it, the frequencies are a quadrature rule whose d^2 has
        a relative error of at most ``frequency_error``.
    n_basis, smoothness : int, (radius, order)
        The basis has all products of cosines of degrees a_j < n_basis, and f = p^(1/2 + i l) of the density estimates
        has coefficients with sum_a |f_a|^2 max(a)^(2 order) <= radius^2. Without ``smoothness`` there is no
        truncation error.
    n_nodes : int, optional
        Number of uniform random nodes over which coefficients are averaged, as in the paper and in
        ``DivergenceEmbedding(nodes="uniform", n_nodes=..., index_set="tensor")``. Without it, coefficients are exact.
    delta : float, default=0.05
        Probability of failure, shared equally by the random terms.

    Returns
    -------
    HddErrorBound

    Raises
    ------
    ValueError
        For numbers out of range, random frequencies of "hellinger" (which has none), or smoothness or nodes without
        n_basis.

    Notes
    -----
    The terms are those of the analysis in the paper, whose bounds have unknown constants. The bounds here have explicit
    constants, which are proved in `dkdist.theory.hdd_terms`. If ``lowest`` > 0, ``kde`` decreases as n^(-1/2) to a
    limit that depends on the bandwidth; otherwise as the square root of such a sum. Each term is a worst case.
    `kernel_error` estimates the error of the steps after the density estimates for specific data, and
    `DivergenceEmbedding.noise` the part of d^2 that is sampling noise. For samples of 20 points this part of a squared
    Hellinger distance is 0.03, 0.07, 0.15 in d = 1, 2, 3; it decreases as 1 / n.

    Sutherland, Oliva, Poczos, Schneider: Linear-time learning on distributions with approximate kernel embeddings
    (2016).

    Examples
    --------
    >>> import dkdist as dk
    >>> bound = dk.hdd_error_bound(100_000, 5000, sigma=1.0, bandwidth=0.02, lipschitz=1.0, lowest=0.5)
    >>> round(bound.kde, 3), round(bound.features, 3), round(bound.total, 3)
    (0.082, 0.059, 0.142)
    """
    n, d = check_int("n_points", n_points), check_int("n_dims", n_dims)
    F = check_int("n_components", n_components, minimum=2) // 2
    sigma, h, delta = (
        check_positive("sigma", sigma),
        check_positive("bandwidth", bandwidth),
        check_positive("delta", delta),
    )
    for name, value in (
        ("lipschitz", lipschitz), ("holder", holder), ("lowest", lowest), ("frequency_error", frequency_error),
    ):  # fmt: skip
        _require(isinstance(value, Real), f"{name} must be a number; got {value!r}.")
    for name, count in (("n_points", n), ("n_dims", d), ("n_components", n_components)):
        _require(count <= 2**53, f"{name} must be at most 2**53, up to which float64 integers are exact.")
    _require(n_components % 2 == 0, f"n_components must be even; got {n_components}.")
    _require(delta < 1, f"delta must be a probability below 1; got {delta}.")
    _require(0 < holder <= 1, f"holder must be above 0 and at most 1; got {holder}.")
    _require(
        lipschitz >= 0 and 0 <= lowest <= 1,
        f"lipschitz must be >= 0 and lowest between 0 and 1; got {lipschitz} and {lowest}.",
    )
    _require(0 <= frequency_error < 1, f"frequency_error must be below 1; got {frequency_error}.")
    Z = divergence_of(check_choice("divergence", canonical_name(divergence), NAMES)).total
    step_delta = delta / (2 + (n_frequencies is not None) + (n_nodes is not None))
    slope = bounds.MAX_KERNEL_SLOPE / sigma  # maximum slope of k as a function of d
    energy = bounds.reflected_energy(h, d)
    bias = bounds.smoothing_bias(h, d, float(lipschitz), float(holder))
    l1 = min(2.0, bias + bounds.deviation_l1(n, energy, step_delta / 2))
    l2 = bias + bounds.deviation_l2(n, energy, step_delta / 2)
    smooth = divergence != "total-variation"
    change = bounds.change_of_distance(Z, l1, l2, float(lowest) if smooth else 0.0)
    kde = 2 * change * bounds.MAX_KERNEL_SLOPE / sigma  # error of both densities, by the triangle inequality
    if not smooth:  # d^2 = int |p - q| satisfies the triangle inequality, too
        kde = min(kde, 2 * l1 / (2 * sigma**2))
    if n_frequencies is not None:
        _require(
            divergence != "hellinger",
            "n_frequencies must be None for divergence='hellinger', which has no frequencies.",
        )
        _require(frequency_error == 0, "frequency_error must be 0 with n_frequencies; got both.")
        M = check_int("n_frequencies", n_frequencies)
        frequencies = bounds.sampled_frequencies(Z, M, step_delta) / (2 * sigma**2)
    else:  # maximum of a r exp(-a (1 - r)) over a = d^2 / (2 sigma^2), with r = frequency_error
        frequencies = frequency_error / (math.e * (1 - frequency_error))
    truncation = integration = 0.0
    _require(
        n_basis is not None or (smoothness is None and n_nodes is None),
        "smoothness and n_nodes require n_basis. Pass n_basis.",
    )
    if n_basis is not None:
        K = check_int("n_basis", n_basis)
        if smoothness is not None:
            _require(np.shape(smoothness) == (2,), f"smoothness must be (radius, order); got {smoothness!r}.")
            radius, order = (check_positive("smoothness", value) for value in smoothness)
            truncation = slope * bounds.truncation_error(Z, radius, order, K)
        if n_nodes is not None:
            integration = slope * bounds.sampled_integrals(Z, d, K, check_int("n_nodes", n_nodes), step_delta)
    features = bounds.random_features(F, step_delta)
    total = kde + frequencies + truncation + integration + features
    return HddErrorBound(kde, float(frequencies), truncation, integration, features, float(total), delta)


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise ValueError(message)
