"""`GaussianDivergence`: compared with numerical integrals, POT and Monte Carlo means; singular sets raise."""

import itertools
from functools import partial

import numpy as np
import pytest
from scipy.integrate import quad, simpson
from scipy.special import entr, expit
from scipy.stats import multivariate_normal, norm
from sklearn.covariance import LedoitWolf

import dkdist as dk
from dkdist.pairwise_matrices.divergence_params import SetPosition
from dkdist.pairwise_matrices.gaussian_divergences import GaussianPairs, _density

EXACT = dk.GaussianDivergence(shrinkage=0.0)
INTEGRANDS = {
    "kullback-leibler": lambda p, q: p * np.log(p / q),
    "hellinger": lambda p, q: (np.sqrt(p) - np.sqrt(q)) ** 2 / 2,
    "jensen-shannon": lambda p, q: (p * np.log(2 * p / (p + q)) + q * np.log(2 * q / (p + q))) / 2,
}
# (a, function of int p^a q^(1 - a)) by divergence
PRODUCT_INTEGRALS = {
    "bhattacharyya": (0.5, lambda c: -np.log(c)),
    "renyi": (0.7, lambda c: np.log(c) / -0.3),
}
# 1,024 Sobol points: the largest error of 40 random pairs was 0.0003, 0.0006 and 0.008 in d = 1, 2 and up to 200.
JS_TOL = {1: 1e-3, 2: 2e-3, 20: 0.012}


def collection(d, n_sets=4, n=60, seed=0):
    rng = np.random.default_rng(seed)
    return [
        np.float32(
            rng.normal(size=(n, d)) @ (np.eye(d) + 0.3 * rng.normal(size=(d, d))) + rng.normal(size=d) / d
        )
        for _ in range(n_sets)
    ]


def moments(arrays):
    arrays = [x.astype(np.float64) for x in arrays]
    d = arrays[0].shape[1]
    return [(x.mean(axis=0), np.cov(x.T, bias=True).reshape(d, d)) for x in arrays]


def integrate(integrand, d, fits):
    """Integrate a function of two densities in one or two dimensions."""

    def function(p, q):
        return integrand(p + 1e-300, q + 1e-300)  # densities far from the mean underflow

    if d == 1:
        p, q = (norm(m[0], np.sqrt(S[0, 0])) for m, S in fits)
        ends = [m[0] + s * 20 * np.sqrt(S[0, 0]) for m, S in fits for s in (-1, 1)]
        return quad(lambda x: function(p.pdf(x), q.pdf(x)), min(ends), max(ends), limit=500, epsabs=1e-12)[0]
    reach = 12 * np.sqrt(max(np.linalg.eigvalsh(S).max() for _, S in fits))
    centre = np.mean([m for m, _ in fits], axis=0)
    axis = np.linspace(-reach, reach, 801)
    grid = centre + np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1)
    values = function(*(multivariate_normal(m, S).pdf(grid) for m, S in fits))
    return simpson(simpson(values, x=axis), x=axis)


@pytest.mark.parametrize("name", [*INTEGRANDS, *PRODUCT_INTEGRALS])
@pytest.mark.parametrize("d", [1, 2])
def test_divergences_match_numerical_integrals(d, name):
    arrays = collection(d)
    fits, options = moments(arrays), {}
    if name in PRODUCT_INTEGRALS:
        a, transform = PRODUCT_INTEGRALS[name]
        options = {"alpha": a} if name == "renyi" else {}
    D = dk.divergence_matrix(arrays, name, estimator=EXACT, **options)
    for i, j in itertools.permutations(range(len(arrays)), 2):
        if name in INTEGRANDS:
            expected = integrate(INTEGRANDS[name], d, (fits[i], fits[j]))
        else:
            expected = transform(integrate(lambda p, q: p**a * q ** (1 - a), d, (fits[i], fits[j])))
        atol = JS_TOL[d] if name == "jensen-shannon" else 1e-6
        np.testing.assert_allclose(D[i, j], expected, atol=atol)


