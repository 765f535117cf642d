"""Existing files and stores are never replaced without ``--overwrite``; the refusal comes before any work."""

from __future__ import annotations

import numpy as np
import pytest

import dkdist as dk
from dkdist.cli import main


@pytest.fixture
def existing_files(tmp_path):
    """Return a folder with files and stores that must not change."""
    for name in ("m.npz", "p.csv", "p.parquet"):
        (tmp_path / name).write_text("mine")
    dk.write_sets(tmp_path / "s.zarr", [np.ones((3, 2))])
    dk.write_features(tmp_path / "z.zarr", np.ones((6, 4), "f4"))
    (tmp_path / "points.csv").write_text("bag,x\n1,2.5\n")
    return tmp_path


def bytes_below(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    "command",
    [
        ["fit", "{bags}", "--target", "wide", "--model", "{kept}/m.npz"],
        ["predict", "{bags}", "--model", "{kept}/m.npz", "--output", "{kept}/p.csv"],
        ["predict", "{bags}", "--model", "{kept}/m.npz", "--output", "{kept}/p.parquet"],
        ["embed", "{bags}", "{kept}/z.zarr"],
        ["embed", "{bags}", "{kept}/s.zarr"],
        ["compact", "{bags}", "--to", "{kept}/s.zarr"],
        ["import", "{kept}/points.csv", "{kept}/s.zarr", "--set-id", "bag"],
    ],
)
def test_existing_outputs_are_refused_before_any_work(command, bags, existing_files, capsys, monkeypatch):
    def work(*_, **__):
        raise AssertionError("work has begun")

    for name in ("DivergenceEmbedding", "load_model", "write_features"):
        monkeypatch.setattr(dk, name, work)
    monkeypatch.setattr("dkdist.io.maintenance.write_parts", work)
    before = bytes_below(existing_files)
    assert main([part.format(bags=bags, kept=existing_files) for part in command]) == 2
    assert capsys.readouterr().err.count("dkdist: error: ") == 1
    assert bytes_below(existing_files) == before


def test_overwrite_replaces_existing_outputs(bags, small, existing_files, capsys):
    model, output = str(existing_files / "m.npz"), str(existing_files / "p.csv")
    fit = ["fit", bags, "--target", "spread", "--model", model, *small]
    predict = ["predict", bags, "--model", model, "--output", output]
    for command in (fit, predict):
        assert main(command) == 2
        assert "Pass --overwrite or another name" in capsys.readouterr().err
        assert main([*command, "--overwrite"]) == 0
    assert (existing_files / "p.csv").read_text().startswith("set,prediction")
    assert main(["embed", bags, str(existing_files / "z.zarr"), "--overwrite", *small]) == 0
    assert dk.open_features(existing_files / "z.zarr").shape == (60, 60)
