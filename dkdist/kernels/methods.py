"""Kernel energies faster than all pairs: one function per method of `kernel_distance`, and the choice of "auto".

Fourier sums have a certified error: |error of E| <= W^2 sup |error of k|, W = sum_i |z_i|. Sums over few frequencies
run in float32 (`_grid_sums_numba`), so rounding is part of the bound. Sums on a mesh with a fast transform
(`_mesh_numba`), and on cells without one (`_cells_numba`: few points, little memory) run in float64.

A kernel that is a Gaussian mixture c + q r^2 + sum_m w_m exp(-r^2 / (2 s_m^2)) has the energy

    E = c S^2 + 2 q (S sum_i z_i |x_i|^2 - |sum_i z_i x_i|^2) + sum_m w_m E_m,   S = sum_i z_i

with E_m by the fastest method. Half of the allowed error is for the mixture, and the Gaussians share the rest equally.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import gamma
from typing import NamedTuple

import numpy as np
from scipy.special import gammaincc

from dkdist._base.random_streams import RngStream
from dkdist._numba.arrays import F64, I64
from dkdist._numba.weighted_points import WeightedPoints
from dkdist.kernels._cells_numba import block_energy, cell_energy, kernel_blocks, kernel_cells
from dkdist.kernels._exact_numba import (
    blockwise_energy,
    connected_components,
    cutoff_radius,
    is_connected_by_bins,
    total_variation_mass,
)
from dkdist.kernels._grid_sums_numba import Products, add_grid_sums
from dkdist.kernels._mesh_numba import kernel_mesh, mesh_energy
from dkdist.kernels._taylor_numba import n_terms, taylor_energy, taylor_order
from dkdist.kernels._trees_numba import LEAF_POINTS, Tree, box_tree, separated_energy, tree_energy
from dkdist.kernels._tuning import (
    BLOCK_CELL_NS,
    CELL_NS,
    COMPONENT_BATCH_POINTS,
    COMPONENT_TOL_RATIO,
    EMPTY_CELL_NS,
    FREQUENCY_NS,
    GAUSSIAN_PLAN_NS,
    GRID_ROUNDING,
    GRID_SEARCH_NS,
    MAX_COPIED_NUMBERS,
    MAX_DIRECT_POINTS,
    MAX_GRID_FREQUENCIES,
    MAX_KERNEL_TOL,
    MAX_MESH_RATIO,
    MAX_MODES,
    MAX_RFF_FREQUENCIES,
    MAX_RFF_ROUNDING,
    MAX_SMALL_SET_BYTES,
    MAX_TAYLOR_TERMS,
    MAX_TRUNCATION_RATIO,
    MESH_SEARCH_NS,
    MIN_WIDE_RATIOS,
    N_RFF_REPLICATES,
    NARROW_POINT_NS,
    PAIR_NS,
    POINT_SCAN_NS,
    POINTS_PER_RFF_FREQUENCY,
    TREE_POINT_NS,
    WIDE_POINT_NS,
)
from dkdist.kernels.fourier_grid import MAX_GRID_DIMS, FourierGrid, fourier_grid, grid_layout
from dkdist.kernels.kernel_sums import scaled
from dkdist.kernels.mmd_problem import MMDProblem, direct_energy
from dkdist.kernels.registry import GaussianMixture, get_kernel

# in bandwidths; exp(-37^2 / 2) is still a normal float64 number (tests/kernel/test_kernel_bounds.py)
MAX_TAYLOR_RADIUS = 37.0


class FourierPlan(NamedTuple):
    """Function ``energy`` of points in one to three dimensions, by frequencies, on a mesh or on cells.

    Other fields: certified error, nanoseconds and float64 numbers in memory per channel.
    """

    energy: Callable[[WeightedPoints], float]
    error: float
    nanoseconds: float
    n_modes: int


def plan_fourier(widths: F64, sigma: float, eps: float, W: float, n: int) -> FourierPlan | None:
    """Return the fastest plan with an error of at most ``eps``, for n points in a box of sides ``widths``, or None."""
    kernel_tol = min(eps / max(W**2, 1e-300), MAX_KERNEL_TOL)
    cells, mesh = (
        kernel_cells(widths, sigma, kernel_tol),
        kernel_mesh(widths, sigma, kernel_tol, n, max_cells=_max_mesh_cells(n, len(widths))),
    )
    if cells is None:
        return None
    time = CELL_NS * n * cells.cost + EMPTY_CELL_NS * cells.n_cells
    energy = partial(cell_energy, sigma=sigma, cells=cells)
    best = FourierPlan(energy, W**2 * cells.error, time, cells.n_cells)
    if mesh is not None and mesh.n_cells <= MAX_MODES and mesh.nanoseconds < best.nanoseconds:
        energy = partial(mesh_energy, sigma=sigma, mesh=mesh)
        best = FourierPlan(energy, W**2 * mesh.error, mesh.nanoseconds, mesh.n_cells)
    rounding = GRID_ROUNDING + np.exp(-0.5) * 2.0**-24 * float(np.sqrt((widths**2).sum())) / sigma
    max_frequencies = min(MAX_GRID_FREQUENCIES, int(best.nanoseconds / (FREQUENCY_NS * n)))
    if (
        rounding < kernel_tol / 2
        and best.nanoseconds > GRID_SEARCH_NS
        and _truncated_weight(widths, sigma, max_frequencies) < MAX_TRUNCATION_RATIO * kernel_tol
    ):
        grid = fourier_grid(widths, sigma, kernel_tol - rounding, max_frequencies)
        if grid.error + rounding <= kernel_tol:
            energy = partial(frequency_energy, sigma=sigma, grid=grid)
            time, error = FREQUENCY_NS * n * grid.n_features, W**2 * (grid.error + rounding)
            return FourierPlan(energy, error, time, grid.n_features)
    return best


def _truncated_weight(widths: F64, sigma: float, n_frequencies: int) -> float:
    """Estimate the sum of all but the ``n_frequencies`` largest weights, from the frequency density of the box."""
    positive_widths = widths[widths > 0]
    d = len(positive_widths)
    if d == 0:
        return 0.0
    radius = (
        2
        * np.pi
        * (n_frequencies * gamma(d / 2 + 1) / np.pi ** (d / 2) / np.prod(positive_widths)) ** (1 / d)
    )
    return float(gammaincc(d / 2, (radius * sigma) ** 2 / 2))


def _max_mesh_cells(n: int, d: int) -> float:
    """Return the maximum number of mesh cells: `MAX_MESH_RATIO` of the points' bytes, no limit for small sets."""
    return MAX_MESH_RATIO * 4 * n * d / 8 if 4 * n * d > MAX_SMALL_SET_BYTES else np.inf


