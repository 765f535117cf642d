"""Lazily computed features: results, errors and losses are identical to those of stored features."""

from __future__ import annotations

import pickle
from typing import Any

import dask
import dask.array as da
import numpy as np
import pytest

import dkdist as dk
from dkdist._runtime.blocks import row_blocks
from dkdist.kernels.random_fourier_features import FourierRows
from dkdist.kernels.random_fourier_params import FourierSpec
from dkdist.linear.epochs import choose_materialization
from dkdist.linear.rows import tiles

N, M, D = 600, 20, 60
RNG = np.random.default_rng(0)
A = RNG.standard_normal((N, M)).astype("f4")
Y = A @ RNG.standard_normal(M)
CLASSES = np.digitize(Y, [-2.0, 2.0])


def features(method: str, A: Any = A, chunk: int = 70) -> Any:
    output = dk.RandomFourierFeatures(D, sigma=4.0, method=method, random_state=0)
    return output.fit(A).transform(da.from_array(A, chunks=(chunk, -1)))


def bits(model: Any) -> bytes:
    return pickle.dumps(
        [model.coef_, model.intercept_, model.loss_curve_, model.validation_loss_curve_, model.skipped_]
    )


def fitted(model: Any, Z: Any, y: Any, cores: int, **weight_options: Any) -> bytes:
    with dask.config.set(num_workers=cores):
        return bits(model.fit(Z, y, **weight_options))


@pytest.mark.parametrize("method", ["structured", "orthogonal"])
@pytest.mark.parametrize(
    ("model", "y"),
    [
        (dk.IncrementalSGDClassifier(n_epochs=2, validation_fraction=0.2, random_state=0), CLASSES > 0),
        (dk.IncrementalSGDClassifier(n_epochs=2, random_state=0, average=False), np.sort(CLASSES)),  # mixed blocks
        (dk.IncrementalSGDClassifier("hinge", n_epochs=2, n_lanes=3, random_state=0), CLASSES),
        (dk.IncrementalSGDRegressor(n_epochs=2, random_state=0), Y),
    ],
)  # fmt: skip
def test_lazy_features_give_identical_results(method: str, model: Any, y: Any) -> None:
    Z, weights = features(method), RNG.random(N)
    stored = da.from_array(Z.compute(), chunks=Z.chunks)
    for weight_options in ({}, {"sample_weight": weights}):
        expected = fitted(model, stored, y, 2, **weight_options)
        assert [fitted(model, Z, y, cores, **weight_options) == expected for cores in (1, 2, 5)] == [True] * 3


@pytest.mark.parametrize("method", ["structured", "orthogonal"])
@pytest.mark.parametrize("n", [32, 33, 150, 300])
def test_batches_of_several_tiles_give_identical_results(method: str, n: int) -> None:
    """The first tile is the short one; monitored rows and averages are those of the whole batch."""
    output = dk.RandomFourierFeatures(8200, sigma=4.0, method=method, random_state=0).fit(A)
    Z = output.transform(da.from_array(A[:300], chunks=(n, -1)))
    assert row_blocks(Z).lazy_rows(eager=False).tasks[0].run(shared_of(Z)).tile == 32
    stored = da.from_array(Z.compute(), chunks=Z.chunks)
    model = dk.IncrementalSGDClassifier(n_epochs=2, validation_fraction=0.2, random_state=0)
    expected = fitted(model, stored, CLASSES[:300], 2)
    for cache in (False, "memory"):
        model.set_params(cache=cache)
        assert [fitted(model, Z, CLASSES[:300], cores) == expected for cores in (1, 2, 4)] == [True] * 3


def shared_of(Z: Any) -> dict[Any, Any]:
    return {key: node({}) for key, node in row_blocks(Z).shared.items()}


