"""Kernel energies by less than all pairs: methods by name, what each of them refuses, and the choice of "auto".

Fourier sums have a certified error:

    |error of E| <= W^2 sup |error of k|,   W = sum_i |z_i|

Sums of few frequencies run in float32 (`grid_sums_loops`), so that rounding takes its part of the error; on a mesh,
with a fast transform (`mesh_loops`), and on cells, without one (`cells_loops`: few points, little memory), in float64.

Kernels that are mixtures of Gaussian ones have the energy of each Gaussian by what is fast for it:

    E = c S^2 + 2 q (S sum_i z_i |x_i|^2 - |sum_i z_i x_i|^2) + sum_m w_m E_m,   S = sum_i z_i

of the mixture c + q r^2 + sum_m w_m exp(-r^2 / (2 s_m^2)). Errors add up: half of what is allowed is the mixture's, and
each Gaussian has an equal part of the rest, so that narrow ones, which weigh little, may be far off.
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
from dkdist.kernels.fourier_grid import MAX_GRID_DIMS, FourierGrid, fourier_grid, grid_layout
from dkdist.kernels.kernel_distance import MAX_DIRECT_POINTS, MMDProblem, direct_energy
from dkdist.kernels.kernel_sums import scaled
from dkdist.kernels.registry import GaussianMixture, get_kernel

PAIR_NS = 1.0  # that one core takes for the kernel of a pair, as measured
MESH_SEARCH_NS = 4e6  # to find the best mesh
POINT_SCAN_NS = 2000.0  # for each point: a plan that takes less is followed without a search for far parts
BLOCK_CELL_NS = 0.5  # for each cell of a block
TREE_POINT_NS = 3000.0  # for each point of a tree whose boxes are far apart
COMPONENT_TOL_RATIO = (
    0.1  # the kernel of points of two parts is at most this share of the error that is allowed of it
)
COMPONENT_BATCH_POINTS = 2**16  # points of small parts
MAX_TAYLOR_TERMS = 20_000
MAX_TAYLOR_RADIUS = (
    37.0  # bandwidths from the middle: exp(-delta^2 / 2), a factor of Taylor terms, is a float64
)
N_RFF_REPLICATES = 16  # of the frequencies of "rff": their spread is its standard error
MAX_RFF_FREQUENCIES = 2**18
POINTS_PER_RFF_FREQUENCY = 32  # points of "rff" for each frequency that is kept beside them
MAX_RFF_ROUNDING = 1e-4  # "rff" may have for the kernel of two points, for it averages out over all pairs
MAX_MODES = 2**26  # in memory
GRID_ROUNDING = 1e-6  # of the kernel of two points from float32 sums: three times the largest seen
CELL_NS, EMPTY_CELL_NS, FREQUENCY_NS = 0.5, 2.0, 0.05  # of a core with 512-bit vectors
GRID_SEARCH_NS = 2e7  # to search for a grid of frequencies: for less it is not worth it
MAX_GRID_FREQUENCIES = 8192
MAX_SMALL_SET_BYTES = 1e7  # of points in float32: up to these a mesh may have any size
MAX_MESH_RATIO = 0.43  # largest size of a mesh, as a fraction of the bytes of the points in float32
MAX_TRUNCATION_RATIO = 10.0  # times the error: if so much is left out, no grid is looked for
MAX_KERNEL_TOL = 0.1  # error of k, however large an eps is allowed
GAUSSIAN_PLAN_NS = 5e6  # to find the way for one Gaussian
WIDE_POINT_NS, NARROW_POINT_NS = 200.0, 2500.0  # for a point of one Gaussian, as measured
MAX_COPIED_NUMBERS = 2**20  # of points: so many are copied
MIN_WIDE_RATIOS = {
    1: 1e-5,
    2: 1e-3,
    3: 1e-2,
}  # of the width of the points, by dimension: those below are narrow


class FourierPlan(NamedTuple):
    """Certified error of the energy, nanoseconds of one channel, numbers in memory for each channel, and what sums:
    ``energy`` of points in one to three dimensions, by frequencies, on a mesh or on cells.
    """

    energy: Callable[[WeightedPoints], float]
    error: float
    nanoseconds: float
    n_modes: int


def plan_fourier(widths: F64, sigma: float, eps: float, W: float, n: int) -> FourierPlan | None:
    """The cheapest way to an error of at most ``eps``, for n points in a box with sides ``widths``; None if none is."""
    share = min(eps / max(W**2, 1e-300), MAX_KERNEL_TOL)
    cells, mesh = (
        kernel_cells(widths, sigma, share),
        kernel_mesh(widths, sigma, share, n, room=_max_mesh_cells(n, len(widths))),
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
    most = min(MAX_GRID_FREQUENCIES, int(best.nanoseconds / (FREQUENCY_NS * n)))
    if (
        rounding < share / 2
        and best.nanoseconds > GRID_SEARCH_NS
        and _truncated_weight(widths, sigma, most) < MAX_TRUNCATION_RATIO * share
    ):
        grid = fourier_grid(widths, sigma, share - rounding, most)
        if grid.error + rounding <= share:
            energy = partial(frequency_energy, sigma=sigma, grid=grid)
            time, error = FREQUENCY_NS * n * grid.n_features, W**2 * (grid.error + rounding)
            return FourierPlan(energy, error, time, grid.n_features)
    return best


def _truncated_weight(widths: F64, sigma: float, most: int) -> float:
    """Weight of the frequencies beyond the ``most`` that weigh most, were they as dense as the box is wide."""
    wide = widths[widths > 0]
    d = len(wide)
    if d == 0:
        return 0.0
    radius = 2 * np.pi * (most * gamma(d / 2 + 1) / np.pi ** (d / 2) / np.prod(wide)) ** (1 / d)
    return float(gammaincc(d / 2, (radius * sigma) ** 2 / 2))


def _max_mesh_cells(n: int, d: int) -> float:
    """Return the maximal number of cells of a mesh: `MAX_MESH_RATIO` of the points' bytes, no limit for few points."""
    return MAX_MESH_RATIO * 4 * n * d / 8 if 4 * n * d > MAX_SMALL_SET_BYTES else np.inf


