"""Import of Dask DataFrames: the same sets as those of the whole frame, for any partitions."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import dkdist as dk
from dkdist._runtime import frame_partitions
from dkdist._runtime.frame_partitions import Partitions, find_parquet_parts
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
def test_sets_may_continue_in_the_next_partition(n_partitions, tmp_path):
    lazy = dd.from_pandas(FRAME, npartitions=n_partitions, sort=False)
    for targets in ("age", BY_ID):
        expected = dk.SampleSets.from_frame(FRAME, "donor", ["cd4", "cd3"], targets)
        result = dk.import_frame(
            tmp_path / "s.zarr", lazy, "donor", ["cd4", "cd3"], targets, overwrite=True
        ).load()
        np.testing.assert_array_equal(result.points, expected.points)
        np.testing.assert_array_equal(result.offsets, expected.offsets)
        assert result.ids.tolist() == DONORS
        assert result.names == ("cd4", "cd3")
        assert {n: v.tolist() for n, v in result.targets.items()} == {
            n: v.tolist() for n, v in expected.targets.items()
        }


def test_a_set_larger_than_partitions_is_one_set(tmp_path):
    lazy = dd.from_pandas(FRAME.assign(donor="a"), npartitions=6, sort=False)
    sets = dk.import_frame(tmp_path / "s.zarr", lazy, "donor", points=["cd3"])
    assert sets.sizes.tolist() == [52]
    np.testing.assert_array_equal(sets[0].ravel(), FRAME["cd3"].to_numpy(np.float32))


def test_unsorted_rows_are_refused_until_shuffled_by_id(tmp_path):
    shuffled = FRAME.sample(frac=1, random_state=0).reset_index(drop=True)
    with pytest.raises(SampleSetError, match=r"partition 1 .*not adjacent.*shuffle\('donor'\).to_parquet"):
        dk.import_frame(tmp_path / "s.zarr", dd.from_pandas(shuffled, npartitions=3, sort=False), "donor")
    assert list(tmp_path.iterdir()) == []
    lazy = dd.from_pandas(shuffled, npartitions=3, sort=False).shuffle("donor")
    sets = dk.import_frame(tmp_path / "s.zarr", lazy, "donor", targets=["age"])
    assert dict(zip(sets.ids.tolist(), sets.targets["age"].tolist(), strict=True)) == dict(
        zip(DONORS, range(50, 58), strict=True)
    )
    assert sets.n_points == 52


def test_pandas_frames_are_imported(tmp_path):
    output = dk.import_frame(tmp_path / "s.zarr", FRAME, "donor", targets=BY_ID)
    assert output.names == ("cd3", "cd4", "age")
    assert output.targets["outcome"].tolist() == list(range(8))
    with pytest.raises(FileExistsError):
        dk.import_frame(tmp_path / "s.zarr", FRAME, "donor")


def test_errors_name_the_partition(tmp_path):
    bad = FRAME.assign(cd3=FRAME["cd3"].where(FRAME.index != 40))
    with pytest.raises(SampleSetError, match=r"partition 2 .* 'cd3' has no value in row \d+ \(set '"):
        dk.import_frame(tmp_path / "s.zarr", dd.from_pandas(bad, npartitions=3, sort=False), "donor")
    with pytest.raises(TypeError, match="Use import_frame, which writes a store"):
        dk.SampleSets.from_frame(dd.from_pandas(FRAME, npartitions=2), "donor")


def _in_files(frame, folder, n):
    folder.mkdir()
    for k, rows in enumerate(np.array_split(np.arange(len(frame)), n)):
        frame.iloc[rows].to_parquet(folder / f"p{k:02d}.parquet", index=False, row_group_size=4)
    return dd.read_parquet(folder)


KINDS = {
    "text": lambda f: f,
    "integers": lambda f: f.assign(donor=f["donor"].astype(int)),
    "categories": lambda f: f.assign(donor=f["donor"].astype("category"), age=f["age"].map(str)),
    "nullable": lambda f: f.astype({"cd3": "Float64", "age": "Int64"}),
    "missing targets": lambda f: f.assign(age=f["age"].where(f["age"] != 53)),
}


@pytest.mark.filterwarnings("ignore:The inplace keyword")  # a warning of pandas that Dask causes
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n_files", [1, 5])
def test_reading_parquet_files_directly_equals_computing_partitions(kind, n_files, tmp_path):
    frame = KINDS[kind](FRAME)
    lazy = _in_files(frame, tmp_path / "t", n_files)
    parts = find_parquet_parts(lazy[["donor", "cd3"]])
    assert [Path(part.path).name for some in parts for part in some] == [
        f"p{k:02d}.parquet" for k in range(n_files)
    ]
    computed = lazy.map_partitions(lambda rows: rows)
    assert find_parquet_parts(computed) is None
    expected = dk.SampleSets.from_frame(frame, "donor", ["cd4", "cd3"], ["age"])
    for number, value in enumerate((lazy, computed)):
        sets = dk.import_frame(tmp_path / f"{number}.zarr", value, "donor", ["cd4", "cd3"], ["age"]).load()
        np.testing.assert_array_equal(sets.points, expected.points)
        np.testing.assert_array_equal(sets.offsets, expected.offsets)
        np.testing.assert_array_equal(sets.targets["age"], expected.targets["age"])
        assert sets.ids.tolist() == expected.ids.tolist()


def _without_a_column(path):
    pd.read_parquet(path).drop(columns="cd4").to_parquet(path, index=False)


def _cut(path):
    path.write_bytes(path.read_bytes()[:-100])


def _overwritten(path):
    data = path.read_bytes()
    path.write_bytes(data[:4] + b"\xff" * 40 + data[44:])


@pytest.mark.filterwarnings("ignore:The inplace keyword")
@pytest.mark.parametrize("number", [0, 2])
@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (_without_a_column, "has no column 'cd4' of the frame"),
        (_cut, "cannot be read: Parquet magic bytes not found"),
        (_overwritten, "cannot be read: "),
        (Path.unlink, "No such file"),
    ],
)
def test_changed_files_are_refused_with_their_paths(damage, words, number, tmp_path):
    lazy = _in_files(FRAME, tmp_path / "t", 4)
    lazy.columns  # noqa: B018 reads the schema before the damage
    path = tmp_path / "t" / f"p{number:02d}.parquet"
    damage(path)
    with pytest.raises((SampleSetError, FileNotFoundError)) as result:
        dk.import_frame(tmp_path / "s.zarr", lazy, "donor")
    assert words in str(result.value)
    assert str(path) in str(result.value)
    assert not (tmp_path / "s.zarr").exists()


@pytest.mark.filterwarnings("ignore:The inplace keyword")
def test_a_frame_with_further_operations_is_computed(tmp_path):
    lazy = _in_files(FRAME, tmp_path / "t", 3)
    for more in (
        lazy[lazy["cd3"] > 0],
        lazy.partitions[1:],
        lazy.assign(cd3=1.0),
        dd.from_pandas(FRAME, npartitions=2),
    ):
        assert find_parquet_parts(more[["donor", "cd3"]]) is None
    filtered = dd.read_parquet(tmp_path / "t", filters=[("age", ">", 53)])
    assert find_parquet_parts(filtered[["donor", "cd3"]]) is None
    sets = dk.import_frame(tmp_path / "s.zarr", filtered, "donor", ["cd3"])
    assert sets.ids.tolist() == DONORS[4:]


def test_a_target_that_changes_between_partitions_is_named(tmp_path):
    lazy = dd.from_pandas(FRAME.assign(age=1, donor="a"), npartitions=2, sort=False)
    output = dd.concat([lazy.partitions[[0]], lazy.partitions[[1]].assign(age=2)])
    with pytest.raises(SampleSetError, match=r"partition 1 .* target 'age' must .*; got 1 and 2 in set 'a'"):
        dk.import_frame(tmp_path / "s.zarr", output, "donor", ["cd3"], ["age"])
    assert list(tmp_path.iterdir()) == []


def test_columns_far_from_zero_use_the_origin_of_the_first_partition(tmp_path):
    far = FRAME.assign(cd3=1.7e9 + FRAME["cd3"])
    sets = dk.import_frame(
        tmp_path / "s.zarr", dd.from_pandas(far, npartitions=4, sort=False), "donor", ["cd3"]
    )
    np.testing.assert_allclose(sets.load().points[:, 0], far["cd3"], rtol=0, atol=1e-5)
    steps = far.assign(cd3=far["cd3"].where(FRAME.index < 26, FRAME["cd3"]))
    lazy = dd.from_pandas(steps, npartitions=4, sort=False)
    with pytest.raises(SampleSetError, match=r"partition 2 .* relative to the origin"):
        dk.import_frame(tmp_path / "t.zarr", lazy, "donor", ["cd3"])


@pytest.fixture
def recorded_reads(monkeypatch):
    """Record how each partition is read: ("whole", number) or ("in batches", number)."""
    noted = []

    def noting(name, way):
        method = getattr(Partitions, name)

        def noting_too(self, number, **options):
            noted.append((way, number))
            return method(self, number, **options)

        monkeypatch.setattr(Partitions, name, noting_too)

    noting("_table", "whole")
    noting("_batches", "in batches")
    monkeypatch.setattr(frame_partitions, "BATCH_ROWS", 3)  # batches end inside sets
    return noted


def _imported(frame, tmp_path, **arguments):
    lazy = _in_files(frame, tmp_path / "t", 5)
    options = {"points": ["cd4", "cd3"], "targets": ["age"], **arguments}
    return dk.import_frame(tmp_path / "s.zarr", lazy, "donor", **options).load(), options


@pytest.mark.filterwarnings("ignore:The inplace keyword")
@pytest.mark.parametrize("kind", ["text", "integers", "float32", "weights", "targets by id", "far"])
def test_parquet_partitions_are_read_in_batches(kind, tmp_path, recorded_reads):
    frame, more = FRAME, {}
    if kind == "integers":
        frame = FRAME.assign(donor=FRAME["donor"].astype(int))
    elif kind == "float32":
        frame = FRAME.assign(cd3=FRAME["cd3"].astype("f4"), cd4=FRAME["cd4"].astype("f4"))
    elif kind == "weights":
        frame, more = FRAME.astype({"age": float}), {"weights": "age", "targets": None}
    elif kind == "targets by id":
        more = {"targets": BY_ID}
    elif kind == "far":
        frame = FRAME.assign(cd3=1.7e9 + FRAME["cd3"])
    sets, options = _imported(frame, tmp_path, **more)
    assert sorted(recorded_reads) == [*(("in batches", k) for k in range(1, 5)), ("whole", 0)]
    expected = dk.SampleSets.from_frame(frame, "donor", **options)
    assert sets.relative.dtype == np.float32
    if kind == "far":  # relative to the origin of the first partition
        np.testing.assert_allclose(sets.points, expected.points, rtol=0, atol=1e-5)
    else:
        np.testing.assert_array_equal(sets.points, expected.points)
    np.testing.assert_array_equal(sets.offsets, expected.offsets)
    assert sets.ids.tolist() == expected.ids.tolist()
    for name, values in expected.targets.items():
        np.testing.assert_array_equal(sets.targets[name], values)
    if kind == "weights":
        np.testing.assert_array_equal(sets.weights, expected.weights)


INVALID_FRAMES = {
    "nan": (
        lambda f: f.assign(cd3=f["cd3"].where(f.index != 30, np.inf)),
        r"'cd3' must be finite; got inf in row \d+ \(set '00\d'\)",
    ),
    "missing": (lambda f: f.assign(cd3=f["cd3"].where(f.index != 30)), "'cd3' has no value in row"),
    "target": (
        lambda f: f.assign(age=f["age"].where(f.index != 30, 99)),
        "target 'age' must have one value per set",
    ),
    "far": (lambda f: f.assign(cd3=f["cd3"] + np.where(f.index < 20, 0, 1.7e9)), "relative to the origin 0"),
    "comes back": (lambda f: f.assign(donor=f["donor"].where(f.index < 45, "003")), "'003' .* not adjacent"),
}


@pytest.mark.filterwarnings("ignore:The inplace keyword")
@pytest.mark.parametrize("kind", INVALID_FRAMES)
def test_invalid_rows_in_a_batch_are_named(kind, tmp_path, recorded_reads):
    change, words = INVALID_FRAMES[kind]
    with pytest.raises(SampleSetError, match=words):
        _imported(change(FRAME), tmp_path)
    assert not list(tmp_path.glob("*s.zarr*"))


@pytest.mark.filterwarnings("ignore:The inplace keyword")
def test_shuffled_rows_of_parquet_partitions_are_read_whole(tmp_path, recorded_reads):
    mixed = FRAME.sample(frac=1, random_state=0)
    folder = tmp_path / "t"
    folder.mkdir()
    for k in range(3):  # complete sets in each file, rows shuffled
        rows = mixed[mixed["age"] % 3 == k]
        rows.to_parquet(folder / f"{k}.parquet", index=False)
    sets = dk.import_frame(tmp_path / "s.zarr", dd.read_parquet(folder), "donor", ["cd3"], ["age"]).load()
    for i, one in enumerate(sets.ids):
        of = mixed[mixed["donor"] == one]
        np.testing.assert_array_equal(sets[i][:, 0], of["cd3"].to_numpy(np.float32))
        assert sets.targets["age"][i] == of["age"].iloc[0]
    # batches may have been tried first
    assert {("whole", 0), ("whole", 1), ("whole", 2)} <= set(recorded_reads)
