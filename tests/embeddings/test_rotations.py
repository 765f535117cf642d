"""`PrincipalAxes`, `DistanceProfiles` and `InvariantFeatures("rotation")`, compared with NumPy and SciPy set by set."""

from __future__ import annotations

import pickle
from typing import Any

import dask.array as da
import numpy as np
import pytest
from scipy.spatial.distance import pdist, squareform
from scipy.stats import ortho_group
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

import dkdist as dk
from dkdist.embeddings.rotations import DistanceProfilesSpec

MAPS = {"axes": dk.PrincipalAxes(), "profiles": dk.DistanceProfiles(5)}
# Coordinates are float32 and below 16, so images are rounded by 2^-21. Axes turn by this error divided by the relative
# gap of variances, which is above 0.1.
ATOL = 1e-5


def skewed_sets(d: int, n: int = 12, seed: int = 0) -> list[Any]:
    """Return sets with different variances and skewness along random axes."""
    rng = np.random.default_rng(seed)
    scales = 2.0 ** -np.arange(d)
    sets = [rng.gamma(1, size=(k, d)) * scales for k in rng.integers(100, 160, n)]
    return [x @ ortho_group.rvs(d, random_state=rng).T for x in sets] if d > 1 else sets


def moved(sets: list[Any], seed: int = 1) -> list[Any]:
    """Return the sets after a random shift and an orthogonal map each."""
    rng, d = np.random.default_rng(seed), sets[0].shape[1]
    return [x @ ortho_group.rvs(d, random_state=rng).T + rng.normal(size=d) for x in sets]


def random_weights(sets: list[Any]) -> list[Any]:
    rng = np.random.default_rng(2)
    return [rng.integers(0, 3, len(x)).astype(np.float32) for x in sets]


def mean_quantiles(distances: Any, L: int) -> Any:
    """Return means of the quantile function over L intervals: each value repeated L times, in L equal groups."""
    return np.sort(np.repeat(distances, L)).reshape(L, -1).mean(axis=1)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("d", [2, 3, 5])
@pytest.mark.parametrize("name", MAPS)
def test_shifts_rotations_and_reflections_change_nothing(name: str, d: int, weighted: bool) -> None:
    sets = skewed_sets(d)
    weights = random_weights(sets) if weighted else None
    set_map = clone(MAPS[name]).fit(sets)
    expected = set_map.transform(dk.SampleSets.from_arrays(sets, weights)).points
    result = set_map.transform(dk.SampleSets.from_arrays(moved(sets), weights)).points
    np.testing.assert_allclose(result, expected, atol=ATOL)


@pytest.mark.parametrize("d", [2, 3])
def test_principal_axes_are_those_of_numpy(d: int) -> None:
    sets = skewed_sets(d)
    for x, result in zip(sets, dk.PrincipalAxes().fit_transform(sets), strict=True):
        variances, axes = np.linalg.eigh(np.cov(x.T, bias=True))
        expected = (x - x.mean(axis=0)) @ axes[:, ::-1]
        np.testing.assert_allclose(np.abs(result), np.abs(expected), atol=ATOL)
        np.testing.assert_allclose(result.var(axis=0), variances[::-1], rtol=1e-5)
        assert ((result**3).sum(axis=0) > 0).all()


@pytest.mark.parametrize("n_quantiles", [1, 3, 7])
@pytest.mark.parametrize("d", [1, 3])
def test_profiles_are_means_of_sorted_distances(d: int, n_quantiles: int) -> None:
    sets = skewed_sets(d)
    for x, result in zip(sets, dk.DistanceProfiles(n_quantiles).fit_transform(sets), strict=True):
        expected = [mean_quantiles(row, n_quantiles) for row in squareform(pdist(x))]
        np.testing.assert_allclose(result, expected, atol=ATOL)


