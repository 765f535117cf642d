"""The baselines that experiments bring along are what their formulas say."""

from __future__ import annotations

import importlib
import math
from pathlib import Path

import numpy as np
import pytest

import dkdist as dk

PAPERS = Path(__file__).parents[2] / "benchmarks" / "papers"


def test_d3_is_its_formula(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(PAPERS))
    d3 = importlib.import_module("d3")
    rng = np.random.default_rng(0)
    sets = dk.SampleSets.from_arrays([rng.normal(rng.integers(3), 1, (30, 2)) for _ in range(70)])
    model = d3.D3(3).fit(sets)
    rows = model.transform(sets)
    assert rows.shape == (70, 6)
    words = model.words
    nearest = ((sets.points[:, None] - words) ** 2).sum(2).argmin(1)
    for i in (0, 69):
        x, word = sets.points[30 * i : 30 * i + 30], nearest[30 * i : 30 * i + 30]
        for k in range(3):
            own, everything = x[word == k].astype(float), sets.points[nearest == k].astype(float)
            for j in range(2):
                expected = 0.0
                if len(own) >= 2:
                    spread = own[:, j].std() + everything[:, j].std()
                    expected = math.erf(
                        (own[:, j].mean() - everything[:, j].mean()) / (math.sqrt(2) * spread)
                    )
                assert rows[i, 2 * k + j] == pytest.approx(expected, abs=1e-5)


def test_wide_rows_are_streamed_into_the_same_features(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(PAPERS))
    side_by_side = importlib.import_module("side_by_side")
    rng = np.random.default_rng(0)
    parts = [dk.SampleSets.from_arrays(rng.random((300, 20, 2))) for _ in range(2)]
    embedding = dk.DivergenceEmbedding("hellinger", 8, domain="unit").fit(parts[0])
    rows = np.hstack([embedding.transform(part) for part in parts])
    assert side_by_side.width(embedding, parts) == rows.shape[1]
    sigmas, (Z, _) = side_by_side.stream_features(parts, embedding, 50, [0.5, 1.0], 3)
    assert sigmas == [0.5, 1.0]
    expected = dk.RandomFourierFeatures(50, sigma=0.5, random_state=3).fit_transform(rows)
    np.testing.assert_array_equal(Z, expected)
    y = np.array(["left", "right"])[np.arange(300) % 2]
    parts = [dk.SampleSets.from_arrays([x ** (1 + i % 2) for i, x in enumerate(part)]) for part in parts]
    assert side_by_side.select_streamed(parts, embedding, y, (0.5, 1.0), 50)[0][0] > 0.9  # of two classes
