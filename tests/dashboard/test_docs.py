"""The examples of docs/dashboard.md run on a local cluster."""

from __future__ import annotations

import logging
import re
from pathlib import Path

import pytest

from dkdist.cli.parser import build_parser

pytestmark = pytest.mark.network

PAGE = Path(__file__).parents[2] / "docs" / "dashboard.md"
LOCAL = 'Client(n_workers=1, threads_per_worker=2, host="127.0.0.1", dashboard_address="127.0.0.1:0")'


def test_python_examples_run(store, tmp_path, monkeypatch):
    pytest.importorskip("bokeh", reason="bokeh is missing: pip install 'dkdist[dashboard]'")
    (tmp_path / "bags.zarr").symlink_to(store)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("dkdist._runtime.map_reduce.MAX_LOCAL_BYTES", 0)  # the store is small
    monkeypatch.setattr(logging.getLogger("dkdist"), "level", logging.NOTSET)  # restored after the example
    first, *others = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert "client = Client()" in first
    names = {}
    try:
        for code in (first.replace("Client()", LOCAL), *others):
            exec(code, names)
        scheduler = names["client"].cluster.scheduler
        assert "dkdist-curves" in scheduler.plugins
        spans = scheduler.extensions["spans"].spans_search_by_name
        assert spans["first try", "dkdist", "predict"]
        assert len(spans["dkdist", "fit IncrementalSGDClassifier"]) == 3
        assert '"sgd_step"' in Path("fit.html").read_text()
    finally:
        names["client"].cluster.close()
        names["client"].close()


def test_documented_options_exist():
    (command,) = re.findall(r"^    dkdist (.*)$", PAGE.read_text(), re.MULTILINE)
    args = build_parser().parse_args(command.split())
    assert (args.scheduler, args.performance_report) == ("tcp://10.0.0.5:8786", "fit.html")
