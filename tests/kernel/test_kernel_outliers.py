"""Distant outliers do not make kernel distances quadratic: work is counted, and errors are within eps."""

from __future__ import annotations

import numpy as np
import pytest

import dkdist as dk
from dkdist.kernels import methods as kernel_methods
from dkdist.kernels import mmd_problem

N, SIGMA = 10_000, 0.1
EPS = 1e-4


def one_outlier(rng, d):
    x, y = rng.normal(0, 1, (N, d)), rng.normal(0.1, 1, (N, d))
    x[0] = 1e4
    return x, y


def outliers_in_both_sets(rng, d):
    x, y = rng.normal(0, 1, (N, d)), rng.normal(0.1, 1, (N, d))
    for s in (x, y):
        s[:400] = rng.uniform(-1e4, 1e4, (400, d))
    return x, y


def heavy_tails(rng, d):
    return rng.standard_cauchy((N, d)), rng.standard_cauchy((N, d))


def cloud_on_a_long_line(rng, d):
    """The points are connected, and their bounding box is almost empty."""
    line = np.linspace(0, 4000, 8000)[:, None] * np.ones(d)
    return np.concatenate([rng.normal(0, 1, (N, d)), line]), rng.normal(0.1, 1, (N, d))


def two_far_clouds(rng, d):
    x, y = (np.concatenate([rng.normal(m, 1, (N // 2, d)) for m in (0, 1e6)]) for _ in range(2))
    return x, y


@pytest.fixture
def work(monkeypatch):
    """Count pairs of exact sums, cells of meshes and points of trees."""
    counts = {"pairs": 0.0, "cells": 0.0, "tree": 0}
    energy, spans, tree = mmd_problem.energy, kernel_methods.blockwise_energy, kernel_methods.tree_energy
    planned, blocks = kernel_methods.plan_fourier, kernel_methods.block_energy

    def counted_energy(points, sigma, kernel="gaussian"):
        counts["pairs"] += len(points) ** 2 / 2
        return energy(points, sigma, kernel)

    def counted_spans(x, z, parts):
        counts["pairs"] += float((np.diff(parts, axis=1).astype(float) ** 2).sum()) / 2
        return spans(x, z, parts)

    def counted_tree(boxes, eps):
        counts["tree"] += boxes.columns.shape[1]
        return tree(boxes, eps)

    def counted_plan(*box):
        plan = planned(*box)

        def counted_fourier(points):
            counts["cells"] += plan.n_modes
            return plan.energy(points)

        return plan and plan._replace(energy=counted_fourier)

    def counted_blocks(z, sigma, cells, result):
        counts["cells"] += result.n_cells
        return blocks(z, sigma, cells, result)

    for name, function in {
        "blockwise_energy": counted_spans, "tree_energy": counted_tree,
        "plan_fourier": counted_plan, "block_energy": counted_blocks,
    }.items():  # fmt: skip
        monkeypatch.setattr(kernel_methods, name, function)
    monkeypatch.setattr(mmd_problem, "energy", counted_energy)
    return counts


@pytest.mark.parametrize("d", [1, 2, 3])
@pytest.mark.parametrize(
    "sets", [one_outlier, outliers_in_both_sets, heavy_tails, cloud_on_a_long_line, two_far_clouds]
)
def test_work_is_linear_in_the_number_of_points(sets, d, work):
    x, y = sets(np.random.default_rng(d), d)
    n = len(x) + len(y)
    sigma = SIGMA * (1 if d < 3 else 3)
    result = dk.kernel_distance(x, y, sigma=sigma, squared=True, eps=EPS)
    assert work["pairs"] <= mmd_problem.MAX_DIRECT_POINTS * n
    assert work["cells"] <= 5000 * n
    assert work["tree"] == 0  # the work of trees is not bounded by the number of points
    exact = dk.kernel_distance(x, y, sigma=sigma, squared=True, method="exact")
    assert abs(result - exact) <= EPS


def test_work_with_weights_and_outliers(work):
    """A heavy outlier, weights of both signs, and parts without weight."""
    rng = np.random.default_rng(5)
    x, y = outliers_in_both_sets(rng, 2)
    x[1000:4000] += 1e5
    p, q = rng.standard_normal(N) / N, rng.random(N) / N
    p[0], p[1000:4000] = 3.0, 0.0
    options = {"sigma": SIGMA, "weights": (p, q), "squared": True, "eps": 1e-3}
    result = dk.kernel_distance(x, y, **options)
    assert work["pairs"] <= mmd_problem.MAX_DIRECT_POINTS * 2 * N
    assert abs(result - dk.kernel_distance(x, y, **options, method="exact")) <= 1e-3


def test_taylor_terms_of_distant_parts(work):
    rng = np.random.default_rng(6)
    x, y = rng.normal(0, 1, (N, 5)), rng.normal(0.1, 1, (N, 5))
    x[:20], y[3] = rng.uniform(-1e4, 1e4, (20, 5)), 1e5
    result = dk.kernel_distance(x, y, sigma=5.0, squared=True)
    assert work["pairs"] <= 100
    assert abs(result - dk.kernel_distance(x, y, sigma=5.0, squared=True, method="exact")) <= EPS


def test_search_for_parts_does_not_change_connected_sets(work, monkeypatch):
    rng = np.random.default_rng(7)
    x, y = rng.random((3000, 2)), rng.random((3000, 2))
    expected = dk.kernel_distance(x, y, sigma=0.05, squared=True)
    for name, value in {"POINT_SCAN_NS": 0.0, "BLOCK_CELL_NS": 1e300, "TREE_POINT_NS": 1e300}.items():
        monkeypatch.setattr(kernel_methods, name, value)  # the search for parts does not change the result
    assert dk.kernel_distance(x, y, sigma=0.05, squared=True) == expected
