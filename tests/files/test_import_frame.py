"""Dask DataFrames become stores: the sets that the whole frame would give, whatever the partitions."""

import numpy as np
import pandas as pd
import pytest

import dkdist as dk
from dkdist.sets import SampleSetError

dd = pytest.importorskip("dask.dataframe")

DONORS = [f"{i:03d}" for i in range(8)]
RNG = np.random.default_rng(0)
FRAME = pd.DataFrame(
    {
        "donor": np.repeat(DONORS, np.arange(3, 11)),
        "cd3": RNG.normal(size=52),
        "cd4": RNG.normal(size=52),
        "age": np.repeat(np.arange(50, 58), np.arange(3, 11)),
    }
)
BY_ID = pd.Series(np.arange(8), index=DONORS, name="outcome").sample(frac=1, random_state=0)


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    import dask

    with dask.config.set(scheduler="synchronous"):
        yield


@pytest.mark.parametrize("n_partitions", [1, 3, 20])
def test_sets_may_go_on_in_the_next_partitions(n_partitions, tmp_path):
    lazy = dd.from_pandas(FRAME, npartitions=n_partitions, sort=False)
    for targets in ("age", BY_ID):
        expected = dk.SampleSets.from_frame(FRAME, "donor", ["cd4", "cd3"], targets)
        found = dk.import_frame(
            tmp_path / "s.zarr", lazy, "donor", ["cd4", "cd3"], targets, overwrite=True
        ).load()
        np.testing.assert_array_equal(found.points, expected.points)
        np.testing.assert_array_equal(found.offsets, expected.offsets)
        assert found.ids.tolist() == DONORS
        assert found.names == ("cd4", "cd3")
        assert {n: v.tolist() for n, v in found.targets.items()} == {
            n: v.tolist() for n, v in expected.targets.items()
        }


def test_a_set_larger_than_partitions_is_one_set(tmp_path):
    lazy = dd.from_pandas(FRAME.assign(donor="a"), npartitions=6, sort=False)
    sets = dk.import_frame(tmp_path / "s.zarr", lazy, "donor", points=["cd3"])
    assert sets.sizes.tolist() == [52]
    np.testing.assert_array_equal(sets[0].ravel(), FRAME["cd3"].to_numpy(np.float32))


def test_rows_of_a_partition_come_in_any_order(tmp_path):
    shuffled = FRAME.sample(frac=1, random_state=0).reset_index(drop=True)
    with pytest.raises(SampleSetError, match=r"partition 1 .*comes back.*shuffle\('donor'\).to_parquet"):
        dk.import_frame(tmp_path / "s.zarr", dd.from_pandas(shuffled, npartitions=3, sort=False), "donor")
    assert list(tmp_path.iterdir()) == []
    lazy = dd.from_pandas(shuffled, npartitions=3, sort=False).shuffle("donor")
    sets = dk.import_frame(tmp_path / "s.zarr", lazy, "donor", targets=["age"])
    assert dict(zip(sets.ids.tolist(), sets.targets["age"].tolist(), strict=True)) == dict(
        zip(DONORS, range(50, 58), strict=True)
    )
    assert sets.n_points == 52


def test_frames_in_memory_are_written_too(tmp_path):
    made = dk.import_frame(tmp_path / "s.zarr", FRAME, "donor", targets=BY_ID)
    assert made.names == ("cd3", "cd4", "age")
    assert made.targets["outcome"].tolist() == list(range(8))
    with pytest.raises(FileExistsError):
        dk.import_frame(tmp_path / "s.zarr", FRAME, "donor")


def test_errors_name_the_partition(tmp_path):
    bad = FRAME.assign(cd3=FRAME["cd3"].where(FRAME.index != 40))
    with pytest.raises(SampleSetError, match=r"partition 2 .* 'cd3' has no value in row \d+ \(set '"):
        dk.import_frame(tmp_path / "s.zarr", dd.from_pandas(bad, npartitions=3, sort=False), "donor")
    with pytest.raises(TypeError, match="import_frame writes a store"):
        dk.SampleSets.from_frame(dd.from_pandas(FRAME, npartitions=2), "donor")
