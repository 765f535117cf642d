"""Catalogue of an import: the outlines of all sources, and the sources of each part of the new store.

The first pass outlines every source; the sizes determine the offsets of the new store and the rows of each source.
A `Part` is the input of one task of the second pass: a range of rows and the sources that overlap it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from dkdist._numba.arrays import F64, I64, Array
from dkdist.io._zarr.batches import Batch, Form, Outline
from dkdist.io.readers.sources import SourceError, batches_of, source_label
from dkdist.sets import SampleSets
from dkdist.sets.labels import Names


class Part(NamedTuple):
    """Rows start .. stop - 1 of a new store, and their sources, which begin at row ``first_row``."""

    start: int
    stop: int
    first_row: int
    sources: tuple[Any, ...]
    sizes: tuple[I64, ...]
    form: Form
    names: Names | None
    model: str
    """The label of the source that defines the form and the names."""


def part_batches(read: Any, origin: F64 | None, part: Part) -> Iterator[Batch]:
    """Iterate over the batches that overlap a part, in order; raise if they differ from the first pass."""
    row = part.first_row
    for source, sizes in zip(part.sources, part.sizes, strict=True):
        end, n_done = row + int(sizes.sum()), 0
        for batch in batches_of(read, source, origin):
            _require_form(batch.form, source, part.form, part.model)
            _require_names(batch.sets.names, source, part.names, part.model)
            if not np.array_equal(batch.sets.sizes, sizes[n_done : n_done + len(batch.sets)]):
                raise _changed_source_error(source, sizes, n_done, batch.sets)
            n_done, row = n_done + len(batch.sets), row + batch.sets.n_points
            yield batch
            if part.stop <= row < end:
                return
        if n_done < len(sizes):
            raise _changed_source_error(source, sizes, n_done, None)


@dataclass(frozen=True)
class Catalogue:
    """Sources in the order of the store, bounds of their sets, bounds of sets in rows, common form and names."""

    sources: Sequence[Any]
    set_bounds: I64
    edges: I64
    form: Form
    names: Names | None

    @classmethod
    def of(cls, sources: Sequence[Any], outlines: Sequence[Outline]) -> Catalogue:
        """Combine outlines; the first must have a form. Raise for inconsistent sources."""
        form, names, model = outlines[0].form, outlines[0].names, source_label(sources[0])
        assert form is not None
        for source, outline in zip(sources, outlines, strict=True):
            if outline.form is not None:
                _require_form(outline.form, source, form, model)
            _require_names(outline.names, source, names, model)
        set_bounds = np.cumsum([0, *(len(outline.sizes) for outline in outlines)])
        edges = np.cumsum(np.concatenate([[0], *(outline.sizes for outline in outlines)]))
        read = [s if o.source is None else o.source for s, o in zip(sources, outlines, strict=True)]
        result = cls(read, set_bounds, edges, form, names)
        ids = [outline.ids for outline in outlines if outline.ids is not None]
        if len(ids) == len(sources):
            result.require_distinct(np.concatenate(ids))
        return result

    @property
    def row_bounds(self) -> I64:
        """The first row of every source, and the number of all rows."""
        return self.edges[self.set_bounds]

    def part(self, start: int, stop: int) -> Part:
        """Return the part with rows start .. stop - 1."""
        rows = self.row_bounds
        first = int(np.searchsorted(rows, start, side="right")) - 1
        last = int(np.searchsorted(rows, stop))
        cuts = itertools.pairwise(self.set_bounds[first : last + 1])
        sizes = tuple(np.diff(self.edges[a : b + 1]) for a, b in cuts)
        label = source_label(self.sources[0])
        sources = tuple(self.sources[first:last])
        return Part(start, stop, int(rows[first]), sources, sizes, self.form, self.names, label)

    def require_distinct(self, ids: Array) -> None:
        """Raise if two sets have the same id."""
        order = np.argsort(ids, kind="stable")
        owners = np.searchsorted(self.set_bounds, order, side="right") - 1
        duplicates = np.flatnonzero(ids[order[1:]] == ids[order[:-1]])
        if len(duplicates):
            k = int(duplicates[np.argmin(order[duplicates])])
            label, other_label = (source_label(self.sources[owners[i]]) for i in (k, k + 1))
            if owners[k] == owners[k + 1]:
                i, j = (order[[k, k + 1]] - self.set_bounds[owners[k]]).tolist()
                raise SourceError(
                    f"ids must be unique; got {ids[order[[k]]].tolist()[0]!r} for sets {i} and {j} of {label}. Merge "
                    "the points of one set, or use separate ids."
                )
            if label == other_label:
                raise SourceError(f"sources must be unique; got {label} twice.")
            raise SourceError(
                f"a set must lie within one source; got {ids[order[[k]]].tolist()[0]!r} in {label} and in "
                f"{other_label}. Merge its points (if they are files of one table, pass their folder), or use another "
                "id (for instrument files, id_parts=2 or --id-parts 2 adds the name of the folder)."
            )


def _require_form(form: Form, source: Any, expected: Form, first: str) -> None:
    """Raise for a source whose arrays differ from those of the first source."""
    if form == expected:
        return
    name = next(n for n in {**expected, **form} if form.get(n) != expected.get(n))
    raise SourceError(
        f"sources must have equal points, weights, targets and ids; got {_describe_array(form, name)} in "
        f"{source_label(source)} and {_describe_array(expected, name)} in {first}. Convert or omit one of them."
    )


def _require_names(names: Names | None, source: Any, expected: Names | None, first: str) -> None:
    """Raise for a source whose names of dimensions differ from those of the first source."""
    if names is not None and expected is not None and names != expected:
        raise SourceError(
            f"sources must have equal dimensions; got {', '.join(names)} in {source_label(source)} and "
            f"{', '.join(expected)} in {first}. Use one order (points=, --points), or omit the source."
        )


def _describe_array(form: Form, name: str) -> str:
    title = name.replace("targets/", "target ")
    if name not in form:
        return f"no {title}"
    dtype, shape = form[name]
    return f"{title} of dtype {dtype}" + (f" and trailing shape {shape}" if shape else "")


def _changed_source_error(source: Any, sizes: I64, n_done: int, batch: SampleSets | None) -> SourceError:
    difference = f"{n_done} sets" if batch is None else _difference(sizes[n_done:], batch.sizes, n_done)
    return SourceError(
        f"source {source_label(source)} must return the same sets in each pass; got {len(sizes)} sets in the first and "
        f"{difference} in the second. Use a fixed seed in the reader."
    )


def _difference(expected: I64, sizes: I64, first: int) -> str:
    if len(sizes) > len(expected):
        return f"at least {first + len(sizes)} sets"
    i = int(np.argmax(sizes != expected[: len(sizes)]))
    return f"{sizes[i]} points instead of {expected[i]} in set {first + i}"
