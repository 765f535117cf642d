"""Access to remote stores with retries, size limits and error messages without secrets.

Reads and writes of whole objects are idempotent and are tried up to `MAX_ATTEMPTS` times within
`TOTAL_TIMEOUT_SECONDS`, or `FIRST_CONTACT_TIMEOUT_SECONDS` for a storage that has never responded. Other failures
become an `OSError` that names store and object. Errors are classified by HTTP status, error code and class name, so
that no client library (aiohttp, botocore, obstore) is imported.

`AsyncStoreWrapper` routes all access through `get` and `set`: Zarr's own wrapper passes ranged, batched and synchronous
access directly to the inner store, which would skip checks and retries of subclasses.
"""

from __future__ import annotations

import asyncio
import io
import random
import re
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Iterator,
    Sequence,
    Set,
)
from math import inf
from typing import Any, TypeVar

from zarr.abc.store import ByteRequest, RangeByteRequest, Store, SuffixByteRequest
from zarr.storage import WrapperStore

from dkdist._utils.rust_panics import RustPanicError, panics_as_errors
from dkdist.io._zarr._zarr_private import Buffer, BufferPrototype, default_buffer_prototype
from dkdist.io._zarr.location.web import (
    MAX_BODY_BYTES,
    BodyTooLargeError,
    bound_bodies,
    secrets_of,
    without_secrets,
)
from dkdist.io.errors import RESTORE_HINT, ObjectBounds, ObjectTooLargeError


class AsyncStoreWrapper(WrapperStore[Store]):
    """Store wrapper that routes all access through `get` and `set`."""

    _supports_sync_io = False

    async def get_partial_values(
        self, prototype: BufferPrototype, key_ranges: Iterable[tuple[str, ByteRequest | None]]
    ) -> list[Buffer | None]:
        """Read several byte ranges of objects."""
        return list(await asyncio.gather(*(self.get(key, prototype, part) for key, part in key_ranges)))

    async def get_ranges(
        self, key: str, byte_ranges: Sequence[ByteRequest | None], **options: Any
    ) -> AsyncIterator[Sequence[tuple[int, Buffer | None]]]:
        """Read several byte ranges of one object; adjacent ranges are combined by `Store`.

        Errors are raised unwrapped, except for missing objects, which Zarr expects in an exception group.
        """
        kwargs = {name: value for name, value in options.items() if value is not None}
        ranges: Any = Store
        try:
            async for parts in ranges.get_ranges(self, key, byte_ranges, **kwargs):
                yield parts
        except BaseExceptionGroup as errors:
            _, other_errors = errors.split(FileNotFoundError)
            if other_errors is None:
                raise
            raise other_errors.exceptions[0] from None

    async def _get_many(
        self, requests: Iterable[tuple[str, BufferPrototype, ByteRequest | None]]
    ) -> AsyncGenerator[tuple[str, Buffer | None], None]:
        for key, prototype, part in requests:
            yield key, await self.get(key, prototype, part)

    async def _set_many(self, values: Iterable[tuple[str, Buffer]]) -> None:
        await asyncio.gather(*(self.set(key, value) for key, value in values))

    def get_sync(self, key: str, **options: Any) -> Buffer | None:
        """Raise NotImplementedError."""
        raise NotImplementedError(f"{self} cannot be read without an event loop.")

    def set_sync(self, key: str, value: Buffer) -> None:
        """Raise NotImplementedError."""
        raise NotImplementedError(f"{self} cannot be written without an event loop.")

    def delete_sync(self, key: str) -> None:
        """Raise NotImplementedError."""
        raise NotImplementedError(f"{self} cannot be written without an event loop.")


