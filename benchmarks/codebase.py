"""Size and structure of the code: tokens, files, deepest stacks, import cycles, constants without a source.

    python benchmarks/codebase.py [--quick] [--json results.json]

Counts the package that Python imports; ``PYTHONPATH`` chooses another version of it. --quick omits the calls.

- Tokens: names, numbers, operators and strings of ``tokenize``, without docstrings, comments and layout. An f-string
  counts as one token on every Python.
- Functions: every ``def``, nested ones and methods included.
- Constants: upper-case names that a module assigns at its top level.
- Constants without a source: those whose value is a number (a literal, arithmetic with other constants, a conversion
  such as ``f32(2.0)``), outside of a ``_tuning.py``, with no comment that cites a source on their lines or directly
  above: a path, a command, an address, a year of publication, a theorem, a section or an equation.
- Import cycles: strongly connected components of more than one file in the graph of imports, first of imports at
  module level only, then including those inside functions. Imports under ``if TYPE_CHECKING`` do not count.
- Frames and files of a call: the maximum number of frames of the package on one stack, and the files with a called
  function, in all threads, during the second call in a process, when everything is imported and compiled.
"""

from __future__ import annotations

import argparse
import ast
import io
import json
import re
import sys
import tempfile
import threading
import tokenize
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components
from sklearn.pipeline import make_pipeline

import dkdist as dk

PACKAGE = Path(dk.__file__).parent
COUNTED = {tokenize.NAME, tokenize.NUMBER, tokenize.OP, tokenize.STRING}
CONSTANT = re.compile(r"_?[A-Z][A-Z0-9_]*")
SOURCE = re.compile(
    r"https?://|\bdoi\b|arXiv|\b(?:19\d\d|20[0-3]\d)\b|[\w/]+\.(?:py|md)\b|\bpython "
    r"|\b(?:[Tt]heorem|[Pp]roposition|[Ll]emma|[Ss]ection|[Ee]quation)\b"
)
CONVERSIONS = {
    "float",
    "int",
    "f32",
    "f64",
    "i64",
    "u64",
    "float32",
    "float64",
    "uint64",
    "sqrt",
    "exp",
    "log",
    "log2",
}


class CallTrace(NamedTuple):
    """Maximum number of frames of the package on one stack, and the files with a called function."""

    n_frames: int
    files: set[str]


def trace_call(call: Callable[[], object]) -> CallTrace:
    """Run ``call`` and count frames and files of the package, in all threads."""
    frames, files = 0, set()

    def is_counted(frame: FrameType) -> bool:
        code = frame.f_code
        return code.co_name != "<module>" and Path(code.co_filename).is_relative_to(PACKAGE)

    def record(frame: FrameType, event: str, _: object) -> None:
        nonlocal frames
        if event == "call" and is_counted(frame):
            files.add(str(Path(frame.f_code.co_filename).relative_to(PACKAGE)))
            frames = max(frames, sum(map(is_counted, stack_of(frame))))

    # the former: Python 3.12
    profile_threads = getattr(threading, "setprofile_all_threads", threading.setprofile)
    profile_threads(record)
    sys.setprofile(record)
    try:
        call()
    finally:
        sys.setprofile(None)
        profile_threads(None)
    return CallTrace(frames, files)


