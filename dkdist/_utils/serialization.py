"""Records that model files may hold, registered by name where they are defined.

A record is a frozen dataclass, a NamedTuple, or a subclass of list. A loaded field must match its annotation. A method
``check_loaded`` raises ValueError for fields that do not fit each other. Registered names are part of the format of
model files: a class may be renamed or moved, but its registered name must not change.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar

T = TypeVar("T")

REGISTRY: dict[str, type] = {}
"""Records by registered name, of all modules that are imported."""

_NAMES: dict[type, str] = {}


def serializable(name: str) -> Callable[[type[T]], type[T]]:
    """Register a record of plain numbers, arrays and other records under a name that model files store."""

    def register(record: type[T]) -> type[T]:
        REGISTRY[name] = record
        _NAMES[record] = name
        return record

    return register


def registered_name(record: type) -> str:
    """Return the registered name of a record, or the name of a class that is not registered."""
    return _NAMES.get(record, record.__name__)


def field_names(record: Any) -> tuple[str, ...]:
    """Return names of the fields of a dataclass or NamedTuple; none of a list."""
    if is_dataclass(record):
        return tuple(field.name for field in fields(record))
    return tuple(getattr(record, "_fields", ()))
