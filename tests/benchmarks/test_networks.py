"""Neural networks of sets and boosting, used for comparisons, are correct."""

from __future__ import annotations

import importlib
import json
import os
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scripts import run_script

import dkdist as dk

FOLDER = Path(__file__).parents[2] / "benchmarks"
DATA = Path(os.environ.get("DKDIST_DATA", "../shared/data"))
needs_torch = pytest.mark.skipif(find_spec("torch") is None, reason="pip install 'dkdist[networks]'")


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that imports a file of the benchmarks, and restore path and environment afterwards."""
    for folder in ("", "papers", "peers"):
        monkeypatch.syspath_prepend(str(FOLDER / folder))
    monkeypatch.setenv("OMP_WAIT_POLICY", "PASSIVE")
    return importlib.import_module


def run(*arguments: str, output: Path) -> Any:
    log = output.with_suffix(".txt")
    code, output_text = run_script(
        FOLDER / "networks.py", *arguments, "--quick", "--output", str(output), log_file=log
    )
    assert code == 0, output_text
    return json.loads(output.read_text())


def test_quick_form_without_networks(tmp_path: Path) -> None:
    methods = "no argument", "five lines", "boosting"
    report = run("mixtures", "--sets", "300", "--only", *methods, output=tmp_path / "rows.json")
    rows = {row["method"]: row for row in report["rows"]}
    assert rows.keys() == {"no argument", "five lines", "boosting"}
    assert all(row["score"] < 2.2 for row in rows.values())  # a constant prediction has 2.88
    assert rows["no argument"]["behind"] == 0
    assert all(row["seconds"] > 0 and row["predicting"] > 0 for row in rows.values())


@needs_torch
def test_quick_form_of_networks(tmp_path: Path) -> None:
    figure, earlier = tmp_path / "networks.png", tmp_path / "earlier.json"
    run("mixtures", "--only", "five lines", output=earlier)
    poolings = ["DeepSets, mean pooling", "DeepSets, max pooling", "attention pooling"]
    report = run(
        "mixtures", "--only", *poolings, "--read", str(earlier), "--figure", str(figure), output=tmp_path / "rows.json"
    )  # fmt: skip
    assert [row["method"] for row in report["rows"]] == ["five lines", *poolings]
    for row in report["rows"][1:]:
        assert row["seconds"] == row["choosing"] + row["fitting"]
        assert len(row["tried"]) >= 4
        assert np.isfinite(row["score"])
    assert figure.stat().st_size > 10_000


def test_summaries_of_each_set(module: Any) -> None:
    boosting = module("boosting")
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=(n, 2)).astype("f4") for n in (30, 7, 30, 12)]
    rows = boosting.Summaries().fit(dk.SampleSets.from_arrays(arrays))
    result = rows.transform(dk.SampleSets.from_arrays(arrays))
    for x, row in zip(arrays, result, strict=True):
        x = x.astype(float)
        np.testing.assert_allclose(row[:4], [*x.mean(0), *x.std(0)], atol=1e-12)
        np.testing.assert_allclose(row[6], np.corrcoef(x.T)[0, 1], atol=1e-12)
        np.testing.assert_allclose(row[7:9], np.quantile(x, 0.02, axis=0), atol=1e-12)
        inside = np.clip(x, rows.low_, rows.high_)
        box = list(zip(rows.low_, rows.high_, strict=True))
        counts, _ = np.histogram(inside[:, 0], 20, box[0])
        np.testing.assert_allclose(row[25:45], counts / len(x), atol=1e-12)
        counts, *_ = np.histogram2d(*inside.T, 14, box)
        np.testing.assert_allclose(row[65:-1], counts.ravel() / len(x), atol=1e-12)
        assert row[-1] == np.log(len(x))


@needs_torch
@pytest.mark.parametrize("pooling", ["mean", "max", "attention"])
def test_networks_do_not_depend_on_order_and_padding(module: Any, pooling: str) -> None:
    networks = module("set_networks")
    torch = networks.torch
    torch.manual_seed(0)
    network = networks.SetNetwork(3, 2, pooling, networks.Setting(16, 2, 1e-3)).eval()
    x = torch.randn(4, 9, 3)
    mask = torch.arange(12) < torch.full((4, 1), 9)
    padded = torch.cat([x, torch.full((4, 3, 3), 1e3)], 1)
    with torch.no_grad():
        expected = network(x).numpy()
        np.testing.assert_allclose(network(x[:, torch.randperm(9)]).numpy(), expected, atol=1e-5)
        np.testing.assert_allclose(network(padded, mask).numpy(), expected, atol=1e-5)


@needs_torch
def test_attention_is_multihead_attention(module: Any) -> None:
    networks = module("set_networks")
    torch = networks.torch
    torch.manual_seed(0)
    pooling = networks.AttentionPooling(32).double()
    z, mask = torch.randn(5, 9, 32, dtype=torch.float64), torch.rand(5, 9) < 0.6
    mask[:, 0] = True
    with torch.no_grad():
        pooling.attention.in_proj_bias.normal_()
        seed = pooling.seed.expand(5, -1, -1)
        for mask_or_none in (None, mask):
            padding_mask = None if mask_or_none is None else ~mask_or_none
            expected, _ = pooling.attention(seed, z, z, key_padding_mask=padding_mask)
            np.testing.assert_allclose(pooling.attend(z, mask_or_none), expected[:, 0], atol=1e-12)


@needs_torch
def test_batches_contain_points_of_the_requested_sets(module: Any) -> None:
    training = module("network_training")
    arrays = [
        np.full((n, 1), i, "f4") + np.arange(n, dtype="f4")[:, None] / 128 for i, n in enumerate((3, 20, 8))
    ]
    data = training.SetData(dk.SampleSets.from_arrays(arrays), np.zeros(1), np.ones(1))
    x, mask = data.batch(np.array([1, 0, 2]), 6, np.random.default_rng(0))
    assert mask.sum(1).tolist() == [6, 3, 6]
    for i, row, mask_row in zip((1, 0, 2), x[..., 0], mask, strict=True):
        drawn = row[mask_row].tolist()
        assert len(set(drawn)) == len(drawn)
        assert set(drawn) <= set(arrays[i][:, 0].tolist())


@needs_torch
def test_network_learns_within_the_time_limit(module: Any) -> None:
    training = module("network_training")
    training.torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    y = np.array(["narrow", "wide"])[np.arange(300) % 2]
    sets = dk.SampleSets.from_arrays([rng.normal(0, 1 + 2 * (c == "wide"), (40, 2)) for c in y])
    model = training.NetworkLearner("mean", 4.0).fit(sets[:200], y[:200])
    assert (model.predict(sets[200:]) == y[200:]).mean() > 0.9


def test_errors_match_the_bootstrap(module: Any) -> None:
    networks = module("networks")
    rng = np.random.default_rng(0)
    y = rng.normal(size=2000)
    near, far = (y + rng.normal(0, s, len(y)) for s in (0.5, 0.6))
    sample = rng.integers(len(y), size=(1000, len(y)))

    def rmse(result: np.ndarray) -> np.ndarray:
        return np.sqrt(((y - result)[sample] ** 2).mean(1))

    score, other = networks.Score.of(y, far), networks.Score.of(y, near)
    deficit, error = score.deficit(other)
    # standard deviations of 1000 draws have a relative error of 2 %
    assert score.error == pytest.approx(rmse(far).std(), rel=0.1)
    assert error == pytest.approx((rmse(far) - rmse(near)).std(), rel=0.1)
    assert deficit == pytest.approx(0.1, abs=4 * error)
    accuracy = networks.Score.of(np.array([0, 1, 1]), np.array([0, 1, 0]))
    assert accuracy.value == pytest.approx(2 / 3)
    assert accuracy.deficit(networks.Score.of(np.array([0, 1, 1]), np.array([0, 1, 1])))[0] == pytest.approx(
        1 / 3
    )


@pytest.mark.skipif(not (DATA / "pentip.npz").exists(), reason="no pentip.npz in DKDIST_DATA")
def test_padding_of_trajectories_does_not_reveal_their_class(module: Any) -> None:
    task = module("networks").pentip(False)
    assert task.train.points.any(axis=1).all()
    size_spreads = [np.std(task.train.sizes[task.y == c]) for c in np.unique(task.y)]
    assert min(size_spreads) > 1  # with padding they would be 0
