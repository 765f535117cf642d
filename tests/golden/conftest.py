"""A client of two worker processes, and a folder, for all golden tests."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from distributed import Client, LocalCluster


@pytest.fixture(scope="session")
def two_workers(worker_processes: LocalCluster) -> Iterator[Client]:
    """A client that is not the default one: tests that need it enter `Client.as_current`."""
    with Client(worker_processes, set_as_default=False) as client:
        yield client


@pytest.fixture(scope="session")
def store_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("golden")
