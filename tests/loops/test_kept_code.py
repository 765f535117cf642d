"""Kept code is made anew when what is compiled into a loop changes, in whatever file it stands."""

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
LOOP = """
from dkdist._numba.compilation import jit
from dkdist._numba.tried_part import shared
@jit()
def share(x):
    return shared(x)
"""
ASK = "import dkdist._numba.tried_loop as loop; print(loop.share(12.0), sum(loop.share.stats.cache_hits.values()))"


def asked(folder: Path, ask: str = ASK) -> str:
    environment = {**os.environ, "PYTHONPATH": str(folder), "NUMBA_CACHE_DIR": str(folder / "kept")}
    done = subprocess.run(
        [sys.executable, "-c", ask],
        env=environment,
        cwd=folder,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def test_a_change_of_a_part_that_stands_in_another_file(tmp_path: Path) -> None:
    loops = tmp_path / "dkdist" / "_numba"
    ours = Path(dkdist.__file__).parent
    shutil.copytree(ours / "_numba", loops, ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "dkdist" / "__init__.py").touch()
    (loops / "tried_loop.py").write_text(LOOP)
    (loops / "tried_part.py").write_text(PART.replace("SHARE", "2.0"))
    assert asked(tmp_path) == "6.0 0"
    assert asked(tmp_path) == "6.0 1"
    (loops / "tried_part.py").write_text(PART.replace("SHARE", "3.0"))
    assert asked(tmp_path) == "4.0 0"


def test_code_of_a_record_that_was_renamed_is_compiled_again(tmp_path: Path) -> None:
    loops = tmp_path / "dkdist" / "_numba"
    shutil.copytree(
        Path(dkdist.__file__).parent / "_numba", loops, ignore=shutil.ignore_patterns("__pycache__")
    )
    (tmp_path / "dkdist" / "__init__.py").touch()
    (loops / "tried_part.py").write_text(PART.replace("SHARE", "2.0"))
    for name in ("Halves", "Shares"):
        record = f"from typing import NamedTuple\nclass {name}(NamedTuple):\n    x: float\n"
        (loops / "tried_loop.py").write_text(record + LOOP.replace("shared(x)", "shared(x.x)"))
        for hits in (0, 1):
            assert asked(tmp_path, ASK.replace("12.0", f"loop.{name}(12.0)")) == f"6.0 {hits}"


def test_sources_are_looked_for_in_all_that_is_imported() -> None:
    names = [f"dkdist.{name}" for name in ("embeddings._density_numba", "_numba.elementary", "_numba.arrays")]
    for name in names:
        import_module(name)
    assert len({*map(source_digest, names)}) == 3
    assert source_digest("elsewhere") == source_digest("numpy")  # of nobody's modules but ours
