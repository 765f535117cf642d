"""Predictions as a table, one row a set, and how it is written: CSV, Parquet, or arrays of NumPy."""

from __future__ import annotations

import csv
import io
import re
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, TextIO

import numpy as np
from numpy.typing import NDArray

from dkdist._utils.files import atomic_file
from dkdist.cli.output import require_output_file
from dkdist.cli.text import escape_controls

STANDARD_OUTPUT = "-"
FORMULA = re.compile(r"[=+\-@\t\r\n]")
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


class Predictions(NamedTuple):
    """What was predicted of sets: (n,) ids, (n,) or (n, k) predictions, and (n, n_classes) probabilities or None."""

    ids: NDArray[Any]
    predicted: NDArray[Any]
    probabilities: NDArray[Any] | None
    classes: NDArray[Any] | None

    @property
    def columns(self) -> dict[str, NDArray[Any]]:
        """The columns of the table by name, the ids first."""
        columns = {"set": self.ids, **_number_columns("prediction", self.predicted)}
        if self.probabilities is not None and self.classes is not None:
            named = zip(self.classes.tolist(), self.probabilities.T, strict=True)
            columns |= {f"probability_{one}": values for one, values in named}
        return columns


def _number_columns(name: str, values: NDArray[Any]) -> dict[str, NDArray[Any]]:
    return {name: values} if values.ndim == 1 else {f"{name}_{j}": v for j, v in enumerate(values.T)}


def check_output(output: str, *, probabilities: bool, overwrite: bool) -> None:
    """Refuse, before any work, an output that could not be written or would replace a file."""
    if output == STANDARD_OUTPUT:
        return
    suffix = Path(output).suffix
    if suffix not in _WRITERS:
        raise ValueError(
            f"{output} ends in {suffix!r}: expected one of {', '.join(_WRITERS)}, or - for standard output"
        )
    if suffix == ".npy" and probabilities:
        raise ValueError(
            f"{output} holds one array, the predictions: with --probabilities write .npz, .csv or .parquet"
        )
    if suffix == ".parquet" and find_spec("pyarrow") is None:
        raise ImportError("Parquet is written with pyarrow: pip install 'dkdist[frames]'")
    require_output_file("--output", output, overwrite=overwrite)


def write_predictions(output: str, found: Predictions, *, overwrite: bool) -> None:
    """Write the table to a file, whole or not at all, or to standard output."""
    if output == STANDARD_OUTPUT:
        _write_lines(sys.stdout, found)
        return
    with atomic_file(output, overwrite=overwrite) as file:
        _WRITERS[Path(output).suffix](file, found)


def _write_lines(text: TextIO, found: Predictions) -> None:
    is_console = text is sys.stdout
    writer = csv.writer(text, lineterminator="\n" if is_console else "\r\n")

    def cell(value: Any) -> Any:
        if not isinstance(value, str):
            return value
        return quote_formula(escape_controls(value) if is_console else value)

    columns = found.columns
    writer.writerow(map(cell, columns))
    for row in zip(*(values.tolist() for values in columns.values()), strict=True):
        writer.writerow(map(cell, row))


def quote_formula(text: str) -> str:
    """Return text with a leading apostrophe where a spreadsheet would evaluate it as a formula."""
    return f"'{text}" if FORMULA.match(text) and not NUMBER.fullmatch(text) else text


def _write_csv(file: BinaryIO, found: Predictions) -> None:
    with io.TextIOWrapper(file, encoding="utf-8", newline="") as text:
        _write_lines(text, found)


def _write_parquet(file: BinaryIO, found: Predictions) -> None:
    import pyarrow as pa  # takes a while
    import pyarrow.parquet as pq

    columns = {name: pa.array(np.ascontiguousarray(values)) for name, values in found.columns.items()}
    pq.write_table(pa.table(columns), file)


def _write_npz(file: BinaryIO, found: Predictions) -> None:
    more = {} if found.probabilities is None else {"probabilities": found.probabilities}
    if found.classes is not None and found.classes.dtype != object:
        more["classes"] = found.classes
    np.savez(file, allow_pickle=False, ids=found.ids, prediction=found.predicted, **more)


_WRITERS: dict[str, Callable[[BinaryIO, Predictions], None]] = {
    ".csv": _write_csv,
    ".npz": _write_npz,
    ".npy": lambda file, found: np.save(file, found.predicted, allow_pickle=False),
    ".parquet": _write_parquet,
}
