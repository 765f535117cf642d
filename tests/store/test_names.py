"""Names of dimensions in stores: written, read, checked in appends and imports, and missing in older stores."""

import json
import pickle

import numpy as np
import pandas as pd
import pytest

import dkdist as dk
from dkdist.embeddings.set_scaler import SetScaler

ARRAYS = [np.random.default_rng(i).normal(size=(3 + i, 2)) for i in range(6)]
SETS = dk.SampleSets.from_arrays(
    ARRAYS, ids=list("abcdef"), names=["cd3", "cd4"], targets={"y": np.arange(6), "site": list("uvuvuv")}
)


def labels(sets):
    ids = None if sets.ids is None else sets.ids.tolist()
    return ids, sets.names, {name: values.tolist() for name, values in sets.targets.items()}


def test_a_store_keeps_ids_names_and_targets(tmp_path):
    output = dk.write_sets(tmp_path / "s", SETS)
    for view in (
        output,
        dk.open_sets(tmp_path / "s"),
        pickle.loads(pickle.dumps(output)),
        SetScaler().fit_transform(output),
    ):
        assert labels(view) == labels(SETS)
        assert labels(view.load()) == labels(SETS)
        assert labels(view[[4, 1]].load()) == labels(SETS[[4, 1]])
        assert labels(view.read(2, 5)) == labels(SETS[2:5])
    np.testing.assert_array_equal(output.load().points, SETS.points)


def test_blocks_are_read_without_ids_and_targets(tmp_path, monkeypatch):
    output = dk.write_sets(tmp_path / "s", SETS)
    monkeypatch.setattr("dkdist.io._zarr.reading.CommitReader.column", None)
    rows = dk.MomentEmbedding().fit(output).transform(output)
    assert np.asarray(rows).shape == (6, 2)
    assert [block.names for block in output.blocks()] == [("cd3", "cd4")]
    assert (output.points_alone().ids, output.points_alone().targets) == (None, {})


def test_arguments_override_ids_and_targets_of_the_sets(tmp_path):
    output = dk.write_sets(tmp_path / "s", SETS, targets={"z": np.ones(6)}, ids=np.arange(6))
    assert labels(output) == ([0, 1, 2, 3, 4, 5], ("cd3", "cd4"), {"z": [1.0] * 6})
    shuffled = pd.Series(np.arange(6), index=list("abcdef")).sample(frac=1, random_state=1)
    again = dk.write_sets(tmp_path / "t", SETS, targets=shuffled)
    assert again.targets["y"].tolist() == [0, 1, 2, 3, 4, 5]


def test_copies_keep_names(tmp_path):
    output = dk.write_sets(tmp_path / "s", SETS)
    assert labels(dk.write_sets(tmp_path / "w", output[1:])) == labels(SETS[1:])
    assert labels(dk.compact(output[::2], tmp_path / "c")) == labels(SETS[::2])


def test_appends_with_other_names_are_refused(tmp_path):
    output = dk.write_sets(tmp_path / "s", SETS[:4])
    assert labels(output.append(SETS[4:])) == labels(SETS)
    more = SETS[:1].labelled(ids=["g"])
    with pytest.raises(dk.StoreFormatError, match=r"must be cd3, cd4, .*; got cd4, cd3. Reorder"):
        dk.open_sets(tmp_path / "s").append(more.labelled(names=["cd4", "cd3"]))
    with pytest.raises(dk.StoreFormatError, match=r"must be cd3, cd4, .*; got cd3, cd8"):
        dk.open_sets(tmp_path / "s").append(more.labelled(names=["cd3", "cd8"]))
    with pytest.raises(dk.StoreFormatError, match="Reorder the columns"):
        dk.SetWriter(tmp_path / "s", 2, mode="a", names=["cd4", "cd3"])
    bare = dk.open_sets(tmp_path / "s").append(ARRAYS[:1], targets={"y": [1], "site": ["u"]}, ids=["h"])
    assert bare.names == ("cd3", "cd4")
    assert len(bare) == 7


