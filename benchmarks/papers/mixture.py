"""RMSE of the number of components of a Gaussian mixture, a regression on sample sets (P1, section 4.2 and Figure 4).

    python benchmarks/papers/mixture.py [--quick] [--points 200 800] [--seeds 3] [--first-seed 0]
                                        [--only NAME ...] [--pairwise 1000] [--output results.json]

A set has 200 or 800 points of a mixture of 1 to 10 components in the plane; the target is the number of components.
There are 4,000, 8,000 and 16,000 training sets and 4,000 test sets, and three seeds of the data; D = 5,000 random
features and ridge. Results are means over seeds with standard deviations. For every seed, parameter, sigma and penalty
of each embedding are selected on a quarter of the first 4,000 training sets with 1,000 features: 144 candidates each.
Test sets are used once. Rotations and reflections about the centre do not change the number of components: features of
"invariant" rows are means over the eight symmetries of the square. The domain is therefore [-10, 10]^2, which has the
centre of the mixtures, unlike the bounds of the data.

Slower methods run on fewer sets: AIC and BIC of GaussianMixture of scikit-learn (ten fits per set; the first 100 test
sets), and kernel ridge on all pairs of 1,000 training and 500 test sets by nearest neighbours (Kullback-Leibler, and
Jensen-Shannon by entropies; 16,000 sets would be 256 times as many pairs).

P1: Sutherland, Oliva, Poczos, Schneider, Linear-time learning on distributions with approximate kernel embeddings
(2016).
"""

from __future__ import annotations

import sys
import time
import warnings
from functools import partial
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.kernel_ridge import KernelRidge
from sklearn.mixture import GaussianMixture
from study import ALPHAS, Rival, options, rmse, show, spread, tune, tuned_pipeline, write

import dkdist as dk
from dkdist.datasets.mixtures import DOMAIN_BOUND

BANDWIDTHS = (0.03, 0.045, 0.06, 0.08)  # of the plane scaled to the unit square
# has the centre of the mixtures, so reflections of the domain are symmetries
DOMAIN = (
    [-DOMAIN_BOUND, -DOMAIN_BOUND],
    [DOMAIN_BOUND, DOMAIN_BOUND],
)
TUNED_ON = 4000
SCORING = "neg_root_mean_squared_error"
MANY_SIGMAS = tuple(2.0 ** (k / 3 - 2) for k in range(16))  # for embeddings without a parameter
SIGMAS = (0.25, 0.5, 1.0, 2.0)  # times the median distance between rows
REFERENCES = ("Jensen-Shannon", "Hellinger")


def divergence(name: str) -> partial[Any]:
    return partial(dk.DivergenceEmbedding, name, domain=DOMAIN)


RIVALS = (
    Rival("Jensen-Shannon", divergence("jensen-shannon"), "bandwidth", BANDWIDTHS, SIGMAS),
    Rival("Hellinger", divergence("hellinger"), "bandwidth", BANDWIDTHS, SIGMAS),
    Rival("total variation", divergence("total-variation"), "bandwidth", BANDWIDTHS, SIGMAS),
    Rival("L2", partial(dk.L2Embedding, 14, domain=DOMAIN), "bandwidth", (0.015, 0.03, 0.045, 0.06), SIGMAS),
    Rival("MMD", partial(dk.MeanEmbedding, 1000, random_state=0), "sigma", (0.6, 1.2, 2.4, 4.8), SIGMAS),
    Rival("histogram, Jensen-Shannon", partial(dk.HistogramEmbedding, domain=DOMAIN), "n_bins",
          (6, 8, 11, 16), SIGMAS),
    Rival("mean", partial(dk.MomentEmbedding, 1), sigmas=MANY_SIGMAS),
    Rival("mean and covariance", partial(dk.MomentEmbedding, 2), sigmas=MANY_SIGMAS),
    Rival("Jensen-Shannon, invariant", divergence("jensen-shannon"), "bandwidth", BANDWIDTHS, SIGMAS, "all"),
    Rival("Hellinger, invariant", divergence("hellinger"), "bandwidth", BANDWIDTHS, SIGMAS, "all"),
)  # fmt: skip


def mixtures(seed: int, n_sets: int, n_points: int) -> tuple[dk.SampleSets, np.ndarray]:
    """Return sets, and their numbers of components as targets of a regression."""
    sets, y = dk.datasets.make_mixtures(n_sets, n_points, random_state=seed)
    return sets, y.astype(float)


