"""Hostile chunks, zip files and pickles: refused before decompression, never unpickled, never extracted."""

import json
import os
import pickle
import struct
import zipfile

import dask
import numpy as np
import pytest
import zarr
from crc32c import crc32c
from numcodecs import Blosc, Zstd
from store.samples import assert_same_sets
from zarr.storage import MemoryStore

from dkdist._utils.memory_budget import resident_bytes
from dkdist.io import StoreFormatError, open_sets, write_sets
from dkdist.io import errors as refusals
from dkdist.io._zarr.location.address import put_bytes

from .forged import SETS, assert_refused, put, read, store_with


def blosc_of(n_bytes):
    """Return a small Blosc chunk that decompresses to many zeros."""
    return Blosc("zstd", clevel=9).encode(np.zeros(n_bytes, "u1"))


def zstd_of(n_bytes):
    return Zstd(9).encode(np.zeros(n_bytes, "u1"))


def store_with_chunk(codec, chunk, **options):
    memory = MemoryStore()
    group = zarr.create_group(memory)
    compressors = {"blosc": zarr.codecs.BloscCodec(), "zstd": zarr.codecs.ZstdCodec()}[codec]
    for name, values, fill in (("points", SETS.points, np.nan), ("offsets", SETS.offsets, -1)):
        chunks = (8, *values.shape[1:])
        group.create_array(
            name, data=values, chunks=chunks, fill_value=fill, compressors=compressors, **options
        )
    attrs = {"format": "dkdist.sets", "version": 1, "n_sets": 3, "n_points": 10, "n_dims": 2}
    group.attrs["dkdist"] = {**attrs, "generation": 5, "sealed": False}
    assert_same_sets(open_sets(memory).load(), SETS)
    put_bytes(memory, "points/c/0/0", bytes(chunk))
    return memory


@pytest.mark.parametrize(("codec", "pack"), [("blosc", blosc_of), ("zstd", zstd_of)])
def test_decompression_bombs_are_refused(codec, pack):
    chunk = pack(300 * 2**20)
    assert len(chunk) < 300 * 2**20 / 100
    assert_refused(store_with_chunk(codec, chunk), "decoded chunk must have at most 64 bytes; got 314572800")
    for n_bytes in (65, 100, 300, 2**17):
        assert_refused(
            store_with_chunk(codec, pack(n_bytes)), f"decoded chunk must have at most .* bytes; got {n_bytes}"
        )
    for broken in (b"", b"\0", bytes(chunk)[:5], b"x" * 40):
        assert_refused(store_with_chunk(codec, broken), "cannot be read")


def test_zstd_frames_of_unknown_length_are_refused():
    frame = b"\x28\xb5\x2f\xfd\x00\x58" + b"\x01\x00\x00"
    assert_refused(store_with_chunk("zstd", frame), "does not declare its content size")


def test_chunks_of_too_many_strings_are_refused():
    memory = MemoryStore()
    write_sets(memory, SETS, {"s": np.array(["a", "b", "c"])})
    metadata = read(memory, "targets/s/zarr.json")
    metadata["codecs"] = [{"name": "vlen-utf8"}]
    put_bytes(memory, "targets/s/zarr.json", json.dumps(metadata).encode())
    root = read(memory, "zarr.json")
    del root["attributes"]["dkdist"]["checksum"], root["attributes"]["dkdist"]["table"]
    put_bytes(memory, "zarr.json", json.dumps(root).encode())
    put_bytes(memory, "targets/s/c/0", struct.pack("<I", 2**31) + b"\0" * 20)
    with pytest.raises(StoreFormatError, match="must have 16384 strings; got 2147483648"):
        _ = open_sets(memory).targets["s"]


def zipped(path, store, compression, extra=()):
    with zipfile.ZipFile(path, "w", compression) as file:
        for key, value in store._store_dict.items():
            file.writestr(key, value.to_bytes())
        for name, value in extra:
            file.writestr(name, value)
    return path


