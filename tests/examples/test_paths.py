"""Every path that the pages name is there, and what waits for the changelog can be collected."""

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
FOLDERS = (".", "dkdist", "docs", "deploy")  # what paths are counted from
FOLDER = r"\b(?:dkdist|tests|docs|benchmarks|examples|deploy|changes)/[\w./-]*"
FILE = r"[\w./-]*\w\.(?:pyi?|md|png|sh|toml|yaml)\b"
MADE_UP = {
    "dkdist/embeddings/extremes.py",  # what the page on adding an embedding adds
    "dkdist/numba",  # in ~/.cache
    "train.py",  # what the recipes for clusters run
    *("x.py", "x_params.py", "_x_numba.py"),  # the three files of any subject
}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: Path(page).name)
def test_paths_are_there(page):
    text = (ROOT / page).read_text()
    named = {path.rstrip(".") for path in re.findall(f"(?:{FOLDER}|{FILE})", text)} - MADE_UP
    assert not [path for path in named if not any((ROOT / folder / path).exists() for folder in FOLDERS)]


def test_packages_of_the_architecture_are_there():
    text = (ROOT / "docs/architecture.md").read_text()
    packages = re.findall(r"^\| `(\w+)/` \|", text, re.MULTILINE)
    folders = {path.parent.name for path in (ROOT / "dkdist").glob("*/__init__.py")}
    assert sorted(packages) == sorted(folders)


def test_changes_are_named_as_they_are_collected():
    names = [path.name for path in (ROOT / "changes").iterdir() if path.name != "README.md"]
    assert all(re.fullmatch(r"\+[\w-]+\.(added|changed|fixed|removed)\.md", name) for name in names)