def frequency_energy(points: WeightedPoints, sigma: float, grid: FourierGrid) -> float:
    """Return E of points in the box of the ``grid``, from its frequencies."""
    n, W, (low, high) = len(points), points.mass, points.bounds
    if W == 0:
        return 0.0
    middle, half = (low + high) / 2, ((high - low) / 2).astype(np.float32)
    layout = grid_layout(grid.periods, grid.cutoff, sigma)
    products = Products(-half, half, np.array(grid.periods), layout.lengths)
    S = np.zeros((points.channels, len(layout.scales)))
    for x, z in points.tiles():  # weights near 1 minimise rounding errors of float32 sums
        add_grid_sums((x - middle).astype(np.float32), (z * (n / W)).astype(np.float32), W, products, S)
    return float(((S / n * layout.scales) ** 2).sum())


def _auto(problem: MMDProblem) -> float:
    """Apply method="auto" to more than `MAX_DIRECT_POINTS` points: deterministic, with an error of at most eps.

    Expensive problems are split into connected components first.
    """
    n, d = len(problem.points), problem.points.d
    if d > MAX_GRID_DIMS:
        return _taylor(problem) if _suits_taylor(problem) else _by_components(problem)
    plan = _plan_problem(problem)
    if plan is None:
        return direct_energy(problem)
    if plan.n_modes * problem.points.channels > MAX_MODES or plan.nanoseconds > POINT_SCAN_NS * n:
        return _by_components(problem)
    is_cheaper = MESH_SEARCH_NS + plan.nanoseconds < PAIR_NS * n**2 / 2
    return plan.energy(problem.points) if is_cheaper else direct_energy(problem)


