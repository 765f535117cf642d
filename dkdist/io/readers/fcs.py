"""Sets from FCS files of cytometers: a data set is a set, an event is a point, channels are the coordinates.

FCS 2.0 to 3.2: text segments, the layout of the events, and the events in linear units. The numbers of events and
channels determine the length of the data segment. Header and text each state its position; the position with this
length is used. An end that is off by one is common and accepted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, BinaryIO, Literal

import numpy as np

from dkdist._numba.arrays import F64, Array
from dkdist._utils.files import open_file, path_name
from dkdist.io._zarr.batches import Outline
from dkdist.io.readers.channel_scales import (
    DEFAULT_COFACTOR,
    SCATTER,
    Spillover,
    check_transform,
    transform_channel,
)
from dkdist.io.readers.files import file_id, require_id_parts
from dkdist.io.readers.table_files import as_names
from dkdist.sets import SampleSets

HEADER_BYTES = 58  # version (6 bytes), spaces (4) and six offsets (8 each); tests/store/test_fcs_format.py
CHUNK_BYTES = 2**24  # bytes decoded at a time, which bounds temporary arrays; tests/store/test_fcs_format.py
MAX_END_ERROR_BYTES = 1  # many instruments write an exclusive end; tests/store/test_fcs_format.py
# segments are usually below 100 kB; parsing needs 50 times the memory (tests/fuzzing/test_formats.py)
MAX_TEXT_BYTES = 2**24
KEYWORD = re.compile(r"\$[A-Za-z0-9_]+")
MAGIC = re.compile(rb"FCS[23]\.\d")
FLOAT_BITS = {"F": 32, "D": 64}
INTEGER_BITS = (8, 16, 32, 64)
ESCAPED = "\ue000"  # placeholder for an escaped delimiter: a private-use character, absent from text


class FCSFormatError(ValueError):
    """Error for a file that violates the standard or uses an unsupported part of it."""


@dataclass(frozen=True)
class DataSet:
    """One data set of a file: keywords, and the byte at which it begins."""

    file: BinaryIO
    file_bytes: int
    begin: int
    header: tuple[int | None, ...]
    text: Mapping[str, str]

    @cached_property
    def n_channels(self) -> int:
        """Number of channels ($PAR)."""
        return self._count("$PAR")

    @cached_property
    def short_names(self) -> list[str]:
        """Names of the detectors ($PnN)."""
        return [self._value(f"$P{i}N") for i in self._channels]

    @cached_property
    def long_names(self) -> list[str]:
        """Names of the stains ($PnS), "" without a stain."""
        return [self.text.get(f"$P{i}S", "") for i in self._channels]

    @cached_property
    def time_index(self) -> int | None:
        """Position of the channel Time; None without one."""
        return next((i for i, name in enumerate(self.short_names) if name.lower() == "time"), None)

    @cached_property
    def dtype(self) -> np.dtype[Any]:
        """Structured dtype of an event, with one field per channel."""
        if self.text.get("$MODE", "L").upper() != "L":
            raise FCSFormatError(f"$MODE must be L (list of events); got {self.text['$MODE']} (histogram)")
        order = _byte_order(self._value("$BYTEORD"))
        return np.dtype([(f"f{i}", order + self._kind(i)) for i in self._channels])

    @cached_property
    def n_events(self) -> int:
        """Number of events ($TOT); without it (FCS 2.0), from the length of the data segment."""
        if "$TOT" in self.text:
            return self._count("$TOT")
        for start, stop in self._stated:
            n, remainder = divmod(stop - start + 1, self.dtype.itemsize)
            if remainder <= MAX_END_ERROR_BYTES:
                return n
        raise FCSFormatError("$TOT must be the number of events if no data segment has complete events")

    @cached_property
    def data_start(self) -> int:
        """Byte of the file at which the events begin."""
        n_bytes = self.n_events * self.dtype.itemsize
        for tolerance in (0, MAX_END_ERROR_BYTES):
            fits = {start for start, stop in self._stated if abs(stop - start + 1 - n_bytes) <= tolerance}
            if len(fits) > 1:
                first, second = sorted(fits)
                raise FCSFormatError(
                    f"header and text must agree where the events begin; got bytes {first} and {second}, both plausible"
                )
            if fits:
                start = self.begin + fits.pop()
                if start + n_bytes > self.file_bytes:
                    raise FCSFormatError(
                        f"it is cut short: it has {self.file_bytes} bytes, but its events end at byte {start + n_bytes}"
                    )
                return start
        stated = " or ".join(f"bytes {start} to {stop}" for start, stop in self._stated) or "no segment"
        raise FCSFormatError(
            f"the data segment must have {n_bytes} bytes for {self.n_events} events of {self.n_channels} channels; got "
            f"{stated}"
        )

    @property
    def next_begin(self) -> int | None:
        """Byte of the file at which the next data set begins; None for the last."""
        step = self._count("$NEXTDATA") if self.text.get("$NEXTDATA") else 0
        if not step:
            return None
        if step < (self.header[1] or HEADER_BYTES) or self.begin + step + HEADER_BYTES > self.file_bytes:
            raise FCSFormatError(
                f"$NEXTDATA must be the offset of another data set; got byte {self.begin + step}, where none can "
                "begin. The file is cut short or damaged"
            )
        return self.begin + step

    def events(self, channels: Sequence[int]) -> F64:
        """Return (n_events, len(channels)) in linear units: with amplification, gain and time step applied."""
        start, scales = self.data_start, [_Scale.of(self, i) for i in channels]
        points = np.empty((self.n_events, len(channels)))
        n_rows = max(1, CHUNK_BYTES // self.dtype.itemsize)
        self.file.seek(start)
        for a in range(0, self.n_events, n_rows):
            b = min(a + n_rows, self.n_events)
            rows = np.frombuffer(self.file.read((b - a) * self.dtype.itemsize), self.dtype)
            if len(rows) < b - a:
                raise FCSFormatError(
                    f"its events end after {a + len(rows)} of {self.n_events}: it is cut short"
                )
            for j, (i, scale) in enumerate(zip(channels, scales, strict=True)):
                points[a:b, j] = scale(rows[f"f{i + 1}"])
        return points

    @property
    def _channels(self) -> range:
        return range(1, self.n_channels + 1)

    @property
    def _stated(self) -> list[tuple[int, int]]:
        """Positions (first, last byte) of the events in text and header, relative to this data set."""
        text = (_integer(self.text.get("$BEGINDATA", "")), _integer(self.text.get("$ENDDATA", "")))
        pairs = [text, self.header[2:4]]
        first_text, last_text = self.header[:2]
        assert first_text is not None
        assert last_text is not None
        return [
            (start, stop)
            for start, stop in pairs
            if start is not None and stop is not None and stop >= start >= HEADER_BYTES
            if not first_text <= start < last_text
        ]

    def _kind(self, i: int) -> str:
        """Return the dtype of channel i without its byte order."""
        name, bits = self._value(f"$P{i}N"), self._value(f"$P{i}B")
        kind = self.text.get(f"$P{i}DATATYPE", self._value("$DATATYPE")).upper()
        if kind in FLOAT_BITS and _integer(bits) == FLOAT_BITS[kind]:
            return f"f{FLOAT_BITS[kind] // 8}"
        if kind == "I" and _integer(bits) in INTEGER_BITS:
            return f"u{int(bits) // 8}"
        kind_name = {"I": "integers", "A": "numbers as text (ASCII)"}.get(kind, f"values of type {kind!r}")
        raise FCSFormatError(
            f"channel {name!r} must hold integers of 8, 16, 32 or 64 bits or floats of 32 or 64 bits; got {kind_name} "
            f"of {bits} bits ($P{i}B)"
        )

    def _count(self, keyword: str) -> int:
        value = _integer(self._value(keyword))
        if value is None or value < 0:
            raise FCSFormatError(f"{keyword} must be a count; got {self.text[keyword]!r:.60}")
        return value

    def _value(self, keyword: str) -> str:
        if not self.text.get(keyword):
            raise FCSFormatError(f"keyword {keyword} is missing")
        return self.text[keyword]


@dataclass(frozen=True)
class _Scale:
    """Conversion of stored values of a channel to linear units."""

    mask: int | None
    decades: float
    log_offset: float
    log_range: float
    factor: float
    divisor: float

    @classmethod
    def of(cls, data: DataSet, i: int) -> _Scale:
        """Return the conversion of channel i, counted from 0; FCSFormatError for unreadable keywords."""
        text, n = data.text, i + 1
        is_time = i == data.time_index
        decades, offset = _numbers(text, f"$P{n}E", "0,0", 2)
        (step,) = _numbers(text, "$TIMESTEP", "1", 1) if is_time else (1.0,)
        (gain,) = (1.0,) if is_time else _numbers(text, f"$P{n}G", "1", 1)
        kind = data.dtype[i]
        is_integer = kind.kind == "u"
        (largest,) = _numbers(text, f"$P{n}R", "0", 1) if is_integer or decades > 0 else (0.0,)
        if decades > 0 and not largest > 0:
            raise FCSFormatError(
                f"$P{n}R must be the positive range of a logarithmic channel; got {text.get(f'$P{n}R')!r}"
            )
        bits = (int(largest) - 1).bit_length() if largest >= 1 else 8 * kind.itemsize
        mask = 2**bits - 1 if is_integer and bits < 8 * kind.itemsize else None
        return cls(mask, decades, offset or 1.0, largest, step, gain or 1.0)

    def __call__(self, values: np.ndarray[Any, Any]) -> F64:
        values = values if self.mask is None else values & np.array(self.mask, values.dtype)
        linear: F64 = values.astype(np.float64)
        with np.errstate(over="ignore"):  # sets with infinite values raise an error later
            if self.decades > 0:
                linear = 10 ** (self.decades * linear / self.log_range) * self.log_offset
            return linear * self.factor / self.divisor


def data_sets(file: BinaryIO) -> Iterator[DataSet]:
    """Iterate over the data sets of a file; reads only the text segments."""
    file_bytes = file.seek(0, 2)
    begin: int | None = 0
    while begin is not None:
        data = _data_set(file, file_bytes, begin)
        yield data
        begin = data.next_begin


def _data_set(file: BinaryIO, file_bytes: int, begin: int) -> DataSet:
    file.seek(begin)
    raw = file.read(HEADER_BYTES)
    if len(raw) < HEADER_BYTES or not MAGIC.match(raw):
        raise FCSFormatError(f"no header of FCS 2.0 to 3.2 at byte {begin}; got {raw[:10]!r}")
    header = tuple(_integer(raw[a : a + 8].decode("latin-1")) for a in range(10, HEADER_BYTES, 8))
    if header[0] is None or header[1] is None or not HEADER_BYTES <= header[0] < header[1]:
        raise FCSFormatError(f"the header must give the position of the text segment; got {raw[10:26]!r}")
    text = _keywords(_segment(file, file_bytes, begin, header[0], header[1]))
    names = ("$BEGINSTEXT", "$ENDSTEXT", "$NEXTDATA")
    first, last, step = (_integer(text.get(name, "")) or 0 for name in names)
    is_inside = not step or last <= step  # prevents many data sets from sharing one large segment
    if is_inside and last > first >= HEADER_BYTES and (first, last) != header[:2]:
        text = _keywords(_segment(file, file_bytes, begin, first, last)) | text
    return DataSet(file, file_bytes, begin, header, text)


def _segment(file: BinaryIO, file_bytes: int, begin: int, first: int, last: int) -> str:
    if last - first >= MAX_TEXT_BYTES:
        raise FCSFormatError(
            f"the text segment must have at most {MAX_TEXT_BYTES} bytes; got {last - first + 1}"
        )
    if begin + last > file_bytes:  # last may be exclusive
        raise FCSFormatError(
            f"it is cut short: it has {file_bytes} bytes, but its text ends at byte {begin + last}"
        )
    file.seek(begin + first)
    raw = file.read(last - first + 1)
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw.decode("latin-1")


def _keywords(text: str) -> dict[str, str]:
    """Return values by keyword; a doubled delimiter is an escape, or (in many files) an empty value."""
    delimiter, body = text[0], text[1:]
    escaped = body.replace(delimiter * 2, ESCAPED).split(delimiter)
    candidates = [[part.replace(ESCAPED, delimiter) for part in escaped], body.split(delimiter)]
    parts = max(candidates, key=lambda parts: sum(KEYWORD.fullmatch(part) is not None for part in parts[::2]))
    pairs = zip(parts[::2], parts[1::2], strict=False)  # a last part without a value is damage or padding
    return {keyword.strip().upper(): value.strip(" \0\r\n\t") for keyword, value in pairs}


def _integer(text: str) -> int | None:
    """Parse an integer of up to 19 digits; None for other text."""
    return int(text) if re.fullmatch(r"\s*[+-]?[0-9]{1,19}\s*", text, re.ASCII) else None


def _numbers(text: Mapping[str, str], keyword: str, default: str, n: int) -> list[float]:
    """Return the n finite numbers of a keyword, or those of ``default`` if it is missing or empty."""
    value = text.get(keyword) or default
    try:
        numbers = [float(part) for part in value.split(",")]
    except ValueError:
        numbers = []
    if len(numbers) != n or not np.isfinite(numbers).all():
        expected = "a number" if n == 1 else f"{n} numbers"
        raise FCSFormatError(f"{keyword} must be {expected}; got {value!r:.60}")
    return numbers


def _byte_order(text: str) -> str:
    order = [_integer(part) for part in text.split(",")]
    ascending = list(range(1, len(order) + 1))
    if order == ascending:
        return "<"
    if order == ascending[::-1]:
        return ">"
    raise FCSFormatError(f"$BYTEORD must be 1,2,3,4 or 4,3,2,1; got {text!r:.60}")


SUFFIXES = (".fcs", ".lmd")


@dataclass(frozen=True)
class CytometryReader:
    """Reader of FCS files (2.0 to 3.2), for `import_sets` or direct use. Each data set of a file is a set.

    The id is the name of the file without its suffix; ids of several data sets in one file end in ``#1``, ``#2``, ...
    Events are in linear units: gain and logarithmic amplification are undone. Compensation and a scale are options.

    Parameters
    ----------
    points : sequence of str, optional
        Channels, by detector (``FL1-A``) or stain (``CD3``). Default: all except the time.
    data_set : int, optional
        Read only this data set of each file, counted from 1; ``.lmd`` files may hold the same events twice.
    id_parts : int, default=1
        Number of trailing path components in the id: with 2, the id of ``plate1/A01.fcs`` is ``plate1/A01``.
    compensation : "none", "file" or data frame, default="none"
        Remove spillover between detectors: with the matrix of each file ($SPILLOVER), or with a pandas data frame
        (stains as rows, detectors as columns, in the same order).
    transform : "none", "arcsinh" or "logicle", default="none"
        Scale of all channels except scatter (``FSC...``, ``SSC...``) and time, after compensation. "logicle" requires
        flowutils (``pip install 'dkdist[cytometry]'``).
    cofactor : float, default=150
        The arcsinh scale is ``arcsinh(x / cofactor)``; 5 is usual for mass cytometry.
    logicle : (t, w, m, a), default=(262144, 0.5, 4.5, 0)
        Top of the linear scale, width of the linear region, number of decades, and additional negative decades.

    Raises
    ------
    ValueError
        When reading: for invalid FCS files, a missing channel, 24-bit integers, and with ``compensation="file"`` for a
        file without a matrix, or whose matrix is singular or names unknown channels. `import_sets` raises
        `SourceError` instead, also for files whose channels or their order differ from the first file.

    Notes
    -----
    The first pass of `import_sets` reads only the text segments. If header and text state different positions of the
    events, the position with the expected length is used. Memory: the chosen channels of one data set, twice;
    with compensation, those of the matrix too. Source: FCS 3.1 standard; logicle: Moore and Parks (2012), Cytometry A
    81A(4):273-277, as in Gating-ML 2.0.

    Examples
    --------
    >>> CytometryReader(["CD3", "CD4"]).points
    ('CD3', 'CD4')
    """

    points: tuple[str, ...] | None = None
    data_set: int | None = None
    id_parts: int = 1
    compensation: Any = "none"
    transform: Literal["none", "arcsinh", "logicle"] = "none"
    cofactor: float = DEFAULT_COFACTOR
    logicle: tuple[float, float, float, float] = (262144.0, 0.5, 4.5, 0.0)

    def __post_init__(self) -> None:
        if self.data_set is not None and (type(self.data_set) is not int or self.data_set < 1):
            raise ValueError(f"data_set must be an int of at least 1; got {self.data_set!r:.200}")
        require_id_parts(self.id_parts)
        object.__setattr__(self, "points", None if self.points is None else as_names("points", self.points))
        parameters = check_transform(self.transform, self.cofactor, self.logicle)
        object.__setattr__(self, "logicle", parameters)
        if hasattr(self.compensation, "columns"):
            object.__setattr__(self, "compensation", Spillover.of_frame(self.compensation))
        is_name = isinstance(self.compensation, str) and self.compensation in ("none", "file")
        if not is_name and not isinstance(self.compensation, Spillover):
            raise ValueError(
                f"compensation must be 'none', 'file' or a pandas DataFrame; got {self.compensation!r:.200}"
            )

    def read(self, path: Any) -> Iterator[tuple[SampleSets, dict[str, Array], Array]]:
        """Iterate over (sets, targets, ids), one data set at a time, without targets."""
        with _opened(path, self.data_set) as selected:
            ids = self._ids(path, selected)
            for k, data in enumerate(selected):
                names, channels = zip(*self._select_channels(path, data), strict=True)
                points = self._events(path, data, channels)
                yield SampleSets(points, [0, len(points)]).labelled(names=names), {}, ids[k : k + 1]

    def outline(self, path: Any) -> Outline:
        """Return numbers of events, ids, form and names."""
        with _opened(path, self.data_set) as selected:
            names = [tuple(name for name, _ in self._select_channels(path, data)) for data in selected]
            sizes = np.array([data.n_events for data in selected if data.data_start], np.int64)
        for k, other_names in enumerate(names):
            if other_names != names[0]:
                raise ValueError(
                    f"data sets 1 and {k + 1} of {path_name(path)} have different channels ({', '.join(names[0])}; "
                    f"{', '.join(other_names)}). Name common channels (points=, --points) or one data set (data_set=, "
                    "--data-set)"
                )
        form = {"points": ("float32", (len(names[0]),)), "ids": ("str", ())} if names else None
        return Outline(sizes, self._ids(path, selected), form, names=names[0] if names else None)

    def _events(self, path: Any, data: DataSet, channels: Sequence[int]) -> F64:
        """Return events (n_events, len(channels)), compensated and transform_channel."""
        short, long = data.short_names, data.long_names
        spillover, detectors = self.compensation, list[int]()
        if isinstance(spillover, str) and spillover == "file":
            try:
                spillover = Spillover.of_keywords(data.text)
            except ValueError as error:
                raise ValueError(f"{path_name(path)} cannot be compensated: {error}") from error
        if isinstance(spillover, Spillover):
            detectors = [_position(path, name, short, long) for name in spillover.names]
        used = list(dict.fromkeys([*channels, *detectors]))
        events = data.events(used)
        if isinstance(spillover, Spillover):
            columns = [used.index(i) for i in detectors]
            events[:, columns] = spillover.compensate(events[:, columns])
        events = events[:, [used.index(i) for i in channels]]
        for j, i in enumerate(channels):
            if i != data.time_index and not SCATTER.match(short[i]):
                events[:, j] = transform_channel(events[:, j], self.transform, self.cofactor, self.logicle)
        return events

    def _ids(self, path: Any, selected: list[DataSet]) -> Array:
        name, n = file_id(path, self.id_parts), len(selected)
        return np.array([name] if n == 1 else [f"{name}#{k + 1}" for k in range(n)], np.str_)

    def _select_channels(self, path: Any, data: DataSet) -> list[tuple[str, int]]:
        """Return (name, position) of each channel that is a coordinate."""
        short, long = data.short_names, data.long_names
        if self.points is None:
            names = [
                b if b and long.count(b) == 1 and b not in short else a
                for a, b in zip(short, long, strict=True)
            ]
            return [(name, i) for i, name in enumerate(names) if i != data.time_index]
        return [(name, _position(path, name, short, long)) for name in self.points]


def _position(path: Any, name: str, short: list[str], long: list[str]) -> int:
    positions = [i for i, both in enumerate(zip(short, long, strict=True)) if name in both]
    if len(positions) != 1:
        channels = ", ".join(f"{a} ({b})" if b else a for a, b in zip(short, long, strict=True))
        count = "no channel" if not positions else f"{len(positions)} channels"
        raise ValueError(f"{path_name(path)} has {count} {name!r}; it has {channels}")
    return positions[0]


@contextmanager
def _opened(path: Any, data_set: int | None) -> Iterator[list[DataSet]]:
    """Open the data sets of a file, or one of them (counted from 1), without empty ones."""
    name = path_name(path)
    with open_file(path) as file:
        try:
            all_sets = list(data_sets(file))
            if data_set is not None and data_set > len(all_sets):
                raise FCSFormatError(
                    f"data_set must be at most {len(all_sets)}, the number of data sets; got {data_set}"
                )
            selected = all_sets if data_set is None else all_sets[data_set - 1 : data_set]
            yield [data for data in selected if data.n_events]
        except FCSFormatError as error:
            raise ValueError(
                f"{name} cannot be read as FCS ({error}). Export it again from the instrument's software"
            ) from error
