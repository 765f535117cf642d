"""Frequency rules compared with kappa, pointwise and integrated over random densities."""

import numpy as np
import pytest
from scipy.integrate import quad

from dkdist.embeddings.divergences import DIVERGENCES, divergence
from dkdist.embeddings.frequencies import DEFAULT_RULE, frequency_count, frequency_rule, rule_error

DETERMINISTIC = ("fitted", "gauss", "stratified")
RATIOS = np.concatenate([1 + np.geomspace(1e-2, 1, 50), np.geomspace(2, 1e6, 300)])


def js_and_hellinger(x, y):
    return divergence("jensen-shannon").kappa(x, y) + 0.3 * divergence("hellinger").kappa(x, y)


def rule_kappa(lam, w, x, y):
    """Return the sum of the paper, with complex powers."""
    gaps = x[..., None] ** (0.5 + 1j * lam) - y[..., None] ** (0.5 + 1j * lam)
    return np.abs(gaps) ** 2 @ w


def pointwise_error(name, lam, w, ratio=1e6):
    x = RATIOS[ratio >= RATIOS]
    y = np.ones_like(x)
    return np.max(np.abs(rule_kappa(lam, w, x, y) / divergence(name).kappa(x, y) - 1))


def mixtures(dims, count, rng):
    """Return random Gaussian mixtures on a midpoint grid of [0, 1]^dims, as rows, with minimum 1e-6."""
    grid = (np.arange(400 if dims == 1 else 48) + 0.5) / (400 if dims == 1 else 48)
    rows = []
    for _ in range(count):
        density = 0.0
        for weight in rng.dirichlet(np.ones(rng.integers(1, 5))):
            bump = np.exp(-0.5 * ((grid - rng.uniform()) / rng.uniform(0.05, 0.3)) ** 2)
            for _ in range(dims - 1):
                bump = np.multiply.outer(
                    bump, np.exp(-0.5 * ((grid - rng.uniform()) / rng.uniform(0.05, 0.3)) ** 2)
                )
            density = density + weight * bump / bump.mean()
        rows.append(np.maximum(density, 1e-6).ravel())
    return np.array(rows)


@pytest.fixture(scope="module")
def density_pairs():
    rng = np.random.default_rng(2016)
    return [(mixtures(dims, 150, rng), mixtures(dims, 150, rng)) for dims in (1, 2)]


@pytest.mark.parametrize(
    ("name", "max_error"),
    [("jensen-shannon", 1e-3), ("chi2", 1e-3), ("hellinger", 1e-12), ("total-variation", 2e-2)],
)
def test_rules_integrate_random_densities(name, max_error, density_pairs):
    d = divergence(name)
    lam, w = frequency_rule(d, DEFAULT_RULE)
    errors = []
    for p, q in density_pairs:
        t = np.log(p / q)[..., None]
        rule = np.mean(p + q - 2 * np.sqrt(p * q) * (np.cos(lam * t) @ w) / w.sum(), axis=1) * w.sum()
        errors.append(rule / d.kappa(p, q).mean(axis=1) - 1)
    assert np.sqrt(np.mean(np.concatenate(errors) ** 2)) <= max_error


@pytest.mark.parametrize(
    ("name", "n", "ratio", "max_error"),
    [
        ("jensen-shannon", 2, 1e3, 1.3e-3),
        ("jensen-shannon", 3, 1e3, 1.1e-4),
        ("jensen-shannon", 3, 1e6, 8e-4),
        ("jensen-shannon", 4, 1e6, 1.5e-4),
        ("chi2", 3, 1e3, 8e-4),
        ("chi2", 4, 1e6, 1.2e-3),
        ("chi2", 5, 1e6, 4e-4),
    ],
)
def test_accuracy_of_fitted_rules(name, n, ratio, max_error):
    lam, w = frequency_rule(divergence(name), "fitted", n, ratio=ratio)
    assert len(lam) == len(w) == n
    assert pointwise_error(name, lam, w, ratio) <= max_error
    assert rule_error(divergence(name), lam, w, ratio) <= max_error


def test_fitted_rule_of_jensen_shannon_with_three_frequencies():
    lam, w = frequency_rule(divergence("jensen-shannon"), "fitted", 3, ratio=1e3)
    np.testing.assert_allclose(lam, [0.2666, 0.9258, 1.8256], rtol=0.02)
    np.testing.assert_allclose(w[:2], [0.31918, 0.01871], rtol=0.05)


