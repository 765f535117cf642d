"""Records that a model file may hold: each says so where it is defined, and only those are ever made again.

A record is a frozen dataclass, a NamedTuple, or a subclass of list. A loaded field must be what its annotation says. A
method ``check_loaded`` raises ValueError for fields that do not fit each other.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any, TypeVar

T = TypeVar("T")

KEPT: dict[str, type] = {}
"""By name: those whose modules are imported."""


def kept(record: type[T]) -> type[T]:
    """Let model files hold this record of plain numbers, arrays and other records, under its name."""
    KEPT[record.__name__] = record
    return record


def field_names(record: Any) -> tuple[str, ...]:
    """Names of the fields of a dataclass or NamedTuple; none of a list."""
    if is_dataclass(record):
        return tuple(field.name for field in fields(record))
    return tuple(getattr(record, "_fields", ()))
