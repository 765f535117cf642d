"""Rows that are cached after the first pass: computed once, with results identical to recomputed rows."""

from __future__ import annotations

import os
import pickle
import re
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import numpy as np
import pytest
from distributed import Client

import dkdist as dk
from dkdist._runtime.blocks import row_blocks
from dkdist._runtime.cache import _FolderCache
from dkdist._runtime.run import MAX_AUTO_CACHE_BYTES, CachePolicy, plan_cache, plan_of
from dkdist._utils.archives import ArchiveError
from dkdist.linear.epochs import choose_materialization

N, M = 400, 12
RNG = np.random.default_rng(0)
A = RNG.standard_normal((N, M)).astype("f4")
Y = A @ RNG.standard_normal(M) > 0
MADE: list[int] = []


def lazy() -> Any:
    def count_rows(block: Any) -> Any:
        MADE.append(len(block))
        return block + 1

    return da.from_array(A, chunks=(50, -1)).map_blocks(count_rows, dtype="f4", meta=np.empty((0, 0), "f4"))


def features() -> Any:
    return dk.RandomFourierFeatures(40, sigma=3.0, random_state=0).fit(A).transform(lazy())


def learner(**k: Any) -> Any:
    return dk.IncrementalSGDClassifier(n_epochs=4, eta0=1.0, validation_fraction=0.2, random_state=0, **k)


def bits(X: Any, cores: int = 2, **k: Any) -> bytes:
    MADE.clear()
    with dask.config.set(num_workers=cores):
        m = learner(**k).fit(X, Y)
    return pickle.dumps([m.coef_, m.intercept_, m.loss_curve_, m.validation_loss_curve_])


def test_features_are_eager_with_spare_cores() -> None:
    blocks = row_blocks(features())
    with dask.config.set(num_workers=4):
        assert choose_materialization(blocks, 1).eager
        assert not choose_materialization(blocks, 2).eager
        with Client(processes=False, n_workers=1, threads_per_worker=4, dashboard_address="127.0.0.1:0"):
            assert not choose_materialization(blocks, 1).eager
    with dask.config.set(num_workers=2):
        assert not choose_materialization(blocks, 1).eager


@pytest.mark.parametrize("make", [features, lazy])
@pytest.mark.parametrize("n_lanes", [1, 2])
def test_cached_rows_are_computed_once_with_identical_results(
    tmp_path: Path, make: Any, n_lanes: int
) -> None:
    recomputed = bits(make(), cache=False, n_lanes=n_lanes)
    assert len(MADE) == 4 * 8
    for cache in ("auto", "memory", tmp_path, os.fspath(tmp_path)):
        for cores in (1, 2, 4):
            assert bits(make(), cores, cache=cache, n_lanes=n_lanes) == recomputed
            # an epoch may begin while the last blocks of the previous one are computed
            assert 8 <= len(MADE) <= 8 + (cores > 1) * 2
    assert list(tmp_path.iterdir()) == []


def test_rows_are_cached_before_features_are_computed() -> None:
    for make in (features, lazy):
        assert plan_cache(row_blocks(make()), "memory", 2) == CachePolicy("memory", 4 * N * M)


def test_automatic_cache_is_limited_and_planned(monkeypatch: pytest.MonkeyPatch) -> None:
    assert MAX_AUTO_CACHE_BYTES == 256 * 2**20
    plans = [plan_of(lambda k=k: learner(cache=k).fit(lazy(), Y)) for k in ("auto", False)]
    assert plans[0].cache_text == "; rows are cached after the first pass, 18.75 kiB in memory"
    assert str(plans[0]).endswith(plans[0].cache_text)
    assert plans[0].work_bytes - plans[1].work_bytes == 4 * N * M
    assert plans[1].cache_text == ""
    with dask.config.set({"dkdist.memory-limit": 8 * 4 * N * M - 1}):
        assert plan_of(lambda: learner().fit(lazy(), Y)).cache_text == ""
        with pytest.raises(MemoryError, match="rows are cached after the first pass"):
            learner(cache="memory").fit(da.from_array(np.tile(A, (1, 30)), chunks=(50, -1)), Y)
    bits(lazy(), cache="auto")
    monkeypatch.setattr("dkdist._runtime.run.MAX_AUTO_CACHE_BYTES", 4 * N * M - 1)
    bits(lazy(), cache="auto")
    assert len(MADE) == 4 * 8


def test_one_pass_or_rows_in_memory_are_not_cached() -> None:
    for X, epochs in ((lazy(), 1), (A, 3)):
        assert (
            plan_of(lambda X=X, e=epochs: learner(cache="memory").set_params(n_epochs=e).fit(X, Y)).cache_text
            == ""
        )


def test_memory_cache_requires_local_threads(tmp_path: Path) -> None:
    in_process, recomputed = bits(lazy()), bits(features())
    with dask.config.set(scheduler="synchronous"):
        assert bits(lazy()) == in_process
        assert len(MADE) == 8  # cached in the memory of this process
        assert bits(lazy(), cache=tmp_path) == in_process
        assert len(MADE) == 8
    message = r"cache='memory' .* To fix: pass a folder that all processes share"
    with dask.config.set(scheduler="processes"), pytest.raises(ValueError, match=message):
        learner(cache="memory").fit(lazy(), Y)
    with Client(processes=False, n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0"):
        assert bits(lazy()) == in_process
        with pytest.raises(ValueError, match="work runs on a client"):
            learner(cache="memory").fit(lazy(), Y)
        assert bits(features(), cache=tmp_path) == recomputed
        assert len(MADE) <= 8 + 4  # the next epoch may begin while the last blocks are computed
    assert list(tmp_path.iterdir()) == []
    for invalid_cache in (True, 3, None):
        with pytest.raises(ValueError, match="cache"):
            learner(cache=invalid_cache).fit(A, Y)


def test_missing_cache_folder_on_worker_raises(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"does not exist on .* all workers share"):
        _FolderCache(os.fspath(tmp_path / "elsewhere")).put(0, A)


@pytest.mark.parametrize("n_bytes", [0, 72, 200])
def test_truncated_cache_file_raises(tmp_path: Path, n_bytes: int) -> None:
    cache = _FolderCache(os.fspath(tmp_path))
    cache.put(3, A)
    path = next(tmp_path.iterdir())
    os.truncate(path, n_bytes)
    with pytest.raises(ArchiveError, match=f"the cached rows in {re.escape(os.fspath(path))} are damaged"):
        cache.get(3)


def test_failed_run_removes_cache_and_resumed_run_matches(tmp_path: Path) -> None:
    bad = A.copy()
    bad[333] = np.nan
    with pytest.raises(ValueError, match="got nan in row 333"):
        learner(cache=tmp_path).fit(da.from_array(bad, chunks=(50, -1)), Y)
    assert list(tmp_path.iterdir()) == []
    X = lazy()
    first = learner(checkpoint=tmp_path / "run", cache="memory").fit(X, Y)
    resumed = learner(checkpoint=tmp_path / "run", cache=False).fit(X, Y)
    np.testing.assert_array_equal(first.coef_, resumed.coef_)


def test_saved_model_omits_cache_folder(tmp_path: Path) -> None:
    dk.save_model(learner(cache=tmp_path).fit(A, Y), tmp_path / "m.npz")
    assert dk.load_model(tmp_path / "m.npz").cache == "auto"
