"""Divergence matrices: values, symmetry, and identical results for stores, threads and clusters."""

from __future__ import annotations

import itertools
from typing import Any

import dask
import numpy as np
import pytest
from distributed import Client
from oracles import reflected_density
from zarr.storage import MemoryStore

import dkdist as dk
from dkdist._runtime import pairs
from dkdist.embeddings._density_numba import MIN_DENSITY
from dkdist.pairwise_matrices.divergence_params import HalfEntropyJS, SetPosition

MATRICES: list[dict[str, Any]] = [
    {"divergence": "jensen-shannon"},
    {"divergence": "jensen-shannon", "estimator": dk.EntropyDivergence(mixture="halves", random_state=3)},
    {"divergence": "jensen-shannon", "estimator": dk.HeldOutDivergence(domain="unit", random_state=3)},
    {"divergence": "kullback-leibler", "estimator": "knn"},
    {"divergence": "renyi", "estimator": "knn", "alpha": 0.7, "symmetric": True},
    {"divergence": "hellinger", "estimator": "knn", "k": 2},
    {"divergence": "total-variation", "estimator": "plugin"},
    {"divergence": "kullback-leibler", "estimator": dk.PluginDivergence(structure="marginal")},
    {"divergence": "renyi", "estimator": dk.PluginDivergence(domain="unit"), "alpha": 2},
    {"divergence": "kullback-leibler", "estimator": "gaussian"},
    {"divergence": "renyi", "estimator": "gaussian", "alpha": 0.7, "symmetric": True},
    {"divergence": "bhattacharyya", "estimator": dk.GaussianDivergence(shrinkage=0.1)},
    {"divergence": "wasserstein", "estimator": "gaussian"},
    {"divergence": "jensen-shannon", "estimator": "gaussian"},
    {
        "divergence": lambda p, q: p * np.log(p / q) - p + q,
        "estimator": dk.PluginDivergence(bandwidth=0.1),
    },
]


def estimator_name(options: dict[str, Any]) -> str:
    estimator = options.get("estimator", "entropy")
    return estimator if isinstance(estimator, str) else estimator.name


def is_random(options: dict[str, Any]) -> bool:
    return getattr(options.get("estimator"), "random_state", None) is not None


names = [f"{estimator_name(m)}-{m['divergence']}" for m in MATRICES]
for_each_matrix = pytest.mark.parametrize(
    "options", MATRICES, ids=[n if "function" not in n else "kappa" for n in names]
)


def collection(n_sets: int = 13, d: int = 2, seed: int = 0) -> dk.SampleSets:
    rng = np.random.default_rng(seed)
    return dk.SampleSets.from_arrays(
        [rng.beta(1 + i % 3, 2, (int(n), d)) for i, n in enumerate(rng.integers(12, 60, n_sets))]
    )


@for_each_matrix
def test_tiles_stores_and_schedulers_give_identical_results(
    options: dict[str, Any], monkeypatch: Any
) -> None:
    sets = collection()
    expected = dk.divergence_matrix(sets, **options)
    assert expected.shape == (13, 13)
    assert expected.dtype == np.float64
    np.testing.assert_array_equal(np.diag(expected), 0)
    memory = MemoryStore()
    dk.write_sets(memory, sets)
    for block_sets, scheduler in ((1, "threads"), (5, "sync"), (13, "threads")):
        with dask.config.set(scheduler=scheduler):
            store = dk.open_sets(memory, block_sets=block_sets)
            np.testing.assert_array_equal(dk.divergence_matrix(store, **options), expected)
    monkeypatch.setattr(pairs, "MIN_TILES_PER_SIDE", 3)
    monkeypatch.setattr(pairs, "SEGMENT_TILES", 2)
    np.testing.assert_array_equal(dk.divergence_matrix(list(sets), **options), expected)


@for_each_matrix
def test_symmetry_and_other(options: dict[str, Any]) -> None:
    sets = collection()
    D = dk.divergence_matrix(sets, **options)
    directed = options["divergence"] in ("kullback-leibler", "renyi") or callable(options["divergence"])
    directed = directed and "symmetric" not in options
    assert np.array_equal(D, D.T) != directed
    cross = dk.divergence_matrix(sets[:5], other=sets, **options)
    assert cross.shape == (5, 13)
    if estimator_name(options) == "plugin":  # domain and bandwidth are those of other in both cases
        off_diagonal, up_to_rounding = ~np.eye(5, 13, dtype=bool), 1e-15
        np.testing.assert_array_equal(cross[off_diagonal], D[:5][off_diagonal])
        assert np.abs(np.diag(cross)).max() < up_to_rounding
    elif not is_random(options):  # halves depend on the position
        off_diagonal = ~np.eye(5, 13, dtype=bool)
        np.testing.assert_array_equal(cross[off_diagonal], D[:5][off_diagonal])
    assert np.isfinite(cross).all()


