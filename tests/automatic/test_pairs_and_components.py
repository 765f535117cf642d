"""Pairs of dimensions and principal components as candidates of `SetClassifier`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dkdist as dk

TURN = np.linalg.qr(np.random.default_rng(5).normal(size=(8, 8)))[0]


def correlated(n: int, turned: bool, seed: int) -> tuple[list[Any], np.ndarray]:
    """Return two classes that differ only in the correlation of one pair of columns, or of principal components."""
    rng, y = np.random.default_rng(seed), np.arange(n) % 2
    sets = rng.standard_normal((n, 40, 8))
    sets[:, :, 6] = 0.7 * (2 * y[:, None] - 1) * sets[:, :, 2] + 0.7 * sets[:, :, 6]
    sets = (sets * [1, 1, 6, 1, 1, 1, 4, 1]) @ TURN if turned else sets
    return list(sets), y


def names(model: dk.SetClassifier) -> list[str]:
    return [entry["name"] for entry in model.leaderboard_]


@pytest.mark.parametrize(("family", "turned"), [("pairs", False), ("components", True)])
def test_pair_candidates_find_correlated_pairs(family: str, turned: bool, tmp_path: Path) -> None:
    sets, y = correlated(80, turned, 0)
    model = dk.SetClassifier([family], random_state=0).fit(sets, y)
    test_sets, test_y = correlated(60, turned, 1)
    assert model.score(test_sets, test_y) > 0.9
    assert any("of pairs" in name and "Hellinger" in name for name in names(model))
    best = model.best_estimator_
    assert ("components" in best.named_steps) == turned
    assert (best.predict(test_sets) == model.predict(test_sets)).mean() > 0.9
    dk.save_model(best, tmp_path / "m.npz")
    np.testing.assert_array_equal(
        dk.load_model(tmp_path / "m.npz").predict(test_sets), best.predict(test_sets)
    )
    store = dk.write_sets(tmp_path / "s.zarr", sets, targets=y)
    refitted = dk.SetClassifier([family], random_state=0).fit(store, y)
    np.testing.assert_array_equal(refitted.decision_function(store), model.decision_function(sets))
    for f, points in zip(model.decision_function(test_sets[:3]), model.explain(test_sets[:3]), strict=True):
        assert points.sum() == pytest.approx(f, abs=1e-6)
    assert model.explain(test_sets[:1], by="dimension", random_state=0).shape == (1, 8)


def test_no_pair_candidates_without_relevant_pairs() -> None:
    rng, y = np.random.default_rng(0), np.arange(60) % 2
    sets = [rng.normal(c, 1, (20, 8)) for c in y]
    entry_names = names(dk.SetClassifier(["pairs", "components"], random_state=0).fit(sets, y))
    assert [name for name in entry_names if "Hellinger" in name] == [
        "Hellinger of principal components, bandwidth 0.12"
    ]
    narrow_sets = [x[:, :4] for x in sets]
    model = dk.SetClassifier(["pairs"], random_state=0).fit(narrow_sets, y)
    assert not any("Hellinger" in name for name in names(model))
    assert "Not tried: pairs (no two dimensions are dependent)." in model.summary()
