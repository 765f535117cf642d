"""Files with one set per row: list columns of Parquet and jagged branches of ROOT, written by other programs."""

from __future__ import annotations

import numpy as np
import pytest

import dkdist as dk
from dkdist.io.readers import nested_files

ak = pytest.importorskip("awkward")
pa = pytest.importorskip("pyarrow")
pytest.importorskip("pyarrow.parquet")
RNG = np.random.default_rng(0)
SIZES = RNG.integers(1, 9, 60)
PT, ETA = RNG.exponential(30, SIZES.sum()), RNG.normal(0, 1, SIZES.sum())
CLOUDS = np.split(np.stack([PT, ETA], axis=1).astype("f4"), np.cumsum(SIZES)[:-1])
EVENT, IS_SIGNAL = np.arange(60) + 1000, np.arange(60) % 3 == 0


def jagged(values, sizes=SIZES):
    return ak.unflatten(values, sizes)


def require_clouds(sets, names=("pt", "eta")):
    sets = sets.load()
    assert sets.names == names
    assert sets.sizes.tolist() == SIZES.tolist()
    np.testing.assert_array_equal(sets.points.astype("f4"), np.concatenate(CLOUDS))


@pytest.fixture
def small_batches(monkeypatch):
    monkeypatch.setattr(nested_files, "BATCH_BYTES", 1000)


RECORDS = pa.list_(pa.struct([("pt", pa.float64()), ("eta", pa.float64())]))


@pytest.mark.parametrize("layout", ["columns", "records", "lists", "fixed lists"])
def test_parquet_of_pyarrow_gives_its_lists(layout, tmp_path, small_batches):
    points = {
        "columns": {"pt": pa.array(jagged(PT).to_list()), "eta": pa.array(jagged(ETA).to_list())},
        "records": {
            "jets": pa.array([[{"pt": p, "eta": e} for p, e in x.tolist()] for x in CLOUDS], RECORDS)
        },
        "lists": {"jets": pa.array([x.tolist() for x in CLOUDS])},
        "fixed lists": {"jets": pa.array([x.tolist() for x in CLOUDS], pa.list_(pa.list_(pa.float32(), 2)))},
    }[layout]
    table = pa.table({**points, "event": EVENT, "signal": IS_SIGNAL, "run": ["a", "b"] * 30})
    pa.parquet.write_table(table, tmp_path / "jets.parquet", row_group_size=25)
    names = ["pt", "eta"] if layout == "columns" else "jets"
    reader = dk.NestedReader(names, "event", targets=["signal", "run"])
    sets = dk.import_sets(tmp_path / "s.zarr", tmp_path / "jets.parquet", reader)
    require_clouds(sets, None if "lists" in layout else ("pt", "eta"))
    assert sets.ids.tolist() == EVENT.tolist()
    assert sets.targets["signal"].tolist() == IS_SIGNAL.tolist()
    assert sets.targets["run"].tolist() == ["a", "b"] * 30


def test_parquet_of_awkward_gives_its_records(tmp_path):
    ak.to_parquet(
        ak.zip({"jets": ak.zip({"pt": jagged(PT), "eta": jagged(ETA)})}, depth_limit=1),
        tmp_path / "a.parquet",
    )
    sets = dk.import_sets(tmp_path / "s.zarr", tmp_path / "a.parquet", dk.NestedReader("jets"))
    require_clouds(sets)
    np.testing.assert_array_equal(
        sets.load().points, dk.as_sets(ak.zip({"pt": jagged(PT), "eta": jagged(ETA)})).points
    )


def test_weights_and_empty_rows(tmp_path):
    lists = [[1.0, 2.0], [], [3.0]]
    pa.parquet.write_table(
        pa.table({"x": lists, "w": [[0.5, 1.5], [], [2.0]], "id": ["a", "b", "c"]}), tmp_path / "a.parquet"
    )
    reader = dk.NestedReader("x", "id", weight="w", empty_sets="drop")
    sets = dk.import_sets(tmp_path / "s.zarr", tmp_path / "a.parquet", reader).load()
    assert sets.ids.tolist() == ["a", "c"]
    assert [x.ravel().tolist() for x in sets] == [[1, 2], [3]]
    assert sets.weights.tolist() == [0.5, 1.5, 2.0]
    with pytest.raises(
        dk.SourceError, match=r"row 1 of .*a.parquet has no points \(1 such rows of 3\). Pass empty_sets"
    ):
        dk.import_sets(tmp_path / "t.zarr", tmp_path / "a.parquet", dk.NestedReader("x", "id"))


