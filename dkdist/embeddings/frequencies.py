"""Frequencies and weights of a finite sum that approximates the spectral measure of a divergence.

    kappa(x, y) ~ sum_j w_j |x^(1/2 + i lam_j) - y^(1/2 + i lam_j)|^2

"random" draws lam_j from mu / Z with w_j = Z / n (P1). "stratified" uses lam_j = quantile((j + 1/2) / n) with equal
weights. "gauss" is the Gauss rule in s = l^2, by the Lanczos recurrence on a fine discretisation and the eigenvalues of
its tridiagonal matrix (Golub, Welsch 1969); a mu without second moment (total variation) has no such rule; then
lam_j = quantile(u_j) for Gauss-Legendre nodes u_j.

"fitted" needs the fewest frequencies: with t = log(x / y), sum_j w_j (2 cosh(t/2) - 2 cos(lam_j t)) is fitted to
kappa(e^(t/2), e^(-t/2)) for t up to log(ratio) by least squares of relative errors. If kappa has a kink
at t = 0, no sum approximates it there, because sums are proportional to t^2. Then averages over t ~ N(0, s^2) for a
range of spreads s are fitted, which correspond to the integral of kappa over two densities. Weights are solved by
non-negative least squares inside the search over lam (variable projection; Golub, Pereyra 1973; Jacobian of Kaufman
1975).

P1: Sutherland, Oliva, Poczos, Schneider, Linear-time learning on distributions with approximate kernel
embeddings (2016).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh_tridiagonal
from scipy.optimize import least_squares, nnls

from dkdist._numba.arrays import F64
from dkdist._utils.validation import find_stacklevel
from dkdist.embeddings._tuning import (
    MAX_FREQUENCIES_BY_RULE,
    MIN_LOG_RATIO_SPREAD,
    N_RANDOM_FREQUENCIES,
    RIDGE,
    ROUGH_RTOL,
    SMOOTH_RTOL,
    TRUNCATED_MASS_FRACTION,
)
from dkdist.embeddings.divergences import Divergence


def _density_quantile(divergence: Divergence, u: F64) -> F64:
    """Return quantiles of mu without its atom."""
    atom_fraction = divergence.atom / divergence.total
    return divergence.quantile(atom_fraction + (1 - atom_fraction) * u)


def stratified(divergence: Divergence, n: int) -> tuple[F64, F64]:
    """Return frequencies (n,) at the midpoints of n strata of equal mass, and their equal weights (n,)."""
    mass = divergence.total - divergence.atom
    return _density_quantile(divergence, (np.arange(n) + 0.5) / n), np.full(n, mass / n)


def gauss(divergence: Divergence, n: int) -> tuple[F64, F64]:
    """Return frequencies (n,) and weights (n,) of the Gauss rule of the density."""
    mass = divergence.total - divergence.atom
    if not divergence.smooth:
        nodes, weights = np.polynomial.legendre.leggauss(n)
        return _density_quantile(divergence, (nodes + 1) / 2), mass * weights / 2
    lam, measure = _discretise(divergence)
    diagonal, off = _lanczos(lam**2, measure, n)
    values, vectors = eigh_tridiagonal(diagonal, off)
    return np.sqrt(np.maximum(values, 0.0)), mass * vectors[0] ** 2


def _discretise(divergence: Divergence) -> tuple[F64, F64]:
    """Discretise the density of mu: return 2,048 points and their masses, which sum to 1."""
    end = float(divergence.quantile(np.array([1 - TRUNCATED_MASS_FRACTION]))[0])
    edges = np.sinh(np.linspace(0.0, np.arcsinh(end), 129))
    nodes, weights = np.polynomial.legendre.leggauss(16)
    half = np.diff(edges)[:, None] / 2
    lam = (edges[:-1, None] + half * (1 + nodes)).ravel()
    masses = divergence.density(lam) * (half * weights).ravel()
    return lam, masses / masses.sum()


def _lanczos(s: F64, masses: F64, n: int) -> tuple[F64, F64]:
    """Return diagonal (n,) and off-diagonal (n - 1,) of the Jacobi matrix of masses at s."""
    basis = np.zeros((n, len(s)))
    basis[0] = np.sqrt(masses)
    diagonal, off = np.zeros(n), np.zeros(n - 1)
    for j in range(n):
        v = s * basis[j]
        diagonal[j] = basis[j] @ v
        if j == n - 1:
            break
        for _ in range(2):  # twice, because rounding errors remain after one orthogonalization
            v = v - basis[: j + 1].T @ (basis[: j + 1] @ v)
        off[j] = np.linalg.norm(v)
        basis[j + 1] = v / off[j]
    return diagonal, off


Basis = Callable[[F64], tuple[F64, F64]]


@lru_cache(maxsize=64)
def kappa_problem(divergence: Divergence, ratio: float, size: int) -> tuple[Basis, F64]:
    """Return a function that maps lam to (basis, derivative), each (size, n), and the target (size,)."""
    return (
        _pointwise_problem(divergence, ratio, size)
        if divergence.smooth
        else _averaged_problem(divergence, ratio, size // 4)
    )


def _pointwise_problem(divergence: Divergence, ratio: float, size: int) -> tuple[Basis, F64]:
    """Return basis 2 cosh(t/2) - 2 cos(lam t) and target kappa(e^(t/2), e^(-t/2)) at Chebyshev points t."""
    t = np.log(ratio) * np.sin(np.pi / 2 * np.arange(1, size + 1) / size) ** 2
    t = np.maximum(t, min(0.01, t[-1]))  # for smaller t, rounding errors in kappa dominate
    target = np.exp(t / 2) * divergence.kappa(np.ones(size), np.exp(-t))
    growth = 4 * np.sinh(t / 4)[:, None] ** 2

    def basis(lam: F64) -> tuple[F64, F64]:
        angle = np.outer(t, lam)
        return growth + 4 * np.sin(angle / 2) ** 2, 2 * t[:, None] * np.sin(angle)

    return basis, target


def _averaged_problem(divergence: Divergence, ratio: float, size: int) -> tuple[Basis, F64]:
    """Return averages over t ~ N(0, s^2) for spreads s: basis 2 e^(s^2/8) - 2 e^(-lam^2 s^2/2)."""
    max_spread = max(np.log(ratio) / 2, 2 * MIN_LOG_RATIO_SPREAD)
    s = np.geomspace(MIN_LOG_RATIO_SPREAD, max_spread, size)[:, None]
    nodes, weights = np.polynomial.legendre.leggauss(200)
    end = 9 + s / 2  # in standard deviations; wider for large s, because kappa grows like e^(t/2)
    z = end * (nodes + 1) / 2
    t = s * z
    profile = divergence.kappa(np.ones_like(t), np.exp(-t))
    # A single exponential avoids overflow.
    target = np.sum(end * weights * profile * np.exp(t / 2 - z * z / 2), axis=1) / np.sqrt(2 * np.pi)

    def basis(lam: F64) -> tuple[F64, F64]:
        decay = np.exp(-((lam * s) ** 2) / 2)
        return 2 * np.expm1(s * s / 8) + 2 * (1 - decay), 2 * lam * s * s * decay

    return basis, target


def _initial_frequencies(divergence: Divergence, n: int, ratio: float) -> list[F64]:
    """Return two starting points for the fit of n free frequencies.

    The first is the Gauss rule, or a geometric sequence for kappa with a kink. The second is the fit of n - 1
    frequencies and one more; it ensures that an additional frequency never increases the error.
    """
    geometric = np.geomspace(2.0 / np.log(ratio), 1.5 / MIN_LOG_RATIO_SPREAD, n)
    start = gauss(divergence, n)[0] if divergence.smooth else geometric
    if n == 1:
        return [start]
    n_fixed = 1 if divergence.atom > 0 else 0
    previous = fit(divergence, n - 1 + n_fixed, ratio)[0][n_fixed:]
    return [start, np.append(previous, 1.6 * previous[-1])]


@lru_cache(maxsize=256)
def fit(divergence: Divergence, n: int, ratio: float) -> tuple[F64, F64]:
    """Return the least-squares fit: increasing lam (n,) and w (n,) >= 0; lam[0] = 0 if mu has an atom."""
    basis, target = kappa_problem(divergence, ratio, 201)
    fixed = np.zeros(1 if divergence.atom > 0 else 0)
    ones = np.ones(len(target))

    def solve(log_lam: F64) -> tuple[F64, F64, F64]:
        columns, slopes = (a / target[:, None] for a in basis(np.append(fixed, np.exp(log_lam))))
        scale = np.linalg.norm(columns, axis=0)
        damped = np.vstack([columns / scale, RIDGE * np.eye(len(scale))])
        return columns, slopes, nnls(damped, np.append(ones, np.zeros(len(scale))))[0] / scale

    def residual(log_lam: F64) -> F64:
        columns, _, w = solve(log_lam)
        return columns @ w - ones

    def jacobian(log_lam: F64) -> F64:
        """Return Kaufman's Jacobian: the part of each column's derivative that the weights cannot compensate."""
        columns, slopes, w = solve(log_lam)
        q = np.linalg.qr(columns[:, w > 0])[0]
        change = (slopes * w)[:, len(fixed) :] * np.exp(log_lam)
        return change - q @ (q.T @ change)

    bounds = np.log(1e-3), np.log(1e3)
    fits = [
        least_squares(
            residual, np.clip(np.log(start), *bounds), jacobian, bounds, max_nfev=100, xtol=1e-10, ftol=1e-10
        )
        for start in _initial_frequencies(divergence, n - len(fixed), ratio)
    ]
    best = min(fits, key=lambda result: float(result.cost)).x
    lam = np.append(fixed, np.exp(best))
    order = np.argsort(lam)
    return lam[order], solve(best)[2][order]


Rule = tuple[F64, F64]

RULES = ("fitted", "gauss", "stratified", "random")
DEFAULT_RULE = "fitted"
"""The most accurate rule at equal n ("random" in P1).