@pytest.mark.parametrize("L", [1, 3, 16])
@pytest.mark.parametrize("d", [1, 2, 10])
def test_profiles_of_sets_of_any_size_are_exact_up_to_float32_rounding(d: int, L: int) -> None:
    """Sets in one block, of less and more than a vector, a sorted run, and the number of quantiles."""
    rng = np.random.default_rng(0)
    sets = [rng.normal(size=(n, d)).astype(np.float32) for n in (1, 2, 15, 16, 17, 33, 100, 200, 255, 256)]
    for x, result in zip(sets, profiles_without_origin(sets, L), strict=True):
        distances = np.linalg.norm(x[:, None] - x.astype(np.float64), axis=2)
        expected = [mean_quantiles(row, L) for row in distances]
        # Roundings by 2^-24: d / 2 + 1 of half the square, 1 of its root, 2 of products with shares and of their sum
        # per item, at most m / L + 2 items. All numbers are nonnegative, so that relative errors add up.
        np.testing.assert_allclose(result, expected, rtol=(d / 2 + len(x) / L + 6) * 2**-24)


def profiles_without_origin(sets: list[Any], L: int) -> Any:
    """Return profiles of sets with origin 0, so that points are not rounded."""
    offsets = np.concatenate([[0], np.cumsum(list(map(len, sets)))])
    spec = DistanceProfilesSpec((0.0,) * sets[0].shape[1], L)
    return spec.apply(dk.SampleSets._trusted(np.concatenate(sets), offsets))


@pytest.mark.parametrize("power", [-100, -64, 64, 100])
def test_profiles_of_very_large_and_small_points_neither_overflow_nor_vanish(power: int) -> None:
    sets = [np.random.default_rng(0).normal(size=(n, 2)).astype(np.float32) for n in (20, 200)]
    scaled = profiles_without_origin([x * np.float32(2.0**power) for x in sets], 16).points
    np.testing.assert_array_equal(scaled, profiles_without_origin(sets, 16).points * np.float32(2.0**power))


def test_a_distant_point_does_not_change_other_distances() -> None:
    x = np.append(np.random.default_rng(0).normal(size=(15, 2)), [[1e30, 1e30]], axis=0).astype(np.float32)
    result = profiles_without_origin([x], 16)[0]
    assert result[:15, 15] == pytest.approx(2**0.5 * 1e30, rel=1e-6)
    np.testing.assert_allclose(result[:15, :15], np.sort(squareform(pdist(x[:15]))), rtol=10 * 2**-24)


def test_profiles_do_not_depend_on_the_block_or_the_piece() -> None:
    rng = np.random.default_rng(0)
    for n in (200, 700):
        sets = [rng.normal(size=(n, 2)).astype(np.float32) for _ in range(3)]
        together = profiles_without_origin(sets, 16)
        np.testing.assert_array_equal(together[1], profiles_without_origin(sets[1:2], 16)[0])
        pieces = [
            dk.SampleSets._trusted(part, np.array([0, len(part)])) for part in np.split(sets[1], [5, 38])
        ]
        piece_map = DistanceProfilesSpec((0.0, 0.0), 16).for_chunks(iter(pieces), n)
        parts = [piece_map.apply(piece).points for piece in pieces]
        np.testing.assert_array_equal(np.concatenate(parts), together[1])


@pytest.mark.parametrize("name", MAPS)
def test_integer_weights_match_repeated_points(name: str) -> None:
    sets = skewed_sets(3)
    counts = random_weights(sets)
    weighted = MAPS[name].fit(sets).transform(dk.SampleSets.from_arrays(sets, counts))
    repeated = MAPS[name].transform(
        [np.repeat(x, c.astype(int), axis=0) for x, c in zip(sets, counts, strict=True)]
    )
    for x, c, y in zip(weighted, counts, repeated, strict=True):
        np.testing.assert_allclose(np.repeat(x, c.astype(int), axis=0), y, atol=ATOL)


@pytest.mark.parametrize("name", MAPS)
def test_images_depend_on_their_set_alone_and_follow_the_order_of_points(name: str) -> None:
    sets = skewed_sets(2)
    together = MAPS[name].fit_transform(sets)
    for i, x in enumerate(sets):
        np.testing.assert_array_equal(MAPS[name].transform([x])[0], together[i])
        order = np.random.default_rng(i).permutation(len(x))
        np.testing.assert_allclose(MAPS[name].transform([x[order]])[0], together[i][order], atol=ATOL)


