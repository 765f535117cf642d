"""P1's error bound: inequalities, each term in random trials, all terms together, and tightness."""

import numpy as np
import pytest

import dkdist as dk
from dkdist.embeddings.divergences import divergence
from dkdist.theory.hdd_terms import random_features, reflected_energy, smoothing_bias

NODES = (np.arange(2000) + 0.5) / 2000
P, Q = 1 + 0.5 * np.cos(np.pi * NODES), 1 - 0.5 * np.cos(np.pi * NODES)
DENSITIES = {"lipschitz": np.pi / 2, "lowest": 0.5}
DELTA = 0.1


def draw(rng, n, sign):
    """Draw n points of the density 1 + sign / 2 cos(pi x), by rejection."""
    x = rng.random(4 * n)
    return x[rng.random(4 * n) * 1.5 < 1 + sign / 2 * np.cos(np.pi * x)][:n]


def estimate(x, h):
    """Return the reflected kernel density estimate at NODES, by its cosine series."""
    a = np.arange(int(4 / (np.pi * h)) + 1)
    C = (
        np.cos(np.pi * np.outer(a, x)).mean(axis=1)
        * np.exp(-((np.pi * a * h) ** 2) / 2)
        * np.where(a > 0, 2, 1)
    )
    return np.maximum(C @ np.cos(np.pi * np.outer(a, NODES)), 1e-9)


def kernel(d2, sigma):
    return np.exp(-d2 / (2 * sigma**2))


def hyperbolic_secants(rng, M):
    """Draw frequencies of chi2: density 2 sech(pi l) on l >= 0."""
    return np.log(np.tan(np.pi / 4 * (1 + rng.random(M)))) / np.pi


@pytest.mark.parametrize("name", ["hellinger", "jensen-shannon", "chi2", "total-variation"])
def test_kappa_satisfies_the_inequalities(name):
    x, y = np.meshgrid(np.append(0, np.geomspace(1e-6, 1e3, 200)), np.geomspace(1e-6, 1e3, 200))
    result = divergence(name)
    values, slack = result.kappa(x, y), 1e-12 * (x + y)
    assert (values <= result.total * np.abs(x - y) + slack).all()
    by_square = values <= result.total * (x - y) ** 2 / (x + y) + slack
    assert by_square.all() == (name != "total-variation")
    for lam in (0.0, 0.3, 5.0):  # range of the term of a sampled frequency
        a, b = (np.sqrt(v) * np.exp(1j * lam * np.log(np.maximum(v, 1e-300))) for v in (x, y))
        assert (np.abs(a - b) ** 2 <= (np.sqrt(x) + np.sqrt(y)) ** 2 + slack).all()


@pytest.mark.parametrize("name", ["hellinger", "chi2", "total-variation"])
@pytest.mark.parametrize("lowest", [0.0, 0.5])
def test_density_errors_are_within_the_bound(name, lowest):
    n, h, sigma, kappa = 20_000, 0.02, 1.0, divergence(name).kappa
    exact = kernel(kappa(P, Q).mean(), sigma)
    bound = dk.hdd_error_bound(
        n, 10**6, sigma=sigma, bandwidth=h, divergence=name, delta=DELTA, lipschitz=np.pi / 2, lowest=lowest
    )
    errors = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        p, q = estimate(draw(rng, n, 1), h), estimate(draw(rng, n, -1), h)
        errors.append(abs(kernel(kappa(p, q).mean(), sigma) - exact))
    assert max(errors) <= bound.kde
    assert bound.kde < 0.6


