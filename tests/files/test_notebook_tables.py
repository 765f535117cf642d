"""HTML tables of sets, stores and results: correct numbers, escaped names, no reading of stored points."""

import shutil

import numpy as np
import pytest

import dkdist as dk
from dkdist.auto.leaderboard import Leaderboard

RNG = np.random.default_rng(0)
BAGS = [RNG.normal(size=(n, 2)) for n in (3, 7, 5)]
HOSTILE = "<script>alert(1)</script>"


def table_values(thing):
    """Return the values of an HTML table by name."""
    lines = thing._repr_html_().split("<tr>")[1:]
    cells = [[part.partition("</t")[0] for part in line.split('top">')[1:]] for line in lines]
    return dict(cells)


def test_table_of_sets_in_memory():
    result = table_values(dk.SampleSets.from_arrays(BAGS, [np.ones(len(b)) for b in BAGS]))
    points = np.concatenate(BAGS).astype("f4")
    assert result["sets"] == "3"
    assert result["points"] == "15"
    assert result["points per set"] == "3 to 7 (median 5)"
    assert result["weights"] == "one per point"
    assert result["lowest"] == ", ".join(f"{v:.6g}" for v in points.min(axis=0))


def test_tables_of_strings_no_sets_and_far_points():
    assert table_values(dk.SampleSets.from_strings([HOSTILE]))["alphabet"].startswith("15: ()/1&lt;&gt;")
    assert table_values(dk.SampleSets.from_arrays(BAGS)[:0])["points per set"] == "none"
    assert table_values(dk.SampleSets.from_arrays([b + 1e9 for b in BAGS]))["origin"] == "1e+09, 1e+09"


@pytest.fixture
def store(tmp_path):
    targets = {"y": [0, 1, 1], "label": [HOSTILE, "a", "a"]}
    return dk.write_sets(tmp_path / "<b>.zarr", BAGS, targets=targets, ids=["x", "y", "z"])


def test_table_of_a_store(store):
    result = table_values(store)
    assert result["location"].endswith("/&lt;b&gt;.zarr")
    assert result["sets"] == "3"
    assert result["points per set"] == "3 to 7 (median 5)"
    assert result["ids"] == "text, 3 classes: x (1), y (1), z (1)"
    assert result["target &#x27;y&#x27;"] == "int64, 2 classes: 0 (1), 1 (2)"
    assert "&lt;script&gt;" in result["target &#x27;label&#x27;"]
    rows = 2**20 // 8  # chunks of 1 MiB of two float32 columns
    assert result["chunks of points"].startswith(f"1 of {rows:,} points (1 MiB), ")
    assert result["chunks of points"].endswith("with checksums")
    assert result["health"].startswith("no error in the data read")
    assert "<script" not in store._repr_html_()


def test_table_of_a_selection(store):
    result = table_values(store[[0, 2]])
    assert result["sets"] == "2 of 3"
    assert result["points"] == "8"


def test_the_table_of_a_store_reads_no_points(store, tmp_path):
    before = table_values(store)
    shutil.rmtree(tmp_path / "<b>.zarr" / "points" / "c")
    assert table_values(dk.open_sets(tmp_path / "<b>.zarr")) == before


def test_damage_is_shown_without_an_exception(store, tmp_path):
    path = tmp_path / "<b>.zarr"
    shutil.rmtree(path / "targets" / "y" / "c")
    result = table_values(dk.open_sets(path))
    assert result["health"].startswith("StoreFormatError: chunk")
    assert result["sets"] == "3"
    shutil.rmtree(path)
    assert "Error: " in table_values(store)["health"]


def test_tables_of_results():
    few = dk.Coreset(np.arange(3), np.array([0.5, -0.1, 0.6]), 0.0123)
    assert table_values(few)["weights"] == "-0.1 to 0.6, sum 1, 1 of them negative"
    motion = dk.Alignment(np.eye(2), np.array([1.0, 2]), 0.1, 0.5)
    assert table_values(motion)["distance"] == "0.1, before 0.5"
    assert table_values(motion)["guarantee"] == "none"
    sure = dk.Alignment(np.eye(2), np.zeros(2), 0.1, 0.5, certified=False, gap=0.25)
    assert (
        table_values(sure)["guarantee"]
        == "squared distance at most 0.25 above the minimum (guarantee not reached)"
    )
    error = dk.KernelError(0.1, 0.05, 0.15, -0.02, 0.3, 0.08, 0.06, 200)
    assert table_values(error)["root mean square"] == "0.1 (95 % interval 0.05 to 0.15)"


def test_table_of_a_leaderboard():
    entry = {
        "name": HOSTILE,
        "score": 0.5,
        "std_error": 0.01,
        "evaluation": "selection",
        "seconds": 2.0,
        "n_features": 1200,
        "kernel": "gaussian",
    }
    page = Leaderboard([entry | {"baseline": True}])._repr_html_()
    for text in ("&lt;script&gt;", "0.5000", "0.0100", "1,200", "baseline"):
        assert f">{text}" in page
    assert "<script" not in page