def frequency_energy(points: WeightedPoints, sigma: float, grid: FourierGrid) -> float:
    """E of points in the box that the ``grid`` was made for, by its frequencies."""
    n, W, (low, high) = len(points), points.mass, points.bounds
    if W == 0:
        return 0.0
    middle, half = (low + high) / 2, ((high - low) / 2).astype(np.float32)
    layout = grid_layout(grid.periods, grid.cutoff, sigma)
    products = Products(-half, half, np.array(grid.periods), layout.lengths)
    S = np.zeros((points.channels, len(layout.scales)))
    for x, z in points.tiles():  # weights near one add up with least rounding
        add_grid_sums((x - middle).astype(np.float32), (z * (n / W)).astype(np.float32), W, products, S)
    return float(((S / n * layout.scales) ** 2).sum())


def _auto(task: MMDProblem) -> float:
    """The rule that `kernel_distance` documents, for more than a few points: never random, never more than eps off.

    What would be dear as a whole is looked at for parts that are far from each other, and where its points are.
    """
    n, d = len(task.points), task.points.d
    if d > MAX_GRID_DIMS:
        return _taylor(task) if _suits_taylor(task) else _by_components(task)
    plan = _plan_problem(task)
    if plan is None:
        return direct_energy(task)
    if plan.n_modes * task.points.channels > MAX_MODES or plan.nanoseconds > POINT_SCAN_NS * n:
        return _by_components(task)
    cheap = MESH_SEARCH_NS + plan.nanoseconds < PAIR_NS * n**2 / 2
    return plan.energy(task.points) if cheap else direct_energy(task)


def _by_components(task: MMDProblem) -> float:
    """The sum over parts beyond the reach of each other: all pairs of small ones, the rest as `_cheapest` has it.

    Errors of k are at most ``share`` within a part and between two of them: those of E at most ``share`` W^2.
    """
    points, reach = task.points, cutoff_radius(task.sigma, COMPONENT_TOL_RATIO * task.share)
    if is_connected_by_bins(points, reach):
        return _cheapest(task)
    order, firsts = connected_components(points, reach)
    if len(firsts) == 2:
        return _cheapest(task)
    total, spans = 0.0, np.stack([firsts[:-1], firsts[1:]], axis=1)
    large = np.diff(spans)[:, 0] > MAX_DIRECT_POINTS
    for some in _component_batches(spans[~large]):
        rows = np.concatenate([order[first:end] for first, end in some])
        ends = np.cumsum(np.diff(some)[:, 0])
        x, z = points.at(rows)
        x -= np.repeat(x[ends - np.diff(some)[:, 0]], np.diff(some)[:, 0], axis=0)
        total += blockwise_energy(
            scaled(x, task.sigma), z, np.stack([ends - np.diff(some)[:, 0], ends], axis=1)
        )
    for first, end in spans[large]:
        x, z = points.at(order[first:end])
        W = total_variation_mass(z)
        if W > 0:
            part = task._replace(points=WeightedPoints.of(x - x[0], z / W), eps=task.share)
            total += W**2 * _cheapest(part)
    return total


