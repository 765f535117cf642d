"""A Zarr store that is not in this process or on its disks: tried again where that may help, named where not.

Reads, and writes of whole objects, which may be repeated, are tried up to `MAX_ATTEMPTS` times within
`TOTAL_TIMEOUT_SECONDS`; a storage that has never answered is given up after `FIRST_CONTACT_TIMEOUT_SECONDS`. What
cannot be helped becomes an `OSError` that names the store and the object, without secrets.

A Zarr store around another one, through whose `get` and `set` everything goes.

Zarr's own wrapper hands every other way to read and write on to the store inside: several ranges of an object at once,
many objects at once, and all of it without an event loop (each since another version of Zarr). What a subclass checks,
records or tries again in `get` and `set` would be passed by.

Which failures of a storage pass by themselves, and how long they are waited for.

Libraries say the same thing in many forms (aiohttp, botocore, obstore, the system's own errors); they are told
apart by HTTP status, error code and the names of their classes, so that none of them needs to be imported.
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
    """The store inside, seen through `get` and `set` alone."""

    _supports_sync_io = False

    async def get_partial_values(
        self, prototype: BufferPrototype, key_ranges: Iterable[tuple[str, ByteRequest | None]]
    ) -> list[Buffer | None]:
        """Several parts of objects."""
        return list(await asyncio.gather(*(self.get(key, prototype, part) for key, part in key_ranges)))

    async def get_ranges(
        self, key: str, byte_ranges: Sequence[ByteRequest | None], **options: Any
    ) -> AsyncIterator[Sequence[tuple[int, Buffer | None]]]:
        """Several parts of one object, as `Store` reads them (neighbours at once); an error comes out as it is.

        An object that is not there comes out as Zarr expects it, in a group of errors.
        """
        given = {name: value for name, value in options.items() if value is not None}
        ranges: Any = Store
        try:
            async for parts in ranges.get_ranges(self, key, byte_ranges, **given):
                yield parts
        except BaseExceptionGroup as errors:
            _, others = errors.split(FileNotFoundError)
            if others is None:
                raise
            raise others.exceptions[0] from None

    async def _get_many(
        self, requests: Iterable[tuple[str, BufferPrototype, ByteRequest | None]]
    ) -> AsyncGenerator[tuple[str, Buffer | None], None]:
        for key, prototype, part in requests:
            yield key, await self.get(key, prototype, part)

    async def _set_many(self, values: Iterable[tuple[str, Buffer]]) -> None:
        await asyncio.gather(*(self.set(key, value) for key, value in values))

    def get_sync(self, key: str, **options: Any) -> Buffer | None:
        """Refused: only `get` is there."""
        raise NotImplementedError(f"{self} is not read without an event loop")

    def set_sync(self, key: str, value: Buffer) -> None:
        """Refused: only `set` is there."""
        raise NotImplementedError(f"{self} is not written without an event loop")

    def delete_sync(self, key: str) -> None:
        """Refused: only `delete` is there."""
        raise NotImplementedError(f"{self} is not written without an event loop")


MAX_ATTEMPTS = 8
FIRST_PAUSE_SECONDS = 0.1  # seconds; doubled from one try to the next
MAX_PAUSE_SECONDS = 10.0
ATTEMPT_TIMEOUT_SECONDS = 90.0
TOTAL_TIMEOUT_SECONDS = 180.0
FIRST_CONTACT_TIMEOUT_SECONDS = 10.0  # without any answer so far, a wrong address is likelier than a fault

RETRYABLE_STATUS = {408, 429, 500, 502, 503, 504}
RETRYABLE_CODES = {"SlowDown", "InternalError", "RequestTimeout", "ServiceUnavailable", "Throttling"}
RETRYABLE_CLASSES = {
    *("ConnectionError", "HTTPClientError", "ResponseParserError", "IncompleteReadError"),  # botocore
    *("ClientConnectionError", "ClientPayloadError"),  # aiohttp
    *("FSTimeoutError", "IncompleteRead", "JoinError"),  # fsspec, http.client, obstore
}
PERMANENT_CLASSES = {"SSLError", "ClientSSLError", "ClientConnectorCertificateError"}
CREDENTIAL_CLASSES = {
    *("NoCredentialsError", "PartialCredentialsError", "CredentialRetrievalError"),
    *("TokenRetrievalError", "PermissionDeniedError", "UnauthenticatedError"),
}
METADATA_SERVICE = "169.254.169.254"  # where obstore looks for credentials when it has none
OBSTORE_STATUS = re.compile(r"status code: (\d{3})")
OBSTORE_RETRYABLE = re.compile(r"error sending request|timed? ?out|connection|response body", re.IGNORECASE)


def pause_seconds(tries: int) -> float:
    """Seconds to wait after so many tries: exponential, with jitter so that workers do not return together."""
    return random.uniform(0.5, 1.0) * min(FIRST_PAUSE_SECONDS * 2.0 ** (tries - 1), MAX_PAUSE_SECONDS)


def status_of(error: BaseException) -> int | None:
    """The HTTP status in an error or in what caused it; None if no server answered."""
    for e in _causes(error):
        status = getattr(e, "status", None)
        if isinstance(status, int):
            return status
        response = getattr(e, "response", None)
        if isinstance(response, dict) and "HTTPStatusCode" in response.get("ResponseMetadata", {}):
            return int(response["ResponseMetadata"]["HTTPStatusCode"])
        found = OBSTORE_STATUS.search(str(e)) if _library(e) == "obstore" else None
        if found is not None:
            return int(found[1])
    return None


def is_permission_error(error: BaseException) -> bool:
    """Whether credentials are missing, wrong, or not enough."""
    classes = {c.__name__ for e in _causes(error) for c in type(e).__mro__}
    return (
        isinstance(error, PermissionError)
        or bool(classes & CREDENTIAL_CLASSES)
        or METADATA_SERVICE in str(error)
        or status_of(error) in (401, 403)
    )


def is_retryable(error: BaseException) -> bool:
    """Whether the same request may succeed if it is made again."""
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
    """Whether a library for some storage raised it, and not Python, Zarr or a user's own store."""
    return _library(error) in {"aiohttp", "aiobotocore", "botocore", "fsspec", "obstore", "s3fs", "yarl"}


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
MAX_CONCURRENT_REQUESTS = (
    64  # requests under way; more would wait in the client's pool, where waiting counts as no answer
)

