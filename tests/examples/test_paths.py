"""All paths in the documentation exist, and the change files have valid names."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = (
    "README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "Makefile",
    "pyproject.toml",
    *sorted((ROOT / "docs").glob("*.md")),
)
FOLDERS = (".", "dkdist", "docs", "deploy", "benchmarks/papers")  # paths are relative to one of these
FOLDER = r"\b(?:dkdist|tests|docs|benchmarks|examples|deploy|changes)/[\w./-]*"
FILE = r"[\w./-]*\w\.(?:pyi?|md|png|sh|toml|yaml)\b"
EXAMPLE_PATHS = {
    "dkdist/embeddings/extremes.py",  # added by the page on adding an embedding
    "dkdist/numba",  # in ~/.cache
    "train.py",  # run by the recipes for clusters
    *("x.py", "x_params.py", "_x_numba.py"),  # the three files of any module
}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: Path(page).name)
def test_paths_exist(page):
    text = (ROOT / page).read_text()
    paths = {path.rstrip(".") for path in re.findall(f"(?:{FOLDER}|{FILE})", text)} - EXAMPLE_PATHS
    assert not [path for path in paths if not any((ROOT / folder / path).exists() for folder in FOLDERS)]


def test_architecture_lists_all_packages():
    text = (ROOT / "docs/architecture.md").read_text()
    packages = re.findall(r"^\| `(\w+)/` \|", text, re.MULTILINE)
    folders = {path.parent.name for path in (ROOT / "dkdist").glob("*/__init__.py")}
    assert sorted(packages) == sorted(folders)


def test_change_files_have_valid_names():
    names = [path.name for path in (ROOT / "changes").iterdir() if path.name != "README.md"]
    assert all(re.fullmatch(r"\+[\w-]+\.(added|changed|fixed|removed)\.md", name) for name in names)
