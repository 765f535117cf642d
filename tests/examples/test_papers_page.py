"""The map of the papers names only public names, tests and scripts that exist, and figures of every script."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import Any

import pytest

import dkdist as dk

ROOT = Path(__file__).parents[2]
FILE = re.compile(r"`([\w/]+\.py)`")


@pytest.fixture
def papers(monkeypatch: pytest.MonkeyPatch) -> Any:
    for folder in ("benchmarks", "benchmarks/papers"):
        monkeypatch.syspath_prepend(str(ROOT / folder))
    return importlib.import_module("all")


@pytest.fixture
def methods(papers: Any) -> Any:
    return papers.table_rows(papers.PAGE.read_text(), "methods")


@pytest.fixture
def experiments(papers: Any) -> Any:
    return papers.table_rows(papers.PAGE.read_text(), "experiments")


def test_tables_of_all_papers_are_read(papers: Any, methods: Any, experiments: Any) -> None:
    n_table_lines = sum(line.startswith("|") for line in papers.PAGE.read_text().splitlines())
    n_papers, n_tables, n_header_lines = 3, 7, 2
    assert len(methods) + len(experiments) == n_table_lines - n_tables * n_header_lines - n_papers
    assert len(methods) + len(experiments) > 70


def test_methods_name_existing_tests(methods: Any) -> None:
    for place, name, tests in methods:
        files = FILE.findall(tests)
        assert files or name.startswith("not covered: "), place
        assert len(files) == tests.count("`") // 2, place
        for file in files:
            assert re.fullmatch(r"tests/[\w/]+/test_\w+\.py", file), f"{place}: {file}"
            assert (ROOT / file).exists(), f"{place}: {file}"


def test_experiments_name_existing_scripts(papers: Any, experiments: Any) -> None:
    for place, _, _, ours, same, script in experiments:
        (file,) = FILE.findall(script)
        assert (papers.HERE / file).exists(), f"{place}: {file}"
        assert ours, place
        assert same, f"{place}: say whether the experiment is the same"
    assert {FILE.findall(row[-1])[0] for row in experiments} == papers.FIGURES.keys()


def test_rows_name_public_names(methods: Any, experiments: Any) -> None:
    for place, names, *_ in methods + experiments:
        for file in FILE.findall(names):
            assert (ROOT / file).exists(), f"{place}: {file}"
        for name in re.findall(r"`(?!\")([A-Z]\w+|[a-z]\w+(?=[(`]))", names):
            assert hasattr(dk, name), f"{place}: {name}"


def test_a_script_without_its_data_is_reported(
    papers: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("DKDIST_DATA", str(tmp_path))
    text, report = papers.run_script("scenes.py", quick=True)
    assert report is None
    assert "scene15.tar" in text or "No module named" in text
