"""Coresets by other kernels than the Gaussian: distances against all pairs, laws of samples, merging, refusals."""

from __future__ import annotations

import pickle
from itertools import pairwise

import dask.array as da
import numpy as np
import pytest

import dkdist as dk
from dkdist.coresets import merging
from dkdist.coresets import selection as coreset_selection
from dkdist.kernels.kernel_sums import kernel_matrix as matrix_of_few
from dkdist.kernels.registry import MAX_FREQUENCY, names_with

from .kernel_profiles import kernel_matrix

OTHERS = sorted(set(names_with("sample_frequencies")) - {"gaussian"})
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


def square(w, few, K):
    """D^2 by all pairs in float64."""
    apart = w.copy()
    np.subtract.at(apart, few.indices, few.weights)
    return max(0.0, float(apart @ K @ apart))


def made(kernel, size=SIZE, points=P, **options):
    return dk.coreset(points, size, kernel=kernel, **{"random_state": 0, "sigma": SIGMA} | options)


def lazily(points=P):
    return da.from_array(points, chunks=(300, points.shape[1]))


@pytest.mark.parametrize("kernel", [*OTHERS, "gaussian"])
@pytest.mark.parametrize("d", [1, 3, 9])
def test_kernels_of_few_points(kernel, d):
    x = RNG.normal(size=(40, d))
    x[1] = x[0]
    expected = kernel_matrix(x / 0.8, x / 0.8, kernel)
    np.testing.assert_allclose(matrix_of_few(x, x, 0.8, kernel), expected, rtol=1e-13)


@pytest.mark.parametrize("kernel", OTHERS)
@pytest.mark.parametrize("method", ["swap", "halving", "stratified", "random"])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_distance_is_that_of_all_pairs(kernel, method, weighted):
    w = WEIGHTS["some none"] if weighted else EQUAL
    for optimal in (False, True):
        options = {"weights": w} if weighted else {}
        few = made(kernel, method=method, optimal_weights=optimal, **options)
        assert len(set(few.indices.tolist())) == SIZE
        assert abs(few.distance**2 - square(w, few, MATRICES[kernel])) <= 1.01e-8 * w.sum() ** 2


@pytest.mark.parametrize("kernel", OTHERS)
@pytest.mark.parametrize("d", [1, 2, 5])
def test_distances_in_one_to_five_dimensions(kernel, d):
    points = RNG.normal(size=(500, d))
    few = made(kernel, points=points, sigma=1.0)
    assert (
        abs(few.distance**2 - square(np.full(500, 1 / 500), few, kernel_matrix(points, points, kernel)))
        <= 1.01e-8
    )


def frequencies(kernel, count, d, rng):
    """Of sigma = 1, by NumPy's own distributions."""
    g = rng.standard_normal((count, d))
    if kernel == "laplace":
        return rng.standard_cauchy((count, d))
    if kernel == "rational-quadratic":
        return g * np.sqrt(rng.exponential(size=(count, 1)))
    twice = {"matern12": 1, "matern32": 3, "matern52": 5}[kernel]
    return g * np.sqrt(twice / rng.chisquare(twice, (count, 1)))


@pytest.mark.parametrize("kernel", OTHERS)
@pytest.mark.parametrize("streamed", [False, True])
def test_estimates_are_within_their_standard_error(kernel, streamed, monkeypatch):
    """The mean over 2,048 frequencies, whose spread is that of independent ones or less."""
    monkeypatch.setattr(coreset_selection, "MAX_EXACT_POINTS", 100)
    points = np.pad(P, ((0, 0), (0, 1)))  # in space, where no sum is sorted
    few = made(kernel, points=lazily(points) if streamed else points)
    exact = square(EQUAL, few, MATRICES[kernel])
    apart = EQUAL.copy()
    apart[few.indices] -= few.weights
    waves = frequencies(kernel, 2**13, 2, np.random.default_rng(1)) @ (P - 53).T / SIGMA
    spread = ((np.cos(waves) @ apart) ** 2 + (np.sin(waves) @ apart) ** 2).std()
    assert (
        0 < abs(few.distance**2 - exact) <= 4.5 * spread / np.sqrt(coreset_selection.N_DISTANCE_FEATURES / 2)
    )


