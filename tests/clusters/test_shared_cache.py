"""Compiled code in a shared cache folder: an index never refers to other code."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from numba import config, njit
from numba.core.caching import FunctionCache, IndexDataCacheFile

from dkdist._numba.compilation import CodeCacheFile
from dkdist._numba.points import _count_outside


def cache_file(folder: Path, stamp: str = "today") -> CodeCacheFile:
    """Return the cache file that a process uses for the compiled variants of one function."""
    return CodeCacheFile(str(folder), "loop-1.py311", stamp)


def test_concurrent_compilation_by_two_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both processes read an empty index, then alternately write indexes and code."""
    first, second = cache_file(tmp_path), cache_file(tmp_path)
    delayed: list[tuple[str, str]] = []
    monkeypatch.setattr(second, "_save_data", lambda *name_and_code: delayed.append(name_and_code))
    save_index = first._save_index

    def both_save_their_index(overloads: dict[str, str]) -> None:
        second.save("float64", "code of float64")
        save_index(overloads)

    monkeypatch.setattr(first, "_save_index", both_save_their_index)
    first.save("float32", "code of float32")
    monkeypatch.undo()
    second._save_data(*delayed[0])
    assert cache_file(tmp_path).load("float32") == "code of float32"
    assert cache_file(tmp_path).load("float64") in (None, "code of float64")  # None is compiled again


def test_process_killed_between_index_and_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache_file(tmp_path, "yesterday").save("float32", "code of yesterday")
    killed = cache_file(tmp_path)
    monkeypatch.setattr(killed, "_save_data", lambda *_: None)
    killed.save("float32", "code of today")
    assert cache_file(tmp_path).load("float32") is None


OUTSIDE = """
import numpy as np
from dkdist._numba.points import count_outside
print(count_outside(np.array([[0.5], [2.0]], "f4"), np.array([0, 2]), np.zeros(1, "f4"), np.ones(1, "f4"))[0])
"""


def test_concurrent_start_with_an_empty_folder(tmp_path: Path) -> None:
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    processes = [
        subprocess.Popen([sys.executable, "-c", OUTSIDE], env=environment, stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    assert [process.communicate()[0].split() for process in processes] == [["1"]] * 3
    names = {path.name for path in tmp_path.rglob("*.nbc")}
    assert names
    assert all(name.count(".nbi.") == 1 for name in names)


def test_other_functions_keep_the_cache_of_numba(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert type(_count_outside._cache._cache_file) is CodeCacheFile
    assert os.environ.get("NUMBA_CACHE_DIR", "") == config.CACHE_DIR
    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path))

    @njit(cache=True)
    def twice(x: float) -> float:
        return x + x

    assert twice(2.0) == 4.0
    assert type(twice._cache) is FunctionCache
    assert type(twice._cache._cache_file) is IndexDataCacheFile
    assert [path.name.split(".")[-2] for path in tmp_path.rglob("*.nbc")] == ["1"]
