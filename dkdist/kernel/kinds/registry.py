"""Kernels: one record each, and the registry by which everything else finds them.

A record holds the value of a kernel in NumPy and whatever makes sums fast: a form in compiled code
(`dkdist.kernel.sums.profiles_loops`), random frequencies, a mixture of Gaussian kernels.

    kernel              k(r), r = |x - y| / sigma                    frequencies w of E cos(w . (x - y) / sigma)
    gaussian            exp(-r^2 / 2)                                g, standard normal
    matern, nu          polynomial in t times exp(-t),               g (2 nu / c)^(1/2), c chi-square with 2 nu
                        t = (2 nu)^(1/2) r                           degrees of freedom: a Student t vector
    laplace             exp(-r), r by city blocks                    Cauchy numbers, tan(pi (Phi(g_j) - 1/2))
    rational-quadratic  1 / (1 + r^2 / 2)                            g e^(1/2), e exponential
    energy              -r, conditionally positive definite
    epanechnikov        max(0, 1 - r^2), not positive definite

The factors c and e of F frequencies are quantiles of F numbers, one at random in each F-th of (0, 1): stratified.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from dkdist.base.parameter_checks import is_word
from dkdist.kernel.kinds.gaussian_mixtures import (
    DISTANCE_MEASURE,
    GaussianMixture,
    Measure,
    matern_measure,
    mixture,
)
from dkdist.kernel.sums import profiles_loops as forms
from dkdist.loops.array_types import F64
from dkdist.plain.validation import as_flag

MAX_FREQUENCY = 1e4  # longer ones are shortened: float32 has no more digits, and k changes by less than 7e-5
_LN2 = float(np.log(2))

Values = Callable[[F64], Any]
Frequencies = Callable[[np.random.Generator, F64], Any]
Mixture = Callable[[float, float], GaussianMixture | None]


@dataclass(frozen=True)
class Kernel:
    """A kernel k(r) of the distance r = |x - y| / sigma, for `register_kernel`.

    Parameters
    ----------
    name : str
        The name that functions and estimators take as ``kernel``.
    value : callable
        k at an array of distances r >= 0, of the same shape: NumPy, or a function that Numba compiled for arrays.
    dvalue : callable or None, default=None
        The derivative dk/dr. `kernel_distance` needs it for ``gradient=True``.
    sample_frequencies : callable or None, default=None
        ``sample_frequencies(rng, normals)`` returns frequencies (F, d) of the kernel with sigma = 1 from standard
        normal ones (F, d). Unless ``metric`` is "cityblock", each row must be the given one times a factor. Needed by
        `RandomFourierFeatures`, `MeanEmbedding` and coresets.
    gaussian_mixture : callable or None, default=None
        ``gaussian_mixture(R, error)`` returns a `GaussianMixture` that differs from k by at most ``error`` for r <= R,
        or None. `kernel_distance` then takes near-linear time in up to three dimensions.
    positive_definite : bool or "equal totals", default=True
        Whether D^2 >= 0: always, not always, or for weights of P and Q with equal sums.
    metric : {"euclidean", "cityblock"}, default="euclidean"
        The distance r.
    profile, unit
        The form in compiled code; kernels of the package have one.

    Examples
    --------
    >>> import dkdist as dk, numpy as np
    >>> from dkdist import Kernel, register_kernel
    >>> register_kernel(Kernel("sech", lambda r: 1 / np.cosh(r)))
    >>> x, y = np.zeros((1, 2)), np.array([[3.0, 4.0]])
    >>> round(dk.kernel_distance(x, y, sigma=5.0, kernel="sech", squared=True), 4)  # 2 - 2 / cosh(1)
    0.7039
    """

    name: str
    value: Values
    dvalue: Values | None = None
    sample_frequencies: Frequencies | None = None
    gaussian_mixture: Mixture | None = None
    positive_definite: bool | str = True
    metric: str = "euclidean"
    profile: forms.Profile | None = None
    unit: float = 1.0

    @property
    def line(self) -> tuple[float, tuple[float, float, float]] | None:
        """(decay, polynomial) of scaled distances, for sums by sorting on a line (`sorted_loops`)."""
        p = self.profile
        if p is not None and p.form == forms.MATERN:
            return _LN2, (1.0, _LN2 * p.first, _LN2**2 * p.second)
        if p is not None and p.form == forms.DISTANCE:
            return 0.0, (0.0, -1.0, 0.0)
        return (_LN2, (1.0, 0.0, 0.0)) if p is not None and p.city_block else None

    def is_sorted(self, d: int) -> bool:
        """Whether sums in d dimensions take n log n, by sorting."""
        return (d == 1 and self.line is not None) or (
            d == 2 and self.profile is not None and self.profile.city_block
        )

    def frequencies(self, rng: np.random.Generator, normals: F64) -> F64:
        """Frequencies (F, d) for sigma = 1, from standard normal ones; also their lengths (F, 1)."""
        if self.sample_frequencies is None:
            raise ValueError(f"kernel={self.name!r} has no random frequencies")
        w = np.asarray(self.sample_frequencies(rng, normals), np.float64)
        if self.metric == "cityblock":
            return np.clip(w, -MAX_FREQUENCY, MAX_FREQUENCY)
        length = np.sqrt((w**2).sum(axis=1, keepdims=True))
        return np.asarray(w * np.minimum(1, MAX_FREQUENCY / np.maximum(length, 1.0)))


KERNELS: dict[str, Kernel] = {}


def register_kernel(kernel: Kernel) -> None:
    """Make a kernel known by its name to all functions and estimators that take ``kernel``.

    Parameters
    ----------
    kernel : Kernel
        The record. Its name must be new, or that of a kernel that was registered before with the same record.

    Raises
    ------
    ValueError
        For a name in use, a ``value`` or ``dvalue`` that does not return finite numbers of the shape of its argument,
        or frequencies of another shape.

    Notes
    -----
    Worker processes know a kernel only if they register it too: put the call into a module that workers import.

    Examples
    --------
    >>> import dkdist as dk, numpy as np
    >>> cauchy = dk.Kernel(
    ...     "cauchy", lambda r: 1 / (1 + r**2),
    ...     sample_frequencies=lambda rng, g: g * np.sqrt(2 * rng.exponential(size=(len(g), 1))),
    ... )
    >>> dk.register_kernel(cauchy)
    >>> x = np.random.default_rng(0).standard_normal((2, 3)).astype("f4")
    >>> z = dk.RandomFourierFeatures(20_000, sigma=2.0, kernel="cauchy", random_state=0).fit_transform(x)
    >>> bool(abs(z[0] @ z[1] - 1 / (1 + ((x[0] - x[1]) ** 2).sum() / 4)) < 0.02)
    True
    """
    if not isinstance(kernel, Kernel) or not isinstance(kernel.name, str) or not callable(kernel.value):
        raise ValueError(f"kernel must be a Kernel with a name and a function value; got {kernel!r:.200}")
    if KERNELS.get(kernel.name, kernel) != kernel:
        raise ValueError(f"name must be new; got {kernel.name!r}, which is registered. Choose another name")
    if kernel.metric not in ("euclidean", "cityblock"):
        raise ValueError(f"metric must be 'euclidean' or 'cityblock'; got {kernel.metric!r}")
    if not is_word(kernel.positive_definite, "equal totals"):
        as_flag("positive_definite", kernel.positive_definite)
    r = np.array([[0.0, 0.5], [1.0, 3.0]])
    for field in ("value", "dvalue"):
        function = getattr(kernel, field)
        if function is not None and not (np.shape(k := function(r)) == r.shape and np.isfinite(k).all()):
            raise ValueError(
                f"{field} of kernel {kernel.name!r} must return finite numbers, one for each distance"
            )
    if kernel.sample_frequencies is not None and kernel.profile is None:
        shape = np.shape(kernel.frequencies(np.random.default_rng(0), np.ones((4, 2))))
        if shape != (4, 2):
            raise ValueError(
                f"sample_frequencies of kernel {kernel.name!r} must keep the shape (F, d); got {shape} for (4, 2)"
            )
    KERNELS[kernel.name] = kernel


def get_kernel(name: str) -> Kernel:
    """The record of a kernel."""
    if name not in KERNELS:
        raise ValueError(
            f"kernel must be one of {', '.join(map(repr, KERNELS))}; found {name!r}. Register other kernels by "
            "register_kernel, in every process"
        )
    return KERNELS[name]


def names_with(field: str) -> tuple[str, ...]:
    """Names of the kernels that have a field of the record."""
    return tuple(name for name, kernel in KERNELS.items() if getattr(kernel, field) is not None)


def _quantiles(rng: np.random.Generator, count: int) -> F64:
    return np.asarray((rng.permutation(count) + 1 - rng.random(count)) / count)


def _cauchy(rng: np.random.Generator, g: F64) -> F64:
    from scipy.special import ndtr  # loaded by features alone

    return np.asarray(np.sign(g) / np.tan(np.pi * np.maximum(ndtr(-np.abs(g)), 1e-30)))


def _student(nu: float, rng: np.random.Generator, g: F64) -> F64:
    from scipy.special import gammaincinv

    chi2 = 2 * gammaincinv(nu, _quantiles(rng, len(g)))
    return np.asarray(g * np.sqrt(2 * nu / np.maximum(chi2, 1e-30))[:, None])


def _matern(name: str, nu: float, first: int = 0, second: Fraction = Fraction(0)) -> Kernel:
    """k = (1 + first t + second t^2) exp(-t), t = (2 nu)^(1/2) r."""
    rate, a, b = (2 * nu) ** 0.5, first, float(second)

    def value(r: F64) -> F64:
        t = rate * r
        return np.asarray((1 + a * t + b * t**2) * np.exp(-t))

    def dvalue(r: F64) -> F64:
        t = rate * r
        return np.asarray(rate * (a - 1 + (2 * b - a) * t - b * t**2) * np.exp(-t))

    return Kernel(
        name,
        value,
        dvalue,
        sample_frequencies=partial(_student, nu),
        gaussian_mixture=partial(mixture, matern_measure(nu)),
        profile=forms.Profile(forms.MATERN, first=a, second=b, second_rest=float(second - Fraction(b))),
        unit=rate / _LN2,
    )


for _kernel in (
    Kernel(
        "gaussian",
        lambda r: np.exp(-(r**2) / 2),
        lambda r: -r * np.exp(-(r**2) / 2),
        sample_frequencies=lambda rng, g: g,
        profile=forms.GAUSSIAN,
        unit=forms.GAUSSIAN_UNIT,
    ),
    Kernel(
        "laplace",
        lambda r: np.exp(-r),
        lambda r: -np.exp(-r),
        sample_frequencies=_cauchy,
        metric="cityblock",
        profile=forms.Profile(forms.EXP2, city_block=True),
        unit=1 / _LN2,
    ),
    _matern("matern12", 0.5),
    _matern("matern32", 1.5, 1),
    _matern("matern52", 2.5, 1, Fraction(1, 3)),
    Kernel(
        "rational-quadratic",
        lambda r: 1 / (1 + r**2 / 2),
        lambda r: -r / (1 + r**2 / 2) ** 2,
        sample_frequencies=lambda rng, g: g * np.sqrt(-np.log(_quantiles(rng, len(g))))[:, None],
        gaussian_mixture=partial(mixture, Measure(lambda t: 2 * np.exp(t) * np.exp(-2 * np.exp(t)), 1.0)),
        profile=forms.Profile(forms.RATIONAL),
        unit=0.5**0.5,
    ),
    Kernel(
        "energy",
        np.negative,
        lambda r: np.full(np.shape(r), -1.0),
        gaussian_mixture=partial(mixture, DISTANCE_MEASURE),
        positive_definite="equal totals",
        profile=forms.Profile(forms.DISTANCE),
    ),
    Kernel(
        "epanechnikov",
        lambda r: np.maximum(0, 1 - r**2),
        lambda r: np.where(r < 1, -2 * r, 0.0),
        positive_definite=False,
        profile=forms.Profile(forms.COMPACT),
    ),
    replace(_matern("laplacian", 0.5), sample_frequencies=None),  # an older name of "matern12"
):
    register_kernel(_kernel)
