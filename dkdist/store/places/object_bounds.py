"""How many bytes an object of a store can have: a larger one is damaged, or made to fill memory, and is not read."""

from __future__ import annotations

from math import inf

from dkdist.store.refusals import DOCUMENT, MAX_DOCUMENT_BYTES, MAX_TABLE_BYTES


class ObjectBounds:
    """Bounds of a store's objects by their keys; those of chunks follow from the arrays' metadata."""

    def __init__(self) -> None:
        self._max_bytes: dict[str, float] = {}

    def set_chunk_bound(self, name: str, max_bytes: int | None) -> None:
        """Bound the chunks (or shards) of an array; None for chunks of any length."""
        self._max_bytes[name] = inf if max_bytes is None else max_bytes

    def of_array(self, name: str) -> float:
        """The most bytes of a chunk (or shard) of an array; infinity where it is not known."""
        return self._max_bytes.get(name, inf)

    def of_key(self, key: str) -> float:
        """The most bytes of an object; infinity where it is not known."""
        parts = key.split("/")
        if parts[-1] == DOCUMENT:
            return MAX_DOCUMENT_BYTES
        if parts[-1].startswith("table."):
            return MAX_TABLE_BYTES
        if parts[-1].startswith("tail."):  # of any array
            return max(self._max_bytes.values(), default=inf)
        return self.of_array("/".join(parts[: 2 if parts[0] == "targets" else 1]))
