"""Explanations of automatic models: planted points are found for separated classes, and contributions sum."""

from __future__ import annotations

import importlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline

import dkdist as dk
from dkdist.auto.bagged_trees import fit_bagged_trees
from dkdist.auto.ensemble import Ensemble, KernelMember, TreeMember
from dkdist.auto.explanations import set_function
from dkdist.auto.representation_rows import PairwiseRows, compute_rows, fit_views
from dkdist.auto.representations import FAMILIES, representations
from dkdist.inspection.contributions import influence_at, point_contributions
from dkdist.inspection.set_function import SetFunction
from dkdist.linear.kernel_ridge import duals

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("explanations")


def mean_auc(contributions: list[Any], planted: list[Any]) -> float:
    pairs = zip(contributions, planted, strict=True)
    return float(np.mean([roc_auc_score(truth, c) for c, truth in pairs if truth.any()]))


@pytest.mark.parametrize(
    ("problem", "candidates"),
    [
        ("saturated", ["moments"]),
        ("saturated", ["sliced-wasserstein"]),
        ("weak", ["moments", "marginals"]),
        ("rare", ["marginals"]),
        ("regression", ["moments"]),
    ],
)
def test_planted_points_are_found(benchmark: Any, problem: str, candidates: list[str]) -> None:
    result = benchmark.planted_auc(problem, 7, candidates)
    assert result["AUC"] >= 0.95
    assert result["error"] < 1e-9


# single representations


def single_functions(sets: dk.SampleSets, y: np.ndarray) -> dict[str, SetFunction]:
    """Return kernel ridge models of all representations of the sets."""
    views = fit_views(representations(sets, None, 0, True)[0], sets)
    views, rows = views.standardised(compute_rows(views, sets, range(len(views.specs))))
    widths = tuple(spec.n_features for spec in views.specs)
    result = {}
    for view in views.views:
        X, targets = view.of(rows), y[:, None] * [1.0, -2.0]
        if view.entry.tree_seed is not None:
            trees, _ = fit_bagged_trees(X[0], targets, np.ones(len(y)), None, 0)
            result[view.entry.family] = set_function(
                Ensemble(views.trees, widths, (TreeMember(view.leaf, trees, 0.7),), 2)
            )
            continue
        pairwise_rows = PairwiseRows(X)
        kernel = pairwise_rows.kernels()[-2]  # bandwidth near the distance of rows
        (K,) = pairwise_rows.matrices([kernel])
        coef = duals(K, targets, np.ones(len(K)), 1e-2)
        centre = X[0].mean(axis=0, dtype=np.float64)
        part = KernelMember(view.leaf, kernel, tuple(X), coef, centre, 0.7)
        result[f"{view.entry.family}: {view.entry.name}"] = set_function(
            Ensemble(views.trees, widths, (part,), 2)
        )
    return result


def scaled(arrays: list[Any]) -> dk.SampleSets:
    sets = dk.SampleSets.from_arrays(arrays)
    return dk.SetScaler().fit(sets).transform(sets)


def problems() -> dict[str, tuple[dk.SampleSets, list[Any]]]:
    """Return collections of all kinds, in which every second set has some unusual points."""
    rng, problem_by_kind = np.random.default_rng(3), {}
    for d in (2, 4, 9):
        planted = [(np.arange(40 + i % 3) < 5) & (i % 2 == 1) for i in range(40)]
        arrays = [rng.normal(size=(len(mask), d)) for mask in planted]
        for x, mask in zip(arrays, planted, strict=True):
            x[:, -1] += x[:, 0]  # a dependent pair
            x[mask] = rng.normal(3, 0.3, (mask.sum(), d))
        problem_by_kind[f"{d} dimensions"] = scaled(arrays), planted
    planted = [(np.arange(40) > 25) & (np.arange(40) < 32) & (i % 2 == 1) for i in range(40)]
    walks = [np.cumsum(rng.normal(0, 0.2, (40, 1)), axis=0) + 4 * mask[:, None] for mask in planted]
    problem_by_kind["series"] = scaled(walks), planted
    texts = ["".join(np.where(mask, "T", rng.choice(list("ACG"), 40))) for mask in planted]
    problem_by_kind["strings"] = dk.SampleSets.from_strings(texts), planted
    return problem_by_kind


@pytest.mark.parametrize("kind", problems())
def test_representations_sum_to_predictions_and_find_points(kind: str) -> None:
    sets, planted = problems()[kind]
    y = np.where(np.arange(40) % 2, 1.0, -1.0)
    functions = single_functions(sets[:30], y[:30])
    assert functions
    reference, test = np.array([0.3, -1.0]), sets[30:]
    for name, function in functions.items():
        background = function.training_background or function.background(sets[:30])
        result = point_contributions(function, reference, background, test, 0)
        values = function.values(test)
        np.testing.assert_allclose(
            [c.sum(axis=0) for c in result], values - reference, atol=1e-9, err_msg=name
        )
        accuracy = ((values[:, 0] > 0) == (y[30:] > 0)).mean()
        if accuracy > 0.9 and (kind.endswith("dimensions") or name.startswith("dtw")):
            assert mean_auc([c[:, 0] for c in result], planted[30:]) >= 0.9, name
            np.testing.assert_allclose(  # the second output is -2 times the first, with the same paths
                result[1][:, 1] - result[1][:, 1].mean(),
                -2 * (result[1][:, 0] - result[1][:, 0].mean()),
                atol=1e-7,
            )


