"""Events on the scheduler match the fitted estimator and the store."""

from __future__ import annotations

import logging
from dataclasses import asdict

import numpy as np
import pytest

import dkdist as dk
from dashboard.models import N_BLOCKS, local_client, ridge, sgd
from dkdist._runtime.dashboard import (
    EVENT_TOPIC,
    MAX_CURVE_POINTS,
    MAX_CURVES,
    MAX_SHOWN_RUNS,
    MAX_SPANS,
    EventSender,
    Runs,
)
from dkdist._runtime.progress import Progress, RunEvent

STAGES = ["validate_sets", "sampled_rows", "fit IncrementalRidgeClassifier", "predict"]


@pytest.fixture
def client():
    with local_client(1, 2) as client:
        yield client


@pytest.fixture
def log():
    """Return the INFO messages of the library, also while a cluster silences the handlers of pytest."""
    messages, handler, logger = [], logging.Handler(), logging.getLogger("dkdist")
    handler.emit = lambda record: messages.append(record.getMessage())
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield messages
    logger.removeHandler(handler)
    logger.setLevel(logging.NOTSET)


def events(client, stage):
    """Return the events of a stage, without the time that Dask adds."""
    return [event for _, event in client.get_events(EVENT_TOPIC) if event["stage"] == stage]


@pytest.fixture
def every_event(monkeypatch):
    """Send all events, each before the run goes on."""
    monkeypatch.setattr(EventSender, "interval", 0.0)
    monkeypatch.setattr(
        EventSender, "update", lambda self, event: self.client.sync(self._send, asdict(event))
    )


@pytest.mark.parametrize("n_lanes", [1, 2])
def test_losses_match_the_estimator_after_each_epoch(client, sets, every_event, n_lanes):
    model = sgd(n_epochs=3, n_lanes=n_lanes, validation_fraction=0.2).fit(sets, sets.targets["y"])[-1]
    fit = events(client, "fit IncrementalSGDClassifier")
    ends = {event["epochs"]: event for event in fit if event["epochs"] in (1, 2, 3)}
    assert 3 in ends
    for epoch, event in ends.items():
        assert event["loss"] == pytest.approx(model.loss_curve_[int(epoch) - 1], rel=1e-12)
        assert event["held_out"] == pytest.approx(model.validation_loss_curve_[int(epoch) - 1], rel=1e-12)
    done = [event["done"] for event in fit]
    assert done == sorted(done)
    assert done[-1] == 3 * N_BLOCKS
    assert len({event["run"] for event in fit}) == 1


@pytest.mark.parametrize("learner", ["classifier", "regressor"])
@pytest.mark.parametrize("cluster", [False, True])
def test_last_event_has_the_last_epoch_and_loss(sets, cluster, learner, log):
    y = sets.targets["y"]
    model = sgd(n_epochs=3)
    if learner == "regressor":  # losses are in squared units of the targets
        model.steps[-1] = ("regressor", dk.IncrementalSGDRegressor(n_epochs=3, random_state=0))
        y = 100.0 * y
    if cluster:
        with local_client(1, 2) as client:
            model.fit(sets, y)
            last = events(client, f"fit {type(model[-1]).__name__}")[-1]
            assert (last["state"], last["epochs"], last["done"]) == ("finished", 3, 3 * N_BLOCKS)
            assert last["loss"] == model[-1].loss_curve_[-1]
    else:
        model.fit(sets, y)
    assert log[-1].endswith(f", epoch 3, loss {model[-1].loss_curve_[-1]:.6g}")


def test_log_has_a_line_for_every_stage(sets, log):
    ridge().fit(sets, sets.targets["y"]).predict(sets)
    assert [message.partition(":")[0] for message in log] == STAGES
    assert all(f": {N_BLOCKS} blocks in " in log[i] for i in (0, -1))


def test_events_are_few_and_contain_names_and_numbers_only(client, sets, monkeypatch):
    monkeypatch.setattr(EventSender, "interval", 1000.0)
    sgd(n_epochs=3).fit(sets, sets.targets["y"])
    (event,) = events(client, "fit IncrementalSGDClassifier")
    assert event == {
        "run": event["run"], "stage": "fit IncrementalSGDClassifier", "total": 3 * N_BLOCKS, "done": 3 * N_BLOCKS,
        "unit": "blocks", "seconds": event["seconds"], "state": "finished", "epochs": 3.0, "loss": event["loss"],
        "held_out": event["held_out"], "n_skipped": 0,
    }  # fmt: skip
    assert len(event["run"]) == 36


