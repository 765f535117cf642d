"""One cluster of two worker processes for all golden tests."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from distributed import Client, LocalCluster


@pytest.fixture(scope="session")
def two_workers() -> Iterator[Client]:
    """A client that is not the default one: tests that need it enter `Client.as_current`."""
    cluster = LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address="127.0.0.1:0")
    with Client(cluster, set_as_default=False) as client:
        yield client
    with suppress(TimeoutError):  # of processes that end slowly where the machine is busy
        cluster.close()


@pytest.fixture(scope="session")
def store_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("golden")
