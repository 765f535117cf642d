"""Every file that is read, damaged and forged: a named error or the exact right result, in 1 GB and 5 seconds."""

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
    """How often what became of changed files of each kind, and what should not have."""
    table, odd = {kind: Counter[str]() for kind in files.KINDS}, []
    with Child(files.prepare, folder) as child:
        for kind, result in table.items():
            for seed in seeds:
                text = child.ask((kind, seed))
                result[text.split()[0]] += 1
                if text not in ALLOWED:
                    odd.append(f"{kind}, seed {seed}: {text}")
    return table, odd


def check(seeds: range, folder: Path) -> None:
    table, odd = run(seeds, folder)
    print({kind: dict(result) for kind, result in table.items()})
    assert not odd, f"{len(odd)} files: " + "\n".join(odd[:10])
    assert all(result["refused"] > len(seeds) // 4 for result in table.values())
    assert sum(result["same"] for result in table.values()) > 0


def test_changed_files_are_refused_by_name_or_read_right(tmp_path: Path) -> None:
    check(range(12), tmp_path)


@pytest.mark.chaos
def test_ten_thousand_changed_files(tmp_path: Path) -> None:
    check(range(1000, 1510), tmp_path)


def misbehave() -> files.Callable[[str], str]:
    """All that a reader may do to its process."""
    return lambda how: {
        "fine": lambda: "fine",
        "memory": lambda: str(len(bytes(2**31))),
        "bug": lambda: [][0],
        "crash": lambda: os.abort(),
        "hang": lambda: str(select.select([], [], [])),
    }[how]()


def test_the_limits_of_the_fuzz_hold() -> None:
    with Child(misbehave, seconds=0.5) as child:
        assert child.ask("memory").startswith("MEMORY")
        assert child.ask("bug").startswith("BUG")
        assert child.ask("crash").startswith("CRASH")
        assert child.ask("hang") == "HANG"
        assert child.ask("fine") == "fine"


@pytest.mark.parametrize(
    ("read", "forged", "said"),
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
def test_the_oracle_of_files_can_fail(read, forged: bool, said: str, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    kind = files.Kind(lambda folder: None, read)
    assert files.found(kind, tmp_path, [np.ones(2)], forged=forged).startswith(said)
