"""Inputs on a cluster of two processes, persisted or not, and in threads of a cluster in this process."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pytest
from distributed import Client, LocalCluster

import dkdist as dk
from inputs.kinds import CLUSTER_KINDS, ENTRIES, KINDS, LAZY, example, make, run

LAZY_KINDS = sorted(LAZY & KINDS.keys() | CLUSTER_KINDS.keys())
ENTRY_NAMES = list(ENTRIES)
PAIRS = [(kind, ENTRY_NAMES[(5 * i) % len(ENTRY_NAMES)]) for i, kind in enumerate(LAZY_KINDS)]


@pytest.fixture(scope="module")
def two_processes() -> Iterator[Any]:
    """Return a client of a cluster of two processes."""
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0") as cluster,
        Client(cluster) as client,
    ):
        yield client


def compare(kind: str, entry: str, path: Path) -> None:
    X, sets, y = make(kind, path / "input")
    result, expected = run(entry, X, y, path / "a"), run(entry, sets, y, path / "b")
    np.testing.assert_allclose(result, expected, rtol=0, atol=1e-4)


@pytest.mark.parametrize(("kind", "entry"), PAIRS)
def test_result_on_two_processes_equals_that_of_arrays_in_memory(
    kind: str, entry: str, tmp_path: Path, two_processes: Client
) -> None:
    compare(kind, entry, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "entry"), list(itertools.product([*KINDS, *CLUSTER_KINDS], ENTRY_NAMES)))
def test_all_pairs_on_two_processes(kind: str, entry: str, tmp_path: Path, two_processes: Client) -> None:
    compare(kind, entry, tmp_path)


def test_persisted_array_is_read_where_it_is(two_processes: Client) -> None:
    points, y = example()
    lazy = da.from_array(points, chunks=(8, 20, 2)).persist()
    model = dk.MomentEmbedding(degree=2).fit(dk.as_sets(lazy))
    rows = model.transform(lazy)
    np.testing.assert_array_equal(rows.compute(), model.transform(points))
    learner = dk.IncrementalRidgeClassifier().fit(rows, da.from_array(y))
    assert learner.score(rows, y) == dk.IncrementalRidgeClassifier().fit(model.transform(points), y).score(
        model.transform(points), y
    )