@pytest.mark.parametrize("kernel", OTHERS)
def test_samples_have_the_distance_that_theory_says_and_swaps_are_nearer(kernel):
    """Without repetition: E D^2 = (1 - mean k) / size (n - size) / (n - 1); in strata the mean of those of each."""
    K, result = MATRICES[kernel], {}
    for method, n_seeds in (("random", 60), ("stratified", 30), ("swap", 3)):
        result[method] = [
            square(EQUAL, made(kernel, method=method, random_state=s), K) for s in range(n_seeds)
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
def test_points_chosen_by_their_kernel_are_nearer_than_those_of_the_gaussian(kernel):
    own, other = (
        np.mean([square(EQUAL, made(name, random_state=s), MATRICES[kernel]) for s in range(5)])
        for name in (kernel, "gaussian")
    )
    assert own < 0.97 * other


@pytest.mark.parametrize("kernel", OTHERS)
@pytest.mark.parametrize("kind", WEIGHTS)
@pytest.mark.parametrize("streamed", [False, True])
def test_weights_keep_to_the_law(kernel, kind, streamed):
    w, K = WEIGHTS[kind], MATRICES[kernel]
    for method in ("swap", "halving", "stratified"):
        few = made(kernel, points=lazily() if streamed else P, weights=w, method=method)
        assert few.weights.sum() == pytest.approx(w.sum(), rel=1e-12)
        assert (few.weights > 0).all()
        assert square(w, few, K) <= (w.sum() ** 2 - w @ K @ w) / SIZE
        if kind == "one heavy":
            assert few.weights[few.indices == 0] == [2000.0]


@pytest.mark.parametrize("kernel", OTHERS)
@pytest.mark.parametrize("streamed", [False, True])
def test_optimal_weights_are_optimal(kernel, streamed):
    K, points = MATRICES[kernel], lazily() if streamed else P
    equal, optimal = (made(kernel, points=points, optimal_weights=flag) for flag in (False, True))
    np.testing.assert_array_equal(optimal.indices, equal.indices)
    own, overlaps = K[np.ix_(equal.indices, equal.indices)], K[equal.indices].mean(axis=1)
    least = K.mean() - overlaps @ np.linalg.solve(own, overlaps)
    result = square(EQUAL, optimal, K)
    assert result <= square(EQUAL, equal, K)
    assert result == pytest.approx(least, abs=1e-10)
    assert optimal.distance <= equal.distance


@pytest.mark.parametrize("kernel", OTHERS)
def test_merged_coresets_are_as_near_as_one_made_at_once(kernel):
    K = MATRICES[kernel]
    at_once = np.mean([np.sqrt(square(EQUAL, made(kernel, 16, random_state=s), K)) for s in range(3)])
    parts = [made(kernel, 128, points=part) for part in np.split(P, 4)]
    pairs = [dk.merge_coresets(two, 16, random_state=0) for two in (parts[:2], parts[2:])]
    for few in (dk.merge_coresets(parts, 16, random_state=0), dk.merge_coresets(pairs, 16, random_state=0)):
        assert few.kernel == kernel
        np.testing.assert_array_equal(few.points, P[few.indices])
        assert np.sqrt(square(EQUAL, few, K)) <= min(few.distance, 1.1 * at_once)
    best = dk.merge_coresets(parts, 16, optimal_weights=True, random_state=0)
    assert square(EQUAL, best, K) <= best.distance**2
    assert best.kernel == dk.merge_coresets(parts).kernel == kernel


def test_a_stream_of_points(monkeypatch):
    monkeypatch.setattr(merging, "BLOCK_POINTS", 200)
    result = []
    for cuts in ([0, 1, 500, N], [0, 700, N]):
        running = dk.RunningCoreset(8, sigma=SIGMA, kernel="matern32", random_state=0)
        for a, b in pairwise(cuts):
            running = pickle.loads(pickle.dumps(running.add(P[a:b])))
        result.append(running.coreset())
    few, K = result[0], MATRICES["matern32"]
    np.testing.assert_array_equal(few.points, result[1].points)  # no cut changes a bit
    assert few.kernel == running.kernel == "matern32"
    at_once = square(EQUAL, made("matern32", 8), K)
    assert np.sqrt(square(EQUAL, few, K)) <= min(few.distance, 1.25 * np.sqrt(at_once))


def test_thinning_takes_the_coreset_of_each_set(tmp_path):
    sets = [P.astype("f4"), P[:200].astype("f4")]
    thinning = dk.CoresetThinning(20, sigma=SIGMA, random_state=0, kernel="laplace").fit(sets)
    dk.save_model(thinning, tmp_path / "m.npz")
    loaded = dk.load_model(tmp_path / "m.npz")
    assert loaded.kernel == "laplace"
    for few, points in zip(loaded.transform(sets), sets, strict=True):
        expected = made("laplace", 20, points=points)
        np.testing.assert_array_equal(few, expected.points.astype("f4"))
        assert not np.array_equal(few, made("gaussian", 20, points=points).points.astype("f4"))


def test_a_coreset_tells_its_kernel():
    few = pickle.loads(pickle.dumps(made("matern52")))
    assert "kernel='matern52'" in repr(few)
    assert "matern52, sigma 0.7" in few._repr_html_()
    assert "kernel='laplace'" in repr(dk.CoresetThinning(kernel="laplace"))


def test_a_wide_exponential_kernel_stands_for_the_energy_distance():
    """As the refusal of "energy" says."""
    few = dk.coreset(P, 20, sigma=3 * np.ptp(P, axis=0).max(), kernel="matern12", random_state=0)
    energy = dk.kernel_distance(P, few.points, weights=(None, few.weights), kernel="energy", squared=True)
    assert few.distance**2 * few.sigma == pytest.approx(energy, rel=0.01)


def never(*_):
    raise AssertionError("nothing is read before the kernel is known")


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
def test_kernels_without_frequencies_are_refused_before_anything_is_read(kernel, message):
    unread = da.map_blocks(never, lazily(), dtype=float, meta=np.empty((0, 0)))
    calls = (
        lambda: made(kernel),
        lambda: made(kernel, points=unread),
        lambda: dk.RunningCoreset(3, sigma=1.0, kernel=kernel),
        lambda: dk.CoresetThinning(3, kernel=kernel).fit([P]),
        lambda: dk.CoresetThinning(3).fit([P]).set_params(kernel=kernel).transform([P]),
    )
    for call in calls:
        with pytest.raises(ValueError, match=message):
            call()


def test_what_does_not_go_together_is_refused(monkeypatch):
    with pytest.raises(
        ValueError, match=r"the same kernel; got 'matern12' \(coreset 0\) and 'laplace' \(coreset 1\)"
    ):
        dk.merge_coresets([made("matern12", 5), made("laplace", 5)], 3)
    with pytest.raises(
        ValueError, match=r"got sigma=0.7 and 2 dimensions for coreset 0, sigma=0.8 and 2 for coreset 1"
    ):
        dk.merge_coresets([made("laplace", 5), made("laplace", 5, sigma=0.8)], 3)
    monkeypatch.setattr(coreset_selection, "MAX_EXACT_POINTS", 100)
    far = np.r_[P, [[2e5, 0]]]  # beyond the reach of the highest frequencies in float32
    assert MAX_FREQUENCY * 2e5 > 2**30 > 2e5
    dk.coreset(np.pad(far, ((0, 0), (0, 2))), 5, sigma=1.0, random_state=0)
    with pytest.raises(ValueError, match=r"sigma=1 is too small for points 2e\+05 wide"):
        dk.coreset(np.pad(far, ((0, 0), (0, 2))), 5, sigma=1.0, kernel="matern32", random_state=0)
