"""Statistics of benchmarks/honesty.py, its simple baselines, and its quick run."""

from __future__ import annotations

import importlib
import itertools
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from scipy.stats import binomtest
from scripts import run_script

import dkdist as dk

FOLDER = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Import a module of the benchmarks."""
    monkeypatch.syspath_prepend(str(FOLDER))
    monkeypatch.syspath_prepend(str(FOLDER / "peers"))
    return importlib.import_module


@pytest.fixture
def baselines(load: Any, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    module = load("simple_baselines")
    for name, value in {
        "N_TREES": 10,
        "N_INNER_FOLDS": 2,
        "N_FOURIER_FEATURES": 32,
        "N_DIRECTIONS": 5,
    }.items():
        monkeypatch.setattr(module, name, value)
    return module


def make_spread_sets(n: int, seed: int) -> tuple[Any, np.ndarray]:
    """Return sets of two classes with equal means and standard deviations of 1 and 3."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 2
    return dk.SampleSets.from_arrays([rng.normal(0, 1 + 2 * c, (rng.integers(15, 30), 2)) for c in y]), y


def test_inner_cross_validation_selects_an_informative_baseline(baselines: ModuleType) -> None:
    sets, y = make_spread_sets(40, 0)
    test, y_test = make_spread_sets(40, 1)
    chosen = baselines.select_baseline(sets, y, test)
    assert len(chosen.predictions) == 9  # all except n-grams
    accuracy = {name: (p == y_test).mean() for name, p in chosen.predictions.items()}
    assert chosen.best != "logistic regression on means"
    assert accuracy[chosen.best] > 0.9
    assert accuracy["logistic regression on means"] < 0.5 + 4 * np.sqrt(0.25 / 40)


def test_regression_baselines_predict_the_spread(baselines: ModuleType) -> None:
    rng = np.random.default_rng(0)
    y = rng.uniform(1, 3, 80)
    sets = dk.SampleSets.from_arrays([rng.normal(0, v, (60, 2)) for v in y])
    chosen = baselines.select_baseline(sets[:50], y[:50], sets[50:])
    values = baselines.values_of(y[50:], chosen.predictions[chosen.best], False, y[50:].var())
    assert values.mean() > 0.7  # standard deviations of 120 values have an error of 6 %; y has 0.58
    assert baselines.values_of(y[50:], y[50:].mean(), False, y[50:].var()).mean() == pytest.approx(0)


def test_baselines_do_not_depend_on_test_sets(baselines: ModuleType) -> None:
    """Scalers, widths and directions come from training sets, so a far test set changes no other prediction."""
    sets, y = make_spread_sets(24, 0)
    test, _ = make_spread_sets(12, 1)
    far = dk.SampleSets.from_arrays([*test, np.full((5, 2), 1e4)])
    alone, together = (baselines.select_baseline(sets, y, x) for x in (test, far))
    assert alone.inner == together.inner
    for name, predicted in alone.predictions.items():
        np.testing.assert_array_equal(predicted, together.predictions[name][:-1])


def test_n_gram_baseline_predicts_endings(baselines: ModuleType) -> None:
    rng = np.random.default_rng(0)
    y = np.array(["F", "M"])[np.arange(120) % 2]
    texts = ["".join(rng.choice(list("bcdrst"), 6)) + ("a" if c == "F" else "o") for c in y]
    sets = dk.SampleSets.from_strings(texts)
    chosen = baselines.select_baseline(sets[:80], y[:80], sets[80:])
    assert chosen.best == "logistic regression on n-grams"
    assert (chosen.predictions[chosen.best] == y[80:]).all()


def test_folds_keep_groups_together(baselines: ModuleType) -> None:
    groups = np.repeat(np.arange(9), 4)
    for train, test in baselines.folds(np.arange(36.0), groups, False, 3, 0):
        assert not set(groups[train]) & set(groups[test])
    (_, counts), *_ = [np.unique(np.repeat([0, 1], [3, 33])[t], return_counts=True) for _, t in
                       baselines.folds(np.repeat([0, 1], [3, 33]), None, True, 5, 0)]  # fmt: skip
    assert counts.tolist() == [1, 11]  # three folds, since the smallest class has three sets


def test_quantiles_of_sorted_columns_match_numpy(baselines: ModuleType) -> None:
    rng = np.random.default_rng(0)
    for n in (1, 2, 7):
        x = rng.normal(size=(n, 3))
        expected = np.quantile(x, baselines.QUANTILES, axis=0)
        np.testing.assert_allclose(baselines.sorted_quantiles(x, baselines.QUANTILES), expected, atol=1e-14)


