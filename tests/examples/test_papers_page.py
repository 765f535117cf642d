"""The map of the papers names only public names, tests and scripts that exist, and figures of every script."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import Any

import pytest

import dkdist as dk

ROOT = Path(__file__).parents[2]
EVIDENCE = re.compile(r"`([\w/]+(?:\.py)?)`")


@pytest.fixture
def papers(monkeypatch: pytest.MonkeyPatch) -> Any:
    for folder in ("benchmarks", "benchmarks/papers"):
        monkeypatch.syspath_prepend(str(ROOT / folder))
    return importlib.import_module("all")


def test_rows_name_existing_tests_and_scripts(papers: Any) -> None:
    rows = papers.table_rows(papers.PAGE.read_text())
    assert len(rows) > 50
    for place, _, evidence, published, _, same in rows:
        files = EVIDENCE.findall(evidence)
        assert files, place
        for file in files:
            assert (ROOT / file).exists(), f"{place}: {file}"
        assert bool(same) or not published, f"{place}: say whether the experiment is the same"


def test_rows_name_public_names(papers: Any) -> None:
    for place, names, *_ in papers.table_rows(papers.PAGE.read_text()):
        for name in re.findall(r"`(?!\")([A-Z]\w+|[a-z]\w+(?=[(`]))", names):
            assert hasattr(dk, name), f"{place}: {name}"


def test_every_script_of_the_page_runs(papers: Any) -> None:
    rows = papers.table_rows(papers.PAGE.read_text())
    scripts = {name for row in rows for name in re.findall(r"`benchmarks/papers/(\w+\.py)`", row[2])}
    assert scripts - {"d3.py"} == papers.FIGURES.keys()


def test_a_script_without_its_data_is_reported(
    papers: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("DKDIST_DATA", str(tmp_path))
    text, report = papers.run_script("scenes.py", quick=True)
    assert report is None
    assert "scene15.tar" in text or "No module named" in text
