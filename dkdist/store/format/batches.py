"""What a new store is written from: outlines of what is to come, and batches of whole sets."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from dkdist.loops.array_types import F64, I64, Array
from dkdist.sets import SampleSets
from dkdist.store.format.new_arrays import form_of
from dkdist.store.format.store_arrays import Columns, Form


class Outline(NamedTuple):
    """What is known of a source before its points are read: the size of every set, perhaps ids, form and the origin of
    its first batch.
    """

    sizes: I64
    ids: Array | None = None
    form: Form | None = None
    origin: F64 | None = None


@dataclass(frozen=True)
class Batch:
    """Some whole sets of a source, in order, with their targets and ids by the arrays' names in a store."""

    sets: SampleSets
    columns: Columns = field(default_factory=dict)

    @property
    def form(self) -> Form:
        """The dtype and trailing shape of every array."""
        return form_of(self.sets, self.columns)
