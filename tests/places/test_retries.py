"""Transient failures are retried within limits; permanent ones are raised at once and do no damage."""

import numpy as np
import pytest
from store.samples import assert_same_sets, random_sets
from zarr.storage import MemoryStore

from dkdist.io import SetWriter, StoreFormatError, open_sets, write_sets
from dkdist.io._zarr.location import remote
from dkdist.io._zarr.location import remote as retry
from dkdist.io._zarr.location.address import as_location, get_bytes
from dkdist.io._zarr.location.disk import DiskStore
from dkdist.io.feature_writer import create_features

from . import servers
from .faults import (
    FaultyStore,
    certificate_error,
    endpoint_error,
    http_error,
    no_credentials,
    obstore_error,
    obstore_refusal,
    s3_error,
    s3fs_error,
)

SETS = random_sets([3, 5, 2])

TRANSIENT = {
    "timeout": TimeoutError,
    "reset": lambda: ConnectionResetError(104, "Connection reset by peer"),
    "refused": lambda: ConnectionRefusedError(111, "Connection refused"),
    **{f"http {status}": lambda s=status: http_error(s) for status in (429, 500, 502, 503, 504)},
    "SlowDown": lambda: s3_error("SlowDown", 503),
    "InternalError": lambda: s3_error("InternalError", 200),
    "s3fs SlowDown": lambda: s3fs_error("SlowDown", 503),
    "s3fs RequestTimeout": lambda: s3fs_error("RequestTimeout", 400),
    "endpoint": endpoint_error,
    "obstore 503": lambda: obstore_error("Server returned non-2xx status code: 503 Service Unavailable: "),
    "obstore reset": lambda: obstore_error("HTTP error: error sending request"),
}
PERMANENT = {
    "http 403": (lambda: http_error(403), PermissionError, "credentials"),
    "AccessDenied": (lambda: s3fs_error("AccessDenied", 403), PermissionError, "credentials"),
    "no credentials": (no_credentials, PermissionError, "Set them in the environment"),
    "obstore 401": (obstore_refusal, PermissionError, "credentials"),
    "obstore without credentials": (
        lambda: obstore_error("http://169.254.169.254/latest/api/token: error sending request"),
        PermissionError,
        "credentials",
    ),
    "no bucket": (lambda: s3fs_error("NoSuchBucket", 404), FileNotFoundError, "Create the bucket"),
    "http 400": (lambda: http_error(400), OSError, "said the server"),
    "certificate": (certificate_error, OSError, "certificate"),
    "full": (lambda: OSError(28, "No space left on device"), OSError, "No space left"),
    "not supported": (NotImplementedError, OSError, "does not support it"),
}


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch):
    monkeypatch.setattr(retry, "FIRST_PAUSE_SECONDS", 1e-4)
    monkeypatch.setattr(retry, "MAX_PAUSE_SECONDS", 1e-3)
    monkeypatch.setattr(remote, "_answered", set())


@pytest.fixture(autouse=True)
def require_clients():
    for name in ("aiohttp", "botocore", "s3fs", "obstore"):
        pytest.importorskip(name)


@pytest.mark.parametrize("form", TRANSIENT)
def test_transient_errors_are_retried(form):
    store = FaultyStore()
    store.errors = [TRANSIENT[form]() for _ in range(3)]
    write_sets(store, SETS, chunk_rows=4)
    store.errors = [TRANSIENT[form]() for _ in range(3)]
    assert_same_sets(open_sets(store).load(), SETS)
    assert store.errors == []


@pytest.mark.parametrize("form", TRANSIENT)
def test_persistent_transient_errors_are_raised_after_the_last_attempt(form):
    store = FaultyStore()
    written = write_sets(store, SETS)
    store.errors, store.requests = [TRANSIENT[form]() for _ in range(1000)], 0
    with pytest.raises(ConnectionError, match=r"cannot .* faulty://place .* 8 attempts failed .* later"):
        written.load()
    # requests for points and the root document run in parallel
    assert store.requests <= 3 * retry.MAX_ATTEMPTS
    store.errors = []
    assert_same_sets(written.load(), SETS)


@pytest.mark.parametrize("form", PERMANENT)
def test_permanent_errors_are_raised_at_once(form):
    make, kind, message = PERMANENT[form]
    store = FaultyStore()
    opened = as_location(store).open(read_only=True)
    store.errors = [make() for _ in range(9)]
    with pytest.raises(kind, match=f"cannot read zarr.json of faulty://place .*{message}") as raised:
        get_bytes(opened, ["zarr.json"])
    assert store.requests == 1
    assert raised.value.__suppress_context__
    for secret in ("pa55word", "s1gnature", "headers: secret"):
        assert secret not in str(raised.value)


def test_system_errors_keep_their_errno():
    store = FaultyStore()
    store.errors = [OSError(28, "No space left on device")] * 9
    with pytest.raises(OSError, match="No space left") as raised:
        write_sets(store, SETS)
    assert raised.value.errno == 28


def test_errors_of_a_user_defined_store_are_not_wrapped():
    store = FaultyStore()
    store.errors = [ZeroDivisionError("mine")]
    with pytest.raises(ZeroDivisionError, match="mine"):
        get_bytes(as_location(store).open(read_only=True), ["zarr.json"])


