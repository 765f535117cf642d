"""Impossible requests fail within seconds, state cause and remedy, and leave no partial data."""

import os
import shutil
import zipfile

import numpy as np
import pytest
import zarr
from store.samples import assert_same_sets, random_sets
from zarr.storage import FsspecStore, MemoryStore, WrapperStore, ZipStore

from dkdist.io import SetWriter, StoreFormatError, open_sets, write_sets
from dkdist.io._zarr.location import remote
from dkdist.io._zarr.location import remote as retry
from dkdist.io.feature_writer import create_features

from . import servers
from .faults import FaultyStore
from .kinds import obstore_s3, s3fs_object

SETS = random_sets([3, 5])
clients = pytest.mark.parametrize("make", [s3fs_object, obstore_s3])


@pytest.fixture(autouse=True)
def short_timeouts(monkeypatch):
    monkeypatch.setattr(retry, "FIRST_CONTACT_TIMEOUT_SECONDS", 1.0)
    monkeypatch.setattr(remote, "_answered", set())


def assert_cannot_be_written(place, message):
    for call in (
        lambda: write_sets(place, SETS),
        lambda: write_sets(place, SETS, overwrite=True),
        lambda: SetWriter(place, 2),
        lambda: create_features(place, 4, 2, 2, "map"),
    ):
        with pytest.raises(PermissionError, match=message):
            call()


def test_zip_files_are_written_as_a_whole(tmp_path):
    write_sets(tmp_path / "s", SETS, [0, 1])
    shutil.make_archive(str(tmp_path / "s.zarr"), "zip", tmp_path / "s")
    path = tmp_path / "s.zarr.zip"
    before = path.read_bytes()
    assert_same_sets(open_sets(path).load(), SETS)
    assert open_sets(path).targets["y"].tolist() == [0, 1]
    open_sets(path).verify()
    assert_cannot_be_written(
        ZipStore(path, mode="a"), "is a zip file, which is written as a whole. Pass the path"
    )
    with pytest.raises(
        PermissionError, match=r"s\.zarr\.zip is a zip file.*write features to a directory and zip"
    ):
        create_features(path, 4, 2, 2, "map")
    (tmp_path / "foreign.zip").write_text("text")
    for name in ("foreign.zip", "photos.zip"):
        with zipfile.ZipFile(tmp_path / "photos.zip", "w") as file:
            file.writestr("photo.png", b"png")
        with pytest.raises(FileExistsError, match=r"zip.* not a (zipped )?store of sets.* not replaced"):
            write_sets(tmp_path / name, SETS, overwrite=True)
        (tmp_path / name).unlink()
    assert path.read_bytes() == before
    assert sorted(p.name for p in tmp_path.iterdir()) == ["s", "s.zarr.zip"]
    with pytest.raises(FileNotFoundError, match=r"there is no store at .*none\.zip"):
        open_sets(tmp_path / "none.zip")


def test_a_directory_may_have_the_suffix_zip(tmp_path):
    (tmp_path / "s.zip").mkdir()
    write_sets(tmp_path / "s.zip", SETS)
    assert_same_sets(open_sets(tmp_path / "s.zip").load(), SETS)


def test_stores_opened_read_only_refuse_writes():
    memory = MemoryStore()
    write_sets(memory, SETS)
    read_only = memory.with_read_only(True)
    assert_same_sets(open_sets(read_only).load(), SETS)
    assert_cannot_be_written(read_only, "was opened read-only")


