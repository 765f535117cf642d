"""Influence of points on mean quantiles of cells, against finite differences in float64."""

import numpy as np
import pytest

from dkdist.distances.sliced_wasserstein_embedding import quantile_potentials


def mean_quantiles(line, u, edges):
    """Return the means of F^-1 over the cells between the edges, by integrating a step function."""
    order = np.argsort(line, kind="stable")
    ends = np.concatenate([[0], u[order].cumsum()])
    shares = np.clip(np.minimum(ends[1:, None], edges[1:]) - np.maximum(ends[:-1, None], edges[:-1]), 0, None)
    return line[order] @ shares / np.diff(edges)


@pytest.mark.parametrize(("n", "Q"), [(7, 16), (40, 16), (300, 16), (50, 1), (64, 8)])
def test_influences_are_derivatives_of_mean_quantiles(n, Q):
    rng = np.random.default_rng(n)
    lines, g = rng.normal(size=(n, 2)).round(1), rng.normal(size=(2, Q, 3))  # with ties
    u = rng.uniform(0.5, 1.5, n)
    u /= u.sum()
    edges = np.concatenate([[0.25], np.arange(1, Q), [Q - 0.25]]) / Q
    result = quantile_potentials(lines, u, lines, g)
    result = result - u @ result
    t = 1e-6
    for i in range(n):
        moved = [(1 - s * t) * u + s * t * (np.arange(n) == i) for s in (1, -1)]
        above, below = (
            sum(mean_quantiles(x, v, edges) @ h for x, h in zip(lines.T, g, strict=True)) for v in moved
        )
        np.testing.assert_allclose(result[i], (above - below) / (2 * t), atol=1e-5 * np.abs(g).sum())


def test_an_outlier_has_the_influence_of_the_outermost_inlier():
    rng = np.random.default_rng(0)
    line = np.append(rng.normal(size=99), 1e9)[:, None]
    g = rng.normal(size=(1, 8, 1))
    result = quantile_potentials(line, np.full(100, 0.01), line, g)
    assert result[99] == result[np.argsort(line[:, 0])[98]]
