"""The commands of docs/command_line.md run in order and print what the page says; its table lists all commands."""

from __future__ import annotations

import csv
import json
import re
import shlex
from pathlib import Path

import pytest

import dkdist as dk
from dkdist.cli import main, parser

PAGE = Path(__file__).parents[2] / "docs" / "command_line.md"


def test_commands_run_in_order(tmp_path, monkeypatch, capsys):
    text = PAGE.read_text()
    monkeypatch.chdir(tmp_path)
    original = dk.SetClassifier
    # saves a few seconds
    monkeypatch.setattr(dk, "SetClassifier", lambda **options: original(["moments"], **options))
    (code,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    exec(compile(code, str(PAGE), "exec"), {})
    outputs = {}
    for command in "".join(re.findall(r"```sh\n(.*?)```", text, re.DOTALL)).splitlines():
        words = ["200" if word == "5000" else word for word in shlex.split(command)]
        assert words[0] == "dkdist"
        assert main(words[1:]) == 0, capsys.readouterr().err
        outputs[command] = capsys.readouterr().out
        if "--json" in command:
            json.loads(outputs[command])
    fit_output = next(out for command, out in outputs.items() if "--train-fraction" in command)
    assert float(re.search(r"held out +accuracy (0\.\d+|1\.0+)", fit_output)[1]) > 0.8
    with open("diagnosis.csv", newline="") as file:
        header, *rows = csv.reader(file)
    assert header == ["set", "prediction", "probability_ill", "probability_well"]
    assert [row[0] for row in rows] == [f"p{i:02d}" for i in range(80)]
    piped_output = next(out for command, out in outputs.items() if command.endswith("--output -"))
    assert [line.split(",")[:2] for line in piped_output.splitlines()] == [row[:2] for row in [header, *rows]]


@pytest.mark.parametrize("kind", ["table", "--json"])
def test_all_commands_are_documented(kind):
    commands = next(a for a in parser.build_parser()._actions if a.metavar == "COMMAND").choices
    text = PAGE.read_text()
    if kind == "table":
        assert set(re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE)) == set(commands)
    else:
        (listed,) = re.findall(r"With `--json` \((.*?)\)", text)
        with_json = [name for name, command in commands.items() if "--json" in command.format_help()]
        assert re.findall(r"`(\w+)`", listed) == sorted(with_json, key=list(commands).index)
