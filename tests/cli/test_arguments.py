"""Arguments that are empty or outside their limits: one line that names the option, before any work."""

from __future__ import annotations

import argparse
import os

import pytest

import dkdist as dk
from dkdist.cli import main, parser


def text_arguments():
    """(command, argument as typed) of every argument that takes free text."""
    commands = next(a for a in parser.build_parser()._actions if isinstance(a, argparse._SubParsersAction))
    for name, command in commands.choices.items():
        for action in command._actions:
            if action.nargs != 0 and action.choices is None and not isinstance(action.default, (int, float)):
                yield name, action.option_strings[0] if action.option_strings else action.metavar


REQUIRED = {
    "import": ["SOURCE", "STORE"],
    "embed": ["STORE", "OUTPUT"],
    "fit": ["STORE", "--target", "--model"],
    "predict": ["STORE", "--model", "--output"],
    "score": ["STORE", "--model", "--target"],
    "report": ["MODEL", "STORE", "--output"],
    **{name: ["STORE"] for name in ("info", "verify", "compact", "plan")},
}


def words(command, changed):
    """The words of a command; each argument has the value "x", unless changed."""
    arguments = dict.fromkeys(REQUIRED.get(command, []), "x") | changed
    named = [f"{name}={value}" for name, value in arguments.items() if name.startswith("-")]
    return [command, *(v for name, v in arguments.items() if not name.startswith("-")), *named]


def refusal(command, capsys):
    """The line on standard error of a command that must end with status 2 and print nothing else."""
    with pytest.raises(SystemExit, match="2"):
        main(command)
    captured = capsys.readouterr()
    (line,) = captured.err.splitlines()
    assert captured.out == ""
    assert line.startswith(f"dkdist {command[0]}: error: argument ")
    return line


@pytest.mark.parametrize(("command", "argument"), list(text_arguments()))
def test_empty_text_is_refused_for_every_argument(command, argument, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.csv").write_text("bag,x\n1,2.5\n")
    for empty in ("", " "):
        line = refusal(words(command, {argument: empty}), capsys)
        assert f" {argument}:" in line or f" {argument}/" in line
    assert os.listdir(tmp_path) == ["t.csv"]


@pytest.mark.parametrize("function", [dk.open_sets, dk.open_features, dk.load_model, dk.verify_sets])
def test_empty_paths_are_refused_by_functions(function):
    with pytest.raises(ValueError, match="must not be empty"):
        function("")


def test_a_model_is_not_saved_at_an_empty_path(tmp_path, monkeypatch):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    model = dk.RandomFourierFeatures(2, sigma=1.0, random_state=0).fit([[0.0], [1.0]])
    with pytest.raises(ValueError, match="must not be empty"):
        dk.save_model(model, "")
