"""The examples of the pages on mathematics, the format and scikit-learn run and give the documented results."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

import dkdist as dk
from dkdist.io._zarr.layout import parse_commit

DOCS = Path(__file__).parents[2] / "docs"


def examples(page):
    return re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(), re.DOTALL)


def run(page, names):
    for code in examples(page):
        exec(compile(code, str(DOCS / page), "exec"), names)
    return names


def test_corrected_measures_integrate_to_kappa():
    names = run("mathematics.md", {})
    errors = names["errors"]
    assert round(names["missed"], 4) == 0.0007
    assert set(errors) == {"jensen-shannon", "total-variation", "chi2"}
    assert max(errors.values()) < 1e-7


def test_store_is_readable_without_dkdist(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    # stored relative to an origin
    far = [np.random.default_rng(i).normal(1e7, 1, (4 + i, 2)) for i in range(3)]
    sets = dk.write_sets("bags.zarr", far, targets=[1, 2, 3]).load()
    pytest.importorskip("xarray")
    pytest.importorskip("awkward")
    names = run("format.md", {})
    np.testing.assert_array_equal(names["first"], sets[0])
    assert names["labels"]["y"].values.tolist() == [1, 2, 3]
    assert [len(x) for x in names["ragged"]] == [4, 5, 6]
    np.testing.assert_array_equal(names["ragged"][1], sets.relative[4:9])
    arrays, targets = names["read_plain"]("bags.zarr")
    np.testing.assert_array_equal(np.concatenate(arrays), sets.points)
    assert targets["y"].tolist() == [1, 2, 3]


def test_a_store_written_with_zarr_and_numpy_is_opened(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {}
    exec(examples("format.md")[0], names)
    sets = [np.random.default_rng(i).normal(size=(4 + i, 700)).astype("f4") for i in range(30)]
    names["write_plain"]("written.zarr", sets, np.arange(30))
    store = dk.open_sets("written.zarr")
    assert store.verify().n_sets == 30
    longer = store.append(sets[:2], targets=[30, 31])
    assert longer.verify().n_sets == 32
    arrays, targets = names["read_plain"]("written.zarr")
    for x, stored, read in zip([*sets, *sets[:2]], longer, arrays, strict=True):
        np.testing.assert_array_equal(stored, x)
        np.testing.assert_array_equal(read, x)
    assert targets["y"].tolist() == longer.targets["y"].tolist() == list(range(32))


def test_all_keys_of_a_commit_are_documented(tmp_path):
    sets = dk.SampleSets.from_strings(["ab", "ba"]).labelled(names=["letter"])
    dk.write_sets(tmp_path / "strings.zarr", sets)
    document = (tmp_path / "strings.zarr" / "zarr.json").read_bytes()
    assert parse_commit(document, "the store")[0].n_sets == 2
    keys = set(json.loads(document)["attributes"]["dkdist"])
    documented = set(
        re.findall(
            r"`(\w+)`", (DOCS / "format.md").read_text().split("## The commit")[1].split("## Chunks")[0]
        )
    )
    assert {"format", "n_sets", "table", "alphabet"} <= keys <= documented


def test_bagging_and_unions_of_sets():
    names = run("scikit-learn.md", {})
    assert names["accuracy"] > 0.7
    assert names["rows"].shape[0] == 80
