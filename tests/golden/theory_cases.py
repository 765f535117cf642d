"""Golden cases of error bounds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import astuple
from typing import Any

import dkdist as dk

from .harness import EXACT, IN_MEMORY, case, float32, float64


@case(EXACT, forms=IN_MEMORY)
def numbers_of_features(inputs: Any) -> Mapping[str, Any]:
    del inputs
    ball = {"n_dims": 2, "diameter": 1.0, "sigma": 0.2}
    return {
        "numbers": [
            dk.n_features_for(0.05, rule="rff", n_points=1000),
            dk.n_features_for(0.05, rule="rff", **ball),
            dk.n_features_for(0.05, rule="fourier", **ball),
            dk.n_features_for(0.05, rule="taylor", **ball),
        ]
    }


@case(float64("closed formulas", by_entry=True), forms=IN_MEMORY)
def bounds_of_inner_products(inputs: Any) -> Mapping[str, Any]:
    del inputs
    one = dk.hdd_error_bound(10_000, 500, sigma=1.0, bandwidth=0.05, lipschitz=1.0, lowest=0.5)
    two = dk.hdd_error_bound(
        10_000, 500, sigma=1.0, bandwidth=0.1, lipschitz=2.0, divergence="jensen-shannon", n_dims=2,
        n_frequencies=5, n_basis=10, smoothness=(2.0, 1.0), n_nodes=400,
    )  # fmt: skip
    assert isinstance(one, dk.HddErrorBound)
    return {"one": astuple(one), "two": astuple(two)}


@case(float32(300, "kernels of rows of 300 points, whose errors are differences near 0.05", condition=20))
def errors_of_kernels(inputs: Any) -> Mapping[str, Any]:
    sets = inputs.sets("plane")
    model = dk.MeanEmbedding(64, sigma=0.5, method="orthogonal", random_state=0).fit(sets)
    error = dk.kernel_error(model, sets, n_pairs=40, random_state=0)
    assert isinstance(error, dk.KernelError)
    return {"error": astuple(error)}