def one_seed(
    seed: int, n_points: int, train: tuple[int, ...], n_test: int, rivals: list[Rival], D: int, tuning_D: int,
    n_criteria: int,
) -> dict[str, Any]:  # fmt: skip
    """Return errors and times of all embeddings for every number of training sets, for one seed of the data.

    The key "few" is the error on the first ``n_criteria`` test sets after training on the largest number of sets.
    """
    sets, y = mixtures(seed, n_test + max(train), n_points)
    test, truth, sets, y = sets[:n_test], y[:n_test], sets[n_test:], y[n_test:]
    n_tuning, record = min(TUNED_ON, min(train)), {"constant": {"rmse": [float(np.std(truth))] * len(train)}}
    for rival in rivals:
        learner, start = dk.IncrementalRidge(random_state=seed), time.perf_counter()
        choice = tune(rival, sets[:n_tuning], y[:n_tuning], learner, tuning_D, seed, scoring=SCORING)
        row = record[rival.name] = {"rmse": [], "tuning_seconds": time.perf_counter() - start, "seconds": []}
        model, row["chosen"] = tuned_pipeline(rival, choice, learner, D, seed), choice.record
        for n in train:
            start = time.perf_counter()
            result = model.fit(sets[:n], y[:n]).predict(test)
            row["rmse"].append(rmse(truth, result))
            row["seconds"].append(time.perf_counter() - start)
        row["few"] = rmse(truth[:n_criteria], result[:n_criteria]) if n_criteria else None
        errors = " ".join(f"{e:.4f}" for e in row["rmse"])
        print(f"  n={n_points} seed={seed} {rival.name:<28} {errors} {choice.record}", flush=True)
    if n_criteria and seed == 0:
        record["criteria"] = criteria(test[:n_criteria], truth[:n_criteria], seed)
    return record


def criteria(sets: dk.SampleSets, y: np.ndarray, seed: int) -> dict[str, float]:
    """Return the errors of AIC and BIC, which select the number of components with the minimum criterion."""
    values = np.empty((2, len(sets), 10))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for i, x in enumerate(sets):
            for k in range(10):
                model = GaussianMixture(k + 1, random_state=seed).fit(x.astype(float))
                values[:, i, k] = model.aic(x), model.bic(x)
    return {name: rmse(y, 1 + v.argmin(1)) for name, v in zip(("AIC", "BIC"), values, strict=True)}


def pairwise(seed: int, n_points: int, n_train: int, n_test: int) -> dict[str, Any]:
    """Return errors of kernel ridge on divergences of all pairs, and on rows of the embedding, on the same data."""
    sets, y = mixtures(seed, n_train + n_test, n_points)
    test, train = sets[:n_test], sets[n_test:]
    A = dk.DivergenceEmbedding("jensen-shannon", bandwidth=0.08, domain=DOMAIN).fit(train)
    a, b = A.transform(train).astype(float), A.transform(test).astype(float)
    euclid = [np.maximum((u**2).sum(1)[:, None] + (a**2).sum(1) - 2 * u @ a.T, 0) for u in (a, b)]
    result = {"Jensen-Shannon embedding": {"rmse": kernel_ridge(*euclid, y[n_test:], y[:n_test])}}
    for name, choices in (
        ("Kullback-Leibler, nearest neighbours",
         {"divergence": "kullback-leibler", "estimator": "knn", "symmetric": True}),
        ("Jensen-Shannon, entropies", {"divergence": "jensen-shannon", "estimator": "entropy"}),
    ):  # fmt: skip
        start = time.perf_counter()
        D = [
            np.maximum(dk.divergence_matrix(s, other=o, **choices), 0)
            for s, o in ((train, None), (test, train))
        ]
        seconds = time.perf_counter() - start
        result[name] = {"rmse": kernel_ridge(*D, y[n_test:], y[:n_test]), "seconds": seconds}
    return result


def kernel_ridge(D: np.ndarray, cross: np.ndarray, y: np.ndarray, truth: np.ndarray) -> float:
    """Return the error of kernel ridge on exp(-D / (2 sigma^2)); parameters are selected on a held-out quarter."""
    n = len(y) * 3 // 4
    median = float(np.sqrt(np.median(D[np.triu_indices(len(D), 1)])))
    best = (np.inf, 0.0, 0.0)
    for sigma in (m * median for m in MANY_SIGMAS):
        K = dk.project_psd(np.exp(-D / (2 * sigma**2)))
        for alpha in ALPHAS:
            model = KernelRidge(alpha=alpha, kernel="precomputed").fit(K[:n, :n], y[:n] - y[:n].mean())
            best = min(best, (rmse(y[n:] - y[:n].mean(), model.predict(K[n:, :n])), sigma, alpha))
    _, sigma, alpha = best
    K = dk.project_psd(np.exp(-D / (2 * sigma**2)))
    model = KernelRidge(alpha=alpha, kernel="precomputed").fit(K, y - y.mean())
    return rmse(truth - y.mean(), model.predict(np.exp(-cross / (2 * sigma**2))))


