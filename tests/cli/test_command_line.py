"""Basics of the command line: fast help, one-line errors, exit codes."""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys

import numpy as np
import pytest

import dkdist as dk
from dkdist.cli import main, options, parser
from dkdist.embeddings.divergences import divergence

COMMANDS = (
    "demo", "import", "info", "verify", "compact", "embed", "plan", "fit", "predict", "score", "report", "warm",
)  # fmt: skip
HEAVY = (
    "numpy",
    "dask",
    "distributed",
    "zarr",
    "numba",
    "sklearn",
    "scipy",
    "pyarrow",
    "matplotlib",
    "pandas",
    "shtab",
)


@pytest.mark.parametrize("arguments", [["--help"], *([name, "--help"] for name in COMMANDS)])
def test_help_imports_nothing_heavy(arguments):
    code = (
        "import sys, dkdist.cli\n"
        f"try: dkdist.cli.main({arguments!r})\n"
        "except SystemExit as done: assert not done.code\n"
        f"assert not set({HEAVY!r}) & sys.modules.keys(), set({HEAVY!r}) & sys.modules.keys()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("usage: dkdist")
    if arguments != ["--help"]:
        assert f"example:\n  dkdist {arguments[0]} " in done.stdout


def test_the_examples_in_the_help_are_valid():
    built = parser.build_parser()
    commands = next(a for a in built._actions if isinstance(a, argparse._SubParsersAction)).choices
    assert tuple(commands) == COMMANDS
    for command in commands.values():
        (example,) = [line.split()[1:] for line in command.epilog.splitlines()[1:]]
        assert built.parse_args(example).run.startswith("dkdist.cli.")
        assert max(len(line) for line in (command.description or "").splitlines()) <= 80


def test_the_help_lists_all_divergences():
    with pytest.raises(ValueError, match="divergence must be one of") as error:
        divergence("other")
    assert {"other", *options.DIVERGENCES} == set(re.findall(r"'([^']+)'", str(error.value)))


def test_an_expected_failure_prints_one_line_and_exits_with_2(tmp_path, capsys):
    assert main(["info", str(tmp_path / "absent.zarr")]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("dkdist: error: there is no store at ")
    assert captured.err.count("\n") == 1


def test_debug_raises_the_original_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        main(["info", "--debug", str(tmp_path / "absent.zarr")])


def test_an_unexpected_failure_is_raised(tmp_path, monkeypatch):
    monkeypatch.setattr(dk, "open_sets", lambda path: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        main(["info", str(tmp_path)])


def test_keyboard_interrupt_exits_with_130_without_traceback(capsys, monkeypatch):
    def interrupted(path):
        raise KeyboardInterrupt

    monkeypatch.setattr(dk, "open_sets", interrupted)
    assert main(["info", "some.zarr"]) == 130
    assert capsys.readouterr().err.strip() == "dkdist: interrupted"


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_sigint_exits_with_130_without_traceback(tmp_path):
    dk.write_sets(tmp_path / "s.zarr", [np.ones((3, 2))] * 4)
    code = (
        "import os, signal, sys, dkdist\n"
        "from dkdist.cli import main\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # SIGINT is ignored in background jobs of a script
        "def slow(*_, **__): os.kill(os.getpid(), signal.SIGINT); import time; time.sleep(30)\n"
        "dkdist.verify_sets = slow\n"
        "sys.exit(main(['verify', 'any']))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=25)
    assert (done.returncode, done.stderr.strip()) == (130, "dkdist: interrupted")


@pytest.mark.skipif(os.name != "posix", reason="pipes of POSIX")
def test_a_closed_pipe_exits_with_0(tmp_path):
    dk.write_sets(tmp_path / "s.zarr", [np.ones((3, 2))] * 4)
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "dkdist.cli", "info", str(tmp_path / "s.zarr")]
    done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, text=True)
    os.close(write)
    assert (done.returncode, done.stderr) == (0, "")


def test_warnings_print_one_line_each_and_at_most_five(tmp_path, capsys, monkeypatch):
    import warnings

    def warn(path):
        for i in range(8):
            warnings.warn(f"number {i}", stacklevel=1)
        raise ValueError("the end")

    monkeypatch.setattr(dk, "open_sets", warn)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        assert main(["info", "some.zarr"]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert lines[:5] == [f"dkdist: warning: number {i}" for i in range(5)]
    assert lines[5:] == ["dkdist: 3 more warnings", "dkdist: error: the end"]


def test_version(capsys):
    with pytest.raises(SystemExit, match="0"):
        main(["--version"])
    assert capsys.readouterr().out == f"dkdist {dk.__version__}\n"


@pytest.mark.parametrize("module", ["dkdist", "dkdist.cli"])
def test_the_command_runs_as_a_module(module):
    run = subprocess.run([sys.executable, "-m", module, "--version"], capture_output=True, text=True)
    assert (run.returncode, run.stdout, run.stderr) == (0, f"dkdist {dk.__version__}\n", "")
    run = subprocess.run([sys.executable, "-m", module, "info"], capture_output=True, text=True)
    assert (run.returncode, run.stdout) == (2, "")
    assert run.stderr.startswith("dkdist info: error: ")
