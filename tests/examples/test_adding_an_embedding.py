"""The embedding of docs/adding_an_embedding.md, added to a copy of the package, passes the tests of all embeddings."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
LAWS = "tests/base/test_embedding_laws.py"


def test_documented_embedding_passes_the_laws(tmp_path):
    shutil.copytree(ROOT / "dkdist", tmp_path / "dkdist", ignore=shutil.ignore_patterns("__pycache__"))
    page = (ROOT / "docs/adding_an_embedding.md").read_text()
    file, line = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    name = re.search(r"import (\w+) as", line)[1]
    (tmp_path / re.match(r"# (\S+)", file)[1]).write_text(file)
    with open(tmp_path / "dkdist/__init__.pyi", "a") as names:
        names.write(line)
    laws = (
        (ROOT / LAWS)
        .read_text()
        .replace("EMBEDDINGS = {", f'EMBEDDINGS = {{\n    "added-3": (3, dk.{name}()),', 1)
    )
    (tmp_path / "test_laws.py").write_text(laws)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-W",
        "error",
        "-k",
        "added-3",
        "test_laws.py",
    ]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    result = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert int(re.search(r"(\d+) passed", result.stdout)[1]) > 15