def test_errors_of_repeated_folds_are_corrected(load: Any) -> None:
    module = load("honesty_collections")
    rng = np.random.default_rng(0)
    values = rng.normal(size=(25, 8))
    mean, error, df = module.mean_and_error(values.tolist(), 32, True)
    spread = values.mean(axis=1).std(ddof=1)
    assert (mean, df) == (pytest.approx(values.mean()), 24)
    assert error == pytest.approx(spread * np.sqrt(1 / 25 + 8 / 32))  # Nadeau and Bengio 2003, equation 9
    mean, error, df = module.mean_and_error(values[:5].tolist(), 32, False)
    assert (mean, df) == (pytest.approx(values[:5].mean()), 39)
    assert error == pytest.approx(values[:5].std(ddof=1) / np.sqrt(40))


def test_holm_adjustment(load: Any) -> None:
    adjusted = load("honesty_collections").holm([0.04, 0.01, 0.03, 0.9])
    np.testing.assert_allclose(adjusted, [0.09, 0.04, 0.09, 0.9])


def test_intervals_of_proportions_match_scipy(load: Any) -> None:
    interval = load("honesty_verdicts").clopper_pearson
    for k, n in ((0, 10), (3, 10), (10, 10)):
        np.testing.assert_allclose(interval(k, n), binomtest(k, n).proportion_ci(), atol=1e-12)


def test_calibration_error_matches_a_sum_over_bins(load: Any) -> None:
    module = load("honesty_simulations")
    rng = np.random.default_rng(0)
    confidence, correct = (
        np.append(rng.random(200), [0.0, 1.0]),
        np.append(rng.random(200) < 0.5, [True, False]),
    )
    edges = np.linspace(0, 1, module.N_BINS + 1)
    expected = 0.0
    for low, high in itertools.pairwise(edges):
        rows = (confidence >= low) & ((confidence < high) | ((high == 1) & (confidence == 1)))
        if rows.any():
            expected += rows.mean() * abs(correct[rows].mean() - confidence[rows].mean())
    assert module.calibration_error(confidence, correct) == pytest.approx(expected)


def test_recorded_runs_are_not_repeated(load: Any, tmp_path: Path) -> None:
    module, calls = load("honesty_runs"), []

    def square(x: int) -> dict[str, int]:
        calls.append(x)
        return {"square": x * x}

    runner = module.Runner(1, tmp_path / "runs.jsonl")
    runner.run(square, [{"x": 2}, {"x": 3}])
    runs = runner.run(square, [{"x": 3}, {"x": 4}, {"x": 2}])
    assert calls == [2, 3, 4]
    assert [run["square"] for run in runs] == [9, 16, 4]
    lines = (tmp_path / "runs.jsonl").read_text().splitlines()
    assert [json.loads(line)["arguments"]["x"] for line in lines] == [2, 3, 4]


def test_verdicts_fail_for_exceeded_bounds_and_nan(load: Any, capsys: Any) -> None:
    verdicts = load("honesty_verdicts").Verdicts()
    assert not verdicts.hold  # no checks yet
    verdicts.at_most("a", 1, 1)
    verdicts.within("b", 0.5, 0.4, 0.6, 0.01)
    assert verdicts.hold
    verdicts.at_most("c", float("nan"), 1)
    assert not verdicts.hold
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == ["ok", "ok", "MISS"]


class OneRunPerKind:
    """Runs a simulation with eight groups once per kind of target, and returns its result for all arguments."""

    def __init__(self) -> None:
        self.runs: dict[str, Any] = {}

    def run(self, function: Any, arguments: Any) -> list[Any]:
        kind = arguments[0]["kind"]
        if kind not in self.runs:
            self.runs[kind] = {"seconds": 0.0, **function(**{**arguments[0], "n_groups": 8})}
        return [self.runs[kind]] * len(arguments)


def test_few_groups_are_checked_for_all_kinds(load: Any) -> None:
    verdicts = load("honesty_simulations").report_groups(1, 0, OneRunPerKind())
    names = [row["name"] for row in verdicts.rows]
    assert sum("30 groups" in name and name.endswith("coverage") for name in names) == 4
    assert sum("6 groups" in name and name.endswith("unbounded or labelled") for name in names) == 4


def test_quick_run_prints_all_bounds(tmp_path: Path) -> None:
    output = tmp_path / "honesty.json"
    arguments = "--quick", "--fits", "1", "--sizes", "20", "--lines", "1", "--output", str(output)
    code, text = run_script(FOLDER / "honesty.py", *arguments, log_file=tmp_path / "honesty.txt")
    assert code == 0, text
    lines = json.loads(output.read_text())["lines"]
    assert len(lines["1"]["checks"]) >= 9
    for line in lines.values():
        assert line["ok"] == all(check["ok"] for check in line["checks"])
        assert all(
            f"{'ok  ' if check['ok'] else 'MISS'} {check['name']}: " in text for check in line["checks"]
        )