def summary(runs: list[dict[str, Any]], train: tuple[int, ...]) -> dict[str, Any]:
    """Return means and deviations over seeds, and paired differences to the worse of the references."""
    table: dict[str, Any] = {}
    references = [name for name in REFERENCES if name in runs[0]]
    for name in runs[0]:
        table[name] = []
        for j in range(len(train)):
            values = np.array([run[name]["rmse"][j] for run in runs])
            reference = np.array(
                [max((run[k]["rmse"][j] for k in references), default=np.nan) for run in runs]
            )
            table[name].append(spread(values.tolist()) | {"behind": spread((values - reference).tolist())})
    return table


def show_seconds(runs: list[dict[str, Any]], train: tuple[int, ...]) -> dict[str, float]:
    """Print total seconds of all embeddings, means over seeds: fit and prediction by size, and tuning."""
    rows = [[row for row in run.values() if "seconds" in row] for run in runs]
    total = {
        f"fit and predict, N = {n:,}": sum(row["seconds"][j] for run in rows for row in run) / len(rows)
        for j, n in enumerate(train)
    }
    total["choice of settings"] = sum(row["tuning_seconds"] for run in rows for row in run) / len(rows)
    show(f"total seconds of all {len(rows[0])} embeddings", ["s"], {k: [v] for k, v in total.items()})
    return total


def main(argv: list[str] | None = None) -> dict[str, Any]:
    parser = options(__doc__, quick="300 sets of 100 points, D = 200, one seed")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--points", type=int, nargs="+", default=[200, 800])
    parser.add_argument(
        "--only", nargs="+", choices=[r.name for r in RIVALS], help="run only these embeddings"
    )
    parser.add_argument(
        "--pairwise", type=int, default=1000, help="training sets of all-pairs kernels; 0: none"
    )
    parser.add_argument("--criteria", type=int, default=100, help="test sets for AIC and BIC; 0: none")
    args = parser.parse_args(argv)
    # fine bandwidths are tested on purpose
    warnings.filterwarnings("ignore", message="bandwidth .* is much finer")
    train, n_test, seeds, D, tuning_D = (4000, 8000, 16000), 4000, args.seeds, 5000, 1000
    if args.quick:
        train, n_test, seeds, D, tuning_D = (300,), 300, 1, 200, 200
        args.points, args.pairwise, args.criteria = [100], 60, 5
    rivals = [r for r in RIVALS if not args.only or r.name in args.only]
    report: dict[str, Any] = {"experiment": "mixture", "train": train, "test": n_test, "D": D, "points": {}}
    for n in args.points:
        runs = [
            one_seed(s, n, train, n_test, rivals, D, tuning_D, args.criteria)
            for s in (args.first_seed + k for k in range(seeds))
        ]
        criteria_rmse = runs[0].pop("criteria", {})
        table = summary(runs, train)
        show(
            f"RMSE of the number of components, {n} points per set, {seeds} seed(s)",
            [f"N = {N:,}" for N in train],
            table,
        )
        behind = {k: [f"{c['behind']['mean']:+.4f} +- {c['behind']['sem']:.4f}" for c in v]
                  for k, v in table.items()}  # fmt: skip
        show(f"difference to the worse of {REFERENCES}: mean, standard error", [""] * len(train), behind)
        report["points"][n] = {"table": table, "runs": runs, "seconds": show_seconds(runs, train)}
        if args.criteria:
            criteria_rmse |= {name: row["few"] for name, row in runs[0].items() if "few" in row}
            report["points"][n]["criteria"] = criteria_rmse
            show(
                f"first {args.criteria} test sets of seed 0",
                ["RMSE"],
                {k: [v] for k, v in criteria_rmse.items()},
            )
        write(args.output, report)
    if args.pairwise:
        report["pairwise"] = pairwise(0, args.points[0], args.pairwise, args.pairwise // 2)
        print(f"  kernel ridge on all pairs of {args.pairwise} training sets:", report["pairwise"])
    write(args.output, report)
    return report


if __name__ == "__main__":
    main(sys.argv[1:])