def test_loss_between_epochs_is_a_mean_over_one_epoch_of_blocks(sets, monkeypatch):
    measured = []
    monkeypatch.setattr(Progress, "measure", lambda self, *losses: measured.append(losses))
    model = sgd(n_epochs=2).fit(sets, sets.targets["y"])[-1]
    curve = {round(epochs * N_BLOCKS): loss for epochs, loss, _ in measured}
    assert sorted(curve) == list(range(1, 2 * N_BLOCKS + 1))
    assert curve[N_BLOCKS] == model.loss_curve_[0]
    step = abs(curve[N_BLOCKS + 1] - curve[N_BLOCKS])  # a new epoch counts for one block
    assert 0 < step < 2 / N_BLOCKS


def test_failed_run_ends_with_its_state(client, sets):
    with pytest.raises(ValueError, match="outside the given domain"):
        dk.DivergenceEmbedding(n_basis=6, domain=(0.4, 0.5)).fit(sets)
    assert events(client, STAGES[0])[-1]["state"] == "failed"


def test_all_blocks_of_each_stage_are_counted(client, sets):
    sgd(n_epochs=10).fit(sets, sets.targets["y"]).predict(sets)
    ridge(selection="leave-one-out").fit(sets, sets.targets["y"])
    runs = [event for _, event in client.get_events(EVENT_TOPIC) if event["state"] != "running"]
    assert all((event["done"], event["state"]) == (event["total"], "finished") for event in runs)
    totals = {event["stage"]: event["total"] for event in runs}
    assert totals == {
        STAGES[0]: N_BLOCKS,
        STAGES[1]: totals[STAGES[1]],
        "sgd_step_size": 1,
        "fit IncrementalSGDClassifier": 10 * N_BLOCKS,
        "predict": N_BLOCKS,
        "fit IncrementalRidgeClassifier": 2 * N_BLOCKS,
    }


def message(run="1", **fields):
    return asdict(RunEvent(run, "fit", 100, loss=0.5, held_out=0.5, epochs=1.0)) | fields


@pytest.mark.parametrize("n", [3, MAX_CURVE_POINTS, 12_345])
def test_long_curve_keeps_evenly_spaced_points_and_the_last(n):
    runs = Runs()
    for i in range(n):
        runs.add(message(done=i, epochs=i / 10, loss=i / 7))
    record = runs["1"]
    done = [event.done for event in record.losses]
    assert min(n, MAX_CURVE_POINTS / 2) <= len(done) <= MAX_CURVE_POINTS
    assert done[0] == 0
    assert len(set(np.diff(done))) == 1
    assert all((event.loss, event.epochs) == (event.done / 7, event.done / 10) for event in record.losses)
    assert record.latest.done == n - 1


def test_number_of_stored_runs_is_limited():
    runs = Runs()
    for i in range(MAX_CURVES + 3):
        runs.add(message(str(i)))
    assert list(runs) == [str(i) for i in range(3, MAX_CURVES + 3)]
    for i in range(100, 100 + MAX_SHOWN_RUNS):
        runs.add(message(str(i), loss=None))
    assert list(runs) == [str(i) for i in range(100, 100 + MAX_SHOWN_RUNS)]


def test_events_after_the_last_one_are_ignored():
    runs = Runs()
    for fields in ({"done": 1}, {"done": 9, "state": "finished"}, {"done": 5}):
        runs.add(message(**fields))
    assert (runs["1"].latest.done, runs["1"].latest.state) == (9, "finished")
    assert [event.done for event in runs["1"].losses] == [1, 9]
    runs.add(message("2", state="finished"))  # a run shorter than the interval of events
    assert len(runs["2"].losses) == 1


def test_runs_call_no_functions_on_the_scheduler(client, sets, monkeypatch):
    """The scheduler logs every such call."""
    model, calls = ridge().fit(sets, sets.targets["y"]), []
    monkeypatch.setattr(client, "run_on_scheduler", lambda function: calls.append(function))
    for _ in range(MAX_SPANS):
        model.predict(sets)
    assert len(calls) == 1