def test_names_of_a_writer_are_stored_and_checked(tmp_path):
    with dk.SetWriter(tmp_path / "s", 2, names=["x", "y"]) as writer:
        writer.append(ARRAYS)
        with pytest.raises(dk.StoreFormatError, match=r"must be x, y, .*; got cd3, cd4"):
            writer.append(dk.SampleSets.from_arrays(ARRAYS, names=["cd3", "cd4"]))
    assert dk.open_sets(tmp_path / "s").names == ("x", "y")
    with pytest.raises(dk.SampleSetError, match="names must be 3 str"):
        dk.SetWriter(tmp_path / "t", 3, names=["x", "y"])


def test_stores_without_names_have_no_names_attribute(tmp_path):
    output = dk.write_sets(tmp_path / "s", ARRAYS)
    root = json.loads((tmp_path / "s" / "zarr.json").read_text())["attributes"]["dkdist"]
    assert "names" not in root
    assert output.names is None
    assert output.append(dk.SampleSets.from_arrays(ARRAYS, names=["a", "b"])).names is None


def test_damaged_names_are_refused(tmp_path):
    dk.write_sets(tmp_path / "s", SETS)
    path = tmp_path / "s" / "zarr.json"
    for names, text in (
        (["cd3"], "names must be 2 str"),
        ("cd3", "names must be a list of 2 str"),
        (["cd4", "cd3"], "checksum"),
    ):
        root = json.loads(path.read_text())
        kept, root["attributes"]["dkdist"]["names"] = root["attributes"]["dkdist"]["names"], names
        path.write_text(json.dumps(root))
        with pytest.raises(dk.StoreFormatError, match=text):
            dk.open_sets(tmp_path / "s")
        root["attributes"]["dkdist"]["names"] = kept
        path.write_text(json.dumps(root))
    assert dk.open_sets(tmp_path / "s").names == ("cd3", "cd4")


def test_imports_store_names_and_refuse_different_ones(tmp_path):
    (tmp_path / "a.csv").write_text("donor,cd3,cd4\na,1,2\na,3,4\n")
    (tmp_path / "b.csv").write_text("donor,cd4,cd3\nb,1,2\nb,3,4\n")
    sources = [str(tmp_path / "a.csv"), str(tmp_path / "b.csv")]
    assert dk.import_sets(tmp_path / "one", sources[:1], dk.TableReader("donor")).names == ("cd3", "cd4")
    with pytest.raises(dk.SourceError, match=r"equal dimensions; got cd4, cd3 in .* and cd3, cd4 in"):
        dk.import_sets(tmp_path / "s", sources, dk.TableReader("donor"))
    both = dk.import_sets(tmp_path / "s", sources, dk.TableReader("donor", points=["cd3", "cd4"]))
    assert both[1].tolist() == [[2, 1], [4, 3]]
    assert both.names == ("cd3", "cd4")
    output = dk.import_sets(tmp_path / "f", [0, 3], lambda i: SETS[i : i + 3])
    assert labels(output) == labels(SETS)


@pytest.mark.parametrize("names", [("y", "Y"), ("caf\u00e9", "cafe\u0301"), ("Stra\u00dfe", "STRASSE")])
def test_target_names_that_collide_on_other_file_systems_are_refused(names, tmp_path):
    targets = dict.fromkeys(names, np.arange(6))
    with pytest.raises(dk.SampleSetError, match=r"more than case and Unicode form.*Rename one"):
        dk.write_sets(tmp_path / "s", ARRAYS, targets=targets)
    assert not (tmp_path / "s").exists()
    assert set(dk.SampleSets.from_arrays(ARRAYS, targets=targets).targets) == set(names)


def test_a_name_that_is_too_long_for_a_file_is_refused(tmp_path):
    dk.write_sets(tmp_path / "s", ARRAYS, targets={"y" * 255: np.arange(6)})
    for name in ("y" * 100_000, "\u00e9" * 128):
        with pytest.raises(
            dk.SampleSetError, match=f"at most 255 bytes in UTF-8; got {len(name)} characters"
        ) as result:
            dk.write_sets(tmp_path / "t", ARRAYS, targets={name: np.arange(6)})
        assert len(str(result.value)) < 300