def test_frequency_and_feature_errors_are_within_the_bound():
    """The bound of features is at most 6 times the errors."""
    sigma, M, F, rng = 1.0, 200, 250, np.random.default_rng(0)
    bound = dk.hdd_error_bound(
        1000, 2 * F, sigma=sigma, bandwidth=0.1, divergence="chi2", n_frequencies=M, delta=DELTA, **DENSITIES
    )
    exact = kernel(divergence("chi2").kappa(P, Q).mean(), sigma)
    errors = []
    for _ in range(300):
        lam = hyperbolic_secants(rng, M)[:, None]
        A, B = (np.sqrt(p[::20]) * np.exp(1j * lam * np.log(p[::20])) for p in (P, Q))
        errors.append(abs(kernel((np.abs(A - B) ** 2).mean(), sigma) - exact))
    assert max(errors) <= bound.frequencies
    assert bound.frequencies < 0.5
    r = rng.uniform(0, 3, 3000)
    result = np.cos(rng.standard_normal((3000, F)) * r[:, None]).mean(axis=1)
    errors = np.abs(result - np.exp(-(r**2) / 2))
    probability = DELTA / 3
    assert np.mean(errors > bound.features) <= probability
    assert np.mean(errors > bound.features / 6) > probability  # a sixth of the bound is exceeded too often


def cosine_coefficients(f, K, nodes):
    """Return coefficients in the cosine basis of K functions, from values f at nodes of equal weight."""
    phi = np.cos(np.pi * np.outer(np.arange(K), nodes)) * np.where(np.arange(K) > 0, np.sqrt(2), 1)[:, None]
    return phi @ f / len(nodes)


def test_truncation_and_integration_errors_are_within_the_bound():
    """For Hellinger, A p is the root of the density divided by 2^(1/2)."""
    sigma, K, n_nodes = 0.5, 5, 20_000
    p = 1 + 0.5 * np.cos(8 * np.pi * NODES)  # varies faster than the basis
    f, g = np.sqrt(p / 2), np.sqrt(np.ones_like(p) / 2)
    degrees = np.arange(400)
    radius = np.sqrt(2 * (degrees**2 * cosine_coefficients(f, 400, NODES) ** 2).sum())  # for p^(1/2)
    bound = dk.hdd_error_bound(
        1000, 500, sigma=sigma, bandwidth=0.1, n_basis=K, smoothness=(radius, 1.0), n_nodes=n_nodes, delta=DELTA,
        lipschitz=1.0,
    )  # fmt: skip
    exact, d2 = kernel(((f - g) ** 2).mean(), sigma), (cosine_coefficients(f - g, K, NODES) ** 2).sum()
    assert 0.05 * bound.truncation < abs(kernel(d2, sigma) - exact) <= bound.truncation < 1
    errors = []
    for seed in range(100):
        u = np.random.default_rng(seed).integers(0, 2000, n_nodes)
        sampled = (cosine_coefficients((f - g)[u], K, NODES[u]) ** 2).sum()
        errors.append(abs(kernel(sampled, sigma) - kernel(d2, sigma)))
    assert np.mean(np.array(errors) > bound.integration) <= DELTA / 3
    assert bound.integration < 0.5


