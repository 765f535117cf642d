"""Keys, passwords and signatures reach the storage, but no message, log, label or token."""

import base64
import logging
import pickle
import traceback
from urllib.parse import quote, unquote

import dask.array as da
import pytest
import zarr
from store.samples import assert_same_sets, random_sets
from zarr.storage import FsspecStore, ObjectStore

import dkdist as dk
from dkdist.io import open_sets, write_sets
from dkdist.io._zarr.location import remote
from dkdist.io._zarr.location import remote as retry
from dkdist.io._zarr.location.address import StoreLocation, as_location
from dkdist.io._zarr.location.web import secrets_in, secrets_of, without_secrets
from dkdist.io.feature_writer import create_features
from dkdist.io.readers.sources import SourceError, source_errors, source_label

from . import servers
from .kinds import obstore_s3, s3fs_object

SECRETS = ("us3rname", "pa55word", "s1gnature", "AKIDSECRET", "s3cr3tvalue", "t0kenvalue")
SETS = random_sets([3, 5])


def assert_no_secrets(*shown):
    for text in shown:
        for secret in SECRETS:
            assert secret not in str(text), text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("https://us3rname:pa55word@host:8/x.zarr", "https://host:8/x.zarr"),
        ("https://us3rname:pa55@word@host/x", "https://host/x"),
        ("https://host/x.zarr?sig=s1gnature&se=1", "https://host/x.zarr"),
        ("simplecache::https://us3rname:pa55word@host/x", "simplecache::https://host/x"),
        ("404, url='https://host/x?sig=s1gnature' said", "404, url='https://host/x' said"),
        ("S3Store(bucket='b')", "S3Store(bucket='b')"),
        ("/data/what?/x.zarr", "/data/what?/x.zarr"),
        ("s3://bucket/x", "s3://bucket/x"),
        ("memory://12", "memory://12"),
    ],
)
def test_labels_of_urls_omit_secrets(text, expected):
    assert without_secrets(text) == expected
    assert without_secrets(f"{text} t0kenvalue", {"t0kenvalue"}) == f"{expected} ***"


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://us3rname:pa55/word@host/x.zarr", "https://host/x.zarr"),
        ("https://us3rname:pa55?wo/rd@host:8/x.zarr", "https://host:8/x.zarr"),
        ("https://t0kenvalue@host/x.zarr", "https://host/x.zarr"),
        ("https://us3rname%3Apa55word%40host/x.zarr", "https://host/x.zarr"),
        ("https://host/x.zarr#t0kenvalue", "https://host/x.zarr"),
        ("https://host/x.zarr;t0kenvalue", "https://host/x.zarr"),
        ("https://host/x.zarr;token=t0kenvalue/y", "https://host/x.zarr/y"),
        ("https://host/x.zarr?s1gnature", "https://host/x.zarr"),
        ("https://host/x.zarr%3Fsig=s1gnature", "https://host/x.zarr"),
        ("https://host:8/x.zarr?mail=us3rname@there", "https://host:8/x.zarr"),
        ("http://[::1]:80/x.zarr?sig=s1gnature", "http://[::1]:80/x.zarr"),
        ("simplecache::https://us3rname:pa55/word@host/x?s1gnature", "simplecache::https://host/x"),
        ("zip://in::s3cache::s3://bucket/x.zip#t0kenvalue", "zip://in::s3cache::s3://bucket/x.zip"),
        ("https://us3rname:pa55word@host:8/a@b/x", "https://host:8/a@b/x"),
        ("https://host/a@b/x.zarr", "https://host/a@b/x.zarr"),
    ],
)
def test_secrets_in_every_form_of_a_url(url, expected):
    assert StoreLocation(url).label == expected
    assert without_secrets(f"said '{url}' of it") == f"said '{expected}' of it"
    assert_no_secrets(
        source_label(url), source_label([url] * 20), source_label({"url": url}), StoreLocation(url)
    )
    for written in (url, unquote(url), quote(url, safe="")):
        assert_no_secrets(without_secrets(f"could not reach {written}", secrets_in(url)))
    with pytest.raises(SourceError) as raised, source_errors(url):
        raise RuntimeError(f"404 of {unquote(url)}")
    assert_no_secrets(raised.value)


def test_chains_of_file_systems_are_refused_by_name(tmp_path):
    for call in (open_sets, lambda url: write_sets(url, SETS), dk.open_features):
        with pytest.raises(
            ValueError, match=r"a chain of file systems; got simplecache::https://host/x.*Zarr store object"
        ) as raised:
            call("simplecache::https://us3rname:pa55word@host/x?s1gnature")
        assert_no_secrets(raised.value)


