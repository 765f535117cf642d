"""Connecting to a cluster that is already running."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from distributed import Client
from distributed.core import rpc
from distributed.security import Security

TIMEOUT = 5.0  # seconds after which an address that does not answer is given up


@contextmanager
def connect(address: str) -> Iterator[str]:
    """Run what is inside the ``with`` on the cluster of the Dask scheduler at ``address``.

    Parameters
    ----------
    address : str
        As ``dask scheduler`` prints it, for example ``tcp://10.0.0.5:8786``.

    Yields
    ------
    str
        One line that says what was found: the address, workers and threads.

    Raises
    ------
    ConnectionError
        If no scheduler answers at the address within five seconds.
    """
    # asked before a Client is made: one that failed to connect takes ten more seconds to go away
    try:
        found = asyncio.run(asyncio.wait_for(_identity(address), TIMEOUT))
        if found["type"] != "Scheduler":
            raise ValueError(f"it is a {found['type']}")
    except (OSError, ValueError, RuntimeError) as error:
        raise ConnectionError(
            f"no Dask scheduler answers at {address!r} ({str(error) or 'nothing came back'}): start one with "
            "'dask scheduler' and give the address it prints, or leave it out to run on this machine"
        ) from error
    with Client(address, timeout=TIMEOUT) as client:
        threads = client.nthreads().values()
        yield f"{address}: {len(threads)} workers, {sum(threads)} threads"


async def _identity(address: str) -> dict[str, Any]:
    arguments = Security().get_connection_args("client")
    async with rpc(address, timeout=TIMEOUT, connection_args=arguments) as scheduler:
        answer: dict[str, Any] = await scheduler.identity()
        return answer
