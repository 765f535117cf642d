"""What must not be shown: user names and passwords in URLs, signatures in their queries, and keys in options.

Every text that leaves the store's room and names a place goes through `without_secrets`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

USER_INFO = re.compile(r"//[^/\s]*@")
QUERY = re.compile(r"\?[^\s'\"<>)]*=[^\s'\"<>)]*")
SECRET_NAME = re.compile(r"key|secret|token|password|signature|credential|sas|auth", re.IGNORECASE)
HIDDEN = "***"


def without_secrets(text: str, known: Iterable[str] = ()) -> str:
    """The text without user information and queries of URLs, and without the values that are known secrets."""
    text = QUERY.sub("", USER_INFO.sub("//", text))
    for value in sorted(known, key=len, reverse=True):
        text = text.replace(value, HIDDEN)
    return text


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