@pytest.mark.parametrize("options", [m for m in MATRICES if not is_random(m)])
def test_permuting_sets_permutes_the_matrix(options: dict[str, Any]) -> None:
    sets, order = collection(), np.random.default_rng(1).permutation(13)
    D = dk.divergence_matrix(sets, **options)
    np.testing.assert_array_equal(dk.divergence_matrix(sets[order], **options), D[np.ix_(order, order)])


@pytest.mark.parametrize(
    "options", [m for m in MATRICES if not is_random(m)]
)  # random halves depend on positions
def test_permuting_points_changes_rounding_only(options: dict[str, Any]) -> None:
    sets = collection(5)
    permuted = [x[np.random.default_rng(2).permutation(len(x))] for x in sets]
    np.testing.assert_allclose(
        dk.divergence_matrix(permuted, **options), dk.divergence_matrix(sets, **options), rtol=1e-3, atol=1e-5
    )


@pytest.mark.parametrize("factor", [0.001, 70.0])
@pytest.mark.parametrize("estimator", ["entropy", "knn", "plugin"])
def test_units_do_not_change_divergences(estimator: str, factor: float) -> None:
    sets = collection(6)
    name = "hellinger" if estimator == "knn" else "jensen-shannon"
    scaled = [factor * (x + 3) for x in sets]
    np.testing.assert_allclose(
        dk.divergence_matrix(scaled, name, estimator=estimator),
        dk.divergence_matrix(sets, name, estimator=estimator),
        atol=2e-3,
    )


KAPPAS = {
    "jensen-shannon": lambda p, q: (p * np.log(2 * p / (p + q)) + q * np.log(2 * q / (p + q))) / 2,
    "hellinger": lambda p, q: (np.sqrt(p) - np.sqrt(q)) ** 2 / 2,
    "total-variation": lambda p, q: np.abs(p - q),
    "chi2": lambda p, q: (p - q) ** 2 / (p + q),
    "kullback-leibler": lambda p, q: p * np.log(p / q),
}


@pytest.mark.parametrize("d", [1, 2])
def test_plugin_integrates_reflected_densities(d: int) -> None:
    sets, h, q = collection(3, d), 0.12, 60
    grid = (np.arange(q) + 0.5) / q
    nodes = np.stack(np.meshgrid(*[grid] * d, indexing="ij"), -1).reshape(-1, d)
    p = [reflected_density(x, [h] * d, nodes) for x in sets]
    options: Any = {"estimator": dk.PluginDivergence(bandwidth=h, domain="unit")}
    for name, kappa in KAPPAS.items():
        truth = np.array([[kappa(a, b).mean() for b in p] for a in p])
        np.testing.assert_allclose(dk.divergence_matrix(sets, name, **options), truth, rtol=4e-3, atol=2e-4)
    renyi = [[np.log(np.mean(a**1.5 * b**-0.5)) / 0.5 for b in p] for a in p]
    result = dk.divergence_matrix(sets, "renyi", alpha=1.5, **options)
    np.testing.assert_allclose(result, renyi, rtol=4e-3, atol=2e-4)


def test_plugin_matches_embedding_and_sums_marginals() -> None:
    sets = collection(6)
    for structure in ("joint", "marginal"):
        options: Any = {"structure": structure, "bandwidth": 0.15, "n_basis": 20}
        A = dk.DivergenceEmbedding("hellinger", **options).fit_transform(sets).astype(np.float64)
        d2 = ((A[:, None] - A[None]) ** 2).sum(-1)
        D = dk.divergence_matrix(sets, "hellinger", estimator=dk.PluginDivergence(**options))
        np.testing.assert_allclose(D, d2, rtol=1e-4, atol=1e-6)
    options["domain"] = "unit"
    marginal_sum = dk.divergence_matrix(sets, "renyi", estimator=dk.PluginDivergence(**options))
    options["structure"] = "joint"
    by_dimension = [
        dk.divergence_matrix([x[:, [j]] for x in sets], "renyi", estimator=dk.PluginDivergence(**options))
        for j in (0, 1)
    ]
    np.testing.assert_allclose(marginal_sum, by_dimension[0] + by_dimension[1], rtol=1e-4, atol=1e-6)


