"""Work that is no block of rows: one task for each of a few things, on whichever scheduler is active."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dkdist.execution.blocks import Blocks, call_recipe
from dkdist.execution.mapping import collect
from dkdist.execution.progress import Progress


def map_pieces(
    function: Callable[[Any], Any],
    pieces: Sequence[Any],
    *,
    label: str,
    progress: Progress,
    local: bool = False,
) -> list[Any]:
    """``[function(piece) for piece in pieces]``, each in a task; ``local`` pieces never leave this process."""
    recipes = [call_recipe((label, i), _same, piece) for i, piece in enumerate(pieces)]
    blocks = Blocks(label, np.arange(len(pieces) + 1), recipes, local=local, unit="piece")
    return collect(blocks, _Alone(function), label=label, progress=progress)


@dataclass(frozen=True)
class _Alone:
    """Calls a function with a block and without an extra."""

    function: Callable[[Any], Any]

    def __call__(self, piece: Any, _: Any) -> Any:
        return self.function(piece)


def _same(piece: Any) -> Any:
    return piece
