"""Coresets: distances compared with sums over all pairs, theory of samples, order of methods, thinning of sets."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dkdist as dk
from dkdist.coresets.selection import METHODS

RNG = np.random.default_rng(0)


def distance(P, p, indices, weights, sigma):
    """Return the distance from all pairs, in float64."""
    points, signed = np.concatenate([P, P[indices]]), np.concatenate([p, -weights])
    square = ((points[:, None] - points) ** 2).sum(axis=2)
    return np.sqrt(max(0.0, signed @ np.exp(-square / (2 * sigma**2)) @ signed))


@pytest.mark.parametrize("method", [m for m in METHODS if m != "every"])
@pytest.mark.parametrize("d", [1, 2, 3, 6])
@pytest.mark.parametrize("weighted", [False, True])
def test_distance_matches_all_pairs(method, d, weighted):
    P = RNG.normal(size=(400, d)) * 3 + 100
    p = RNG.random(400) * (RNG.random(400) < 0.8) if weighted else np.full(400, 1 / 400)
    coreset = dk.coreset(P, 25, sigma=2.0, weights=p if weighted else None, method=method, random_state=1)
    assert len(coreset.indices) == len(set(coreset.indices.tolist())) == len(coreset.weights) == 25
    assert coreset.weights.sum() == pytest.approx(p.sum())
    assert coreset.distance == pytest.approx(
        distance(P, p, coreset.indices, coreset.weights, 2.0), abs=1e-4 * p.sum()
    )
    assert (p[coreset.indices] > 0).all()
    repeated = dk.coreset(P, 25, sigma=2.0, weights=p if weighted else None, method=method, random_state=1)
    np.testing.assert_array_equal(repeated.indices, coreset.indices)


def test_methods_are_ordered_by_distance():
    P = np.concatenate([RNG.normal(m, 0.5, (1500, 2)) for m in (0, 2, 5)])
    distances = {m: np.mean([dk.coreset(P, 64, sigma=0.7, method=m, random_state=s).distance for s in range(3)])
             for m in METHODS if m != "every"}  # fmt: skip
    assert distances["swap"] < 0.5 * distances["stratified"] < 0.5 * distances["random"]
    assert distances["halving"] < distances["stratified"]
    optimal = dk.coreset(P, 64, sigma=0.7, optimal_weights=True, random_state=0)
    equal = dk.coreset(P, 64, sigma=0.7, random_state=0)
    assert optimal.distance < equal.distance
    np.testing.assert_array_equal(optimal.indices, equal.indices)


def test_random_sample_has_the_theoretical_distance():
    P = RNG.normal(size=(3000, 2))
    square = ((P[:, None] - P) ** 2).sum(axis=2)
    kappa = np.exp(-square / 2).mean()
    result = [dk.coreset(P, 50, sigma=1.0, method="random", random_state=s).distance ** 2 for s in range(200)]
    assert np.mean(result) == pytest.approx((1 - kappa) / 50 * (1 - 50 / 3000), rel=0.1)
    m = dk.coreset_size(0.15, 0.1)
    is_beyond = [
        dk.coreset(P, m, sigma=1.0, method="random", random_state=s).distance > 0.15 for s in range(30)
    ]
    assert np.mean(is_beyond) <= 0.1


def test_method_every_on_a_line():
    x = RNG.permutation(np.arange(100.0))[:, None]
    coreset = dk.coreset(x, 10, sigma=20.0, method="every")
    np.testing.assert_allclose(np.sort(x[coreset.indices, 0]), 4.5 + 10 * np.arange(10), atol=0.51)
    assert coreset.distance < 0.2 * dk.coreset(x, 10, sigma=20.0, method="random", random_state=0).distance


@given(
    n=st.integers(1, 60), size=st.integers(1, 60), d=st.integers(1, 4), seed=st.integers(0, 99),
    method=st.sampled_from(["swap", "halving", "stratified", "random"]), copies=st.booleans(),
)  # fmt: skip
def test_coreset_of_random_sets(n, size, d, seed, method, copies):
    P = np.random.default_rng(seed).normal(size=(n, d))
    if copies:
        P[: n // 2] = P[0]
    coreset = dk.coreset(P, min(size, n), sigma=1.0, method=method, random_state=seed)
    assert len(set(coreset.indices.tolist())) == min(size, n)
    assert 0 <= coreset.distance <= 2
    if size >= n:
        assert coreset.distance < 1e-6


def test_large_sets_are_thinned_by_regions():
    coreset = [dk.coreset(P, 100, sigma=1.0, random_state=0) for P in RNG.normal(size=(5, 60_000, 2))]
    random_coresets = [
        dk.coreset(P, 100, sigma=1.0, method="stratified", random_state=0)
        for P in RNG.normal(size=(5, 60_000, 2))
    ]
    assert np.median([c.distance for c in coreset]) < 0.25 * np.median([c.distance for c in random_coresets])
    P = RNG.normal(size=(40_000, 5))
    coreset = dk.coreset(P, 100, sigma=3.0, random_state=0)
    exact = dk.kernel_distance(P[:20_000], P[coreset.indices], sigma=3.0, eps=1e-6)
    assert coreset.distance == pytest.approx(exact, abs=0.01)


def test_thinning_of_sets_and_stores(tmp_path):
    sets = dk.SampleSets.from_arrays([RNG.normal(i % 3, 1, (n, 2)) for i, n in enumerate((5, 900, 40, 300))])
    thinning = dk.CoresetThinning(40, random_state=0).fit(sets)
    thinned = thinning.transform(sets)
    assert thinned.sizes.tolist() == [5, 40, 40, 40]
    np.testing.assert_array_equal(thinned[0], sets[0])
    for i in (1, 3):
        assert dk.kernel_distance(thinned[i], sets[i], sigma=thinning.sigma_) < 0.02
        assert {tuple(x) for x in thinned[i].tolist()} <= {tuple(x) for x in sets[i].tolist()}
    np.testing.assert_array_equal(thinning.transform(sets[1:])[0], thinned[1])
    store = dk.write_sets(tmp_path / "s", sets)
    np.testing.assert_array_equal(
        dk.CoresetThinning(40, random_state=0).fit(store).transform(store).points, thinned.points
    )


def test_thinning_preserves_total_weight():
    sets = dk.SampleSets.from_arrays([RNG.normal(size=(200, 1))] * 2, weights=[RNG.random(200)] * 2)
    thinned = dk.CoresetThinning(30, sigma=0.5, random_state=0).fit_transform(sets)
    assert thinned.weights_of(1).sum() == pytest.approx(sets.weights_of(1).sum(), rel=1e-5)


def test_invalid_input_raises():
    P = RNG.normal(size=(10, 2))
    for message, arguments in (
        ("size must be at most the number of points, 10; got 11", {"size": 11, "sigma": 1.0}),
        ("'swap', 'halving'", {"size": 2, "sigma": 1.0, "method": "swaps"}),
        ("of one dimension; got 2", {"size": 2, "sigma": 1.0, "method": "every"}),
        ("sigma must be a positive number", {"size": 2, "sigma": 0}),
        ("must be >= 0", {"size": 2, "sigma": 1.0, "weights": -np.ones(10)}),
        ("must not all be zero", {"size": 2, "sigma": 1.0, "weights": np.zeros(10)}),
        (
            "weights must be >= 0; got -1.0 at point 3",
            {"size": 2, "sigma": 1.0, "weights": np.where(np.arange(10) == 3, -1, 1)},
        ),
        (r"must be 10 real numbers.*shape \(9,\)", {"size": 2, "sigma": 1.0, "weights": np.ones(9)}),
        (r"must be 10 real numbers.*shape \(5, 2\)", {"size": 2, "sigma": 1.0, "weights": np.ones((5, 2))}),
        ("bandwidth sigma must be .*; got 1e-40", {"size": 2, "sigma": 1e-40}),
        (
            "total weight must be .*; got 1e-199. Rescale the weights",
            {"size": 2, "sigma": 1.0, "weights": [1e-200] * 10},
        ),
    ):
        with pytest.raises(ValueError, match=message):
            dk.coreset(P, **arguments)
    for invalid_points, message in (
        ([[np.nan]], "finite"),
        (P + 1j, "complex"),
        ([["a"]], "real numbers"),
        ([[1], [1, 2]], "rows"),
    ):
        with pytest.raises(ValueError, match=message):
            dk.coreset(invalid_points, 1, sigma=1.0)
    with pytest.raises(ValueError, match="sigma=1e-09 is too small for points"):
        dk.coreset(RNG.normal(size=(30_001, 4)), 2, sigma=1e-9, method="random")
    for unit in (1e-200, 1e200):
        with pytest.raises(ValueError, match=r"width of the points must be .*Rescale points and sigma"):
            dk.coreset(unit * P, 2, sigma=unit)
    with pytest.raises(ValueError, match=r"sigma must be .*; got 1e-40"):
        dk.CoresetThinning(2, sigma=1e-40).fit([P])
    with pytest.raises(ValueError, match="most points are equal"):
        dk.coreset(np.zeros((5, 2)), 2, sigma="median")
    with pytest.raises(ValueError, match="of one dimension; got 2"):
        dk.CoresetThinning(2, sigma=1.0, method="every").fit([P])
    with pytest.raises(ValueError, match="to below 1"):
        dk.coreset_size(0.1, 1.5)
    with pytest.raises(ValueError, match="got 1e-200"):
        dk.coreset_size(1e-200)


def test_distance_is_accurate_with_an_outlier():
    P = np.concatenate([RNG.normal(size=(200, 2)), [[1e9, 0]]])
    coreset = dk.coreset(P, 10, sigma=1.0, random_state=0)
    expected = dk.kernel_distance(P, P[coreset.indices], sigma=1.0, weights=(None, coreset.weights), eps=1e-8)
    assert coreset.distance == pytest.approx(expected, rel=1e-6)


def test_model_file_round_trip_of_thinning(tmp_path):
    sets = [RNG.normal(size=(60, 2)) for _ in range(3)]
    thinning = dk.CoresetThinning(10, random_state=0).fit(sets)
    dk.save_model(thinning, tmp_path / "m.npz")
    np.testing.assert_array_equal(
        dk.load_model(tmp_path / "m.npz").transform(sets).points, thinning.transform(sets).points
    )
