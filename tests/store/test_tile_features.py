"""HDF5 files of tile features, laid out as CLAM and TRIDENT write them, give the arrays that h5py reads."""

from __future__ import annotations

import numpy as np
import pytest

import dkdist as dk
from dkdist.cli import main

h5py = pytest.importorskip("h5py")
RNG = np.random.default_rng(0)
FEATURES = [RNG.normal(size=(n, 16)).astype(dtype) for n, dtype in ((5, "f4"), (9, "f4"), (3, "f4"))]
COORDS = [RNG.integers(0, 10**5, (len(x), 2)) for x in FEATURES]


@pytest.fixture
def slides(tmp_path):
    """Three slides: resizable datasets as of CLAM, attributes as of TRIDENT, and a leading axis."""
    folder = tmp_path / "slides"
    folder.mkdir()
    for k, (features, coords) in enumerate(zip(FEATURES, COORDS, strict=True)):
        with h5py.File(folder / f"slide_{k}.h5", "w") as file:
            values = features[None] if k == 2 else features
            shape = (None, *values.shape[1:])
            file.create_dataset("features", data=values, maxshape=shape, chunks=(1, *values.shape[1:]))
            stored = file.create_dataset("coords", data=coords, compression="gzip")
            stored.attrs["patch_size_level0"] = 512
    return sorted(folder.iterdir())


def test_a_file_of_features_is_a_set(slides, tmp_path):
    sets = dk.import_sets(tmp_path / "s.zarr", slides)
    assert sets.ids.tolist() == ["slide_0", "slide_1", "slide_2"]
    assert sets.names == tuple(f"features_{j}" for j in range(16))
    for points, path, features in zip(sets, slides, FEATURES, strict=True):
        with h5py.File(path) as file:
            np.testing.assert_array_equal(points, file["features"][:].reshape(-1, 16))
        np.testing.assert_array_equal(points, features)


def test_positions_of_tiles_are_further_columns(slides, tmp_path):
    sets = dk.import_sets(tmp_path / "s.zarr", slides, dk.HDF5Reader(["coords", "features"]))
    assert sets.names[:3] == ("coords_0", "coords_1", "features_0")
    for points, features, coords in zip(sets, FEATURES, COORDS, strict=True):
        np.testing.assert_allclose(points, np.concatenate([coords, features], axis=1), rtol=1e-7, atol=1e-2)


def test_the_command_line_imports_a_folder(slides, tmp_path, capsys):
    assert main(["import", str(slides[0].parent), str(tmp_path / "s.zarr"), "--id-parts", "2"]) == 0
    assert dk.open_sets(tmp_path / "s.zarr").ids.tolist() == [f"slides/slide_{k}" for k in range(3)]
    assert "wrote 3 sets of 17 points in 16 dimensions" in capsys.readouterr().out


def test_unsuitable_files_are_refused_by_name(slides, tmp_path):
    def refused(message, **options):
        with pytest.raises(dk.SourceError, match=message):
            dk.import_sets(tmp_path / "t.zarr", tmp_path / "a.h5", dk.HDF5Reader(**options))

    (tmp_path / "a.h5").write_bytes(b"no HDF5")
    refused("cannot be opened as HDF5")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["features"] = np.zeros((4, 2))
        file["coords"] = np.zeros((3, 2))
        file["names"] = np.array([b"a", b"b"])
        file["cube"] = np.zeros((4, 2, 2))
        file["none"] = np.zeros((0, 2))
        file.create_group("group")
    refused("has no dataset 'embeddings'; it has coords, cube, features", points="embeddings")
    refused("has no dataset 'group'", points="group")
    refused(
        "must have equal numbers of points; got 3 in 'coords' and 4 in 'features'",
        points=["features", "coords"],
    )
    for name in ("names", "cube", "none"):
        refused(f"dataset '{name}' of .* must hold numbers of shape", points=name)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["features"] = np.zeros((4, 3))
    with pytest.raises(dk.SourceError, match="sources must have equal points"):
        dk.import_sets(tmp_path / "t.zarr", [*slides, tmp_path / "a.h5"])
    with pytest.raises(ValueError, match="points must name at least one dataset"):
        dk.HDF5Reader([])
