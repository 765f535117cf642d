"""Kernel records, the registry of kernels, random frequencies, and Gaussian mixtures with a certified error.

    kernel              k(r), r = |x - y| / sigma                    frequencies w of E cos(w . (x - y) / sigma)
    gaussian            exp(-r^2 / 2)                                g, standard normal
    matern, nu          polynomial in t times exp(-t),               g (2 nu / c)^(1/2), c chi-square with 2 nu
                        t = (2 nu)^(1/2) r                           degrees of freedom: a Student t vector
    laplace             exp(-r), r the city-block distance           Cauchy numbers, tan(pi (Phi(g_j) - 1/2))
    rational-quadratic  1 / (1 + r^2 / 2)                            g e^(1/2), e exponential
    energy              -r, conditionally positive definite          none
    epanechnikov        max(0, 1 - r^2), not positive definite       none
    triangle            max(0, 1 - r), positive definite if d = 1    density (1 - cos w) / (pi w^2)
    ball                1 if r <= 1, else 0, not positive definite   none

The factors c and e of F frequencies are stratified: one random quantile in each of F equal parts of (0, 1).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from math import gamma
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtri
from scipy.stats import qmc

from dkdist._base.parameter_checks import check_choice, check_int, is_literal
from dkdist._numba.arrays import F64
from dkdist._utils.validation import check_bool
from dkdist.kernels import _profiles_numba as forms

SOBOL_BITS = 30  # default of scipy.stats.qmc.Sobol, https://docs.scipy.org/doc/scipy/reference/stats.qmc.html
# Up to this dimension, Sobol frequencies have the smallest error, 10 times less at d = 2 (test_kernel_frequencies.py).
MAX_SOBOL_DIMS = 16


def sobol_normals(rng: np.random.Generator, count: int, d: int) -> F64:
    """Draw (count, d) standard normal vectors from Sobol points with a random digital shift.

    The shift (one random word per dimension, added without carry) keeps the points evenly spread and makes each point
    uniform, so means over them are unbiased, with a smaller variance than over independent points.
    """
    log2 = int(np.ceil(np.log2(count)))
    points = qmc.Sobol(d, scramble=False, bits=SOBOL_BITS).random_base2(log2)[:count]
    words = (points * 2**SOBOL_BITS).astype(np.int64) ^ rng.integers(2**SOBOL_BITS, size=d)
    return np.asarray(ndtri((words + 0.5) / 2**SOBOL_BITS))


def orthogonal_frequencies(gaussian: F64, norms: F64) -> F64:
    """Return (F, m) frequencies for sigma = 1 whose directions are orthogonal within each m rows.

    ``gaussian`` holds ceil(F / m) standard normal m x m matrices. ``norms`` (F,) are row lengths, chi-distributed with
    m degrees of freedom, so each single row is exactly standard normal.
    """
    blocks = []
    for matrix in gaussian:
        Q, R = np.linalg.qr(matrix)
        # the signs make Q uniformly distributed on the orthogonal group
        blocks.append((Q * np.sign(np.diag(R))).T)
    return np.concatenate(blocks)[: len(norms)] * norms[:, None]


def _iid(rng: np.random.Generator, count: int, d: int) -> F64:
    return rng.standard_normal((count, d))


def _orthogonal(rng: np.random.Generator, count: int, d: int) -> F64:
    gaussian = rng.standard_normal((-(-count // d), d, d))
    return orthogonal_frequencies(gaussian, np.sqrt(rng.chisquare(d, count)))


NORMAL_SAMPLERS: dict[str, Callable[[np.random.Generator, int, int], F64]] = {
    "orthogonal": _orthogonal,
    "sobol": sobol_normals,
    "iid": _iid,
}
"""Functions (rng, count, d) that draw standard normal frequencies (count, d), by method."""


def most_accurate_sampler(d: int) -> str:
    """Return the method whose frequencies in d dimensions have the smallest error."""
    return "sobol" if d <= MAX_SOBOL_DIMS else "orthogonal"


TRIAL_STEPS = np.geomspace(1.5, 0.15, 60)
# maximum |t| of nodes e^t; nodes beyond have weights below every certified error (test_gaussian_mixtures.py)
MAX_ABS_NODE = 80.0
MIN_CERTIFIED_ERROR = 1e-10  # smaller errors need too many Gaussians (tests/kernel/test_gaussian_mixtures.py)
ROUNDING_RATIO = 1e-15  # rounding error / sum of absolute terms (tests/kernel/test_gaussian_mixtures.py)
STRIP_HALF_WIDTHS = np.linspace(0.05, 1.565, 200)  # trial values of y < pi / 2 for the aliasing bound


class GaussianMixture(NamedTuple):
    """Kernel c + q r^2 + sum_i w_i exp(-r^2 / (2 s_i^2)), with widths s_i and weights w_i (n,), and its error bound.

    Examples
    --------
    >>> import dkdist as dk, numpy as np
    >>> two = dk.GaussianMixture(np.array([1.0, 3.0]), np.array([0.5, 0.5]))
    >>> two.constant, two.quadratic, two.error
    (0.0, 0.0, 0.0)
    """

    sigmas: F64
    weights: F64
    constant: float = 0.0
    quadratic: float = 0.0
    error: float = 0.0


class MixingMeasure(NamedTuple):
    """Density m(t) of a mixture, power p of its aliasing bound (None: kernel -r), and whether 1 is subtracted."""

    density: Callable[[F64], F64]
    power: float | None
    subtracts_one: bool = False


def matern_measure(nu: float) -> MixingMeasure:
    """Return the mixing measure of the Matern kernel of smoothness nu."""
    return MixingMeasure(lambda t: (nu / 2 * np.exp(-t)) ** nu * np.exp(-nu / 2 * np.exp(-t)) / gamma(nu), nu)


DISTANCE_MEASURE = MixingMeasure(lambda t: np.exp(-t / 2) / (2 * np.sqrt(np.pi)), None, subtracts_one=True)


def fit_gaussian_mixture(measure: MixingMeasure, R: float, error: float) -> GaussianMixture | None:
    """Return a mixture of few Gaussians within ``error`` of the kernel for r <= R, or None.

        k(r) = int exp(-r^2 e^t) m(t) dt ~ c + q r^2 + sum_i w_i exp(-r^2 / (2 s_i^2)),   r in units of sigma

    is the trapezoidal rule with step h (Schoenberg 1938: kernels positive definite in all dimensions are mixtures).
    Three errors are bounded without estimates:

    - *Aliasing*: m(t) exp(-r^2 e^t) is analytic for |Im t| < pi/2, so the rule is off by at most
      2 sum_j e^(-2 pi y j / h) cos(y)^(-p) for every y < pi/2 and all r (p = nu for Matern, 1 for the rational
      quadratic kernel). For r itself the error is r times a sum of |Gamma(-1/2 + 2 pi i j / h)|.
    - *Narrow Gaussians* are dropped: at most the sum of their weights.
    - *Wide Gaussians* are replaced by a linear function of r^2: exp(-a) is 1 - a with an error of at most a^2 / 2.

        matern, nu          m = (nu e^-t / 2)^nu exp(-nu e^-t / 2) / Gamma(nu)
        rational-quadratic  m = 2 e^t exp(-2 e^t)
        energy              -r = int (exp(-r^2 e^t) - 1) e^(-t/2) dt / (2 pi^(1/2))

    Rougher kernels need more narrow Gaussians: an error of 1e-5 needs 12 for Matern 5/2, 16 for 3/2, 41 for 1/2.
    """
    steps = [h for h in TRIAL_STEPS if _aliasing_error(measure, h, R) <= error / 4]
    if not steps or error < MIN_CERTIFIED_ERROR:
        return None
    h = steps[0]
    t = h * np.arange(-int(MAX_ABS_NODE / h), int(MAX_ABS_NODE / h) + 1)
    weights, a = h * measure.density(t), R**2 * np.exp(t)
    is_flat = a <= 1  # nearly linear in r^2 for r <= R
    dropped_error = weights * np.where(is_flat, a**2 / 2, 1.0)
    is_narrow = np.cumsum(weights[::-1])[::-1] <= error / 4
    is_wide = (np.cumsum(dropped_error) <= error / 4) & ~is_narrow
    is_kept, is_line = ~is_narrow & ~is_wide, is_wide & is_flat
    line_weight = float(weights[is_line].sum())
    constant = -float(weights[is_kept].sum()) if measure.subtracts_one else line_weight
    quadratic = -float((weights[is_line] * np.exp(t[is_line])).sum())
    certified_error = _aliasing_error(measure, h, R) + float(
        weights[is_narrow].sum() + dropped_error[is_wide].sum()
    )
    certified_error += ROUNDING_RATIO * float(weights[is_kept].sum() + abs(constant) + R**2 * abs(quadratic))
    if not certified_error <= error:
        return None
    return GaussianMixture(
        np.sqrt(0.5) * np.exp(-t[is_kept] / 2), weights[is_kept], constant, quadratic, certified_error
    )


def _aliasing_error(measure: MixingMeasure, h: float, R: float) -> float:
    """Bound the aliasing error of the trapezoidal rule with step h, for r <= R."""
    j = np.arange(1, 6)
    if measure.power is None:
        w = 2 * np.pi * j / h
        sizes = np.sqrt(np.pi / (np.cosh(np.minimum(np.pi * w, 700)) * (0.25 + w**2)))
        return float(R / np.sqrt(np.pi) * sizes.sum()) * 1.01
    bounds = 2 / np.expm1(2 * np.pi * STRIP_HALF_WIDTHS / h) * np.cos(STRIP_HALF_WIDTHS) ** -measure.power
    return float(bounds.min())


# Frequencies are clipped to this value, above which float32 phases have no correct digits; k changes by less than 7e-5
# (tests/kernel/test_kernel_frequencies.py).
MAX_FREQUENCY = 1e4
N_BISECTIONS = 60  # halve the interval up to MAX_FREQUENCY to the rounding error of float64 (IEEE 754-2019)
_LN2 = float(np.log(2))  # compiled profiles are powers of two, see _profiles_numba.py

Values = Callable[[F64], Any]
Frequencies = Callable[[np.random.Generator, F64], Any]
Mixture = Callable[[float, float], GaussianMixture | None]


@dataclass(frozen=True)
class Kernel:
    """A kernel k(r) of the distance r = |x - y| / sigma, for `register_kernel`.

    Parameters
    ----------
    name : str
        Name that functions and estimators accept as ``kernel``.
    value : callable
        k of an array of distances r >= 0, with the same shape: a NumPy function, or a Numba function for arrays.
    dvalue : callable or None, default=None
        Derivative dk/dr. `kernel_distance` needs it for ``gradient=True``.
    sample_frequencies : callable or None, default=None
        ``sample_frequencies(rng, normals)`` returns frequencies (F, d) of the kernel with sigma = 1 from standard
        normal ones (F, d). Unless ``metric`` is "cityblock", each row must be the normal row times a factor. Required
        by `RandomFourierFeatures`, `MeanEmbedding` and coresets.
    gaussian_mixture : callable or None, default=None
        ``gaussian_mixture(R, error)`` returns a `GaussianMixture` that differs from k by at most ``error`` for r <= R,
        or None. `kernel_distance` then takes near-linear time in up to three dimensions.
    positive_definite : bool or "equal totals", default=True
        Whether D^2 >= 0: always (True), not always (False), or if weights of P and Q have equal sums.
    metric : {"euclidean", "cityblock"}, default="euclidean"
        Distance r.
    max_frequency_dims : int or None, default=None
        Largest dimension of ``sample_frequencies``, for kernels that are positive definite only up to it; None: any.
    profile, unit
        Form of the kernel in compiled code, for kernels of the package.

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
    max_frequency_dims: int | None = None
    profile: forms.Profile | None = None
    unit: float = 1.0

    @property
    def line(self) -> tuple[float, tuple[float, float, float]] | None:
        """(decay, polynomial) for `_sorted_numba.line_sums`; None for kernels that cannot be summed by sorting."""
        p = self.profile
        if p is not None and p.form == forms.MATERN:
            return _LN2, (1.0, _LN2 * p.first, _LN2**2 * p.second)
        if p is not None and p.form == forms.DISTANCE:
            return 0.0, (0.0, -1.0, 0.0)
        return (_LN2, (1.0, 0.0, 0.0)) if p is not None and p.city_block else None

    def is_sorted(self, d: int) -> bool:
        """Return whether sums in d dimensions take n log n time by sorting."""
        return (d == 1 and self.line is not None) or (
            d == 2 and self.profile is not None and self.profile.city_block
        )

    def frequencies(self, rng: np.random.Generator, normals: F64) -> F64:
        """Return frequencies (F, d) for sigma = 1 from standard normal ones (F, d); (F, 1): lengths from lengths."""
        if self.sample_frequencies is None:
            raise ValueError(
                f"kernel must be one of {', '.join(map(repr, names_with('sample_frequencies')))}; got {self.name!r}, "
                "which has no random frequencies."
            )
        w = np.asarray(self.sample_frequencies(rng, normals), np.float64)
        if self.metric == "cityblock":
            return np.clip(w, -MAX_FREQUENCY, MAX_FREQUENCY)
        length = np.sqrt((w**2).sum(axis=1, keepdims=True))
        return np.asarray(w * np.minimum(1, MAX_FREQUENCY / np.maximum(length, 1.0)))


