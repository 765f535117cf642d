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
    words = model.words.cluster_centers_
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
