"""The targets of a view: a mapping from names to arrays that are read when asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from numpy.typing import NDArray


class Targets(Mapping[str, NDArray[Any]]):
    """Targets by name; an array is read each time it is asked for, for the chosen sets only."""

    def __init__(self, names: Sequence[str], read: Callable[[str], NDArray[Any]]) -> None:
        self._names, self._read = names, read

    def __getitem__(self, name: str) -> NDArray[Any]:
        if name not in self._names:
            raise KeyError(f"there are no targets {name!r}; the store has {list(self._names)}")
        return self._read(f"targets/{name}")

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __repr__(self) -> str:
        return f"Targets({', '.join(self._names)})"
