"""`n_features_for`: number of features of an approximate kernel for a given error."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from dkdist._base.parameter_checks import check_choice, check_int, check_positive
from dkdist.kernels._taylor_numba import MAX_ORDER, n_terms, taylor_order
from dkdist.kernels.fourier_grid import MAX_GRID_DIMS, fourier_grid
from dkdist.theory import feature_bounds as bounds
from dkdist.theory._tuning import MAX_GRID_FEATURES, MAX_NUMBER, MIN_NUMBER

PARAMETER_SETS_BY_RULE = {
    "rff": (("n_points",), ("n_dims", "diameter", "sigma")),
    "d2ke": (("n_points",), ("n_dims", "diameter", "gamma")),
    "fourier": (("n_dims", "diameter", "sigma"),),
    "taylor": (("n_dims", "diameter", "sigma"),),
    "ifgt": (("n_dims", "diameter", "sigma"),),
}


def n_features_for(
    eps: float,
    delta: float = 0.05,
    *,
    rule: str,
    n_points: int | None = None,
    n_dims: int | None = None,
    diameter: float | None = None,
    sigma: float | None = None,
    gamma: float | None = None,
) -> int:
    """Return the number of features for which every kernel error is at most eps with probability 1 - delta.

    Parameters
    ----------
    eps : float
        Maximum error of k(x, y) <= 1. For weights of sum 1 it also bounds the error of mean kernels, and that of D^2 by
        4 eps.
    delta : float, default=0.05
        Probability of failure of "rff" and "d2ke"; the other rules are deterministic.
    rule : {"rff", "d2ke", "fourier", "taylor", "ifgt"}
        See the notes.
    n_points : int
        For "rff" and "d2ke": the bound holds for all pairs of this number of points (objects).
    n_dims, diameter : int, float
        The bound holds for all points of a ball of this diameter in ``n_dims`` dimensions; for "d2ke", of a metric
        space of this diameter that (2 diameter / r)^n_dims balls of radius r cover.
    sigma : float
        Standard deviation of the Gaussian kernel exp(-r^2 / (2 sigma^2)).
    gamma : float
        Parameter of the kernel exp(-gamma d(x, omega)) of "d2ke".

    Returns
    -------
    int
        Number of features: of sines and cosines (even) for "rff", random objects R for "d2ke", ``n_components`` for
        "fourier", and terms for "taylor" and "ifgt".

    Raises
    ------
    ValueError
        For an unknown rule, unsupported or missing parameters of a rule, "fourier" in more than three dimensions, a
        grid of more than 131,072 features, a series of an order above 10,000, and a diameter of more than 1e100 sigma.

    Notes
    -----
    "rff": number of independent frequencies. It is 2 ln(n (n - 1) / delta) / eps^2 for n points, and of the order of
    (d / eps^2) ln(diameter / (sigma eps delta)) for a ball, as in Rahimi, Recht 2007, with the constants of the proof
    in `dkdist.theory.feature_bounds`. Orthogonal and Sobol frequencies need fewer, but have no such bound.

    "d2ke": number of random objects. It is ln(n (n + 1) / delta) / (2 eps^2) for n objects, and of the order of
    (p / eps^2) ln(gamma diameter / eps) for a metric space of covering dimension p (Wu et al. 2018; the constants are
    proved in `dkdist.theory.feature_bounds`).

    "fourier": the grid of `MeanEmbedding` and `kernel_distance`, d <= 3; its error bound holds with certainty.

    "taylor": monomials of degree below the smallest order whose remainder, the tail of a Poisson distribution with mean
    (diameter / (2 sigma))^2, is below eps. "ifgt": the larger order by condition P3,
    tau ln(tau / (2 e Delta^2)) >= ln(1 / eps), for the inner product in the exponent; Delta is the radius divided by
    2^(1/2) sigma.

    Joshi, Kommaraju, Phillips, Venkatasubramanian (2011), section 3; Wu, Yen, Xu, Ravikumar, Witbrock (2018).

    Examples
    --------
    >>> import dkdist as dk
    >>> dk.n_features_for(0.05, rule="rff", n_points=1000)
    26898
    >>> dk.n_features_for(0.05, rule="fourier", n_dims=2, diameter=1.0, sigma=0.2)
    37
    >>> dk.n_features_for(0.05, rule="taylor", n_dims=10, diameter=1.0, sigma=1.0)
    11
    """
    eps, delta = check_positive("eps", eps), check_positive("delta", delta)
    if not (MIN_NUMBER <= eps < 1 and MIN_NUMBER <= delta < 1):
        raise ValueError(f"eps and delta must be below 1 and at least {MIN_NUMBER:g}; got {eps} and {delta}.")
    check_choice("rule", rule, tuple(PARAMETER_SETS_BY_RULE))
    values = {
        "n_points": n_points, "n_dims": n_dims, "diameter": diameter, "sigma": sigma, "gamma": gamma,
    }  # fmt: skip
    params = _check_parameters(rule, values)
    if "n_points" in params and rule == "rff":
        return 2 * bounds.frequencies_for_points(eps, delta, params["n_points"])
    if "n_points" in params:
        return bounds.objects_for_points(eps, delta, params["n_points"])
    d, reach = params["n_dims"], _diameter_in_bandwidths(**params)
    if rule == "d2ke":
        return bounds.objects_for_space(eps, delta, d, reach)
    if rule == "rff":
        return 2 * bounds.frequencies_for_ball(eps, delta, d, reach)
    return _DETERMINISTIC_RULES[rule](eps, d, reach)


def _check_parameters(rule: str, values: dict[str, Any]) -> dict[str, Any]:
    passed = {name: value for name, value in values.items() if value is not None}
    if tuple(passed) not in PARAMETER_SETS_BY_RULE[rule]:
        forms = " or ".join(", ".join(form) for form in PARAMETER_SETS_BY_RULE[rule])
        raise ValueError(f"rule={rule!r} requires {forms}; got {', '.join(passed) or 'no parameters'}.")
    # these numbers only enter formulas, so memory does not limit them
    count = partial(check_int, maximum=np.inf)
    checks: dict[str, Callable[[str, Any], float]] = {"n_points": count, "n_dims": count}
    checked = {name: checks.get(name, check_positive)(name, value) for name, value in passed.items()}
    for name in checks.keys() & checked.keys():
        if checked[name] > MAX_NUMBER:
            raise ValueError(f"{name} must be at most {MAX_NUMBER:g}; got more.")
    return checked


def _diameter_in_bandwidths(n_dims: int, diameter: float, sigma: float = 1.0, gamma: float = 1.0) -> float:
    with np.errstate(over="ignore"):
        reach = float(np.float64(diameter) * gamma / sigma)
    if not reach <= MAX_NUMBER:
        raise ValueError(
            f"diameter must be at most {MAX_NUMBER:g} bandwidths (sigma, 1 / gamma); got {diameter:.3g}. Check "
            "the units."
        )
    return reach


def _grid(eps: float, d: int, reach: float) -> int:
    if d > MAX_GRID_DIMS:
        raise ValueError(
            f"n_dims must be at most {MAX_GRID_DIMS} for rule='fourier'; got {d}. Use 'rff' or 'taylor'."
        )
    grid = fourier_grid(np.full(d, reach), 1.0, eps, MAX_GRID_FEATURES)
    if grid.error > eps:
        raise ValueError(
            f"rule='fourier' needs more than {MAX_GRID_FEATURES} features for a diameter of {reach:.3g} sigma. Use "
            "'rff', or a larger eps or sigma."
        )
    return grid.n_features


def _taylor(eps: float, d: int, reach: float) -> int:
    order, error = taylor_order(reach / 2, eps)
    return _series("taylor", d, order if error <= eps else MAX_ORDER + 1, reach)


def _ifgt(eps: float, d: int, reach: float) -> int:
    radius = max(reach, MIN_NUMBER) / 2
    order = bounds.series_order(eps, radius) if math.e * radius**2 <= MAX_ORDER else MAX_ORDER + 1
    return _series("ifgt", d, order, reach)


def _series(rule: str, d: int, order: int, reach: float) -> int:
    if order > MAX_ORDER:
        raise ValueError(
            f"rule={rule!r} needs an order above {MAX_ORDER} for a diameter of {reach:.3g} sigma. Use 'rff' or a "
            "larger sigma."
        )
    return n_terms(d, order)


_DETERMINISTIC_RULES: dict[str, Callable[[float, int, float], int]] = {
    "fourier": _grid,
    "taylor": _taylor,
    "ifgt": _ifgt,
}
