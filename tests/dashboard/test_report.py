"""Dask's performance report contains the stages, from Python and from the command line."""

from __future__ import annotations

import pytest
from distributed import Client, LocalCluster, performance_report

from dashboard.models import sgd
from dkdist.cli import main

pytestmark = pytest.mark.network


@pytest.fixture(scope="module")
def cluster():
    pytest.importorskip("bokeh", reason="bokeh is missing: pip install 'dkdist[dashboard]'")
    options = {"protocol": "tcp://", "host": "127.0.0.1", "dashboard_address": "127.0.0.1:0"}
    with LocalCluster(n_workers=1, threads_per_worker=1, processes=False, **options) as cluster:
        yield cluster


def test_performance_report_contains_the_stages(cluster, sets, tmp_path):
    with Client(cluster), performance_report(tmp_path / "report.html"):
        sgd(n_epochs=2).fit(sets, sets.targets["y"])
    text = (tmp_path / "report.html").read_text()
    assert all(f'"{stage}"' in text for stage in ("validate_sets", "sampled_rows", "sgd_block", "sgd_step"))


def command(store, folder, *options):
    model = ["--target", "y", "--model", str(folder / "model.npz"), "--features", "60", "--domain=-1,2"]
    return ["fit", str(store), *model, *options]


def test_fit_writes_a_report(cluster, store, tmp_path, capsys):
    file = tmp_path / "report.html"
    options = ["--scheduler", cluster.scheduler_address, "--performance-report", str(file)]
    assert main(command(store, tmp_path, *options)) == 0
    text = file.read_text()
    assert '"ridge_gram_part"' in text
    assert store.name not in text  # stages and numbers, but no data paths
    assert "trained on" in capsys.readouterr().out


def test_report_without_cluster_fails(store, tmp_path, capsys):
    assert main(command(store, tmp_path, "--performance-report", str(tmp_path / "report.html"))) == 2
    assert (
        "--performance-report requires a cluster. Pass --scheduler or --scheduler-file"
        in capsys.readouterr().err
    )
    assert not list(tmp_path.iterdir())


def test_unwritable_report_fails_before_the_fit(cluster, store, tmp_path, capsys):
    options = [
        "--scheduler",
        cluster.scheduler_address,
        "--performance-report",
        str(tmp_path / "no" / "r.html"),
    ]
    assert main(command(store, tmp_path, *options)) == 2
    assert "cannot be written. Pass a file in an existing directory" in capsys.readouterr().err
    assert not (tmp_path / "model.npz").exists()
