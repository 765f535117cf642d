"""Candidates of the family "rotation": sets for which they exist, exact invariance, saved models and explanations."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.stats import ortho_group
from sklearn.pipeline import make_pipeline

import dkdist as dk
from dkdist.auto.representations import representations


def rotation_names(sets: Any) -> list[str]:
    sample = dk.SampleSets.from_arrays(sets)
    entries, _ = representations(sample, None, 0, False)
    return [entry.name for entry in entries if entry.family == "rotation"]


def shapes(n: int, seed: int) -> tuple[list[Any], Any]:
    """Return rotated samples of squares (0) and discs (1) with equal variances."""
    rng, y = np.random.default_rng(seed), np.arange(n) % 2
    sets = []
    for label in y:
        angle, radius = rng.uniform(0, 2 * np.pi, 80), np.sqrt(4 / 3 * rng.random(80))
        x = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)
        x = x if label else rng.uniform(-1, 1, (80, 2))
        sets.append(x * [2, 1] @ ortho_group.rvs(2, random_state=rng))
    return sets, y


@pytest.fixture(scope="module")
def model() -> Any:
    sets, y = shapes(80, 0)
    return dk.SetClassifier(["rotation"], cv=3, random_state=0).fit(sets, y)


def test_rotations_are_candidates_in_the_plane_and_in_space() -> None:
    rng = np.random.default_rng(0)
    profiles, axes = "sliced Wasserstein of distance profiles", "Hellinger along principal axes, bandwidth "
    assert rotation_names(rng.normal(size=(6, 20, 2))) == [profiles, axes + "0.06"]
    assert rotation_names(rng.normal(size=(6, 20, 3))) == [profiles, axes + "0.12"]
    assert rotation_names(rng.normal(size=(6, 20, 1))) == []
    assert rotation_names(rng.normal(size=(6, 20, 4))) == []
    assert rotation_names(rng.normal(size=(6, 1, 2))) == []  # single points have no shape
    # profiles of large sets take long
    assert rotation_names(rng.normal(size=(2, 2049, 2))) == [axes + "0.06"]


def test_planes_in_space_do_not_spread_rounding_errors() -> None:
    flat = [x @ [[1, 0, 0], [0, 0.6, 0.8]] for x in np.random.default_rng(0).normal(size=(6, 20, 2))]
    entries, _ = representations(dk.SampleSets.from_arrays(flat), ["rotation"], 0, False)
    domains = [entry.embedding.domain for entry in entries if entry.images]  # type: ignore[union-attr]
    for low, high in domains:
        assert high[2] == pytest.approx(1e-3 * high[0], rel=1e-5)
        assert low == [-h for h in high]


def test_rotated_shapes_are_classified(model: Any) -> None:
    sets, y = shapes(200, 1)
    assert model.score(sets, y) > 0.8
    others = dk.SetClassifier(["means", "moments"], cv=3, random_state=0).fit(*shapes(80, 0))
    assert others.score(sets, y) < 0.65


def test_the_order_of_points_and_quarter_turns_change_nothing(model: Any, tmp_path: Any) -> None:
    sets, _ = shapes(20, 2)
    expected = model.predict_proba(sets)
    rng = np.random.default_rng(0)
    np.testing.assert_allclose(model.predict_proba([rng.permutation(x) for x in sets]), expected, atol=1e-4)
    np.testing.assert_array_equal(model.predict_proba(dk.write_sets(tmp_path / "s.zarr", sets)), expected)
    dk.save_model(model, tmp_path / "m.npz")
    np.testing.assert_array_equal(dk.load_model(tmp_path / "m.npz").predict_proba(sets), expected)


def test_the_best_candidate_is_a_pipeline_of_public_estimators(model: Any, tmp_path: Any) -> None:
    sets, y = shapes(60, 3)
    best = model.best_estimator_
    assert type(best.named_steps["components"]) in (dk.PrincipalAxes, dk.DistanceProfiles)
    assert best.score(sets, y) > 0.7
    dk.save_model(best, tmp_path / "m.npz")
    np.testing.assert_array_equal(dk.load_model(tmp_path / "m.npz").predict(sets), best.predict(sets))
    contributions = dk.explain(best, sets[:2], reference=0)
    for x, c in zip(best.decision_function(sets[:2]), contributions, strict=True):
        assert c.sum() == pytest.approx(x, abs=1e-4)


def test_contributions_of_points_sum_to_decision_values(model: Any) -> None:
    sets, _ = shapes(2, 4)
    sums = [c.sum() for c in model.explain(sets)]
    np.testing.assert_allclose(sums, model.decision_function(sets), atol=1e-6)
    assert model.explain(sets, at=[[0, 0], [1, 1], [3, 0]]).shape == (2, 3)


@pytest.mark.parametrize("weighted", [False, True])
def test_influence_of_places_is_the_derivative_with_respect_to_weight(weighted: bool) -> None:
    """Large sets, for which adding a point of mean weight is a small change."""
    rng = np.random.default_rng(0)
    arrays = [rng.gamma(1, size=(2000, 2)) * [2, 1] for _ in range(6)]
    weights = [rng.uniform(0.5, 1.5, 2000) for _ in range(6)] if weighted else None
    sets = dk.SampleSets.from_arrays(arrays, weights)
    pipeline = make_pipeline(dk.PrincipalAxes(), dk.MomentEmbedding(2), dk.IncrementalRidge(alphas=1e-3))
    pipeline.fit(sets, np.arange(6.0))
    places, step = np.array([[0.0, 0.0], [5.0, 1.0], [1.0, 4.0]]), 1e-3
    result = dk.explain(pipeline, sets[:1], at=places)[0]
    u = np.ones(2000) if weights is None else weights[0]
    expected = []
    for place in places:
        share = np.append((1 - step) * u / u.sum(), step)
        added = dk.SampleSets.from_arrays([np.vstack([arrays[0], place])], [share])
        expected.append(float((pipeline.predict(added) - pipeline.predict(sets[:1]))[0]) / step)
    # Both differ from the derivative by a relative error of about 1e-3 times the leverage |x|^2 / variance < 16.
    np.testing.assert_allclose(result, expected, rtol=0.03, atol=0.03 * np.abs(expected).max())