def _component_batches(spans: I64) -> list[I64]:
    """Runs of small parts that are summed at once."""
    return (
        np.array_split(spans, -(-int(np.diff(spans).sum()) // COMPONENT_BATCH_POINTS)) if len(spans) else []
    )


def _cheapest(task: MMDProblem) -> float:
    """What is foretold to take least: one mesh, cells where points are, a tree, Taylor terms (d > 3) or all pairs."""
    n, d = len(task.points), task.points.d
    ways = [(PAIR_NS * n**2 / 2, partial(direct_energy, task))]
    if d > MAX_GRID_DIMS:
        return _taylor(task) if _suits_taylor(task) else direct_energy(task)
    plan = _plan_problem(task)
    cells = kernel_cells(task.points.widths, task.sigma, min(task.share, MAX_KERNEL_TOL))
    if plan is None or cells is None:
        return direct_energy(task)
    if plan.n_modes * task.points.channels <= MAX_MODES:
        ways.append((MESH_SEARCH_NS + plan.nanoseconds, partial(plan.energy, task.points)))
    least = min(time for time, _ in ways)
    if least <= POINT_SCAN_NS * n:
        return min(ways, key=lambda way: way[0])[1]()
    x, z = task.points.arrays()
    blocks = kernel_blocks(x, cells)
    if blocks is not None:
        near = float((np.diff(blocks.firsts).astype(float) ** 2).sum())
        time = z.shape[1] * (CELL_NS * blocks.cost(cells.reach) + BLOCK_CELL_NS * blocks.n_cells)
        ways.append((time, partial(block_energy, z, task.sigma, cells, blocks)))
        ways.append((TREE_POINT_NS * n + PAIR_NS * near, partial(_tree, task)))
    return min(ways, key=lambda way: way[0])[1]()


def _suits_taylor(task: MMDProblem) -> bool:
    n, d = len(task.points), task.points.d
    order, error = taylor_order(_radius(task), task.share)
    return error <= task.share and n_terms(d, order) <= min(MAX_TAYLOR_TERMS, n / 4)


def _plan_problem(task: MMDProblem) -> FourierPlan | None:
    return plan_fourier(task.points.widths, task.sigma, task.eps, task.points.mass, len(task.points))


def _fourier(task: MMDProblem) -> float:
    d, C = task.points.d, task.points.channels
    if d > MAX_GRID_DIMS:
        raise ValueError(
            f"method='fourier' is for up to {MAX_GRID_DIMS} dimensions; found {d}: use 'exact', 'taylor' or 'rff'"
        )
    plan = _plan_problem(task)
    if plan is None:
        raise ValueError(
            f"method='fourier' cannot certify an error of {task.eps:.2g}, that is {task.share:.2g} of the square of "
            "the total weight: use 'exact', or a larger eps"
        )
    if plan.n_modes * C > MAX_MODES:
        raise ValueError(
            f"method='fourier' would need {plan.n_modes:.3g} modes, {plan.n_modes * C * 8 / 2**30:.3g} GiB, for this "
            "bandwidth: use 'auto', which leaves out empty space, or a larger bandwidth"
        )
    return plan.energy(task.points)


def _radius(task: MMDProblem) -> float:
    """How many bandwidths the farthest point is from the middle."""
    middle = task.middle
    squares = ((((x - middle) / task.sigma) ** 2).sum(axis=1).max() for x, _ in task.points.tiles())
    return float(np.sqrt(max(squares)))


def _taylor(task: MMDProblem) -> float:
    delta, d = _radius(task), task.points.d
    order, error = taylor_order(delta, task.share)
    if error > task.share or n_terms(d, order) > MAX_TAYLOR_TERMS:
        more = ">= " if error > task.share else ""
        raise ValueError(
            f"method='taylor' would need order {more}{order}, {more}{float(n_terms(d, order)):.3g} terms (at most "
            f"{MAX_TAYLOR_TERMS}), for eps={task.eps:.2g}: the bandwidth is too small for it. Use 'auto'"
        )
    if delta > MAX_TAYLOR_RADIUS:
        raise ValueError(
            f"method='taylor' is for points up to {MAX_TAYLOR_RADIUS:g} bandwidths from their middle, beyond which its terms "
            f"have no floats; found {delta:.4g}: use 'auto', or a larger bandwidth"
        )
    return taylor_energy(task.points, task.middle, task.sigma, order)


def _tree(task: MMDProblem) -> float:
    return tree_energy(_boxes(task, LEAF_POINTS), task.share)


def _wspd(task: MMDProblem) -> float:
    return separated_energy(_boxes(task, 1), task.share)


def _boxes(task: MMDProblem, leaf: int) -> Tree:
    x, z = task.points.arrays()
    return box_tree(scaled(x, task.sigma), z, leaf)


def _rff(task: MMDProblem) -> float:
    """Replicates of as many frequencies as bring the standard error of their mean to eps."""
    from dkdist.kernels._random_numba import float32_error, random_energies
    from dkdist.kernels.registry import NORMAL_SAMPLERS, most_accurate_sampler  # for it alone

    d, rounding = task.points.d, float32_error(task.points.widths, task.sigma)
    if rounding > max(MAX_RFF_ROUNDING, task.share):
        raise ValueError(
            f"method='rff' has phases in float32, which for this bandwidth change the kernel by up to {rounding:.2g}: "
            "use 'exact', or a larger bandwidth or eps"
        )
    draw = NORMAL_SAMPLERS[most_accurate_sampler(d)]
    count, square = 64, task.points.mass**2
    while N_RFF_REPLICATES * count <= MAX_RFF_FREQUENCIES:
        rng = np.random.default_rng([task.seed, RngStream.ENERGY_FREQUENCIES, count])
        together = min(N_RFF_REPLICATES, max(1, len(task.points) // (POINTS_PER_RFF_FREQUENCY * count)))
        means = np.empty(N_RFF_REPLICATES)
        for first in range(0, N_RFF_REPLICATES, together):
            some = means[first : first + together]
            W = np.concatenate([draw(rng, count, d) for _ in some])
            W /= task.sigma
            some[:] = random_energies(task.points, W).reshape(-1, count).mean(axis=1) / square
        error = float(means.std(ddof=1)) / np.sqrt(N_RFF_REPLICATES)
        if error <= task.share:
            return float(means.mean()) * square
        count *= 2
    raise ValueError(
        f"method='rff' has a standard error of {error * square:.2g} at {MAX_RFF_FREQUENCIES} frequencies, more than "
        f"eps={task.eps:.2g}: give a larger eps, or use 'exact'"
    )


def mixture_energy(task: MMDProblem) -> float:
    """By Gaussians where that is foretold to take less than all pairs."""
    n, d = len(task.points), task.points.d
    kernel = get_kernel(task.kernel)
    if kernel.gaussian_mixture is None or d > MAX_GRID_DIMS or kernel.is_sorted(d):
        return direct_energy(task)
    R = float(np.sqrt((task.points.widths**2).sum())) / task.sigma
    mixture = kernel.gaussian_mixture(R, task.share / 2)
    if mixture is None:
        return direct_energy(task)
    points = np.where(mixture.sigmas > MIN_WIDE_RATIOS[d] * R, WIDE_POINT_NS, NARROW_POINT_NS)
    if n * points.sum() + GAUSSIAN_PLAN_NS * len(points) > PAIR_NS * n**2 / 2:
        return direct_energy(task)
    return _by_gaussians(task, mixture)


def _by_gaussians(task: MMDProblem, mixture: GaussianMixture) -> float:
    if len(task.points) * task.points.d <= MAX_COPIED_NUMBERS:  # tiles for every Gaussian would be made again
        task = task._replace(points=WeightedPoints.of(*task.points.arrays()))
    S, d, C = task.points.total, task.points.d, task.points.channels
    squares, firsts = np.zeros(C), np.zeros((d, C))
    for x, z in task.points.tiles():
        u = x / task.sigma
        squares += (u**2).sum(axis=1) @ z
        firsts += u.T @ z
    line = S @ squares - np.square(firsts).sum()
    total = mixture.constant * float(S @ S) + 2 * mixture.quadratic * float(line)
    for s, w in zip(mixture.sigmas, mixture.weights, strict=True):
        eps = task.eps / (2 * len(mixture.weights) * w)
        total += w * _auto(task._replace(sigma=task.sigma * s, kernel="gaussian", eps=eps))
    return float(total)


SOLVERS: dict[str, Callable[[MMDProblem], float]] = {
    "auto": _auto, "fourier": _fourier, "rff": _rff, "taylor": _taylor, "tree": _tree, "wspd": _wspd,
}  # fmt: skip
