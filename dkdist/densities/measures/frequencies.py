"""Weighted frequencies: a finite sum in place of the spectral measure of a divergence.

    kappa(x, y) ~ sum_j w_j |x^(1/2 + i lam_j) - y^(1/2 + i lam_j)|^2

P1 draws lam_j from mu / Z with w_j = Z / n ("random"). The deterministic rules are the
midpoints of mu in probability ("stratified"), Gauss quadrature ("gauss"), and frequencies and weights fitted
by least squares over the ratios that occur ("fitted"), which needs the fewest by far.

P1: Sutherland, Oliva, Poczos, Schneider, Linear-time learning on distributions with approximate kernel
embeddings (2016).
"""

from __future__ import annotations

import warnings
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dkdist.densities.measures import quadrature
from dkdist.densities.measures.divergences import Divergence
from dkdist.densities.measures.fitted_frequencies import fit, kappa_problem
from dkdist.loops.array_types import F64
from dkdist.plain.user_line import user_level

Rule = tuple[F64, F64]

RULES = ("fitted", "gauss", "stratified", "random")
DEFAULT_RULE = "fitted"
"""The most accurate one at equal n, measured here (in P1 it is "random"): integrated total variation of random
mixtures has an rms relative error of 1.5 % with 5 fitted frequencies, 12 to 15 by Gauss, more than 30 stratified ones.
Hellinger needs one frequency under every deterministic rule.
"""

# A derived rule of n = "auto" stops at this relative error (smooth kappa: pointwise; otherwise: of averages).
_TARGET_SMOOTH, _TARGET_ROUGH = 1e-3, 1e-2
# No more than these are tried. Past 16, the fit only chases rounding.
_MOST = {"fitted": 16, "gauss": 64, "stratified": 256}
_RANDOM_COUNT = 64


def frequency_count(divergence: Divergence, rule: str, ratio: float = 1e6) -> int:
    """The n that "auto" stands for, where density ratios up to ``ratio`` are served.

    The fewest with `rule_error` at most 0.1 % (smooth kappa) or 1 % (kappa with a kink, as total variation, and every
    "stratified" rule). "random", whose error has no bound, gets 64 (Hellinger: 1): some 4 % of a Jensen-Shannon
    divergence, 10 % of a total variation. `ValueError` for an unknown rule, or ratio <= 1; a warning says what accuracy
    is reached where 16 (fitted), 64 (gauss) or 256 (stratified) frequencies do not reach that. Up to 0.3 s at the first
    call; the result is remembered.

    >>> from dkdist.densities.measures.divergences import divergence
    >>> frequency_count(divergence("jensen-shannon"), "fitted")
    3
    """
    _check(rule, ratio)
    if rule == "random":
        return 1 if divergence.atom == divergence.total else _RANDOM_COUNT
    count, error, target = _fewest(divergence, rule, float(ratio))
    if error > target:
        warnings.warn(
            f"the {rule!r} rule of {divergence.name} has a relative error of {error:.2g} with {count} "
            "frequencies, "
            f"expected {target:g}. Give n, narrow the ratio ({ratio:g}), or take the 'fitted' rule.",
            stacklevel=user_level(),
        )
    return count


def frequency_rule(
    divergence: Divergence,
    rule: str,
    n: int | Literal["auto"] = "auto",
    uniforms: NDArray[np.floating] | None = None,
    ratio: float = 1e6,
) -> Rule:
    """Frequencies lam >= 0, increasing, and weights w >= 0 of a divergence: float64 arrays of n numbers each.

    "random": lam = quantile(uniforms), w = Z / n, unbiased (P1); in the order of the uniforms, n independent numbers in
    [0, 1), which no other rule takes. "stratified": lam = quantile((j + 1/2) / n), w = Z / n. "gauss": the n-point
    Gauss rule of mu in l^2; for a mu without second moment (total variation), Gauss-Legendre in the probability u,
    lam = quantile(u_j). "fitted": least squares over t = log(x/y) in [0, log(ratio)], the largest ratio of densities
    served, of the relative error of kappa; without second moment, of the relative error of kappa averaged over Gaussian
    t of spread 0.05 to log(ratio) / 2, since near t = 0 a sum of cosines goes like t^2 and kappa does not.

    n = "auto" is `frequency_count`, and the number of uniforms for "random". An atom of mu at 0 is one of the
    frequencies, exactly, in the deterministic rules: Hellinger is always lam = [0], w = [Z].

    `ValueError` for an unknown rule; n < 1, n > 16 for "fitted", or 1 for a measure of atom and density; uniforms
    missing, superfluous, of another length or outside [0, 1); ratio <= 1. Some 10 ms to fit five frequencies;
    deterministic rules are remembered.

    >>> from dkdist.densities.measures.divergences import divergence
    >>> lam, w = frequency_rule(divergence("jensen-shannon"), "fitted", 3)
    >>> rule_error(divergence("jensen-shannon"), lam, w) < 1e-3
    True
    """
    _check(rule, ratio)
    if rule == "random":
        return _random(divergence, n, uniforms)
    if uniforms is not None:
        raise ValueError(f"uniforms belong to the 'random' rule: the {rule!r} rule takes none. Drop them.")
    count = frequency_count(divergence, rule, ratio) if n == "auto" else n
    if count < 1:
        raise ValueError(f"n = {count}: expected at least one frequency.")
    if rule == "fitted" and count > _MOST[rule]:
        raise ValueError(
            f"n = {count}: expected at most {_MOST[rule]} for the 'fitted' rule, whose error is far below "
            "float32 by then. Take fewer, or the 'gauss' rule."
        )
    lam, w = _deterministic(divergence, rule, int(count), float(ratio))
    return lam.copy(), w.copy()


