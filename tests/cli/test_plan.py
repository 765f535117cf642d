"""``dkdist plan``: what a fit then prints of itself, without a look at the points."""

from __future__ import annotations

import json
import shutil

import dask
import numpy as np
import pytest

import dkdist as dk
from dkdist.cli import main
from dkdist.cli.machine import plan, stage_rates
from dkdist.cli.machine.stage_seconds import FitSizes, StageRates, stage_seconds
from dkdist.cli.output import json_keys
from dkdist.densities.density_choices import most_nodes
from dkdist.execution.run import plan_of


@pytest.fixture
def blind(bags, tmp_path):
    """The store without its points."""
    shutil.copytree(bags, tmp_path / "blind.zarr")
    shutil.rmtree(tmp_path / "blind.zarr" / "points" / "c")
    return str(tmp_path / "blind.zarr")


RATES = StageRates(
    start=0.5, read=1e-8, look=2e-8, embed=4e-6, features=6e-6, learn=3e-6, squares=1e-8, solve=1e-10
)


@pytest.fixture(autouse=True)
def same_machine(monkeypatch):
    """A limit and rates that do not change from one run to the next."""
    monkeypatch.setattr(plan, "rates_here", lambda asked, tell: RATES)
    with dask.config.set({"dkdist.memory-limit": "2GiB"}):
        yield


