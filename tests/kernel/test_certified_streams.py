"""Kernel distances of points that are read block by block keep to eps: arrays of Dask and Zarr, stores.

``pytest -s -m slow`` on this file runs 10,000 trials and prints the greatest ratio of error and eps.
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
    greatest,
    many,
    random_trial,
    refused,
    shares,
    without_signs,
)


def of_zarr(x, rng):
    array = zarr.create_array(
        store={}, shape=x.shape, chunks=(int(rng.integers(1, 20)), x.shape[1]), dtype=x.dtype
    )
    array[:] = x
    return array


@many(16)
@pytest.mark.filterwarnings("ignore:column . of the points")  # they are of float32 from the beginning
@pytest.mark.parametrize("place", ["dask", "zarr", "store"])
def test_streamed_distances_keep_to_eps(place, n_trials, tmp_path, request):
    def ratio(seed):
        trial = random_trial(seed) if seed % 5 == 4 and place != "store" else adversarial_trial(seed)
        x, y, sigma, weights, eps = without_signs(trial, seed)
        rng = np.random.default_rng([seed, 0x5354])
        if place == "zarr":
            weights = None, weights[1]
        p, q = shares(weights, x, y)
        if place == "dask":
            a, b = (da.from_array(s, chunks=(int(rng.integers(1, 20)), s.shape[1])) for s in (x, y))
        elif place == "zarr":
            a, b = of_zarr(x, rng), y if weights[1] is not None else of_zarr(y, rng)
        else:
            x, y, p, q = (v.astype(np.float32) for v in (x, y, p, q))  # what stores keep
            sets = dk.SampleSets.from_arrays([x, y], [p, q])
            store = dk.write_sets(tmp_path / "s", sets, overwrite=True, chunk_rows=16)
            p, q = (v / v.sum(dtype=np.float64) for v in (p, q))
            a, b = store[:1], store[1:]
        w = {} if place == "store" else {"weights": weights}
        try:
            result = dk.kernel_distance(a, b, sigma=sigma, squared=True, eps=eps, **w)
        except ValueError as error:
            return refused(error, "the mesh must have at most")
        both, z = np.concatenate([x, y]).astype(np.float64), np.concatenate([p, -q])
        return float(abs(result - exact_energy(both, z, 1 / np.longdouble(sigma), "gaussian"))) / eps

    assert greatest(request.node.name, ratio, n_trials) <= 1
