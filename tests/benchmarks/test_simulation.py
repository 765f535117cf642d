"""Simulated workers satisfy laws that hold for real ones, for all costs."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest

FREE = {"client": 0.0, "scheduler": 0.0, "worker": 0.0, "message": 0.0, "bandwidth": 1e12}
WORK = {"read": 8e-3, "lane": 12e-3, "gram": 9e-3, "predicted": 8e-3}


@pytest.fixture
def simulate(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
    return importlib.import_module("simulate")


def test_time_of_a_graph_is_its_longest_path(simulate: Any) -> None:
    Node, costs = simulate.Node, simulate.Costs(0.25, 0.5, 0.125, 1.0, 100.0)
    chain = [Node(by_client=True), Node(2.0, after=(0,), n_bytes=50), Node(by_client=True, takes=(1,))]
    first = 1.0 + 0.25 + 1.0  # message to the client, its work, message to the scheduler
    second = first + 0.5 + 1.0 + 2.0 + 0.125 + 1.0  # to the worker and back to the scheduler
    last = second + 1.0 + 0.25 + (1.0 + 50 / 100) + 1.0
    assert simulate.seconds_of(chain, costs, 3) == pytest.approx(last)
    two = [Node(3.0), Node(1.0), Node(1.0, takes=(0, 1), same_worker_as=0)]
    free = simulate.Costs(**FREE)
    assert simulate.seconds_of(two, free, 1) == pytest.approx(5.0)
    assert simulate.seconds_of(two, free, 2) == pytest.approx(4.0)
    one_processor = simulate.seconds_of(two, free, 2, processors=1)
    assert one_processor == pytest.approx(5.0)  # two tasks at half the speed, then one
    scheduler_costs = simulate.Costs(0.0, 1.0, 0.0, 0.0, 1e12)  # the scheduler also needs a processor
    two_processors, shared_processor = (
        simulate.seconds_of([Node(3.0), Node(1.0)], scheduler_costs, 2, n) for n in (3, 1)
    )
    assert (two_processors, shared_processor) == (pytest.approx(4.0), pytest.approx(6.0))


def test_work_without_overhead_scales_with_workers(simulate: Any) -> None:
    free = simulate.Costs(**FREE)
    for mode, graph in simulate.MODES.items():
        _, share = simulate.rate(graph, WORK, free, 1)
        assert share == pytest.approx(1, abs=0.1), mode  # except for merging and the ends of a run
    for mode in ("map", "SGD, a lane a worker"):
        assert simulate.rate(simulate.MODES[mode], WORK, free, 64)[1] > 0.9
    one_lane_rate = simulate.rate(simulate.one_lane, WORK, free, 256)[0]
    max_rate = simulate.BLOCK / (WORK["lane"] - WORK["read"])  # steps are sequential
    assert 0.8 * max_rate < one_lane_rate <= max_rate


def test_costs_only_slow_down(simulate: Any) -> None:
    free, costly = simulate.Costs(**FREE), simulate.Costs(2e-3, 2e-3, 2e-3, 5e-4, 1e9)
    for graph in simulate.MODES.values():
        for n in (1, 4, 16):
            (best, _), (result, share) = (simulate.rate(graph, WORK, costs, n) for costs in (free, costly))
            assert result < best
            assert share <= 1.001
    nodes, n_blocks = simulate.predictions(WORK, 256)
    # each task passes the client and the scheduler
    sets_per_task = simulate.BLOCK * n_blocks / (len(nodes) // 2)
    result = simulate.rate(simulate.predictions, WORK, costly, 256)[0]
    assert (
        0.5 * sets_per_task / (costly.client + costly.scheduler) < result <= sets_per_task / costly.scheduler
    )