@pytest.mark.parametrize("name", ["kullback-leibler", "hellinger", "jensen-shannon"])
def test_divergences_match_monte_carlo_means(name):
    d, n = 20, 200_000
    (m, S), (m2, S2) = moments(collection(d, 2, n=400))
    x = np.random.default_rng(1).multivariate_normal(m, S, n, method="cholesky")
    y = np.random.default_rng(2).multivariate_normal(m2, S2, n, method="cholesky")
    p, q = multivariate_normal(m, S), multivariate_normal(m2, S2)
    log_ratio = {"x": p.logpdf(x) - q.logpdf(x), "y": q.logpdf(y) - p.logpdf(y)}
    terms = {
        "kullback-leibler": log_ratio["x"],
        "hellinger": 1 - np.exp(-log_ratio["x"] / 2),
        "jensen-shannon": sum(np.log(2) - np.logaddexp(0, -t) for t in log_ratio.values()) / 2,
    }[name]
    five_standard_errors = 5 * terms.std() / np.sqrt(n)
    D = dk.divergence_matrix(collection(d, 2, n=400), name, estimator=EXACT)
    tolerance = five_standard_errors + (JS_TOL[d] if name == "jensen-shannon" else 0)
    assert abs(D[0, 1] - terms.mean()) < tolerance
    assert five_standard_errors < 0.1 * terms.mean()


@pytest.mark.parametrize("d", [1, 2, 30])
def test_wasserstein_matches_pot(d):
    ot = pytest.importorskip("ot")
    arrays = collection(d)
    D = dk.divergence_matrix(arrays, "wasserstein", estimator=EXACT)
    for (i, (m, S)), (j, (m2, S2)) in itertools.combinations(enumerate(moments(arrays)), 2):
        expected = ot.gaussian.bures_wasserstein_distance(m, m2, S, S2) ** 2
        np.testing.assert_allclose(D[i, j], expected, rtol=1e-6)  # float32 points


def test_wasserstein_of_points_and_lines():
    line = np.linspace(0, 1, 9)[:, None] * np.array([1.0, 2.0])  # S = v v', v = (1, 2) standard deviations
    point, equal, (x,) = np.full((1, 2), 2.0), np.full((4, 2), 0.5), collection(2, 1)
    D = dk.divergence_matrix([point, equal, line, x], "wasserstein", estimator=EXACT)
    (m, S), (middle, rank_one) = moments([x])[0], moments([line])[0]
    v = np.array([1.0, 2.0]) * np.sqrt(rank_one[0, 0])
    expected = ((m - middle) ** 2).sum() + np.trace(S) + v @ v - 2 * np.sqrt(v @ S @ v)
    singular_root = 1e-7  # the square root of rounding in the variance 0
    np.testing.assert_allclose(D[2, 3], expected, atol=singular_root)
    np.testing.assert_allclose(D[0, 1], 2 * 1.5**2)
    np.testing.assert_allclose(D[0, 3], ((m - 2) ** 2).sum() + np.trace(S), rtol=1e-6)


def test_covariances_have_ledoit_wolf_shrinkage():
    arrays = collection(12, 3, n=8)  # fewer points than dimensions
    D = dk.divergence_matrix(arrays, "kullback-leibler", estimator="gaussian")
    fits = [LedoitWolf().fit(x.astype(np.float64)) for x in arrays]
    for (i, a), (j, b) in itertools.permutations(enumerate(fits), 2):
        shift = a.location_ - b.location_
        log_ratio = np.subtract(*(np.linalg.slogdet(f.covariance_)[1] for f in (b, a)))
        expected = (
            np.trace(b.precision_ @ a.covariance_) + shift @ b.precision_ @ shift - 12 + log_ratio
        ) / 2
        np.testing.assert_allclose(D[i, j], expected, rtol=1e-6)


