"""Records that a model file may hold: each says so where it is defined, and only those are ever made again."""

from __future__ import annotations

from typing import TypeVar

T = TypeVar("T")

KEPT: dict[str, type] = {}
"""By name: those whose modules are imported."""


def kept(record: type[T]) -> type[T]:
    """Let model files hold this frozen dataclass of plain numbers, under its name."""
    KEPT[record.__name__] = record
    return record
