"""Rules of the package structure that `lint-imports` cannot check: names, folders and compiled modules."""

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
    """Yield (module, name) of all imports of a file, at any level."""
    for node in ast.walk(ast.parse((ROOT / path).read_text())):
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                module = f"{node.module}.{alias.name}"
                yield (module, "") if module in MODULES else (str(node.module), alias.name)
        elif isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)


def test_private_names_are_not_imported_from_other_folders() -> None:
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
def test_compiled_modules_import_only_compiled_modules(path: Path) -> None:
    own_imports = [module for module, _ in imports(path) if module.startswith("dkdist")]
    assert [
        m
        for m in own_imports
        if not m.startswith("dkdist._numba.") and not m.endswith(("_numba", "._tuning"))
    ] == []
    assert not {module.split(".")[0] for module, _ in imports(path)} & {
        "dask",
        "distributed",
        "sklearn",
        "zarr",
    }


PRIVATE_MODULES = {  # private modules of other libraries, and the adapter that imports them
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
    package_data = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]
    packages_with_stubs = {
        package.replace(".", "/") for package, files in package_data.items() if "*.pyi" in files
    }
    assert {
        str(path.parent.relative_to(ROOT)) for path in (ROOT / "dkdist").rglob("*.pyi")
    } == packages_with_stubs


def test_public_names_have_examples() -> None:
    """Doctests run the examples."""
    for module in (dkdist, dkdist.datasets, dkdist.plot):
        names = [name for name in dir(module) if not name.startswith("_")]
        public_names = [name for name in names if not isinstance(getattr(module, name), ModuleType)]
        assert public_names
        assert not [name for name in public_names if ">>> " not in (getattr(module, name).__doc__ or "")]


SECTION = re.compile(r"(?:^|\n)(?:Parameters|Attributes|Raises|Warns)\n-+\n(.*?)(?=\n\n|\Z)", re.DOTALL)
NAMES = re.compile(r"[\w*.]+(?:(?:, | or )[\w*.]+)*(?: : .+)?")


def test_docstring_lists_have_indented_descriptions() -> None:
    """Otherwise the documentation shows each line of a description as another parameter."""
    result = []
    for path in FILES:
        for node in ast.walk(ast.parse((ROOT / path).read_text())):
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                for section in SECTION.findall(ast.get_docstring(node) or ""):
                    lines = [line for line in section.split("\n") if not line.startswith(" ")]
                    result += [(str(path), node.name, line) for line in lines if not NAMES.fullmatch(line)]
    assert result == []
