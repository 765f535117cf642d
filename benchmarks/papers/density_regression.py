"""Distribution-to-distribution regression with known densities: integrated squared errors of predicted densities.

    python benchmarks/papers/density_regression.py [--quick] [--output results.json]

A parameter t is uniform on [-1, 1]. An input set is a sample of one distribution, its response set of another:

    mean shift       input N(t, 1)                                response N(sin 2t, 0.3^2)
    mixture weight   input N(0, (1 + t / 2)^2)                    response w N(-1, 0.25^2) + (1 - w) N(1, 0.5^2)
    rotation         input N(0, R diag(1, 0.3^2) R'), R by t      response: the same, rotated by 2t

with w = (1 + t) / 2. Each method predicts the response densities of 200 test sets. "mean" is the mean density of the
training responses, "smoother" the kernel smoothing of coefficients of Oliva, Poczos, Schneider (2013), and "sample" the
density estimated from the response of the test set itself, which the other methods do not use. Errors are integrated
over a box with 99.99 % of each density, by the midpoint rule with 2,000 or 200^2 nodes, and averaged over test sets.
"gain" is the mean of the differences from "mean", in standard errors; "true score" is 1 - error / error of the mean,
which `score` estimates.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import multivariate_normal, norm
from study import options, write

import dkdist as dk


@dataclass(frozen=True)
class Setting:
    """Samples of the input and response distributions of t, the response density, and a box that holds it."""

    input: Callable[[float, int, np.random.Generator], np.ndarray]
    response: Callable[[float, int, np.random.Generator], np.ndarray]
    density: Callable[[float, np.ndarray], np.ndarray]
    n_dims: int
    bound: float
    n_nodes: int

    def nodes(self) -> np.ndarray:
        """Return the midpoints (n_nodes^d, d) of the box [-bound, bound]^d."""
        axis = ((np.arange(self.n_nodes) + 0.5) / self.n_nodes * 2 - 1) * self.bound
        return np.stack(np.meshgrid(*[axis] * self.n_dims, indexing="ij"), -1).reshape(-1, self.n_dims)

    @property
    def cell(self) -> float:
        return (2 * self.bound / self.n_nodes) ** self.n_dims


def mixture(t: float, n: int, rng: np.random.Generator) -> np.ndarray:
    is_first = rng.random(n) < (1 + t) / 2
    return np.where(is_first, rng.normal(-1, 0.25, n), rng.normal(1, 0.5, n))[:, None]


def covariance(t: float) -> np.ndarray:
    R = np.array([[np.cos(t), -np.sin(t)], [np.sin(t), np.cos(t)]])
    return R @ np.diag([1, 0.3**2]) @ R.T


def rotated(t: float, n: int, rng: np.random.Generator) -> np.ndarray:
    return rng.multivariate_normal(np.zeros(2), covariance(t), n)


SETTINGS = {
    "mean shift": Setting(
        lambda t, n, rng: rng.normal(t, 1, (n, 1)),
        lambda t, n, rng: rng.normal(np.sin(2 * t), 0.3, (n, 1)),
        lambda t, x: norm.pdf(x[:, 0], np.sin(2 * t), 0.3),
        n_dims=1, bound=3, n_nodes=2000,
    ),
    "mixture weight": Setting(
        lambda t, n, rng: rng.normal(0, 1 + t / 2, (n, 1)),
        mixture,
        lambda t, x: (1 + t) / 2 * norm.pdf(x[:, 0], -1, 0.25) + (1 - t) / 2 * norm.pdf(x[:, 0], 1, 0.5),
        n_dims=1, bound=4, n_nodes=2000,
    ),
    "rotation": Setting(
        rotated,
        lambda t, n, rng: rotated(2 * t, n, rng),
        lambda t, x: multivariate_normal.pdf(x, np.zeros(2), covariance(2 * t)),
        n_dims=2, bound=4.5, n_nodes=200,
    ),
}  # fmt: skip


def smoothed_densities(train: Any, responses: Any, test: Any) -> list[dk.PredictedDensity]:
    """Predict by kernel smoothing of the coefficients of the responses."""
    basis = dk.L2Embedding(structure="joint").fit(responses)
    return projected_series(basis, dk.SetSmoother().fit(train, basis.transform(responses)).predict(test))


def sample_densities(responses: Any) -> list[dk.PredictedDensity]:
    """Estimate the density of each response, by the same projected series."""
    basis = dk.L2Embedding(structure="joint").fit(responses)
    return projected_series(basis, basis.transform(responses).astype(float))


def projected_series(basis: dk.L2Embedding, rows: np.ndarray) -> list[dk.PredictedDensity]:
    rows = rows / rows[:, :1]  # a weighted mean of ones may differ from 1 in its last bit
    low, high = (np.array(side) + basis.origin_ for side in (basis.spec_.domain.low, basis.spec_.domain.high))
    return [dk.PredictedDensity(row.reshape((basis.n_basis_,) * len(low)), low, high) for row in rows]


def run(name: str, n_train: int, n_test: int, n_points: int, seed: int = 0) -> dict[str, Any]:
    """Return the errors of all methods in one setting."""
    setting, rng = SETTINGS[name], np.random.default_rng([seed, len(name)])
    t = rng.uniform(-1, 1, n_train + n_test)
    inputs = [setting.input(v, n_points, rng) for v in t]
    responses = [setting.response(v, n_points, rng) for v in t]
    start = time.perf_counter()
    model = dk.DensityRegressor(random_state=0).fit(inputs[:n_train], responses[:n_train])
    seconds = time.perf_counter() - start
    test, truth = inputs[n_train:], responses[n_train:]
    densities = {
        "mean": [model.mean_density_] * n_test,
        "regressor": model.predict(test),
        "smoother": smoothed_densities(inputs[:n_train], responses[:n_train], test),
        "sample": sample_densities(truth),
    }
    nodes = setting.nodes()
    p = np.array([setting.density(v, nodes) for v in t[n_train:]])
    errors, integrals = {}, []
    for method, predicted in densities.items():
        f = np.array([density.pdf(nodes) for density in predicted])
        errors[method] = ((f - p) ** 2).sum(axis=1) * setting.cell
        integrals.append(f.sum(axis=1) * setting.cell)
    gains = {method: errors["mean"] - e for method, e in errors.items() if method != "mean"}
    return {
        "setting": name,
        "n_train": n_train,
        "n_points": n_points,
        "errors": {method: float(e.mean()) for method, e in errors.items()},
        "gains": {m: float(g.mean() / (g.std(ddof=1) / np.sqrt(n_test))) for m, g in gains.items()},
        "true_score": float(1 - errors["regressor"].mean() / errors["mean"].mean()),
        "score": model.score(test, truth),
        "largest_integral_error": float(np.abs(np.array(integrals) - 1).max()),
        "seconds": seconds,
    }


def main(arguments: list[str]) -> None:
    parsed = options(__doc__).parse_args(arguments)
    sizes = (
        [(60, 40, 50)] if parsed.quick else [(50, 200, 50), (200, 200, 50), (200, 200, 500), (1000, 200, 50)]
    )
    rows = [run(name, *size) for name in SETTINGS for size in sizes]
    print(
        "setting          sets  points     mean  regressor  smoother   sample   gain/se  score (true)   fit/s"
    )
    for row in rows:
        e = row["errors"]
        print(
            f"{row['setting']:15s} {row['n_train']:5d} {row['n_points']:7d} {e['mean']:8.4f} {e['regressor']:10.4f} "
            f"{e['smoother']:9.4f} {e['sample']:8.4f} {row['gains']['regressor']:9.1f} {row['score']:7.3f} "
            f"({row['true_score']:.3f}) {row['seconds']:7.2f}"
        )
    write(parsed.output, {"rows": rows})


if __name__ == "__main__":
    main(sys.argv[1:])
