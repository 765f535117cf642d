"""FCS files as instruments write them: variants of the standard, and common faults."""

from __future__ import annotations

import numpy as np
import pytest
from zarr.storage import MemoryStore

import dkdist as dk
from dkdist.cli import main

from .fcs_bytes import fcs_bytes

RNG = np.random.default_rng(0)
N = 50
COUNTS = {name: RNG.integers(0, 1000, N).astype("u4") for name in ("FSC-A", "FL1-A")}
FLOATS = {name: RNG.normal(200, 50, N).astype("f4") for name in ("FSC-A", "FL1-A")}
TIMED = {**FLOATS, "Time": np.arange(N, dtype="f4")}


@pytest.fixture
def read(tmp_path):
    """Return a function that writes bytes to a file, imports it, and returns its only set."""

    def read(content, name="a.fcs", **params):
        (tmp_path / name).write_bytes(content)
        sets = dk.import_sets(MemoryStore(), [tmp_path / name], dk.CytometryReader(**params))
        assert len(sets) == 1
        return np.asarray(sets[0])

    return read


def events(columns):
    return np.stack(list(columns.values()), axis=1)


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("kinds", [["u1"], ["u2"], ["u4"], ["u8"], ["f4"], ["f8"], ["u2", "u1", "u4", "u2"]])
def test_events_of_every_type_are_read(read, order, kinds):
    columns = {f"c{i}": RNG.integers(0, 200, N).astype(kind) for i, kind in enumerate(kinds)}
    np.testing.assert_array_equal(read(fcs_bytes(columns, order=order)), events(columns))


@pytest.mark.parametrize(
    "stated",
    [
        {"header_shift": (0, 1), "text_shift": (0, 1)},
        {"header_shift": (0, -1), "text_shift": (0, -1)},
        {"header_shift": (0, 700)},
        {"header_shift": (-30, 0)},
        {"text_shift": (0, 700)},
        {"text_shift": (-30, 0)},
        {"text_shift": None},
        {"header_shift": None},
        {"version": "2.0", "text_shift": None, "header_shift": (0, 1)},
        {"version": "2.0", "text_shift": None, "keywords": {"$TOT": None}},
        {"data_before_text": True},
    ],
)
def test_the_number_of_events_decides_between_stated_offsets(read, stated):
    np.testing.assert_array_equal(read(fcs_bytes(FLOATS, **stated)), events(FLOATS))


def test_two_offsets_that_both_fit_are_refused(read):
    with pytest.raises(
        dk.SourceError, match=r"a\.fcs.* must agree where the events begin; got bytes \d+ and \d+,"
    ):
        read(fcs_bytes(FLOATS, text_shift=(4, 4)))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            {"keywords": {"$P2B": "24"}},
            r"channel 'FL1-A' must hold integers .*; got integers of 24 bits \(\$P2B\)",
        ),
        ({"keywords": {"$DATATYPE": "A"}}, r"channel 'FSC-A' must hold .*; got numbers as text \(ASCII\)"),
        (
            {"keywords": {"$DATATYPE": "F", "$P1B": "64"}},
            r"'FSC-A' must hold .*; got values of type 'F' of 64 bits",
        ),
        ({"keywords": {"$MODE": "C"}}, r"\$MODE must be L .*; got C \(histogram\)"),
        ({"keywords": {"$BYTEORD": "3,4,1,2"}}, r"\$BYTEORD must be 1,2,3,4 or 4,3,2,1; got '3,4,1,2'"),
        ({"keywords": {"$TOT": "51"}}, r"must have 408 bytes for 51 events of 2 channels; got bytes \d+ to"),
        ({"keywords": {"$PAR": "two"}}, r"\$PAR must be a count; got 'two'"),
        ({"keywords": {"$P2N": None}}, r"keyword \$P2N is missing"),
        ({"keywords": {"$NEXTDATA": "999999"}}, "another data set; got byte 999999, where none can begin"),
        ({"keywords": {"$P1E": "4.0,1.0", "$P1R": "0"}}, r"\$P1R must be the positive range of .*; got '0'"),
        ({"keywords": {"$P1G": "high"}}, r"\$P1G must be a number; got 'high'"),
        ({"text_shift": (0, 9), "header_shift": (0, 9)}, r"must have 400 bytes for \d+ events of 2 channels"),
    ],
)
def test_unsupported_files_are_refused_by_name(read, change, words):
    with pytest.raises(dk.SourceError, match=rf"a\.fcs cannot be read as FCS \(.*{words}.*Export it again"):
        read(fcs_bytes(COUNTS, **change))


@pytest.mark.parametrize("n_bytes", [0, 30, 100, 500, -12])
def test_a_file_that_is_cut_short_is_refused(read, n_bytes):
    with pytest.raises(dk.SourceError, match=r"a\.fcs cannot be read as FCS \(.*(cut short|no header)"):
        read(fcs_bytes(COUNTS)[:n_bytes])


def test_invalid_keywords_of_unread_channels_are_ignored(read):
    broken = fcs_bytes(TIMED, keywords={"$TIMESTEP": "none", "$P2G": "high"})
    np.testing.assert_array_equal(read(broken, points=["FSC-A"])[:, 0], FLOATS["FSC-A"])
    with pytest.raises(dk.SourceError, match=r"\$TIMESTEP must be a number; got 'none'"):
        read(broken, points=["Time"])
    np.testing.assert_array_equal(read(fcs_bytes(TIMED, keywords={"$TIMESTEP": "none"})), events(FLOATS))


