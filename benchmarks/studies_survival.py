"""Survival analysis of sets: the Cox solvers, lower bounds, and `SetSurvival` next to scikit-survival.

    python benchmarks/studies_survival.py [STAGE ..] [--seed 0] [--quick]

solver       coefficients of the exact solver next to scikit-survival's CoxPHSurvivalAnalysis (Breslow) on equal columns
streaming    kernel Cox regression of landmarks in passes over a store, next to the exact one with the same kernel, and
             to the exact one on the columns of the landmarks
coverage     fraction of times of new sets above `predict_lower_bound`, with three kinds of censoring
concordance  `SetSurvival()` next to CoxPH and Coxnet of scikit-survival, penalties by cross-validation, on means and on
             quantiles of the sets; and the true risk
covariates   `SetSurvival` with the age as covariate next to CoxPH on age and on age and means; the age and the means of
             the sets drive the hazard, or the age alone
penalties    concordance of `SetSurvival` with multiples of the penalty of its Cox regressions (default: not run)

Stages that need scikit-survival (pip install scikit-survival) are skipped by name without it.
"""

from __future__ import annotations

import tempfile
import time
import warnings
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import numpy as np
from common import options, start_report, write

import dkdist as dk
from dkdist.auto import cox_members
from dkdist.auto.landmark_ridge import LandmarkData, LandmarkKernel, _kernel_columns
from dkdist.auto.representation_rows import PairwiseRows, leaf_rows
from dkdist.linear.concordance import concordance
from dkdist.linear.cox import ArrayRows, Survival, fit_cox, fit_kernel_cox
from dkdist.linear.feature_trees import Node, SearchData, SharedFeatureGraph

KINDS = ("mean", "spread", "mixture", "bend")
Simulation = tuple[list[np.ndarray], np.ndarray, np.ndarray, np.ndarray]


