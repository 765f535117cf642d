"""Bounded bodies of HTTP responses, and removal of secrets from URLs and messages.

Requests ask for uncompressed bodies (``Accept-Encoding: identity``) and compressed ones are rejected: chunks are
compressed already, and a small body could expand to any size. Bodies are read piece by piece up to a limit.

User names, passwords, signatures, tokens and keys must not appear in messages. Texts that contain locations go through
`without_secrets`; a text that is exactly a URL goes through `url_label`.
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


def without_secrets(text: str, known_secrets: Iterable[str] = ()) -> str:
    """Remove known secrets, and credentials, queries, fragments and parameters of URLs."""
    for value in sorted(known_secrets, key=len, reverse=True):
        text = text.replace(value, HIDDEN)
    text = URL.sub(lambda match: url_label(match[0]), text)
    return QUERY.sub("", USER_INFO.sub("//", text))


def url_label(url: str) -> str:
    """Remove secrets from a URL or a chain of URLs."""
    return "::".join(_split_secrets(part)[0] for part in CHAIN.split(url))


def secrets_in(url: str) -> set[str]:
    """Return the texts that `url_label` removes, whole, in parts, and in quoted forms."""
    secrets: set[str] = set()
    for part in CHAIN.split(url):
        for text in _split_secrets(part)[1]:
            secrets |= {text, *(piece.partition("=")[2] or piece for piece in SEPARATORS.split(text))}
    secrets |= {unquote(text) for text in secrets} | {quote(text, safe="") for text in secrets}
    return {text for text in secrets if len(text) > 3}


def _split_secrets(url: str) -> tuple[str, list[str]]:
    """Split one URL into (public text, removed texts)."""
    scheme, slashes, remainder = url.partition("://")
    if not slashes:
        return url, []
    end = _end_of_user_info(remainder)
    removed, remainder = [AT_LAST.sub("", remainder[:end])], remainder[end:]
    after = AFTER_PATH.search(remainder)
    if after:
        removed.append(remainder[after.end() :])
        remainder = remainder[: after.start()]
    removed += [match[1] for match in PARAMETERS.finditer(remainder)]
    return scheme + slashes + PARAMETERS.sub("", remainder), removed


def _end_of_user_info(remainder: str) -> int:
    """Return the start of the host; a password may contain "/", as in user:pa/ss@host."""
    authority = AFTER_AUTHORITY.split(remainder, maxsplit=1)[0]
    end = max((match.end() for match in AT.finditer(authority)), default=0)
    _, colon, port = authority[end:].partition(":")
    if not colon or (end and port.isdigit()):
        return end
    where = AFTER_PATH.split(remainder, maxsplit=1)[0] if port.isdigit() else remainder
    return max((match.end() for match in AT.finditer(where)), default=end)


def secrets_of(store: Any) -> set[str]:
    """Return the values of secret options of a Zarr store object, by option name."""
    file_system, client = getattr(store, "fs", None), getattr(store, "store", None)
    options = (
        getattr(file_system, "storage_options", None),
        getattr(client, "config", None),
        getattr(client, "client_options", None),
    )
    return {value for option in options for value in _secret_values(option, secret=False) if len(value) > 3}


def _secret_values(option: Any, *, secret: bool) -> Iterator[str]:
    """Yield strings in nested options below a secret name."""
    if isinstance(option, Mapping):
        for name, value in option.items():
            yield from _secret_values(value, secret=secret or bool(SECRET_NAME.search(str(name))))
    elif secret and isinstance(option, str):
        yield option
    elif isinstance(option, (list, tuple)):
        for value in option:
            yield from _secret_values(value, secret=secret)


MAX_ERROR_BYTES = 2**16  # short error pages are read to reuse the connection; tests/places/test_web.py
MAX_BODY_BYTES = 2**31 + 2**16  # BLOSC_MAX_BUFFERSIZE and headers (MAX_CHUNK_BYTES in dkdist/io/errors.py)
_BOUND: ContextVar[float] = ContextVar("max_body_bytes", default=MAX_BODY_BYTES)


class BodyTooLargeError(Exception):
    """Error for a body beyond its size limit; not retried."""


def bound_bodies(max_bytes: float) -> None:
    """Set the size limit of bodies for the current task; longer ones raise `BodyTooLargeError`."""
    _BOUND.set(min(max_bytes, MAX_BODY_BYTES))


def web_options(protocol: str) -> dict[str, Any]:
    """Return options of the HTTP file system of fsspec, merged with the user's configuration."""
    from fsspec.config import conf

    configured = dict(conf.get(protocol, {}).get("client_kwargs", {}))
    headers = dict(configured.pop("headers", {})) | {"Accept-Encoding": "identity"}
    required = {"headers": headers, "auto_decompress": False, "response_class": _bounded_response()}
    return {"client_kwargs": configured | required}


@cache
def _bounded_response() -> Any:
    from aiohttp import ClientResponse

    class BoundedResponse(ClientResponse):
        """Response whose body has a size limit."""

        async def read(self) -> bytes:
            if self._body is None:
                try:
                    self._body = await self._bounded_body()
                except BaseException:
                    self.close()  # otherwise aiohttp reads an endless body
                    raise
            return bytes(self._body)

        async def _bounded_body(self) -> bytes:
            if self.status >= 400:
                return await self.content.read(MAX_ERROR_BYTES)
            encoding = self.headers.get("Content-Encoding", "identity")
            if encoding != "identity":
                raise OSError(
                    f"the server must not compress responses; got Content-Encoding {encoding!r}. Disable its "
                    "compression: chunks are compressed already."
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