An rms relative error of 1.5 % of the integrated total variation of random mixtures needs 5 fitted, 12 to 15 Gauss, or
more than 30 stratified frequencies. Hellinger needs one frequency with every deterministic rule.
"""


def frequency_count(divergence: Divergence, rule: str, ratio: float = 1e6) -> int:
    """Return the number of frequencies for n = "auto" and density ratios up to ``ratio``.

    It is the smallest number with a `rule_error` of at most 0.1 % (smooth kappa) or 1 % (kappa with a kink, such as
    total variation, and every "stratified" rule). "random" has no error bound and gets 64 (Hellinger: 1): errors of
    about 4 % of a Jensen-Shannon divergence, 10 % of a total variation. Raises `ValueError` for an unknown rule, or
    ratio <= 1. If 16 (fitted), 64 (gauss) or 256 (stratified) frequencies do not suffice, it warns with the error
    reached. The first call takes up to 0.3 s; results are cached.

    >>> from dkdist.embeddings.divergences import divergence
    >>> frequency_count(divergence("jensen-shannon"), "fitted")
    3
    """
    _check(rule, ratio)
    if rule == "random":
        return 1 if divergence.atom == divergence.total else N_RANDOM_FREQUENCIES
    count, error, target = _smallest_count(divergence, rule, float(ratio))
    if error > target:
        warnings.warn(
            f"the {rule!r} rule of {divergence.name} must have a relative error of at most {target:g}; got "
            f"{error:.2g} with {count} frequencies. Pass n, reduce the ratio ({ratio:g}), or use the 'fitted' rule.",
            stacklevel=find_stacklevel(),
        )
    return count


def frequency_rule(
    divergence: Divergence,
    rule: str,
    n: int | Literal["auto"] = "auto",
    uniforms: NDArray[np.floating] | None = None,
    ratio: float = 1e6,
) -> Rule:
    """Return increasing frequencies lam >= 0 and weights w >= 0 of a divergence, each (n,) float64.

    "random": lam = quantile(uniforms), w = Z / n, unbiased (P1). ``uniforms`` are n independent numbers in [0, 1), in
    the order of lam; they must be None for other rules.
    "stratified": lam = quantile((j + 1/2) / n), w = Z / n.
    "gauss": the n-point Gauss rule of mu in l^2. For a mu without second moment (total variation), lam = quantile(u_j)
    for Gauss-Legendre nodes u_j.
    "fitted": least squares of the relative error of kappa over t = log(x/y) in [0, log(ratio)], where ``ratio`` is the
    largest density ratio. Without second moment, kappa is averaged over Gaussian t of spread 0.05 to log(ratio) / 2,
    because near t = 0 a sum of cosines is proportional to t^2 and kappa is not.

    n = "auto" is `frequency_count`, and the number of uniforms for "random". Deterministic rules include an atom of mu
    at 0 as the exact frequency 0: Hellinger always has lam = [0], w = [Z].

    Raises `ValueError` for an unknown rule; for n < 1, n > 16 with "fitted", or n = 1 if mu has an atom and a density;
    for missing, superfluous or invalid uniforms; and for ratio <= 1. Fitting five frequencies takes about 10 ms;
    deterministic rules are cached.

    >>> from dkdist.embeddings.divergences import divergence
    >>> lam, w = frequency_rule(divergence("jensen-shannon"), "fitted", 3)
    >>> rule_error(divergence("jensen-shannon"), lam, w) < 1e-3
    True
    """
    _check(rule, ratio)
    if rule == "random":
        return _random_rule(divergence, n, uniforms)
    if uniforms is not None:
        raise ValueError(f"uniforms must be None for the {rule!r} rule; only the 'random' rule uses them.")
    count = frequency_count(divergence, rule, ratio) if n == "auto" else n
    if count < 1:
        raise ValueError(f"n must be at least 1; got {count}")
    if rule == "fitted" and count > MAX_FREQUENCIES_BY_RULE[rule]:
        raise ValueError(
            f"n must be at most {MAX_FREQUENCIES_BY_RULE[rule]} for the 'fitted' rule, whose error is then far below "
            f"float32 precision; got {count}. Reduce n or use the 'gauss' rule."
        )
    lam, w = _deterministic_rule(divergence, rule, int(count), float(ratio))
    return lam.copy(), w.copy()


def rule_error(divergence: Divergence, lam: F64, w: F64, ratio: float = 1e6) -> float:
    """Return the largest relative error of kappa for a rule (lam, w), each (n,), and ratios x / y up to ``ratio``.

    Smooth kappa: maximum over 1 < x / y <= ratio. Otherwise (total variation): maximum over spreads s from 0.05 to
    log(ratio) / 2 of the relative error of the average over t = log(x/y) ~ N(0, s^2), which corresponds to the
    integrated divergence; the pointwise error of every rule tends to 100 % as x / y -> 1. Raises `ValueError` for ratio
    <= 1. About a millisecond.

    >>> from dkdist.embeddings.divergences import divergence
    >>> rule_error(divergence("hellinger"), np.array([0.0]), np.array([0.5])) < 1e-12
    True
    """
    _check("fitted", ratio)
    basis, target = kappa_problem(divergence, float(ratio), 801)
    return float(np.abs(basis(np.asarray(lam, dtype=np.float64))[0] @ w / target - 1).max())


def _check(rule: str, ratio: float) -> None:
    if rule not in RULES:
        raise ValueError(f"rule must be one of {', '.join(map(repr, RULES))}; got {rule!r}")
    if not 1 < ratio < np.inf:
        raise ValueError(f"ratio, the largest density ratio, must be a finite number above 1; got {ratio}")


@lru_cache(maxsize=256)
def _smallest_count(divergence: Divergence, rule: str, ratio: float) -> tuple[int, float, float]:
    """Return the smallest number of frequencies that reaches the target (or the best), its error, and the target."""
    # Errors of stratified rules are proportional to 1 / n: 0.1 % would need 1,000 frequencies.
    is_accurate = rule == "fitted" or (divergence.smooth and rule != "stratified")
    target = SMOOTH_RTOL if is_accurate else ROUGH_RTOL
    first = 2 if 0 < divergence.atom < divergence.total else 1
    best = (first, np.inf)
    for n in range(first, MAX_FREQUENCIES_BY_RULE[rule] + 1):
        error = rule_error(divergence, *_deterministic_rule(divergence, rule, n, ratio), ratio)
        if error < best[1]:
            best = (n, error)
        if error <= target:
            break
    return *best, target


def _random_rule(divergence: Divergence, n: int | str, uniforms: NDArray[np.floating] | None) -> Rule:
    if uniforms is None:
        raise ValueError(
            "uniforms must be an array of n independent numbers in [0, 1) for the 'random' rule; got None"
        )
    u = np.asarray(uniforms, dtype=np.float64)
    if u.ndim != 1 or len(u) == 0 or (n != "auto" and len(u) != n):
        raise ValueError(f"uniforms must have shape ({'n' if n == 'auto' else n},); got {u.shape}")
    if not np.all((u >= 0) & (u < 1)):
        raise ValueError(f"uniforms must be in [0, 1); got {u.min():g} to {u.max():g}")
    return divergence.quantile(u), np.full(len(u), divergence.total / len(u))


@lru_cache(maxsize=256)
def _deterministic_rule(divergence: Divergence, rule: str, n: int, ratio: float) -> Rule:
    continuous = divergence.total - divergence.atom
    if continuous <= 1e-12 * divergence.total:
        return np.zeros(1), np.array([divergence.total])
    if n < 2 and divergence.atom > 0:
        raise ValueError(
            f"n must be at least 2 for {divergence.name}, whose measure has an atom of {divergence.atom:g} at 0 and a "
            f"density; got {n}"
        )
    if rule == "fitted":
        return fit(divergence, n, ratio)
    quadrature_rule = gauss if rule == "gauss" else stratified
    if divergence.atom == 0:
        return quadrature_rule(divergence, n)
    lam, w = quadrature_rule(divergence, n - 1)
    return np.append(0.0, lam), np.append(divergence.atom, w)