@pytest.mark.parametrize("name", ["jensen-shannon", "chi2", "total-variation"])
def test_error_of_fitted_rules_decreases_with_n(name):
    d = divergence(name)
    errors = [rule_error(d, *frequency_rule(d, "fitted", n)) for n in range(1, 8)]
    assert np.all(np.diff(errors) < 0)


@pytest.mark.parametrize("name", ["jensen-shannon", "chi2", "total-variation"])
def test_fitted_rule_beats_other_rules(name):
    d = divergence(name)
    for n in (2, 3, 5, 8):
        fitted, *others = (rule_error(d, *frequency_rule(d, rule, n)) for rule in DETERMINISTIC)
        assert fitted < min(others)


@pytest.mark.parametrize(
    ("rule", "name", "max_error"),
    [
        ("gauss", "jensen-shannon", 1e-7),
        ("gauss", "chi2", 1e-7),
        ("gauss", "total-variation", 2e-3),
        ("stratified", "jensen-shannon", 2e-2),
        ("stratified", "chi2", 3e-2),
        ("stratified", "total-variation", 6e-2),
    ],
)
def test_quadrature_rules_converge(rule, name, max_error):
    d = divergence(name)
    errors = [rule_error(d, *frequency_rule(d, rule, n)) for n in (5, 15, 50)]
    assert np.all(np.diff(errors) < 0)
    assert errors[-1] < max_error


@pytest.mark.parametrize("name", ["jensen-shannon", "chi2"])
def test_gauss_integrates_powers_exactly(name):
    d = divergence(name)
    lam, w = frequency_rule(d, "gauss", 4)
    end = float(d.quantile(np.array([1 - 1e-10]))[0])
    for power in range(8):  # l^(2 power): up to degree 2n - 1 = 7 in l^2
        moment = quad(lambda v, p=power: v ** (2 * p) * float(d.density(v)), 0, end, limit=400)[0]
        assert w @ lam ** (2 * power) == pytest.approx(moment, rel=1e-8)


def test_gauss_of_total_variation_is_legendre_in_probability():
    nodes, weights = np.polynomial.legendre.leggauss(7)
    lam, w = frequency_rule(divergence("total-variation"), "gauss", 7)
    np.testing.assert_allclose(lam, np.tan(np.pi * (nodes + 1) / 4) / 2, rtol=1e-12)
    np.testing.assert_allclose(w, weights / 2, rtol=1e-12)


def test_stratified_total_variation_formula():
    lam, w = frequency_rule(divergence("total-variation"), "stratified", 6)
    np.testing.assert_allclose(lam, np.tan(np.pi * (np.arange(6) + 0.5) / 12) / 2, rtol=1e-12)
    np.testing.assert_array_equal(w, np.full(6, 1 / 6))


@pytest.mark.parametrize("name", sorted(DIVERGENCES))
def test_random_rule_is_unbiased_with_expected_variance(name):
    d = divergence(name)
    draws, n = 4000, 5
    u = np.random.default_rng(7).random((draws, n))
    for ratio in (1.5, 10.0, 1000.0):
        x, y = np.array([ratio]), np.array([1.0])
        estimates = np.array([rule_kappa(*frequency_rule(d, "random", n, uniforms=v), x, y)[0] for v in u])

        def squared(v, s=ratio):
            return (s + 1 - 2 * np.sqrt(s) * np.cos(v * np.log(s))) ** 2 * float(d.density(v))

        second = d.total * (quad(squared, 0, 60, limit=2000)[0] + d.atom * (np.sqrt(ratio) - 1) ** 4)
        if (
            name == "total-variation"
        ):  # beyond 60 the density is 1 / (pi l^2), and the square is replaced by its mean over a period
            second += ((ratio + 1) ** 2 + 2 * ratio) / (np.pi * 60)
        exact = float(d.kappa(x, y)[0])
        variance = max(second - exact**2, 0.0) / n
        assert estimates.mean() == pytest.approx(exact, abs=4 * np.sqrt(variance / draws) + 1e-12 * exact)
        assert estimates.var() == pytest.approx(variance, rel=0.12, abs=1e-9 * exact**2)


