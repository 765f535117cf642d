"""Bodies of web servers: as they are stored, and never more bytes than the object can have.

Servers are asked not to compress (``Accept-Encoding: identity``), and a compressed body is refused rather than
unpacked: chunks are compressed already, and a small body could unpack to any length. Bodies are read piece by piece, so
that an endless one ends at its bound.

What must not be shown: user names and passwords in URLs, signatures and tokens after their paths, keys in options.

Every text that leaves the store's room and names a place goes through `without_secrets`; a text that is a URL and
nothing else through `url_label`, which need not guess where it ends.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextvars import ContextVar
from functools import cache
from typing import Any
from urllib.parse import quote, unquote

from dkdist._utils.memory_budget import require_memory

URL = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*://[^\s'\"<>)]*")
USER_INFO = re.compile(r"//[^/\s]*@")
QUERY = re.compile(r"\?[^\s'\"<>)]*=[^\s'\"<>)]*")
AFTER_PATH = re.compile(r"[?#]|%3[Ff]|%23")
PARAMETERS = re.compile(r"(?:;|%3[Bb])([^/]*)")
AT = re.compile(r"@|%40")
AT_LAST = re.compile(r"(?:@|%40)$")
AFTER_AUTHORITY = re.compile(r"[/?#]")
CHAIN = re.compile(r"::(?=[A-Za-z][A-Za-z0-9+.\-]*:(?:/|:))")
SEPARATORS = re.compile(r"[:&;@?#]")
SECRET_NAME = re.compile(r"key|secret|token|password|signature|credential|sas|auth", re.IGNORECASE)
HIDDEN = "***"


def without_secrets(text: str, known: Iterable[str] = ()) -> str:
    """The text without user information, queries, fragments and parameters of URLs, and without known secrets."""
    for value in sorted(known, key=len, reverse=True):
        text = text.replace(value, HIDDEN)
    text = URL.sub(lambda found: url_label(found[0]), text)
    return QUERY.sub("", USER_INFO.sub("//", text))


def url_label(url: str) -> str:
    """A URL, or a chain of them, without what may be secret."""
    return "::".join(_split_secrets(part)[0] for part in CHAIN.split(url))


def secrets_in(url: str) -> set[str]:
    """What `url_label` leaves out, whole and in parts, as it is written and as libraries may write it."""
    found: set[str] = set()
    for part in CHAIN.split(url):
        for text in _split_secrets(part)[1]:
            found |= {text, *(piece.partition("=")[2] or piece for piece in SEPARATORS.split(text))}
    found |= {unquote(text) for text in found} | {quote(text, safe="") for text in found}
    return {text for text in found if len(text) > 3}


def _split_secrets(url: str) -> tuple[str, list[str]]:
    """(what may be shown, what was left out) of one URL."""
    scheme, slashes, rest = url.partition("://")
    if not slashes:
        return url, []
    end = _end_of_user_info(rest)
    left_out, rest = [AT_LAST.sub("", rest[:end])], rest[end:]
    after = AFTER_PATH.search(rest)
    if after:
        left_out.append(rest[after.end() :])
        rest = rest[: after.start()]
    left_out += [found[1] for found in PARAMETERS.finditer(rest)]
    return scheme + slashes + PARAMETERS.sub("", rest), left_out


def _end_of_user_info(rest: str) -> int:
    """Where the host begins. A password may hold a raw "/": "@" in the path ends it in user:pa/ss@host."""
    authority = AFTER_AUTHORITY.split(rest, maxsplit=1)[0]
    end = max((found.end() for found in AT.finditer(authority)), default=0)
    _, colon, port = authority[end:].partition(":")
    if not colon or (end and port.isdigit()):
        return end
    where = AFTER_PATH.split(rest, maxsplit=1)[0] if port.isdigit() else rest
    return max((found.end() for found in AT.finditer(where)), default=end)


def secrets_of(store: Any) -> set[str]:
    """The values of the options of a Zarr store object whose names say that they are secret."""
    file_system, client = getattr(store, "fs", None), getattr(store, "store", None)
    options = (
        getattr(file_system, "storage_options", None),
        getattr(client, "config", None),
        getattr(client, "client_options", None),
    )
    return {value for option in options for value in _secret_values(option, secret=False) if len(value) > 3}


def _secret_values(option: Any, *, secret: bool) -> Iterator[str]:
    """Strings in nested options, below a name that says that they are secret."""
    if isinstance(option, Mapping):
        for name, value in option.items():
            yield from _secret_values(value, secret=secret or bool(SECRET_NAME.search(str(name))))
    elif secret and isinstance(option, str):
        yield option
    elif isinstance(option, (list, tuple)):
        for value in option:
            yield from _secret_values(value, secret=secret)


MAX_ERROR_BYTES = (
    2**16
)  # of an error's page, which keeps the connection; the rest of a longer one is not read
MAX_BODY_BYTES = 2**31 + 2**16  # of objects of unknown length: what blosc can hold
_BOUND: ContextVar[float] = ContextVar("max_body_bytes", default=MAX_BODY_BYTES)


class BodyTooLargeError(Exception):
    """A body has more bytes than its object can have; asking again would not help."""


def bound_bodies(max_bytes: float) -> None:
    """Let longer bodies raise `BodyTooLargeError`, in this task from now on.

    Nothing is reset: the next request of the task sets its own bound.
    """
    _BOUND.set(min(max_bytes, MAX_BODY_BYTES))


def web_options(protocol: str) -> dict[str, Any]:
    """Options of fsspec's file system for web servers, added to those that the user has configured."""
    from fsspec.config import conf

    configured = dict(conf.get(protocol, {}).get("client_kwargs", {}))
    headers = dict(configured.pop("headers", {})) | {"Accept-Encoding": "identity"}
    own = {"headers": headers, "auto_decompress": False, "response_class": _bounded_response()}
    return {"client_kwargs": configured | own}


@cache
def _bounded_response() -> Any:
    from aiohttp import ClientResponse

    class BoundedResponse(ClientResponse):
        """A response whose body is read up to a bound."""

        async def read(self) -> bytes:
            if self._body is None:
                try:
                    self._body = await self._bounded_body()
                except BaseException:
                    self.close()  # an endless body is not read to its end
                    raise
            return bytes(self._body)

        async def _bounded_body(self) -> bytes:
            if self.status >= 400:
                return await self.content.read(MAX_ERROR_BYTES)
            encoding = self.headers.get("Content-Encoding", "identity")
            if encoding != "identity":
                raise OSError(
                    f"its server sent a body in Content-Encoding {encoding!r} to a request for identity: turn off "
                    "its compression, which chunks have already"
                )
            max_bytes, pieces, n_bytes = _BOUND.get(), list[bytes](), 0
            n_checked = 0
            async for piece in self.content.iter_any():
                pieces.append(piece)
                n_bytes += len(piece)
                if n_bytes > max_bytes:
                    raise BodyTooLargeError
                if n_bytes >= 2 * n_checked:
                    n_checked = n_bytes
                    require_memory(2 * n_bytes, "the body of a web server needs")
            return b"".join(pieces)

    return BoundedResponse