def test_plugin_weights_count_as_repeated_points() -> None:
    sets = collection(5)
    counts = np.random.default_rng(0).integers(1, 4, sets.n_points)
    weighted = dk.SampleSets(sets.points, sets.offsets, counts)
    repeated = [
        np.repeat(x, counts[a:b], axis=0)
        for x, a, b in zip(sets, sets.offsets[:-1], sets.offsets[1:], strict=True)
    ]
    options: Any = {"estimator": dk.PluginDivergence(bandwidth=0.1)}
    np.testing.assert_allclose(
        dk.divergence_matrix(weighted, **options), dk.divergence_matrix(repeated, **options), atol=1e-5
    )
    for estimator in ("entropy", "knn"):
        with pytest.raises(
            dk.SampleSetError, match=f"have weights; estimator='{estimator}' does not use weights"
        ):
            dk.divergence_matrix(weighted, KNOWN[estimator], estimator=estimator)
        with pytest.raises(dk.SampleSetError, match=r"all sets of other have weights"):
            dk.divergence_matrix(sets, KNOWN[estimator], weighted, estimator=estimator)


KNOWN = {"entropy": "jensen-shannon", "knn": "hellinger", "plugin": "hellinger"}


def test_halves_depend_on_seed_and_are_noisier() -> None:
    rng = np.random.default_rng(0)
    sets = [rng.normal(size=(200, 2)) for _ in range(12)]
    halves = [
        dk.divergence_matrix(sets, estimator=dk.EntropyDivergence(mixture="halves", random_state=seed))
        for seed in (0, 0, 1)
    ]
    np.testing.assert_array_equal(halves[0], halves[1])
    upper = np.triu_indices(12, 1)
    assert (halves[0][upper] != halves[2][upper]).all()
    D = dk.divergence_matrix(sets)  # the truth is zero everywhere
    assert np.std(halves[0][upper]) > 2 * np.std(D[upper])
    assert abs(D[upper].mean()) < 0.01
    assert abs(halves[0][upper].mean()) < 0.05


@pytest.mark.parametrize("d", [1, 3])
def test_halves_are_symmetric(d: int) -> None:
    measure = HalfEntropyJS(k=3, seed=0, floor=False)
    output = measure.prepare(collection(12, d), [SetPosition(i, i > 5) for i in range(12)])
    for a, b in itertools.combinations(output, 2):
        assert measure.pair(a, b) == measure.pair(b, a)


