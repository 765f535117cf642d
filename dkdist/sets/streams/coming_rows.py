"""Rows that come column by column, some at a time, and are kept as sets keep them; what they came in is forgotten.

A piece of some ten thousand rows is rounded and put in its place while it is in a cache, and its memory serves the
next one. Whatever is unusual - values that are not finite, that float32 does not hold where they are counted from, or
of other dtypes - is not settled here: `kept` says None, and who asks looks at all rows again, and knows what to say.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dkdist.loops.array_types import F32, F64, Array
from dkdist.loops.column_rows import EXACT, fill_rows
from dkdist.plain.room import Room
from dkdist.plain.validation import Columns
from dkdist.sets.origins import OrderedSample, are_kept, sampled_rows, settled_origin
from dkdist.sets.point_checks import CODE_DTYPES


class ComingRows:
    """Places for n rows of d columns, counted from an origin (None for 0), in a room that others share perhaps.

    The rows are those that `kept_points` gives of all that came, bit for bit.
    """

    def __init__(self, n: int, d: int, origin: F64 | None, room: Room | None = None) -> None:
        self.origin = settled_origin(origin)
        self._start = np.zeros(d) if self.origin is None else self.origin
        self._rows, self._n, self._fits = (room or Room()).empty((n, d), np.float32), 0, True
        drawn = sampled_rows(n, d)  # in which order they are looked at changes nothing
        self._drawn = np.sort(drawn)
        self._sample: F64 | None = None
        self._dtypes: list[np.dtype[Any]] = []

    def add(self, columns: Sequence[Array]) -> bool:
        """Take the next rows; whether they, and those before, are as usual."""
        a, b = self._n, self._n + len(columns[0])
        self._n = b
        self._fits = self._fits and b <= len(self._rows) and self._knows([column.dtype for column in columns])
        if self._fits:
            self._note(a, b, columns)
            self._fits = fill_rows(columns, self._start, self._rows[a:b])
        return self._fits

    def kept(self) -> F32 | None:
        """(n, d) the rows; None if anything is unusual."""
        if not self._fits or self._n < len(self._rows):
            return None
        if self._sample is not None and OrderedSample.at(self._sample).crowded(self.origin) is not None:
            return None
        nothing = self.origin is None and not self._rows[:1].any() and not self._rows.any()
        return None if nothing else self._rows

    def _knows(self, dtypes: list[np.dtype[Any]]) -> bool:
        self._dtypes = self._dtypes or dtypes
        codes = len(dtypes) == 1 and dtypes[0] in CODE_DTYPES
        return dtypes == self._dtypes and EXACT.issuperset(dtypes) and not codes

    def _note(self, a: int, b: int, columns: Sequence[Array]) -> None:
        """Keep those of rows a .. b - 1 that are looked at, if float32 may not hold them."""
        given = Columns(columns)
        if self._sample is None and are_kept([given], self.origin):
            return
        if self._sample is None:
            self._sample = np.full((len(self._drawn), len(columns)), np.nan)
        first, last = np.searchsorted(self._drawn, [a, b])
        if first < last:
            self._sample[first:last] = given[self._drawn[first:last] - a]
