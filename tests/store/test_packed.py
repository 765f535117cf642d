"""Chunks encoded without Zarr are bit-identical to Zarr's; other codecs are left to Zarr."""

import re

import numpy as np
import pytest
import zarr
from zarr.codecs import BloscCodec, BytesCodec, Crc32cCodec, ZstdCodec
from zarr.storage import MemoryStore

import dkdist as dk
from dkdist.io import SetWriter
from dkdist.io._zarr.packed import chunk_packer


def make_array(dtype="f4", shape=(1024, 3), chunks=(256, 3), **kwargs):
    compressors = kwargs.pop("compressors", [BloscCodec(cname="lz4", shuffle="shuffle"), Crc32cCodec()])
    store = MemoryStore()
    array = zarr.create_array(
        store, shape=shape, chunks=chunks, dtype=dtype, compressors=compressors, **kwargs
    )
    return store, array


@pytest.mark.parametrize("shuffle", ["noshuffle", "shuffle", "bitshuffle"])
@pytest.mark.parametrize("dtype", ["f4", "u1", "i8"])
def test_packed_chunks_equal_zarr(dtype, shuffle):
    codec = BloscCodec(cname="zstd", clevel=3, shuffle=shuffle)
    store, array = make_array(dtype, compressors=[codec, Crc32cCodec()])
    rows = (np.random.default_rng(0).normal(size=(1024, 3)) * 50).astype(dtype)
    array[:] = rows
    packed = chunk_packer(array)
    for k in range(4):
        assert b"".join(packed(rows[k * 256 : (k + 1) * 256])) == store._store_dict[f"c/{k}/0"].to_bytes()


def test_packed_string_chunks_equal_zarr():
    codec = BloscCodec(cname="zstd", shuffle="shuffle")
    store, array = make_array("str", (60,), (20,), compressors=[codec, Crc32cCodec()])
    texts = np.array(["", "a", "é", "a longer text, which no entry of the array could hold", "日本"] * 12)
    array[:] = texts
    packed = chunk_packer(array)
    for k in range(3):
        rows = texts[k * 20 : (k + 1) * 20].astype(array.dtype)
        assert b"".join(packed(rows)) == store._store_dict[f"c/{k}"].to_bytes()


def test_other_codecs_are_left_to_zarr():
    for kwargs in (
        {"compressors": [ZstdCodec(), Crc32cCodec()]},
        {"compressors": [BloscCodec()]},
        {"shards": (512, 3)},
        {"serializer": BytesCodec(endian="big"), "dtype": ">f4"},
        {"compressors": [BloscCodec(typesize=8), Crc32cCodec()]},
    ):
        assert chunk_packer(make_array(**kwargs)[1]) is None


def test_local_and_memory_stores_have_identical_chunks(tmp_path):
    rng, memory = np.random.default_rng(0), MemoryStore()
    arrays = [rng.normal(size=(int(n), 2)) for n in rng.integers(1, 400, 30)]
    for place in (memory, tmp_path / "s.zarr"):
        with dk.SetWriter(place, 2, chunk_rows=64) as writer:
            for start in range(0, 30, 7):
                writer.append(arrays[start : start + 7], targets=np.arange(start, min(start + 7, 30)))
        dk.open_sets(place).append(arrays[:3], targets=[1, 2, 3])
    in_memory = {key: value.to_bytes() for key, value in memory._store_dict.items()}
    folder = tmp_path / "s.zarr"
    on_disk = {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()
    }
    is_data = re.compile("^(?!commits/).*/c/")  # commits and tails differ in number
    memory_chunks, disk_chunks = (
        {re.sub(r"\d+-\w{8}/", "", key): value for key, value in files.items() if is_data.search(key)}
        for files in (in_memory, on_disk)
    )
    assert memory_chunks == disk_chunks
    assert {key.partition("/c/")[0].rpartition("/")[2] for key in disk_chunks} > {"points"}


@pytest.mark.parametrize("sizes", [[40], [3, 30, 2, 16, 1], [16, 16], [5, 11, 48]])
def test_take_writes_the_same_store_as_append(sizes, tmp_path):
    """Chunks of 16 points begin before, within and at the end of a batch, with and without weights."""
    rng = np.random.default_rng(0)
    batches = []
    for i, n in enumerate(sizes):
        weights = [rng.uniform(1, 2, n)] if sizes[0] == 5 else None
        sets = dk.SampleSets.from_arrays([rng.normal(size=(n, 2))], weights=weights)
        batches.append(sets.labelled(ids=[f"{i}"], targets={"y": [n]}))
    for name in ("append", "take"):
        with SetWriter(tmp_path / name, 2, chunk_rows=16) as writer:
            for batch in batches:
                getattr(writer, name)(batch)
    appended, taken = (
        {re.sub(r"/\d+-\w{8}/", "/", str(p.relative_to(tmp_path / name))): p.read_bytes() for p in paths}
        for name in ("append", "take")
        if (paths := [p for p in (tmp_path / name).glob("**/c/**/*") if p.is_file()])
    )
    assert appended == taken
    assert "commits/c/0" in taken
    taken = dk.open_sets(tmp_path / "take")
    np.testing.assert_array_equal(taken.load().points, dk.open_sets(tmp_path / "append").load().points)
    assert taken.ids.tolist() == [f"{i}" for i in range(len(sizes))]
    assert taken.targets["y"].tolist() == sizes