_answered: set[str] = set()  # the labels of stores that have answered in this process


class RemoteStore(AsyncStoreWrapper):
    """A store object with bounded retries and clear errors; `label` is how messages name it."""

    def __init__(self, store: Store, label: str, secrets: Set[str] = frozenset()) -> None:
        super().__init__(store)
        self.label, self._secrets = label, secrets
        self._places = asyncio.Semaphore(MAX_CONCURRENT_REQUESTS)
        self.bounds = ObjectBounds()

    def _with_store(self, store: Store) -> RemoteStore:
        other = RemoteStore(store, self.label, self._secrets)
        other.bounds = self.bounds
        return other

    def __str__(self) -> str:
        return self.label

    def __repr__(self) -> str:
        return f"RemoteStore({self.label})"

    async def get(
        self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        """The object, or the asked part of it; None if there is none.

        OSError for a server that sends more than the part that was asked for, `ObjectTooLargeError` for an object
        that is longer than it can be.
        """
        most = self.bounds.of_key(key)
        try:
            bound_bodies(min(most, _requested_bytes(byte_range)))
            value = await self.tried(f"read {key} of", lambda: self._store.get(key, prototype, byte_range))
            n_bytes: float = 0 if value is None else len(value)
        except BodyTooLargeError:
            value, n_bytes = None, inf
        if byte_range is not None and n_bytes > _requested_bytes(byte_range):
            raise OSError(
                f"cannot read a part of {key} of {self.label}: its server ignores byte ranges, which shards "
                "need. Use a server that answers range requests, or write the store without shards"
            )
        if n_bytes > min(most, MAX_BODY_BYTES):
            most = min(most, MAX_BODY_BYTES)
            raise ObjectTooLargeError(
                f"{key} of {self.label} is longer than the {most} bytes that it can have. {RESTORE_HINT}"
            )
        return value

    async def exists(self, key: str) -> bool:
        """Whether there is an object; a "no" is asked twice, for file systems say it for every failure."""

        async def ask() -> bool:
            first_byte = RangeByteRequest(0, 1)
            if await self._store.exists(key):
                return True
            try:
                bound_bodies(1)
                return await self._store.get(key, default_buffer_prototype(), first_byte) is not None
            except BodyTooLargeError:
                return True

        return await self.tried(f"look for {key} in", ask)

    async def set(self, key: str, value: Buffer) -> None:
        """Store one object, whole."""
        await self.tried(f"write {key} of", lambda: self._store.set(key, value))

    async def set_if_not_exists(self, key: str, value: Buffer) -> None:
        """Store one object, whole, where there is none."""
        await self.tried(f"write {key} of", lambda: self._store.set_if_not_exists(key, value))

    async def delete(self, key: str) -> None:
        """Remove one object, if it is there."""
        await self.tried(f"delete {key} of", lambda: self._store.delete(key))

    async def delete_dir(self, prefix: str) -> None:
        """Remove all objects under a prefix."""
        await self.tried(f"delete {prefix} of", lambda: self._store.delete_dir(prefix), whole=False)

    async def clear(self) -> None:
        """Remove everything."""
        await self.tried("empty", self._store.clear, whole=False)

    async def is_empty(self, prefix: str) -> bool:
        """Whether there is nothing under a prefix."""
        return await self.tried("list", lambda: self._store.is_empty(prefix), whole=False)

    def list(self) -> AsyncIterator[str]:
        """All names."""
        return self._listed(self._store.list)

    def list_prefix(self, prefix: str) -> AsyncIterator[str]:
        """The names that begin with a prefix."""
        return self._listed(lambda: self._store.list_prefix(prefix))

    def list_dir(self, prefix: str) -> AsyncIterator[str]:
        """The names directly under a prefix."""
        return self._listed(lambda: self._store.list_dir(prefix))

    async def _listed(self, names: Callable[[], AsyncIterator[str]]) -> AsyncIterator[str]:
        async def collect() -> Any:
            bound_bodies(MAX_BODY_BYTES)
            return [name async for name in names()]

        for name in await self.tried("list", collect, whole=False):
            yield name

    async def once(self, doing: str, call: Callable[[], Awaitable[T]]) -> T:
        """What a call gives that must not be repeated; its errors are named as all others."""
        try:
            with panics_as_errors():
                return await call()
        except Exception as error:
            raise self._named(error, doing, 1, 0.0) from None

    async def tried(self, doing: str, call: Callable[[], Awaitable[T]], *, whole: bool = True) -> T:
        """What the call gives; `whole` says that it is about one object, and so ends soon or never."""
        clock = asyncio.get_running_loop().time
        begun, tries = clock(), 0
        reason: Exception | None = None
        while True:
            tries += 1
            patience = TOTAL_TIMEOUT_SECONDS if self.label in _answered else FIRST_CONTACT_TIMEOUT_SECONDS
            left = min(ATTEMPT_TIMEOUT_SECONDS, begun + patience - clock()) if whole else None
            try:
                async with self._places, asyncio.timeout(left):
                    with panics_as_errors():
                        result = await call()
            except Exception as error:
                if status_of(error) is not None:
                    _answered.add(self.label)
                if reason is None or not isinstance(error, TimeoutError):
                    reason = error  # what was said is told, and not the silence after it
                wait, waited = pause_seconds(tries), clock() - begun
                too_late = tries >= MAX_ATTEMPTS or waited + wait >= patience
                if too_late or is_permission_error(error) or not is_retryable(error):
                    raise self._named(reason, doing, tries, waited) from None
                await asyncio.sleep(wait)
            else:
                _answered.add(self.label)
                return result

    def _named(self, error: Exception, doing: str, tries: int, waited: float) -> Exception:
        """The error as users see it: what could not be done to which store, why, and what helps."""
        text = str(error).partition("\n")[0].strip() or "no answer"
        text = without_secrets(text, secrets_of(self._store) | self._secrets)[:300]
        what = f"cannot {doing} {self.label} ({type(error).__name__}: {text})"
        if isinstance(error, MemoryError):
            return MemoryError(what)
        if is_permission_error(error):
            return PermissionError(
                f"{what}: the credentials are missing, wrong, or do not allow it. Set them in the "
                "environment, or give a Zarr store object that has them"
            )
        if isinstance(error, FileNotFoundError) or status_of(error) == 404:
            return FileNotFoundError(f"{what}: create the bucket or folder first, or check the address")
        if is_retryable(error):
            advice = (
                "Run it again later" if self.label in _answered else "Check the address, endpoint and network"
            )
            return ConnectionError(f"{what}: given up after {tries} tries in {waited:.0f} s. {advice}")
        if isinstance(error, NotImplementedError):
            return io.UnsupportedOperation(f"{what}: this kind of storage cannot do that")
        if isinstance(error, OSError):
            return OSError(*([error.errno] if error.errno else []), f"{what}. Check the storage")
        from_client = is_client_error(error) or isinstance(error, RustPanicError)
        return OSError(f"{what}. Check the storage") if from_client else error


def _requested_bytes(part: ByteRequest | None) -> float:
    """The number of bytes asked for, if it is known."""
    if isinstance(part, RangeByteRequest):
        return part.end - part.start
    return part.suffix if isinstance(part, SuffixByteRequest) else inf
