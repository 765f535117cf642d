"""Which candidates of a few rows are tried on more."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

import dkdist as dk
from dkdist.auto.ensemble import KernelMember
from dkdist.auto.representation_rows import RowKernel
from dkdist.auto.scoring import EvaluationSet
from dkdist.auto.selection import sample_positions
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


def kept(trials: list[Trial], again: int = 0) -> dict[str, bool]:
    """Families that are tried again, and whether their views may lead."""
    result = select_survivors(sorted(trials, key=lambda t: t.loss), TRUTH, HALVING_ROUNDS[again])
    return {one.view.entry.family: one.is_leading for one in result}


def test_rounds_double_and_end_with_all_rows() -> None:
    assert [round_sizes(n) for n in (30, 600, 601, 1350, 1351, 2000)] == [
        [30], [600], [400, 601], [400, 1350], [400, 900, 1351], [400, 900, 2000]
    ]  # fmt: skip


def test_who_is_behind_stays_if_it_completes_the_best() -> None:
    best, worse = trial(NOISE[0], "best"), trial(1.4 * NOISE[0], "the same, worse")
    other, simple = trial(1.4 * NOISE[1], "another"), trial(5 * NOISE[0], "simple", baseline=True)
    assert TRUTH.is_significantly_worse(worse.values, best.values)
    assert TRUTH.is_significantly_worse(other.values, best.values)
    assert kept([worse, best, simple, other]) == {"best": True, "another": True, "simple": False}


def test_views_of_one_family_are_few_and_those_first_that_add_most() -> None:
    best = trial(NOISE[0], "one")
    less, more = trial(1.6 * NOISE[1], "two"), trial(1.2 * NOISE[2], "two")
    for again, n in ((0, 3), (1, 2)):
        result = select_survivors([best, more, less], TRUTH, HALVING_ROUNDS[again])
        assert sum(one.is_leading for one in result) == n
        assert [one.trials[0] is t for one, t in zip(result, (best, more), strict=False)] == [True, True]


def test_a_sample_has_no_set_twice():
    sample = sample_positions(np.random.default_rng(0), 100, 90)
    assert len(sample) == 90
    assert (np.diff(sample) > 0).all()
    np.testing.assert_array_equal(sample_positions(np.random.default_rng(0), 5, 90), np.arange(5))


def test_the_final_kernels_have_rows_of_all_sets(monkeypatch: Any) -> None:
    """Also of those that no candidate was compared on."""
    monkeypatch.setattr("dkdist.auto.selection.MAX_SELECTION_SETS", 40)
    labels = np.arange(60) % 2
    sets = [RNG.normal(2 * label, 1, (5, 1)) for label in labels]
    model = dk.SetClassifier(["means"], random_state=0).fit(sets, labels)
    members = [part for part in model.machine_.parts if isinstance(part, KernelMember)]
    assert members
    assert {len(part.rows[0]) for part in members} == {60}
