"""Noise of rows of divergence embeddings: the variance of a row over samples from the set's distribution.

    E |row - limit|^2 ~ sum_k v_k c Var p(x_k) / p(x_k),   c = sum_j w_j (1/4 + l_j^2),
    Var p(x) ~ sum_i u_i^2 (K(x, x_i) - p(x))^2 / (1 - sum_i u_i^2)

to first order in p - E p, for row_kj = (v_k w_j)^(1/2) p(x_k)^(1/2 + i l_j). The limit is the row of the smoothed
density E p, to which rows converge as n grows at a fixed bandwidth. u_i are normalised weights; K is the reflected
Gaussian, as a series of the degrees of the embedding. For two independent samples, E d^2 is d^2 of the limits
plus the noise of each sample.
"""

from __future__ import annotations

import math

import numpy as np

from dkdist._base.influence import weight_fractions
from dkdist._numba.arrays import F64
from dkdist.embeddings._density_numba import MIN_DENSITY, basis_table, term_table
from dkdist.embeddings._tuning import (
    LATTICE_POINTS_PER_NOISE_BATCH,
    MAX_NOISE_PRODUCTS,
    POINTS_PER_NOISE_BATCH,
)
from dkdist.embeddings.divergence_params import DivergenceSpec, lattice_size, scale_coefficients
from dkdist.embeddings.nodes import folded_lattice, midpoints
from dkdist.sets import SampleSets


def row_noise(spec: DivergenceSpec, sets: SampleSets) -> F64:
    """Return the noise (n_sets,) of the rows of ``sets``, averaged over bandwidths."""
    low, scale = spec.domain.low_and_scale
    steepness = float(np.dot(spec.masses, 0.25 + np.array(spec.frequencies) ** 2))
    noise = np.zeros(len(sets))
    for i in range(len(sets)):
        unit = np.clip((sets[i] - low) * scale, 0, 1).astype(np.float64)
        u = weight_fractions(sets[i : i + 1])
        concentration = float((u**2).sum())
        if concentration >= 1 - 1e-12:  # a single point has no variance
            noise[i] = np.nan
            continue
        for bandwidth in spec.scales:
            for p, squares, cross in _moments(spec, bandwidth, unit, u):
                variance = np.maximum(squares - 2 * p * cross + p**2 * concentration, 0) / (1 - concentration)
                ratio = np.where(p > MIN_DENSITY, variance / np.maximum(p, MIN_DENSITY), 0)
                noise[i] += steepness * ratio.mean() / len(spec.scales)
    return noise


def _moments(
    spec: DivergenceSpec, bandwidth: tuple[float, ...], unit: F64, u: F64
) -> list[tuple[F64, F64, F64]]:
    """Return (sum u K, sum u^2 K^2, sum u^2 K) at the nodes, for each density."""
    if spec.structure == "ball":
        return [_lattice_sums(spec, bandwidth, unit, u)]
    nodes, degrees = midpoints(spec.n_basis)[0], scale_coefficients(spec, bandwidth).degrees
    axes = []
    for j, (K, h) in enumerate(zip(degrees, bandwidth, strict=True)):
        cosines = np.cos(np.pi * np.outer(unit[:, j], np.arange(int(K))))
        axes.append(cosines @ basis_table(nodes, int(K), h).T.astype(np.float64))
    if spec.structure == "marginal":
        return [_product_sums([axis], u) for axis in axes]
    return [_product_sums(axes, u)]


def _product_sums(axes: list[F64], u: F64) -> tuple[F64, F64, F64]:
    """Return the sums of `_moments` at all q^d nodes, where K is a product of values along the axes, each (n, q)."""

    def total(weights: F64, power: int) -> F64:
        product = weights[:, None]
        for axis in axes[:-1]:
            product = (product[:, :, None] * (axis**power)[:, None, :]).reshape(len(axis), -1)
        return (product.T @ axes[-1] ** power).ravel()

    n_products = math.prod(axis.shape[1] for axis in axes[:-1])
    step = max(1, min(POINTS_PER_NOISE_BATCH, MAX_NOISE_PRODUCTS // n_products))
    parts = [slice(first, first + step) for first in range(0, len(u), step)]
    if len(parts) > 1:
        pieces = [_product_sums([axis[part] for axis in axes], u[part]) for part in parts]
        return sum(p[0] for p in pieces), sum(p[1] for p in pieces), sum(p[2] for p in pieces)  # type: ignore[return-value]
    return total(u, 1), total(u**2, 2), total(u**2, 1)


def _lattice_sums(
    spec: DivergenceSpec, bandwidth: tuple[float, ...], unit: F64, u: F64
) -> tuple[F64, F64, F64]:
    """Return the sums of `_moments` at the nodes of a lattice, from the terms of a ball of degrees."""
    exponents = scale_coefficients(spec, bandwidth).exponents
    nodes = folded_lattice(lattice_size(spec.n_basis), spec.n_dims)
    table = term_table(nodes, exponents, np.array(bandwidth)).astype(np.float64)
    sums = [np.zeros(len(nodes)) for _ in range(3)]
    for first in range(0, len(unit), LATTICE_POINTS_PER_NOISE_BATCH):
        part = slice(first, first + LATTICE_POINTS_PER_NOISE_BATCH)
        cosines = np.ones((len(unit[part]), len(exponents)))
        for j in range(spec.n_dims):
            cosines *= np.cos(np.pi * np.outer(unit[part, j], exponents[:, j]))
        K, v = cosines @ table, u[part]
        for total, value in zip(sums, (v @ K, v**2 @ K**2, v**2 @ K), strict=True):
            total += value
    return sums[0], sums[1], sums[2]
