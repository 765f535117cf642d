"""Homogeneous divergences and their spectral measures.

A divergence d^2(p, q) = int kappa(p(x), q(x)) dx whose kappa is homogeneous of degree one,
kappa(c x, c y) = c kappa(x, y), is a squared Hilbert distance exactly when

    kappa(x, y) = int_0^inf |x^(1/2 + i l) - y^(1/2 + i l)|^2 dmu(l),        Z = mu([0, inf)) = kappa(1, 0),

for a non-negative measure mu. A `Divergence` holds kappa and its mu. Two rows of the table in P1 have
misprints (Jensen-Shannon: 1 + 4 l^2; total variation: 4/pi); the forms below agree with quadrature.

P1: Sutherland, Oliva, Poczos, Schneider, Linear-time learning on distributions with approximate kernel
embeddings (2016).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from types import MappingProxyType
from typing import Any

import numpy as np

from dkdist._numba.arrays import F64
from dkdist._utils.validation import check_bool
from dkdist.embeddings.kappa import Kappa, TabulatedMeasure, derive_measure

# The density of Jensen-Shannon is proportional to exp(-pi l), which is below float64 precision for l > 12
# (tests/densities/test_divergences.py).
_JS_MAX_FREQUENCY = 12.0


@dataclass(frozen=True)
class Divergence:
    """A homogeneous kappa(x, y) with its spectral measure mu (P1, table 1).

    ``name`` is used in messages. ``kappa`` takes float64 arrays x, y >= 0 of equal shape. ``atom`` is mu({0}), and
    ``density`` is mu'(l) without the atom, for an array l >= 0. ``quantile`` is the inverse of the distribution
    function of mu / Z, for an array of u in [0, 1); it is 0 for u below atom / Z. ``total`` is
    Z = mu([0, inf)) = kappa(1, 0). ``smooth`` states whether mu has a second moment, so that
    kappa(x, y) ~ (x - y)^2 near the diagonal; this is False for total variation.

    >>> js = divergence("jensen-shannon")
    >>> round(js.total, 6), js.atom, js.smooth
    (0.346574, 0.0, True)
    >>> float(js.kappa(np.array([2.0]), np.array([2.0]))[0])
    0.0
    """

    name: str
    kappa: Kappa
    density: Callable[[F64], F64]
    quantile: Callable[[F64], F64]
    total: float
    atom: float = 0.0
    smooth: bool = True


def _contrast(x: F64, y: F64) -> F64:
    """Return (x - y) / (x + y), with 0 / 0 = 0; accurate for x close to y."""
    total = x + y
    return (x - y) / np.where(total > 0, total, 1.0)


def _sech(z: F64) -> F64:
    """Return 1 / cosh(z) for z >= 0 without overflow."""
    e = np.exp(-z)
    return np.asarray(2 * e / (1 + e * e))


def _kappa_jensen_shannon(x: F64, y: F64) -> F64:
    c = np.abs(_contrast(x, y))
    near = np.where(c < 0.5, c, 0.0)
    far = np.where(c < 0.5, 0.0, c)
    # Equal to (1+c) log(1+c) + (1-c) log(1-c), but without cancellation near the diagonal.
    small = np.log1p(-near * near) + 2 * near * np.arctanh(near)
    low = 1 - far
    large = (1 + far) * np.log1p(far) + low * np.log(np.where(low > 0, low, 1.0))
    return np.asarray((x + y) / 4 * np.where(c < 0.5, small, large))


def _kappa_hellinger(x: F64, y: F64) -> F64:
    root = np.sqrt(x) + np.sqrt(y)
    gap = (x - y) / np.where(root > 0, root, 1.0)
    return gap * gap / 2


def _kappa_total_variation(x: F64, y: F64) -> F64:
    return np.abs(x - y)


def _kappa_chi2(x: F64, y: F64) -> F64:
    return (x - y) * _contrast(x, y)


def _density_jensen_shannon(lam: F64) -> F64:
    return _sech(np.pi * lam) / (1 + 4 * lam * lam)


@cache
def _jensen_shannon_table() -> TabulatedMeasure:
    return TabulatedMeasure.from_density(_density_jensen_shannon, np.linspace(0.0, _JS_MAX_FREQUENCY, 6001))


_BUILT_IN = (
    Divergence(
        "jensen-shannon",
        kappa=_kappa_jensen_shannon,
        density=_density_jensen_shannon,
        quantile=lambda u: _jensen_shannon_table().quantile(u),
        total=float(np.log(2) / 2),
    ),
    Divergence("hellinger", _kappa_hellinger, np.zeros_like, np.zeros_like, total=0.5, atom=0.5),
    Divergence(
        "total-variation",
        kappa=_kappa_total_variation,
        density=lambda lam: 4 / np.pi / (1 + 4 * lam * lam),
        quantile=lambda u: np.tan(np.pi / 2 * u) / 2,
        total=1.0,
        smooth=False,
    ),
    Divergence(
        "chi2",
        kappa=_kappa_chi2,
        density=lambda lam: 2 * _sech(np.pi * lam),
        quantile=lambda u: np.arcsinh(np.tan(np.pi / 2 * u)) / np.pi,
        total=1.0,
    ),
)
DIVERGENCES: Mapping[str, Divergence] = MappingProxyType({d.name: d for d in _BUILT_IN})
"""Divergences by name (natural logarithms)."""


DIVERGENCE_ALIASES = {"js": "jensen-shannon", "kl": "kullback-leibler", "tv": "total-variation"}


# Names in P1 of estimators and baselines, which are not divergences. The messages state the public counterparts.
PAPER_NAMES = {
    "js_ent": (
        "The estimate JS_ent of Sutherland et al. (2016) is 'jensen-shannon' of divergence_matrix with estimator "
        "'held-out' (densities of one half at the points of the other); 'entropy' uses nearest neighbours."
    ),
    "d3": (
        "D3 (Wu, Gao, Liu 2015), the baseline of Sutherland et al. (2016) on scenes, compares Gaussians in each "
        "dimension. For Jensen-Shannon divergences of each dimension use DivergenceEmbedding('jensen-shannon', "
        "structure='marginal') or 'jensen-shannon' with PluginDivergence(structure='marginal')."
    ),
}


def canonical_name(divergence: Any) -> Any:
    """Return the full name for a common abbreviation, and other values unchanged; ValueError for `PAPER_NAMES`."""
    if not isinstance(divergence, str):
        return divergence
    hint = PAPER_NAMES.get(divergence.lower().replace("-", "_"))
    if hint:
        raise ValueError(f"divergence must be the name of a divergence; got {divergence!r}. {hint}")
    return DIVERGENCE_ALIASES.get(divergence, divergence)


def normalization(divergence: Any, normalized: Any) -> float:
    """Return the factor of a divergence: 1/2 for ``normalized`` total variation, the integral of |p - q| / 2."""
    if normalized is False or not check_bool("normalized", normalized):
        return 1.0
    if canonical_name(divergence) != "total-variation":
        raise ValueError(
            f"normalized=True requires divergence='total-variation', whose half is at most 1; got {divergence!r:.200}. "
            "Omit normalized."
        )
    return 0.5


def divergence(name_or_kappa: str | Kappa) -> Divergence:
    """Return a divergence by name or abbreviation ("js", "tv"), or for a function kappa(x, y) (P1, table 1).

    kappa takes float64 arrays of equal shape. It must be finite for x, y >= 0, symmetric, zero on the diagonal,
    non-negative, homogeneous of degree one, with a non-negative spectral measure. Its mu is derived numerically: Z, the
    atom and the density are accurate to about 1e-6 of Z. Raises `ValueError` for an unknown name, or a kappa that
    violates a condition. A callable takes about 0.2 s; results are cached.

    >>> divergence("hellinger").atom
    0.5
    >>> triangular = divergence(lambda x, y: (x - y) ** 2 / np.maximum(x + y, 1e-300))
    >>> round(triangular.total, 6), round(triangular.atom, 6)
    (1.0, 0.0)
    """
    if callable(name_or_kappa):
        return _derived(name_or_kappa)
    name = canonical_name(name_or_kappa)
    if name not in DIVERGENCES:
        raise ValueError(
            f"divergence must be one of {', '.join(map(repr, DIVERGENCES))}, or a callable kappa(x, y) homogeneous of "
            f"degree one; got {name_or_kappa!r}"
        )
    return DIVERGENCES[name]


@lru_cache(maxsize=64)
def _derived(kappa: Kappa) -> Divergence:
    return Divergence(getattr(kappa, "__name__", type(kappa).__name__), kappa, **vars(derive_measure(kappa)))
