"""Ids are unique in a collection or store, however it is built; a selection may contain a set twice."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from zarr.storage import MemoryStore

import dkdist as dk
from dkdist.io import SetWriter
from dkdist.io._zarr.set_writer import IdRegistry

SETS = [np.full((2, 1), float(i)) for i in range(3)]
NUMBERS = st.lists(
    st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=9, unique=True), max_size=12
)
WORDS = st.lists(
    st.lists(st.text("ab\x01é\U0001f600", max_size=4), min_size=1, max_size=9, unique=True), max_size=12
)


@given(NUMBERS | WORDS)
def test_the_id_registry_equals_a_python_set(batches):
    """NumPy strips trailing NUL characters of str, so that ids never end in them."""
    known, there = IdRegistry(), set()
    for batch in batches:
        ids = np.array(batch)
        twice = [one for one in ids.tolist() if one in there]
        if twice:
            with pytest.raises(
                dk.SampleSetError, match=r"ids must be unique; got .* for set \d+ of the appended sets"
            ) as error:
                known.add(ids, "s.zarr")
            assert repr(twice[0]) in str(error.value)
        else:
            known.add(ids, "s.zarr")
            there.update(ids.tolist())


@pytest.mark.parametrize("ids", [["a", "b", "a"], [3, 1, 3]])
def test_two_sets_with_one_id_are_refused(ids, tmp_path):
    message = rf"ids must be unique; got {ids[0]!r} for sets 0 and 2"
    with pytest.raises(dk.SampleSetError, match=message):
        dk.SampleSets.from_arrays(SETS, ids=ids)
    with pytest.raises(dk.SampleSetError, match=message):
        dk.SampleSets.from_arrays(SETS).labelled(ids=ids)
    with pytest.raises(dk.SampleSetError, match=message):
        dk.write_sets(MemoryStore(), SETS, ids=ids)
    np.savez(tmp_path / "sets.npz", values=np.concatenate(SETS), offsets=[0, 2, 4, 6], ids=ids)
    with pytest.raises(ValueError, match=message.replace("sets 0 and 2", r"sets 0 and 2 of \S+")):
        dk.import_sets(tmp_path / "s", tmp_path / "sets.npz")
    assert not (tmp_path / "s").exists()


def test_ids_must_be_new_across_batches_and_appends():
    memory = MemoryStore()
    with SetWriter(memory, 1) as writer:
        writer.append(SETS[:2], ids=["a", "b"])
        with pytest.raises(dk.SampleSetError, match="got 'a' for set 1 of the appended sets"):
            writer.append(SETS[:2], ids=["c", "a"])
        writer.append(SETS[2:], ids=["c"])
    store = dk.open_sets(memory)
    assert store.ids.tolist() == ["a", "b", "c"]
    with pytest.raises(dk.SampleSetError, match="ids must be unique; got 'b' for set 0 of the appended sets"):
        store.append(SETS[:1], ids=["b"])
    assert store.append(SETS[:1], ids=["long name"]).ids.tolist() == ["a", "b", "c", "long name"]


def test_a_selection_may_contain_a_set_twice(tmp_path):
    """Bagging needs this; writing such a selection to a store requires new ids."""
    store = dk.write_sets(tmp_path / "s", SETS, ids=["a", "b", "c"])
    for sets in (dk.SampleSets.from_arrays(SETS, ids=["a", "b", "c"]), store):
        twice = sets[[2, 0, 2]]
        assert twice.ids.tolist() == ["c", "a", "c"]
    assert twice.load().labelled(targets=[1, 2, 1]).ids.tolist() == ["c", "a", "c"]
    with pytest.raises(dk.SampleSetError, match="ids must be unique; got 'c' for sets 0 and 2"):
        dk.write_sets(tmp_path / "t", twice)
    assert dk.write_sets(tmp_path / "t", twice, ids=[0, 1, 2]).ids.tolist() == [0, 1, 2]
