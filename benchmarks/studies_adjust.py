"""Simulated studies with batches: accuracy with and without adjustment, and a batch that equals the disease.

    python benchmarks/studies_adjust.py [--seed 0] [--jobs 2] [--quick] [--output results.json]

A set has 50 points in three dimensions, normal around a mean: the effect of its donor (standard deviation 0.5 in each
dimension), that of the disease along one random direction, and that of its batch. Effects of batches are normal vectors
whose variance equals that of all other parts of the points, so that they explain half of the variance. Each batch has
as many cases as controls. All methods are fitted to the same donors and scored on fresh donors of the same batches.

A time limit that is never reached makes automatic models evaluate themselves on one hold-out, which is faster.
Seeds 0 to 99 are for development; report results of other seeds.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from common import options, start_report, write
from joblib import Parallel, delayed
from sklearn.linear_model import LogisticRegressionCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import dkdist as dk

N_DIMS, N_POINTS, DONOR_SCALE, EFFECT = 3, 50, 0.5, 1.2
N_BATCHES, N_SETS, N_FRESH = 8, 160, 800
REFERENCE, ADJUSTED, UNADJUSTED = "without batch", "adjusted", "unadjusted"
CENTRED, DUMMIES = "logistic regression, means centred by batch", "logistic regression, means and batch"
SECONDS = 3600.0
MAX_LOSS, MIN_GAIN, MAX_STD_ERROR = 0.02, 0.05, 0.005


class Study(NamedTuple):
    """Sets with and without effects of batches, classes and batches."""

    sets: dk.SampleSets
    sets_without: dk.SampleSets
    y: Any
    batch: Any


def draw_study(rng: np.random.Generator, n: int, direction: Any, shifts: Any) -> Study:
    """Return n sets whose batches and classes are crossed."""
    y, batch = np.arange(n) % 2, np.arange(n) // 2 % len(shifts)
    means = rng.normal(0, DONOR_SCALE, (n, N_DIMS)) + EFFECT * (y[:, None] - 0.5) * direction
    points = means[:, None, :] + rng.normal(size=(n, N_POINTS, N_DIMS))
    names = np.array([f"batch {k}" for k in range(len(shifts))])[batch]
    targets = {"batch": names}
    shifted = points + shifts[batch][:, None, :]
    return Study(
        dk.SampleSets.from_arrays(list(shifted), targets=targets),
        dk.SampleSets.from_arrays(list(points), targets=targets), y, names,
    )  # fmt: skip


def rows_of(study: Study) -> Any:
    """Return the means (n, d) of the sets."""
    return np.array([one.mean(axis=0) for one in study.sets])


def score_centred(train: Study, fresh: Study) -> float:
    """Score logistic regression on means minus the mean of their batch in the training sets."""
    X, Z = rows_of(train), rows_of(fresh)
    centres = {name: X[train.batch == name].mean(axis=0) for name in np.unique(train.batch)}
    model = make_pipeline(StandardScaler(), LogisticRegressionCV(Cs=10, cv=5, max_iter=1000))
    model.fit(X - [centres[name] for name in train.batch], train.y)
    return float(model.score(Z - [centres[name] for name in fresh.batch], fresh.y))


def score_dummies(train: Study, fresh: Study) -> float:
    """Score logistic regression on means and indicators of batches."""
    names = np.unique(train.batch)
    X, Z = (np.column_stack([rows_of(one), one.batch[:, None] == names]) for one in (train, fresh))
    model = make_pipeline(StandardScaler(), LogisticRegressionCV(Cs=10, cv=5, max_iter=1000)).fit(X, train.y)
    return float(model.score(Z, fresh.y))


def simulate(seed: int, index: int, quick: bool) -> dict[str, float]:
    """Return the accuracy of each method on fresh sets."""
    rng = np.random.default_rng([seed, index])
    direction = rng.normal(size=N_DIMS)
    direction /= np.linalg.norm(direction)
    variance = 1 + DONOR_SCALE**2 + EFFECT**2 / 4 / N_DIMS
    shifts = rng.normal(0, np.sqrt(variance), (N_BATCHES, N_DIMS))
    n, n_fresh = (64, 160) if quick else (N_SETS, N_FRESH)
    train, fresh = draw_study(rng, n, direction, shifts), draw_study(rng, n_fresh, direction, shifts)
    new: Callable[..., dk.SetClassifier] = partial(
        dk.SetClassifier, ["means"] if quick else "auto", budget=SECONDS, random_state=index
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {
            REFERENCE: new().fit(train.sets_without, train.y).score(fresh.sets_without, fresh.y),
            ADJUSTED: new(adjust=["batch"]).fit(train.sets, train.y).score(fresh.sets, fresh.y),
            UNADJUSTED: new().fit(train.sets, train.y).score(fresh.sets, fresh.y),
            CENTRED: score_centred(train, fresh),
            DUMMIES: score_dummies(train, fresh),
        }


def simulate_confounded(seed: int, index: int) -> tuple[bool, bool, float]:
    """Return whether a batch equal to the disease is warned of, whether anything is claimed, and the p-value.

    The batch also changes the spread of points, which adjustment of rows does not remove.
    """
    rng = np.random.default_rng([seed, index, 1])
    y = np.arange(60) % 2
    points = [rng.normal(c, 1 + 0.5 * c, (N_POINTS, N_DIMS)) for c in y]
    sets = dk.SampleSets.from_arrays(points, targets={"batch": np.array(["x", "y"])[y]})
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = dk.SetClassifier(["means", "trees"], adjust=["batch"], random_state=index).fit(sets, y)
    is_warned = any("confounded" in str(one.message) for one in caught)
    is_claimed = model.fallback_ is None or "better" in model.verdicts_.values()
    return is_warned, is_claimed, model.p_value_


def report_adjust(seed: int, quick: bool, jobs: int = 1) -> dict[str, Any]:
    """Print and return the accuracies, and the counts of warnings and claims, with bounds."""
    n_runs, n_confounded = (2, 1) if quick else (50, 10)
    runs = Parallel(jobs)(delayed(simulate)(seed, i, quick) for i in range(n_runs))
    print(
        f"\nBatch that explains half of the variance, crossed with the disease; {n_runs} simulations, seed {seed}"
    )
    for name in runs[0]:
        print(f"  {name:46} {_mean_text([run[name] for run in runs])}")
    loss = [run[REFERENCE] - run[ADJUSTED] for run in runs]
    gain = [run[ADJUSTED] - run[UNADJUSTED] for run in runs]
    errors = [_std_error([run[name] for run in runs]) for name in (REFERENCE, ADJUSTED, UNADJUSTED)]
    ok = {
        f"loss by adjustment {_mean_text(loss)}, at most {MAX_LOSS}": np.mean(loss) <= MAX_LOSS,
        f"gain over no adjustment {_mean_text(gain)}, at least {MIN_GAIN}": np.mean(gain) >= MIN_GAIN,
        f"standard errors of accuracies up to {max(errors):.4f}, at most {MAX_STD_ERROR}": max(errors)
        <= MAX_STD_ERROR,
    }
    confounded = Parallel(jobs)(delayed(simulate_confounded)(seed, i) for i in range(n_confounded))
    n_warned, n_claimed = sum(one[0] for one in confounded), sum(one[1] for one in confounded)
    smallest = min(one[2] for one in confounded)
    text = f"{n_warned} of {n_confounded} warned, {n_claimed} claims, p-values from {smallest:.2g}"
    text = f"batch equal to the disease: {text}"
    ok[text] = n_warned == n_confounded and n_claimed == 0 and smallest > 0.05
    for line, is_met in ok.items():
        print(f"  {line}: {'ok' if is_met else 'MISS'}")
    return {"runs": runs, "confounded": confounded, "lines": {line: bool(met) for line, met in ok.items()}}


def _std_error(values: Sequence[float]) -> float:
    return float(np.std(values, ddof=1) / np.sqrt(len(values)))


def _mean_text(values: Sequence[float]) -> str:
    return f"{np.mean(values):.4f} ± {_std_error(values):.4f}"


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    arguments = parser.parse_args()
    report = start_report()
    report["adjust"] = report_adjust(arguments.seed, arguments.quick, arguments.jobs)
    write(arguments.output, report)


if __name__ == "__main__":
    main()