@pytest.mark.filterwarnings("ignore")  # warnings of uproot itself
@pytest.mark.parametrize("kind", ["TTree", "RNTuple"])
def test_branches_of_root_give_their_events(kind, tmp_path, small_batches):
    uproot = pytest.importorskip("uproot")
    jets = ak.zip({"pt": jagged(PT.astype("f4")), "eta": jagged(ETA)})
    with uproot.recreate(tmp_path / "events.root") as file:
        columns = {"jet": jets, "event": EVENT, "signal": IS_SIGNAL}
        if kind == "TTree":
            file.mktree("events", {"jet": jets.type.content, "event": "int64", "signal": "bool"})
            for rows in (slice(0, 35), slice(35, 60)):
                file["events"].extend({name: values[rows] for name, values in columns.items()})
        else:
            columns = {"jet_pt": jets.pt, "jet_eta": jets.eta, "event": EVENT, "signal": IS_SIGNAL}
            file.mkrntuple("events", columns)
    reader = dk.NestedReader(["jet_pt", "jet_eta"], "event", targets=["signal"])
    sets = dk.import_sets(tmp_path / "s.zarr", tmp_path / "events.root", reader)
    require_clouds(sets, ("jet_pt", "jet_eta"))
    assert sets.ids.tolist() == EVENT.tolist()
    assert sets.targets["signal"].tolist() == IS_SIGNAL.tolist()


@pytest.mark.filterwarnings("ignore")
def test_trees_and_branches_are_chosen_by_name(tmp_path):
    uproot = pytest.importorskip("uproot")
    with uproot.recreate(tmp_path / "two.root") as file:
        for name in ("a", "b"):
            file.mktree(name, {"x": "var * float32"})
            file[name].extend({"x": ak.Array([[1.0, 2.0], [3.0]])})
    sets = dk.import_sets(tmp_path / "s.zarr", tmp_path / "two.root", dk.NestedReader("x", tree="b"))
    assert sets.sizes.tolist() == [2, 1]
    for options, message in (
        ({"points": "x"}, "must have one tree; it has a, b. Name it with tree"),
        ({"points": "x", "tree": "c"}, "has no tree 'c'; it has a, b"),
        ({"points": "y", "tree": "a"}, "has no column 'y'; it has "),
    ):
        with pytest.raises(dk.SourceError, match=message):
            dk.import_sets(tmp_path / "t.zarr", tmp_path / "two.root", dk.NestedReader(**options))


@pytest.mark.parametrize(
    ("table", "options", "message"),
    [
        ({"x": [[1.0], [2.0]], "y": [[1.0], [2.0, 3.0]]}, {}, "'y' and 'x' differ in row 1 of"),
        ({"x": [[1.0], None], "y": [[1.0], [2.0]]}, {}, "set 1 is missing"),
        (
            {"x": [1.0, 2.0], "y": [[1.0], [2.0]]},
            {},
            "data must be a list column; got Arrow values of type double",
        ),
        ({"x": [[1.0], [2.0]]}, {}, "has no column 'y'; it has x"),
        (
            {"x": [[1.0], [2.0]], "y": [[1.0], [2.0]], "t": [1, None]},
            {"targets": ["t"]},
            "'t' of .* has no value in 1 rows",
        ),
        ({"x": [[1.0], [2.0]], "y": [[1.0], [2.0]]}, {"tree": "t"}, "tree applies to ROOT files only"),
    ],
)
def test_unsuitable_columns_are_refused(table, options, message, tmp_path):
    pa.parquet.write_table(pa.table(table), tmp_path / "a.parquet")
    with pytest.raises(dk.SourceError, match=message):
        dk.import_sets(tmp_path / "s.zarr", tmp_path / "a.parquet", dk.NestedReader(["x", "y"], **options))


def test_invalid_options_are_refused():
    with pytest.raises(ValueError, match="points must name at least one column; got none"):
        dk.NestedReader([])
    with pytest.raises(ValueError, match="empty_sets must be 'raise' or 'drop'; got 'skip'"):
        dk.NestedReader("x", empty_sets="skip")
    with pytest.raises(TypeError, match="targets must be a sequence of column names"):
        dk.NestedReader("x", targets="y")
