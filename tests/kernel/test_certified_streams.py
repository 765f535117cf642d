"""Errors of kernel distances of lazy points are at most eps: arrays of Dask and Zarr, stores.

``pytest -s -m slow`` on this file runs 10,000 trials and prints the maximum ratio of error and eps.
"""

from __future__ import annotations

import dask.array as da
import numpy as np
import pytest
import zarr

import dkdist as dk

from .kernel_trials import (
    adversarial_trial,
    exact_energy,
    max_ratio,
    random_trial,
    reraise_unless,
    weights_or_equal,
    with_nonnegative_weights,
    with_trials,
)


def zarr_array(x, rng):
    array = zarr.create_array(
        store={}, shape=x.shape, chunks=(int(rng.integers(1, 20)), x.shape[1]), dtype=x.dtype
    )
    array[:] = x
    return array


@with_trials(16)
@pytest.mark.filterwarnings("ignore:column . of the points")  # the points are float32 already
@pytest.mark.parametrize("source", ["dask", "zarr", "store"])
def test_errors_of_streamed_distances_are_at_most_eps(source, n_trials, tmp_path, request):
    def ratio(seed):
        trial = random_trial(seed) if seed % 5 == 4 and source != "store" else adversarial_trial(seed)
        x, y, sigma, weights, eps = with_nonnegative_weights(trial, seed)
        rng = np.random.default_rng([seed, 0x5354])
        if source == "zarr":
            weights = None, weights[1]
        p, q = weights_or_equal(weights, x, y)
        if source == "dask":
            a, b = (da.from_array(s, chunks=(int(rng.integers(1, 20)), s.shape[1])) for s in (x, y))
        elif source == "zarr":
            a, b = zarr_array(x, rng), y if weights[1] is not None else zarr_array(y, rng)
        else:
            x, y, p, q = (v.astype(np.float32) for v in (x, y, p, q))  # dtype of stores
            sets = dk.SampleSets.from_arrays([x, y], [p, q])
            store = dk.write_sets(tmp_path / "s", sets, overwrite=True, chunk_rows=16)
            p, q = (v / v.sum(dtype=np.float64) for v in (p, q))
            a, b = store[:1], store[1:]
        w = {} if source == "store" else {"weights": weights}
        try:
            result = dk.kernel_distance(a, b, sigma=sigma, squared=True, eps=eps, **w)
        except ValueError as error:
            return reraise_unless(error, "the mesh must have at most")
        both, z = np.concatenate([x, y]).astype(np.float64), np.concatenate([p, -q])
        return float(abs(result - exact_energy(both, z, 1 / np.longdouble(sigma), "gaussian"))) / eps

    assert max_ratio(request.node.name, ratio, n_trials) <= 1
