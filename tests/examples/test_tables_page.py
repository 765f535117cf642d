"""The examples of docs/tables.md run in Python and on the command line."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from store.fcs_bytes import fcs_bytes

import dkdist as dk
from dkdist.cli import main

PAGE = (Path(__file__).parents[2] / "docs" / "tables.md").read_text()


@pytest.fixture
def cells(tmp_path, monkeypatch):
    """Write a folder of two files that share a donor."""
    monkeypatch.chdir(tmp_path)
    Path("cells").mkdir()
    frame = pd.DataFrame({"donor": list("abacba"), "outcome": [1, 0, 1, 1, 0, 1], "cd8": 0.0})
    frame[["cd3", "cd4"]] = np.arange(12.0).reshape(6, 2)
    Path("samples").mkdir()
    keywords = {"$P1S": "CD3", "$P2S": "CD4", "$SPILLOVER": "2,FL1-A,FL2-A,1,0.5,0,1"}
    events = {"FL1-A": np.array([100.0]), "FL2-A": np.array([350.0])}
    Path("samples/tube1.fcs").write_bytes(fcs_bytes(events, keywords=keywords))
    for k in range(2):
        frame[k::2].to_parquet(f"cells/{k}.parquet")


@pytest.mark.usefixtures("cells")
def test_examples_run():
    names = {}
    for code in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL):
        exec(compile(code, "tables.md", "exec"), names)
    sets = names["sets"]
    assert sets.sizes.tolist() == [3, 2, 1]
    assert (sets.ids.tolist(), sets.names) == (["a", "b", "c"], ("cd3", "cd4"))
    np.testing.assert_allclose(names["tubes"][0], np.arcsinh([[100 / 150, 300 / 150]]), rtol=1e-6)
    assert sets[0].tolist() == [[0, 1], [4, 5], [10, 11]]
    points = sets.load().points
    (command, *_) = re.findall(r"^    dkdist (import .*)$", PAGE, re.MULTILINE)
    assert main([*shlex.split(command), "--overwrite"]) == 0
    assert np.array_equal(dk.open_sets("cells.zarr").load().points, points)


@pytest.mark.usefixtures("cells")
def test_commands_for_instruments_are_valid():
    from dkdist.cli.parser import build_parser

    commands = re.findall(r"^    dkdist (import .*)$", PAGE, re.MULTILINE)
    assert len(commands) == 4
    for command in commands:
        assert build_parser().parse_args(shlex.split(command)).run.startswith("dkdist.cli.importing")
