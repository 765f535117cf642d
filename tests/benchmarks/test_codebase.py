"""Figures of the code: what counts as a token, a constant and a cycle; limits of frames and files of calls."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path
from types import ModuleType

import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def codebase(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(FOLDER))
    return importlib.import_module("codebase")


def test_tokens_are_counted_without_docstrings_comments_and_layout(codebase: ModuleType) -> None:
    text = '"""Docstring."""\n\n\ndef f(x):  # comment\n    """Docstring."""\n    return f"{x + 1:{x}} a {x!r}"\n'
    assert codebase.n_tokens(text) == len(["def", "f", "(", "x", ")", ":", "return", "f-string"])
    assert codebase.n_tokens("x = 'a'\n'b'\n") == 4  # a string that is no docstring


def test_constants_with_a_source_are_those_whose_comment_names_it(codebase: ModuleType) -> None:
    text = "A = 1\n# Kohavi (1995)\nB = 10\nC = f32(2 * A)  # python benchmarks/speed.py\nD, E = 2**20, 'text'\nf = 3\n"
    result = list(codebase.constants_of(ast.parse(text)))
    assert [name for name, _, value in result if codebase.is_number(value)] == ["A", "B", "C", "D"]
    assert [codebase.cites_source(statement, text.splitlines()) for _, statement, _ in result] == [
        False,
        True,
        True,
        False,
        False,
    ]


def test_cycles_are_of_files_that_import_each_other(codebase: ModuleType) -> None:
    texts = {
        "p": "",
        "p.a": "import p.b\nfrom p import c",
        "p.b": "def f():\n    from p.a import f",
        "p.c": "from p.d import f",
        "p.d": "if TYPE_CHECKING:\n    import p.c",
    }
    trees = {name: ast.parse(text) for name, text in texts.items()}
    assert codebase.import_cycles(trees, in_functions=False) == []
    assert codebase.import_cycles(trees, in_functions=True) == [["p.a", "p.b"]]


def test_no_file_imports_itself_through_others(codebase: ModuleType) -> None:
    figures = codebase.measure_files()
    assert figures["cycles_at_import"] == []
    assert len(figures["cycles_with_functions"]) <= 2


@pytest.mark.parametrize(
    ("name", "n_frames", "n_files"),
    [
        ("five lines from a store", 25, 55),
        ("kernel_distance", 9, 10),
        pytest.param("SetClassifier", 21, 92, marks=pytest.mark.slow),
    ],
)
def test_calls_go_through_few_frames_and_files(
    codebase: ModuleType, tmp_path: Path, name: str, n_frames: int, n_files: int
) -> None:
    """To follow a call is to read the files of which a function is called, not all that are imported."""
    call = codebase.traced_calls(tmp_path)[name]
    call()  # imports and compiles
    trace = codebase.trace_call(call)
    assert trace.n_frames <= n_frames
    assert len(trace.files) <= n_files, sorted(trace.files)
