"""Figures of the code: counts of tokens, constants and import cycles; limits of stack frames and files per call."""

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


def test_tokens_exclude_docstrings_comments_and_layout(codebase: ModuleType) -> None:
    text = '"""Docstring."""\n\n\ndef f(x):  # comment\n    """Docstring."""\n    return f"{x + 1:{x}} a {x!r}"\n'
    assert codebase.n_tokens(text) == len(["def", "f", "(", "x", ")", ":", "return", "f-string"])
    assert codebase.n_tokens("x = 'a'\n'b'\n") == 4  # the string is not a docstring


def test_constants_with_a_source_in_a_comment(codebase: ModuleType) -> None:
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


def test_import_cycles(codebase: ModuleType) -> None:
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


def test_package_has_no_import_cycles(codebase: ModuleType) -> None:
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
def test_calls_use_few_frames_and_files(
    codebase: ModuleType, tmp_path: Path, name: str, n_frames: int, n_files: int
) -> None:
    """Files count if one of their functions is called, not if they are only imported."""
    call = codebase.traced_calls(tmp_path)[name]
    call()  # imports and compiles
    trace = codebase.trace_call(call)
    assert trace.n_frames <= n_frames
    assert len(trace.files) <= n_files, sorted(trace.files)