def test_problems_cover_all_families() -> None:
    families = {e.family for sets, _ in problems().values() for e in representations(sets, None, 0, True)[0]}
    assert families == set(FAMILIES)


# step functions, streamed members, backgrounds


@dataclass(frozen=True)
class Threshold:
    """A step function of the first column, and its secant as path gradient."""

    leaf: int
    at: float

    def values(self, X: np.ndarray) -> np.ndarray:
        return (X[:, :1] > self.at) * [1.0, -1.0]

    def path_gradient(self, start: np.ndarray, row: np.ndarray) -> np.ndarray:
        rise = self.values(row[None])[0] - self.values(start[None])[0]
        gradient = np.zeros((len(row), 2))
        if rise.any():
            gradient[0] = rise / (row[0] - start[0])
        return gradient


def test_step_functions_are_explained_by_jumps() -> None:
    sets, planted = problems()["2 dimensions"]
    y = np.where(np.arange(40) % 2, 1.0, -1.0)
    function = single_functions(sets[:30], y[:30])["means: means"]
    term, rows = function.terms[0], function.terms[0].training_rows
    (kernel,) = [part for part in function.parts if part.leaf == term.root.leaf]
    parts = (kernel, Threshold(term.root.leaf, float(rows[:, 0].mean())))
    combined = replace(function, terms=(replace(term, parts=parts),), parts=parts)
    steps_only = replace(function, terms=(replace(term, parts=parts[1:]),), parts=parts[1:])
    test, zero, background = sets[30:], np.zeros(2), combined.training_background
    for model in (combined, steps_only):
        result = point_contributions(model, zero, background, test, 0)
        np.testing.assert_allclose([c.sum(axis=0) for c in result], model.values(test), atol=1e-9)
    assert mean_auc([c[:, 0] for c in result], planted[30:]) > 0.9
    at = np.zeros((1, 2), np.float32)
    np.testing.assert_array_equal(influence_at(steps_only, at, test, 0), np.zeros((10, 1, 2)))
    smooth = replace(function, terms=(replace(term, parts=(kernel,)),), parts=(kernel,))
    np.testing.assert_allclose(influence_at(combined, at, test, 0), influence_at(smooth, at, test, 0))


@pytest.mark.parametrize("family", ["symmetric", "marginals"])
def test_landmarks_are_the_background_of_large_collections(
    family: str, benchmark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dkdist.auto._tuning.MAX_EXACT_SETS", 50)
    monkeypatch.setattr("dkdist.auto._tuning.N_LANDMARKS", 64)
    sets, y, planted = benchmark.planted_sets("saturated", 3)
    model = dk.SetClassifier([family], random_state=0).fit(sets[:150], y[:150])
    result = model.explain(sets[150:])
    values = model.decision_function(sets[150:])
    np.testing.assert_allclose([c.sum() for c in result], values, atol=1e-9)
    assert mean_auc(result, planted[150:]) >= 0.95


def test_background_improves_explanations_of_separated_classes(benchmark: Any, tmp_path: Path) -> None:
    sets, y, planted = benchmark.planted_sets("saturated", 4)
    embedding = dk.DivergenceEmbedding(n_basis=8, bandwidth=0.1)
    narrow = dk.RandomFourierFeatures(1000, sigma=0.2, random_state=0)
    model = make_pipeline(embedding, narrow, dk.IncrementalRidgeClassifier(random_state=0)).fit(
        sets[:150], y[:150]
    )
    local = dk.explain(model, sets[150:])
    result = dk.explain(model, sets[150:], background=sets[:32])
    assert mean_auc(result, planted[150:]) > max(0.95, mean_auc(local, planted[150:]) + 0.02)
    store = dk.write_sets(tmp_path / "s.zarr", dk.SampleSets.from_arrays(sets[150:]))
    from_store = dk.explain(model, dk.open_sets(tmp_path / "s.zarr", block_sets=7), background=sets[:32])
    assert len(from_store) == len(store)
    for a, b in zip(result, from_store, strict=True):
        np.testing.assert_array_equal(a, b)


def test_linear_pipelines_need_no_background(benchmark: Any) -> None:
    sets, y, _ = benchmark.planted_sets("saturated", 5)
    means = make_pipeline(dk.MeanEmbedding(50, sigma=1.0, random_state=0), dk.IncrementalRidge()).fit(
        sets[:50], y[:50]
    )
    for a, b in zip(
        dk.explain(means, sets[:3]), dk.explain(means, sets[:3], background=sets[10:20]), strict=True
    ):
        np.testing.assert_array_equal(a, b)