def test_total_error_is_within_the_bound():
    """From samples to inner products of random features, for chi2 with random frequencies."""
    n, h, sigma, M, D = 20_000, 0.03, 1.0, 100, 2000
    bound = dk.hdd_error_bound(
        n, D, sigma=sigma, bandwidth=h, divergence="chi2", n_frequencies=M, delta=DELTA, **DENSITIES
    )
    assert bound.total == pytest.approx(
        bound.kde + bound.frequencies + bound.truncation + bound.integration + bound.features
    )
    assert bound.truncation == bound.integration == 0
    assert bound.total < 0.9
    exact, errors = kernel(divergence("chi2").kappa(P, Q).mean(), sigma), []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        lam = hyperbolic_secants(rng, M)[:, None]
        p, q = (estimate(draw(rng, n, sign), h)[10::20] for sign in (1, -1))
        A, B = (np.sqrt(f) * np.exp(1j * lam * np.log(f)) / np.sqrt(M * len(f)) for f in (p, q))
        t = np.concatenate([(A - B).real, (A - B).imag]).ravel()
        errors.append(abs(np.cos(rng.standard_normal((D // 2, len(t))) @ t / sigma).mean() - exact))
    assert max(errors) <= bound.total


def test_terms_depend_on_options_and_invalid_options_raise():
    def terms(**changes):
        options = {"sigma": 1.0, "bandwidth": 0.05, "lipschitz": 1.0} | changes
        return dk.hdd_error_bound(
            options.pop("n_points", 10_000), options.pop("n_components", 1000), **options
        )

    assert terms().frequencies == 0
    assert terms(divergence="jensen-shannon", frequency_error=1.1e-4).frequencies == pytest.approx(
        4.05e-5, rel=0.01
    )
    assert terms(n_points=10**7, bandwidth=1e-3, lowest=0.5).kde < 0.03
    assert terms(n_components=100_000).features == pytest.approx(terms().features / 10)
    assert terms(delta=0.01).total > terms().total
    assert terms(holder=0.5).kde > terms().kde
    for message, options in (
        ("even", {"n_components": 3}),
        ("no frequencies", {"n_frequencies": 3}),
        ("got both", {"n_frequencies": 3, "frequency_error": 0.1, "divergence": "chi2"}),
        ("require n_basis", {"n_nodes": 3}),
        ("holder", {"holder": 2.0}),
        ("below 1", {"delta": 1.0}),
        ("'chi2'", {"divergence": "kl"}),
        ("between 0 and 1; got 1.0 and 2.0", {"lowest": 2.0}),
        ("lipschitz must be a number; got 'a'", {"lipschitz": "a"}),
        (r"\(radius, order\); got 1", {"n_basis": 5, "smoothness": 1.0}),
    ):
        with pytest.raises(ValueError, match=message):
            terms(**options)


def test_steps_share_the_probability_of_failure():
    # Four tails for two densities (delta / 4 each): the formulas of theory/hdd_terms.py with known energy and bias.
    n, h, sigma, lowest, lipschitz = 10**7, 0.05, 0.5, 0.5, 0.1
    bound = dk.hdd_error_bound(
        n, 10**6, sigma=sigma, bandwidth=h, divergence="chi2", delta=DELTA, lipschitz=lipschitz, lowest=lowest
    )
    energy, bias = reflected_energy(h, 1), smoothing_bias(h, 1, lipschitz, 1.0)
    l2 = bias + np.sqrt(energy / n) + np.sqrt(energy * np.log(4 / DELTA) / n)
    assert bound.kde == pytest.approx(2 * l2 * np.sqrt(1 / lowest) * np.exp(-0.5) / sigma, rel=1e-12)


def test_tail_of_random_features_exceeds_the_printed_bound_but_not_hoeffdings():
    """P1 prints 2 exp(-D eps^2); a mean of D / 2 cosines in [-1, 1] has the bound 2 exp(-D eps^2 / 4)."""
    D, eps, n_draws = 200, 2.5 / np.sqrt(200), 20_000  # eps = 0.177
    points = np.array([[0.0], [3.0]], np.float32)  # kernel exp(-4.5) = 0.011
    features = dk.RandomFourierFeatures(D // 2 * 400, sigma=1.0, method="iid")
    frequencies_per_draw, errors = D // 2, []
    for seed in range(n_draws // 200):
        z = features.set_params(random_state=seed).fit(points).transform(points).astype(np.float64)
        sines, cosines = np.split(z[0] * z[1], 2)
        means = 200 * (sines + cosines).reshape(200, frequencies_per_draw).sum(axis=1)
        errors.append(means - np.exp(-4.5))
    rate = np.mean(np.abs(np.concatenate(errors)) >= eps)
    standard_error = np.sqrt(rate * (1 - rate) / n_draws)
    printed, hoeffding = 2 * np.exp(-D * eps**2), 2 * np.exp(-D * eps**2 / 4)
    assert rate - 5 * standard_error > printed
    assert rate + 5 * standard_error < hoeffding
    assert abs(rate - 0.0117) < 5 * standard_error
    assert random_features(D // 2, hoeffding) == pytest.approx(eps)  # the bound of the library, inverted
