"""``dkdist plan``: prints the plan of a fit without reading any points."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys

import dask
import numpy as np
import pytest

import dkdist as dk
from dkdist._runtime.run import plan_of
from dkdist.cli import help as json_keys
from dkdist.cli import main
from dkdist.embeddings.density_choices import max_nodes_per_dim


@pytest.fixture
def store_without_points(bags, tmp_path):
    """Return the path of a copy of the store without its points."""
    shutil.copytree(bags, tmp_path / "blind.zarr")
    shutil.rmtree(tmp_path / "blind.zarr" / "points" / "c")
    return str(tmp_path / "blind.zarr")


@pytest.fixture(autouse=True)
def fixed_memory_limit():
    """Set a memory limit that does not depend on the machine."""
    with dask.config.set({"dkdist.memory-limit": "2GiB"}):
        yield


def plan_json(command, capsys):
    assert main(["plan", *command, "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert list(result) == list(json_keys.PLAN)
    return result


@pytest.mark.parametrize(
    "options",
    [
        ["--target", "wide"],
        ["--target", "wide", "--features", "0", "--train-fraction", "0.5"],
        ["--target", "spread", "--learner", "sgd", "--epochs", "2"],
        ["--target", "wide", "--learner", "sgd", "--divergence", "jensen-shannon", "--structure", "marginal"],
    ],
)
def test_plan_prints_the_plan_of_the_fit(options, bags, store_without_points, small, tmp_path, capsys):
    requested = [*small, *options]
    assert main(["plan", store_without_points, *requested]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    line = next(line for line in captured.out.splitlines() if line.startswith("plan"))
    assert main(["fit", bags, *requested, "--model", str(tmp_path / "m.npz"), "--progress"]) == 0
    printed = [line.partition("peak memory")[0] for line in capsys.readouterr().err.splitlines()]
    # peak memory depends on the process
    assert line.removeprefix("plan").strip().partition("peak memory")[0] in printed


def test_number_of_columns_is_exact_or_an_upper_bound(bags, store_without_points, tmp_path, capsys):
    sets = dk.open_sets(bags)
    chosen = dk.DivergenceEmbedding().fit(sets).spec_.n_features
    result = plan_json([store_without_points], capsys)
    assert not result["columns_exact"]
    assert chosen <= result["columns"]
    for requested, embedding in (
        (["--bandwidth", "0.1"], dk.DivergenceEmbedding(bandwidth=0.1)),
        (["--n-basis", "7", "--divergence", "chi2"], dk.DivergenceEmbedding("chi2", n_basis=7)),
    ):
        result = plan_json([store_without_points, *requested], capsys)
        assert (result["columns_exact"], result["columns"]) == (True, embedding.fit(sets).spec_.n_features)
    line = str(tmp_path / "line.zarr")
    dk.write_sets(line, np.zeros((3, 4, 1)))
    assert plan_json([line, "--task", "classify"], capsys)["columns"] == max_nodes_per_dim("tensor", 1)
    result = plan_json([store_without_points], capsys)
    assert (result["n_sets"], result["bytes_a_pass"], result["n_features"]) == (60, 2400 * 2 * 4, 2000)


def test_a_plan_beyond_the_memory_limit_is_reported_and_fails(store_without_points, small, capsys):
    command = ["plan", store_without_points, "--target", "wide", *small]
    with dask.config.set({"dkdist.memory-limit": "10kB"}):
        assert main([*command, "--json"]) == 2
        captured = capsys.readouterr()
        assert json.loads(captured.out)["fits"] is False
        assert "This does not fit" in captured.err
        assert main(command) == 2
        assert "scans" in capsys.readouterr().out


def test_a_fit_beyond_the_memory_limit_reads_no_points(store_without_points, small, tmp_path, capsys):
    model = tmp_path / "m.npz"
    with dask.config.set({"dkdist.memory-limit": "1 MB"}):
        assert main(["fit", store_without_points, "--target", "wide", "--model", str(model), *small]) == 2
    assert "This does not fit" in capsys.readouterr().err
    assert not model.exists()


def test_the_plan_lists_the_passes_over_the_points(store_without_points, capsys):
    assert main(["plan", store_without_points, "--learner", "sgd", "--target", "wide"]) == 0
    out = capsys.readouterr().out
    for part in (
        "all points once",
        "for the bandwidth",
        "for the median distance",
        "up to 100 passes to fit",
    ):
        assert part in out
    assert main(["plan", store_without_points, "--features", "0", "--bandwidth", "0.1", "--alpha", "1"]) == 0
    out = capsys.readouterr().out
    assert "for the bandwidth" not in out
    assert "for the median distance" not in out
    assert "1 pass to fit" in out


def test_options_that_a_fit_refuses_are_refused(store_without_points, capsys):
    for options, message in (
        (["--target", "height"], "no target 'height'"),
        (["--epochs", "3"], "--epochs is for --learner sgd"),
    ):
        assert main(["plan", store_without_points, *options]) == 2
        assert message in capsys.readouterr().err


def test_a_call_without_a_plan_is_an_error_and_later_fits_run():
    with pytest.raises(RuntimeError, match="without a plan"):
        plan_of(lambda: None)
    with pytest.raises(ZeroDivisionError):
        plan_of(lambda: 1 / 0)
    dk.IncrementalRidge().fit([[0.0], [1.0], [2.0]], [0.0, 1.0, 2.0])  # planning mode has ended


PEAK_OF_A_PLAN = """
import sys
from dkdist.cli import main
assert main(["plan", sys.argv[1], "--target", "wide", "--features", "2000000"]) == 0
with open("/proc/self/status") as status:
    print(next(line.split()[1] for line in status if line.startswith("VmHWM:")))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc/self/status")
def test_a_plan_of_two_million_features_allocates_none(bags):
    """A block of the fit has at least 80 rows of features (640 MB); the process itself needs about 300 MB."""
    run = [sys.executable, "-c", PEAK_OF_A_PLAN, bags]
    printed = subprocess.run(run, check=True, capture_output=True, text=True, timeout=60).stdout
    assert "2,000,000 features" in printed
    assert int(printed.split()[-1]) * 1024 < 600e6
