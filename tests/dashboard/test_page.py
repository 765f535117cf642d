"""The page /dkdist: automatic and explicit registration, and escaping."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import time
import urllib.error
import urllib.request

import pytest
from distributed import Client, LocalCluster

from dashboard.models import N_BLOCKS, local_client, ridge, sgd
from dkdist._runtime.dashboard import Curves, CurvesPage, curves_doc
from dkdist._runtime.progress import EVENT_TOPIC

bokeh = pytest.importorskip("bokeh", reason="bokeh is missing: pip install 'dkdist[dashboard]'")
pytestmark = pytest.mark.network

REPORT = {"run": "1", "what": "fit", "epochs": 0.5, "blocks": 7, "loss": 0.25, "held_out": float("nan")}


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
        curves = cluster.scheduler.plugins[CurvesPage.name].curves
        ridge().fit(sets, sets.targets["y"])
        assert cluster.scheduler.plugins[CurvesPage.name].curves is curves  # one page for all runs
        assert curves.blocks["ridge_gram_leaf"] == N_BLOCKS
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
        client.log_event(EVENT_TOPIC, REPORT)
        assert get(f"{base}/dkdist")[0] == 404
        for _ in range(2):  # a second registration changes nothing
            client.register_plugin(CurvesPage())
        assert get(f"{base}/dkdist")[0] == 200
        reported = client.run_on_scheduler(
            lambda dask_scheduler: dask_scheduler.plugins["dkdist-curves"].curves.runs["1"].reports
        )
        assert [report[:2] for report in reported] == [(7, 0.25)]  # reported before the page was registered


def test_scheduler_can_be_started_with_the_page(tmp_path):
    options = ("--preload", "dkdist._runtime.dashboard", "--dashboard-prefix", "behind/proxy")
    with scheduler(tmp_path, *options) as (client, base):
        assert get(f"{base}/behind/proxy/dkdist")[0] == 200
        client.log_event(EVENT_TOPIC, REPORT)
        reported = client.run_on_scheduler(
            lambda dask_scheduler: list(dask_scheduler.plugins["dkdist-curves"].curves.runs)
        )
        assert reported == ["1"]


def test_scheduler_without_dashboard_raises():
    with local_client() as client, pytest.raises(RuntimeError, match="no dashboard to add a page to"):
        client.register_plugin(CurvesPage())


def test_received_text_is_escaped():
    from bokeh.document import Document
    from bokeh.models.widgets import Div

    curves, doc = Curves(), Document()
    curves.report({**REPORT, "what": "<script>alert(1)</script>"})
    curves.blocks["<b>stage</b>"] += 1
    curves_doc(curves, None, {}, doc)
    texts = [div.text for div in doc.select({"type": Div})]
    assert len(texts) == 2
    assert not any("<script" in text or "<b>" in text for text in texts)
    assert sum("1: &lt;script&gt;alert(1)&lt;/script&gt;" in text for text in texts) == 1
