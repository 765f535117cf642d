"""Cached compiled code is invalidated when inlined code changes, in any file."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import dkdist
from dkdist._numba.compilation import source_digest

PART = """
from dkdist._numba.compilation import inline_jit
@inline_jit()
def shared(x):
    return x / SHARE
"""
COMPILED = """
from dkdist._numba.compilation import jit
from dkdist._numba.tried_part import shared
@jit()
def share(x):
    return shared(x)
"""
SCRIPT = "import dkdist._numba.tried_loop as loop; print(loop.share(12.0), sum(loop.share.stats.cache_hits.values()))"


def run_script(folder: Path, script: str = SCRIPT) -> str:
    environment = {**os.environ, "PYTHONPATH": str(folder), "NUMBA_CACHE_DIR": str(folder / "kept")}
    result = subprocess.run(
        [sys.executable, "-c", script],
        env=environment,
        cwd=folder,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return result.stdout.strip()


def test_change_in_another_file_recompiles(tmp_path: Path) -> None:
    numba_folder = tmp_path / "dkdist" / "_numba"
    package = Path(dkdist.__file__).parent
    shutil.copytree(package / "_numba", numba_folder, ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "dkdist" / "__init__.py").touch()
    (numba_folder / "tried_loop.py").write_text(COMPILED)
    (numba_folder / "tried_part.py").write_text(PART.replace("SHARE", "2.0"))
    assert run_script(tmp_path) == "6.0 0"
    assert run_script(tmp_path) == "6.0 1"
    (numba_folder / "tried_part.py").write_text(PART.replace("SHARE", "3.0"))
    assert run_script(tmp_path) == "4.0 0"


def test_renamed_record_recompiles(tmp_path: Path) -> None:
    numba_folder = tmp_path / "dkdist" / "_numba"
    shutil.copytree(
        Path(dkdist.__file__).parent / "_numba", numba_folder, ignore=shutil.ignore_patterns("__pycache__")
    )
    (tmp_path / "dkdist" / "__init__.py").touch()
    (numba_folder / "tried_part.py").write_text(PART.replace("SHARE", "2.0"))
    for name in ("Halves", "Shares"):
        record = f"from typing import NamedTuple\nclass {name}(NamedTuple):\n    x: float\n"
        (numba_folder / "tried_loop.py").write_text(record + COMPILED.replace("shared(x)", "shared(x.x)"))
        for hits in (0, 1):
            assert run_script(tmp_path, SCRIPT.replace("12.0", f"loop.{name}(12.0)")) == f"6.0 {hits}"


def test_source_digest_depends_on_imports() -> None:
    names = [f"dkdist.{name}" for name in ("embeddings._density_numba", "_numba.elementary", "_numba.arrays")]
    for name in names:
        import_module(name)
    assert len({*map(source_digest, names)}) == 3
    assert source_digest("elsewhere") == source_digest("numpy")  # only modules of dkdist count