@pytest.mark.parametrize("rule", DETERMINISTIC)
@pytest.mark.parametrize("n", [1, 4, 100, "auto"])
def test_hellinger_has_one_frequency(rule, n):
    if rule == "fitted" and n == 100:
        n = 16
    lam, w = frequency_rule(divergence("hellinger"), rule, n)
    np.testing.assert_array_equal(lam, [0.0])
    np.testing.assert_array_equal(w, [0.5])


def test_auto_numbers_of_frequencies():
    counts = {name: frequency_count(divergence(name), "fitted") for name in DIVERGENCES}
    assert counts == {"jensen-shannon": 3, "hellinger": 1, "total-variation": 7, "chi2": 5}
    assert frequency_count(divergence("chi2"), "fitted", 1e3) == 3


@pytest.mark.parametrize("rule", DETERMINISTIC)
@pytest.mark.parametrize("name", sorted(DIVERGENCES))
def test_auto_uses_the_smallest_number_within_the_target(rule, name):
    d = divergence(name)
    target = 1e-3 if rule == "fitted" or (d.smooth and rule != "stratified") else 1e-2
    lam, w = frequency_rule(d, rule)
    assert len(lam) == frequency_count(d, rule)
    assert rule_error(d, lam, w) <= target
    if len(lam) > 1:
        assert rule_error(d, *frequency_rule(d, rule, len(lam) - 1)) > target


@pytest.mark.parametrize("rule", DETERMINISTIC)
def test_rules_with_atom_and_density(rule):
    d = divergence(js_and_hellinger)
    lam, w = frequency_rule(d, rule, 5)
    assert lam[0] == 0.0
    assert np.all(lam[1:] > 0)
    if rule != "fitted":
        assert w[0] == pytest.approx(0.15, abs=1e-6)
        assert w.sum() == pytest.approx(d.total, rel=1e-6)
    with pytest.raises(ValueError, match=r"n must be at least 2 .*atom of 0\.15.*got 1"):
        frequency_rule(d, rule, 1)


def test_fitted_rule_of_custom_kappa():
    lam, w = frequency_rule(divergence(js_and_hellinger), "fitted")
    x, y = RATIOS, np.ones_like(RATIOS)
    assert np.max(np.abs(rule_kappa(lam, w, x, y) / js_and_hellinger(x, y) - 1)) <= 1.05e-3


def test_missed_target_warns():
    d = divergence(lambda x, y: np.abs(x**0.6 - y**0.6) ** (1 / 0.6))
    with pytest.warns(
        UserWarning, match=r"'gauss' rule .* relative error of at most .*; got 0\.0\d+ with 64 frequencies"
    ):
        frequency_rule(d, "gauss")


@pytest.mark.parametrize("name", sorted(DIVERGENCES))
@pytest.mark.parametrize("rule", DETERMINISTIC)
def test_rules_are_sorted_nonnegative_copies(name, rule):
    d = divergence(name)
    lam, w = frequency_rule(d, rule, 4)
    for a in (lam, w):
        assert a.dtype == np.float64
        assert np.all(a >= 0)
    assert np.all(np.diff(lam) > 0)
    lam[:] = -1  # changes by a caller must not affect later calls
    assert frequency_rule(d, rule, 4)[0].min() >= 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"rule": "sobol"}, "rule must be one of 'fitted'.*got 'sobol'"),
        ({"rule": "gauss", "n": 0}, "n must be at least 1; got 0"),
        ({"rule": "fitted", "n": 17}, "at most 16"),
        ({"rule": "fitted", "ratio": 1.0}, "ratio, the largest .* got 1.0"),
        ({"rule": "gauss", "n": 2, "uniforms": np.zeros(2)}, "uniforms must be None for the .gauss. rule"),
        ({"rule": "random", "n": 2}, "uniforms must be an array.*got None"),
        ({"rule": "random", "n": 2, "uniforms": np.zeros(3)}, r"uniforms must have shape \(2,\); got \(3,\)"),
        ({"rule": "random", "n": 2, "uniforms": np.array([0.5, 1.0])}, "got 0.5 to 1"),
    ],
)
def test_invalid_arguments_raise(arguments, message):
    with pytest.raises(ValueError, match=message):
        frequency_rule(divergence("chi2"), **arguments)


def test_random_rule_of_a_pure_atom_has_one_frequency():
    counts = {name: frequency_count(divergence(name), "random") for name in DIVERGENCES}
    assert counts == {"jensen-shannon": 64, "hellinger": 1, "total-variation": 64, "chi2": 64}
