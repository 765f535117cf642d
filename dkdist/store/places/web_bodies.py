"""Bodies of web servers: as they are stored, and never more bytes than the object can have.

Servers are asked not to compress (``Accept-Encoding: identity``), and a compressed body is refused rather than
unpacked: chunks are compressed already, and a small body could unpack to any length. Bodies are read piece by piece, so
that an endless one ends at its bound.
"""

from __future__ import annotations

from contextvars import ContextVar
from functools import cache
from typing import Any

from dkdist._utils.memory_budget import require_memory

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
