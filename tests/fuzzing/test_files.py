"""Damaged and forged files: a named error or the exact result, in 1 GB and 5 seconds."""

from __future__ import annotations

import os
import select
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from . import files
from .children import Child

pytest.importorskip("resource", reason="needs limits of memory and of time")

ALLOWED = {"same", "refused", "another", "no file"}


def run(seeds: range, folder: Path) -> tuple[dict[str, Counter[str]], list[str]]:
    """Return counts of outcomes of changed files by kind, and descriptions of failures."""
    table, failures = {kind: Counter[str]() for kind in files.KINDS}, []
    with Child(files.prepare, folder) as child:
        for kind, result in table.items():
            for seed in seeds:
                text = child.ask((kind, seed))
                result[text.split()[0]] += 1
                if text not in ALLOWED:
                    failures.append(f"{kind}, seed {seed}: {text}")
    return table, failures


def check(seeds: range, folder: Path) -> None:
    table, failures = run(seeds, folder)
    print({kind: dict(result) for kind, result in table.items()})
    assert not failures, f"{len(failures)} files: " + "\n".join(failures[:10])
    assert all(result["refused"] > len(seeds) // 4 for result in table.values())
    assert sum(result["same"] for result in table.values()) > 0


def test_changed_files_raise_or_are_read_correctly(tmp_path: Path) -> None:
    check(range(12), tmp_path)


@pytest.mark.chaos
def test_ten_thousand_changed_files(tmp_path: Path) -> None:
    check(range(1000, 1510), tmp_path)


def misbehaving_reader() -> files.Callable[[str], str]:
    """Return a function that fails in a given way."""
    return lambda kind: {
        "fine": lambda: "fine",
        "memory": lambda: str(len(bytes(2**31))),
        "bug": lambda: [][0],
        "crash": lambda: os.abort(),
        "hang": lambda: str(select.select([], [], [])),
    }[kind]()


def test_limits_of_memory_and_time_are_enforced() -> None:
    with Child(misbehaving_reader, seconds=0.5) as child:
        assert child.ask("memory").startswith("MEMORY")
        assert child.ask("bug").startswith("BUG")
        assert child.ask("crash").startswith("CRASH")
        assert child.ask("hang") == "HANG"
        assert child.ask("fine") == "fine"


@pytest.mark.parametrize(
    ("read", "forged", "expected"),
    [
        (lambda folder: [np.ones(2)], False, "same"),
        (lambda folder: [np.ones(2, "f4")], False, "WRONG"),
        (lambda folder: [np.zeros(2)], True, "another"),
        (lambda folder: [np.zeros((2, 1))], True, "BUG"),
        (lambda folder: [np.full(2, np.nan)], True, "BUG"),
        (lambda folder: [np.ones(2).reshape(3)], False, "BUG"),
        (lambda folder: int("a text that is no number"), False, "BUG"),
    ],
)
def test_oracle_of_files_detects_wrong_results(read, forged: bool, expected: str, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    kind = files.Kind(lambda folder: None, read)
    assert files.outcome(kind, tmp_path, [np.ones(2)], forged=forged).startswith(expected)