def held_out_estimate(x, y, orders, h):
    """Return P1's estimate by reflected Gaussians: densities of one half, averaged over the other, both ways."""
    halves = [(s[o][: -(-len(s) // 2)], s[o][-(-len(s) // 2) :]) for s, o in zip((x, y), orders, strict=True)]
    result = []
    for a, b in ((0, 1), (1, 0)):
        p, q = (lambda at, s=s, a=a: np.maximum(reflected_density(s[a], h, at), MIN_DENSITY) for s in halves)
        sides = [
            np.mean(np.log(own(s[b]) / ((own(s[b]) + other(s[b])) / 2)))
            for s, own, other in zip(halves, (p, q), (q, p), strict=True)
        ]
        result.append(sum(sides) / 2)
    return sum(result) / 2


@pytest.mark.parametrize("structure", ["joint", "marginal"])
@pytest.mark.parametrize("d", [1, 2, 3])
def test_held_out_divergence_matches_the_paper(d: int, structure: str) -> None:
    sets = collection(4, d)
    h = [0.15] * d
    options: Any = {"bandwidth": 0.15, "domain": "unit", "structure": structure, "random_state": 7}
    result = dk.divergence_matrix(sets, estimator=dk.HeldOutDivergence(**options))
    other_seed = dk.HeldOutDivergence(**options | {"random_state": 8})
    assert (result != dk.divergence_matrix(sets, estimator=other_seed)).any()
    orders = [np.random.default_rng([7, i, False]).permutation(len(x)) for i, x in enumerate(sets)]
    for i, j in itertools.combinations(range(4), 2):
        x, y = sets[i].astype(np.float64), sets[j].astype(np.float64)
        pair = (orders[i], orders[j])
        if structure == "joint":
            expected = held_out_estimate(x, y, pair, h)
        else:
            expected = sum(held_out_estimate(x[:, [k]], y[:, [k]], pair, [0.15]) for k in range(d))
        # the series omits degrees that are damped below 3e-4, along each axis
        assert result[i, j] == pytest.approx(expected, abs=2e-3 * d)


def test_held_out_divergence_is_accurate_and_validates_input() -> None:
    """Beta distributions with integrated divergence; the standard error of mean logarithms is below 1 / sqrt(n)."""
    rng, n = np.random.default_rng(0), 4000
    x, y = rng.beta(2, 3, (n, 1)), rng.beta(3, 2, (n, 1))
    u = (np.arange(4000) + 0.5) / 4000
    p, q = 12 * u * (1 - u) ** 2, 12 * u**2 * (1 - u)
    truth = KAPPAS["jensen-shannon"](p, q).mean()
    halves = dk.HeldOutDivergence(domain="unit", random_state=0)
    result = dk.divergence_matrix([x, y], estimator=halves)[0, 1]
    assert abs(result - truth) < 2 / np.sqrt(n)
    with pytest.raises(ValueError, match=r"at most 3 dimensions; got 4\. Use structure='marginal'"):
        dk.divergence_matrix(collection(3, 4), estimator=dk.HeldOutDivergence(structure="joint"))
    with pytest.raises(dk.SampleSetError, match=r"set 1 has 1 point.*two halves need at least 2"):
        dk.divergence_matrix([x, x[:1]], estimator="held-out")
    with pytest.raises(dk.SampleSetError, match="have weights; estimator='held-out'"):
        dk.divergence_matrix(
            dk.SampleSets.from_arrays([x, y], weights=[np.ones(n)] * 2), estimator="held-out"
        )
    with pytest.raises(TypeError, match="n_basis"):
        dk.HeldOutDivergence(n_basis=8)  # type: ignore[call-arg]


def test_client_gives_identical_results(tmp_path: Any) -> None:
    sets = collection()
    dk.write_sets(tmp_path / "s.zarr", sets)
    store = dk.open_sets(tmp_path / "s.zarr", block_sets=4)
    with Client(processes=False, n_workers=1, threads_per_worker=2, dashboard_address="127.0.0.1:0"):
        for options in MATRICES[:3] + MATRICES[-2:]:
            result = dk.divergence_matrix(store, **options)
            np.testing.assert_array_equal(result, dk.divergence_matrix(sets, **options))
            cross = dk.divergence_matrix(store[:3], other=store, **options)
            np.testing.assert_array_equal(cross, dk.divergence_matrix(sets[:3], other=sets, **options))


@pytest.mark.parametrize(
    ("name", "divergence", "estimator"),
    [
        ("entropy", "jensen-shannon", dk.EntropyDivergence(4, "all", "raise", None)),
        ("knn", "hellinger", dk.KNNDivergence(4, "raise")),
        ("plugin", "chi2", dk.PluginDivergence(32, "auto", "robust", "auto")),
    ],
)
def test_estimator_name_means_default_options(name: str, divergence: str, estimator: Any) -> None:
    sets = collection()
    expected = dk.divergence_matrix(sets, divergence, estimator=estimator)
    assert np.array_equal(dk.divergence_matrix(sets, divergence, estimator=name), expected)
    if name != "plugin":
        with_k = dk.divergence_matrix(sets, divergence, estimator=type(estimator)(k=6))
        assert (with_k != expected).any()
        assert np.array_equal(dk.divergence_matrix(sets, divergence, estimator=name, k=6), with_k)


def test_options_require_an_estimator_object() -> None:
    sets = collection(3)
    with pytest.raises(TypeError, match="n_basis"):
        dk.EntropyDivergence(n_basis=8)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="n_basis"):
        dk.divergence_matrix(sets, "hellinger", estimator="plugin", n_basis=8)  # type: ignore[call-arg]
    with pytest.raises(
        ValueError,
        match=r"k must be omitted .* got k=5 and EntropyDivergence\(.* Pass EntropyDivergence\(k=",
    ):
        dk.divergence_matrix(sets, estimator=dk.EntropyDivergence(), k=5)
    with pytest.raises(ValueError, match=r"got k=8 and .* PluginDivergence has no k"):
        dk.divergence_matrix(sets, "hellinger", estimator=dk.PluginDivergence(), k=8)
    with pytest.raises(ValueError, match="duplicates='floor' has no effect"):
        dk.divergence_matrix(sets, estimator=dk.EntropyDivergence(duplicates="floor"))
    with pytest.raises(ValueError, match=r"divergence must be one of .* with estimator 'knn'"):
        dk.divergence_matrix(sets, "chi2", estimator=dk.KNNDivergence(k=2))
