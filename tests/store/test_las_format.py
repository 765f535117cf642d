"""LAS files written by hand, and LAZ files with invalid headers or damaged compressed bytes."""

from __future__ import annotations

import struct
import time

import numpy as np
import pytest
from zarr.storage import MemoryStore

import dkdist as dk
from dkdist._utils.rust_panics import RustPanicError, panics_as_errors
from dkdist.cli import main
from dkdist.io.readers import lidar as lidar_files

from .las_bytes import las_bytes

laspy = pytest.importorskip("laspy", reason="laspy is not installed: pip install 'dkdist[lidar]'")
CORNER = np.array([500_000.0, 5_400_000.0, 300.0])
CLOUD = np.random.default_rng(0).uniform(0, 100, (500, 3)).round(3)


class PanicException(BaseException):
    """As PyO3 raises it."""


def imported(path, **params):
    return dk.import_sets(MemoryStore(), [path], dk.LidarReader(**params))


@pytest.fixture
def compressed(tmp_path):
    """A LAZ file."""
    las = laspy.LasData(laspy.LasHeader(point_format=3, version="1.2"))
    las.header.scales = np.full(3, 0.001)
    las.x, las.y, las.z = CLOUD.T
    las.write(str(tmp_path / "a.laz"))
    return tmp_path / "a.laz"


@pytest.mark.parametrize("minor", [2, 4])
def test_points_written_by_hand_are_read(tmp_path, monkeypatch, minor):
    monkeypatch.setattr(lidar_files, "CHUNK_POINTS", 64)
    # smaller than the file, so that the buffer grows
    monkeypatch.setattr(lidar_files, "INITIAL_BUFFER_POINTS", 70)
    path = tmp_path / "a.las"
    path.write_bytes(las_bytes(CLOUD + CORNER, intensity=np.arange(500), minor=minor, offset=CORNER))
    result = imported(path, points=["x", "y", "z", "intensity"])[0]
    # 2^-24 of 1000, the distance to the origin
    np.testing.assert_allclose(result[:, :3], CLOUD + CORNER, atol=1e-4)
    np.testing.assert_array_equal(result[:, 3], np.arange(500))


def replaced(content, where, kind, value):
    changed = bytearray(content)
    struct.pack_into(kind, changed, where, value)
    return bytes(changed)


INVALID_HEADERS = [
    (100, "<I", 2**32 - 1, "its header declares 4294967295 variable-length records"),
    (96, "<I", 2**32 - 1, "before its points at byte 4294967295"),
    (107, "<I", 2**32 - 1, "its header declares 4294967295 points"),
    (24, "<B", 9, r"its version must be 1.0 to 1.5, .*; got 9\.2"),
    (0, "<I", 0, r"it must begin with LASF .*; got"),
    (105, "<H", 3, r"(points|point_format)"),
]


@pytest.mark.parametrize(("where", "kind", "value", "words"), INVALID_HEADERS)
@pytest.mark.parametrize("suffix", [".las", ".laz"])
def test_invalid_headers_are_refused_within_a_second(compressed, tmp_path, suffix, where, kind, value, words):
    path = tmp_path / f"b{suffix}"
    content = compressed.read_bytes() if suffix == ".laz" else las_bytes(CLOUD)
    path.write_bytes(replaced(content, where, kind, value))
    begin = time.process_time()
    with pytest.raises(
        dk.SourceError, match=rf"b\{suffix} cannot be read as LAS \(.*{words}.*Write it again"
    ):
        imported(path)
    assert time.process_time() - begin < 1


@pytest.mark.parametrize("minor", [2, 4])
@pytest.mark.parametrize("n_bytes", [0, 3, 100, 226, 374, -1])
def test_files_that_are_cut_short_are_refused(tmp_path, minor, n_bytes):
    path = tmp_path / "a.las"
    path.write_bytes(las_bytes(CLOUD, minor=minor)[:n_bytes])
    with pytest.raises(
        dk.SourceError,
        match=r"a\.las cannot be read as LAS \((it must begin|its header declares|its version)",
    ):
        imported(path)


def test_a_damaged_compression_header_names_the_file(compressed):
    raw = compressed.read_bytes()
    record = raw.find(b"laszip encoded") + 52
    compressed.write_bytes(replaced(replaced(raw, record, "<H", 1), record + 12, "<i", 0))
    with pytest.raises(
        dk.SourceError, match=r"a\.laz cannot be read as LAS \(its compressor must be 2 or 3, .*; got 1"
    ):
        imported(compressed)
    (table,) = struct.unpack_from("<q", raw, struct.unpack_from("<I", raw, 96)[0])
    compressed.write_bytes(replaced(raw, table + 4, "<I", 2**32 - 1))
    with pytest.raises(dk.SourceError, match=r"a\.laz cannot .*but it has 4294967295 chunks of 50000 points"):
        imported(compressed)