def simulate(kind: str, n: int, effect: float, seed: Any, censoring: str = "independent") -> Simulation:
    """Return n sets of 60 points in three dimensions, y, times without censoring, and true log hazards."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=n)
    X = rng.normal(size=(n, 60, 3)) + 0.3 * rng.normal(size=(n, 1, 3))
    if kind == "mean":
        X[:, :, 0] += 0.7 * z[:, None]
    elif kind == "spread":
        X[:, :, 1] *= np.exp(0.3 * z)[:, None]
    elif kind == "mixture":  # a fraction of the points lies elsewhere
        X += (rng.random((n, 60)) < 1 / (1 + np.exp(2 - z))[:, None])[:, :, None] * np.array([3.0, 3.0, 0.0])
    else:  # both extremes of the mean have a larger risk
        X[:, :, 0] += z[:, None]
    log_hazard = effect * ((z**2 - 1) / np.sqrt(2) if kind == "bend" else z)
    death = rng.exponential(np.exp(-log_hazard))
    end = {
        "none": np.full(n, np.inf), "independent": rng.exponential(2, n),
        "by risk": rng.exponential(2 * np.exp(log_hazard / 2)),
    }[censoring]  # fmt: skip
    y = np.empty(n, dtype=[("event", bool), ("time", float)])
    y["event"], y["time"] = death <= end, np.minimum(death, end)
    return list(X), y, death, log_hazard


def survival(y: np.ndarray) -> Survival:
    return Survival(y["event"], y["time"], np.ones(len(y)))


def scikit_survival(stage: str) -> Any:
    """Return the module of linear models, or None after a message."""
    try:
        import sksurv.linear_model
    except ImportError:
        print(f"{stage}: skipped, scikit-survival is not installed")
        return None
    return sksurv.linear_model


def compare_solvers(seed: int, quick: bool) -> Any:
    if (models := scikit_survival("solver")) is None:
        return None
    rows = []
    for n, p in ((100, 5), (60, 100)) if quick else ((100, 5), (500, 20), (2000, 50), (60, 100)):
        rng = np.random.default_rng([seed, n, p])
        X = rng.normal(size=(n, p))
        X = (X - X.mean(axis=0)) / X.std(axis=0)
        death, end = rng.exponential(np.exp(-X[:, :3].sum(axis=1))), rng.exponential(2, n)
        y = np.empty(n, dtype=[("event", bool), ("time", float)])
        y["event"], y["time"] = death <= end, np.round(np.minimum(death, end) + 0.01, 2)  # with ties
        for alpha in (0.1, 1.0, 10.0):
            start = time.perf_counter()
            w, _ = fit_cox(ArrayRows(X), survival(y), alpha)
            middle = time.perf_counter()
            reference = (
                models.CoxPHSurvivalAnalysis(alpha, ties="breslow", tol=1e-12, n_iter=500).fit(X, y).coef_
            )
            seconds = middle - start, time.perf_counter() - middle
            row = {
                "n": n,
                "p": p,
                "alpha": alpha,
                "difference": float(np.abs(w - reference).max()),
                "seconds": seconds,
            }
            rows.append(row)
            print(
                f"solver: {n} rows, {p} columns, alpha {alpha:g}: largest difference of coefficients "
                f"{row['difference']:.1e}; {1e3 * seconds[0]:.1f} ms, scikit-survival {1e3 * seconds[1]:.1f} ms"
            )
    return rows


def compare_streaming(seed: int, quick: bool) -> Any:
    n, n_new = (200, 100) if quick else (4000, 2000)
    rows = []
    for kind in KINDS[:1] if quick else KINDS:
        sets, y, _, _ = simulate(kind, n + n_new, 1.0, [seed, 1])
        spec = dk.SlicedWassersteinEmbedding(random_state=0).fit(sets[:n]).spec_
        graph = SharedFeatureGraph((Node(spec, (), 0),))
        known = dk.SampleSets.from_arrays(sets)
        X = leaf_rows(SearchData(known, graph, [spec.n_features], False), [0])[0]
        linear, _, gaussian, *_ = PairwiseRows([X[:n]]).kernels()  # Gaussian: half the median distance
        for name, kernel, alpha in (
            ("linear", linear, 1.0),
            ("Gaussian", gaussian, 1.0),
            ("Gaussian", gaussian, 10.0),
        ):
            landmarks = LandmarkKernel(0, kernel, (X[: min(512, n // 4)],))
            train = survival(y[:n])
            start = time.perf_counter()
            (K,) = PairwiseRows([X[:n]]).matrices([kernel])
            a, f = fit_kernel_cox(K, train, cox_members.cox_penalty(alpha, train))
            exact_seconds = time.perf_counter() - start
            centre = X[:n].mean(axis=0, dtype=np.float64)
            exact = kernel.of(X[n:].astype(np.float64), [X[:n].astype(np.float64)], centre) @ a
            with tempfile.TemporaryDirectory() as folder:
                store = dk.write_sets(f"{folder}/sets.zarr", sets[:n])
                width = [len(landmarks.images[0])]
                data = LandmarkData(store, graph, width, False, (landmarks,))
                start = time.perf_counter()
                zeros = np.zeros(width[0])
                member = cox_members.landmark_cox_member(data, 0, train, alpha, zeros, 1.0)
                seconds = time.perf_counter() - start
            streamed = member.values(X)[:, 0]
            new = survival(y[n:])
            (columns,) = _kernel_columns(X[:n], [landmarks])
            columns = np.linalg.solve(landmarks.penalty_factor(), columns.T).T
            _, equal = fit_cox(ArrayRows(columns), train, cox_members.cox_penalty(alpha, train))
            likelihoods = [train.log_likelihood(values) for values in (f, streamed[:n], equal)]
            scores = concordance(new, exact), concordance(new, streamed[n:])
            row = {
                "kind": kind, "kernel": name, "alpha": alpha, "seconds": (exact_seconds, seconds), "scores": scores,
                "relative_likelihood": likelihoods[1] / likelihoods[0] - 1,
                "relative_likelihood_of_equal_columns": likelihoods[1] / likelihoods[2] - 1,
            }  # fmt: skip
            rows.append(row)
            print(
                f"streaming: {kind}, {name} kernel, {n} sets, alpha {alpha:g}: partial likelihood "
                f"{100 * row['relative_likelihood']:+.3f} % "
                f"({100 * row['relative_likelihood_of_equal_columns']:+.5f} % on equal columns), concordance of "
                f"{n_new} new sets {scores[1]:.4f} instead of {scores[0]:.4f}; {seconds:.1f} s instead of "
                f"{exact_seconds:.1f} s"
            )
    return rows


def measure_coverage(seed: int, quick: bool) -> Any:
    rows = []
    for censoring in ("none", "independent", "by risk"):
        covered, events = [], []
        for i in range(1 if quick else 200):
            sets, y, death, _ = simulate("mean", 500, 1.0, [seed, 2, i], censoring)
            model = dk.SetSurvival(["means"], cv=5, random_state=i).fit(sets[:100], y[:100])
            covered.append((death[100:] >= model.predict_lower_bound(sets[100:], coverage=0.9)).mean())
            events.append(y["event"].mean())
        row = {
            "censoring": censoring,
            "events": float(np.mean(events)),
            **mean_and_error("coverage", covered),
        }
        rows.append(row)
        print(
            f"coverage: censoring {censoring}, {100 * row['events']:.0f} % events, {len(covered)} simulations of 100 "
            f"training sets: {row['coverage']:.4f} ± {row['coverage_error']:.4f}, requested 0.9"
        )
    return rows


def mean_and_error(name: str, values: Any) -> dict[str, float]:
    return {name: float(np.mean(values)), f"{name}_error": float(np.std(values) / np.sqrt(len(values)))}


def reference_models(models: Any) -> dict[str, Callable[..., Any]]:
    """Return functions of (sets, y, new sets) to the risk scores of scikit-survival's models on summaries of sets."""
    from sklearn.model_selection import GridSearchCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    def means(sets: Any) -> Any:
        return np.array([x.mean(axis=0) for x in sets])

    def quantiles(sets: Any) -> Any:
        return np.array([np.quantile(x, [0.05, 0.25, 0.5, 0.75, 0.95], axis=0).ravel() for x in sets])

    def fit(summary: Any, estimator: Any, grid: Any) -> Callable[..., Any]:
        def predict(sets: Any, y: Any, new: Any) -> Any:
            search = GridSearchCV(make_pipeline(StandardScaler(), estimator), grid, cv=5, error_score=0.5)
            return search.fit(summary(sets), y).predict(summary(new))

        return predict

    ridge = models.CoxPHSurvivalAnalysis(), {"coxphsurvivalanalysis__alpha": [0.1, 1.0, 10.0, 100.0]}
    net = (
        models.CoxnetSurvivalAnalysis(l1_ratio=0.5),
        {"coxnetsurvivalanalysis__alphas": [[a] for a in (0.3, 0.1, 0.03, 0.01)]},
    )
    return {
        "CoxPH, means": fit(means, *ridge), "Coxnet, means": fit(means, *net),
        "CoxPH, quantiles": fit(quantiles, *ridge), "Coxnet, quantiles": fit(quantiles, *net),
    }  # fmt: skip


