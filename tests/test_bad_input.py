"""Invalid input raises before long computations, with messages that name the set and the remedy."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline

import dkdist as dk


def sets(n: int = 8, d: int = 2) -> list[Any]:
    rng = np.random.default_rng(0)
    return [rng.random((5 + i, d)) for i in range(n)]


def sets_with(i: int, invalid_set: Any) -> list[Any]:
    collection = sets()
    collection[i] = invalid_set
    return collection


@pytest.mark.parametrize(
    ("invalid_sets", "message"),
    [
        (sets_with(3, np.zeros((0, 2))), r"set 3 is empty.*drop it"),
        (sets_with(3, np.array([[0.1, np.nan]])), r"point 0 of set 3 is nan in column 1.*finite"),
        (sets_with(3, np.array([[np.inf, 0.0]])), r"point 0 of set 3 is inf in column 0"),
        (sets_with(3, np.array([[1e39, 0.0]])), r"set 3 is inf.*float32"),
        (sets_with(3, np.zeros((4, 5))), r"set 3 must have 2 dimensions, as set 0; got 5"),
        ([], r"at least one set"),
        (
            [1e-200 * x for x in sets()],
            r"at most .*e-201 in absolute value, which float32 rounds to 0.*smaller units",
        ),
        (1e-60 * np.ones((3, 4, 2)), r"at most 1e-60 in absolute value"),
        (
            sets_with(3, np.ma.masked_greater(np.ones((4, 2)), 0)),
            r"set 3 must not contain masked values\. Fill",
        ),
        (np.zeros((4, 2)), r"got an array of shape \(4, 2\).*Pass \[X\] for one set"),
        ("sets", r"got str"),
    ],
)
def test_invalid_sets_raise_in_embeddings_and_stores(invalid_sets: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(dk.SampleSetError, match=message):
        dk.DivergenceEmbedding().fit(invalid_sets)
    with pytest.raises(dk.SampleSetError, match=message):
        dk.write_sets(tmp_path / "bad.zarr", invalid_sets)
    assert not (tmp_path / "bad.zarr").exists()


@pytest.mark.parametrize(
    ("offsets", "message"),
    [
        ([0, 4, 2, 6], r"offsets must increase; got 4 before 2 \(set 1\)"),
        ([0, 3, 3, 6], r"set 1 is empty"),
        ([0, 2, 4], r"offsets must end at the number of points, 6; got 4"),
        ([1, 4, 6], r"must start at 0; got 1"),
        ([0.0, 6.0], r"n_sets \+ 1 integers"),
    ],
)
def test_invalid_offsets_raise(offsets: list[Any], message: str) -> None:
    with pytest.raises(dk.SampleSetError, match=message):
        dk.SampleSets(np.zeros((6, 2)), offsets)


def test_points_outside_a_given_domain_raise(tmp_path: Path) -> None:
    collection = sets_with(5, np.array([[0.5, 0.5], [0.5, 1.25]]))
    stored = dk.write_sets(tmp_path / "sets.zarr", collection)
    for X in (collection, stored):
        with pytest.raises(
            dk.SampleSetError, match=r"point 1 of set 5 is 1\.25 in column 1, outside the given domain"
        ):
            dk.DivergenceEmbedding(domain="unit").fit(X)
    fitted = dk.DivergenceEmbedding(domain="unit").fit(sets())
    with pytest.raises(dk.SampleSetError, match=r"point 1 of set 5"):
        fitted.transform(collection)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (-1.0, r"weight of point 0 of set 2 is -1\.0.*must be >= 0"),
        (0.0, r"the weights of set 2 must have a positive sum"),
    ],
)
def test_invalid_weights_raise(weights: float, message: str, tmp_path: Path) -> None:
    weights_by_set = [np.full(len(x), weights if i == 2 else 1.0) for i, x in enumerate(sets())]
    collection = dk.SampleSets.from_arrays(sets(), weights=weights_by_set)
    for X in (collection, dk.write_sets(tmp_path / "w.zarr", collection)):
        with pytest.raises(dk.SampleSetError, match=message):
            dk.DivergenceEmbedding().fit(X)


def test_targets_of_another_length_raise(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"'y' must have one row per set, 8; got 7"):
        dk.write_sets(tmp_path / "t.zarr", sets(), targets=np.zeros(7))
    assert not (tmp_path / "t.zarr").exists()
    lazy = dk.DivergenceEmbedding().fit_transform(dk.write_sets(tmp_path / "u.zarr", sets()))
    with pytest.raises(ValueError, match=r"each of the 8 rows of X; got 7 targets"):
        dk.IncrementalRidge().fit(lazy, np.zeros(7))


def test_unknown_divergence_lists_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"kullback.*hellinger.*jensen-shannon|jensen-shannon.*hellinger"):
        dk.DivergenceEmbedding("kullback").fit(sets())


@pytest.mark.parametrize(
    ("kappa", "message"),
    [
        (lambda x, y: (x - y) ** 4 / (x + y) ** 3, "negative"),
        (lambda x, y: (x - y) * np.log(x / y), r"kappa\(1, 0\).* must be finite"),
        (lambda x, y: (x - y) ** 2, "must be homogeneous of degree 1"),
        (lambda x, y: np.abs(x - y) + x, "must be symmetric"),
    ],
)
def test_invalid_kappa_raises(kappa: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        dk.DivergenceEmbedding(kappa).fit(sets())


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_basis": 1}, "n_basis must be an integer >= 2; got 1"),
        ({"n_frequencies": 0}, "n_frequencies must be an integer >= 1"),
        ({"frequencies": "sobol"}, "frequencies must be one of .*'fitted'.*got 'sobol'"),
        ({"structure": "tree"}, "structure must be one of 'auto', 'joint', 'marginal'"),
        ({"bandwidth": -1.0}, "bandwidth must be a positive number"),
        ({"bandwidth": [0.1, 0.1, 0.1]}, "or 2 of them"),
        ({"bandwidth": "silverman"}, "bandwidth must be one of 'auto', 'scott'"),
        ({"domain": "sphere"}, "domain must be one of 'robust', 'data', 'unit'"),
        ({"domain": (1.0, 0.0)}, "low < high"),
        ({"domain": 3}, r"domain must be 'robust', 'data', 'unit' or \(low, high\)"),
        ({"random_state": -1, "frequencies": "random"}, "random_state must be None"),
    ],
)
def test_invalid_embedding_parameters_raise(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        dk.DivergenceEmbedding(**parameters).fit(sets())


def test_too_many_joint_dimensions_and_coefficients_raise() -> None:
    with pytest.raises(ValueError, match=r"at most 6 dimensions; got 7.*structure='pairs' or 'marginal'"):
        dk.DivergenceEmbedding(structure="joint").fit(sets(d=7))
    with (
        pytest.raises(ValueError, match="at most 1048576 cosine coefficients; got 260 x 260 x 260"),
        pytest.warns(UserWarning, match="too small for 11 nodes per dimension"),
    ):
        dk.DivergenceEmbedding(bandwidth=0.005).fit(sets(d=3)).transform(sets(d=3))


@pytest.mark.parametrize(
    "estimator",
    [
        dk.DivergenceEmbedding(),
        dk.RandomFourierFeatures(10),
        dk.IncrementalRidge(),
        dk.IncrementalSGDClassifier(),
    ],
)
def test_predict_before_fit_raises(estimator: Any) -> None:
    X = sets() if isinstance(estimator, dk.DivergenceEmbedding) else np.zeros((3, 2))
    with pytest.raises(NotFittedError):
        (estimator.transform if hasattr(estimator, "transform") else estimator.predict)(X)


def test_other_dimension_than_in_fit_raises(tmp_path: Path) -> None:
    fitted = dk.DivergenceEmbedding().fit(sets())
    for X in (sets(d=3), dk.write_sets(tmp_path / "three.zarr", sets(d=3))):
        with pytest.raises(dk.SampleSetError, match=r"must have 2 dimension\(s\), as in fit; got 3"):
            fitted.transform(X)


def test_checkpoint_of_other_parameters_raises(tmp_path: Path) -> None:
    stored = dk.write_sets(tmp_path / "sets.zarr", sets(40), targets=np.arange(40) % 2)
    y = stored.targets["y"]

    def fit(n_features: int, alpha: float) -> None:
        make_pipeline(
            dk.DivergenceEmbedding(),
            dk.RandomFourierFeatures(n_features, random_state=0),
            dk.IncrementalSGDClassifier(alpha=alpha, checkpoint=tmp_path / "ck", random_state=0),
        ).fit(stored, y)

    fit(20, 1e-6)
    with pytest.raises(ValueError, match=r"alpha.*"):
        fit(20, 1e-3)
    with pytest.raises(ValueError, match=r"(?s)checkpoint.*(n_features|blocks|features)"):
        fit(30, 1e-6)


def test_run_that_exceeds_memory_raises() -> None:
    import dask
    import dask.array as da

    X = da.ones((4000, 500), chunks=(1000, 500), dtype=np.float32)
    with (
        dask.config.set({"dkdist.memory-limit": "1MB"}),
        pytest.raises(MemoryError, match=r"does not fit.*To fix"),
    ):
        dk.IncrementalRidge().fit(X, np.zeros(4000))


@pytest.mark.parametrize("embedding", [dk.DivergenceEmbedding(), dk.L2Embedding(), dk.HistogramEmbedding()])
def test_domain_widths_beyond_float32_raise(embedding: Any) -> None:
    rng = np.random.default_rng(0)
    base_sets = [rng.normal(size=(20, 2)) * [1, 0] for _ in range(5)]  # a constant column is valid
    expected = embedding.fit_transform(base_sets)
    for unit in (2.0**-100, 2.0**100):
        np.testing.assert_allclose(
            embedding.fit_transform([unit * x for x in base_sets]), expected, atol=1e-6
        )
    for unit in (1e-42, 5e37):
        with pytest.raises(
            dk.SampleSetError, match=r"width of the domain of all sets in column 0 must be 0 or 1e-37 to 1e"
        ):
            embedding.fit([unit * x for x in base_sets])
    with pytest.raises(dk.SampleSetError, match=r"must be 0 or 1e-37 to .*; got 6e\+38"):
        embedding.__class__(domain=(-3e38, 3e38)).fit(base_sets)


@pytest.mark.parametrize("embedding", [dk.DivergenceEmbedding(), dk.MomentEmbedding(), dk.MeanEmbedding(64)])
def test_columns_with_few_float32_values_warn(embedding: Any) -> None:
    rng = np.random.default_rng(0)
    times = [1.7e9 + 1000 * rng.random((50, 1)) for _ in range(5)]  # steps of 128
    with pytest.warns(UserWarning, match=r"column 0 has only [89] float32 values .* Pass float64 points"):
        embedding.fit([x.astype("f4") for x in times])
    rows = embedding.fit_transform(times)  # float64 points are stored relative to an origin
    np.testing.assert_allclose(
        embedding.fit_transform([x - 1.7e9 for x in times]), rows, rtol=1e-4, atol=1e-4
    )
    # constant columns lose no precision
    embedding.fit([np.append(x, np.full((50, 1), 7e8), axis=1) - [1.7e9, 0] for x in times])


@pytest.mark.parametrize("sigma", [1e-40, 1e40])
def test_bandwidths_beyond_float32_raise(sigma: float) -> None:
    x = np.random.default_rng(0).normal(size=(9, 2))
    for model, value in ((dk.RandomFourierFeatures(8, sigma), x), (dk.MeanEmbedding(8, sigma), [x])):
        with pytest.raises(ValueError, match=r"sigma must be between 1e-30 and 1e\+30.*got 1e.40"):
            model.fit(value)
    for embedding in (dk.DivergenceEmbedding(bandwidth=sigma), dk.L2Embedding(bandwidth=[[0.1], [sigma]])):
        with pytest.raises(ValueError, match=r"bandwidth must be .* 1e-30 to 1e\+30"):
            embedding.fit([x])
    with pytest.raises(ValueError, match=r"sigma='median' must be between"):
        dk.RandomFourierFeatures(8).fit(1e-35 * x)


def test_random_features_of_rows_beyond_float32_resolution_warn() -> None:
    x = np.random.default_rng(0).normal(size=(9, 2))
    dk.RandomFourierFeatures(8, 1e-4).fit(x)
    dk.RandomFourierFeatures(8, 1.0).fit(x * np.nan)
    with pytest.warns(UserWarning, match=r"sigma=1e-06 is too small for rows up to .* from the origin"):
        dk.RandomFourierFeatures(8, 1e-6).fit(x + 100)


FAR = np.array([[0.0, 0.0], [1e200, 0.0], [0.0, 1e200]])
UNIT = FAR / 1e200


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: dk.align(FAR, FAR, sigma=1.0),
            r"points must be at most 1e\+100 bandwidths wide; got width 1e\+200 and bandwidth 1\. Check the units",
        ),
        (
            lambda: dk.align(UNIT + 1e200, UNIT, sigma=1.0),
            r"points must be at most 1e\+100 bandwidths wide; got width 1e\+200",
        ),
        (
            lambda: dk.align(FAR * 1.5e108, -FAR * 1.5e108, sigma=1.0),
            r"points must be at most 1e\+100 bandwidths wide; got width inf",
        ),
        (
            lambda: dk.align(FAR, FAR, sigma=1.0, guarantee=0.1),
            r"points must be at most .* wide; got width 1e\+200",
        ),
        (
            lambda: dk.align(UNIT, 1e50 * UNIT, sigma=1.0),
            r"P must be at most 1e\+06 sigma wide; got width 1e\+50 and sigma=1\. Increase sigma",
        ),
        (
            lambda: dk.align(2e6 * UNIT, UNIT, sigma=1.0, transform="translation"),
            r"Q must be at most 1e\+06 sigma wide; got width 2e\+06 .*Increase sigma",
        ),
        (lambda: dk.align(UNIT, UNIT, sigma=1e-310), "sigma=1e-310 is too small for float64"),
        (lambda: dk.align(UNIT, UNIT, sigma=10**400), "sigma must be a positive number; got 1000"),
        (
            lambda: dk.kernel_distance(FAR * 1.5e108, -FAR * 1.5e108, sigma=1.0),
            r"points must be at most 1e\+100 bandwidths wide; got width inf",
        ),
    ],
)
def test_too_wide_points_raise(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize("scale", [1e200, 1e-200])
def test_align_scales_with_units(scale: float) -> None:
    turn = np.array([[0.6, -0.8], [0.8, 0.6]])
    P = np.random.default_rng(0).random((80, 2)) * [2, 1]
    result = dk.align(scale * (P @ turn + 3), scale * P, sigma=0.1 * scale)
    np.testing.assert_allclose(result.rotation, turn, atol=1e-3)
    np.testing.assert_allclose(result.translation / scale, -turn @ [3, 3], atol=1e-2)
    assert result.distance < 0.01 < result.distance_before


@pytest.mark.parametrize("rule", ["rff", "d2ke", "fourier", "taylor", "ifgt"])
def test_n_features_for_extreme_arguments_raises(rule: str) -> None:
    def n_features(eps: float = 0.1, n_dims: int = 2, diameter: float = 1.0, width: float = 1.0) -> int:
        kernel = {"gamma": 1 / width} if rule == "d2ke" else {"sigma": width}
        return dk.n_features_for(eps, rule=rule, n_dims=n_dims, diameter=diameter, **kernel)

    for diameter, width in ((1e200, 1.0), (1.0, 1e-200), (1e200, 1e-200)):
        with pytest.raises(
            ValueError, match=r"at most 1e\+100 bandwidths .*; got 1(e\+200)?\. Check the units"
        ):
            n_features(diameter=diameter, width=width)
    with pytest.raises(ValueError, match=r"n_dims must be at most 1e\+100"):
        n_features(n_dims=10**400)
    with pytest.raises(ValueError, match="at least 1e-100; got 1e-200"):
        n_features(1e-200)
    assert n_features(diameter=1e200, width=1e200) == n_features()
    assert 1 <= n_features(diameter=1e-200, width=1e200) <= n_features()
    if rule in ("rff", "d2ke"):
        assert n_features(diameter=1e100) > n_features(diameter=1e99)
        with pytest.raises(ValueError, match=r"n_points must be at most 1e\+100"):
            dk.n_features_for(0.1, rule=rule, n_points=10**200)
    else:
        with pytest.raises(ValueError, match=r"needs (more than|an order above)"):
            n_features(diameter=1e99)
