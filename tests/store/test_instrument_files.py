"""Cytometry and LiDAR files are imported as sets."""

from __future__ import annotations

import numpy as np
import pytest
from zarr.storage import MemoryStore

import dkdist as dk
from dkdist.cli import main
from dkdist.io.readers import lidar as lidar_files
from dkdist.io.readers.fcs import DataSet

from .fcs_bytes import fcs_bytes

laspy = pytest.importorskip("laspy", reason="laspy is not installed: pip install 'dkdist[lidar]'")
RNG = np.random.default_rng(0)
CHANNELS, MARKERS = ["FSC-A", "FL1-A", "FL2-A", "Time"], ["", "CD3", "CD4", ""]
EVENTS = [RNG.normal(200, 50, (n, 4)).astype("f4") for n in (30, 12)]


def write_fcs(path, events, markers=MARKERS, metadata=None):
    stains = {f"$P{i}S": marker or None for i, marker in enumerate(markers, 1)}
    columns = dict(zip(CHANNELS, events.T, strict=True))
    path.write_bytes(fcs_bytes(columns, keywords={**stains, **(metadata or {})}))
    return path


def write_las(path, points, intensity=None):
    header = laspy.LasHeader(point_format=3, version="1.2")
    header.offsets, header.scales = points.min(axis=0), np.full(3, 0.001)
    las = laspy.LasData(header)
    las.x, las.y, las.z = points.T
    if intensity is not None:
        las.intensity = intensity
    las.write(str(path))
    return path


@pytest.fixture
def samples(tmp_path):
    return [write_fcs(tmp_path / f"donor {k}.FCS", events) for k, events in enumerate(EVENTS)]


def test_a_file_of_events_is_a_set(samples):
    sets = dk.import_sets(MemoryStore(), samples)
    assert sets.ids.tolist() == ["donor 0", "donor 1"]
    for result, events in zip(sets, EVENTS, strict=True):
        np.testing.assert_array_equal(result, events[:, :3])  # without the time
    assert sets.names == ("FSC-A", "CD3", "CD4")
    swapped = dk.import_sets(MemoryStore(), samples, dk.CytometryReader(["CD4", "FL1-A"]))
    assert swapped.names == ("CD4", "FL1-A")
    np.testing.assert_array_equal(swapped[1], EVENTS[1][:, [2, 1]])


def test_an_outline_of_events_reads_only_the_text_segment(samples, monkeypatch):
    monkeypatch.delattr(DataSet, "events")
    outline = dk.CytometryReader().outline(samples[0])
    assert (outline.sizes.tolist(), outline.names) == ([30], ("FSC-A", "CD3", "CD4"))


def test_amplified_channels_are_linear(tmp_path):
    path = write_fcs(tmp_path / "a.fcs", EVENTS[0], metadata={"$P2G": "2.0"})
    sets = dk.import_sets(MemoryStore(), [path], dk.CytometryReader(["CD3", "CD4"]))
    np.testing.assert_array_equal(sets[0], EVENTS[0][:, 1:3] / np.float32([2, 1]))


def test_files_with_different_channels_are_refused(samples, tmp_path):
    other = write_fcs(tmp_path / "other.fcs", EVENTS[1], ["", "CD4", "CD3", ""])
    with pytest.raises(
        dk.SourceError, match=r"equal dimensions; got FSC-A, CD4, CD3 in .*other\.fcs and .*CD3, CD4"
    ):
        dk.import_sets(MemoryStore(), [*samples, other])
    named = dk.import_sets(MemoryStore(), [*samples, other], dk.CytometryReader(["CD3"]))
    np.testing.assert_array_equal(named[2], EVENTS[1][:, [2]])
    with pytest.raises(
        dk.SourceError, match=r"has no channel 'CD8'; it has FSC-A, FL1-A \(CD3\), FL2-A \(CD4\), Time"
    ):
        dk.import_sets(MemoryStore(), samples, dk.CytometryReader(["CD8"]))
    (tmp_path / "bad.fcs").write_bytes(b"FCS3.1 and nothing more")
    with pytest.raises(dk.SourceError, match=r"bad\.fcs cannot be read as FCS \(no header"):
        dk.import_sets(MemoryStore(), [tmp_path / "bad.fcs"])


@pytest.mark.parametrize("suffix", [".las", ".laz"])
def test_a_lidar_file_is_a_set_with_a_nearby_origin(suffix, tmp_path, monkeypatch):
    monkeypatch.setattr(lidar_files, "CHUNK_POINTS", 64)
    corner = np.array([500_000, 5_400_000, 300])
    clouds = [RNG.uniform(0, 100, (n, 3)).round(3) + corner for n in (300, 20)]
    levels = [RNG.integers(0, 9, len(cloud)) for cloud in clouds]
    paths = [
        write_las(tmp_path / f"{k}{suffix}", *value)
        for k, value in enumerate(zip(clouds, levels, strict=True))
    ]
    sets = dk.import_sets(MemoryStore(), paths)
    assert sets.ids.tolist() == ["0", "1"]
    assert sets.names == ("x", "y", "z")
    for result, cloud in zip(sets, clouds, strict=True):
        np.testing.assert_allclose(result, cloud, atol=6e-4)  # the scale of the file
    seen = dk.import_sets(MemoryStore(), paths, dk.LidarReader(["z", "intensity"]))
    np.testing.assert_array_equal(seen[1][:, 1], levels[1])
    with pytest.raises(dk.SourceError, match="has no dimension 'colour'; it has x, y, z, intensity"):
        dk.import_sets(MemoryStore(), paths, dk.LidarReader(["colour"]))


def test_a_truncated_or_invalid_lidar_file_is_refused(tmp_path):
    path = write_las(tmp_path / "a.las", RNG.uniform(0, 100, (300, 3)))
    whole = path.read_bytes()
    for data in (whole[:-500], b"LASF and nothing more", b""):
        path.write_bytes(data)
        with pytest.raises(
            dk.SourceError, match=r"a\.las cannot be read as LAS \((its header declares|it must begin)"
        ):
            dk.import_sets(MemoryStore(), [path])


def test_the_command_line_selects_the_reader_by_suffix(samples, tmp_path, capsys):
    store = str(tmp_path / "s.zarr")
    assert main(["import", str(tmp_path), store, "--points", "CD3,CD4"]) == 0
    assert "wrote 2 sets of 42 points in 2 dimensions" in capsys.readouterr().out
    cloud = write_las(tmp_path / "cloud.laz", RNG.uniform(0, 100, (30, 3)))
    assert main(["import", str(cloud), store, "--overwrite"]) == 0
    assert dk.open_sets(store).n_dims == 3
    more = write_las(tmp_path / "more.las", RNG.uniform(0, 100, (40, 3)))
    assert main(["import", str(more), store, "--append"]) == 0
    assert dk.open_sets(store).ids.tolist() == ["cloud", "more"]
    assert main(["import", str(cloud), store, "--overwrite", "--set-id", "x"]) == 2
    assert "--set-id applies to tables and h5ad files only" in capsys.readouterr().err
    assert main(["import", str(cloud), str(samples[0]), store, "--overwrite"]) == 2
    assert "is a LAS file and " in capsys.readouterr().err
    with pytest.raises(ValueError, match="sources must be files of one kind"):
        dk.import_sets(store, [cloud, samples[0]], overwrite=True)


def test_a_missing_library_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setattr("dkdist.io.readers.lidar.find_spec", lambda name: None)
    with pytest.raises(dk.SourceError, match=r"pip install 'dkdist\[lidar\]'"):
        dk.import_sets(MemoryStore(), [tmp_path / "a"], dk.LidarReader())
