"""Stores on a plain web server without listings: arrays are opened by the names in the commit."""

import contextlib
import gzip
import json
import pickle
from functools import partial
from typing import ClassVar

import numpy as np
import pytest
from store.samples import assert_same_sets, random_sets

from dkdist.io import StoreFormatError, open_sets, write_sets
from dkdist.io.feature_writer import create_features, find_features

from . import servers

pytestmark = pytest.mark.network

SETS = random_sets([30, 50, 20], 2, ())
TARGETS = {"y": np.arange(3.0), "class name": np.array(["a", "b", "c"])}


@pytest.fixture(autouse=True)
def client():
    pytest.importorskip("aiohttp")
    pytest.importorskip("fsspec")


def test_a_store_is_read_without_listing(tmp_path):
    write_sets(tmp_path / "s", SETS, TARGETS, [7, 8, 9], chunk_rows=16)
    with servers.web(servers.files(tmp_path)) as host:
        store = open_sets(f"http://{host}/s")
        assert_same_sets(store.load(), SETS)
        assert_same_sets(store[[2, 0]].load(), SETS[[2, 0]])
        assert sorted(store.targets) == ["class name", "y"]
        for name, values in TARGETS.items():
            np.testing.assert_array_equal(store.targets[name], values)
        assert store.ids.tolist() == [7, 8, 9]
        assert_same_sets(pickle.loads(pickle.dumps(store[1:])).load(), SETS[1:])
        store.verify()


def test_appends_and_replacement_are_detected(tmp_path):
    write_sets(tmp_path / "s", SETS[:2], chunk_rows=16)
    with servers.web(servers.files(tmp_path)) as host:
        view = open_sets(f"http://{host}/s")
        open_sets(tmp_path / "s").append(SETS[2:])
        assert_same_sets(view.load(), SETS[:2])
        assert_same_sets(open_sets(f"http://{host}/s").load(), SETS)
        write_sets(tmp_path / "s", SETS[::-1], overwrite=True)
        with pytest.raises(StoreFormatError, match="was replaced"):
            view.load()


def test_shards_need_byte_ranges(tmp_path):
    write_sets(tmp_path / "s", SETS, chunk_rows=16, shards=64)
    with servers.web(servers.files(tmp_path, ranges=True)) as host:
        assert_same_sets(open_sets(f"http://{host}/s").load(), SETS)
    with servers.web(servers.files(tmp_path)) as host:
        store = open_sets(f"http://{host}/s")
        with pytest.raises(
            OSError, match=f"of http://{host}/s: the server ignores byte ranges.*without shards"
        ):
            store.load()


def test_missing_chunks_and_stores_are_reported(tmp_path):
    write_sets(tmp_path / "s", SETS, TARGETS, chunk_rows=16)
    (tmp_path / "s/points/c/1/0").unlink()
    (tmp_path / "s/targets/y/c/0").unlink()
    with servers.web(servers.files(tmp_path)) as host:
        store = open_sets(f"http://{host}/s")
        with pytest.raises(StoreFormatError, match=r"sets 0 to 1.*chunk 1 is missing"):
            store.load()
        with pytest.raises(StoreFormatError, match=r"targets/y/c/0 of .* is missing"):
            _ = store.targets["y"]
        with pytest.raises(StoreFormatError, match=r"there is no zarr.json"):
            open_sets(f"http://{host}/none")


def test_a_store_without_array_names_is_refused(tmp_path):
    write_sets(tmp_path / "s", SETS, TARGETS)
    path = tmp_path / "s/zarr.json"
    root = json.loads(path.read_text())
    del root["attributes"]["dkdist"]["arrays"]
    path.write_text(json.dumps(root))
    assert_same_sets(open_sets(tmp_path / "s").load(), SETS)
    with servers.web(servers.files(tmp_path)) as host, pytest.raises(OSError, match=r"cannot list .*403"):
        open_sets(f"http://{host}/s")


def test_features_are_read(tmp_path):
    rows = np.random.default_rng(0).standard_normal((5, 3)).astype("f4")
    output = create_features(tmp_path / "f", 5, 3, 2, "map")
    for i in range(3):
        output.write_block(i, rows[2 * i : 2 * i + 2])
    output.finish()
    with servers.web(servers.files(tmp_path)) as host:
        result = find_features(f"http://{host}/f")
        np.testing.assert_array_equal(np.concatenate([result.read_block(i) for i in range(3)]), rows)


class Endless(servers.Files):
    """Handler that sends an endless document or chunk; ``sent`` counts bytes and requests."""

    endless = "zarr.json"
    sent, requests = 0, 0

    def do_GET(self):
        if not self.path.endswith(self.endless):
            super().do_GET()
            return
        type(self).requests += 1
        self.send_response(200)
        self.end_headers()
        with contextlib.suppress(OSError):
            while type(self).sent < 2**28:
                type(self).sent += self.wfile.write(bytes(2**16))


@pytest.mark.parametrize(("endless", "bound"), [("zarr.json", 2**21), ("points/c/0/0", 2**18)])
def test_an_endless_object_is_read_up_to_its_bound_once(endless, bound, tmp_path):
    write_sets(tmp_path / "s", SETS, chunk_rows=16)
    handler = type("Handler", (Endless,), {"directory": str(tmp_path), "endless": endless})
    with (
        servers.web(partial(handler, directory=str(tmp_path))) as host,
        pytest.raises(
            StoreFormatError,
            match=rf"{endless} of http://{host}/s must have at most \d+ bytes. .* [Rr]estore",
        ),
    ):
        open_sets(f"http://{host}/s").load()
    assert handler.requests == 1
    assert handler.sent < bound + 2**24  # plus the contents of socket buffers


class Compressing(servers.Files):
    """Handler that compresses every response and records the accepted encodings."""

    accepted: ClassVar[set[str]] = set()

    def do_GET(self):
        self.accepted.add(self.headers["Accept-Encoding"])
        body = gzip.compress(bytes(2**26))
        self.send_response(200)
        self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def test_compressed_bodies_are_refused_and_not_requested(tmp_path):
    with (
        servers.web(partial(Compressing, directory=str(tmp_path))) as host,
        pytest.raises(OSError, match=r"zarr.json of .*Content-Encoding 'gzip'.*Disable its compression"),
    ):
        open_sets(f"http://{host}/s")
    assert Compressing.accepted == {"identity"}


def test_a_long_error_page_is_not_an_object(tmp_path):
    class NotFound(servers.Files):
        def do_GET(self):
            self.send_response(404)
            self.end_headers()
            with contextlib.suppress(OSError):
                self.wfile.write(bytes(2**22))

    with (
        servers.web(partial(NotFound, directory=str(tmp_path))) as host,
        pytest.raises(StoreFormatError, match=r"there is no zarr.json"),
    ):
        open_sets(f"http://{host}/s")
