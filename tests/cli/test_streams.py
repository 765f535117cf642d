"""Standard output and error that are closed, full, or cannot encode some characters."""

from __future__ import annotations

import errno
import io
import os
import subprocess
import sys

import numpy as np
import pytest

import dkdist as dk
from dkdist.cli import main

DEVICE = "/dev/full"
posix = pytest.mark.skipif(not os.path.exists(DEVICE), reason="a device that is always full")


def text_stream(encoding, **options):
    """Return a text stream with an encoding, and its byte buffer."""
    raw = io.BytesIO()
    return io.TextIOWrapper(raw, encoding=encoding, write_through=True, **options), raw


@pytest.fixture(scope="module")
def names(tmp_path_factory):
    """Return the path of a store with non-ASCII ids and classes."""
    folder = tmp_path_factory.mktemp("names")
    rng = np.random.default_rng(0)
    sets = [rng.normal(i % 2, 0.1, (9, 2)) for i in range(20)]
    targets = {"kind": ["größer", "small"] * 10}
    dk.write_sets(folder / "s.zarr", sets, targets=targets, ids=[f"sét {i}" for i in range(20)])
    return str(folder / "s.zarr")


@pytest.mark.parametrize("command", [["info", "any"], ["fit", "any", "--target", "y", "--model", "m"]])
def test_a_closed_standard_output_is_refused_before_any_work(command, capsys, monkeypatch):
    monkeypatch.setattr(dk, "open_sets", None)
    monkeypatch.setattr(sys, "stdout", None)
    assert main(command) == 2
    assert capsys.readouterr().err == (
        "dkdist: error: standard output is closed. Redirect it to a file or to /dev/null\n"
    )


def test_a_closed_standard_error_does_not_add_messages_to_the_output(bags, capsys, monkeypatch):
    monkeypatch.setattr(sys, "stderr", None)
    assert main(["verify", bags, "--json"]) == 0
    assert main(["info", f"{bags}.absent"]) == 2
    assert capsys.readouterr().out.count("\n") == 1
    assert sys.stderr is None


FULL = f"dkdist: error: standard output cannot be written: {os.strerror(errno.ENOSPC)}\n"


@posix
@pytest.mark.parametrize("write_through", [False, True])
@pytest.mark.parametrize("command", [["info"], ["info", "--json"], ["verify"]])
def test_a_full_standard_output_prints_one_line(command, write_through, bags, capsys, monkeypatch):
    with open(DEVICE, "wb") as full, monkeypatch.context() as patched:
        patched.setattr(sys, "stdout", io.TextIOWrapper(full, write_through=write_through))
        assert main([command[0], bags, *command[1:]]) == 2
    assert capsys.readouterr().err == FULL


@posix
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_full_standard_output_gives_no_traceback_at_exit(unbuffered):
    with open(DEVICE, "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "dkdist.cli", "--version"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONUNBUFFERED": unbuffered},
        )
    assert (done.returncode, done.stderr) == (2, FULL)


def test_a_broken_connection_is_not_mistaken_for_a_closed_pipe(capsys, monkeypatch):
    def lose(path):
        raise BrokenPipeError(32, "the connection was lost")

    monkeypatch.setattr(dk, "open_sets", lose)
    assert main(["info", "any"]) == 2
    assert "the connection was lost" in capsys.readouterr().err


def test_unencodable_characters_are_escaped(names, monkeypatch):
    stream, raw = text_stream("ascii")
    monkeypatch.setattr(sys, "stdout", stream)
    assert main(["info", names]) == 0
    assert rb"gr\xf6\xdfer (10)" in raw.getvalue()
    assert stream.errors == "strict"


def test_predictions_are_never_escaped(names, bag_models, capsys, monkeypatch):
    stream, raw = text_stream("ascii")
    model = str(bag_models / "wide.npz")
    command = ["predict", names, "--model", model, "--output", "-"]
    with monkeypatch.context() as ascii_output:
        ascii_output.setattr(sys, "stdout", stream)
        ascii_output.setattr("dkdist.cli.predict._predict_in_batches", None)
        assert main(command) == 2
    assert raw.getvalue() == b""
    (line,) = capsys.readouterr().err.splitlines()
    assert "--output - is standard output, whose encoding ascii cannot represent 's\\xe9t 0'" in line
    assert "PYTHONIOENCODING=utf-8" in line
    stream, raw = text_stream("utf-8", newline="")
    monkeypatch.setattr(sys, "stdout", stream)
    assert main(command) == 0
    assert raw.getvalue().decode().splitlines()[1].startswith("sét 0,")
