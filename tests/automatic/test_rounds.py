"""Selection of candidates for the next round of successive halving."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

import dkdist as dk
from dkdist.auto.ensemble import KernelMember
from dkdist.auto.folds import sample_positions
from dkdist.auto.representation_rows import RowKernel
from dkdist.auto.scoring import EvaluationSet
from dkdist.auto.successive_halving import HALVING_ROUNDS, Trial, round_sizes, select_survivors

RNG = np.random.default_rng(0)
N = 400
Y = RNG.normal(size=(N, 1))
NOISE = RNG.normal(size=(3, N, 1))
TRUTH = EvaluationSet(Y, np.ones(N), [[np.arange(N)]], np.arange(N))


def trial(noise: Any, family: str, baseline: bool = False) -> Trial:
    values = (Y + noise)[None]
    view: Any = SimpleNamespace(entry=SimpleNamespace(family=family, baseline=baseline), leaf=0)
    return Trial(view, RowKernel(1.0), 1.0, values, np.empty(0), TRUTH.loss(values), 0.0)


def surviving_families(trials: list[Trial], round_index: int = 0) -> dict[str, bool]:
    """Return the families that survive, and whether their views may lead."""
    result = select_survivors(sorted(trials, key=lambda t: t.loss), TRUTH, HALVING_ROUNDS[round_index])
    return {survivor.view.entry.family: survivor.is_leading for survivor in result}


def test_round_sizes_double_and_end_with_all_rows() -> None:
    assert [round_sizes(n) for n in (30, 600, 601, 1350, 1351, 2000)] == [
        [30], [600], [400, 601], [400, 1350], [400, 900, 1351], [400, 900, 2000]
    ]  # fmt: skip


def test_worse_candidate_survives_if_it_complements_the_best() -> None:
    best, worse = trial(NOISE[0], "best"), trial(1.4 * NOISE[0], "the same, worse")
    other, simple = trial(1.4 * NOISE[1], "another"), trial(5 * NOISE[0], "simple", baseline=True)
    assert TRUTH.is_significantly_worse(worse.values, best.values)
    assert TRUTH.is_significantly_worse(other.values, best.values)
    assert surviving_families([worse, best, simple, other]) == {
        "best": True,
        "another": True,
        "simple": False,
    }


def test_number_of_leading_views_per_family_is_limited() -> None:
    best = trial(NOISE[0], "one")
    weaker, stronger = trial(1.6 * NOISE[1], "two"), trial(1.2 * NOISE[2], "two")
    for round_index, n in ((0, 3), (1, 2)):
        result = select_survivors([best, stronger, weaker], TRUTH, HALVING_ROUNDS[round_index])
        assert sum(survivor.is_leading for survivor in result) == n
        assert [survivor.trials[0] is t for survivor, t in zip(result, (best, stronger), strict=False)] == [
            True,
            True,
        ]


def test_sample_positions_are_distinct():
    sample = sample_positions(np.random.default_rng(0), 100, 90)
    assert len(sample) == 90
    assert (np.diff(sample) > 0).all()
    np.testing.assert_array_equal(sample_positions(np.random.default_rng(0), 5, 90), np.arange(5))


def test_final_kernels_have_rows_of_all_sets(monkeypatch: Any) -> None:
    """Rows include sets that were not used in the selection."""
    monkeypatch.setattr("dkdist.auto._tuning.MAX_SELECTION_SETS", 40)
    labels = np.arange(60) % 2
    sets = [RNG.normal(2 * label, 1, (5, 1)) for label in labels]
    model = dk.SetClassifier(["means"], random_state=0).fit(sets, labels)
    members = [part for part in model.machine_.parts if isinstance(part, KernelMember)]
    assert members
    assert {len(part.rows[0]) for part in members} == {60}
