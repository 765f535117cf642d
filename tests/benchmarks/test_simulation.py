"""Simulated workers keep to what must hold of real ones, whatever things cost."""

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


def test_a_graph_takes_what_its_longest_way_takes(simulate: Any) -> None:
    Node, costs = simulate.Node, simulate.Costs(0.25, 0.5, 0.125, 1.0, 100.0)
    chain = [Node(by_client=True), Node(2.0, after=(0,), n_bytes=50), Node(by_client=True, takes=(1,))]
    first = 1.0 + 0.25 + 1.0  # to the client, its work, and to the scheduler
    second = first + 0.5 + 1.0 + 2.0 + 0.125 + 1.0  # and back to the scheduler
    last = second + 1.0 + 0.25 + (1.0 + 50 / 100) + 1.0
    assert simulate.seconds_of(chain, costs, 3) == pytest.approx(last)
    two = [Node(3.0), Node(1.0), Node(1.0, takes=(0, 1), same_worker_as=0)]
    free = simulate.Costs(**FREE)
    assert simulate.seconds_of(two, free, 1) == pytest.approx(5.0)
    assert simulate.seconds_of(two, free, 2) == pytest.approx(4.0)
    one_processor = simulate.seconds_of(two, free, 2, processors=1)
    assert one_processor == pytest.approx(5.0)  # two at half the speed, then one
    apart = simulate.Costs(0.0, 1.0, 0.0, 0.0, 1e12)  # the scheduler needs a processor, too
    alone, shared = (simulate.seconds_of([Node(3.0), Node(1.0)], apart, 2, n) for n in (3, 1))
    assert (alone, shared) == (pytest.approx(4.0), pytest.approx(6.0))


def test_what_costs_nothing_but_work_is_shared_by_all(simulate: Any) -> None:
    free = simulate.Costs(**FREE)
    for mode, graph in simulate.MODES.items():
        _, share = simulate.rate(graph, WORK, free, 1)
        assert share == pytest.approx(1, abs=0.1), mode  # but for merging, and the ends of a run
    for mode in ("map", "SGD, a lane a worker"):
        assert simulate.rate(simulate.MODES[mode], WORK, free, 64)[1] > 0.9
    stopped = simulate.rate(simulate.one_lane, WORK, free, 256)[0]
    most = simulate.BLOCK / (WORK["lane"] - WORK["read"])  # steps come one after another
    assert 0.8 * most < stopped <= most


def test_costs_only_take_away(simulate: Any) -> None:
    free, dear = simulate.Costs(**FREE), simulate.Costs(2e-3, 2e-3, 2e-3, 5e-4, 1e9)
    for graph in simulate.MODES.values():
        for n in (1, 4, 16):
            (best, _), (result, share) = (simulate.rate(graph, WORK, costs, n) for costs in (free, dear))
            assert result < best
            assert share <= 1.001
    nodes, n_blocks = simulate.predictions(WORK, 256)
    a_task = (
        simulate.BLOCK * n_blocks / (len(nodes) // 2)
    )  # the client hands out each, and the scheduler sends it
    result = simulate.rate(simulate.predictions, WORK, dear, 256)[0]
    assert 0.5 * a_task / (dear.client + dear.scheduler) < result <= a_task / dear.scheduler
