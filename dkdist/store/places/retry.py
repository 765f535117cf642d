"""Which failures of a storage pass by themselves, and how long they are waited for.

Libraries say the same thing in many forms (aiohttp, botocore, obstore, the system's own errors); they are told
apart by HTTP status, error code and the names of their classes, so that none of them needs to be imported.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator

TRIES = 8
FIRST_PAUSE = 0.1  # seconds; doubled from one try to the next
LONGEST_PAUSE = 10.0
TRY_SECONDS = 90.0
TOTAL_SECONDS = 180.0
FIRST_CONTACT_SECONDS = 10.0  # without any answer so far, a wrong address is likelier than a fault

PASSING_STATUS = {408, 429, 500, 502, 503, 504}
PASSING_CODES = {"SlowDown", "InternalError", "RequestTimeout", "ServiceUnavailable", "Throttling"}
PASSING_CLASSES = {
    *("ConnectionError", "HTTPClientError", "ResponseParserError", "IncompleteReadError"),  # botocore
    *("ClientConnectionError", "ClientPayloadError"),  # aiohttp
    *("FSTimeoutError", "IncompleteRead", "JoinError"),  # fsspec, http.client, obstore
}
LASTING_CLASSES = {"SSLError", "ClientSSLError", "ClientConnectorCertificateError"}
REFUSAL_CLASSES = {
    *("NoCredentialsError", "PartialCredentialsError", "CredentialRetrievalError"),
    *("TokenRetrievalError", "PermissionDeniedError", "UnauthenticatedError"),
}
METADATA_SERVICE = "169.254.169.254"  # where obstore looks for credentials when it has none
OBSTORE_STATUS = re.compile(r"status code: (\d{3})")
OBSTORE_PASSING = re.compile(r"error sending request|timed? ?out|connection|response body", re.IGNORECASE)


def pause(tries: int) -> float:
    """Seconds to wait after so many tries: exponential, with jitter so that workers do not return together."""
    return random.uniform(0.5, 1.0) * min(FIRST_PAUSE * 2.0 ** (tries - 1), LONGEST_PAUSE)


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


def is_refusal(error: BaseException) -> bool:
    """Whether credentials are missing, wrong, or not enough."""
    classes = {c.__name__ for e in _causes(error) for c in type(e).__mro__}
    return (
        isinstance(error, PermissionError)
        or bool(classes & REFUSAL_CLASSES)
        or METADATA_SERVICE in str(error)
        or status_of(error) in (401, 403)
    )


def is_passing(error: BaseException) -> bool:
    """Whether the same request may succeed if it is made again."""
    status = status_of(error)
    if status is not None:
        return status in PASSING_STATUS or not PASSING_CODES.isdisjoint(_codes(error))
    if _library(error) == "obstore":
        return OBSTORE_PASSING.search(str(error)) is not None
    classes = {c.__name__ for c in type(error).__mro__}
    if classes & LASTING_CLASSES:
        return False
    return isinstance(error, TimeoutError) or bool(classes & PASSING_CLASSES)


def is_of_a_client(error: BaseException) -> bool:
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