def stores_with_secrets():
    pytest.importorskip("s3fs")
    stores = pytest.importorskip("obstore.store")
    options = {
        "secret": "s3cr3tvalue",
        "token": "t0kenvalue",
        "client_kwargs": {"aws_access_key_id": "AKIDSECRET"},
    }
    return [
        FsspecStore.from_url("s3://bucket/x", storage_options={"key": "AKIDSECRET", **options}),
        obstore_s3("http://us3rname:pa55word@127.0.0.1:1", "x", key="AKIDSECRET", secret="s3cr3tvalue"),
        ObjectStore(stores.HTTPStore("http://us3rname:pa55word@127.0.0.1:1/x?sig=s1gnature")),
        FsspecStore.from_url("http://us3rname:pa55word@127.0.0.1:1/x"),
        "https://us3rname:pa55word@host/x.zarr?sig=s1gnature",
    ]


def test_addresses_show_no_secrets():
    for store in stores_with_secrets():
        address = as_location(store)
        assert_no_secrets(address, repr(address), [address], address.label)
        opened = address.open(read_only=True)
        assert_no_secrets(opened, repr(opened))


def test_known_secrets_are_found_in_options():
    fsspec_store, s3_store, *_ = stores_with_secrets()
    assert secrets_of(fsspec_store) == {"AKIDSECRET", "s3cr3tvalue", "t0kenvalue"}
    assert secrets_of(s3_store) == {"AKIDSECRET", "s3cr3tvalue"}
    assert secrets_of(object()) == set()


def test_errors_logs_and_tracebacks_show_no_secrets(monkeypatch, caplog):
    monkeypatch.setattr(retry, "FIRST_CONTACT_TIMEOUT_SECONDS", 0.3)
    monkeypatch.setattr(retry, "FIRST_PAUSE_SECONDS", 1e-3)
    monkeypatch.setattr(remote, "_answered", set())
    with caplog.at_level(logging.DEBUG, logger="dkdist"):
        for store in stores_with_secrets()[1:4]:
            for call in (lambda s=store: open_sets(s), lambda s=store: write_sets(s, SETS)):
                with pytest.raises(OSError, match=r"cannot|only read") as raised:
                    call()
                assert_no_secrets("".join(traceback.format_exception(raised.value)), repr(raised.value))
    assert_no_secrets(caplog.text)
    with pytest.raises(TypeError) as raised:
        open_sets({"key": "AKIDSECRET"})
    assert_no_secrets(raised.value)


class Renamed(StoreLocation):
    """A memory location whose address is a web address with secrets."""

    def open(self, *, read_only):
        return StoreLocation(PLACES[self.place]).open(read_only=read_only)


PLACES = {}


def test_task_keys_and_tokens_show_no_secrets():
    url = "https://us3rname:pa55word@host/x.zarr?sig=s1gnature"
    PLACES[url] = zarr.storage.MemoryStore()
    write_sets(PLACES[url], SETS)
    view = open_sets(Renamed(url))
    assert view.__dask_tokenize__()[1] == "https://host/x.zarr"
    assert_no_secrets(view, view.__dask_tokenize__())
    embedded = dk.DivergenceEmbedding("hellinger", domain=(-9, 9)).fit(view).transform(view)
    assert isinstance(embedded, da.Array)
    graph = embedded.__dask_graph__()
    assert_no_secrets(*graph, embedded.name, repr(embedded))
    with pytest.raises(ValueError, match="Open the whole store") as raised:
        view[1:].verify()
    assert_no_secrets(raised.value)
    PLACES["https://us3rname:pa55word@host/f.zarr"] = zarr.storage.MemoryStore()
    output = create_features(PLACES["https://us3rname:pa55word@host/f.zarr"], 4, 2, 2, "map")
    assert_no_secrets(repr(output), output.__dask_tokenize__())


@pytest.mark.network
def test_a_pickled_view_keeps_working_with_its_secrets(tmp_path):
    user_info = "Basic " + base64.b64encode(b"us3rname:pa55word").decode()
    write_sets(tmp_path / "s", SETS)
    with servers.web(servers.files(tmp_path, user_info=user_info)) as host:
        view = open_sets(f"http://us3rname:pa55word@{host}/s")
        assert_same_sets(pickle.loads(pickle.dumps(view)).load(), SETS)
        assert_no_secrets(view, view.__dask_tokenize__())
        with pytest.raises(
            PermissionError, match=f"cannot read zarr.json of http://{host}/s .*401"
        ) as raised:
            open_sets(f"http://us3rname:{'wr0ng'[::-1]}@{host}/s")
        assert "gn0rw" not in "".join(traceback.format_exception(raised.value))
    with servers.web(servers.files(tmp_path, query="sig=s1g%2Bnature&se=1")) as host:
        view = open_sets(f"http://{host}/s?sig=s1g%2Bnature&se=1")
        assert_same_sets(pickle.loads(pickle.dumps(view)).load(), SETS)
        assert view.__dask_tokenize__()[1] == f"http://{host}/s"
        with pytest.raises(PermissionError, match="403"):
            open_sets(f"http://{host}/s")


@pytest.mark.network
def test_refused_keys_are_not_shown(rclone_url):
    for make in (s3fs_object, obstore_s3):
        store = make(rclone_url, key="AKIDSECRET", secret="s3cr3tvalue")
        with pytest.raises(PermissionError, match="credentials") as raised:
            open_sets(store)
        assert_no_secrets("".join(traceback.format_exception(raised.value)))