def test_divergences_are_finite_in_two_hundred_dimensions():
    arrays = collection(200, 3, n=100)
    for name in dk.GaussianDivergence.divergences:
        D = dk.divergence_matrix(arrays, name, estimator="gaussian")
        assert np.isfinite(D).all()
        assert (D[~np.eye(3, dtype=bool)] > 0).all()
        if name == "jensen-shannon":
            assert D.max() <= np.log(2)


def test_renyi_of_order_half_is_twice_bhattacharyya_and_order_one_is_kullback_leibler():
    arrays = collection(3)
    make = partial(dk.divergence_matrix, arrays, estimator="gaussian")
    np.testing.assert_array_equal(make("renyi"), 2 * make("bhattacharyya"))
    np.testing.assert_allclose(make("renyi", alpha=1 + 1e-6), make("kullback-leibler"), rtol=1e-4)


def test_renyi_above_one_is_infinite_where_the_integral_diverges():
    narrow, wide = np.array([[-1.0], [1.0]]), np.array([[-2.0], [2.0]])  # variances 1 and 4
    D = dk.divergence_matrix([narrow, wide], "renyi", alpha=2, estimator=EXACT)
    np.testing.assert_allclose(D[0, 1], -np.log(np.sqrt(7) / 4))  # int p^2 / q = 4 / sqrt(7)
    assert D[1, 0] == np.inf
    half = np.array([[-2.0], [0.0], [0.0], [2.0]])
    D = dk.divergence_matrix([wide, half], "renyi", alpha=2, estimator=EXACT)
    assert D[0, 1] == np.inf  # 2 S_q - S_p is 0


def test_symmetric_is_the_mean_of_both_directions():
    arrays = collection(2)
    D = dk.divergence_matrix(arrays, "kl", estimator="gaussian")
    symmetric = dk.divergence_matrix(arrays, "kl", estimator="gaussian", symmetric=True)
    np.testing.assert_allclose(symmetric, (D + D.T) / 2, rtol=1e-15)


def test_linear_maps_change_rounding_only():
    arrays = collection(3)
    maps = np.array([[1e-3, 2.0, 0.0], [0.0, 5.0, 1.0], [0.0, 0.0, 40.0]])
    for name in ("kullback-leibler", "hellinger", "renyi", "bhattacharyya"):
        D = dk.divergence_matrix(arrays, name, estimator=EXACT)
        mapped = dk.divergence_matrix([x.astype(np.float64) @ maps for x in arrays], name, estimator=EXACT)
        np.testing.assert_allclose(mapped, D, rtol=1e-3, atol=1e-5)  # float32 points


def test_values_do_not_depend_on_batches(monkeypatch):
    arrays = collection(5, 9)
    for name in dk.GaussianDivergence.divergences:
        expected = dk.divergence_matrix(arrays, name, arrays, estimator="gaussian")
        with monkeypatch.context() as patch:
            patch.setattr("dkdist.pairwise_matrices.gaussian_divergences.PAIR_BATCH_VALUES", 100)
            D = dk.divergence_matrix(arrays, name, arrays, estimator="gaussian")
        np.testing.assert_array_equal(D, expected)


def test_more_sobol_points_reduce_the_error_of_jensen_shannon():
    rng = np.random.default_rng(0)
    errors = {64: [], 1024: [], 16384: []}
    for _ in range(20):
        m, s = rng.uniform(0, 3), np.exp(rng.normal())
        fits = (np.zeros(1), np.eye(1)), (np.full(1, m), np.full((1, 1), s))
        expected = integrate(INTEGRANDS["jensen-shannon"], 1, fits)
        a, b = (_density(*fit, SetPosition(0, False)) for fit in fits)
        for n in errors:
            errors[n].append(GaussianPairs("jensen-shannon", None, n, 0.5, True).pair(a, b) - expected)
    rms = {n: np.sqrt(np.mean(np.square(e))) for n, e in errors.items()}
    assert rms[64] > 4 * rms[1024] > 16 * rms[16384]
    assert rms[1024] < 3e-4


