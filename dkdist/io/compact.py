"""Compaction: rewriting of the sets of a view as parts of a new store with full chunks.

The new store has a new generation, so views of the old store raise when they read and never mix rows of both.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from dkdist._numba.arrays import I64
from dkdist.io._zarr.batches import Batch, Columns, Form, form_of_arrays
from dkdist.io._zarr.location.address import StoreLocation, as_location
from dkdist.io.set_store import SetStore


class ViewPart(NamedTuple):
    """Rows start .. stop - 1 of a new store, and a view of their sets, which begin at row ``first_row``."""

    start: int
    stop: int
    first_row: int
    view: SetStore


@dataclass(frozen=True)
class Copy:
    """View to be written as a new store, and the row bounds of its sets."""

    view: SetStore
    edges: I64

    @classmethod
    def of(cls, view: SetStore) -> Copy:
        """Return the copy of a view; reads the sizes of its sets."""
        if not len(view):
            raise ValueError("store must have at least one set; the view is empty.")
        return cls(view, np.concatenate([[0], np.cumsum(view.sizes)]))

    @property
    def form(self) -> Form:
        """The dtype and trailing shape of every array."""
        form = form_of_arrays(self.view._reader.arrays)
        return form | {"points": (str(self.view.points_dtype), (self.view.n_dims,))}

    @property
    def alphabet(self) -> str | None:
        """Alphabet of string codes, or None."""
        return self.view.alphabet

    def part(self, start: int, stop: int) -> ViewPart:
        """Return the part with rows start .. stop - 1."""
        first = int(np.searchsorted(self.edges, start, side="right")) - 1
        last = int(np.searchsorted(self.edges, stop))
        return ViewPart(start, stop, int(self.edges[first]), self.view[first:last])

    def columns(self) -> Columns:
        """Return all targets and ids of the view."""
        columns = {f"targets/{name}": values for name, values in self.view.targets.items()}
        return columns | ({} if self.view.ids is None else {"ids": self.view.ids})


def view_batches(part: ViewPart) -> Iterator[Batch]:
    """Iterate over the sets of a part, a few megabytes at a time."""
    for block in part.view.blocks():
        yield Batch(block)


def compact_target(view: SetStore, to: Any) -> StoreLocation:
    """Return ``to`` as a location; by default that of the view, a whole store that is replaced atomically."""
    source = view._address
    target = source if to is None else as_location(to)
    if target != source:
        return target
    view._require_whole("compact")
    if not source.replaces_atomically:
        raise ValueError(
            "a store can be compacted in place on a local disk, in a zip file or in an icechunk repository; got "
            f"{source.label}. Pass to=, another location."
        )
    return target