@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_zip_bombs_are_refused_and_paths_outside_are_not_extracted(tmp_path, compression):
    memory = MemoryStore()
    write_sets(memory, SETS)
    good = zipped(
        tmp_path / "good.zip", memory, compression, [("../../escaped", b"x"), ("/etc/escaped", b"x")]
    )
    before = set(tmp_path.parent.iterdir())
    assert_same_sets(open_sets(good).load(), SETS)
    assert set(tmp_path.parent.iterdir()) == before
    assert not os.path.exists("/etc/escaped")
    bomb = zipped(tmp_path / "bomb.zip", memory, compression, [("points/c/9/0", bytes(50 * 2**20))])
    if compression == zipfile.ZIP_DEFLATED:
        assert_refused(bomb, r"points/c/9/0.*must unpack to at most .*; got 52428800")
        assert_refused(zarr.storage.ZipStore(bomb, mode="r"), r"points/c/9/0.*must unpack to at most")
    else:
        assert_same_sets(open_sets(bomb).load(), SETS)


class Unpickled:
    """Object that creates a folder when it is unpickled."""

    def __reduce__(self):
        return os.mkdir, ("unpickled",)


def test_nothing_is_unpickled(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    payload = pickle.dumps(Unpickled())
    for key in ("points/c/0/0", "targets/s/c/0", "offsets/c/0", "zarr.json", "points/zarr.json"):
        memory = store_with("", put())
        put_bytes(memory, key, payload)
        with pytest.raises(StoreFormatError):
            open_sets(memory).verify()
    assert not (tmp_path / "unpickled").exists()


def many_strings(n, text=b""):
    """Write a store whose chunk of ids declares ``n`` strings in a few kB; all but the first are empty."""
    memory = MemoryStore()
    write_sets(memory, SETS, ids=["a", "b", "c"], chunk_rows=4)
    document = read(memory, "ids/zarr.json")
    document["chunk_grid"]["configuration"]["chunk_shape"] = [n]
    put_bytes(memory, "ids/zarr.json", json.dumps(document).encode())
    root = read(memory, "zarr.json")
    for name in ("checksum", "table"):
        root["attributes"]["dkdist"].pop(name, None)
    put_bytes(memory, "zarr.json", json.dumps(root).encode())
    payload = struct.pack("<II", n, len(text)) + text + bytes(4 * (n - 1))
    chunk = Blosc("zstd", clevel=9, shuffle=Blosc.SHUFFLE).encode(payload)
    put_bytes(memory, "ids/c/0", bytes(chunk) + crc32c(bytes(chunk)).to_bytes(4, "little"))
    return memory


def test_chunks_of_strings_check_the_memory_limit_and_are_decoded_once(monkeypatch):
    n, decoded = 2**22, []
    decode = refusals.VLenUTF8Codec._decode_sync
    monkeypatch.setattr(
        refusals.VLenUTF8Codec, "_decode_sync", lambda *args: decoded.append(1) or decode(*args)
    )
    assert len(open_sets(many_strings(n)).ids) == 3
    decoded.clear()
    with dask.config.set({"dkdist.memory-limit": resident_bytes() + 2**26}):
        sets = open_sets(many_strings(n))
        with pytest.raises(MemoryError, match=rf"'ids' .*a chunk of {n} strings needs 101 MB"):
            _ = sets.ids
    assert len(decoded) == 1


def test_one_long_string_among_many_checks_the_memory_limit(tmp_path):
    """NumPy stores every string of an array with the length of the longest."""
    ids = [f"{i}" for i in range(400)]
    write_sets(tmp_path / "s", np.zeros((401, 1, 1)), ids=[*ids, "x" * 100_000])
    with dask.config.set({"dkdist.memory-limit": resident_bytes() + 2**27}):
        sets = open_sets(tmp_path / "s")
        with pytest.raises(MemoryError, match=r"'ids' .*up to 100000 characters.*read fewer sets"):
            _ = sets.ids
        assert sets[:400].ids.tolist() == ids


def test_metadata_with_too_many_strings_per_chunk_is_refused():
    def change(document):
        document["chunk_grid"]["configuration"]["chunk_shape"] = [2**25]

    assert_refused(store_with("targets/s", change), "must have at most 16777216 strings; got 33554432")


def test_reading_more_points_than_the_memory_limit_is_refused(tmp_path):
    write_sets(tmp_path / "s", np.zeros((4, 2**20, 1), np.float32))
    with (
        dask.config.set({"dkdist.memory-limit": resident_bytes() + 2**23}),
        pytest.raises(MemoryError, match=r"rows 0 to 4194303 of array 'points' .*read fewer sets at a time"),
    ):
        open_sets(tmp_path / "s").load()
