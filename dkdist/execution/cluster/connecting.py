"""Connecting to a cluster that is already running."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from distributed import Client
from distributed.core import rpc
from distributed.security import Security

from dkdist.execution.cluster.tls import reason, require_credentials

TIMEOUT = 5.0  # seconds after which an address that does not answer is given up


@contextmanager
def connect(address: str, security: Security | None = None) -> Iterator[str]:
    """Run what is inside the ``with`` on the cluster of the Dask scheduler at ``address``; gives a line that names it.

    Certificates for a ``tls://`` address are by default those of Dask's configuration; ValueError if they cannot be
    used. ConnectionError, with the reason, if no scheduler answers within five seconds.
    """
    security = Security() if security is None else security
    require_credentials(address, security)
    # asked before a Client is made: one that failed to connect takes ten more seconds to go away
    try:
        kind = asyncio.run(asyncio.wait_for(_kind(address, security), TIMEOUT))
    except Exception:  # anything: what listens there need not speak Dask's language
        raise ConnectionError(
            f"no Dask scheduler answers at {address!r}: {reason(address, security)}"
        ) from None
    if kind != "Scheduler":
        raise ConnectionError(
            f"no Dask scheduler answers at {address!r}: it is the address of a {kind}. Give the address that "
            "'dask scheduler' printed"
        )
    with Client(address, timeout=TIMEOUT, security=security) as client:
        threads = client.nthreads().values()
        yield f"{address}: {len(threads)} workers, {sum(threads)} threads"


async def _kind(address: str, security: Security) -> str:
    arguments = security.get_connection_args("client")
    async with rpc(address, timeout=TIMEOUT, connection_args=arguments) as server:
        answer: dict[str, Any] = await server.identity()
        return str(answer["type"])


def address_in(scheduler_file: str | os.PathLike[str]) -> str:
    """The address in the file that ``dask scheduler --scheduler-file`` writes when it starts.

    ConnectionError if there is no such file within five seconds, or it holds no address.
    """
    end = time.monotonic() + TIMEOUT
    path = os.fspath(scheduler_file)
    while True:
        try:
            return str(json.loads(Path(path).read_text())["address"])
        except (OSError, ValueError, KeyError, TypeError):  # not there yet, or half written
            if time.monotonic() > end:
                raise ConnectionError(
                    f"the scheduler file {path!r} names no scheduler: start one with 'dask scheduler --scheduler-file "
                    f"{path}', in a folder that this machine sees as well"
                ) from None
            time.sleep(0.1)
