"""Random collections and comparisons shared by the tests of the store."""

import re

import numpy as np

from dkdist.sets import SampleSets


def random_sets(sizes, d=2, weights=None, seed=0):
    """Return sets of the given sizes; `weights` is None, () for one weight per point, or (k,)."""
    rng = np.random.default_rng([seed, len(sizes), d])
    arrays = [rng.standard_normal((n, d)).astype("f4") for n in sizes]
    columns = None if weights is None else [rng.standard_normal((n, *weights)).astype("f4") for n in sizes]
    return SampleSets.from_arrays(arrays, columns)


def assert_same_sets(result, expected):
    np.testing.assert_array_equal(result.offsets, expected.offsets)
    np.testing.assert_array_equal(result.points, expected.points)
    assert result.points.dtype == expected.points.dtype
    assert (result.weights is None) == (expected.weights is None)
    if expected.weights is not None:
        np.testing.assert_array_equal(result.weights, expected.weights)


def counted_batch(first, n_sets, d=3):
    """Return sets first .. first + n_sets - 1 of an endless deterministic collection."""
    numbers = np.arange(first, first + n_sets)
    sizes = 1 + (numbers * 7919) % 40
    points = np.repeat(numbers, sizes)[:, None] + np.arange(d) / 8
    return SampleSets(points, np.concatenate([[0], np.cumsum(sizes)]))


NAMED = ("", "points/", "commits/")  # whose documents name the generation


def content(store):
    """Return the bytes of every object without the generation, which documents and the key of the table name."""
    result = {re.sub(r"/\d+-\w{8}/", "/", key): value.to_bytes() for key, value in store._store_dict.items()}
    assert "commits/c/0" in result
    return {key: value for key, value in result.items() if key.removesuffix("zarr.json") not in NAMED}