KERNELS: dict[str, Kernel] = {}


def register_kernel(kernel: Kernel) -> None:
    """Register a kernel by name for all functions and estimators that take ``kernel``.

    Parameters
    ----------
    kernel : Kernel
        Record with a new name, or the same record that was registered before.

    Raises
    ------
    ValueError
        If the name is already registered, if ``value`` or ``dvalue`` does not return finite numbers of the shape of its
        argument, or if the frequencies have another shape.

    Notes
    -----
    Every worker process must register the kernel: put the call in a module that workers import.

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
        raise ValueError(f"kernel must be a Kernel with a name and a callable value; got {kernel!r:.200}.")
    if KERNELS.get(kernel.name, kernel) != kernel:
        raise ValueError(
            f"name must be new; got {kernel.name!r}, which is already registered. Choose another name."
        )
    if kernel.metric not in ("euclidean", "cityblock"):
        raise ValueError(f"metric must be 'euclidean' or 'cityblock'; got {kernel.metric!r}.")
    if not is_literal(kernel.positive_definite, "equal totals"):
        check_bool("positive_definite", kernel.positive_definite)
    max_dims = kernel.max_frequency_dims
    if max_dims is not None:
        check_int("max_frequency_dims", max_dims)
    r = np.array([[0.0, 0.5], [1.0, 3.0]])
    for field in ("value", "dvalue"):
        function = getattr(kernel, field)
        if function is not None and not (np.shape(k := function(r)) == r.shape and np.isfinite(k).all()):
            raise ValueError(
                f"{field} of kernel {kernel.name!r} must return finite numbers, one per distance."
            )
    if kernel.sample_frequencies is not None and kernel.profile is None:
        expected = 4, min(2, max_dims or 2)
        shape = np.shape(kernel.frequencies(np.random.default_rng(0), np.ones(expected)))
        if shape != expected:
            raise ValueError(
                f"sample_frequencies of kernel {kernel.name!r} must keep the shape (F, d); got {shape} for {expected}."
            )
    KERNELS[kernel.name] = kernel


def get_kernel(name: str) -> Kernel:
    """Return the record of a kernel."""
    if name not in KERNELS:
        raise ValueError(
            f"kernel must be one of {', '.join(map(repr, KERNELS))}; got {name!r}. Register other kernels with "
            "register_kernel in every process."
        )
    return KERNELS[name]


def names_with(field: str) -> tuple[str, ...]:
    """Return the names of the kernels with a value in the field ``field``."""
    return tuple(name for name, kernel in KERNELS.items() if getattr(kernel, field) is not None)


def _stratified_uniforms(rng: np.random.Generator, count: int) -> F64:
    return np.asarray((rng.permutation(count) + 1 - rng.random(count)) / count)


def _cauchy_frequencies(rng: np.random.Generator, g: F64) -> F64:
    # Imported lazily: only random features need it.
    from scipy.special import ndtr

    return np.asarray(np.sign(g) / np.tan(np.pi * np.maximum(ndtr(-np.abs(g)), 1e-30)))


def _student_frequencies(nu: float, rng: np.random.Generator, g: F64) -> F64:
    from scipy.special import gammaincinv

    chi2 = 2 * gammaincinv(nu, _stratified_uniforms(rng, len(g)))
    return np.asarray(g * np.sqrt(2 * nu / np.maximum(chi2, 1e-30))[:, None])


def _triangle_frequencies(rng: np.random.Generator, g: F64) -> F64:
    """Return w with the density (1 - cos w) / (pi w^2), the square of a sinc, by bisection of its distribution."""
    from scipy.special import ndtr, sici

    target = np.pi * ndtr(-np.abs(g))  # pi P(W > w) = pi / 2 - Si(w) + (1 - cos w) / w
    low, high = np.zeros(g.shape), np.full(g.shape, MAX_FREQUENCY)
    for _ in range(N_BISECTIONS):
        w = (low + high) / 2
        is_below = np.pi / 2 - sici(w)[0] + (1 - np.cos(w)) / w > target
        low, high = np.where(is_below, w, low), np.where(is_below, high, w)
    return np.asarray(np.copysign((low + high) / 2, g))


def _matern(name: str, nu: float, first: int = 0, second: Fraction = Fraction(0)) -> Kernel:
    """Return the kernel k = (1 + first t + second t^2) exp(-t), t = (2 nu)^(1/2) r."""
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
        sample_frequencies=partial(_student_frequencies, nu),
        gaussian_mixture=partial(fit_gaussian_mixture, matern_measure(nu)),
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
        sample_frequencies=_cauchy_frequencies,
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
        sample_frequencies=lambda rng, g: g * np.sqrt(-np.log(_stratified_uniforms(rng, len(g))))[:, None],
        gaussian_mixture=partial(
            fit_gaussian_mixture, MixingMeasure(lambda t: 2 * np.exp(t) * np.exp(-2 * np.exp(t)), 1.0)
        ),
        profile=forms.Profile(forms.RATIONAL),
        unit=0.5**0.5,
    ),
    Kernel(
        "energy",
        np.negative,
        lambda r: np.full(np.shape(r), -1.0),
        gaussian_mixture=partial(fit_gaussian_mixture, DISTANCE_MEASURE),
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
    Kernel(
        "triangle",
        lambda r: np.maximum(0, 1 - r),
        lambda r: np.where((r > 0) & (r < 1), -1.0, 0.0),
        sample_frequencies=_triangle_frequencies,
        positive_definite=False,
        max_frequency_dims=1,
        profile=forms.Profile(forms.TRIANGLE),
    ),
    Kernel(
        "ball",
        lambda r: np.where(r**2 <= forms.BALL_SQUARE, 1.0, 0.0),
        positive_definite=False,
        profile=forms.Profile(forms.BALL),
    ),
    replace(_matern("laplacian", 0.5), sample_frequencies=None),  # deprecated alias of "matern12"
):
    register_kernel(_kernel)


# Alternatives to kernels that some functions do not support.
_ALTERNATIVES = {
    "energy": "which has no random frequencies. Use 'matern12' with sigma = 3 times the width of the points: its D^2 "
    "times sigma is that of 'energy' within 1 %.",
    "epanechnikov": "which is not positive definite and has no random frequencies. Use 'gaussian' or 'matern52'.",
    "ball": "which is piecewise constant, not positive definite and has no random frequencies. Use 'matern12', or "
    "'triangle' on a line.",
    "linear": "which only kernel_distance supports. Its features are the coordinates, and D is the distance of the "
    "means: use FunctionEmbedding(lambda points: points.mean(axis=0)).",
    "identity": "which only kernel_distance supports. Use 'laplace' with a sigma far below the distance of different "
    "points.",
}


def check_kernel(kernel: Any, field: str | None = None) -> str:
    """Return the name of a kernel that has the field ``field``; errors state the reason and an alternative."""
    names = tuple(KERNELS) if field is None else names_with(field)
    if isinstance(kernel, str) and kernel not in names and kernel in _ALTERNATIVES:
        raise ValueError(
            f"kernel must be one of {', '.join(map(repr, names))}; got {kernel!r}, {_ALTERNATIVES[kernel]}"
        )
    return str(check_choice("kernel", kernel, names))


def require_frequencies(kernel: str, n_dims: int) -> None:
    """Raise ValueError if a kernel has no random frequencies in ``n_dims`` dimensions."""
    max_dims = get_kernel(kernel).max_frequency_dims
    if max_dims is not None and n_dims > max_dims:
        raise ValueError(
            f"kernel={kernel!r} requires points of {max_dims} dimension; got {n_dims}, where it is not positive "
            "definite and has no random frequencies. Use 'matern12'."
        )
