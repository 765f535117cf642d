"""Rows that are kept after the first pass: made once, wherever they are kept, with the bits of rows made again."""

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
    def note(block: Any) -> Any:
        MADE.append(len(block))
        return block + 1

    return da.from_array(A, chunks=(50, -1)).map_blocks(note, dtype="f4", meta=np.empty((0, 0), "f4"))


def features() -> Any:
    return dk.RandomFourierFeatures(40, sigma=3.0, random_state=0).fit(A).transform(lazy())


def learner(**k: Any) -> Any:
    return dk.IncrementalSGDClassifier(n_epochs=4, eta0=1.0, validation_fraction=0.2, random_state=0, **k)


def bits(X: Any, cores: int = 2, **k: Any) -> bytes:
    MADE.clear()
    with dask.config.set(num_workers=cores):
        m = learner(**k).fit(X, Y)
    return pickle.dumps([m.coef_, m.intercept_, m.loss_curve_, m.validation_loss_curve_])


def test_features_are_made_at_once_where_this_process_has_cores_to_spare() -> None:
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
def test_rows_are_made_once_and_have_the_same_bits(tmp_path: Path, make: Any, n_lanes: int) -> None:
    again = bits(make(), cache=False, n_lanes=n_lanes)
    assert len(MADE) == 4 * 8
    for cache in ("auto", "memory", tmp_path, os.fspath(tmp_path)):
        for cores in (1, 2, 4):
            assert bits(make(), cores, cache=cache, n_lanes=n_lanes) == again
            assert (
                8 <= len(MADE) <= 8 + (cores > 1) * 2
            )  # an epoch may begin while the last blocks of another are made
    assert list(tmp_path.iterdir()) == []


def test_they_are_kept_before_their_features_are_made() -> None:
    for make in (features, lazy):
        assert plan_cache(row_blocks(make()), "memory", 2) == CachePolicy("memory", 4 * N * M)


def test_what_is_unasked_is_bounded_and_the_plan_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_one_pass_or_rows_in_memory_have_nothing_to_keep() -> None:
    for X, epochs in ((lazy(), 1), (A, 3)):
        assert (
            plan_of(lambda X=X, e=epochs: learner(cache="memory").set_params(n_epochs=e).fit(X, Y)).cache_text
            == ""
        )


def test_where_work_goes_elsewhere_rows_are_kept_in_a_folder_alone(tmp_path: Path) -> None:
    alone, again = bits(lazy()), bits(features())
    with dask.config.set(scheduler="synchronous"):
        assert bits(lazy()) == alone
        assert len(MADE) == 8  # in the memory of this process
        assert bits(lazy(), cache=tmp_path) == alone
        assert len(MADE) == 8
    message = r"cache='memory' .* To fix: pass a folder that all processes share"
    with dask.config.set(scheduler="processes"), pytest.raises(ValueError, match=message):
        learner(cache="memory").fit(lazy(), Y)
    with Client(processes=False, n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0"):
        assert bits(lazy()) == alone
        with pytest.raises(ValueError, match="work runs on a client"):
            learner(cache="memory").fit(lazy(), Y)
        assert bits(features(), cache=tmp_path) == again
        assert len(MADE) <= 8 + 4  # the next epoch may begin while the last blocks are made
    assert list(tmp_path.iterdir()) == []
    for wrong in (True, 3, None):
        with pytest.raises(ValueError, match="cache"):
            learner(cache=wrong).fit(A, Y)


def test_a_folder_that_a_worker_does_not_have_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"does not exist on .* all workers share"):
        _FolderCache(os.fspath(tmp_path / "elsewhere")).put(0, A)


@pytest.mark.parametrize("n_bytes", [0, 72, 200])
def test_a_file_that_somebody_has_cut_is_named(tmp_path: Path, n_bytes: int) -> None:
    kept = _FolderCache(os.fspath(tmp_path))
    kept.put(3, A)
    path = next(tmp_path.iterdir())
    os.truncate(path, n_bytes)
    with pytest.raises(ArchiveError, match=f"the cached rows in {re.escape(os.fspath(path))} are damaged"):
        kept.get(3)


def test_a_run_that_fails_leaves_nothing_and_a_resumed_one_keeps_anew(tmp_path: Path) -> None:
    bad = A.copy()
    bad[333] = np.nan
    with pytest.raises(ValueError, match="got nan in row 333"):
        learner(cache=tmp_path).fit(da.from_array(bad, chunks=(50, -1)), Y)
    assert list(tmp_path.iterdir()) == []
    X = lazy()
    first = learner(checkpoint=tmp_path / "run", cache="memory").fit(X, Y)
    taken_up = learner(checkpoint=tmp_path / "run", cache=False).fit(X, Y)
    np.testing.assert_array_equal(first.coef_, taken_up.coef_)


def test_a_saved_model_names_no_place(tmp_path: Path) -> None:
    dk.save_model(learner(cache=tmp_path).fit(A, Y), tmp_path / "m.npz")
    assert dk.load_model(tmp_path / "m.npz").cache == "auto"