def test_integer_weights_equal_repeated_points():
    arrays = collection(2)
    weights = [np.random.default_rng(i).integers(1, 4, len(x)) for i, x in enumerate(arrays)]
    weighted = dk.SampleSets.from_arrays(arrays, weights)
    repeated = [np.repeat(x, n, axis=0) for x, n in zip(arrays, weights, strict=True)]
    for name in dk.GaussianDivergence.divergences:
        D, expected = (dk.divergence_matrix(s, name, estimator=EXACT) for s in (weighted, repeated))
        np.testing.assert_allclose(D, expected, rtol=1e-4, atol=1e-6)


def test_sets_without_density_raise_and_name_the_set():
    arrays = collection(2)
    point, equal, line = np.ones((1, 2)), np.full((5, 2), 0.1), np.linspace(0, 1, 9)[:, None] * np.ones(2)
    for bad in (point, equal):
        with pytest.raises(dk.SampleSetError, match=r"set 4 has one distinct point, .* 'wasserstein'"):
            dk.divergence_matrix([*arrays, bad], "kl", estimator="gaussian")
    with pytest.raises(dk.SampleSetError, match=r"set 1 of other has a singular covariance, .*shrinkage="):
        dk.divergence_matrix(arrays, "kl", [arrays[0], line], estimator=EXACT)
    assert np.isfinite(dk.divergence_matrix([*arrays, line], "kl", estimator="gaussian")).all()


@pytest.mark.parametrize(
    ("estimator", "name", "message"),
    [
        (dk.GaussianDivergence(shrinkage=2), "hellinger", "shrinkage must be .* a number from 0 to 1"),
        (dk.GaussianDivergence(n_points=1000), "jensen-shannon", "n_points must be a power of two"),
        (dk.GaussianDivergence(n_points=512), "hellinger", "n_points=512 has no effect with divergence='hel"),
        ("gaussian", "chi2", r"with estimator 'gaussian'; got 'chi2'\. Use estimator 'plugin'"),
        ("entropy", "bhattacharyya", r"got 'bhattacharyya'\. Use estimator 'gaussian'"),
    ],
)
def test_invalid_options_raise(estimator, name, message):
    with pytest.raises(ValueError, match=message):
        dk.divergence_matrix(collection(2), name, estimator=estimator)


@pytest.mark.parametrize(("d", "stated"), [(3, 0.0004), (20, 0.0025)])
def test_jensen_shannon_has_the_stated_error(d, stated):
    rng, n, squares = np.random.default_rng(d), 50_000, []
    reference_error = np.log(2) / 2 / np.sqrt(2 * n)  # terms from 0 to log 2
    for _ in range(10):
        A, B = rng.normal(size=(2, d, 2 * d))
        S, S2 = A @ A.T / (2 * d), (A @ A.T + B @ B.T) / (4 * d)
        m = rng.normal(size=d)
        m *= rng.uniform(0, 4) / np.linalg.norm(m)
        a, b = (_density(*fit, SetPosition(0, False)) for fit in ((np.zeros(d), S), (m, S2)))
        p, q = multivariate_normal(np.zeros(d), S), multivariate_normal(m, S2)
        samples = (mean + rng.standard_normal((n, d)) @ fit.factor.T for mean, fit in ((0, a), (m, b)))
        log_ratios = [p.logpdf(x) - q.logpdf(x) for x in samples]
        entropies = [entr(expit(t)) + entr(expit(-t)) for t in log_ratios]
        expected = np.log(2) - np.mean(entropies)
        squares.append((GaussianPairs("jensen-shannon", None, 1024, 0.5, True).pair(a, b) - expected) ** 2)
    assert np.mean(squares) < 1.5**2 * (stated**2 + reference_error**2)  # 10 pairs: +- 25 %
