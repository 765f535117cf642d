"""`FunctionEmbedding`: rows of a user's function, and errors for invalid values."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dask.distributed import Client, LocalCluster

import dkdist as dk

RNG = np.random.default_rng(0)
SETS = [RNG.normal(i % 2, 1, (3 + i % 5, 2)) for i in range(30)]


def test_points_are_float64_in_original_coordinates() -> None:
    """Sets far from zero are stored relative to an origin; the function gets original coordinates."""
    far = [np.asarray(x + 1e9) for x in SETS]
    seen_points: list[Any] = []
    dk.FunctionEmbedding(lambda x: seen_points.append(x) or 0).fit_transform(far)
    assert len(seen_points) == 1 + len(far)  # one call in fit
    for points, value in zip(seen_points[1:], far, strict=True):
        assert points.dtype == np.float64
        np.testing.assert_allclose(points, value, rtol=0, atol=1e-6)  # float32 spacing below 16 is 1e-6


def test_rows_match_the_vectors() -> None:
    rows = dk.FunctionEmbedding(lambda x: [*x.max(axis=0), len(x)]).fit_transform(SETS)
    expected = [[*x.astype("f4").max(axis=0), len(x)] for x in SETS]
    np.testing.assert_array_equal(rows, np.array(expected, np.float32))


def test_weights_are_the_second_argument() -> None:
    weights = [RNG.random(len(x)) for x in SETS]
    sets = dk.SampleSets.from_arrays(SETS, weights)
    embedding = dk.FunctionEmbedding(lambda x, w: np.average(x, axis=0, weights=w))
    rows = embedding.fit_transform(sets)
    expected = [np.average(x, axis=0, weights=w) for x, w in zip(SETS, weights, strict=True)]
    np.testing.assert_allclose(rows, expected, rtol=0, atol=1e-6)  # points and weights are float32 of order 1
    with pytest.raises(dk.SampleSetError, match=r"set 0 .*raised TypeError.*positional argument"):
        dk.FunctionEmbedding(lambda x: x.mean()).fit(sets)
    with pytest.raises(dk.SampleSetError, match=r"set 0 .*missing 1 required"):
        embedding.transform(SETS)


def test_strings_and_codes_as_arguments() -> None:
    words = ["Anna", "Bob", "Zoë"]
    assert dk.FunctionEmbedding(lambda s: s.count("n")).fit_transform(words).ravel().tolist() == [2, 0, 0]
    codes = dk.FunctionEmbedding(lambda c: c[c % 2 == 1].sum()).fit_transform([[1, 2, 5], [4]])
    assert codes.ravel().tolist() == [6, 0]


def function_failing_on(i: int, result: Any) -> Any:
    """Return a function of sets, whose first coordinate is their index, that fails on set i."""
    return lambda x: result(x) if x[0, 0] == i else x.mean(axis=0)


def raise_zero_division(x: Any) -> Any:
    return 1 // 0


FAILURES = [
    (raise_zero_division, "has no features: the function raised ZeroDivisionError: "),
    (lambda x: [1.0], "has 1 features, but sets had 2 in fit"),
    (lambda x: x, r"has features of shape \(2, 2\)"),
    (lambda x: [], r"has features of shape \(0,\)"),
    (lambda x: [0, np.nan], "has nan as feature 1"),
    (lambda x: [0, 1e39], "has 1e.39 as feature 1"),
    (lambda x: "text", "has no features: the function raised ValueError: could not convert"),
    (lambda x: [1j, 0], "has no features: the function raised TypeError: "),
]
NUMBERED = [np.full((2, 2), i, np.float64) for i in range(40)]


@pytest.mark.parametrize(("result", "message"), FAILURES)
def test_invalid_vectors_raise(result: Any, message: str, tmp_path: Path) -> None:
    embedding = dk.FunctionEmbedding(function_failing_on(33, result)).fit(NUMBERED)
    with pytest.raises(dk.SampleSetError, match=f"^set 33 {message}"):
        embedding.transform(NUMBERED)
    dk.write_sets(tmp_path / "s.zarr", NUMBERED)
    stored = dk.open_sets(tmp_path / "s.zarr", block_sets=7)
    with pytest.raises(dk.SampleSetError, match=f"^set 33 {message}"):
        embedding.transform(stored).compute(scheduler="sync")


def test_invalid_vectors_are_skipped() -> None:
    embedding = dk.FunctionEmbedding(function_failing_on(33, raise_zero_division), on_error="skip").fit(
        NUMBERED
    )
    with pytest.warns(UserWarning, match="1 invalid set.*: 33. First error: set 33 has no features"):
        rows = embedding.transform(NUMBERED)
    assert np.flatnonzero(np.isnan(rows).any(axis=1)).tolist() == [33]


def test_fit_uses_the_first_valid_set() -> None:
    first = dk.FunctionEmbedding(function_failing_on(0, raise_zero_division))
    with pytest.raises(dk.SampleSetError, match=r"^set 0 has no features"):
        first.fit(NUMBERED)
    assert first.set_params(on_error="skip").fit(NUMBERED).spec_.n_features == 2
    with pytest.raises(dk.SampleSetError, match=r"none of the 40 sets .*set 0 has no features"):
        dk.FunctionEmbedding(raise_zero_division, on_error="skip").fit(NUMBERED)


@dataclass
class Power:
    """A callable that is compared by value and has no hash."""

    exponent: float

    def __call__(self, points: Any) -> Any:
        return (points**self.exponent).mean(axis=0)


def test_specs_are_compared_by_value() -> None:
    first, second = (dk.FunctionEmbedding(Power(k)).fit(SETS).spec_ for k in (2, 3))
    assert first != second
    assert first == dk.FunctionEmbedding(Power(2)).fit(SETS).spec_
    assert len({first, second, dk.FunctionEmbedding(Power(2)).fit(SETS).spec_}) == 2


def test_non_callable_raises() -> None:
    with pytest.raises(TypeError, match="function must be a function of the points of one set; got 5"):
        dk.FunctionEmbedding(5).fit(SETS)  # type: ignore[arg-type]


def test_lambdas_on_workers(tmp_path: Path, worker_processes: LocalCluster) -> None:
    factor = 3.0
    dk.write_sets(tmp_path / "s.zarr", SETS)
    lazy = dk.open_sets(tmp_path / "s.zarr", block_sets=8)
    embedding = dk.FunctionEmbedding(lambda x: factor * x.mean(axis=0)).fit(lazy)
    expected = embedding.transform(SETS)
    with Client(worker_processes) as client:
        rows = embedding.transform(lazy)
        assert rows.chunks == ((8, 8, 8, 6), (2,))
        np.testing.assert_array_equal(client.compute(rows).result(), expected)


def test_automatic_models_with_function_embedding() -> None:
    y = np.arange(40) % 2
    sets = [np.random.default_rng(i).normal(2 * (i % 2), 1, (6, 2)) for i in y + 2 * np.arange(40)]
    embedding = dk.FunctionEmbedding(lambda x: np.median(x, axis=0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = dk.SetClassifier([embedding], random_state=0).fit(sets, y)
    assert model.score(sets, y) > 0.9
    assert [len(c) for c in model.explain(sets[:2])] == [6, 6]
    with pytest.raises(dk.SampleSetError, match=r"^set 33 has no features"):
        dk.SetClassifier(
            [dk.FunctionEmbedding(function_failing_on(33, raise_zero_division))], random_state=0
        ).fit(NUMBERED, y)


def test_features_that_float32_merges_are_named(tmp_path: Path) -> None:
    times = [1.7e9 + 20 * (i % 2) + RNG.normal(size=(30, 1)) for i in range(40)]
    store = dk.write_sets(tmp_path / "times.zarr", times)
    embedding = dk.FunctionEmbedding(lambda x: [x.std(), x.mean()]).fit(store)
    for sets in (times, store):
        with pytest.warns(UserWarning, match="feature 1 of the function has many distinct values"):
            np.asarray(embedding.transform(sets))
    near = dk.FunctionEmbedding(lambda x: [x.std(), (x - 1.7e9).mean()]).fit_transform(times)
    np.testing.assert_allclose(near[:, 1], [(x - 1.7e9).mean() for x in times], rtol=1e-6, atol=1e-7)
