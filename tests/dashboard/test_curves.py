"""Losses and counts on the scheduler match the fitted estimator and the store."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from dashboard.models import N_BLOCKS, local_client, ridge, sgd
from dkdist._runtime import progress
from dkdist._runtime.dashboard import MAX_CURVE_POINTS, MAX_CURVES, Curves, CurvesPage
from dkdist._runtime.progress import EVENT_TOPIC, report_loss


@pytest.fixture
def client():
    with local_client(1, 2) as client:
        yield client


def losses(client):
    return [event for _, event in client.get_events(EVENT_TOPIC)]


@pytest.mark.parametrize("n_lanes", [1, 2])
def test_reported_losses_match_the_estimator_after_each_epoch(client, sets, monkeypatch, n_lanes):
    monkeypatch.setattr(progress, "MIN_REPORT_SECONDS", 0.0)
    model = sgd(n_epochs=3, n_lanes=n_lanes, validation_fraction=0.2).fit(sets, sets.targets["y"])[-1]
    ends = {event["epochs"]: event for event in losses(client) if event["epochs"] == int(event["epochs"])}
    assert sorted(ends) == [1, 2, 3]
    assert [ends[e]["loss"] for e in (1, 2, 3)] == pytest.approx(model.loss_curve_, rel=1e-12)
    assert [ends[e]["held_out"] for e in (1, 2, 3)] == pytest.approx(model.validation_loss_curve_, rel=1e-12)
    assert [ends[e]["blocks"] for e in (1, 2, 3)] == [N_BLOCKS, 2 * N_BLOCKS, 3 * N_BLOCKS]
    assert len({event["run"] for event in losses(client)}) == 1


def test_reports_are_few_and_contain_names_and_numbers_only(client, sets, monkeypatch):
    monkeypatch.setattr(progress, "MIN_REPORT_SECONDS", 1000.0)
    monkeypatch.setattr(progress, "_last_report", float("-inf"))
    sgd(n_epochs=3).fit(sets, sets.targets["y"])
    (event,) = losses(client)
    assert event.pop("what") == "fit IncrementalSGDClassifier"
    assert len(event.pop("run")) == 36
    assert event.pop("worker") in client.scheduler_info()["workers"]  # added by Dask
    assert {name: type(value) for name, value in event.items()} == {
        "epochs": float, "blocks": int, "loss": float, "held_out": float,
    }  # fmt: skip


def test_curve_is_a_mean_over_one_epoch_of_blocks(monkeypatch):
    sent = []
    worker = SimpleNamespace(log_event=lambda topic, event: sent.append((event["loss"], event["held_out"])))
    monkeypatch.setattr(progress, "_current_worker", lambda: worker)
    monkeypatch.setattr(progress, "MIN_REPORT_SECONDS", 0.0)
    report_loss(0.5, 100, (0.5, 0.8), ())
    report_loss(1.25, 100, (0.1, 0.4), (0.5, 0.8))
    report_loss(2.0, 100, (0.2, 0.3), (0.5, 0.8))
    assert np.allclose(sent, [(0.5, 0.8), (0.4, 0.7), (0.2, 0.3)])


def test_no_reports_without_a_cluster(sets, monkeypatch):
    monkeypatch.setattr(progress, "_last_report", float("-inf"))
    sgd(n_epochs=1).fit(sets, sets.targets["y"])
    assert progress._last_report == float("-inf")


def test_blocks_are_counted_exactly(client, sets):
    page, y = CurvesPage(), sets.targets["y"]
    page.scheduler = client.cluster.scheduler
    page.scheduler.add_plugin(page)
    sgd(n_epochs=10).fit(sets, y).predict(sets)
    ridge(selection="leave-one-out").fit(sets, y)
    totals = dict(page.curves.blocks)
    assert totals == {
        "survey": 2 * N_BLOCKS,
        "sampled_rows": totals["sampled_rows"],
        "sgd_step_size": 1,
        "sgd_step": 10 * N_BLOCKS,
        "predict": N_BLOCKS,
        "ridge_gram_leaf": N_BLOCKS,
        "ridge_loo_step": N_BLOCKS,
    }


@pytest.mark.parametrize("n", [3, MAX_CURVE_POINTS, 12_345])
def test_long_curve_keeps_evenly_spaced_points_and_the_last(n):
    curves = Curves()
    for i in range(n):
        curves.report(
            {"run": "1", "what": "fit", "epochs": i / 10, "blocks": i, "loss": i / 7, "held_out": np.nan}
        )
    curve = curves.runs["1"]
    blocks = [report[0] for report in curve.reports]
    assert min(n, MAX_CURVE_POINTS / 2) <= len(blocks) <= MAX_CURVE_POINTS
    assert blocks[0] == 0
    assert len(set(np.diff(blocks))) == 1
    assert all((loss, epochs) == (block / 7, block / 10) for block, loss, _, epochs in curve.reports)
    assert curve.latest[0] == n - 1


def test_number_of_stored_runs_is_limited():
    curves = Curves()
    for i in range(MAX_CURVES + 3):
        curves.report(
            {"run": str(i), "what": "fit", "epochs": 1.0, "blocks": 1, "loss": 0.5, "held_out": 0.5}
        )
    assert list(curves.runs) == [str(i) for i in range(3, MAX_CURVES + 3)]