def test_web_addresses_are_read_only():
    assert_cannot_be_written("https://host/x.zarr", "https://host/x.zarr is on a web server")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_an_unwritable_directory_is_refused(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(PermissionError, match="denied"):
        write_sets(tmp_path / "s", SETS)
    tmp_path.chmod(0o700)
    assert list(tmp_path.iterdir()) == []


class ReadOnlyCredentials(WrapperStore):
    """A store that refuses every write, like a bucket with read-only credentials."""

    async def set(self, *args):
        raise PermissionError("Access Denied")

    async def delete(self, *args):
        raise PermissionError("Access Denied")


def test_read_only_credentials_can_read_but_not_write():
    memory = MemoryStore()
    write_sets(memory, SETS)
    before = dict(memory._store_dict)
    store = ReadOnlyCredentials(memory)
    assert_same_sets(open_sets(store).load(), SETS)
    for call in (lambda: open_sets(store).append(SETS), lambda: write_sets(store, SETS, overwrite=True)):
        with pytest.raises(
            PermissionError,
            match=r"cannot write commits/zarr\.json of .*credentials are missing, wrong or insufficient",
        ):
            call()
    assert memory._store_dict == before


class NoDeleteCredentials(WrapperStore):
    """A store that accepts objects but refuses to delete any."""

    async def delete(self, *args):
        raise PermissionError("Access Denied")


def test_credentials_without_delete_permission_can_append():
    memory = MemoryStore()
    write_sets(memory, SETS[:1])
    store = open_sets(NoDeleteCredentials(memory)).append(SETS[1:])
    assert_same_sets(store.load(), SETS)
    assert_same_sets(open_sets(memory).append(SETS).load()[:2], SETS)


def test_unknown_protocols_and_zarr_groups_are_refused():
    with pytest.raises(ValueError, match="notaprotocol"):
        open_sets("notaprotocol://x/y")
    with pytest.raises(TypeError, match="got Group"):
        open_sets(zarr.create_group(MemoryStore()))


@pytest.mark.network
@clients
def test_wrong_keys_are_refused(rclone_url, make, monkeypatch):
    # the server exists, but a busy machine is slow
    monkeypatch.setattr(retry, "FIRST_CONTACT_TIMEOUT_SECONDS", 60.0)
    for wrong in ({"key": "AKOTHER"}, {"secret": "othersecret"}):
        store = make(rclone_url, **wrong)
        for call in (lambda s=store: open_sets(s), lambda s=store: write_sets(s, SETS)):
            with pytest.raises(PermissionError, match=r"cannot read .* the credentials are missing, wrong"):
                call()


@pytest.mark.network
@clients
def test_a_missing_bucket_is_reported(moto_url, make, monkeypatch):
    monkeypatch.setattr(retry, "FIRST_CONTACT_TIMEOUT_SECONDS", 60.0)
    store = make(moto_url, bucket="nobucket")
    with pytest.raises(StoreFormatError, match=r"there is no zarr.json in .*nobucket.*bucket does not exist"):
        open_sets(store)
    with pytest.raises(FileNotFoundError, match=r"cannot .*nobucket.*Create the bucket or folder first"):
        write_sets(store, SETS)


@pytest.mark.network
@clients
def test_an_unreachable_endpoint_is_reported(aws_environment, make):
    store = make(f"http://127.0.0.1:{servers.free_port()}")
    with pytest.raises(ConnectionError, match=r"cannot read .* Check the address, endpoint and network"):
        open_sets(store)
    with pytest.raises(ConnectionError, match="Check the address"):
        write_sets(store, SETS)


@pytest.mark.network
def test_missing_credentials_are_reported(aws_environment, monkeypatch):
    pytest.importorskip("s3fs")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name, raising=False)
    url = f"http://127.0.0.1:{servers.free_port()}"
    store = FsspecStore.from_url("s3://bucket/none.zarr", storage_options={"endpoint_url": url})
    with pytest.raises(PermissionError, match=r"Unable to locate credentials.* Set them in the environment"):
        open_sets(store)


def test_failed_requests_leave_no_partial_features():
    pytest.importorskip("aiohttp")
    store = FaultyStore()
    store.good = 0
    with pytest.raises(PermissionError, match="faulty://place"):
        create_features(store, 4, 2, 2, "map")
    store.good = 10**9
    output = create_features(store, 4, 2, 2, "map")
    output.write_block(0, np.zeros((2, 2), "f4"))
    store.requests, store.good = 0, 1
    with pytest.raises(PermissionError, match="faulty://place"):
        output.write_block(1, np.zeros((2, 2), "f4"))
    store.good = 10**9
    assert output.missing_blocks() == [1]