def test_rows_are_lazy_with_few_cores_or_several_replicas() -> None:
    blocks = row_blocks(features("iid"))
    for cores, n_lanes, is_lazy in ((2, 1, True), (5, 1, False), (5, 2, True)):
        with dask.config.set(num_workers=cores):
            selected = choose_materialization(blocks, n_lanes)
        shared = {key: node({}) for key, node in selected.shared.items()}
        assert isinstance(selected.tasks[0].run(shared), FourierRows)
        assert selected.eager is not is_lazy
        assert selected.row_bytes == (4 * M if is_lazy else 4 * D)
    plain = row_blocks(da.from_array(A, chunks=(70, -1)))
    assert plain.lazy_rows(eager=False) is plain


CUT, MIXED = 430, np.random.default_rng(1).permutation(N)[:450]
SPLITS = {
    "first": lambda Z: Z[:CUT],
    "first, whole blocks": lambda Z: Z[:420],
    "last": lambda Z: Z[CUT:],
    "between": lambda Z: Z[35:575],
    "every other": lambda Z: Z[::2],
    "backwards": lambda Z: Z[::-1],
    "index": lambda Z: Z[MIXED],
    "sorted index": lambda Z: Z[np.sort(MIXED)],
    "few": lambda Z: Z[[3, 1, 2, 3]],
    "mask": lambda Z: Z[np.isin(np.arange(N), MIXED)],
    "again": lambda Z: Z[MIXED][50:400][::3],
    "together": lambda Z: da.concatenate([Z[:100], Z[200:]]),
}


@pytest.mark.parametrize("method", ["structured", "orthogonal"])
@pytest.mark.parametrize("split", SPLITS)
def test_indexed_rows_are_lazy(method: str, split: str) -> None:
    Z, whole = SPLITS[split](features(method)), features(method).compute()
    expected = np.concatenate([whole[:100], whole[200:]]) if split == "together" else SPLITS[split](whole)
    blocks = row_blocks(Z)
    assert blocks.source_bytes == 4 * M
    for selected, kind in ((blocks, np.ndarray), (blocks.lazy_rows(eager=False), FourierRows)):
        shared = shared_values(selected)
        output = [task.run(shared) for task in selected.tasks]
        assert all(isinstance(block, kind) for block in output)
        np.testing.assert_array_equal(np.concatenate([np.asarray(block) for block in output]), expected)


def shared_values(blocks: Any) -> dict[Any, Any]:
    """Return the values that tasks share, each computed once."""
    values: dict[Any, Any] = {}
    pending = dict(blocks.shared)
    while pending:
        for key in [key for key, node in pending.items() if node.dependencies <= values.keys()]:
            node = pending.pop(key)
            values[key] = node({need: values[need] for need in node.dependencies})
    return values


@pytest.mark.parametrize(
    "columns",
    [lambda Z: Z[:, :30], lambda Z: Z[:CUT, ::2], lambda Z: 2 * Z[:CUT], lambda Z: Z[:CUT, [1, 3]]],
)
def test_indexed_columns_are_not_lazy(columns: Any) -> None:
    Z, whole = features("structured"), features("structured").compute()
    blocks = row_blocks(columns(Z))
    assert blocks.lazy_rows(eager=False) is blocks
    shared = shared_values(blocks)
    output = np.concatenate([task.run(shared) for task in blocks.tasks])
    np.testing.assert_array_equal(output, columns(whole))


@pytest.mark.parametrize("split", ["first", "last", "index", "mask"])
@pytest.mark.parametrize("is_cached", [False, True])
def test_fits_on_subsets_match_stored_features(split: str, is_cached: bool, tmp_path: Any) -> None:
    Z, y = SPLITS[split](features("structured")), SPLITS[split](CLASSES)
    stored, cache = da.from_array(Z.compute(), chunks=Z.chunks), str(tmp_path) if is_cached else False
    model = dk.IncrementalSGDClassifier(n_epochs=3, validation_fraction=0.2, random_state=0, cache=cache)
    expected = fitted(model, stored, y, 2)
    assert [fitted(model, Z, y, cores) == expected for cores in (1, 2, 5)] == [True] * 3