def _by_components(problem: MMDProblem) -> float:
    """Sum the energies of connected components: small ones over all pairs, large ones by `_cheapest`.

    The error of k is at most ``kernel_tol`` within and between components, so that of E is at most ``kernel_tol`` W^2.
    """
    points, reach = problem.points, cutoff_radius(problem.sigma, COMPONENT_TOL_RATIO * problem.kernel_tol)
    if is_connected_by_bins(points, reach):
        return _cheapest(problem)
    order, firsts = connected_components(points, reach)
    if len(firsts) == 2:
        return _cheapest(problem)
    total, spans = 0.0, np.stack([firsts[:-1], firsts[1:]], axis=1)
    is_large = np.diff(spans)[:, 0] > MAX_DIRECT_POINTS
    for batch_spans in _component_batches(spans[~is_large]):
        rows, sizes = (
            np.concatenate([order[first:end] for first, end in batch_spans]),
            np.diff(batch_spans)[:, 0],
        )
        ends = np.cumsum(sizes)
        x, z = points.take(rows)
        x -= np.repeat(x[ends - sizes], sizes, axis=0)
        total += blockwise_energy(scaled(x, problem.sigma), z, np.stack([ends - sizes, ends], axis=1))
    for first, end in spans[is_large]:
        x, z = points.take(order[first:end])
        W = total_variation_mass(z)
        if W > 0:
            component = problem._replace(points=WeightedPoints.of(x - x[0], z / W), eps=problem.kernel_tol)
            total += W**2 * _cheapest(component)
    return total


