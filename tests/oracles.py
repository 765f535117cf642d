"""Reference computations in float64 NumPy, written directly from the formulas."""

import numpy as np

LETTERS = "abcdef"


def gaussian_mixtures(n_sets, d, n, seed):
    """Return sets of n points, each from its own mixture of one to four Gaussians with random means and widths."""
    rng = np.random.default_rng(seed)
    sets = []
    for _ in range(n_sets):
        k = rng.integers(1, 5)
        mean, std = rng.uniform(0.15, 0.85, (k, d)), np.exp(rng.uniform(np.log(0.03), np.log(0.25), (k, d)))
        component = rng.choice(k, n, p=rng.dirichlet(np.ones(k)))
        sets.append(mean[component] + std[component] * rng.standard_normal((n, d)))
    return sets


def cosines(x, degrees):
    """Return a matrix (n, K_j) of cos(pi a x_j) for each dimension."""
    return [np.cos(np.pi * np.outer(x[:, j], np.arange(K))) for j, K in enumerate(degrees)]


def coefficients(x, degrees, weights=None):
    """Return C_a = sum_i w_i prod_j cos(pi a_j x_ij) of points in the unit cube: (K_1, .., K_d)."""
    x = np.asarray(x, np.float64)
    w = np.full(len(x), 1 / len(x)) if weights is None else np.asarray(weights, np.float64)
    letters = LETTERS[: len(degrees)]
    spec = "n," + ",".join(f"n{c}" for c in letters) + "->" + letters
    return np.einsum(spec, w / w.sum(), *cosines(x, degrees), optimize=True)


def series_density(x, degrees, bandwidth, grid, weights=None, floor=1e-6):
    """Return the truncated, damped cosine series of x at the tensor grid of ``grid``, flat, at least ``floor``."""
    p = coefficients(x, degrees, weights)
    for j, (K, h) in enumerate(zip(degrees, bandwidth, strict=True)):
        a = np.arange(K)
        damping = np.exp(-((np.pi * a * h) ** 2) / 2) * np.where(a > 0, 2, 1)
        p = np.moveaxis(np.tensordot(np.cos(np.pi * np.outer(grid, a)) * damping, p, (1, j)), 0, j)
    return np.maximum(p, floor).ravel()


def reflected_density(x, bandwidth, at, weights=None):
    """Return the Gaussian kernel estimate at the points ``at``, reflected at both boundaries."""
    x = np.asarray(x, np.float64)
    w = np.full(len(x), 1 / len(x)) if weights is None else np.asarray(weights) / np.sum(weights)
    product = np.ones((len(at), len(x)))
    for j, h in enumerate(bandwidth):
        images = [sign * x[:, j] + 2 * m for m in range(-4, 5) for sign in (1, -1)]
        product *= sum(np.exp(-((at[:, j, None] - y) ** 2) / (2 * h * h)) for y in images) / np.sqrt(
            2 * np.pi * h * h
        )
    return product @ w


def kronecker_lattice(n, d):
    """Return a Kronecker sequence of the generalised golden ratio, a different rule from that of the library."""
    g = np.sqrt(2.0)
    for _ in range(60):
        g = (1 + g) ** (1 / (d + 1))
    return (0.5 + np.outer(np.arange(1, n + 1), g ** -np.arange(1.0, d + 1))) % 1


def panels(n_panels, q):
    """Return composite Gauss-Legendre nodes and weights on [0, 1]."""
    x, w = np.polynomial.legendre.leggauss(q)
    nodes = np.concatenate([(i + (x + 1) / 2) / n_panels for i in range(n_panels)])
    return nodes, np.tile(w / (2 * n_panels), n_panels)


def squared_distances(rows, i, j):
    """Return |row_i - row_j|^2 in float64."""
    rows = np.asarray(rows, np.float64)
    # one by one, because rows may be wide
    return np.array([((rows[a] - rows[b]) ** 2).sum() for a, b in zip(i, j, strict=True)])


def rms_errors(result, expected):
    """Return the RMS error relative to the RMS value, and the RMS of relative errors."""
    error = np.asarray(result) - expected
    return np.sqrt(np.mean(error**2) / np.mean(expected**2)), np.sqrt(np.mean((error / expected) ** 2))
