"""What every source of an import gives: a few whole sets at a time."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

from dkdist import SampleSets


@dataclass(frozen=True)
class Batch:
    """Whole sets with their targets and ids."""

    sets: SampleSets
    targets: dict[str, NDArray[Any]] = field(default_factory=dict)
    ids: NDArray[Any] | None = None