# Exponential backoff (https://aws.amazon.com/builders-library/timeouts-retries-and-backoff-with-jitter/): longer limits
# bridge longer outages but delay the error of a permanent one. tests/places/test_retries.py checks attempts and pauses.
MAX_ATTEMPTS = 8  # at most 13 s of pauses in total (tests/places/test_retries.py)
FIRST_PAUSE_SECONDS = 0.1  # doubled after each attempt (tests/places/test_retries.py)
MAX_PAUSE_SECONDS = 10.0  # tests/places/test_retries.py
ATTEMPT_TIMEOUT_SECONDS = 90.0  # enough for a chunk of 1 MiB at 12 KB/s (tests/places/test_retries.py)
TOTAL_TIMEOUT_SECONDS = 180.0  # enough for two slow attempts (tests/places/test_retries.py)
# A storage that has never responded probably has a wrong address (tests/places/test_retries.py)
FIRST_CONTACT_TIMEOUT_SECONDS = 10.0

RETRYABLE_STATUS = {408, 429, 500, 502, 503, 504}
RETRYABLE_CODES = {"SlowDown", "InternalError", "RequestTimeout", "ServiceUnavailable", "Throttling"}
RETRYABLE_CLASSES = {
    *("ConnectionError", "HTTPClientError", "ResponseParserError", "IncompleteReadError"),  # botocore
    *("ClientConnectionError", "ClientPayloadError"),  # aiohttp
    *("FSTimeoutError", "IncompleteRead", "JoinError"),  # fsspec, http.client, obstore
}
CLIENT_LIBRARIES = {"aiohttp", "aiobotocore", "botocore", "fsspec", "icechunk", "obstore", "s3fs", "yarl"}
PERMANENT_CLASSES = {"SSLError", "ClientSSLError", "ClientConnectorCertificateError"}
CREDENTIAL_CLASSES = {
    *("NoCredentialsError", "PartialCredentialsError", "CredentialRetrievalError"),
    *("TokenRetrievalError", "PermissionDeniedError", "UnauthenticatedError"),
}
METADATA_SERVICE = "169.254.169.254"  # obstore contacts this host if there are no credentials
OBSTORE_STATUS = re.compile(r"status code: (\d{3})")
OBSTORE_RETRYABLE = re.compile(r"error sending request|timed? ?out|connection|response body", re.IGNORECASE)


def pause_seconds(tries: int) -> float:
    """Return the pause after an attempt: exponential, with jitter to spread workers."""
    return random.uniform(0.5, 1.0) * min(FIRST_PAUSE_SECONDS * 2.0 ** (tries - 1), MAX_PAUSE_SECONDS)


def status_of(error: BaseException) -> int | None:
    """Return the HTTP status of an error or its causes; None without a response."""
    for e in _causes(error):
        status = getattr(e, "status", None)
        if isinstance(status, int):
            return status
        response = getattr(e, "response", None)
        if isinstance(response, dict) and "HTTPStatusCode" in response.get("ResponseMetadata", {}):
            return int(response["ResponseMetadata"]["HTTPStatusCode"])
        match = OBSTORE_STATUS.search(str(e)) if _library(e) == "obstore" else None
        if match is not None:
            return int(match[1])
    return None


def is_permission_error(error: BaseException) -> bool:
    """Whether credentials are missing, wrong or insufficient."""
    classes = {c.__name__ for e in _causes(error) for c in type(e).__mro__}
    return (
        isinstance(error, PermissionError)
        or bool(classes & CREDENTIAL_CLASSES)
        or METADATA_SERVICE in str(error)
        or status_of(error) in (401, 403)
    )


def is_retryable(error: BaseException) -> bool:
    """Whether the same request may succeed later."""
    status = status_of(error)
    if status is not None:
        return status in RETRYABLE_STATUS or not RETRYABLE_CODES.isdisjoint(_codes(error))
    if _library(error) == "obstore":
        return OBSTORE_RETRYABLE.search(str(error)) is not None
    classes = {c.__name__ for c in type(error).__mro__}
    if classes & PERMANENT_CLASSES:
        return False
    return isinstance(error, TimeoutError) or bool(classes & RETRYABLE_CLASSES)


def is_client_error(error: BaseException) -> bool:
    """Whether a storage client raised the error, not Python, Zarr or a store of the user."""
    return _library(error) in CLIENT_LIBRARIES


