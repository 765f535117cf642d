"""`n_features_for`: how many features an approximate kernel needs, by every rule there is a bound for."""

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

FARTHEST, LEAST = 1e100, 1e-100  # numbers whose squares are numbers
MOST_FEATURES = 2**17  # of a grid: more are not searched for
FORMS = {
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
    """The number of features for which every kernel value is within eps, but for probability delta.

    Parameters
    ----------
    eps : float
        Error allowed of k(x, y), whose largest value is 1; weights that sum to one make it that of every mean kernel,
        and D^2 is then off by at most 4 eps.
    delta : float, default=0.05
        Probability of failure, of "rff" and "d2ke"; the other rules hold always, and do not depend on it.
    rule : {"rff", "d2ke", "fourier", "taylor", "ifgt"}
        See the notes.
    n_points : int
        For "rff" and "d2ke": the bound is for all pairs of so many given points (objects).
    n_dims, diameter : int, float
        The bound is for all points of a ball of this diameter in d dimensions. For "d2ke": of a metric space of this
        diameter that (2 diameter / r)^n_dims balls of radius r cover.
    sigma : float
        Standard deviation of the Gaussian kernel exp(-r^2 / (2 sigma^2)).
    gamma : float
        Of the kernel exp(-gamma d(x, omega)) of "d2ke".

    Returns
    -------
    int
        Features: an even number, sines and cosines, for "rff"; random objects R for "d2ke"; n_components for "fourier";
        terms for "taylor" and "ifgt".

    Raises
    ------
    ValueError
        For an unknown rule, numbers that a rule does not take or lacks, "fourier" in more than three dimensions, a
        grid of more than 131,072 features, a series of an order above 10,000, and a diameter of more than 1e100 sigma.

    Notes
    -----
    "rff": independent frequencies. For n points 2 ln(n (n - 1) / delta) / eps^2 of them; for a ball, by a net, of the
    order of (d / eps^2) ln(diameter / (sigma eps delta)), with the constants of the proof in
    `dkdist.theory.feature_bounds` (Rahimi, Recht 2007 have this order). Orthogonal and Sobol frequencies need fewer,
    without such a bound.

    "d2ke": random objects. ln(n (n + 1) / delta) / (2 eps^2) for n objects; for a metric space the order is
    (p / eps^2) ln(gamma diameter / eps), p its covering dimension (Wu et al. 2018, with constants of our own).

    "fourier": the grid of `MeanEmbedding` and `kernel_distance`, d <= 3, with its certified error: no probability.

    "taylor": monomials of degree below the least order whose remainder, the tail of a Poisson distribution with mean
    (diameter / (2 sigma))^2, is below eps. "ifgt": the order by P3's condition tau ln(tau / (2 e Delta^2)) >=
    ln(1 / eps), with the inner product in the exponent and Delta the radius over 2^(1/2) sigma; it is larger.

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
    if not (LEAST <= eps < 1 and LEAST <= delta < 1):
        raise ValueError(
            f"eps and delta must be below 1, and no less than {LEAST:g}; found {eps} and {delta}"
        )
    check_choice("rule", rule, tuple(FORMS))
    values = {
        "n_points": n_points, "n_dims": n_dims, "diameter": diameter, "sigma": sigma, "gamma": gamma,
    }  # fmt: skip
    given = _checked(rule, values)
    if "n_points" in given and rule == "rff":
        return 2 * bounds.frequencies_for_points(eps, delta, given["n_points"])
    if "n_points" in given:
        return bounds.objects_for_points(eps, delta, given["n_points"])
    d, reach = given["n_dims"], _reach(**given)
    if rule == "d2ke":
        return bounds.objects_for_space(eps, delta, d, reach)
    if rule == "rff":
        return 2 * bounds.frequencies_for_ball(eps, delta, d, reach)
    return _CERTAIN[rule](eps, d, reach)


def _checked(rule: str, values: dict[str, Any]) -> dict[str, Any]:
    given = {name: value for name, value in values.items() if value is not None}
    if tuple(given) not in FORMS[rule]:
        forms = " or ".join(", ".join(form) for form in FORMS[rule])
        raise ValueError(f"rule={rule!r} takes {forms}; found {', '.join(given) or 'none of them'}")
    count = partial(check_int, maximum=np.inf)  # numbers of a formula, not of anything that is stored
    checks: dict[str, Callable[[str, Any], float]] = {"n_points": count, "n_dims": count}
    found = {name: checks.get(name, check_positive)(name, value) for name, value in given.items()}
    for name in checks.keys() & found.keys():
        if found[name] > FARTHEST:
            raise ValueError(f"{name} must be at most {FARTHEST:g}; found more")
    return found


def _reach(n_dims: int, diameter: float, sigma: float = 1.0, gamma: float = 1.0) -> float:
    """The diameter in bandwidths."""
    with np.errstate(over="ignore"):
        reach = float(np.float64(diameter) * gamma / sigma)
    if not reach <= FARTHEST:
        raise ValueError(
            f"a diameter of {diameter:.3g} is more than {FARTHEST:g} bandwidths (sigma, 1 / gamma): check the units"
        )
    return reach


def _grid(eps: float, d: int, reach: float) -> int:
    if d > MAX_GRID_DIMS:
        raise ValueError(
            f"rule='fourier' is for up to {MAX_GRID_DIMS} dimensions; found {d}: use 'rff' or 'taylor'"
        )
    grid = fourier_grid(np.full(d, reach), 1.0, eps, MOST_FEATURES)
    if grid.error > eps:
        raise ValueError(
            f"rule='fourier' would need more than {MOST_FEATURES} features for a diameter of {reach:.3g} sigma: use "
            "'rff', or a larger eps or sigma"
        )
    return grid.n_features


def _taylor(eps: float, d: int, reach: float) -> int:
    order, error = taylor_order(reach / 2, eps)
    return _series("taylor", d, order if error <= eps else MAX_ORDER + 1, reach)


def _ifgt(eps: float, d: int, reach: float) -> int:
    radius = max(reach, LEAST) / 2
    order = bounds.series_order(eps, radius) if math.e * radius**2 <= MAX_ORDER else MAX_ORDER + 1
    return _series("ifgt", d, order, reach)


def _series(rule: str, d: int, order: int, reach: float) -> int:
    if order > MAX_ORDER:
        raise ValueError(
            f"rule={rule!r} would need an order above {MAX_ORDER} for a diameter of {reach:.3g} sigma: use 'rff', or "
            "a larger sigma"
        )
    return n_terms(d, order)


_CERTAIN: dict[str, Callable[[float, int, float], int]] = {"fourier": _grid, "taylor": _taylor, "ifgt": _ifgt}
