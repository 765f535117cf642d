"""A Zarr store in memory whose requests fail like those of real storage, as configured."""

import asyncio

import numpy as np
from zarr.storage import MemoryStore, WrapperStore


class FaultyStore(WrapperStore):
    """Store that fails the next requests with ``errors`` (None: no answer), a random ``share`` of them, or all
    after the first ``good`` ones.
    """

    def __init__(self, store=None):
        super().__init__(store or MemoryStore())
        self.errors = []
        self.requests, self.good = 0, 10**9
        self.share, self.rng = 0.0, np.random.default_rng(0)

    def __str__(self):
        return "faulty://place"

    async def fail(self):
        self.requests += 1
        if self.requests > self.good:
            raise http_error(403)
        if self.errors:
            error = self.errors.pop(0)
            if error is None:
                await asyncio.Event().wait()
            raise error
        if self.rng.random() < self.share:
            raise ConnectionResetError(104, "Connection reset by peer")

    async def get(self, *args):
        await self.fail()
        return await super().get(*args)

    async def set(self, *args):
        await self.fail()
        await super().set(*args)

    async def exists(self, *args):
        await self.fail()
        return await super().exists(*args)

    async def delete(self, *args):
        await self.fail()
        await super().delete(*args)


def http_error(status):
    """Return the error that aiohttp raises below fsspec's HTTP file system."""
    import aiohttp
    from yarl import URL

    url = URL("http://ann:pa55word@host/x.zarr/zarr.json?sig=s1gnature")
    info = aiohttp.RequestInfo(url, "GET", {}, url)
    return aiohttp.ClientResponseError(info, (), status=status, message="said the server")


def s3_error(code, status):
    """Return the error that botocore raises below s3fs."""
    from botocore.exceptions import ClientError

    response = {"Error": {"Code": code, "Message": code}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return ClientError(response, "GetObject")


def s3fs_error(code, status):
    """Return the error as translated by s3fs."""
    from s3fs.errors import translate_boto_error

    return translate_boto_error(s3_error(code, status))


def endpoint_error():
    from botocore.exceptions import EndpointConnectionError

    return EndpointConnectionError(endpoint_url="http://host:1/bucket")


def no_credentials():
    from botocore.exceptions import NoCredentialsError

    return NoCredentialsError()


def obstore_error(text):
    from obstore.exceptions import GenericError

    return GenericError(
        f"Generic S3 error: Error performing GET http://host/bucket/x in 1ms, after 1 retries, max_retries: 1, "
        f"retry_timeout: 180s  - {text}\n\nDebug source:\nGeneric {{ headers: secret }}"
    )


def obstore_refusal():
    from obstore.exceptions import UnauthenticatedError

    return UnauthenticatedError("the request lacked valid authentication credentials")


def certificate_error():
    from botocore.exceptions import SSLError

    return SSLError(endpoint_url="https://host/bucket", error="certificate verify failed")