def compare_concordance(seed: int, quick: bool) -> Any:
    models = scikit_survival("concordance")
    methods = {} if models is None else reference_models(models)
    methods["SetSurvival()"] = lambda sets, y, new: dk.SetSurvival(
        ["means"] if quick else "auto", random_state=0
    ).fit(sets, y).predict(new)  # fmt: skip
    rows, n = [], 60 if quick else 120
    for kind in KINDS[:1] if quick else KINDS:
        scores: dict[str, list[float]] = {name: [] for name in (*methods, "true risk")}
        for i in range(1 if quick else 8):
            sets, y, _, log_hazard = simulate(kind, n + 1000, 1.0, [seed, 3, i])
            new = survival(y[n:])
            for name, method in methods.items():
                scores[name].append(concordance(new, method(sets[:n], y[:n], sets[n:])))
            scores["true risk"].append(concordance(new, log_hazard[n:]))
        for name, values in scores.items():
            lead = mean_and_error("lead", np.subtract(scores["SetSurvival()"], values))
            row = {"kind": kind, "method": name, **mean_and_error("concordance", values), **lead}
            rows.append(row)
            print(
                f"concordance: {kind}, {n} sets, {name}: {row['concordance']:.4f}; lead of SetSurvival "
                f"{row['lead']:+.4f} ± {row['lead_error']:.4f}"
            )
    return rows


