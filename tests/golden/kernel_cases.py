"""Golden cases of kernel distances, coresets, alignment and shapes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import dask.array as da
import numpy as np

import dkdist as dk

from .harness import EXACT, IN_MEMORY, LAZY, approximation, case, float64
from .inputs import cloud

P, Q = cloud(0), cloud(1, 80, shift=0.5)
WEIGHTS = np.random.default_rng(16).uniform(0.5, 2, len(P)), np.random.default_rng(17).uniform(0.5, 2, len(Q))
EXACT_SUMS = float64(
    "D^2 is a difference of sums that are below 10 times as large", condition=10, by_entry=True
)
EPS = 1e-4  # default error of D^2, of the squared weight; D^2 is above 0.05 here
METHOD_ERROR = approximation(2 * EPS / 0.05, "each method may miss D^2 by eps", by_entry=True)
KERNELS = ("gaussian", "laplace", "matern32", "matern52", "rational-quadratic", "energy")
T = np.linspace(0, 2 * np.pi, 31)[:-1]
CIRCLE = np.stack([np.cos(T), np.sin(T)], axis=1)
CORNERS = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1.0]])
FACES = [[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]]


@case(EXACT_SUMS, forms=IN_MEMORY)
def kernel_distances(inputs: Any) -> Mapping[str, Any]:
    del inputs
    results = {
        kernel: dk.kernel_distance(
            P, Q, sigma=None if kernel == "energy" else 0.7, kernel=kernel, method="exact"
        )
        for kernel in KERNELS
    }
    results["h"] = dk.kernel_distance(P, Q, h=0.5, squared=True, method="exact")
    results["gamma"] = dk.kernel_distance(P, Q, gamma=0.5, method="exact")
    results["median"] = dk.kernel_distance(P, Q, sigma="median", method="exact")
    results["unbiased"] = dk.kernel_distance(P, Q, sigma=0.7, squared=True, unbiased=True, method="exact")
    results["weighted"] = dk.kernel_distance(P, Q, sigma=0.7, weights=WEIGHTS, method="exact")
    results["two_scales"] = dk.kernel_distance(P, Q, sigma=[0.3, 1.0], method="exact")
    results["five"] = dk.kernel_distance(cloud(2, n_dims=5), cloud(3, 80, 5, 0.5), sigma=2.0, method="exact")
    return results


@case(METHOD_ERROR, forms=IN_MEMORY)
def kernel_distances_by_method(inputs: Any) -> Mapping[str, Any]:
    del inputs
    return {
        method: dk.kernel_distance(P, Q, sigma=0.7, squared=True, method=method, random_state=0)
        for method in ("auto", "fourier", "taylor", "tree", "wspd")
    }


@case(
    approximation(1e-6, "random features in float32: means over 60 and 80 points, D^2 above 0.05"),
    forms=IN_MEMORY,
)
def kernel_distance_by_random_features(inputs: Any) -> Mapping[str, Any]:
    del inputs
    return {"rff": dk.kernel_distance(P, Q, sigma=0.7, squared=True, method="rff", eps=0.1, random_state=0)}


@case(METHOD_ERROR, forms=LAZY)
def kernel_distance_of_lazy_points(inputs: Any) -> Mapping[str, Any]:
    stored = inputs.stored("clouds", [P, Q])
    chunks = {"chunks": (25, -1)}
    return {
        "stores": dk.kernel_distance(stored[0:1], stored[1:2], sigma=0.7, squared=True),
        "dask": dk.kernel_distance(
            da.from_array(P, **chunks), da.from_array(Q, **chunks), sigma=0.7, squared=True
        ),
    }


@case(EXACT_SUMS, forms=IN_MEMORY)
def kernel_gradients(inputs: Any) -> Mapping[str, Any]:
    del inputs
    D2, slopes = dk.kernel_distance(
        P, Q, sigma=0.7, squared=True, gradient=True, method="exact", weights=WEIGHTS
    )
    p, q = slopes.weights
    norm = np.linalg.norm
    return {
        "square": D2,
        "by_sigma": slopes.sigma,
        "norms": [norm(slopes.P), norm(slopes.Q), norm(p), norm(q)],
    }


@case(float64("a sum over 140 points; rows are compared by their norm"), forms=IN_MEMORY)
def kernel_gradients_by_point(inputs: Any) -> Mapping[str, Any]:
    del inputs
    slopes = dk.kernel_distance(P, Q, sigma=0.7, gradient=True, method="exact")[1]
    assert isinstance(slopes, dk.KernelGradient)
    return {"P": slopes.P, "Q": slopes.Q}


@case(float64("a difference of two means that are not close", condition=10), forms=IN_MEMORY)
def witness_function(inputs: Any) -> Mapping[str, Any]:
    del inputs
    queries = cloud(4, 20)
    return {
        kernel: dk.witness(P, Q, queries, sigma=0.7, kernel=kernel) for kernel in ("gaussian", "matern32")
    }


def of_coreset(results: dk.Coreset) -> dict[str, Any]:
    """Indices and weights of a coreset, and the distance that it states."""
    assert isinstance(results, dk.Coreset)
    return {"indices": results.indices, "weights": results.weights, "distance": results.distance}


# Weights solve a linear system of the kernel matrix of 8 points that are apart; D is a root of a difference.
CORESET = float64("weights and distances of chosen points", condition=1e4)


@case(CORESET, forms=IN_MEMORY)
def coresets(inputs: Any) -> Mapping[str, Any]:
    del inputs
    results = {}
    for name, choices in {
        "swap": {},
        "halving": {"method": "halving"},
        "optimal": {"optimal_weights": True},
        "weighted": {"weights": WEIGHTS[0]},
        "laplace": {"kernel": "laplace"},
    }.items():
        chosen = dk.coreset(P, 8, sigma=0.7, random_state=0, **choices)
        results.update({f"{name} {key}": value for key, value in of_coreset(chosen).items()})
    return results


@case(CORESET, forms=IN_MEMORY)
def merged_coresets(inputs: Any) -> Mapping[str, Any]:
    del inputs
    parts = [dk.coreset(cloud(k, 200), 16, sigma=0.7, random_state=0) for k in range(3)]
    running = dk.RunningCoreset(8, sigma=0.7, random_state=0)
    for k in range(3):
        running.add(cloud(k, 200))
    merged, so_far = dk.merge_coresets(parts, 8, random_state=0), running.coreset()
    return {
        **{f"merged {key}": value for key, value in of_coreset(merged).items()},
        **{f"running {key}": value for key, value in of_coreset(so_far).items()},
    }


@case(CORESET, forms=LAZY)
def coreset_of_stored_points(inputs: Any) -> Mapping[str, Any]:
    stored = inputs.stored("cloud", [cloud(5, 500)])
    return of_coreset(dk.coreset(stored, 8, sigma=0.7, random_state=0))


@case(EXACT, forms=IN_MEMORY)
def coreset_sizes(inputs: Any) -> Mapping[str, Any]:
    del inputs
    return {"sizes": [dk.coreset_size(eps, delta) for eps in (0.3, 0.1, 0.03) for delta in (0.05, 0.01)]}


@case(
    approximation(1e-4, "a quasi-Newton method ends where the gradient is below 1e-5 or D^2 changes by 1e-9"),
    forms=IN_MEMORY,
)
def alignments(inputs: Any) -> Mapping[str, Any]:
    del inputs
    moved = P * [2.0, 1.0]
    c, s = np.cos(0.6), np.sin(0.6)
    turned = moved @ np.array([[c, s], [-s, c]]) + [1.0, -2.0]
    shifted = moved[:50] + np.array([0.7, 0.2])
    results: dict[str, Any] = {}
    for name, other, transform in (("rigid", turned, "rigid"), ("translation", shifted, "translation")):
        answer = dk.align(other, moved, sigma=0.7, transform=transform, random_state=0)
        assert isinstance(answer, dk.Alignment)
        results.update(
            {
                f"{name} rotation": answer.rotation,
                f"{name} translation": answer.translation,
                f"{name} before": answer.distance_before,
            }
        )
    results["translation distance"] = answer.distance
    return results


@case(EXACT_SUMS, forms=IN_MEMORY)
def distances_of_shapes(inputs: Any) -> Mapping[str, Any]:
    del inputs
    curves = [dk.Curve(scale * CIRCLE, closed=True) for scale in (1.0, 1.2)]
    unoriented = [dk.Curve(scale * CIRCLE, varifold=True) for scale in (1.0, 1.2)]
    surfaces = [dk.Surface(scale * CORNERS, FACES) for scale in (1.0, 1.3)]
    return {
        "curves": dk.kernel_distance(*curves, sigma=0.5, method="exact"),
        "varifolds": dk.kernel_distance(*unoriented, sigma=0.5, method="exact"),
        "surfaces": dk.kernel_distance(*surfaces, sigma=0.5, method="exact"),
        "bound": dk.shape_error_bound(*curves, sigma=0.5),
    }


@case(float64("means of segments in cells of a grid"), forms=IN_MEMORY)
def points_of_shapes(inputs: Any) -> Mapping[str, Any]:
    del inputs
    curve = dk.Curve(CIRCLE, closed=True)
    grid, sample = dk.gridded_shape(curve, 0.4), dk.sampled_shape(curve, 12, random_state=0)
    assert isinstance(grid, dk.ShapePoints)
    fine, other = dk.refine_shapes(curve, dk.Curve(1.2 * CIRCLE, closed=True), sigma=0.5, eps=1e-2)
    return {
        "grid points": grid.points,
        "grid channels": grid.channels,
        "moved": grid.moved,
        "sample points": sample.points,
        "sample channels": sample.channels,
        "lengths": np.array([len(fine.points), len(other.points)]),
        "fine": fine.points,
    }
