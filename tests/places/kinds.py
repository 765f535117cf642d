"""Kinds of storage that share the tests of the contract; each function creates a new, empty location."""

from __future__ import annotations

import itertools

import pytest
import zarr
from zarr.storage import FsspecStore, ObjectStore

from .servers import BUCKET, KEY, SECRET

numbers = itertools.count()


def local(tmp_path, request):
    return str(tmp_path / f"{next(numbers)}.zarr")


def memory(tmp_path, request):
    return zarr.storage.MemoryStore()


def memory_url(tmp_path, request):
    pytest.importorskip("fsspec")
    return f"memory://places/{next(numbers)}.zarr"


def obstore_memory(tmp_path, request):
    stores = pytest.importorskip("obstore.store")
    return ObjectStore(stores.MemoryStore())


def obstore_local(tmp_path, request):
    stores = pytest.importorskip("obstore.store")
    return ObjectStore(stores.LocalStore(tmp_path / f"{next(numbers)}.zarr", mkdir=True))


def zip_file(tmp_path, request):
    return tmp_path / f"{next(numbers)}.zip"


def icechunk_memory(tmp_path, request):
    icechunk = pytest.importorskip("icechunk")
    return icechunk.Repository.create(icechunk.in_memory_storage())


def icechunk_moto(tmp_path, request):
    icechunk = pytest.importorskip("icechunk")
    storage = icechunk.s3_storage(
        bucket=BUCKET,
        prefix=f"{next(numbers)}.zarr",
        endpoint_url=request.getfixturevalue("moto_url"),
        region="us-east-1",
        access_key_id=KEY,
        secret_access_key=SECRET,
        allow_http=True,
        force_path_style=True,
    )
    return icechunk.Repository.create(storage)


def s3fs_url(tmp_path, request):
    """Return an S3 URL whose endpoint and credentials come from the environment."""
    request.getfixturevalue("moto_url")
    return f"s3://{BUCKET}/{next(numbers)}.zarr"


def s3fs_moto(tmp_path, request):
    return s3fs_object(request.getfixturevalue("moto_url"))


def s3fs_rclone(tmp_path, request):
    return s3fs_object(request.getfixturevalue("rclone_url"))


def obstore_moto(tmp_path, request):
    return obstore_s3(request.getfixturevalue("moto_url"))


def obstore_rclone(tmp_path, request):
    return obstore_s3(request.getfixturevalue("rclone_url"))


def s3fs_object(endpoint, prefix=None, bucket=BUCKET, key=KEY, secret=SECRET, **options):
    pytest.importorskip("s3fs")
    url = f"s3://{bucket}/{prefix or next(numbers)}.zarr"
    options |= {"endpoint_url": endpoint, "key": key, "secret": secret, "use_listings_cache": False}
    return FsspecStore.from_url(url, storage_options=options)


def obstore_s3(endpoint, prefix=None, bucket=BUCKET, key=KEY, secret=SECRET, **options):
    stores = pytest.importorskip("obstore.store")
    return ObjectStore(
        stores.S3Store(
            bucket,
            prefix=f"{prefix or next(numbers)}.zarr",
            endpoint=endpoint,
            region="us-east-1",
            access_key_id=key,
            secret_access_key=secret,
            client_options={"allow_http": True},
            **options,
        )
    )


HERE = (local, memory, memory_url, obstore_memory, obstore_local)
HERE_AS_A_WHOLE = (zip_file, icechunk_memory)  # nothing can be changed in them outside of a commit
SERVED = (s3fs_url, s3fs_rclone, obstore_moto, obstore_rclone)
# without rclone, whose server does not support suffix ranges, which read the index of a shard
RANGED = (
    s3fs_url,
    obstore_moto,
)


def params(*kinds):
    """Return pytest parameters; those that need a server are marked ``network``."""
    return [
        pytest.param(
            k, id=k.__name__, marks=[pytest.mark.network] if k in (*SERVED, s3fs_moto, icechunk_moto) else []
        )
        for k in kinds
    ]