def test_degenerate_sets_have_finite_coordinates() -> None:
    line = np.outer([0, 1, 2, 6], [3, 4])
    square = [[1, 1], [1, -1], [-1, 1], [-1, -1]]
    sets = [[[5, 7]], [[5, 7]] * 3, line, square]
    point, equal, on_line, corners = dk.PrincipalAxes().fit_transform(sets)
    assert not point.any()
    assert not equal.any()
    np.testing.assert_allclose(on_line[:, 0], 5 * (np.array([0, 1, 2, 6]) - 2.25), atol=ATOL)
    np.testing.assert_allclose(on_line[:, 1], 0, atol=ATOL)
    np.testing.assert_allclose(np.linalg.norm(corners, axis=1), np.sqrt(2), atol=ATOL)
    point, equal, on_line, corners = dk.DistanceProfiles(2).fit_transform(sets)
    assert not point.any()
    assert not equal.any()
    np.testing.assert_allclose(on_line[0], [2.5, 20], atol=ATOL)  # distances 0, 5, 10 and 30
    np.testing.assert_allclose(corners, [[1, 1 + np.sqrt(2)]] * 4, atol=ATOL)  # 0, 2, 2 and sqrt(8)


@pytest.mark.parametrize("weighted", [False, True])
def test_profiles_of_large_sets_use_a_stratified_part_of_the_points(weighted: bool) -> None:
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(3000, 2)), rng.integers(1, 4, 3000)
    sets = dk.SampleSets.from_arrays([x], [w] if weighted else None)
    rotated = dk.SampleSets.from_arrays([x @ ortho_group.rvs(2, random_state=rng)], [w] if weighted else None)
    profiles = dk.DistanceProfiles(4).fit(sets)
    result = profiles.transform(sets).points
    everything = np.repeat(x, w if weighted else 1, axis=0)
    for i in range(0, 3000, 500):
        expected = mean_quantiles(np.linalg.norm(x[i] - everything, axis=1), 4)
        # means of 64 independent distances with standard deviations of at most 0.6, at 4 standard errors
        np.testing.assert_allclose(result[i], expected, atol=4 * 0.6 / np.sqrt(64))
    # Two of 3,000 distances from the mean may change their order, which replaces one of 256 reference points.
    assert np.median(np.abs(profiles.transform(rotated).points - result)) < 0.01


@pytest.mark.parametrize("name", MAPS)
def test_views_of_stores_match_sets_in_memory(name: str, tmp_path: Any) -> None:
    sets = skewed_sets(3)
    store = dk.write_sets(tmp_path / "s.zarr", sets, targets=np.arange(12))
    set_map = clone(MAPS[name]).fit(store)
    view, expected = set_map.transform(store), set_map.transform(sets)
    np.testing.assert_array_equal(view.load().points, expected.points)
    assert view.n_dims == expected.n_dims == set_map.spec_.n_features
    assert view.targets["y"].tolist() == list(range(12))
    assert view.names == view.load().names == set_map.spec_.names_of(None)
    assert f"through {set_map.spec_.label}" in repr(view)
    again = pickle.loads(pickle.dumps(set_map))
    np.testing.assert_array_equal(again.transform(sets).points, expected.points)
    dk.save_model(set_map, tmp_path / "m.npz")
    loaded = dk.load_model(tmp_path / "m.npz")
    np.testing.assert_array_equal(loaded.transform(store).load().points, expected.points)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", MAPS)
