"""Gram matrices of Gaussian mixtures (section 4.2 of P1), compared with true Jensen-Shannon kernels.

    python benchmarks/papers/gram.py [--quick] [--output results.json]

50 mixtures in the plane, 2,500 points each; the kernel is exp(-JS / (2 sigma^2)) with sigma^2 the median JS. The result
is the squared correlation with the true kernel over all 50 x 50 pairs, as the mean over five seeds, for the embedding A
(distances between rows) and for random features z of it (D = 7000, each method). "entropy" estimates the divergence of
each pair from nearest neighbours: of all points of both sets, or of a random half of each as in the paper. The true
divergence is integrated on a 200 x 200 grid. The bandwidth is selected on other mixtures (seed 100). "random
frequencies" (M = 5) and "iid" features are those of the paper.

P1: Sutherland, Oliva, Poczos, Schneider, Linear-time learning on distributions with approximate kernel
embeddings (2016).
"""

from __future__ import annotations

import sys
import warnings

import numpy as np
from study import options, write

import dkdist as dk
from dkdist.datasets.mixtures import DOMAIN_BOUND, Mixture

GRID = 200
BANDWIDTHS = (0.01, 0.012, 0.014, 0.017, 0.02, 0.03)
N_BASIS = 24
ENTROPIES = {
    "entropy": dk.EntropyDivergence(),
    "entropy, halves": dk.EntropyDivergence(mixture="halves", random_state=0),
}


def density(mixture: Mixture, x: np.ndarray) -> np.ndarray:
    inverse, det = np.linalg.inv(mixture.covariances), np.linalg.det(mixture.covariances)
    total = np.zeros(len(x))
    for mean, P, v in zip(mixture.means, inverse, det, strict=True):
        c = x - mean
        total += np.exp(-0.5 * np.einsum("ni,ij,nj->n", c, P, c)) / (2 * np.pi * np.sqrt(v))
    return total / len(mixture.means)


def true_divergences(mixtures: list[Mixture]) -> np.ndarray:
    """Return Jensen-Shannon divergences in nats by the midpoint rule."""
    axis = (np.arange(GRID) + 0.5) / GRID * 2 * DOMAIN_BOUND - DOMAIN_BOUND
    nodes = np.stack(np.meshgrid(axis, axis, indexing="ij"), -1).reshape(-1, 2)
    cell = (2 * DOMAIN_BOUND / GRID) ** 2
    p = np.array([density(m, nodes) for m in mixtures]) * cell
    entropy = -(p * np.log(np.maximum(p, 1e-300))).sum(1)
    js = np.zeros((len(p), len(p)))
    for i in range(len(p)):
        for j in range(i):
            m = (p[i] + p[j]) / 2
            js[i, j] = js[j, i] = -(m * np.log(np.maximum(m, 1e-300))).sum() - (entropy[i] + entropy[j]) / 2
    return js


def squared_distances(A: np.ndarray) -> np.ndarray:
    A = A.astype(np.float64)
    square = (A**2).sum(1)
    return np.maximum(square[:, None] + square[None] - 2 * A @ A.T, 0)


def corr2(K: np.ndarray, truth: np.ndarray) -> float:
    return float(np.corrcoef(K.ravel(), truth.ravel())[0, 1] ** 2)


def embedding(bandwidth: float, **params: object) -> dk.DivergenceEmbedding:
    domain = ([-DOMAIN_BOUND, -DOMAIN_BOUND], [DOMAIN_BOUND, DOMAIN_BOUND])
    return dk.DivergenceEmbedding(
        "jensen-shannon", n_basis=N_BASIS, bandwidth=bandwidth, domain=domain, **params
    )


def collection(seed: int, n_sets: int, n_points: int) -> tuple[dk.SampleSets, np.ndarray]:
    """Sample sets of random mixtures, and their true divergences."""
    rng = np.random.default_rng(seed)
    mixtures = [Mixture(rng) for _ in range(n_sets)]
    points = [np.clip(m.sample(n_points, rng), -DOMAIN_BOUND, DOMAIN_BOUND) for m in mixtures]
    return dk.SampleSets.from_arrays(points), true_divergences(mixtures)


def kernel_and_scale(js: np.ndarray) -> tuple[np.ndarray, float]:
    sigma2 = float(np.median(js[np.triu_indices(len(js), 1)]))
    return np.exp(-js / (2 * sigma2)), sigma2


def choose_bandwidth(n_sets: int, n_points: int) -> float:
    """Return the best bandwidth on mixtures that are not used for the results."""
    sets, js = collection(100, n_sets, n_points)
    truth, sigma2 = kernel_and_scale(js)
    scores = {
        h: corr2(np.exp(-squared_distances(embedding(h).fit_transform(sets)) / (2 * sigma2)), truth)
        for h in BANDWIDTHS
    }
    return max(scores, key=scores.__getitem__)


def one_seed(
    seed: int, n_sets: int, n_points: int, D: int, h: float, methods: tuple[str, ...]
) -> dict[str, float]:
    sets, js = collection(seed, n_sets, n_points)
    truth, sigma2 = kernel_and_scale(js)
    random = embedding(h, frequencies="random", n_frequencies=5, random_state=seed)
    result = {}
    for name, model, feature_methods in (
        ("A", embedding(h), methods),
        ("A, random frequencies", random, ("iid",)),
    ):
        A = model.fit_transform(sets)
        result[name] = corr2(np.exp(-squared_distances(A) / (2 * sigma2)), truth)
        for method in feature_methods:
            rff = dk.RandomFourierFeatures(D, sigma=float(np.sqrt(sigma2)), method=method, random_state=seed)
            Z = rff.fit_transform(A).astype(np.float64)
            result[f"z of {name}, {method}"] = corr2(Z @ Z.T, truth)
    for name, estimator in ENTROPIES.items():
        D = dk.divergence_matrix(sets, "jensen-shannon", estimator=estimator)
        result[name] = corr2(np.exp(-np.maximum(D, 0) / (2 * sigma2)), truth)
    return result


def over_seeds(runs: list[dict[str, float]]) -> dict[str, dict[str, float]]:
    """Return mean and standard deviation of each result over the runs."""
    return {
        name: {"mean": float(np.mean([r[name] for r in runs])), "std": float(np.std([r[name] for r in runs]))}
        for name in runs[0]
    }


def main(argv: list[str] | None = None) -> dict[str, dict[str, float]]:
    parser = options(__doc__, quick="one seed, 20 mixtures of 1,000 points, no orthogonal features")
    args = parser.parse_args(argv)
    n_seeds, n_sets, n_points = (1, 20, 1000) if args.quick else (5, 50, 2500)
    # fine bandwidths are tested on purpose
    warnings.filterwarnings("ignore", message="bandwidth .* is much finer", category=UserWarning)
    h = choose_bandwidth(n_sets, n_points)
    methods = ("structured", "iid") if args.quick else ("structured", "orthogonal", "iid")
    runs = [one_seed(seed, n_sets, n_points, 7000, h, methods) for seed in range(n_seeds)]
    table = over_seeds(runs)
    print(
        f"squared correlation with the true kernel, {n_sets} mixtures of {n_points} points, {n_seeds} seed(s), "
        f"bandwidth {h}"
    )
    for name, value in table.items():
        print(f"  {name:<36} {value['mean']:.4f} +- {value['std']:.4f}")
    record = {"experiment": "gram", "sets": n_sets, "points": n_points, "seeds": n_seeds}
    write(args.output, record | {"bandwidth": h, "corr2": table})
    return table


if __name__ == "__main__":
    main(sys.argv[1:])
