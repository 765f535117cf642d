"""Sets from FCS files of cytometers: a data set is a set, an event is a point, channels are the coordinates."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from dkdist.loops.array_types import Array
from dkdist.plain.files import opened_file, path_name
from dkdist.sets import SampleSets
from dkdist.store.format.batches import Outline
from dkdist.store.importing.fcs_format import DataSet, FCSFormatError, data_sets
from dkdist.store.importing.file_ids import file_id, require_id_parts
from dkdist.store.importing.table_files import as_names

SUFFIXES = (".fcs", ".lmd")


@dataclass(frozen=True)
class CytometryReader:
    """Reads FCS files (2.0 to 3.2), each data set of them a set; a reader for `import_sets`, or used alone.

    The id is the name of the file without its suffix; those of several data sets in one file end in ``#1``, ``#2``,
    and so on. Events are in linear units: gain and logarithmic amplification are undone, compensation is not applied.

    Parameters
    ----------
    points : sequence of str, optional
        The channels, by their short names (``FL1-A``) or by what they measure (``CD3``); by default all but the time.
    data_set : int, optional
        Read this data set of each file alone, counted from 1; ``.lmd`` files may hold the same events twice.
    id_parts : int, default=1
        Take this many last parts of the path as the id: with 2, that of ``plate1/A01.fcs`` is ``plate1/A01``.

    Raises
    ------
    ValueError
        When reading: for files that are no FCS, lack a channel, or hold integers of 24 bits. `import_sets` makes a
        `SourceError` of it, and refuses files whose channels are not those of the first, in the same order.

    Notes
    -----
    An outline reads the text of a file alone. Where header and text state different places of the events, the one
    that has room for all of them counts. Memory: the chosen channels of one data set, twice.

    Examples
    --------
    >>> CytometryReader(["CD3", "CD4"]).points
    ('CD3', 'CD4')
    """

    points: tuple[str, ...] | None = None
    data_set: int | None = None
    id_parts: int = 1

    def __post_init__(self) -> None:
        if self.data_set is not None and (type(self.data_set) is not int or self.data_set < 1):
            raise ValueError(f"data_set must be an int of at least 1; got {self.data_set!r:.200}")
        require_id_parts(self.id_parts)
        object.__setattr__(self, "points", None if self.points is None else as_names("points", self.points))

    def read(self, path: Any) -> Iterator[tuple[SampleSets, dict[str, Array], Array]]:
        """(sets, targets, ids): the data sets one by one, no targets."""
        with _opened(path, self.data_set) as found:
            ids = self._ids(path, found)
            for k, data in enumerate(found):
                names, channels = zip(*self._chosen(path, data), strict=True)
                points = data.events(channels)
                yield SampleSets(points, [0, len(points)]).labelled(names=names), {}, ids[k : k + 1]

    def outline(self, path: Any) -> Outline:
        """Numbers of events, ids, form and names."""
        with _opened(path, self.data_set) as found:
            names = [tuple(name for name, _ in self._chosen(path, data)) for data in found]
            sizes = np.array([data.n_events for data in found if data.data_start], np.int64)
        for k, other in enumerate(names):
            if other != names[0]:
                raise ValueError(
                    f"data sets 1 and {k + 1} of {path_name(path)} have different channels ({', '.join(names[0])}; "
                    f"{', '.join(other)}). Name common channels (points=, --points) or one data set (data_set=, "
                    "--data-set)"
                )
        form = {"points": ("float32", (len(names[0]),)), "ids": ("str", ())} if names else None
        return Outline(sizes, self._ids(path, found), form, names=names[0] if names else None)

    def _ids(self, path: Any, found: list[DataSet]) -> Array:
        one = file_id(path, self.id_parts)
        return np.array([one] if len(found) == 1 else [f"{one}#{k + 1}" for k in range(len(found))], np.str_)

    def _chosen(self, path: Any, data: DataSet) -> list[tuple[str, int]]:
        """(name, position) of each channel that is a coordinate."""
        short, long = data.short_names, data.long_names
        if self.points is None:
            called = [
                b if b and long.count(b) == 1 and b not in short else a
                for a, b in zip(short, long, strict=True)
            ]
            return [(name, i) for i, name in enumerate(called) if i != data.time_index]
        return [(name, _position(path, name, short, long)) for name in self.points]


def _position(path: Any, name: str, short: list[str], long: list[str]) -> int:
    found = [i for i, both in enumerate(zip(short, long, strict=True)) if name in both]
    if len(found) != 1:
        has = ", ".join(f"{a} ({b})" if b else a for a, b in zip(short, long, strict=True))
        many = "no channel" if not found else f"{len(found)} channels"
        raise ValueError(f"{path_name(path)} has {many} {name!r}; it has {has}")
    return found[0]


@contextmanager
def _opened(path: Any, data_set: int | None) -> Iterator[list[DataSet]]:
    """The data sets of a file that have events, or one of them, counted from 1."""
    name = path_name(path)
    with opened_file(path) as file:
        try:
            found = list(data_sets(file))
            if data_set is not None and data_set > len(found):
                raise FCSFormatError(f"it has {len(found)} data sets, and data_set is {data_set}")
            chosen = found if data_set is None else found[data_set - 1 : data_set]
            yield [data for data in chosen if data.n_events]
        except FCSFormatError as error:
            raise ValueError(
                f"{name} cannot be read as FCS ({error}). Export it again from the instrument's software"
            ) from error
