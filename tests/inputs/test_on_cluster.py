"""Inputs on clusters of threads and of two processes, and persisted inputs with and without a client."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pytest
from distributed import Client

import dkdist as dk
from inputs.kinds import CLUSTER_KINDS, ENTRIES, KINDS, LAZY, PERSISTED_KINDS, example, make, run

ENTRY_NAMES = list(ENTRIES)
CLUSTERS: dict[str, dict[str, Any]] = {
    "no client": {},
    "threads": {"n_workers": 1, "threads_per_worker": 2, "processes": False},
    "two processes": {"n_workers": 2, "threads_per_worker": 1},
}
# (cluster, whether data are persisted, kind); test_as_sets.py has the inputs without a client
CASES = [
    *itertools.product(["threads", "two processes"], [False], [*KINDS, *CLUSTER_KINDS]),
    *itertools.product(CLUSTERS, [True], PERSISTED_KINDS),
]
# Workers of a process each load the compiled functions of an entry point anew, which takes seconds.
ENTRIES_ON_PROCESSES = ["MomentEmbedding", "IncrementalRidgeClassifier"]


def entry_of(i: int, case: tuple[str, bool, str]) -> str:
    """Return the entry point of the i-th case."""
    names = ENTRIES_ON_PROCESSES if case[0] == "two processes" else ENTRY_NAMES
    return names[(5 * i + i // 12) % len(names)]


# one entry point for every lazy case
LAZY_CASES = [(*case, entry_of(i, case)) for i, case in enumerate(case for case in CASES if case[2] in LAZY)]


@pytest.fixture(scope="module")
def running() -> Iterator[dict[str, Client | None]]:
    """Return the client of the last test by the name of its cluster, for the next test."""
    clients: dict[str, Client | None] = {}
    yield clients
    close(clients)


def close(clients: dict[str, Client | None]) -> None:
    while clients:
        if (client := clients.popitem()[1]) is not None:
            client.close()


@pytest.fixture
def client(request: pytest.FixtureRequest, running: dict[str, Client | None]) -> Client | None:
    """Return a client of the cluster of the parameter. A parametrized fixture would start one for every case."""
    if request.param not in running:
        close(running)
        options = CLUSTERS[request.param]
        running[request.param] = Client(**options, dashboard_address="127.0.0.1:0") if options else None
    return running[request.param]


def compare(is_persisted: bool, kind: str, entry: str, path: Path) -> None:
    X, sets, y = make(kind, path / "input", is_persisted=is_persisted)
    result, expected = run(entry, X, y, path / "a"), run(entry, sets, y, path / "b")
    np.testing.assert_allclose(result, expected, rtol=0, atol=1e-4)


@pytest.mark.parametrize(("client", "is_persisted", "kind", "entry"), LAZY_CASES, indirect=["client"])
def test_result_on_a_cluster_equals_that_of_arrays_in_memory(
    client: Client | None, is_persisted: bool, kind: str, entry: str, tmp_path: Path
) -> None:
    compare(is_persisted, kind, entry, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("entry", ENTRY_NAMES)
@pytest.mark.parametrize(("client", "is_persisted", "kind"), CASES, indirect=["client"])
def test_all_pairs_on_clusters(
    client: Client | None, is_persisted: bool, kind: str, entry: str, tmp_path: Path
) -> None:
    compare(is_persisted, kind, entry, tmp_path)


@pytest.mark.parametrize("client", ["two processes"], indirect=True)
def test_persisted_array_is_read_where_it_is(client: Client) -> None:
    points, y = example()
    lazy = da.from_array(points, chunks=(8, 20, 2)).persist()
    model = dk.MomentEmbedding(degree=2).fit(dk.as_sets(lazy))
    rows = model.transform(lazy)
    np.testing.assert_array_equal(rows.compute(), model.transform(points))
    learner = dk.IncrementalRidgeClassifier().fit(rows, da.from_array(y))
    assert learner.score(rows, y) == dk.IncrementalRidgeClassifier().fit(model.transform(points), y).score(
        model.transform(points), y
    )
