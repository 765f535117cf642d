"""Coresets with other kernels than the Gaussian: distances compared with all pairs, laws of samples, merging."""

from __future__ import annotations

import pickle
from itertools import pairwise

import dask.array as da
import numpy as np
import pytest

import dkdist as dk
from dkdist.coresets import merging
from dkdist.coresets import selection as coreset_selection
from dkdist.kernels.kernel_sums import kernel_matrix as small_kernel_matrix
from dkdist.kernels.registry import MAX_FREQUENCY, names_with

from .kernel_profiles import kernel_matrix

OTHERS = sorted(set(names_with("sample_frequencies")) - {"gaussian", "triangle"})
N, SIZE, SIGMA = 1024, 32, 0.7
RNG = np.random.default_rng(0)
P = np.concatenate([RNG.normal(m, 0.5, (N // 4, 2)) for m in (0, 2, 5, 7)]) + 50
EQUAL = np.full(N, 1 / N)
WEIGHTS = {
    "one heavy": np.r_[2000.0, np.ones(N - 1)],
    "lognormal": np.exp(RNG.normal(0, 2, N)),
    "some none": RNG.random(N) * (RNG.random(N) < 0.8),
}
MATRICES = {kernel: kernel_matrix(P / SIGMA, P / SIGMA, kernel) for kernel in OTHERS}


def square(w, coreset, K):
    """Return D^2 from all pairs in float64."""
    residual = w.copy()
    np.subtract.at(residual, coreset.indices, coreset.weights)
    return max(0.0, float(residual @ K @ residual))


def make_coreset(kernel, size=SIZE, points=P, **options):
    return dk.coreset(points, size, kernel=kernel, **{"random_state": 0, "sigma": SIGMA} | options)


def as_dask(points=P):
    return da.from_array(points, chunks=(300, points.shape[1]))


@pytest.mark.parametrize("kernel", [*OTHERS, "gaussian"])
@pytest.mark.parametrize("d", [1, 3, 9])
def test_kernel_matrix_of_few_points(kernel, d):
    x = RNG.normal(size=(40, d))
    x[1] = x[0]
    expected = kernel_matrix(x / 0.8, x / 0.8, kernel)
    np.testing.assert_allclose(small_kernel_matrix(x, x, 0.8, kernel), expected, rtol=1e-13)


@pytest.mark.parametrize("kernel", OTHERS)
@pytest.mark.parametrize("method", ["swap", "halving", "stratified", "random"])
@pytest.mark.parametrize("weighted", [False, True])
def test_distance_matches_all_pairs(kernel, method, weighted):
    w = WEIGHTS["some none"] if weighted else EQUAL
    for optimal in (False, True):
        options = {"weights": w} if weighted else {}
        coreset = make_coreset(kernel, method=method, optimal_weights=optimal, **options)
        assert len(set(coreset.indices.tolist())) == SIZE
        assert abs(coreset.distance**2 - square(w, coreset, MATRICES[kernel])) <= 1.01e-8 * w.sum() ** 2


@pytest.mark.parametrize("kernel", OTHERS)
@pytest.mark.parametrize("d", [1, 2, 5])
def test_distances_in_one_to_five_dimensions(kernel, d):
    points = RNG.normal(size=(500, d))
    coreset = make_coreset(kernel, points=points, sigma=1.0)
    assert (
        abs(
            coreset.distance**2
            - square(np.full(500, 1 / 500), coreset, kernel_matrix(points, points, kernel))
        )
        <= 1.01e-8
    )


def frequencies(kernel, count, d, rng):
    """Return frequencies for sigma = 1, drawn with NumPy's distributions."""
    g = rng.standard_normal((count, d))
    if kernel == "laplace":
        return rng.standard_cauchy((count, d))
    if kernel == "rational-quadratic":
        return g * np.sqrt(rng.exponential(size=(count, 1)))
    degrees_of_freedom = {"matern12": 1, "matern32": 3, "matern52": 5}[kernel]
    return g * np.sqrt(degrees_of_freedom / rng.chisquare(degrees_of_freedom, (count, 1)))


@pytest.mark.parametrize("kernel", OTHERS)
@pytest.mark.parametrize("streamed", [False, True])
def test_estimated_distances_are_within_standard_error(kernel, streamed, monkeypatch):
    """Averages over 2,048 frequencies vary at most as much as for independent frequencies."""
    monkeypatch.setattr(coreset_selection, "MAX_EXACT_POINTS", 100)
    points = np.pad(P, ((0, 0), (0, 1)))  # in three dimensions, without sorted sums
    coreset = make_coreset(kernel, points=as_dask(points) if streamed else points)
    exact = square(EQUAL, coreset, MATRICES[kernel])
    residual = EQUAL.copy()
    residual[coreset.indices] -= coreset.weights
    waves = frequencies(kernel, 2**13, 2, np.random.default_rng(1)) @ (P - 53).T / SIGMA
    spread = ((np.cos(waves) @ residual) ** 2 + (np.sin(waves) @ residual) ** 2).std()
    assert (
        0
        < abs(coreset.distance**2 - exact)
        <= 4.5 * spread / np.sqrt(coreset_selection.N_DISTANCE_FEATURES / 2)
    )


@pytest.mark.parametrize("kernel", OTHERS)
def test_samples_follow_theory_and_swap_is_better(kernel):
    """Without replacement, E D^2 = (1 - mean k) / size (n - size) / (n - 1); for strata, the mean over the strata."""
    K, result = MATRICES[kernel], {}
    for method, n_seeds in (("random", 60), ("stratified", 30), ("swap", 3)):
        result[method] = [
            square(EQUAL, make_coreset(kernel, method=method, random_state=s), K) for s in range(n_seeds)
        ]
    order = coreset_selection.spatial_order((P - P.mean(axis=0)).astype(np.float32))
    inside = [1 - K[np.ix_(part, part)].mean() for part in np.split(order, SIZE)]
    law = {
        "random": (1 - K.mean()) / SIZE * (N - SIZE) / (N - 1),
        "stratified": np.mean(inside) / SIZE,
    }
    for method, expected in law.items():
        error = np.std(result[method]) / np.sqrt(len(result[method]))
        assert abs(np.mean(result[method]) - expected) <= 4.5 * error, method
    assert np.mean(result["swap"]) < 0.9 * law["stratified"] < 0.9 * law["random"]


@pytest.mark.parametrize("kernel", ["laplace", "matern12"])
def test_selection_by_the_kernel_beats_selection_by_the_gaussian(kernel):
    by_kernel, by_gaussian = (
        np.mean([square(EQUAL, make_coreset(name, random_state=s), MATRICES[kernel]) for s in range(5)])
        for name in (kernel, "gaussian")
    )
    assert by_kernel < 0.97 * by_gaussian


@pytest.mark.parametrize("kernel", OTHERS)
@pytest.mark.parametrize("kind", WEIGHTS)
@pytest.mark.parametrize("streamed", [False, True])
def test_weighted_coresets_follow_the_law(kernel, kind, streamed):
    w, K = WEIGHTS[kind], MATRICES[kernel]
    for method in ("swap", "halving", "stratified"):
        coreset = make_coreset(kernel, points=as_dask() if streamed else P, weights=w, method=method)
        assert coreset.weights.sum() == pytest.approx(w.sum(), rel=1e-12)
        assert (coreset.weights > 0).all()
        assert square(w, coreset, K) <= (w.sum() ** 2 - w @ K @ w) / SIZE
        if kind == "one heavy":
            assert coreset.weights[coreset.indices == 0] == [2000.0]


@pytest.mark.parametrize("kernel", OTHERS)
@pytest.mark.parametrize("streamed", [False, True])
def test_optimal_weights_are_optimal(kernel, streamed):
    K, points = MATRICES[kernel], as_dask() if streamed else P
    equal, optimal = (make_coreset(kernel, points=points, optimal_weights=flag) for flag in (False, True))
    np.testing.assert_array_equal(optimal.indices, equal.indices)
    own, overlaps = K[np.ix_(equal.indices, equal.indices)], K[equal.indices].mean(axis=1)
    minimum = K.mean() - overlaps @ np.linalg.solve(own, overlaps)
    result = square(EQUAL, optimal, K)
    assert result <= square(EQUAL, equal, K)
    assert result == pytest.approx(minimum, abs=1e-10)
    assert optimal.distance <= equal.distance


@pytest.mark.parametrize("kernel", OTHERS)
def test_merged_coresets_are_nearly_as_good_as_direct_ones(kernel):
    K = MATRICES[kernel]
    direct = np.mean([np.sqrt(square(EQUAL, make_coreset(kernel, 16, random_state=s), K)) for s in range(3)])
    parts = [make_coreset(kernel, 128, points=part) for part in np.split(P, 4)]
    pairs = [dk.merge_coresets(pair, 16, random_state=0) for pair in (parts[:2], parts[2:])]
    for coreset in (
        dk.merge_coresets(parts, 16, random_state=0),
        dk.merge_coresets(pairs, 16, random_state=0),
    ):
        assert coreset.kernel == kernel
        np.testing.assert_array_equal(coreset.points, P[coreset.indices])
        assert np.sqrt(square(EQUAL, coreset, K)) <= min(coreset.distance, 1.1 * direct)
    best = dk.merge_coresets(parts, 16, optimal_weights=True, random_state=0)
    assert square(EQUAL, best, K) <= best.distance**2
    assert best.kernel == dk.merge_coresets(parts).kernel == kernel


def test_running_coreset_with_another_kernel(monkeypatch):
    monkeypatch.setattr(merging, "BLOCK_POINTS", 200)
    result = []
    for cuts in ([0, 1, 500, N], [0, 700, N]):
        running = dk.RunningCoreset(8, sigma=SIGMA, kernel="matern32", random_state=0)
        for a, b in pairwise(cuts):
            running = pickle.loads(pickle.dumps(running.add(P[a:b])))
        result.append(running.coreset())
    coreset, K = result[0], MATRICES["matern32"]
    np.testing.assert_array_equal(coreset.points, result[1].points)  # independent of the calls of add
    assert coreset.kernel == running.kernel == "matern32"
    direct = square(EQUAL, make_coreset("matern32", 8), K)
    assert np.sqrt(square(EQUAL, coreset, K)) <= min(coreset.distance, 1.25 * np.sqrt(direct))


def test_thinning_returns_coresets_of_sets(tmp_path):
    sets = [P.astype("f4"), P[:200].astype("f4")]
    thinning = dk.CoresetThinning(20, sigma=SIGMA, random_state=0, kernel="laplace").fit(sets)
    dk.save_model(thinning, tmp_path / "m.npz")
    loaded = dk.load_model(tmp_path / "m.npz")
    assert loaded.kernel == "laplace"
    for coreset, points in zip(loaded.transform(sets), sets, strict=True):
        expected = make_coreset("laplace", 20, points=points)
        np.testing.assert_array_equal(coreset, expected.points.astype("f4"))
        assert not np.array_equal(coreset, make_coreset("gaussian", 20, points=points).points.astype("f4"))


def test_repr_of_coreset_names_the_kernel():
    coreset = pickle.loads(pickle.dumps(make_coreset("matern52")))
    assert "kernel='matern52'" in repr(coreset)
    assert "matern52, sigma 0.7" in coreset._repr_html_()
    assert "kernel='laplace'" in repr(dk.CoresetThinning(kernel="laplace"))


def test_wide_exponential_kernel_approximates_energy_distance():
    """The error message for "energy" states this."""
    coreset = dk.coreset(P, 20, sigma=3 * np.ptp(P, axis=0).max(), kernel="matern12", random_state=0)
    energy = dk.kernel_distance(
        P, coreset.points, weights=(None, coreset.weights), kernel="energy", squared=True
    )
    assert coreset.distance**2 * coreset.sigma == pytest.approx(energy, rel=0.01)


def fail(*_):
    raise AssertionError("data is read before the kernel is checked")


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        ("energy", "one of 'gaussian', .*; got 'energy', which has no random frequencies. Use 'matern12'"),
        ("epanechnikov", "kernel must be one of 'gaussian', .*'laplace'.*; got 'epanechnikov'"),
        ("gauss", "kernel must be one of 'gaussian', .*; got 'gauss'"),
        (None, "kernel must be one of 'gaussian', .*; got None"),
        (np.ones(2), "kernel must be one of 'gaussian', .*; got array"),
    ],
)  # fmt: skip
def test_kernels_without_frequencies_raise_before_reading(kernel, message):
    unread = da.map_blocks(fail, as_dask(), dtype=float, meta=np.empty((0, 0)))
    calls = (
        lambda: make_coreset(kernel),
        lambda: make_coreset(kernel, points=unread),
        lambda: dk.RunningCoreset(3, sigma=1.0, kernel=kernel),
        lambda: dk.CoresetThinning(3, kernel=kernel).fit([P]),
        lambda: dk.CoresetThinning(3).fit([P]).set_params(kernel=kernel).transform([P]),
    )
    for call in calls:
        with pytest.raises(ValueError, match=message):
            call()


def test_inconsistent_coresets_raise(monkeypatch):
    with pytest.raises(
        ValueError, match=r"the same kernel; got 'matern12' \(coreset 0\) and 'laplace' \(coreset 1\)"
    ):
        dk.merge_coresets([make_coreset("matern12", 5), make_coreset("laplace", 5)], 3)
    with pytest.raises(
        ValueError, match=r"got sigma=0.7 and 2 dimensions for coreset 0, sigma=0.8 and 2 for coreset 1"
    ):
        dk.merge_coresets([make_coreset("laplace", 5), make_coreset("laplace", 5, sigma=0.8)], 3)
    monkeypatch.setattr(coreset_selection, "MAX_EXACT_POINTS", 100)
    far = np.r_[P, [[2e5, 0]]]  # too far for the highest frequencies in float32
    assert MAX_FREQUENCY * 2e5 > 2**30 > 2e5
    dk.coreset(np.pad(far, ((0, 0), (0, 2))), 5, sigma=1.0, random_state=0)
    with pytest.raises(ValueError, match=r"sigma=1 is too small for points 2e\+05 wide"):
        dk.coreset(np.pad(far, ((0, 0), (0, 2))), 5, sigma=1.0, kernel="matern32", random_state=0)