def test_events_are_in_linear_units(read):
    keywords = {"$TIMESTEP": "0.5", "$P1G": "2.0", "$P2E": "4.0,0", "$P2R": "1024", "$P3G": "9"}
    result = read(fcs_bytes(TIMED, keywords=keywords), points=["FSC-A", "FL1-A", "Time"])
    expected = FLOATS["FSC-A"] / 2, 10 ** (4 * FLOATS["FL1-A"].astype("f8") / 1024), TIMED["Time"] / 2
    np.testing.assert_allclose(result, np.stack(expected, axis=1), rtol=2.0**-23)  # one rounding to float32


def test_bits_beyond_the_range_are_ignored(read):
    columns = {"a": (RNG.integers(0, 1024, N) + 1024).astype("u2"), "b": np.full(N, 4000, "u2")}
    result = read(fcs_bytes(columns, keywords={"$P1R": "1000", "$P2R": "65536"}))
    np.testing.assert_array_equal(result, events({"a": columns["a"] % 1024, "b": columns["b"]}))


@pytest.mark.parametrize("delimiter", ["/", "|", "\\", "*", ".", "^", "\x0c", "\x1e", "!"])
def test_any_delimiter_is_read(read, delimiter):
    keywords = {"$P1S": f"CD3{delimiter}4", "$P2S": "CD8"}
    content = fcs_bytes(COUNTS, keywords={"$BYTEORD": "4,3,2,1", **keywords}, order=">", delimiter=delimiter)
    np.testing.assert_array_equal(read(content, points=[f"CD3{delimiter}4", "CD8"]), events(COUNTS))


def test_empty_keyword_values_are_read(read):
    content = fcs_bytes(COUNTS, keywords={"$P1S": "", "$CYT": "", "$P2G": "2"})
    np.testing.assert_array_equal(read(content), events(COUNTS) / [1, 2])


def test_keywords_of_the_supplementary_text_are_used(read):
    content = fcs_bytes(COUNTS, supplement={"$P1G": "4", "$P1N": "other"})
    np.testing.assert_array_equal(read(content, points=["FSC-A", "FL1-A"]), events(COUNTS) / [4, 1])


@pytest.mark.parametrize("suffix", [".fcs", ".lmd", ".LMD"])
def test_every_data_set_of_a_file_is_a_set(tmp_path, suffix):
    path = tmp_path / f"tube{suffix}"
    other = {name: column[:7] + 1 for name, column in COUNTS.items()}
    path.write_bytes(fcs_bytes(COUNTS, is_last=False) + fcs_bytes(other))
    sets = dk.import_sets(MemoryStore(), [path])
    assert sets.ids.tolist() == ["tube#1", "tube#2"]
    for result, columns in zip(sets, (COUNTS, other), strict=True):
        np.testing.assert_array_equal(result, events(columns))
    second = dk.import_sets(MemoryStore(), [path], dk.CytometryReader(data_set=2))
    assert second.ids.tolist() == ["tube"]
    np.testing.assert_array_equal(second[0], events(other))
    with pytest.raises(dk.SourceError, match="data_set must be at most 2, the number of data sets; got 3"):
        dk.import_sets(MemoryStore(), [path], dk.CytometryReader(data_set=3))
    with pytest.raises(ValueError, match="data_set must be an int of at least 1; got 0"):
        dk.CytometryReader(data_set=0)


def test_data_sets_with_different_channels_require_common_names(tmp_path):
    path = tmp_path / "tube.lmd"
    path.write_bytes(fcs_bytes(COUNTS, is_last=False) + fcs_bytes({"FSC-A": COUNTS["FSC-A"]}))
    words = r"data sets 1 and 2 of .*tube\.lmd have different channels \(FSC-A, FL1-A; FSC-A\)\. Name common"
    with pytest.raises(dk.SourceError, match=words):
        dk.import_sets(MemoryStore(), [path])
    assert len(dk.import_sets(MemoryStore(), [path], dk.CytometryReader(["FSC-A"]))) == 2


def test_ids_may_have_parts_of_the_path(tmp_path):
    paths = [tmp_path / plate / "A01.fcs" for plate in ("plate1", "plate2")]
    for path in paths:
        path.parent.mkdir()
        path.write_bytes(fcs_bytes(COUNTS))
    with pytest.raises(dk.SourceError, match=r"got 'A01' in .*plate1.* and in .*plate2.*id_parts=2"):
        dk.import_sets(MemoryStore(), paths)
    expected = ["plate1/A01", "plate2/A01"]
    assert dk.import_sets(MemoryStore(), paths, dk.CytometryReader(id_parts=2)).ids.tolist() == expected
    store = str(tmp_path / "s.zarr")
    assert main(["import", *map(str, paths), store, "--id-parts", "2"]) == 0
    assert dk.open_sets(store).ids.tolist() == expected
    for reader in (dk.CytometryReader, dk.LidarReader):
        with pytest.raises(ValueError, match="id_parts must be an int of at least 1; got 0"):
            reader(id_parts=0)


def test_an_impossible_offset_of_the_next_data_set_is_refused(read):
    with pytest.raises(dk.SourceError, match="another data set; got byte 1, where none can begin"):
        read(fcs_bytes(COUNTS, keywords={"$NEXTDATA": "1"}))
