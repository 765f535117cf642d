"""Level and power of `group_test` in study designs: nuisance variables, pairs, batches, repeated visits, contrasts.

    python benchmarks/studies_groups.py --seed 4901 --output studies_groups.json

Sets of 5 points in 2 dimensions; groups follow age or batch, which shift the sets, or blocks of sets share a random
shift. Printed are fractions of rejections at level 0.05 without a difference between groups, and with one, next to
tests in use today on the means of sets: a regression per axis with the nuisance variables (Bonferroni over axes; the
t-test of limma without its prior), and PERMANOVA of Euclidean distances, both of which take the sets as independent.
The regressions of contrasts have an indicator per donor, and test the contrast alone.

The second table plans studies from pilots with ten sets per group: the power on new sets, and on sets drawn with
replacement from the pilot, either all from its first group, with the effect added, or each group from its own.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import product
from typing import Any

import numpy as np
from common import options, start_report, write
from scipy.linalg import null_space
from scipy.stats import f as f_distribution

import dkdist as dk

N_POINTS, N_PERMUTATIONS, LEVEL, SHIFT, N_PILOT = 5, 199, 0.05, 0.9, 10
TESTS = ("group_test", "regression", "PERMANOVA")
Study = tuple[np.ndarray, np.ndarray, dict[str, np.ndarray], dict[str, Any]]
"""Shifts (n,) and groups (n,) of sets, columns of targets, and arguments of `group_test`."""


def batches(rng: np.random.Generator) -> Study:
    """Three batches with 20 %, 50 % and 80 % ill donors."""
    batch = np.repeat([0, 1, 2], 8)
    ill = (rng.random(24) < np.array([0.2, 0.5, 0.8])[batch]).astype(int)
    return 3.0 * batch, ill, {"batch": np.array(list("abc"))[batch]}, {"adjust": ["batch"]}


def age_and_site(rng: np.random.Generator) -> Study:
    """Older ill donors; a tenth of the ages are missing at random; eight sites of four donors."""
    ill, site = np.arange(32) % 2, np.arange(32) // 4
    age = rng.normal(size=32) + ill
    shift = 3 * rng.normal(size=8)[site] + age
    recorded = np.where(rng.random(32) < 0.1, np.nan, age)
    shift = np.where(np.isnan(recorded), shift - age, shift)  # a missing age has no effect
    return (
        shift,
        ill,
        {"age": recorded, "site": np.array(list("abcdefgh"))[site]},
        {"adjust": ["age", "site"]},
    )


def ages(rng: np.random.Generator) -> Study:
    ill = np.arange(20) % 2
    age = rng.normal(size=20) + ill
    return 2 * age, ill, {"age": age}, {"adjust": ["age"]}


def hospitals(rng: np.random.Generator) -> Study:
    """Seven hospitals of 2 to 8 donors, and more ill donors in some of them."""
    hospital = np.repeat(np.arange(7), np.arange(2, 9))
    ill = (rng.random(35) < 0.2 + 0.6 * (hospital % 2)).astype(int)
    return 3 * rng.normal(size=7)[hospital], ill, {"hospital": hospital}, {"blocks": "hospital"}


def hospitals_and_age(rng: np.random.Generator) -> Study:
    shift, ill, targets, arguments = hospitals(rng)
    age = rng.normal(size=35) + ill
    return shift + 2 * age, ill, {**targets, "age": age}, {**arguments, "adjust": ["age"]}


def pairs_and_stress(rng: np.random.Generator) -> Study:
    """Twelve donors before and after treatment; stress is higher after it."""
    donor, after = np.arange(24) // 2, np.arange(24) % 2
    stress = rng.normal(size=24) + after
    shift = 3 * rng.normal(size=12)[donor] + 2 * stress
    return shift, after, {"donor": donor, "stress": stress}, {"blocks": "donor", "adjust": ["stress"]}


def visits(rng: np.random.Generator) -> Study:
    """Sixteen donors with one to four visits."""
    donor = np.repeat(np.arange(16), rng.integers(1, 5, 16))
    return 2 * rng.normal(size=16)[donor], donor % 2, {"donor": donor}, {"blocks": "donor"}


def visits_and_age(rng: np.random.Generator) -> Study:
    donor = np.repeat(np.arange(20), rng.integers(1, 5, 20))
    age = (rng.normal(size=20) + np.arange(20) % 2)[donor]
    shift = 2 * rng.normal(size=20)[donor] + 2 * age
    return shift, donor % 2, {"donor": donor, "age": age}, {"blocks": "donor", "adjust": ["age"]}


def third_visit(rng: np.random.Generator) -> Study:
    """Ten donors before, after and long after treatment; the last visit differs in location and variation."""
    donor, visit = np.arange(30) // 3, np.arange(30) % 3
    shift = 3 * rng.normal(size=10)[donor] + (visit == 2) * rng.normal(4, 3, 30)
    return shift, visit, {"donor": donor}, {"blocks": "donor", "contrast": {0: -1, 1: 1}}


def curved_course(rng: np.random.Generator) -> Study:
    """Ten donors at four times, with a fifth of the visits missing; a course without a trend."""
    donor, time = np.arange(40) // 4, np.arange(40) % 4
    shift = 3 * rng.normal(size=10)[donor] + 3 * np.array([1, -1, -1, 1])[time]
    came = rng.random(40) < 0.8
    targets = {"donor": donor[came]}
    contrast = {0: -3, 1: -1, 2: 1, 3: 3}
    return shift[came], time[came], targets, {"blocks": "donor", "contrast": contrast}


def doses_and_age(rng: np.random.Generator) -> Study:
    """Three doses, of which the second alone has an effect; age follows the dose."""
    dose = np.repeat([0, 1, 2], [6, 10, 8])
    age = rng.normal(size=24) + dose / 2
    return 3 * (dose == 1) + 2 * age, dose, {"age": age}, {"adjust": ["age"], "contrast": {0: -1, 1: 0, 2: 1}}


def ages_of_few(rng: np.random.Generator) -> Study:
    """Five ill donors of twenty, who are older: sets far from the centre of all are ill and old."""
    ill = (np.arange(20) % 4 == 0).astype(int)
    age = rng.normal(size=20) + 1.5 * ill
    return 2 * age, ill, {"age": age}, {"adjust": ["age"]}


DESIGNS: dict[str, Callable[[np.random.Generator], Study]] = {
    "batches": batches,
    "age": ages,
    "age and eight sites": age_and_site,
    "hospitals of 2 to 8 donors": hospitals,
    "hospitals, and age": hospitals_and_age,
    "pairs, and stress": pairs_and_stress,
    "one to four visits": visits,
    "visits, and age": visits_and_age,
    "before and after, other third visit": third_visit,
    "trend of a curved course": curved_course,
    "first and third dose, and age": doses_and_age,
    "age, five ill of twenty": ages_of_few,
}


def trial(i: int, name: str, difference: float, seed: int) -> list[float]:
    """Return the p-values of `TESTS` in one simulated study; groups differ by ``difference`` on the first axis."""
    warnings.filterwarnings("ignore", message="groups have different numbers of sets per block")
    rng = np.random.default_rng([seed, list(DESIGNS).index(name), int(difference > 0), i])
    while True:
        shift, groups, targets, arguments = DESIGNS[name](rng)
        contrast = arguments.get("contrast", {0: -1, 1: 1})
        effect = difference * groups[:, None] / max(contrast) * np.eye(2)[0]
        centres = rng.normal(size=(len(groups), 2)) + shift[:, None] + effect
        points = centres[:, None] + rng.normal(size=(len(groups), N_POINTS, 2))
        sets = dk.SampleSets.from_arrays(list(points), targets=targets)
        try:
            own = dk.group_test(sets, groups, N_PERMUTATIONS, random_state=i, **arguments).p_value
        except ValueError:  # the groups are equal to batches, or a group has one set: draw another study
            continue
        break
    used = np.isin(groups, list(contrast))
    means, groups = points.mean(axis=1)[used], groups[used]
    names = arguments.get("adjust", [])
    nuisance = [nuisance_columns(values[used]) for name, values in targets.items() if name in names]
    if "contrast" in arguments:
        if "blocks" in arguments:
            donors = targets[arguments["blocks"]][used]
            nuisance.append(donors[:, None] == np.unique(donors)[1:])
        nuisance.append((groups[:, None] == list(contrast)) @ null_space([list(contrast.values())]))
    return [own, regression(means, groups, nuisance), permanova(means, groups, rng)]


def nuisance_columns(values: np.ndarray) -> np.ndarray:
    """Return indicators of text, and numbers with missing ones replaced by the median and marked."""
    if values.dtype.kind == "U":
        return np.asarray(values[:, None] == np.unique(values)[1:], float)
    missing = np.isnan(values)
    return np.column_stack([np.where(missing, np.nanmedian(values), values), missing])


def regression(means: np.ndarray, groups: np.ndarray, nuisance: list[np.ndarray]) -> float:
    """Return the Bonferroni p-value of the group effect on the axes."""
    small = np.column_stack([np.ones(len(means)), *nuisance])
    full = np.column_stack([small, groups])
    sums = [((means - X @ np.linalg.lstsq(X, means, rcond=None)[0]) ** 2).sum(axis=0) for X in (small, full)]
    n_residual = len(means) - np.linalg.matrix_rank(full)
    p = f_distribution.sf((sums[0] - sums[1]) / sums[1] * n_residual, 1, n_residual)
    return float(min(1.0, means.shape[1] * p.min()))


def permanova(means: np.ndarray, groups: np.ndarray, rng: np.random.Generator) -> float:
    """Return the p-value of the pseudo-F of Euclidean distances, by free permutations (Anderson 2001)."""
    labels = np.stack([groups, *(rng.permutation(groups) for _ in range(N_PERMUTATIONS))], axis=1)
    centred = means - means.mean(axis=0)
    between = ((centred.T @ labels) ** 2).sum(axis=0)  # a monotone function of pseudo-F for two groups
    return float((between >= between[0] * (1 - 1e-9)).mean())


def rejections(name: str, difference: float, n_trials: int, seed: int, n_jobs: int) -> np.ndarray:
    """Return the fraction of rejections of each test."""
    return fraction(partial(trial, name=name, difference=difference, seed=seed), n_trials, n_jobs)


def fraction(run: Callable[[int], list[float]], n_trials: int, n_jobs: int) -> np.ndarray:
    """Return the fraction of trials with p-values up to the level."""
    if n_jobs == 1:
        p = np.array([run(i) for i in range(n_trials)])
    else:
        with ProcessPoolExecutor(n_jobs) as workers:
            p = np.array(list(workers.map(run, range(n_trials), chunksize=20)))
    return np.asarray((p <= LEVEL).mean(axis=0))


def draw_sets(rng: np.random.Generator, groups: np.ndarray, difference: float) -> np.ndarray:
    centres = rng.normal(size=(len(groups), 2)) + difference * groups[:, None] * np.eye(2)[0]
    return np.asarray(centres[:, None] + rng.normal(size=(len(groups), N_POINTS, 2)))


def planned_trial(i: int, n: int, difference: float, seed: int) -> list[float]:
    """Return the p-values of a study with n sets per group, and of two simulated ones, from a new pilot."""
    rng = np.random.default_rng([seed, 1000, n, int(difference > 0), i])
    groups, pilot_groups = np.repeat([0, 1], n), np.repeat([0, 1], N_PILOT)
    pilot, chosen = draw_sets(rng, pilot_groups, difference), rng.integers(N_PILOT, size=2 * n)
    studies = (
        draw_sets(rng, groups, difference),
        pilot[chosen] + difference * groups[:, None, None] * np.eye(2)[0],
        pilot[chosen + N_PILOT * groups],
    )
    return [dk.group_test(list(x), groups, N_PERMUTATIONS, random_state=i).p_value for x in studies]


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--trials", type=int, default=4000)
    parser.add_argument("--n-jobs", type=int, default=os.cpu_count())
    parser.add_argument("--designs", nargs="+", choices=DESIGNS, default=list(DESIGNS))
    arguments = parser.parse_args()
    n_level, n_power = (4, 2) if arguments.quick else (arguments.trials, arguments.trials // 20)
    n_jobs = 1 if arguments.quick else arguments.n_jobs
    report = start_report()
    error = np.sqrt(LEVEL * (1 - LEVEL) / n_level)
    print(
        f"level {LEVEL}: {n_level} trials, standard error {error:.4f}; power: {n_power} trials of a shift of {SHIFT}"
    )
    print(f"| design | {' | '.join(TESTS)} | power of group_test | of regression |\n|---|{'---|' * 5}")
    for name in arguments.designs:
        level = rejections(name, 0.0, n_level, arguments.seed, n_jobs)
        power = rejections(name, SHIFT, n_power, arguments.seed, n_jobs)
        report[name] = {"level": dict(zip(TESTS, level.tolist(), strict=True)), "power": power[:2].tolist()}
        columns = [*(f"{value:.4f}" for value in level), *(f"{value:.2f}" for value in power[:2])]
        print(f"| {name} | {' | '.join(columns)} |", flush=True)
    levels = [report[name]["level"]["group_test"] for name in arguments.designs]
    print(
        "| pilot | shift | sets per group | new sets | one group and effect | each group |\n|---|---|---|---|---|---|"
    )
    for n, difference in product((10, 40), (0.0, SHIFT)):
        run = partial(planned_trial, n=n, difference=difference, seed=arguments.seed)
        power = fraction(run, n_level // 8 + 1, n_jobs)
        report[f"planned {n}, {difference}"] = power.tolist()
        print(
            f"| {N_PILOT} | {difference} | {n} | {' | '.join(f'{value:.3f}' for value in power)} |",
            flush=True,
        )
    report["trials"], report["seed"] = n_level, arguments.seed
    print(
        f"levels of group_test: {min(levels):.4f} to {max(levels):.4f}; at most {LEVEL + 3 * error:.4f} is required"
    )
    write(arguments.output, report)


if __name__ == "__main__":
    main()
