"""Sets from FCS files of cytometers: a file is a set, an event is a point, channels are the coordinates."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from dkdist.loops.array_types import Array
from dkdist.plain.files import path_name
from dkdist.sets import SampleSets
from dkdist.store.format.batches import Outline
from dkdist.store.importing.table_files import as_names

SUFFIXES = (".fcs",)


@dataclass(frozen=True)
class CytometryReader:
    """Reads FCS files (2.0, 3.0, 3.1), each of them a set; a reader for `import_sets`, or used alone.

    The id is the name of the file without its suffix. Events are in linear units: gain and logarithmic amplification
    are undone, compensation is not applied. Needs flowio (``pip install 'dkdist[cytometry]'``).

    Parameters
    ----------
    points : sequence of str, optional
        The channels, by their short names (``FL1-A``) or by what they measure (``CD3``); by default all but the time.

    Raises
    ------
    ValueError
        When reading: for files that are no FCS, or lack a channel. `import_sets` makes a `SourceError` of it, and
        refuses files whose channels are not those of the first, in the same order.

    Notes
    -----
    An outline reads the text of a file alone. Memory: the events of one file, three times.

    Examples
    --------
    >>> CytometryReader(["CD3", "CD4"]).points
    ('CD3', 'CD4')
    """

    points: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "points", None if self.points is None else as_names("points", self.points))

    def read(self, path: Any) -> Iterator[tuple[SampleSets, dict[str, Array], Array]]:
        """(sets, targets, ids): one set, no targets."""
        file = _opened(path)
        names, where = zip(*self._chosen(path, file), strict=True)
        points = file.as_array()[:, list(where)]
        yield SampleSets(points, [0, len(points)]).labelled(names=names), {}, _ids(path)

    def outline(self, path: Any) -> Outline:
        """Number of events, id, form and names."""
        file = _opened(path, only_text=True)
        names = tuple(name for name, _ in self._chosen(path, file))
        form = {"points": ("float32", (len(names),)), "ids": ("str", ())}
        n_events = int(file.event_count)
        sizes = np.array([n_events] if n_events else [], np.int64)
        return Outline(sizes, _ids(path)[: len(sizes)], form, names=names)

    def _chosen(self, path: Any, file: Any) -> list[tuple[str, int]]:
        """(name, position) of each channel that is a coordinate."""
        short = [name.strip() for name in file.pnn_labels]
        long = [name.strip() for name in file.pns_labels]
        if self.points is None:
            called = [
                b if b and long.count(b) == 1 and b not in short else a
                for a, b in zip(short, long, strict=True)
            ]
            return [(name, i) for i, name in enumerate(called) if i != file.time_index]
        return [(name, _position(path, name, short, long)) for name in self.points]


def _position(path: Any, name: str, short: list[str], long: list[str]) -> int:
    found = [i for i, both in enumerate(zip(short, long, strict=True)) if name in both]
    if len(found) != 1:
        has = ", ".join(f"{a} ({b})" if b else a for a, b in zip(short, long, strict=True))
        many = "no channel" if not found else f"{len(found)} channels"
        raise ValueError(f"{path_name(path)} has {many} {name!r}; it has {has}")
    return found[0]


def _opened(path: Any, *, only_text: bool = False) -> Any:
    if find_spec("flowio") is None:
        raise ImportError("reading FCS files needs flowio: pip install 'dkdist[cytometry]'")
    import flowio

    name = path_name(path)
    try:
        with open(name, "rb") as handle:
            return flowio.FlowData(handle, only_text=only_text)
    except (flowio.FCSParsingError, KeyError, UnicodeDecodeError) as error:
        raise ValueError(f"{name} cannot be read as FCS ({error}): expected one whole data set") from error


def _ids(path: Any) -> Array:
    return np.array([Path(path_name(path)).stem])
