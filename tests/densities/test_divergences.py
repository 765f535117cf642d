"""Divergences and their spectral measures, compared with quadrature, closed forms and eigenvalues."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.special import xlogy

from dkdist.embeddings.divergences import DIVERGENCES, divergence

NAMES = tuple(DIVERGENCES)


def kappa_by_quadrature(d, x, y):
    """Return kappa(x, y) by adaptive quadrature of its definition."""
    if x == 0 or y == 0:
        return d.total * (x + y)
    t = abs(np.log(x / y))
    mass = d.atom + quad(lambda v: float(d.density(v)), 0, np.inf, epsabs=1e-13)[0]
    if t == 0:
        return 0.0
    end = np.inf if d.name == "total-variation" else 15.0  # other densities are below 1e-20 beyond 15
    limits = {"limlst": 500} if end == np.inf else {"limit": 400}
    wave = quad(lambda v: float(d.density(v)), 0, end, weight="cos", wvar=t, epsabs=1e-11, **limits)[0]
    return mass * (x + y) - 2 * np.sqrt(x * y) * (d.atom + wave)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("x", "y"), [(1.0, 1.0), (1.0, 2.0), (0.3, 5.0), (7.0, 0.01), (1.0, 1.3), (0.0, 2.0), (1e-4, 3.0)]
)
def test_kappa_matches_the_integral_of_its_measure(name, x, y):
    d = divergence(name)
    assert float(d.kappa(x, y)) == pytest.approx(kappa_by_quadrature(d, x, y), rel=1e-10, abs=1e-10)


@pytest.mark.parametrize("name", NAMES)
def test_total_mass_is_the_divergence_of_disjoint_densities(name):
    d = divergence(name)
    assert d.total == pytest.approx(float(d.kappa(1.0, 0.0)), rel=1e-15)
    assert d.total == pytest.approx(d.atom + quad(lambda v: float(d.density(v)), 0, np.inf)[0], rel=1e-9)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("jensen-shannon", 0.5 * np.log(2 / 4) + 1.5 * np.log(6 / 4)),
        ("hellinger", (np.sqrt(3) - 1) ** 2 / 2),
        ("total-variation", 2.0),
        ("chi2", 1.0),
    ],
)
def test_values_at_one_and_three(name, value):
    assert float(divergence(name).kappa(1.0, 3.0)) == pytest.approx(value, rel=1e-14)


@pytest.mark.parametrize(
    ("name", "order", "factor"),
    [("jensen-shannon", 2, 1 / 8), ("hellinger", 2, 1 / 8), ("total-variation", 1, 1), ("chi2", 2, 1 / 2)],
)
@pytest.mark.parametrize("gap", [1e-3, 1e-6, 1e-10])
def test_kappa_of_close_arguments_is_accurate(name, order, factor, gap):
    x, y = 1.0 + gap, 1.0
    leading = factor * (x - y) ** order  # the exact float difference, so only kappa rounds
    assert float(divergence(name).kappa(x, y)) == pytest.approx(leading, rel=gap + 1e-13, abs=0)


@pytest.mark.parametrize("name", NAMES)
@given(
    x=st.floats(0, 1e6, allow_subnormal=False),
    y=st.floats(0, 1e6, allow_subnormal=False),
    c=st.floats(1e-3, 1e3),
)
@settings(max_examples=60)
def test_kappa_is_symmetric_bounded_and_homogeneous(name, x, y, c):
    kappa = divergence(name).kappa
    value = float(kappa(x, y))
    assert value == float(kappa(y, x))
    assert float(kappa(x, x)) == 0.0
    assert 0 <= value <= (x + y) * divergence(name).total * (1 + 1e-15)
    assert float(kappa(c * x, c * y)) == pytest.approx(c * value, rel=1e-6, abs=1e-14 * c * (x + y))


@pytest.mark.parametrize("name", ["jensen-shannon", "total-variation", "chi2"])
def test_quantile_inverts_the_distribution_function(name):
    d = divergence(name)
    u = np.array([0.0, 0.001, 0.1, 0.3, 0.5, 0.9, 0.99, 0.9999])
    probabilities = [
        quad(lambda v: float(d.density(v)), 0, q, limit=200, epsabs=1e-13)[0] / d.total for q in d.quantile(u)
    ]
    np.testing.assert_allclose(probabilities, u, atol=3e-8)
    assert np.all(np.isfinite(d.quantile(np.array([1 - 2.0**-53]))))


def test_unknown_name_lists_the_known_ones():
    with pytest.raises(
        ValueError,
        match=r"divergence must be one of .*'jensen-shannon'.*'chi2'.*callable kappa.*got 'jensen'",
    ):
        divergence("jensen")


def test_names_are_read_only():
    with pytest.raises(TypeError):
        DIVERGENCES["mine"] = DIVERGENCES["chi2"]


# ---- custom kappa


def over_sum(numerator, power):
    return lambda x, y: numerator(x, y) / np.where(x + y > 0, x + y, 1.0) ** power


def naive_jensen_shannon(x, y):
    m = np.where(x + y > 0, (x + y) / 2, 1.0)
    return xlogy(x, x / m) / 2 + xlogy(y, y / m) / 2


LAM = np.concatenate([np.linspace(0, 3, 61), [5.0, 20.0, 100.0, 250.0, 1e3, 1e4]])


@pytest.mark.parametrize("name", NAMES)
def test_known_divergences_are_derived_from_kappa(name):
    known = divergence(name)
    derived = divergence(lambda x, y: known.kappa(x, y))
    assert derived.total == known.total
    assert derived.atom == pytest.approx(known.atom, abs=1e-9)
    assert derived.smooth == known.smooth
    np.testing.assert_allclose(derived.density(LAM), known.density(LAM), rtol=0, atol=1e-8)
    u = np.array([0.01, 0.3, 0.9, 0.99])
    np.testing.assert_allclose(derived.quantile(u), known.quantile(u), rtol=1e-5)


def test_power_tail_continues_past_the_grid():
    derived = divergence(lambda x, y: np.abs(x - y))
    known = divergence("total-variation")
    far = np.array([1e3, 1e5, 1e7])
    np.testing.assert_allclose(derived.density(far), known.density(far), rtol=1e-3)
    np.testing.assert_allclose(
        derived.quantile(np.array([1 - 1e-6])), known.quantile(np.array([1 - 1e-6])), rtol=1e-3
    )


@pytest.mark.parametrize(
    ("kappa", "atom", "density"),
    [
        (naive_jensen_shannon, 0.0, divergence("jensen-shannon").density),
        (lambda x, y: (np.sqrt(x) - np.sqrt(y)) ** 2, 1.0, np.zeros_like),
        (lambda x, y: (x + y) / 2 - np.sqrt(x * y), 0.5, np.zeros_like),
        (over_sum(lambda x, y: (x - y) ** 2 / 2, 1), 0.0, lambda v: divergence("chi2").density(v) / 2),
        (over_sum(lambda x, y: (x**2 - y**2) ** 2, 3), 0.0, divergence("chi2").density),
        (
            lambda x, y: naive_jensen_shannon(x, y) + 0.3 * divergence("hellinger").kappa(x, y),
            0.15,
            divergence("jensen-shannon").density,
        ),
        (
            lambda x, y: np.abs(x - y) + 0.1 * (np.sqrt(x) - np.sqrt(y)) ** 2,
            0.1,
            divergence("total-variation").density,
        ),
        (
            lambda x, y: np.maximum(x, y) - (x + y) / 2,
            0.0,
            lambda v: divergence("total-variation").density(v) / 2,
        ),
    ],
)
def test_custom_divergences_have_the_known_measure(kappa, atom, density):
    derived = divergence(kappa)
    assert derived.atom == pytest.approx(atom, abs=2e-6)
    # The fit of an atom leaves errors near l = 0.
    away = LAM[LAM >= 0.1]
    np.testing.assert_allclose(derived.density(away), density(away), rtol=0, atol=1e-6)


@pytest.mark.parametrize("power", [0.6, 0.75, 0.9])
def test_power_family_is_of_negative_type(power):
    """|x^a - y^a|^(1/a), a in [1/2, 1], has no closed measure; quadrature of the derived one must reproduce kappa."""
    d = divergence(lambda x, y: np.abs(x**power - y**power) ** (1 / power))
    nodes, weights = np.polynomial.legendre.leggauss(400)
    lam = d.quantile((nodes + 1) / 2)
    for x, y in [(1.0, 3.0), (1.0, 50.0)]:
        rule = d.total * weights / 2 @ (x + y - 2 * np.sqrt(x * y) * np.cos(lam * np.log(x / y)))
        assert rule == pytest.approx(float(d.kappa(x, y)), rel=3e-3)


def skewed(a):
    """Return the symmetrised Jensen-Shannon divergence at skew a."""

    def one_sided(x, y):
        m = a * x + (1 - a) * y
        m = np.where(m > 0, m, 1.0)
        return a * xlogy(x, x / m) + (1 - a) * xlogy(y, y / m)

    return lambda x, y: (one_sided(x, y) + one_sided(y, x)) / 2


def alpha(a):
    return lambda x, y: (x + y) / 2 - (x**a * y ** (1 - a) + x ** (1 - a) * y**a) / 2


NEGATIVE = {
    "quartic": over_sum(lambda x, y: (x - y) ** 4, 3),
    "cubic": over_sum(lambda x, y: np.abs(x - y) ** 3, 2),
    "skewed .1": skewed(0.1),
    "skewed .25": skewed(0.25),
    "alpha .3": alpha(0.3),
    "power .4": lambda x, y: np.abs(x**0.4 - y**0.4) ** 2.5,
}


@pytest.mark.parametrize("name", NEGATIVE)
def test_kappa_of_negative_measure_raises(name):
    kappa = NEGATIVE[name]
    # Proof: some zero-sum c has c' K c > 0, which is impossible for a squared Hilbert distance.
    x = np.exp(np.linspace(-12, 12, 121))
    gram = kappa(x[:, None] * np.ones(121), x * np.ones((121, 1))) / np.sqrt(x[:, None] * x)
    # sum c = 0, in the scaled coefficients sqrt(x) c
    normal = 1 / np.sqrt(x) / np.linalg.norm(1 / np.sqrt(x))
    project = np.eye(121) - np.outer(normal, normal)
    assert np.linalg.eigvalsh(project @ gram @ project)[-1] > 1e-6
    with pytest.raises(ValueError, match=r"must be of negative type; .*Use another divergence"):
        divergence(kappa)


def test_negative_atom_raises():
    with pytest.raises(ValueError, match=r"mass -0\.0005 at l = 0"):
        divergence(lambda x, y: naive_jensen_shannon(x, y) - 0.001 * divergence("hellinger").kappa(x, y))


def test_point_masses_away_from_zero_raise():
    def kappa(x, y):
        ratio = np.where((x > 0) & (y > 0), x, 1.0) / np.where((x > 0) & (y > 0), y, 1.0)
        return x + y - 2 * np.sqrt(x * y) * np.cos(np.log(ratio))

    with pytest.raises(ValueError, match="point masses at l > 0"):
        divergence(kappa)


def jeffreys(x, y):
    return (x - y) * (np.log(x) - np.log(y))


@pytest.mark.parametrize(
    ("kappa", "message"),
    [
        (lambda x, y: max(x, y) - min(x, y), "failed on arrays"),
        (lambda x, y: np.sum(np.abs(x - y)), r"must have the same shape; got \(\)"),
        (lambda x, y: np.abs(x - y) * x.size, "must not depend on other elements"),
        (jeffreys, r"kappa\(1, 0\).* must be finite; got inf"),
        (
            lambda x, y: np.where(y == 1e-6, np.nan, np.abs(x - y)),
            r"must be finite for all x, y >= 0; got .* = nan",
        ),
        (lambda x, y: np.abs(x - y) + 0.1 * (x - y), "must be symmetric"),
        (lambda x, y: x + y, "must be zero on the diagonal"),
        (lambda x, y: -np.abs(x - y), "must be non-negative"),
        (lambda x, y: (x - y) ** 2, "must be homogeneous of degree 1"),
        (lambda x, y: np.zeros_like(x), "must be positive; got 0"),
    ],
)
def test_invalid_kappa_raises(kappa, message):
    with pytest.raises(ValueError, match=message):
        divergence(kappa)


def test_derived_divergence_is_cached():
    def custom_kappa(x, y):
        return np.abs(x - y)

    assert divergence(custom_kappa) is divergence(custom_kappa)
    assert divergence(custom_kappa).name == "custom_kappa"


def test_kappa_may_be_undefined_at_the_origin():
    """kappa(0, 0) = 0 follows from homogeneity, so chi2 may be written as (x - y)^2 / (x + y)."""
    assert divergence(lambda x, y: (x - y) ** 2 / (x + y)).total == 1.0