def rule_error(divergence: Divergence, lam: F64, w: F64, ratio: float = 1e6) -> float:
    """Largest relative error of the kappa of a rule (lam, w), each (n,), over density ratios x / y up to ``ratio``.

    Smooth kappa: maximum over 1 < x / y <= ratio. Otherwise (total variation): maximum over spreads s from 0.05 to
    log(ratio) / 2 of the relative error of the average over t = log(x/y) ~ N(0, s^2), which stands for the integrated
    divergence; pointwise, the error is 100 % at x / y -> 1 whatever the rule. `ValueError` for ratio <= 1. About a
    millisecond.

    >>> from dkdist.densities.measures.divergences import divergence
    >>> rule_error(divergence("hellinger"), np.array([0.0]), np.array([0.5])) < 1e-12
    True
    """
    _check("fitted", ratio)
    basis, target = kappa_problem(divergence, float(ratio), 801)
    return float(np.abs(basis(np.asarray(lam, dtype=np.float64))[0] @ w / target - 1).max())


def _check(rule: str, ratio: float) -> None:
    if rule not in RULES:
        raise ValueError(f"unknown frequency rule {rule!r}: expected one of {', '.join(map(repr, RULES))}.")
    if not 1 < ratio < np.inf:
        raise ValueError(
            f"ratio = {ratio}: expected the largest density ratio served, a finite number above 1."
        )


@lru_cache(maxsize=256)
def _fewest(divergence: Divergence, rule: str, ratio: float) -> tuple[int, float, float]:
    """The fewest frequencies that reach the target, their error, the target; the best found if none does."""
    # Stratified rules gain like 1 / n: 0.1 % would take a thousand.
    easy = rule == "fitted" or (divergence.smooth and rule != "stratified")
    target = _TARGET_SMOOTH if easy else _TARGET_ROUGH
    first = 2 if 0 < divergence.atom < divergence.total else 1
    best = (first, np.inf)
    for n in range(first, _MOST[rule] + 1):
        error = rule_error(divergence, *_deterministic(divergence, rule, n, ratio), ratio)
        if error < best[1]:
            best = (n, error)
        if error <= target:
            break
    return *best, target


def _random(divergence: Divergence, n: int | str, uniforms: NDArray[np.floating] | None) -> Rule:
    if uniforms is None:
        raise ValueError("the 'random' rule needs uniforms: an array of n independent numbers in [0, 1).")
    u = np.asarray(uniforms, dtype=np.float64)
    if u.ndim != 1 or len(u) == 0 or (n != "auto" and len(u) != n):
        raise ValueError(
            f"uniforms have shape {u.shape}: expected ({'n' if n == 'auto' else n},), one a frequency."
        )
    if not np.all((u >= 0) & (u < 1)):
        raise ValueError(f"uniforms range from {u.min():g} to {u.max():g}: expected numbers in [0, 1).")
    return divergence.quantile(u), np.full(len(u), divergence.total / len(u))


@lru_cache(maxsize=256)
def _deterministic(divergence: Divergence, rule: str, n: int, ratio: float) -> Rule:
    continuous = divergence.total - divergence.atom
    if continuous <= 1e-12 * divergence.total:
        return np.zeros(1), np.array([divergence.total])
    if n < 2 and divergence.atom > 0:
        raise ValueError(
            f"n = {n} for {divergence.name}, whose measure has an atom of {divergence.atom:g} at 0 besides "
            "its density: expected at least 2."
        )
    if rule == "fitted":
        return fit(divergence, n, ratio)
    quadrature_rule = quadrature.gauss if rule == "gauss" else quadrature.stratified
    if divergence.atom == 0:
        return quadrature_rule(divergence, n)
    lam, w = quadrature_rule(divergence, n - 1)
    return np.append(0.0, lam), np.append(divergence.atom, w)
