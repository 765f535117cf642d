"""The progress line: redrawn on terminals, rare in log files, and correct at the end."""

from __future__ import annotations

import io
import os
import re
import sys
from types import SimpleNamespace

import pytest

from dashboard.models import N_BLOCKS, local_client, sgd
from dkdist._runtime import progress
from dkdist._runtime.progress import Progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def clock(monkeypatch):
    """Return a clock that is advanced by the test."""
    time = SimpleNamespace(now=0.0)
    monkeypatch.setattr(progress, "monotonic", lambda: time.now)
    return time


def visible_text(text):
    """Return the text that a terminal shows; a carriage return goes back to the start of the line."""
    lines = [""]
    for part in re.split(r"([\r\n])", text):
        if part == "\r":
            column = 0
        elif part == "\n":
            lines.append("")
            column = 0
        elif part:
            lines[-1] = part + lines[-1][len(part) :] if column == 0 else lines[-1] + part
            column = len(part)
    return [line.rstrip() for line in lines]


def count_to(total, stream, clock, seconds):
    counted = Progress(total, "fit", show=True, stream=stream)
    for _ in range(total):
        clock.now += seconds / total
        counted.advance(1)
    counted.close()
    return stream.getvalue()


def test_terminal_shows_one_line(clock, monkeypatch):
    monkeypatch.setattr(progress.shutil, "get_terminal_size", lambda: os.terminal_size((60, 24)))
    text = count_to(10_000, Terminal(), clock, 20)
    assert visible_text(text) == ["fit: 10,000 blocks in 20.0 s, 500 per second", ""]
    assert 150 <= text.count("\r") <= 201  # ten times a second
    assert max(len(part) for part in re.split(r"[\r\n]", text)) <= 59
    assert "fit [############            ] 5,0" in text


def test_log_file_gets_a_line_every_ten_seconds(clock):
    lines = count_to(520, io.StringIO(), clock, 65).splitlines()
    assert len(lines) == 7
    assert lines[2] == "fit [###########             ] 240/520 blocks, 30 s, 35 s remaining"
    assert lines[-1] == "fit: 520 blocks in 65.0 s, 8 per second"


def test_interrupted_run_reports_its_progress(clock):
    stream = io.StringIO()
    counted = Progress(40, "fit", show=True, stream=stream)
    clock.now = 2.0
    counted.advance(10)
    counted.close("interrupted")
    counted.advance(5)  # a late report
    counted.close()
    assert stream.getvalue() == "fit: 10 of 40 blocks in 2.0 s, 5 per second (interrupted)\n"


def test_hidden_progress_is_counted(capfd):
    counted = Progress(2, "fit", show=False)
    counted.advance(2)
    counted.close()
    assert counted.done == 2
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("cluster", [False, True])
def test_last_line_counts_all_blocks(cluster, sets, capfd):
    def fit():
        sgd(n_epochs=4, verbose=True).fit(sets, sets.targets["y"])

    if cluster:
        with local_client(1, 2):
            fit()
    else:
        fit()
    last = capfd.readouterr().err.splitlines()[-1]
    assert last.startswith(f"fit IncrementalSGDClassifier: {4 * N_BLOCKS} blocks in ")


def test_stderr_is_looked_up_at_the_start_of_a_run(monkeypatch):
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    Progress(1, "fit", show=True).close()
    assert stream.getvalue() == "fit: 0 of 1 blocks in 0.0 s\n"