def stack_of(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


def traced_calls(folder: Path) -> dict[str, Callable[[], object]]:
    """Return the calls whose frames and files are counted; ``folder`` gets a small store."""
    rng = np.random.default_rng(0)
    path, y = str(folder / "bags.zarr"), rng.integers(0, 2, 1000)
    dk.write_sets(path, [rng.random((50, 2)) ** (1 + 0.5 * label) for label in y], targets=y)
    sets, labels = list(rng.standard_normal((60, 200, 10))), np.arange(60) % 2
    P, Q = rng.random((2, 9000, 2))

    def five_lines() -> object:
        sets = dk.open_sets(path)
        y = sets.targets["y"]
        model = make_pipeline(
            dk.DivergenceEmbedding("jensen-shannon"),
            dk.RandomFourierFeatures(5000, random_state=0),
            dk.IncrementalSGDClassifier(n_epochs=5, random_state=0),
        )
        return model.fit(sets[:900], y[:900]).score(sets[900:], y[900:])

    return {
        "five lines from a store": five_lines,
        "SetClassifier": lambda: dk.SetClassifier(random_state=0).fit(sets, labels),
        "kernel_distance": lambda: dk.kernel_distance(P, Q, sigma=0.1),
    }


def n_tokens(text: str) -> int:
    """Return the number of tokens of a source without docstrings; an f-string is one token."""
    docstrings = {
        (node.body[0].lineno, node.body[0].col_offset)
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and ast.get_docstring(node, clean=False) is not None
    }
    count = depth = 0
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        kind = tokenize.tok_name[token.type]
        depth += kind == "FSTRING_START"  # Python >= 3.12; earlier versions have one STRING
        is_counted = token.type in COUNTED and token.start not in docstrings
        count += is_counted if depth == 0 else kind == "FSTRING_END" and depth == 1
        depth -= kind == "FSTRING_END"
    return count


def constants_of(tree: ast.Module) -> Iterator[tuple[str, ast.stmt, ast.expr]]:
    """Yield (name, statement, value) of the upper-case names that a module assigns."""
    for statement in tree.body:
        if not isinstance(statement, ast.Assign | ast.AnnAssign) or statement.value is None:
            continue
        value = statement.value
        for target in getattr(statement, "targets", None) or [statement.target]:
            targets = target.elts if isinstance(target, ast.Tuple) else [target]
            values = (
                value.elts if isinstance(value, ast.Tuple) and len(targets) > 1 else [value] * len(targets)
            )
            for name, element in zip(targets, values, strict=True):
                if isinstance(name, ast.Name) and CONSTANT.fullmatch(name.id):
                    yield name.id, statement, element


def is_number(value: ast.expr) -> bool:
    """Return whether an expression is a number."""
    match value:
        case ast.Constant():
            return type(value.value) in (int, float)
        case ast.UnaryOp():
            return is_number(value.operand)
        case ast.BinOp():
            return not isinstance(value.op, ast.BitOr) and is_number(value.left) and is_number(value.right)
        case ast.Name():
            return CONSTANT.fullmatch(value.id) is not None
        case ast.Attribute():
            return value.attr in ("pi", "e", "inf")
        case ast.IfExp():
            return is_number(value.body) and is_number(value.orelse)
        case ast.Call():
            name = ast.unparse(value.func).rpartition(".")[2]
            return name in CONVERSIONS and all(map(is_number, value.args))
    return False


def cites_source(statement: ast.stmt, lines: list[str]) -> bool:
    """Return whether a comment on the lines of a statement, or directly above, cites a source."""
    first = statement.lineno - 1
    while first and lines[first - 1].startswith("#"):
        first -= 1
    return any(SOURCE.search(line.partition("#")[2]) for line in lines[first : statement.end_lineno])


def imports_of(tree: ast.AST, modules: Iterable[str], in_functions: bool) -> Iterator[str]:
    """Yield those of ``modules`` that a file imports, at module level or anywhere."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in modules)
        elif isinstance(node, ast.ImportFrom):
            names = (f"{node.module}.{alias.name}" for alias in node.names)
            yield from (name if name in modules else node.module for name in names if node.module)
        elif isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        elif in_functions or not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield from imports_of(node, modules, in_functions)


def import_cycles(trees: dict[str, ast.Module], in_functions: bool) -> list[list[str]]:
    """Return groups of modules that import each other, directly or indirectly."""
    index = {module: i for i, module in enumerate(trees)}
    edges = {
        (index[module], index[other])
        for module, tree in trees.items()
        for other in imports_of(tree, index, in_functions)
        if other in index
    }
    rows, columns = np.array(sorted(edges)).T
    graph = csr_array((np.ones(len(rows)), (rows, columns)), shape=(len(trees), len(trees)))
    _, labels = connected_components(graph, connection="strong")
    groups = ([m for m, i in index.items() if labels[i] == label] for label in np.unique(labels))
    return [group for group in groups if len(group) > 1]


def measure_files() -> dict[str, Any]:
    """Return sizes, constants and cycles of the sources."""
    texts = {path: path.read_text() for path in sorted(PACKAGE.rglob("*.py"))}
    trees = {path: ast.parse(text) for path, text in texts.items()}
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    constants = [(path, *constant) for path, tree in trees.items() for constant in constants_of(tree)]
    undocumented = [
        f"{path.relative_to(PACKAGE)}: {name}"
        for path, name, statement, value in constants
        if path.name != "_tuning.py"
        and is_number(value)
        and not cites_source(statement, texts[path].splitlines())
    ]
    modules = {
        ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__"): tree
        for path, tree in trees.items()
    }
    return {
        "lines": sum(text.count("\n") for text in texts.values()),
        "files": len(texts),
        "functions": sum(isinstance(node, functions) for tree in trees.values() for node in ast.walk(tree)),
        "tokens": sum(map(n_tokens, texts.values())),
        "constants": len(constants),
        "constants_without_source": undocumented,
        "cycles_at_import": import_cycles(modules, in_functions=False),
        "cycles_with_functions": import_cycles(modules, in_functions=True),
    }


def measure_calls() -> dict[str, dict[str, Any]]:
    """Return maximum frames and files of the calls, each after one call that compiles."""
    figures = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, call in traced_calls(Path(folder)).items():
            call()
            n_frames, files = trace_call(call)
            figures[name] = {"frames": n_frames, "n_files": len(files), "files": sorted(files)}
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="omit the calls, which compile for a minute")
    parser.add_argument(
        "--json", "--output", type=Path, help="write the figures to this JSON file", metavar="FILE"
    )
    args = parser.parse_args()
    report = measure_files() | {"calls": {} if args.quick else measure_calls()}
    for name in ("lines", "files", "functions", "tokens", "constants"):
        print(f"{name:44}{report[name]:>12,}")
    print(f"{'constants without a source':44}{len(report['constants_without_source']):>12,}")
    print(f"{'import cycles, at import':44}{len(report['cycles_at_import']):>12}")
    print(f"{'import cycles, with imports inside functions':44}{len(report['cycles_with_functions']):>12}")
    for name, row in report["calls"].items():
        print(f"{name + ', frames / files':44}{row['frames']:>7} / {row['n_files']:<2}")
    if args.json is not None:
        args.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