def _component_batches(spans: I64) -> list[I64]:
    """Group small components into runs that are summed in one call."""
    n_batches = -(-int(np.diff(spans).sum()) // COMPONENT_BATCH_POINTS)
    return np.array_split(spans, n_batches) if len(spans) else []


def _cheapest(problem: MMDProblem) -> float:
    """Run the method with the least predicted time: mesh, cells around points, tree, Taylor (d > 3) or all pairs."""
    n, d = len(problem.points), problem.points.d
    options = [(PAIR_NS * n**2 / 2, partial(direct_energy, problem))]
    if d > MAX_GRID_DIMS:
        return _taylor(problem) if _suits_taylor(problem) else direct_energy(problem)
    plan = _plan_problem(problem)
    cells = kernel_cells(problem.points.widths, problem.sigma, min(problem.kernel_tol, MAX_KERNEL_TOL))
    if plan is None or cells is None:
        return direct_energy(problem)
    if plan.n_modes * problem.points.channels <= MAX_MODES:
        options.append((MESH_SEARCH_NS + plan.nanoseconds, partial(plan.energy, problem.points)))
    min_nanoseconds = min(time for time, _ in options)
    if min_nanoseconds <= POINT_SCAN_NS * n:
        return min(options, key=lambda option: option[0])[1]()
    x, z = problem.points.arrays()
    blocks = kernel_blocks(x, cells)
    if blocks is not None:
        leaf_pairs = float((np.diff(blocks.firsts).astype(float) ** 2).sum())
        time = z.shape[1] * (CELL_NS * blocks.cost(cells.reach) + BLOCK_CELL_NS * blocks.n_cells)
        options.append((time, partial(block_energy, z, problem.sigma, cells, blocks)))
        options.append((TREE_POINT_NS * n + PAIR_NS * leaf_pairs, partial(_tree, problem)))
    return min(options, key=lambda option: option[0])[1]()


def _suits_taylor(problem: MMDProblem) -> bool:
    n, d = len(problem.points), problem.points.d
    order, error = taylor_order(_radius(problem), problem.kernel_tol)
    return error <= problem.kernel_tol and n_terms(d, order) <= min(MAX_TAYLOR_TERMS, n / 4)


def _plan_problem(problem: MMDProblem) -> FourierPlan | None:
    return plan_fourier(
        problem.points.widths, problem.sigma, problem.eps, problem.points.mass, len(problem.points)
    )


def _fourier(problem: MMDProblem) -> float:
    d, C = problem.points.d, problem.points.channels
    if d > MAX_GRID_DIMS:
        raise ValueError(
            f"method='fourier' requires at most {MAX_GRID_DIMS} dimensions; got {d}. Use 'exact', 'taylor' or 'rff'."
        )
    plan = _plan_problem(problem)
    if plan is None:
        raise ValueError(
            f"eps is too small for method='fourier'; got {problem.eps:.2g}, which is {problem.kernel_tol:.2g} of the "
            "squared total weight. Use 'exact' or a larger eps."
        )
    if plan.n_modes * C > MAX_MODES:
        raise ValueError(
            f"method='fourier' needs {plan.n_modes:.3g} modes ({plan.n_modes * C * 8 / 2**30:.3g} GiB) for this "
            "bandwidth. Use 'auto', which skips empty space, or a larger bandwidth."
        )
    return plan.energy(problem.points)


def _radius(problem: MMDProblem) -> float:
    """Return the largest distance of a point from the centre, in bandwidths."""
    middle = problem.middle
    squares = ((((x - middle) / problem.sigma) ** 2).sum(axis=1).max() for x, _ in problem.points.tiles())
    return float(np.sqrt(max(squares)))


def _taylor(problem: MMDProblem) -> float:
    radius, d = _radius(problem), problem.points.d
    order, error = taylor_order(radius, problem.kernel_tol)
    if error > problem.kernel_tol or n_terms(d, order) > MAX_TAYLOR_TERMS:
        bound = ">= " if error > problem.kernel_tol else ""
        raise ValueError(
            f"method='taylor' needs order {bound}{order} and {bound}{float(n_terms(d, order)):.3g} terms (limit "
            f"{MAX_TAYLOR_TERMS}) for eps={problem.eps:.2g}, because the bandwidth is small. Use 'auto'."
        )
    if radius > MAX_TAYLOR_RADIUS:
        raise ValueError(
            f"method='taylor' requires points within {MAX_TAYLOR_RADIUS:g} bandwidths of their centre; got "
            f"{radius:.4g}. Use 'auto' or a larger bandwidth."
        )
    return taylor_energy(problem.points, problem.middle, problem.sigma, order)


def _tree(problem: MMDProblem) -> float:
    return tree_energy(_boxes(problem, LEAF_POINTS), problem.kernel_tol)


def _wspd(problem: MMDProblem) -> float:
    return separated_energy(_boxes(problem, 1), problem.kernel_tol)


def _boxes(problem: MMDProblem, leaf: int) -> Tree:
    x, z = problem.points.arrays()
    return box_tree(scaled(x, problem.sigma), z, leaf)


def _rff(problem: MMDProblem) -> float:
    """Double the number of frequencies per replicate until the standard error of the mean is at most eps."""
    # Imported lazily: no other method needs them.
    from dkdist.kernels._random_numba import float32_error, random_energies
    from dkdist.kernels.registry import NORMAL_SAMPLERS, most_accurate_sampler

    d, rounding = problem.points.d, float32_error(problem.points.widths, problem.sigma)
    if rounding > max(MAX_RFF_ROUNDING, problem.kernel_tol):
        raise ValueError(
            f"method='rff' has float32 phases, which change the kernel by up to {rounding:.2g} for this bandwidth. "
            "Use 'exact', or a larger bandwidth or eps."
        )
    draw = NORMAL_SAMPLERS[most_accurate_sampler(d)]
    count, square = 64, problem.points.mass**2
    while N_RFF_REPLICATES * count <= MAX_RFF_FREQUENCIES:
        rng = np.random.default_rng([problem.seed, RngStream.ENERGY_FREQUENCIES, count])
        replicates_per_pass = min(
            N_RFF_REPLICATES, max(1, len(problem.points) // (POINTS_PER_RFF_FREQUENCY * count))
        )
        means = np.empty(N_RFF_REPLICATES)
        for first in range(0, N_RFF_REPLICATES, replicates_per_pass):
            batch = means[first : first + replicates_per_pass]
            W = np.concatenate([draw(rng, count, d) for _ in batch])
            W /= problem.sigma
            batch[:] = random_energies(problem.points, W).reshape(-1, count).mean(axis=1) / square
        error = float(means.std(ddof=1)) / np.sqrt(N_RFF_REPLICATES)
        if error <= problem.kernel_tol:
            return float(means.mean()) * square
        count *= 2
    raise ValueError(
        f"eps must be at least {error * square:.2g}, the standard error of method='rff' at {MAX_RFF_FREQUENCIES} "
        f"frequencies; got {problem.eps:.2g}. Pass a larger eps or use 'exact'."
    )


def mixture_energy(problem: MMDProblem) -> float:
    """Return E of any kernel, by its Gaussian mixture if that is expected to be faster than all pairs."""
    n, d = len(problem.points), problem.points.d
    kernel = get_kernel(problem.kernel)
    if kernel.gaussian_mixture is None or d > MAX_GRID_DIMS or kernel.is_sorted(d):
        return direct_energy(problem)
    R = float(np.sqrt((problem.points.widths**2).sum())) / problem.sigma
    mixture = kernel.gaussian_mixture(R, problem.kernel_tol / 2)
    if mixture is None:
        return direct_energy(problem)
    ns_per_point = np.where(mixture.sigmas > MIN_WIDE_RATIOS[d] * R, WIDE_POINT_NS, NARROW_POINT_NS)
    if n * ns_per_point.sum() + GAUSSIAN_PLAN_NS * len(ns_per_point) > PAIR_NS * n**2 / 2:
        return direct_energy(problem)
    return _by_gaussians(problem, mixture)


def _by_gaussians(problem: MMDProblem, mixture: GaussianMixture) -> float:
    # copy small sets once instead of tiling again for each Gaussian
    if len(problem.points) * problem.points.d <= MAX_COPIED_NUMBERS:
        problem = problem._replace(points=WeightedPoints.of(*problem.points.arrays()))
    S, d, C = problem.points.total, problem.points.d, problem.points.channels
    squares, firsts = np.zeros(C), np.zeros((d, C))
    for x, z in problem.points.tiles():
        u = x / problem.sigma
        squares += (u**2).sum(axis=1) @ z
        firsts += u.T @ z
    line = S @ squares - np.square(firsts).sum()
    total = mixture.constant * float(S @ S) + 2 * mixture.quadratic * float(line)
    for s, w in zip(mixture.sigmas, mixture.weights, strict=True):
        eps = problem.eps / (2 * len(mixture.weights) * w)
        total += w * _auto(problem._replace(sigma=problem.sigma * s, kernel="gaussian", eps=eps))
    return float(total)


SOLVERS: dict[str, Callable[[MMDProblem], float]] = {
    "auto": _auto, "fourier": _fourier, "rff": _rff, "taylor": _taylor, "tree": _tree, "wspd": _wspd,
}  # fmt: skip
