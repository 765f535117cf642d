"""Golden cases: calls of the public interface with fixed inputs, and comparison of their results with stored arrays.

A case returns a mapping from names to arrays. Integers, booleans and text must be equal. Floating-point rows agree if

    |x - golden| <= tolerance * ||golden||_2      for every entry x of the row,

where a row is everything behind the first axis, and the whole array if it has one axis. With ``by_entry`` every entry
is a row. Long rows are stored as a summary: their norm, projections on fixed unit vectors, and the first entries. All
three change by at most ||error||_2, so that the bound is the same. Of many rows some are stored, evenly spaced.
"""

from __future__ import annotations

from binascii import crc32
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

FOLDER = Path(__file__).parent
ARCHIVES = ("arrays", "hypothesis_tests")
UNIT_ROUNDOFF_FLOAT32 = 2.0**-24
RELATIVE_TOL_FLOAT64 = 1e-9
MAX_ROWS = 24  # rows of an array that are compared
MAX_ENTRIES = 16  # longer rows are summarized
N_FIRST_ENTRIES = 6
N_PROJECTIONS = 4


@dataclass(frozen=True)
class Tolerance:
    """Largest difference of an entry, relative to the norm of its row, and the derivation of that number."""

    relative: float
    reason: str
    by_entry: bool = False


def float32(n_operations: float, reason: str, *, condition: float = 1.0, by_entry: bool = False) -> Tolerance:
    """Rounding of ``n_operations`` successive float32 operations, amplified by ``condition``."""
    text = f"{n_operations:g} float32 operations, condition {condition:g}: {reason}"
    return Tolerance(n_operations * condition * UNIT_ROUNDOFF_FLOAT32, text, by_entry)


def float64(reason: str, *, condition: float = 1.0, by_entry: bool = False) -> Tolerance:
    """Rounding of float64 arithmetic: 1e-9, amplified by ``condition``."""
    text = f"float64, condition {condition:g}: {reason}"
    return Tolerance(condition * RELATIVE_TOL_FLOAT64, text, by_entry)


def approximation(relative: float, reason: str, *, by_entry: bool = False) -> Tolerance:
    """An error that the called function itself allows, such as a stopping rule."""
    return Tolerance(relative, reason, by_entry)


EXACT = Tolerance(0.0, "integers, text, and numbers that are copied without arithmetic")


@dataclass(frozen=True)
class Case:
    """A call of the public interface. ``forms`` are the kinds of input that it takes."""

    name: str
    compute: Callable[[Any], Mapping[str, Any]]
    tolerance: Tolerance
    forms: tuple[str, ...]
    archive: str


CASES: dict[str, Case] = {}
ALL_FORMS = ("memory", "store", "workers")
IN_MEMORY = ("memory",)
LAZY = ("store", "workers")  # the blocks of a store decide the result


def case(
    tolerance: Tolerance,
    *,
    name: str | None = None,
    forms: tuple[str, ...] = ALL_FORMS,
    archive: str = "arrays",
) -> Callable[[Callable[[Any], Mapping[str, Any]]], Callable[[Any], Mapping[str, Any]]]:
    """Register a function of the inputs as a case, by default under its own name."""

    def register(compute: Callable[[Any], Mapping[str, Any]]) -> Callable[[Any], Mapping[str, Any]]:
        key = name or compute.__name__
        assert key not in CASES, key
        CASES[key] = Case(key, compute, tolerance, forms, archive)
        return compute

    return register


def concrete(value: Any) -> NDArray[Any]:
    """A NumPy array of a result, computed where it is lazy."""
    array = np.asarray(value.compute() if hasattr(value, "compute") else value)
    return array.astype(str) if array.dtype.kind == "O" else array


def evenly_spaced(length: int, limit: int) -> NDArray[np.intp]:
    """At most ``limit`` positions, among them the first and the last."""
    return np.linspace(0, length - 1, min(length, limit)).astype(np.intp)


def summarize(value: Any, key: str, *, is_exact: bool) -> dict[str, NDArray[Any]]:
    """What is stored of an array: its dtype and shape, and some of its entries or a summary of its rows."""
    array = concrete(value)
    dtype = "text" if array.dtype.kind == "U" else array.dtype.name
    description = {f"{key}/description": np.array(f"{dtype} {array.shape}")}
    if array.dtype.kind != "f":
        if array.size > MAX_ROWS * MAX_ENTRIES:
            array = np.array(crc32(np.ascontiguousarray(array).tobytes()))
        return {**description, f"{key}/entries": array}
    rows = (array.reshape(len(array), -1) if array.ndim > 1 else array.reshape(1, -1)).astype(np.float64)
    rows = rows[evenly_spaced(len(rows), MAX_ROWS)]
    if rows.shape[1] > MAX_ENTRIES and is_exact:  # sums would be rounded
        rows = rows[:, evenly_spaced(rows.shape[1], MAX_ENTRIES)]
    elif rows.shape[1] > MAX_ENTRIES:
        directions = np.random.default_rng(rows.shape[1]).normal(size=(rows.shape[1], N_PROJECTIONS))
        projections = rows @ (directions / np.linalg.norm(directions, axis=0))
        norms = np.linalg.norm(rows, axis=1, keepdims=True)
        rows = np.concatenate([norms, projections, rows[:, :N_FIRST_ENTRIES]], axis=1)
        return {**description, f"{key}/summary": rows}
    return {**description, f"{key}/entries": rows}


def summaries(chosen: Case, results: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
    """What is stored of all results of a case."""
    stored: dict[str, NDArray[Any]] = {}
    for name, value in results.items():
        stored.update(summarize(value, f"{chosen.name}/{name}", is_exact=chosen.tolerance.relative == 0))
    return stored


def differences(
    chosen: Case, results: Mapping[str, Any], golden: Mapping[str, NDArray[Any]]
) -> Iterable[str]:
    """Descriptions of all results that differ from the golden ones by more than the tolerance of the case."""
    tolerance, current = chosen.tolerance, summaries(chosen, results)
    expected_keys = {key for key in golden if key.startswith(f"{chosen.name}/")}
    if current.keys() != expected_keys:
        yield f"results {sorted(current.keys() ^ expected_keys)} are new or missing"
    for key in sorted(current.keys() & expected_keys):
        actual, expected = current[key], golden[key]
        if actual.shape != expected.shape or expected.dtype.kind != "f":
            if not np.array_equal(actual, expected):
                yield f"{key}: {actual} instead of {expected}"
            continue
        if tolerance.by_entry:
            scale = np.abs(expected)
        elif key.endswith("/summary"):
            scale = expected[:, :1]
        else:
            scale = np.linalg.norm(expected, axis=1, keepdims=True)
        is_equal = (actual == expected) | (np.isnan(actual) & np.isnan(expected))
        error = np.where(is_equal, 0, np.abs(actual - expected))
        if not (error <= tolerance.relative * scale).all():
            largest = (error / np.where(scale > 0, scale, 1)).max()
            yield f"{key}: relative difference {largest:.3g}, tolerance {tolerance.relative:.3g} ({tolerance.reason})"


def load(archive: str) -> dict[str, NDArray[Any]]:
    """The golden arrays of an archive."""
    with np.load(FOLDER / f"{archive}.npz") as file:
        return dict(file)