def test_cached_rows_of_different_maps_and_repeated_blocks(tmp_path: Any) -> None:
    first, second = features("structured", A[:70]), features("orthogonal", A[70:140])
    Z, y = da.concatenate([first, second, first]), CLASSES[:210]
    stored = da.from_array(Z.compute(), chunks=Z.chunks)
    model = dk.IncrementalSGDClassifier(n_epochs=3, random_state=0, cache=str(tmp_path))
    assert fitted(model, Z, y, 2) == fitted(model, stored, y, 2)


@pytest.mark.filterwarnings("ignore:.*rows of X:UserWarning")
def test_invalid_rows_are_reported_and_skipped_identically() -> None:
    invalid = A.copy()
    invalid[[3, 77, 78, 200], 5] = np.nan
    Z = features("structured", invalid)
    skipping = dk.IncrementalSGDClassifier(n_epochs=2, on_error="skip", random_state=0)
    assert fitted(skipping, Z, CLASSES, 2) == fitted(skipping, Z, CLASSES, 5)
    np.testing.assert_array_equal(skipping.skipped_, [3, 77, 78, 200])
    invalid[[3, 200], 5], message = A[[3, 200], 5], []  # any of several blocks may be computed first
    Z = features("structured", invalid)
    for cores in (2, 5):
        with dask.config.set(num_workers=cores), pytest.raises(ValueError, match=r"got nan in row \d+") as e:
            dk.IncrementalSGDClassifier(eta0=1.0, n_epochs=1, random_state=0).fit(Z, CLASSES)
        message.append((str(e.value), e.value.__notes__))
    assert message[0] == message[1]


@pytest.mark.parametrize("method", ["structured", "iid"])
def test_lazy_rows_match_the_block(method: str) -> None:
    parameters = FourierSpec(M, D, 0.7, method, 0).materialize()
    rows = pickle.loads(pickle.dumps(FourierRows(parameters, A[:300])))
    Z = parameters.transform(A[:300])
    for n in (0, 1, 31, 32, 33, 300):
        positions, n_seen = RNG.permutation(300)[:n], 0
        for X, rows_of_tile, span in tiles(rows, positions):
            assert span.start == n_seen
            n_seen = span.stop
            np.testing.assert_array_equal(X[rows_of_tile], Z[positions[span]])
        assert n_seen == n
    joined = rows.joined([FourierRows(parameters, A[300:])])
    np.testing.assert_array_equal(np.asarray(joined), parameters.transform(A))


@pytest.mark.parametrize("method", ["structured", "iid"])
def test_rows_with_nan_do_not_change_other_rows(method: str) -> None:
    parameters, invalid = FourierSpec(M, D, 0.7, method, 0).materialize(), A[:50].copy()
    invalid[[0, 20, 49], [3, 0, M - 1]] = np.nan
    rows = FourierRows(parameters, np.asfortranarray(invalid))
    clean, positions = FourierRows(parameters, A[:50]), RNG.permutation(50)
    output, expected = np.empty((2, 50, D), np.float32)
    rows.fill(positions, output)
    clean.fill(positions, expected)
    expected[np.isin(positions, [0, 20, 49])] = np.nan
    np.testing.assert_array_equal(output, expected)
    np.testing.assert_array_equal(output, parameters.transform(invalid)[positions])
    for joined in (clean.joined([rows]), FourierRows(parameters, A[50:70]).joined([clean, rows])):
        np.testing.assert_array_equal(joined.not_finite(), len(joined._A) - 50 + np.array([0, 20, 49]))
        joined.fill(len(joined._A) - 50 + positions, output)
        np.testing.assert_array_equal(output, expected)


@pytest.mark.parametrize("sigma", [1e-30, 1.0, 1e20])
def test_not_finite_finds_rows_with_overflowing_phases(sigma: float) -> None:
    far = A[:6].copy()
    far[1], far[2, 3], far[4] = 3e38, np.nan, 1e25
    for method in ("structured", "iid"):
        parameters = FourierSpec(M, D, sigma, method, 0).materialize()
        Z = parameters.transform(far)
        expected = np.flatnonzero(~np.isfinite(Z).all(axis=1))
        np.testing.assert_array_equal(FourierRows(parameters, far).not_finite(), expected)