def planned(command, capsys):
    assert main(["plan", *command, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert list(found) == list(json_keys.PLAN)
    return found


@pytest.mark.parametrize(
    "options",
    [
        ["--target", "wide"],
        ["--target", "wide", "--features", "0", "--train-fraction", "0.5"],
        ["--target", "spread", "--learner", "sgd", "--epochs", "2"],
        ["--target", "wide", "--learner", "sgd", "--divergence", "jensen-shannon", "--structure", "marginal"],
    ],
)
def test_the_plan_is_the_one_that_a_fit_prints(options, bags, blind, small, tmp_path, capsys):
    asked = [*small, *options]
    assert main(["plan", blind, *asked]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    line = next(line for line in captured.out.splitlines() if line.startswith("plan"))
    assert main(["fit", bags, *asked, "--model", str(tmp_path / "m.npz"), "--progress"]) == 0
    printed = [line.partition("peak memory")[0] for line in capsys.readouterr().err.splitlines()]
    assert (
        line.removeprefix("plan").strip().partition("peak memory")[0] in printed
    )  # memory is that of its process


def test_columns_are_exact_or_at_most(bags, blind, tmp_path, capsys):
    sets = dk.open_sets(bags)
    chosen = dk.DivergenceEmbedding().fit(sets).spec_.n_features
    found = planned([blind], capsys)
    assert not found["columns_exact"]
    assert chosen <= found["columns"]
    for asked, embedding in (
        (["--bandwidth", "0.1"], dk.DivergenceEmbedding(bandwidth=0.1)),
        (["--n-basis", "7", "--divergence", "chi2"], dk.DivergenceEmbedding("chi2", n_basis=7)),
    ):
        found = planned([blind, *asked], capsys)
        assert (found["columns_exact"], found["columns"]) == (True, embedding.fit(sets).spec_.n_features)
    line = str(tmp_path / "line.zarr")
    dk.write_sets(line, np.zeros((3, 4, 1)))
    assert planned([line, "--task", "classify"], capsys)["columns"] == most_nodes("tensor", 1)
    found = planned([blind], capsys)
    assert (found["n_sets"], found["bytes_a_pass"], found["n_features"]) == (60, 2400 * 2 * 4, 2000)


def test_what_does_not_fit_is_said_and_fails(blind, small, capsys):
    command = ["plan", blind, "--target", "wide", *small]
    with dask.config.set({"dkdist.memory-limit": "10kB"}):
        assert main([*command, "--json"]) == 2
        captured = capsys.readouterr()
        assert json.loads(captured.out)["fits"] is False
        assert "This does not fit" in captured.err
        assert main(command) == 2
        assert "looks at" in capsys.readouterr().out


def test_the_plan_is_printed_and_checked_before_anything_is_measured(blind, small, capsys, monkeypatch):
    measured = []
    monkeypatch.setattr(
        plan, "rates_here", lambda asked, tell: measured.append(capsys.readouterr().out) or RATES
    )
    assert main(["plan", blind, "--target", "wide", *small]) == 0
    assert "before the work, of 2.15 GB" in measured[0]
    assert "takes" not in measured[0]
    assert capsys.readouterr().out.startswith("takes     ")
    with dask.config.set({"dkdist.memory-limit": "1 MB"}):
        assert main(["plan", blind, "--target", "wide", *small]) == 2
    assert len(measured) == 1


def test_a_fit_that_does_not_fit_reads_no_point(blind, small, tmp_path, capsys):
    model = tmp_path / "m.npz"
    with dask.config.set({"dkdist.memory-limit": "1 MB"}):
        assert main(["fit", blind, "--target", "wide", "--model", str(model), *small]) == 2
    assert "This does not fit" in capsys.readouterr().err
    assert not model.exists()


@pytest.mark.parametrize("n_sets", [30, 90])
def test_rates_are_measured_at_a_capped_size(n_sets, tmp_path, capsys, monkeypatch):
    """And where there are no more sets than features, no matrix of features by features is made."""
    lengths, grams = [], []
    ridge, accumulate = stage_rates._ridge, stage_rates.accumulate
    for name, few in (("MAX_COORDINATES", 1600), ("FEW_SETS", 20), ("SMALL", (8, 16)), ("LARGE", 16)):
        monkeypatch.setattr(stage_rates, name, few)
    monkeypatch.setattr(stage_rates, "MAX_MEASURED_COLUMNS", 40)
    monkeypatch.setattr(stage_rates, "REPEATS", 1)
    monkeypatch.setattr(
        stage_rates, "_ridge", lambda asked, made: lengths.append(made.shape[1]) or ridge(asked, made)
    )
    monkeypatch.setattr(stage_rates, "accumulate", lambda *args: grams.append(args) or accumulate(*args))
    monkeypatch.setattr(plan, "rates_here", lambda asked, tell: stage_rates.measure(asked))
    path = str(tmp_path / "sets.zarr")
    dk.write_sets(path, np.random.default_rng(0).random((n_sets, 5, 2)))
    found = planned(
        [path, "--features", "60", "--bandwidth", "0.1", "--sigma", "1", "--task", "regress"], capsys
    )
    assert (found["n_features"], lengths) == (60, [40])
    assert found["rates"]["learn"] > 0
    assert bool(grams) == (n_sets > 60)


def test_it_is_said_how_often_points_are_read(blind, capsys):
    assert main(["plan", blind, "--learner", "sgd", "--target", "wide"]) == 0
    out = capsys.readouterr().out
    for part in (
        "all points once",
        "for the bandwidth",
        "for the median distance",
        "up to 100 passes to fit",
    ):
        assert part in out
    assert main(["plan", blind, "--features", "0", "--bandwidth", "0.1", "--alpha", "1"]) == 0
    out = capsys.readouterr().out
    assert "for the bandwidth" not in out
    assert "for the median distance" not in out
    assert "1 pass to fit" in out


def test_options_that_a_fit_refuses_are_refused(blind, capsys):
    for options, message in (
        (["--target", "height"], "no target 'height'"),
        (["--epochs", "3"], "--epochs is for --learner sgd"),
    ):
        assert main(["plan", blind, *options]) == 2
        assert message in capsys.readouterr().err


def test_what_makes_no_plan_is_an_error_and_leaves_nothing_behind():
    with pytest.raises(RuntimeError, match="without a plan"):
        plan_of(lambda: None)
    with pytest.raises(ZeroDivisionError):
        plan_of(lambda: 1 / 0)
    dk.IncrementalRidge().fit([[0.0], [1.0], [2.0]], [0.0, 1.0, 2.0])  # runs again


SIZES = FitSizes(10_000, 2_000_000, 5, 0, 5000, 4, True, False)


def test_seconds_are_linear_in_sets_and_passes():
    once = stage_seconds(RATES, SIZES)
    assert once["all"] == pytest.approx(sum(value for name, value in once.items() if name != "all"))
    twice = stage_seconds(RATES, SIZES._replace(n_sets=20_000, n_points=4_000_000))
    assert twice["look"] == pytest.approx(2 * once["look"])
    assert twice["fit"] == pytest.approx(2 * once["fit"])
    assert twice["choose"] == once["choose"] == RATES.start
    assert stage_seconds(RATES, SIZES._replace(passes=10))["fit"] == pytest.approx(2 * once["fit"])
    ridge = SIZES._replace(in_order=False, passes=1)
    squares, cubes = RATES._replace(solve=0.0), RATES._replace(squares=0.0)
    for rates, times in ((squares, 4), (cubes, 8)):
        half = stage_seconds(rates, ridge._replace(n_features=2500))
        assert stage_seconds(rates, ridge)["solve"] == pytest.approx(times * half["solve"])
    few = stage_seconds(RATES, ridge._replace(n_sets=500))["solve"]  # on one core
    assert few == pytest.approx(RATES.squares * 500**2 + RATES.solve * 500**3)


def test_seconds_are_those_of_the_slower_of_steps_and_cores():
    alone = stage_seconds(RATES, SIZES._replace(cores=1))["fit"]
    assert alone == pytest.approx(5 * 10_000 * (200 * 1e-8 + 4e-6 + 6e-6 + 3e-6))
    found = [stage_seconds(RATES, SIZES._replace(cores=n))["fit"] for n in (1, 2, 4, 8, 64)]
    assert found == sorted(found, reverse=True)
    assert found[1] == pytest.approx(alone / 1.75)
    assert found[-1] == pytest.approx(5 * 10_000 * 3e-6)  # steps come one after another
    unordered = SIZES._replace(in_order=False, cores=64)
    assert stage_seconds(RATES, unordered)["fit"] == pytest.approx(alone / (1 + 0.75 * 63))


def test_more_work_never_takes_less():
    before = stage_seconds(RATES, SIZES)["all"]
    for name in StageRates._fields[:-1]:
        assert stage_seconds(RATES._replace(**{name: 10 * getattr(RATES, name)}), SIZES)["all"] > before
    for name in ("n_sets", "n_points", "passes"):
        assert stage_seconds(RATES, SIZES._replace(**{name: 2 * getattr(SIZES, name)}))["all"] > before
    assert stage_seconds(RATES, SIZES._replace(sampled=1000))["choose"] > RATES.start
    kept = stage_seconds(RATES, SIZES._replace(kept=True))["fit"]
    assert kept == pytest.approx(
        10_000 * (15e-6 / 3.25 + 4 * 3e-6)
    )  # read and embedded once; then steps are slower


def test_the_plan_tells_seconds(blind, small, capsys):
    options = [blind, "--target", "wide", "--learner", "sgd", "--epochs", "4", *small]
    with dask.config.set(num_workers=1):
        found = planned(options, capsys)
        assert main(["plan", *options]) == 0
    assert (found["cores"], found["rates"]) == (1, RATES._asdict())
    sizes = FitSizes(60, 2400, 4, 60, 60, 1, True, False)
    assert found["seconds"] == pytest.approx(stage_seconds(RATES, sizes))
    assert "on 1 core: " in capsys.readouterr().out


def test_rates_are_measured_once_and_kept(blind, small, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(plan, "rates_here", stage_rates.rates_here)
    monkeypatch.setattr(stage_rates, "kept_code", lambda: (str(tmp_path / "new"), True))
    for name, few in (("MAX_COORDINATES", 1600), ("FEW_SETS", 20), ("SMALL", (8, 16))):
        monkeypatch.setattr(stage_rates, name, few)
    ridge, sgd = [blind, "--target", "wide", *small], [blind, "--learner", "sgd", "--epochs", "2", *small]
    first = []
    for options in (ridge, sgd):
        assert main(["plan", *options, "--json"]) == 0
        captured = capsys.readouterr()
        assert "measuring how fast this machine is" in captured.err
        first.append(json.loads(captured.out)["rates"])
        assert all(first[-1][name] > 0 for name in ("embed", "learn"))
    for options, before in zip((ridge, sgd), first, strict=True):
        assert main(["plan", *options, "--json"]) == 0
        captured = capsys.readouterr()
        assert captured.err == ""
        assert json.loads(captured.out)["rates"] == before
    (tmp_path / "new" / "rates.json").write_text("{damaged")
    assert main(["plan", *ridge]) == 0
    assert "measuring" in capsys.readouterr().err
    monkeypatch.setattr(stage_rates, "_machine", lambda: "another")
    assert main(["plan", *ridge]) == 0
    assert "measuring" in capsys.readouterr().err
