"""`NearestSets(engine="approximate", epsilon=...)`: distances within 1 + epsilon of brute force, for every query."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from scipy.spatial.distance import cdist

import dkdist as dk

pytest.importorskip("faiss")
ROUNDING = 1e-5  # float32 sums of faiss, as in test_nearest_sets.py


def ratios(model, X, queries):
    """Return (distances / true distances of the same rank, distances / recomputed distances of the rows)."""
    distances, indices = model.kneighbors(queries)
    exact = cdist(queries.astype(float), X.astype(float))
    assert all(len(set(row)) == len(row) for row in indices.tolist())
    truth = np.sort(exact, axis=1)[:, : distances.shape[1]]
    return distances / truth, distances / np.take_along_axis(exact, indices, axis=1)


@pytest.mark.parametrize("epsilon", [0, 0.1, 1.0])
@pytest.mark.parametrize(("D", "offset"), [(1, 0.0), (2, 0.0), (3, 100.0), (10, 0.0)])
def test_ratios_are_at_most_one_plus_epsilon(epsilon, D, offset):
    """Queries far from all rows, between clusters and near rows; the recall alone guarantees nothing."""
    rng = np.random.default_rng(D)
    centres = 3 * rng.random((8, D))
    X = (centres[rng.integers(8, size=4000)] + 0.3 * rng.standard_normal((4000, D)) + offset).astype("f4")
    queries = np.concatenate(
        [X[:40] + 0.01, 3 * rng.random((40, D)) + offset, 20 * rng.random((20, D)) + offset]
    )
    queries = queries.astype("f4")
    options = {"engine": "approximate", "recall": 0.2, "random_state": 0}
    model = dk.NearestSets(5, epsilon=epsilon, **options).fit(X)
    ratio, recomputed = ratios(model, X, queries)
    assert ratio.max() <= (1 + epsilon) * (1 + ROUNDING)
    np.testing.assert_allclose(recomputed, 1, rtol=1e-4 if offset else ROUNDING)
    without = dk.NearestSets(5, **options).fit(X)
    assert ratios(without, X, queries)[0].max() > 1.2
    assert model.recall_.share >= without.recall_.share


def test_scan_stops_before_all_cells():
    """Cells of well-separated clusters are proven to be far after a few have been scanned."""
    rng = np.random.default_rng(0)
    centres = np.stack(np.meshgrid(*[np.arange(10.0)] * 2), axis=-1).reshape(-1, 2)
    X = (centres[rng.integers(100, size=20_000)] + 0.02 * rng.standard_normal((20_000, 2))).astype("f4")
    model = dk.NearestSets(3, "approximate", 0.5, 0, 0.1).fit(X)
    scanned, search = [], model._index._search
    object.__setattr__(model._index, "_search", lambda q, k, n: scanned.append(len(q) * n) or search(q, k, n))
    model.kneighbors(X[:100])
    assert sum(scanned) < 0.3 * 100 * model._index.index.nlist
    assert ratios(model, X, X[:50] + np.float32(0.01))[0].max() <= 1.1 * (1 + ROUNDING)


def test_kernel_distances_of_sets_have_the_guarantee():
    """Rows have a certified error: D^2 is within delta = 4 `error_bound_` of the kernel distance."""
    rng = np.random.default_rng(0)
    sets = [rng.normal(4 * rng.random(), 0.3 + rng.random(), (20, 1)) for _ in range(400)]
    embedding = dk.MeanEmbedding(40, sigma=1.0, method="fourier", random_state=0).fit(sets)
    rows, epsilon = embedding.transform(sets), 0.2
    model = dk.NearestSets(1, "approximate", 0.1, 0, epsilon).fit(rows[40:])
    indices = model.kneighbors(rows[:40], return_distance=False)[:, 0]
    delta = 4 * embedding.error_bound_ + 1e-6  # float32 rows
    exact = np.array(
        [[dk.kernel_distance(a, b, sigma=1.0, squared=True) for b in sets[40:]] for a in sets[:40]]
    )
    result = np.take_along_axis(exact, indices[:, None], axis=1)[:, 0]
    assert (result <= (1 + epsilon) ** 2 * (exact.min(axis=1) + delta) + delta).all()


def test_pickled_models_find_copies_of_rows():
    X = np.repeat(np.random.default_rng(0).standard_normal((50, 3)), 4, axis=0).astype("f4")
    model = dk.NearestSets(3, "approximate", random_state=0, epsilon=0.5).fit(X)
    distances, indices = pickle.loads(pickle.dumps(model)).kneighbors()
    assert (distances <= ROUNDING).all()
    assert (indices // 4 == np.arange(200)[:, None] // 4).all()
    assert model.recall_ == (1.0, 0.0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"epsilon": -0.1}, "epsilon must be None or a number >= 0; got -0.1"),
        ({"epsilon": "small"}, "epsilon must be None or a number >= 0; got 'small'"),
        ({"epsilon": True}, "epsilon must be None or a number >= 0; got True"),
        ({"epsilon": 0.1, "engine": "exact"}, "must be None for engine='exact', whose neighbours are exact"),
    ],
)
def test_invalid_epsilon_raises(options, message):
    with pytest.raises(ValueError, match=message):
        dk.NearestSets(2, **{"engine": "approximate", **options}).fit(np.eye(4, dtype="f4"))


@pytest.mark.parametrize("engine", ["faiss", "approximate"])
@pytest.mark.parametrize(
    ("scale", "message"), [(1e20, "coordinates below 4.6e\\+18"), (1e-30, "at least 1e-15")]
)
def test_rows_whose_squares_leave_float32_are_refused(engine, scale, message):
    rows = np.random.default_rng(0).standard_normal((300, 4)).astype("f4")
    with pytest.raises(ValueError, match=f"X must have .*{message} for faiss.* Rescale the rows"):
        dk.NearestSets(5, engine=engine).fit(rows * np.float32(scale))
    model = dk.NearestSets(5, engine=engine, random_state=0).fit(rows)
    if scale > 1:
        with pytest.raises(ValueError, match=f"queries must have {message}"):
            model.kneighbors(rows * np.float32(scale))
    else:  # small queries lie at the origin
        nearest = np.argsort((rows**2).sum(axis=1))[0]
        assert (model.kneighbors(rows[:3] * np.float32(scale), 1)[1] == nearest).mean() >= (engine == "faiss")
    exact = dk.NearestSets(5).fit(rows * np.float32(scale))
    np.testing.assert_array_equal(exact.kneighbors()[1], dk.NearestSets(5).fit(rows).kneighbors()[1])
