"""Counts, quantiles and ordered classes of sets, next to models of scikit-learn and statsmodels on equal features.

    python benchmarks/studies_losses.py --seed 4902 --output studies_losses.json

Targets depend on the means of sets of ten points in three dimensions. `SetRegressor` and `SetClassifier` use the
candidate "means"; the other tools get the same means: PoissonRegressor with a cross-validated penalty,
QuantileRegressor without penalty, and OrderedModel of statsmodels (if installed). Printed are mean Poisson deviances,
pinball losses and log losses of 3,000 new sets, averaged over simulations; the loss of the best constant shows the
scale.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from common import options, start_report, write
from sklearn.linear_model import PoissonRegressor, QuantileRegressor
from sklearn.metrics import mean_pinball_loss, mean_poisson_deviance
from sklearn.model_selection import GridSearchCV

import dkdist as dk

N_NEW, EFFECT = 3000, np.array([0.7, -0.5, 0.0])
Simulation = tuple[list[np.ndarray], np.ndarray, np.ndarray]
"""Sets, their means (n, 3), and targets (n,)."""


def simulate(n: int, rng: np.random.Generator, target: Callable[..., np.ndarray]) -> Simulation:
    sets = [rng.normal(m, 0.3, (10, 3)) for m in rng.normal(size=(n, 3))]
    means = np.array([x.mean(axis=0) for x in sets])
    return sets, means, target(rng, means)


def counts(rng: np.random.Generator, means: np.ndarray) -> np.ndarray:
    return rng.poisson(np.exp(1 + means @ EFFECT))


def rare_counts(rng: np.random.Generator, means: np.ndarray) -> np.ndarray:
    return rng.poisson(np.exp(-0.5 + means @ EFFECT))


def unequal_noise(rng: np.random.Generator, means: np.ndarray) -> np.ndarray:
    return means @ EFFECT + np.exp(means[:, 2] / 2) * rng.normal(size=len(means))


def stages(rng: np.random.Generator, means: np.ndarray) -> np.ndarray:
    return np.digitize(1.5 * means @ EFFECT + rng.logistic(size=len(means)), [-1.5, 0.0, 1.0, 2.2])


def poisson_losses(train: Simulation, new: Simulation, seed: int) -> list[float]:
    own = dk.SetRegressor(["means"], loss="poisson", random_state=seed).fit(train[0], train[2])
    alphas = {"alpha": np.logspace(-4, 1, 6)}
    peer = GridSearchCV(PoissonRegressor(max_iter=1000), alphas, cv=5).fit(train[1], train[2])
    predictions = own.predict(new[0]), peer.predict(new[1]), np.full(len(new[2]), train[2].mean())
    return [mean_poisson_deviance(new[2], p) for p in predictions]


def quantile_losses(train: Simulation, new: Simulation, seed: int, q: float) -> list[float]:
    own = dk.SetRegressor(["means"], loss="quantile", quantile=q, random_state=seed).fit(train[0], train[2])
    peer = QuantileRegressor(quantile=q, alpha=0).fit(train[1], train[2])
    predictions = own.predict(new[0]), peer.predict(new[1]), np.full(len(new[2]), np.quantile(train[2], q))
    return [mean_pinball_loss(new[2], p, alpha=q) for p in predictions]


def ordinal_losses(train: Simulation, new: Simulation, seed: int) -> list[float]:
    own = dk.SetClassifier(["means"], ordinal=True, random_state=seed).fit(train[0], train[2])
    probabilities = [own.predict_proba(new[0])]
    try:
        from statsmodels.miscmodels.ordinal_model import OrderedModel
    except ImportError:
        probabilities.append(np.full((len(new[2]), len(own.classes_)), np.nan))
    else:
        peer = OrderedModel(train[2], train[1], distr="logit").fit(method="bfgs", disp=0)
        probabilities.append(peer.model.predict(peer.params, exog=new[1]))
    probabilities.append(np.tile(np.bincount(train[2]) / len(train[2]), (len(new[2]), 1)))
    return [float(-np.log(p[np.arange(len(p)), new[2]]).mean()) for p in probabilities]


TASKS: dict[str, tuple[Callable[..., np.ndarray], Callable[..., list[float]], dict[str, Any]]] = {
    "counts, mean 4": (counts, poisson_losses, {}),
    "counts, mean 0.9": (rare_counts, poisson_losses, {}),
    "median, unequal noise": (unequal_noise, quantile_losses, {"q": 0.5}),
    "0.9 quantile, unequal noise": (unequal_noise, quantile_losses, {"q": 0.9}),
    "five stages": (stages, ordinal_losses, {}),
}


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--simulations", type=int, default=10)
    parser.add_argument("--sets", type=int, default=400)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    n, n_simulations = (60, 1) if arguments.quick else (arguments.sets, arguments.simulations)
    report = start_report()
    print(f"{n} sets, {n_simulations} simulations, seed {arguments.seed}")
    print(
        "| task | dkdist | peer | constant | dkdist - peer | standard error | seconds |\n|---|---|---|---|---|---|---|"
    )
    for number, (name, (target, losses, options_of_task)) in enumerate(TASKS.items()):
        start, rows = time.perf_counter(), []
        for i in range(n_simulations):
            rng = np.random.default_rng([arguments.seed, number, i])
            train, new = simulate(n, rng, target), simulate(N_NEW, rng, target)
            rows.append(losses(train, new, i, **options_of_task))
        table = np.array(rows)
        difference = table[:, 0] - table[:, 1]
        error = difference.std(ddof=1) / np.sqrt(n_simulations) if n_simulations > 1 else np.nan
        mean = table.mean(axis=0)
        report[name] = {
            "losses": mean.tolist(),
            "difference": float(difference.mean()),
            "std_error": float(error),
        }
        figures = " | ".join(f"{value:.4f}" for value in (*mean, difference.mean(), error))
        print(f"| {name} | {figures} | {(time.perf_counter() - start) / n_simulations:.1f} |", flush=True)
    write(arguments.output, report)


if __name__ == "__main__":
    main()