def _library(error: BaseException) -> str:
    return type(error).__module__.partition(".")[0]


def _codes(error: BaseException) -> set[str]:
    responses = [getattr(e, "response", None) for e in _causes(error)]
    return {str(r.get("Error", {}).get("Code")) for r in responses if isinstance(r, dict)}


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__


T = TypeVar("T")
# More requests would queue in the connection pool of the client and time out there (tests/places/test_retries.py)
MAX_CONCURRENT_REQUESTS = 64

_answered: set[str] = set()  # labels of stores that have responded in this process


class RemoteStore(AsyncStoreWrapper):
    """Store with bounded retries and clear errors; messages name it by `label`."""

    def __init__(self, store: Store, label: str, secrets: Set[str] = frozenset()) -> None:
        super().__init__(store)
        self.label, self._secrets = label, secrets
        self._slots = asyncio.Semaphore(MAX_CONCURRENT_REQUESTS)
        self.bounds = ObjectBounds()

    def _with_store(self, store: Store) -> RemoteStore:
        wrapper = RemoteStore(store, self.label, self._secrets)
        wrapper.bounds = self.bounds
        return wrapper

    def __str__(self) -> str:
        return self.label

    def __repr__(self) -> str:
        return f"RemoteStore({self.label})"

    async def get(
        self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        """Read an object or a byte range; None if it is missing.

        Raises OSError if the server ignores the range, `ObjectTooLargeError` if the object exceeds its limit.
        """
        max_bytes = min(self.bounds.of_key(key), MAX_BODY_BYTES)
        try:
            bound_bodies(min(max_bytes, _requested_bytes(byte_range)))
            value = await self.with_retries(
                f"read {key} of", lambda: self._store.get(key, prototype, byte_range)
            )
            n_bytes: float = 0 if value is None else len(value)
        except BodyTooLargeError:
            value, n_bytes = None, inf
        if byte_range is not None and n_bytes > _requested_bytes(byte_range):
            raise OSError(
                f"cannot read a part of {key} of {self.label}: the server ignores byte ranges, which shards require. "
                "Use a server that supports range requests, or write the store without shards."
            )
        if n_bytes > max_bytes:
            raise ObjectTooLargeError(
                f"{key} of {self.label} must have at most {max_bytes} bytes. {RESTORE_HINT}"
            )
        return value

    async def exists(self, key: str) -> bool:
        """Whether an object exists; verifies "no", which file systems also report for failures."""

        async def check() -> bool:
            first_byte = RangeByteRequest(0, 1)
            if await self._store.exists(key):
                return True
            try:
                bound_bodies(1)
                return await self._store.get(key, default_buffer_prototype(), first_byte) is not None
            except BodyTooLargeError:
                return True

        return await self.with_retries(f"look for {key} in", check)

    async def set(self, key: str, value: Buffer) -> None:
        """Write one object."""
        await self.with_retries(f"write {key} of", lambda: self._store.set(key, value))

    async def set_if_not_exists(self, key: str, value: Buffer) -> None:
        """Write one object unless it exists."""
        await self.with_retries(f"write {key} of", lambda: self._store.set_if_not_exists(key, value))

    async def delete(self, key: str) -> None:
        """Remove one object if it exists."""
        await self.with_retries(f"delete {key} of", lambda: self._store.delete(key))

    async def delete_dir(self, prefix: str) -> None:
        """Remove all objects under a prefix."""
        await self.with_retries(
            f"delete {prefix} of", lambda: self._store.delete_dir(prefix), single_object=False
        )

    async def clear(self) -> None:
        """Remove everything."""
        await self.with_retries("empty", self._store.clear, single_object=False)

    async def is_empty(self, prefix: str) -> bool:
        """Whether there is nothing under a prefix."""
        return await self.with_retries("list", lambda: self._store.is_empty(prefix), single_object=False)

    def list(self) -> AsyncIterator[str]:
        """List all names."""
        return self._listed(self._store.list)

    def list_prefix(self, prefix: str) -> AsyncIterator[str]:
        """List the names with a prefix."""
        return self._listed(lambda: self._store.list_prefix(prefix))

    def list_dir(self, prefix: str) -> AsyncIterator[str]:
        """List the names directly under a prefix."""
        return self._listed(lambda: self._store.list_dir(prefix))

    async def _listed(self, names: Callable[[], AsyncIterator[str]]) -> AsyncIterator[str]:
        async def collect() -> Any:
            bound_bodies(MAX_BODY_BYTES)
            return [name async for name in names()]

        for name in await self.with_retries("list", collect, single_object=False):
            yield name

    async def without_retries(self, doing: str, call: Callable[[], Awaitable[T]]) -> T:
        """Run a call that must not be repeated, with the error messages of `with_retries`."""
        try:
            with panics_as_errors():
                return await call()
        except Exception as error:
            raise self._named(error, doing, 1, 0.0) from None

    async def with_retries(
        self, doing: str, call: Callable[[], Awaitable[T]], *, single_object: bool = True
    ) -> T:
        """Run a call with retries; ``single_object`` calls access one object and have a timeout."""
        clock = asyncio.get_running_loop().time
        started, attempts = clock(), 0
        reason: Exception | None = None
        while True:
            attempts += 1
            limit = TOTAL_TIMEOUT_SECONDS if self.label in _answered else FIRST_CONTACT_TIMEOUT_SECONDS
            timeout = min(ATTEMPT_TIMEOUT_SECONDS, started + limit - clock()) if single_object else None
            try:
                async with self._slots, asyncio.timeout(timeout):
                    with panics_as_errors():
                        result = await call()
            except Exception as error:
                if status_of(error) is not None:
                    _answered.add(self.label)
                if reason is None or not isinstance(error, TimeoutError):
                    reason = error  # a response is more informative than a later timeout
                pause, elapsed = pause_seconds(attempts), clock() - started
                is_final = attempts >= MAX_ATTEMPTS or elapsed + pause >= limit
                if is_final or is_permission_error(error) or not is_retryable(error):
                    raise self._named(reason, doing, attempts, elapsed) from None
                await asyncio.sleep(pause)
            else:
                _answered.add(self.label)
                return result

    def _named(self, error: Exception, doing: str, attempts: int, elapsed: float) -> Exception:
        """Convert an error to one that names the operation, the store and a remedy."""
        text = str(error).partition("\n")[0].strip() or "no answer"
        text = without_secrets(text, secrets_of(self._store) | self._secrets)[:300]
        what = f"cannot {doing} {self.label} ({type(error).__name__}: {text})"
        if isinstance(error, MemoryError):
            return MemoryError(what)
        if is_permission_error(error):
            return PermissionError(
                f"{what}: the credentials are missing, wrong or insufficient. Set them in the environment, or pass a "
                "Zarr store object that contains them."
            )
        if isinstance(error, FileNotFoundError) or status_of(error) == 404:
            return FileNotFoundError(f"{what}. Create the bucket or folder first, or check the address.")
        if is_retryable(error):
            advice = (
                "Try again later." if self.label in _answered else "Check the address, endpoint and network."
            )
            return ConnectionError(f"{what}: {attempts} attempts failed in {elapsed:.0f} s. {advice}")
        if isinstance(error, NotImplementedError):
            return io.UnsupportedOperation(f"{what}: the storage does not support it.")
        if isinstance(error, OSError):
            return OSError(*([error.errno] if error.errno else []), f"{what}. Check the storage.")
        from_client = is_client_error(error) or isinstance(error, RustPanicError)
        return OSError(f"{what}. Check the storage.") if from_client else error


def _requested_bytes(part: ByteRequest | None) -> float:
    """Return the number of requested bytes; infinity if unknown."""
    if isinstance(part, RangeByteRequest):
        return part.end - part.start
    return part.suffix if isinstance(part, SuffixByteRequest) else inf
