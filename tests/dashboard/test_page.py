"""The page /dkdist: automatic and explicit registration, and escaping."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import time
import urllib.error
import urllib.request
from dataclasses import asdict

import pytest
from distributed import Client, LocalCluster

from dashboard.models import N_BLOCKS, local_client, ridge, sgd
from dkdist._runtime.dashboard import EVENT_TOPIC, CurvesPage, Runs, runs_doc
from dkdist._runtime.progress import RunEvent

bokeh = pytest.importorskip("bokeh", reason="bokeh is missing: pip install 'dkdist[dashboard]'")
pytestmark = pytest.mark.network

EVENT = asdict(RunEvent("1", "fit", 14, done=7, epochs=0.5, loss=0.25, held_out=float("nan")))


def get(address):
    """Return (status, text) of a page."""
    try:
        with urllib.request.urlopen(address, timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, ""


def test_local_cluster_gets_the_page_with_the_first_run(sets):
    with (
        LocalCluster(n_workers=1, processes=False, dashboard_address="127.0.0.1:0") as cluster,
        Client(cluster) as client,
    ):
        base = f"http://127.0.0.1:{cluster.scheduler.http_server.port}"
        assert get(f"{base}/dkdist")[0] == 404
        sgd(n_epochs=2).fit(sets, sets.targets["y"])
        assert get(f"{base}/dkdist")[0] == 200
        assert 'href="dkdist"' in get(f"{base}/status")[1]
        runs = cluster.scheduler.plugins[CurvesPage.name].runs
        ridge().fit(sets, sets.targets["y"])
        assert cluster.scheduler.plugins[CurvesPage.name].runs is runs  # one page for all runs
        *_, last = runs.values()
        assert last.latest.stage == "fit IncrementalRidgeClassifier"
        assert (last.latest.state, last.latest.done) == ("finished", 2 * N_BLOCKS)
        assert client.get_events(EVENT_TOPIC)


@contextlib.contextmanager
def scheduler(folder, *options):
    """Start a scheduler in another process, and yield (client, address of its dashboard)."""
    file = folder / "scheduler.json"
    command = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", "0"]
    command += ["--dashboard-address", "127.0.0.1:0", "--scheduler-file", str(file), *options]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        end = time.monotonic() + 30
        while not file.exists() and process.poll() is None and time.monotonic() < end:
            time.sleep(0.05)
        with Client(scheduler_file=str(file)) as client:
            port = json.loads(file.read_text())["services"]["dashboard"]
            yield client, f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(10)


def test_remote_scheduler_has_the_page_after_registration(tmp_path):
    with scheduler(tmp_path) as (client, base):
        client.log_event(EVENT_TOPIC, EVENT)
        assert get(f"{base}/dkdist")[0] == 404
        for _ in range(2):  # a second registration changes nothing
            client.register_plugin(CurvesPage())
        assert get(f"{base}/dkdist")[0] == 200
        reported = client.run_on_scheduler(
            lambda dask_scheduler: dask_scheduler.plugins["dkdist-curves"].runs["1"].losses
        )
        assert [(event.done, event.loss) for event in reported] == [(7, 0.25)]  # sent before the registration


def test_scheduler_can_be_started_with_the_page(tmp_path):
    options = ("--preload", "dkdist._runtime.dashboard", "--dashboard-prefix", "behind/proxy")
    with scheduler(tmp_path, *options) as (client, base):
        assert get(f"{base}/behind/proxy/dkdist")[0] == 200
        client.log_event(EVENT_TOPIC, EVENT)
        reported = client.run_on_scheduler(
            lambda dask_scheduler: list(dask_scheduler.plugins["dkdist-curves"].runs)
        )
        assert reported == ["1"]


def test_scheduler_without_dashboard_raises():
    with local_client() as client, pytest.raises(RuntimeError, match="no dashboard to add a page to"):
        client.register_plugin(CurvesPage())


def test_received_text_is_escaped():
    from bokeh.document import Document
    from bokeh.models.widgets import Div

    runs, doc = Runs(), Document()
    runs.add({**EVENT, "stage": "<script>alert(1)</script>", "unit": "<b>unit</b>"})
    runs_doc(runs, None, {}, doc)
    (text,) = [div.text for div in doc.select({"type": Div})]
    assert "<script" not in text
    assert "<b>" not in text
    assert "1: &lt;script&gt;alert(1)&lt;/script&gt;" in text


def test_page_shows_the_last_epoch_and_loss_of_a_fit(sets):
    from bokeh.document import Document
    from bokeh.models import GlyphRenderer
    from bokeh.models.widgets import Div

    with (
        LocalCluster(n_workers=1, processes=False, dashboard_address="127.0.0.1:0") as cluster,
        Client(cluster),
    ):
        model = sgd(n_epochs=3).fit(sets, sets.targets["y"])[-1]
        doc = Document()
        runs_doc(cluster.scheduler.plugins[CurvesPage.name].runs, None, {}, doc)
    (table,) = [div.text for div in doc.select({"type": Div})]
    row = next(row for row in table.split("<tr>") if "fit IncrementalSGDClassifier" in row)
    cells = row.removesuffix("</tr>").removeprefix("<td>").removesuffix("</td>").split("</td><td>")
    assert cells[1:5] == ["finished", f"{3 * N_BLOCKS}", f"{3 * N_BLOCKS}", "blocks"]
    assert cells[7:9] == ["3", f"{model.loss_curve_[-1]:,.6g}"]
    curves = [line.data_source.data for line in doc.select({"type": GlyphRenderer})]
    assert (3, model.loss_curve_[-1]) in [(curve["xs"][0][-1], curve["ys"][0][-1]) for curve in curves]
