"""Connections to a cluster that is already running."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from distributed import Client
from distributed.core import rpc
from distributed.security import Security

TIMEOUT_SECONDS = 5.0  # of a connection, an answer, and a scheduler file that does not exist yet
ADVICE = (
    "Check the address that 'dask scheduler' printed (tcp:// or tls://); tls:// needs certificates of the cluster's "
    "authority that have not expired (--tls-ca-file, --tls-cert and --tls-key, or 'distributed.comm.tls' of Dask's "
    "configuration)"
)


def credentials(ca_file: str | None, cert: str | None, key: str | None) -> Security:
    """Return the TLS files of a client; Dask's configuration replaces those that are None."""
    files = {"tls_ca_file": ca_file, "tls_client_cert": cert, "tls_client_key": key}
    return Security(**{name: path for name, path in files.items() if path is not None})


@contextmanager
def connect(address: str, security: Security | None = None) -> Iterator[str]:
    """Run the body on the cluster of the Dask scheduler at ``address``; yield its address, workers and threads.

    ValueError names TLS files that cannot be used. ConnectionError gives Dask's reason if no scheduler answers.
    """
    security = Security() if security is None else security
    arguments = _connection_arguments(security)
    try:  # before a Client, which waits without end for a server that accepts connections and does not answer
        asyncio.run(asyncio.wait_for(_require_scheduler(address, arguments), TIMEOUT_SECONDS + 1))
    except Exception as error:  # a server that is no scheduler can cause any
        cause: BaseException = error
        while cause.__cause__ and not isinstance(cause, TimeoutError):
            cause = cause.__cause__
        raise ConnectionError(f"no Dask scheduler answers at {address!r}: {cause!r}. {ADVICE}") from error
    with Client(address, timeout=TIMEOUT_SECONDS, security=security) as client:
        threads = client.nthreads().values()
        yield f"{address}: {len(threads)} workers, {sum(threads)} threads"


def _connection_arguments(security: Security) -> dict[str, Any]:
    """Return Dask's arguments of a connection."""
    tls = security.get_tls_config_for_role("client")
    files = [
        tls[name] for name in ("ca_file", "cert", "key") if "\n" not in (tls[name] or "\n")
    ]  # not PEM text
    try:
        if locked := [file for file in files if "ENCRYPTED" in Path(file).read_text(errors="replace")]:
            raise ValueError(  # OpenSSL would wait for a passphrase from the terminal
                f"{locked[0]!r} has a passphrase, for which Dask cannot ask: give a key without one, which only you "
                "can read ('umask 077; openssl pkey -in LOCKED -out UNLOCKED')"
            )
        return dict(security.get_connection_args("client"))
    except OSError as error:  # an SSLError is one
        raise ValueError(f"the TLS files {', '.join(files)} cannot be used: {error}") from error


async def _require_scheduler(address: str, arguments: dict[str, Any]) -> None:
    async with rpc(address, timeout=TIMEOUT_SECONDS, connection_args=arguments) as server:
        kind = (await server.identity())["type"]
    if kind != "Scheduler":
        raise ValueError(f"the server is a {kind}")


def address_in(scheduler_file: str | os.PathLike[str]) -> str:
    """Return the address in the file that ``dask scheduler --scheduler-file`` writes when it starts.

    ConnectionError if the file holds no address within five seconds.
    """
    end = time.monotonic() + TIMEOUT_SECONDS
    while time.monotonic() < end:
        with suppress(OSError, ValueError, KeyError, TypeError):  # missing or half written
            return str(json.loads(Path(scheduler_file).read_text())["address"])
        time.sleep(0.1)
    path = os.fspath(scheduler_file)
    raise ConnectionError(
        f"the scheduler file {path!r} names no scheduler: start one with 'dask scheduler --scheduler-file {path}', in "
        "a folder that this machine can read"
    )
