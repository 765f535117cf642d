"""Forged stores, and a check that they are refused before they allocate memory."""

import json
import tracemalloc

import numpy as np
import pytest
from store.samples import random_sets
from zarr.storage import MemoryStore

from dkdist.io import StoreFormatError, open_sets, write_sets
from dkdist.io._zarr.location.address import get_bytes, put_bytes

SETS = random_sets([3, 5, 2])


def store_with(name, change, checksum=False):
    """Write a valid store, change the metadata of one array or of the root (""), and by default drop the checksum."""
    memory = MemoryStore()
    write_sets(memory, SETS, {"y": np.arange(3.0), "s": np.array(["a", "b", "c"])}, chunk_rows=4)
    root = read(memory, "zarr.json")
    if not checksum:
        del root["attributes"]["dkdist"]["checksum"]
    put_bytes(memory, "zarr.json", json.dumps(root).encode())
    key = f"{name}/zarr.json".lstrip("/")
    document = read(memory, key)
    change(document)
    put_bytes(memory, key, json.dumps(document).encode())
    return memory


def read(memory, key):
    return json.loads(get_bytes(memory, [key])[0])


def assert_refused(memory, message):
    """Assert that opening or reading is refused with a peak of less than 20 MiB."""
    tracemalloc.start()
    try:
        with pytest.raises(StoreFormatError, match=message):
            open_sets(memory).load()
        assert tracemalloc.get_traced_memory()[1] < 20 * 2**20
    finally:
        tracemalloc.stop()


def put(**values):
    return lambda document: document.update(values)


def chunks_of(*shape):
    return put(chunk_grid={"name": "regular", "configuration": {"chunk_shape": list(shape)}})


def codecs(*names):
    return put(codecs=[{"name": name, "configuration": {}} for name in names])


def shards(chunk, shard, inner=("bytes",), index=("bytes",)):
    named = [{"name": name, "configuration": {}} for name in inner], [{"name": name} for name in index]
    configuration = {"chunk_shape": chunk, "codecs": named[0], "index_codecs": named[1]}

    def change(document):
        chunks_of(*shard)(document)
        document["codecs"] = [{"name": "sharding_indexed", "configuration": configuration}]

    return change
