"""The house is in order: what `lint-imports` cannot say of names, folders, loops and specifications."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

import dkdist

ROOT = Path(__file__).parents[1]
FILES = sorted(path.relative_to(ROOT) for path in (ROOT / "dkdist").rglob("*.py"))
MODULES = {".".join(path.with_suffix("").parts).removesuffix(".__init__") for path in FILES}


def imports(path: Path) -> Iterator[tuple[str, str]]:
    """(module, name) of all that a file imports, wherever it does so."""
    for node in ast.walk(ast.parse((ROOT / path).read_text())):
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                module = f"{node.module}.{alias.name}"
                yield (module, "") if module in MODULES else (str(node.module), alias.name)
        elif isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)


def test_nothing_private_is_known_to_another_folder() -> None:
    result = [
        (str(path), module, name)
        for path in FILES
        for module, name in imports(path)
        if module.startswith("dkdist.")
        and name.startswith("_")
        and module.rpartition(".")[0] != ".".join(path.parent.parts)
    ]
    assert result == []


COMPILED = [path for path in FILES if path.stem.endswith("_numba") or path.parent.name == "_numba"]


@pytest.mark.parametrize("path", COMPILED, ids=str)
def test_compiled_modules_import_compiled_modules_alone(path: Path) -> None:
    ours = [module for module, _ in imports(path) if module.startswith("dkdist")]
    assert [
        m for m in ours if not m.startswith("dkdist._numba.") and not m.endswith(("_numba", "._tuning"))
    ] == []
    assert not {module.split(".")[0] for module, _ in imports(path)} & {
        "dask",
        "distributed",
        "sklearn",
        "zarr",
    }


PRIVATE_MODULES = {  # of other libraries, and the adapter that imports them
    "dask._task_spec": "dkdist/_runtime/_dask_private.py",
    "numba.core": "dkdist/_numba/_numba_private.py",
    "zarr.core": "dkdist/io/_zarr/_zarr_private.py",
}


@pytest.mark.parametrize("module", PRIVATE_MODULES)
def test_private_modules_of_libraries_are_imported_by_one_adapter(module: str) -> None:
    importers = {
        str(path)
        for path in FILES
        for name, _ in imports(path)
        if name == module or name.startswith(f"{module}.")
    }
    assert importers == {PRIVATE_MODULES[module]}


def test_stubs_are_in_the_wheel() -> None:
    message = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]
    kept = {package.replace(".", "/") for package, files in message.items() if "*.pyi" in files}
    assert {str(path.parent.relative_to(ROOT)) for path in (ROOT / "dkdist").rglob("*.pyi")} == kept


def test_every_public_name_says_what_it_is_with_an_example_that_runs() -> None:
    """The examples themselves are run as doctests."""
    for room in (dkdist, dkdist.datasets, dkdist.plot):
        names = [name for name in dir(room) if not name.startswith("_")]
        shown = [name for name in names if not isinstance(getattr(room, name), ModuleType)]
        assert shown
        assert not [name for name in shown if ">>> " not in (getattr(room, name).__doc__ or "")]


SECTION = re.compile(r"(?:^|\n)(?:Parameters|Attributes|Raises|Warns)\n-+\n(.*?)(?=\n\n|\Z)", re.DOTALL)
NAMES = re.compile(r"[\w*.]+(?:(?:, | or )[\w*.]+)*(?: : .+)?")


def test_lists_of_docstrings_are_names_with_their_descriptions_indented() -> None:
    """Otherwise a page shows each line of a description as one more parameter."""
    result = []
    for path in FILES:
        for node in ast.walk(ast.parse((ROOT / path).read_text())):
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                for listed in SECTION.findall(ast.get_docstring(node) or ""):
                    lines = [line for line in listed.split("\n") if not line.startswith(" ")]
                    result += [(str(path), node.name, line) for line in lines if not NAMES.fullmatch(line)]
    assert result == []