def compare_covariates(seed: int, quick: bool) -> Any:
    models = scikit_survival("covariates")
    rows, n = [], 60 if quick else 120
    for effect in (0.0, 0.7):
        scores: dict[str, list[float]] = {}
        better = 0
        for i in range(1 if quick else 16):
            rng = np.random.default_rng([seed, 5, i])
            age, z = rng.normal(60, 10, n + 1000), rng.normal(size=n + 1000)
            cells = [rng.normal([mean, 0, 0], 1, (60, 3)) for mean in z]
            risk = 0.07 * (age - 60) + effect * z
            death, end = rng.exponential(np.exp(-risk)), rng.exponential(2, n + 1000)
            y = np.empty(n + 1000, dtype=[("event", bool), ("time", float)])
            y["event"], y["time"] = death <= end, np.minimum(death, end)
            sets, new = dk.SampleSets.from_arrays(cells, targets={"age": age}), survival(y[n:])
            model = dk.SetSurvival(["means", "marginals"], covariates=["age"], random_state=i)
            model.fit(sets[:n], y[:n])
            better += model.verdicts_["covariates"] == "better"
            risks = {"SetSurvival": model.predict(sets[n:]), "true risk": risk[n:]}
            if models is not None:
                means = np.array([x.mean(axis=0) for x in cells])
                for name, X in (("age", age[:, None]), ("age, means", np.column_stack([age, means]))):
                    cox = models.CoxPHSurvivalAnalysis(alpha=1.0, ties="breslow").fit(X[:n], y[:n])
                    risks[f"CoxPH, {name}"] = cox.predict(X[n:])
            for name, values in risks.items():
                scores.setdefault(name, []).append(concordance(new, values))
        for name, values in scores.items():
            row = {
                "effect": effect,
                "method": name,
                "better": better,
                **mean_and_error("concordance", values),
            }
            rows.append(row)
            print(f"covariates: effect of the sets {effect:g}, {name}: {row['concordance']:.4f}")
        print(f"covariates: effect of the sets {effect:g}, better than the age: {better} of {len(values)}")
    return rows


def compare_penalties(seed: int, quick: bool) -> Any:
    rows = []
    for factor in (1.0, 3.0, 5.0, 10.0, 30.0):
        scores = []
        with patch.object(cox_members, "COX_PENALTY_FACTOR", factor):
            for i in range(1 if quick else 8):
                for kind in KINDS:
                    sets, y, _, _ = simulate(kind, 600, 1.0, [seed, 4, i])
                    model = dk.SetSurvival(["moments", "marginals"], budget=600, random_state=i)
                    scores.append(model.fit(sets[:100], y[:100]).score(sets[100:], y[100:]))
        rows.append({"factor": factor, "concordance": float(np.mean(scores))})
        print(f"penalties: factor {factor:g}: concordance {rows[-1]['concordance']:.4f}")
    return rows


STAGES = {
    "solver": compare_solvers, "streaming": compare_streaming, "coverage": measure_coverage,
    "concordance": compare_concordance, "covariates": compare_covariates, "penalties": compare_penalties,
}  # fmt: skip


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("stages", nargs="*", choices=[*STAGES, []], help="default: all but penalties")
    parser.add_argument("--seed", type=int, default=0, help="0 to 99 were used for development")
    args = parser.parse_args()
    warnings.filterwarnings("ignore", message=".*(outside the range seen in fit|overflow encountered in exp)")
    report = start_report() | {"seed": args.seed}
    for stage in args.stages or [name for name in STAGES if name != "penalties"]:
        report[stage] = STAGES[stage](args.seed, args.quick)
    write(args.output, report)


if __name__ == "__main__":
    main()
