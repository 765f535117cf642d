"""The progress line: redrawn where that is possible, rare where it is not, and right at its end."""

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
    """Seconds that pass only when told to."""
    time = SimpleNamespace(now=0.0)
    monkeypatch.setattr(progress, "monotonic", lambda: time.now)
    return time


def drawn(text):
    """What a terminal shows of a text: a carriage return goes back to the start of the line."""
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


def test_a_terminal_shows_one_line(clock, monkeypatch):
    monkeypatch.setattr(progress.shutil, "get_terminal_size", lambda: os.terminal_size((60, 24)))
    text = count_to(10_000, Terminal(), clock, 20)
    assert drawn(text) == ["fit: 10,000 blocks in 20.0 s, 500 per second", ""]
    assert 150 <= text.count("\r") <= 201  # ten times a second
    assert max(len(part) for part in re.split(r"[\r\n]", text)) <= 59
    assert "fit [############            ] 5,0" in text


def test_a_log_file_gets_a_line_every_ten_seconds(clock):
    lines = count_to(520, io.StringIO(), clock, 65).splitlines()
    assert len(lines) == 7
    assert lines[2] == "fit [###########             ] 240/520 blocks, 30 s, 35 s remaining"
    assert lines[-1] == "fit: 520 blocks in 65.0 s, 8 per second"


def test_a_run_that_stops_says_how_far_it_came(clock):
    counted = Progress(40, "fit", show=True, stream=io.StringIO())
    clock.now = 2.0
    counted.advance(10)
    stream = counted._line._stream
    counted.close()
    counted.advance(5)  # told late
    counted.close()
    assert stream.getvalue() == "fit: 10 of 40 blocks in 2.0 s, 5 per second\n"


def test_what_is_not_shown_is_counted(capfd):
    counted = Progress(2, "fit", show=False)
    counted.advance(2)
    counted.close()
    assert counted.done == 2
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("cluster", [False, True])
def test_the_last_line_counts_all_blocks(cluster, sets, capfd):
    def fit():
        sgd(n_epochs=4, verbose=True).fit(sets, sets.targets["y"])

    if cluster:
        with local_client(1, 2):
            fit()
    else:
        fit()
    last = capfd.readouterr().err.splitlines()[-1]
    assert last.startswith(f"fit IncrementalSGDClassifier: {4 * N_BLOCKS} blocks in ")


def test_standard_error_is_looked_up_when_the_run_starts(monkeypatch):
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    Progress(1, "fit", show=True).close()
    assert stream.getvalue() == "fit: 0 of 1 blocks in 0.0 s\n"