def test_a_storage_that_never_answered_times_out_soon(monkeypatch):
    monkeypatch.setattr(retry, "FIRST_CONTACT_TIMEOUT_SECONDS", 0.02)
    monkeypatch.setattr(retry, "MAX_ATTEMPTS", 10**9)
    store = FaultyStore()
    opened = as_location(store).open(read_only=True)
    store.errors = [ConnectionRefusedError(111, "refused") for _ in range(10**4)]
    with pytest.raises(ConnectionError, match=r"refused.*Check the address, endpoint and network"):
        get_bytes(opened, ["zarr.json"])
    store.errors = [None]
    with pytest.raises(ConnectionError, match=r"no answer.*Check the address"):
        get_bytes(opened, ["zarr.json"])
    store.errors = []
    assert get_bytes(opened, ["zarr.json"]) == [None]
    store.errors = [ConnectionRefusedError(111, "refused") for _ in range(40)]  # beyond the first timeout
    assert get_bytes(opened, ["zarr.json"]) == [None]


def test_the_total_time_of_all_attempts_is_bounded(monkeypatch):
    monkeypatch.setattr(retry, "MAX_ATTEMPTS", 10**9)
    monkeypatch.setattr(retry, "TOTAL_TIMEOUT_SECONDS", 0.05)
    store = FaultyStore()
    opened = as_location(store).open(read_only=True)
    get_bytes(opened, ["zarr.json"])
    store.errors = [ConnectionResetError() for _ in range(10**5)]
    with pytest.raises(ConnectionError, match="attempts failed"):
        get_bytes(opened, ["zarr.json"])
    store.errors = [None] * 10
    with pytest.raises(ConnectionError, match="no answer"):
        get_bytes(opened, ["zarr.json"])


def test_a_stalled_request_is_retried(monkeypatch):
    monkeypatch.setattr(retry, "ATTEMPT_TIMEOUT_SECONDS", 0.05)
    store = FaultyStore()
    written = write_sets(store, SETS, chunk_rows=4)
    store.errors = [None, None]
    assert_same_sets(written.load(), SETS)


def test_all_operations_succeed_on_a_flaky_storage():
    store = FaultyStore()
    store.share = 0.2
    write_sets(store, SETS[:1], [0], chunk_rows=2)
    for i in range(1, 3):
        open_sets(store).append(SETS[i : i + 1], [i])
    result = open_sets(store)
    assert_same_sets(result.load(), SETS)
    assert result.targets["y"].tolist() == [0, 1, 2]
    result.verify()
    features = FaultyStore()
    features.share = 0.2
    rows = np.arange(12, dtype="f4").reshape(6, 2)
    output = create_features(features, 6, 2, 2, "a map")
    for i in range(3):
        output.write_block(i, rows[2 * i : 2 * i + 2])
    np.testing.assert_array_equal(output.finish().read_block(2), rows[4:])


def test_an_append_that_fails_at_any_request_keeps_the_last_commit():
    store = FaultyStore()
    old = write_sets(store, SETS[:1], [0], chunk_rows=2)
    failures = 0
    for good in range(200):
        store.requests, store.good = 0, good
        try:
            with SetWriter(store, 2, "a") as writer:
                writer.append(SETS[1:], [1, 2])
        except PermissionError:
            failures += 1
        else:
            break
        finally:
            store.good = 10**9
        assert_same_sets(open_sets(store).load(), SETS[:1])
        assert open_sets(store).generation == old.generation
    assert failures > 10
    assert_same_sets(open_sets(store).load(), SETS)


def test_detecting_a_replaced_store_takes_one_request_per_read():
    store = FaultyStore()
    view = write_sets(store, SETS, chunk_rows=16)
    store.requests = 0
    assert_same_sets(view.load(), SETS)
    assert store.requests == 2  # the one chunk of points, and the root document
    write_sets(store, SETS[:2], overwrite=True)
    with pytest.raises(StoreFormatError, match="was replaced"):
        view.load()


class UnreliableExists(FaultyStore):
    """A store whose ``exists`` returns False on any failure, like fsspec's HTTP file system."""

    async def exists(self, *args):
        return False


def test_a_chunk_reported_missing_is_requested_again():
    store = UnreliableExists()
    write_sets(store, SETS, [0, 1, 2])
    assert open_sets(store).targets["y"].tolist() == [0, 1, 2]
    del store._store._store_dict["targets/y/c/0"]
    with pytest.raises(StoreFormatError, match=r"targets/y/c/0 of .* is missing"):
        _ = open_sets(store).targets["y"]


def test_local_and_memory_stores_are_not_wrapped(tmp_path):
    write_sets(tmp_path / "s", SETS)
    assert type(as_location(tmp_path / "s").open(read_only=True)) is DiskStore
    memory = MemoryStore()
    assert as_location(memory).open(read_only=True) is memory


def test_pauses_grow_and_are_jittered(monkeypatch):
    monkeypatch.setattr(retry, "FIRST_PAUSE_SECONDS", 0.1)
    monkeypatch.setattr(retry, "MAX_PAUSE_SECONDS", 10.0)
    for tries in range(1, 12):
        pauses = {retry.pause_seconds(tries) for _ in range(20)}
        most = min(0.1 * 2 ** (tries - 1), 10.0)
        assert len(pauses) > 10
        assert most / 2 <= min(pauses) <= max(pauses) <= most


@pytest.mark.network
@pytest.mark.parametrize("fault", [503, 429, "reset", "stall"])
def test_temporary_failures_of_a_web_server_are_retried(tmp_path, monkeypatch, fault):
    monkeypatch.setattr(retry, "ATTEMPT_TIMEOUT_SECONDS", 0.3)
    write_sets(tmp_path / "s", SETS)
    handler = servers.failing(tmp_path, fault=fault, faults=2)
    with servers.web(handler) as host:
        store = open_sets(f"http://{host}/s")
        handler.faults = 2
        assert_same_sets(store.load(), SETS)
        assert handler.faults == 0
        handler.faults = 10**6 if fault != "stall" else 0
        if handler.faults:
            with pytest.raises(
                ConnectionError, match=f"cannot read .* of http://{host}/s .* 8 attempts failed .* later"
            ):
                store.load()
        handler.stalled.set()
