"""Table of predictions with one row per set, and its formats: CSV, Parquet and NumPy arrays."""

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
FORMULA_START = re.compile(r"[=+\-@\t\r\n]")
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


class Predictions(NamedTuple):
    """Ids (n,), predictions (n,) or (n, k), and probabilities (n, n_classes) or None of n sets."""

    ids: NDArray[Any]
    predicted: NDArray[Any]
    probabilities: NDArray[Any] | None
    classes: NDArray[Any] | None

    @property
    def columns(self) -> dict[str, NDArray[Any]]:
        """Columns of the table by name; the first are the ids."""
        columns = {"set": self.ids, **_number_columns("prediction", self.predicted)}
        if self.probabilities is not None and self.classes is not None:
            by_class = zip(self.classes.tolist(), self.probabilities.T, strict=True)
            columns |= {f"probability_{label}": values for label, values in by_class}
        return columns


def _number_columns(name: str, values: NDArray[Any]) -> dict[str, NDArray[Any]]:
    return {name: values} if values.ndim == 1 else {f"{name}_{j}": v for j, v in enumerate(values.T)}


def check_output(output: str, *, probabilities: bool, overwrite: bool) -> None:
    """Raise, before any work, for an output that cannot be written or would replace a file."""
    if output == STANDARD_OUTPUT:
        return
    suffix = Path(output).suffix
    if suffix not in _WRITERS:
        raise ValueError(
            f"--output must end in one of {', '.join(_WRITERS)}, or be - for standard output; got {output}"
        )
    if suffix == ".npy" and probabilities:
        raise ValueError(
            f"--output {output} can contain only one array. With --probabilities write .npz, .csv or .parquet"
        )
    if suffix == ".parquet" and find_spec("pyarrow") is None:
        raise ImportError("Parquet files need pyarrow: pip install 'dkdist[frames]'")
    require_output_file("--output", output, overwrite=overwrite)


def write_predictions(output: str, predictions: Predictions, *, overwrite: bool) -> None:
    """Write the table to standard output, or atomically to a file."""
    if output == STANDARD_OUTPUT:
        _write_lines(sys.stdout, predictions)
        return
    with atomic_file(output, overwrite=overwrite) as file:
        _WRITERS[Path(output).suffix](file, predictions)


def _write_lines(text: TextIO, predictions: Predictions) -> None:
    is_console = text is sys.stdout
    writer = csv.writer(text, lineterminator="\n" if is_console else "\r\n")

    def cell(value: Any) -> Any:
        if not isinstance(value, str):
            return value
        return quote_formula(escape_controls(value) if is_console else value)

    columns = predictions.columns
    writer.writerow(map(cell, columns))
    for row in zip(*(values.tolist() for values in columns.values()), strict=True):
        writer.writerow(map(cell, row))


def quote_formula(text: str) -> str:
    """Add a leading apostrophe to text that a spreadsheet would evaluate as a formula."""
    return f"'{text}" if FORMULA_START.match(text) and not NUMBER.fullmatch(text) else text


def _write_csv(file: BinaryIO, predictions: Predictions) -> None:
    with io.TextIOWrapper(file, encoding="utf-8", newline="") as text:
        _write_lines(text, predictions)


def _write_parquet(file: BinaryIO, predictions: Predictions) -> None:
    import pyarrow as pa  # slow to import
    import pyarrow.parquet as pq

    columns = {name: pa.array(np.ascontiguousarray(values)) for name, values in predictions.columns.items()}
    pq.write_table(pa.table(columns), file)


def _write_npz(file: BinaryIO, predictions: Predictions) -> None:
    extra = {} if predictions.probabilities is None else {"probabilities": predictions.probabilities}
    if predictions.classes is not None and predictions.classes.dtype != object:
        extra["classes"] = predictions.classes
    np.savez(file, allow_pickle=False, ids=predictions.ids, prediction=predictions.predicted, **extra)


_WRITERS: dict[str, Callable[[BinaryIO, Predictions], None]] = {
    ".csv": _write_csv,
    ".npz": _write_npz,
    ".npy": lambda file, predictions: np.save(file, predictions.predicted, allow_pickle=False),
    ".parquet": _write_parquet,
}
