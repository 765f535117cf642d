"""A pickled view opens its store in another process, once, with the credentials of that process."""

import json
import multiprocessing
import os
import pickle
import shutil
from concurrent.futures import ProcessPoolExecutor

import numpy as np
import pytest
from store.samples import random_sets
from zarr.core.sync import sync

from dkdist.io import StoreFormatError, open_sets, write_sets
from dkdist.io._zarr.location.address import as_location, get_bytes, put_bytes

from . import servers
from .elsewhere import read_pickled_view
from .kinds import (
    local,
    obstore_local,
    obstore_moto,
    obstore_rclone,
    obstore_s3,
    params,
    s3fs_moto,
    s3fs_rclone,
    s3fs_url,
)

SETS = random_sets([3, 5, 2])


@pytest.fixture(scope="module")
def other_process():
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        yield pool


def assert_read_elsewhere(other_process, store):
    aws = {name: value for name, value in os.environ.items() if name.startswith("AWS_")}
    points, targets, shown, opened = other_process.submit(
        read_pickled_view, pickle.dumps(store), aws
    ).result()
    np.testing.assert_array_equal(points, SETS.points)
    assert targets.tolist() == [4, 5, 6]
    assert servers.SECRET not in shown
    assert opened == 1


KINDS = (local, obstore_local, s3fs_url, s3fs_moto, s3fs_rclone, obstore_moto, obstore_rclone)


@pytest.mark.parametrize("place", params(*KINDS), indirect=True)
def test_a_view_opens_its_store_in_another_process(other_process, place):
    assert_read_elsewhere(other_process, write_sets(place, SETS, [4, 5, 6]))


def test_a_view_of_a_zip_file_opens_in_another_process(other_process, tmp_path):
    write_sets(tmp_path / "s", SETS, [4, 5, 6])
    shutil.make_archive(str(tmp_path / "s.zarr"), "zip", tmp_path / "s")
    assert_read_elsewhere(other_process, open_sets(tmp_path / "s.zarr.zip"))


@pytest.mark.network
def test_a_view_of_a_web_store_opens_in_another_process(other_process, tmp_path):
    write_sets(tmp_path / "s", SETS, [4, 5, 6])
    with servers.web(servers.files(tmp_path)) as host:
        assert_read_elsewhere(other_process, open_sets(f"http://{host}/s"))


@pytest.mark.network
def test_credentials_from_the_environment_are_not_pickled(moto_url):
    store = write_sets(s3fs_url(None, _Fixtures(moto_url)), SETS, [4, 5, 6])
    pickled = pickle.dumps(store)
    for secret in (servers.KEY, servers.SECRET, moto_url):
        assert secret.encode() not in pickled


@pytest.mark.network
def test_stores_with_equal_labels_are_not_confused(moto_url, rclone_url):
    """Copies of a store in buckets of the same name on two servers."""
    places = [obstore_s3(url, "copied") for url in (moto_url, rclone_url)]
    write_sets(places[0], SETS, [4, 5, 6])
    source, target = (as_location(place).open(read_only=False) for place in places)
    for key in ("", "points/", "offsets/", "targets/", "targets/y/"):
        put_bytes(target, f"{key}zarr.json", get_bytes(source, [f"{key}zarr.json"])[0])
    root = json.loads(get_bytes(source, ["zarr.json"])[0])
    table = root["attributes"]["dkdist"]["table"]["key"]
    for key in ("points/c/0/0", "offsets/c/0", "targets/y/c/0", table):
        put_bytes(target, key, get_bytes(source, [key])[0])
    first, second = (open_sets(place) for place in places)
    assert first.__dask_tokenize__() == second.__dask_tokenize__()
    sync(source.delete("points/c/0/0"))
    np.testing.assert_array_equal(second.load().points, SETS.points)
    with pytest.raises(StoreFormatError, match="missing"):
        first.load()
    np.testing.assert_array_equal(second.load().points, SETS.points)


class _Fixtures:
    def __init__(self, url):
        self.url = url

    def getfixturevalue(self, name):
        return self.url