def test_sets_in_pieces_match_whole_sets(name: str, weighted: bool, tmp_path: Any, monkeypatch: Any) -> None:
    rng = np.random.default_rng(0)
    arrays = [rng.gamma(1, size=(n, 2)) * [2, 1] for n in (50, 70_000, 900)]
    weights = [rng.random(len(x)) for x in arrays] if weighted else None
    sets = dk.SampleSets.from_arrays(arrays, weights)
    with dk.SetWriter(tmp_path / "s.zarr", 2, chunk_rows=512) as writer:
        writer.append(sets)
    store = dk.open_sets(tmp_path / "s.zarr")
    monkeypatch.setattr("dkdist.io.set_pieces.PIECE_BYTES", 2**14)
    monkeypatch.setattr("dkdist.io.set_pieces.MAX_WHOLE_SET_BYTES", 2**17)
    pipeline = make_pipeline(clone(MAPS[name]), dk.MeanEmbedding(100, 1.0, random_state=0))
    expected = clone(pipeline).fit_transform(sets)
    np.testing.assert_array_equal(pipeline.fit(store).transform(store).compute(), expected)


# ---- InvariantFeatures("rotation")


@pytest.mark.parametrize("d", [2, 3])
def test_invariant_rows_are_those_of_densities_of_profiles(d: int, tmp_path: Any) -> None:
    sets = skewed_sets(d)
    model = dk.InvariantFeatures("rotation").fit(sets)
    rows = model.transform(sets)
    steps = make_pipeline(dk.DistanceProfiles(), dk.DivergenceEmbedding(bandwidth=0.06, structure="marginal"))
    np.testing.assert_array_equal(rows, steps.fit_transform(sets))
    assert rows.dtype == np.float32
    assert rows.shape == (12, len(model.get_feature_names_out()))
    # Densities change by at most the error of a profile divided by the bandwidth, and their roots by more near 0.
    np.testing.assert_allclose(model.transform(moved(sets)), rows, atol=1e-3)
    others = model.transform(skewed_sets(d, seed=5))
    assert np.linalg.norm(others - rows, axis=1).min() > 100 * 1e-3
    store = dk.write_sets(tmp_path / "s.zarr", sets)
    lazy = clone(model).fit(store).transform(store)
    assert isinstance(lazy, da.Array)
    np.testing.assert_array_equal(lazy.compute(), rows)
    dk.save_model(model, tmp_path / "m.npz")
    np.testing.assert_array_equal(dk.load_model(tmp_path / "m.npz").transform(sets), rows)


# ---- invalid input


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (dk.DistanceProfiles(0), "n_quantiles must be an integer >= 1; got 0"),
        (dk.DistanceProfiles(2.5), "n_quantiles must be an integer >= 1; got 2.5"),  # type: ignore[arg-type]
        (dk.InvariantFeatures("rotations"), "embedding must be .*'rotation'.*got 'rotations'"),
        (dk.InvariantFeatures("rotation", symmetries="all"), "must have their defaults .*symmetries='all'"),
        (dk.InvariantFeatures("rotation", axes=[0]), r"must have their defaults .*axes=\[0\]"),
        (
            dk.InvariantFeatures("rotation", dk.RandomFourierFeatures(8)),
            "must have their defaults .*Put RandomFourierFeatures after it",
        ),
    ],
)
def test_invalid_parameters_raise(model: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        model.fit(skewed_sets(2, 3))


@pytest.mark.parametrize("model", [*MAPS.values(), dk.InvariantFeatures("rotation")])
def test_invalid_sets_raise(model: Any, tmp_path: Any) -> None:
    sets = skewed_sets(2, 3)
    model = clone(model).fit(sets)
    with pytest.raises(dk.SampleSetError, match="all sets must have 2 dimension"):
        model.transform(skewed_sets(3, 1))
    for weights, message in (([1.0, -1.0], "weight"), ([0.0, 0.0], "weight")):
        invalid = dk.SampleSets.from_arrays([np.eye(2)] * 2, [[1, 1], weights])
        with pytest.raises(dk.SampleSetError, match=f"{message}.*set 1|set 1.*{message}"):
            model.transform(invalid)
        store = dk.write_sets(tmp_path / f"{weights}.zarr", invalid)
        pipeline = model if hasattr(model, "embedding") else make_pipeline(model, dk.MomentEmbedding())
        with pytest.raises(dk.SampleSetError, match=f"{message}.*set 1|set 1.*{message}"):
            np.asarray(pipeline.fit(sets).transform(store))