@pytest.mark.parametrize("order", [[0, 1], [1, 0]])
@pytest.mark.parametrize("kind", ["las", "function", "sizes", "npz", "csv"])
def test_the_origin_is_chosen_from_all_sources(tmp_path, order, kind):
    clouds = [np.full((1, 3), 0.3) + CORNER, CLOUD[:300] + CORNER]
    reader = SizedClouds(clouds)
    reader = reader if kind == "sizes" else reader.read
    for k, cloud in enumerate(clouds):
        (tmp_path / f"{k}.las").write_bytes(las_bytes(cloud, offset=CORNER))
        np.savez(tmp_path / f"{k}.npz", values=cloud, offsets=[0, len(cloud)], ids=[k])
        text = "".join(f"{k},{x!r},{y!r},{z!r}\n" for x, y, z in cloud.tolist())
        (tmp_path / f"{k}.csv").write_text("id,x,y,z\n" + text)
    is_file = kind in ("las", "npz", "csv")
    readers = {"las": None, "npz": None, "csv": dk.TableReader("id")}
    sources = [tmp_path / f"{k}.{kind}" if is_file else k for k in order]
    sets = dk.import_sets(MemoryStore(), sources, readers.get(kind, reader))
    for result, k in zip(sets, order, strict=True):
        np.testing.assert_allclose(result, clouds[k], atol=1e-4)


class SizedClouds:
    def __init__(self, clouds):
        self.clouds = clouds

    def sizes(self, k):
        return [len(self.clouds[k])]

    def read(self, k):
        return [self.clouds[k]], None, [k]


def test_the_origin_may_be_requested(tmp_path, capsys):
    (tmp_path / "a.las").write_bytes(las_bytes(CLOUD + CORNER, offset=CORNER))
    sets = dk.import_sets(MemoryStore(), [tmp_path / "a.las"], origin=CORNER + 50)
    assert sets.origin.tolist() == (CORNER + 50).tolist()
    np.testing.assert_allclose(sets[0], CLOUD + CORNER, atol=1e-5)
    for origin, words in (
        ([1, 2], "got 2 for sources of 3 dimensions"),
        ([1, np.nan, 0], "one finite"),
    ):
        with pytest.raises(ValueError, match=rf"origin must have .*{words}"):
            dk.import_sets(MemoryStore(), [tmp_path / "a.las"], origin=origin)
    command = ["import", str(tmp_path / "a.las"), str(tmp_path / "s.zarr"), "--origin"]
    assert main([*command, "500000,5400000,300"]) == 0
    assert dk.open_sets(tmp_path / "s.zarr").origin.tolist() == CORNER.tolist()
    assert main([*command, "here", "--overwrite"]) == 2
    assert "--origin must be numbers such as 500000,5400000,0; got 'here'" in capsys.readouterr().err
    assert main([*command, "1,2,3", "--append"]) == 2
    assert "--origin applies to new stores only" in capsys.readouterr().err


def panic(*args, **kwargs):
    raise PanicException("index out of bounds")


def test_panics_become_errors_that_name_the_source(compressed, monkeypatch):
    with pytest.raises(RustPanicError, match="index out of bounds"), panics_as_errors():
        panic()
    for interrupt in (KeyboardInterrupt, SystemExit, ValueError):
        with pytest.raises(interrupt), panics_as_errors():
            raise interrupt
    with pytest.raises(dk.SourceError, match=r"source 7 cannot be imported \(RustPanicError: index out of"):
        dk.import_sets(MemoryStore(), [7], panic)
    monkeypatch.setattr(laspy.LasReader, "read_points", panic)
    with pytest.raises(dk.SourceError, match=r"a\.laz cannot be read as LAS \(index out of bounds"):
        imported(compressed)


def test_a_panic_of_polars_is_reported_for_the_frame(monkeypatch):
    pl = pytest.importorskip("polars")
    frame = pl.DataFrame({"donor": ["a", "b"], "x": [1.0, 2.0]})
    monkeypatch.setattr(pl.Series, "to_numpy", panic)
    with pytest.raises(dk.SampleSetError, match=r"frame cannot be read .*index out of bounds.*to a pandas"):
        dk.SampleSets.from_frame(frame, "donor")


def test_a_panic_of_a_storage_names_the_store(tmp_path):
    from zarr.storage import WrapperStore

    class Panicking(WrapperStore):
        async def get(self, *args, **kwargs):
            panic()

    place = MemoryStore()
    dk.write_sets(place, [CLOUD])
    with pytest.raises(
        OSError, match=r"cannot read .*RustPanicError: index out of bounds.*Check the storage"
    ):
        dk.open_sets(Panicking(place))


def test_a_file_without_points_is_refused(tmp_path):
    path = tmp_path / "a.las"
    path.write_bytes(las_bytes(np.zeros((0, 3))))
    with pytest.raises(dk.SourceError, match="must have at least one set"):
        imported(path)
