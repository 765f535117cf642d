"""Strings in a store: the alphabet is part of the commit, grows with appends, and is validated on reading."""

import json

import numpy as np
import pytest

from dkdist.io import SetWriter, StoreFormatError, open_sets, write_sets
from dkdist.io.maintenance import compact
from dkdist.sets import SampleSetError, SampleSets

WORDS = ["GATTACA", "CAT", "TAG", "A"]


def test_strings_are_read_back_and_appends_extend_the_alphabet(tmp_path):
    before = write_sets(tmp_path / "s", WORDS)
    assert (before.alphabet, before.points_dtype) == ("ACGT", np.uint8)
    after = before.append(["UCAT", "ZAG"])
    assert after.alphabet == "ACGTUZ"
    assert after.load().strings() == [*WORDS, "UCAT", "ZAG"]
    assert after[[5, 0]].load().strings() == ["ZAG", "GATTACA"]
    assert before.load().strings() == WORDS  # a view keeps reading its own commit
    assert open_sets(tmp_path / "s").append(["CAT"]).alphabet == "ACGTUZ"


def test_batches_with_different_alphabets_make_one_store(tmp_path):
    with SetWriter(tmp_path / "s", 1) as writer:
        for word in WORDS:
            writer.append(SampleSets.from_strings([word]))
    assert open_sets(tmp_path / "s").load().strings() == WORDS


def test_copies_and_compaction_keep_the_alphabet(tmp_path):
    store = write_sets(tmp_path / "s", WORDS)
    assert write_sets(tmp_path / "copy", store[1:]).load().strings() == WORDS[1:]
    assert compact(store[1:], tmp_path / "packed").load().strings() == WORDS[1:]


def test_bytes_and_integers_have_no_alphabet(tmp_path):
    store = write_sets(tmp_path / "s", [b"ab", b"c"])
    assert store.alphabet is None
    assert store.load().points[:, 0].tolist() == [97, 98, 99]
    assert "alphabet" not in json.loads((tmp_path / "s" / "zarr.json").read_text())["attributes"]["dkdist"]


def test_incompatible_appends_are_refused(tmp_path):
    store = write_sets(tmp_path / "s", WORDS)
    with pytest.raises(StoreFormatError, match=r"appended sets must be text, .*; got points or codes"):
        store.append([b"ACG"])
    with pytest.raises(
        StoreFormatError, match=r"at most 256 symbols .*; got 4 in .* and 304 with the appended"
    ):
        store.append(["".join(map(chr, range(300, 600)))])
    with pytest.raises(SampleSetError, match=r"string 1 .* is empty"):
        store.append(["A", ""])
    assert open_sets(tmp_path / "s").load().strings() == WORDS


@pytest.mark.parametrize("alphabet", ["ACG", "AACT", 7, ""])
def test_a_modified_alphabet_is_refused(tmp_path, alphabet):
    write_sets(tmp_path / "s", WORDS)
    file = tmp_path / "s" / "zarr.json"
    document = json.loads(file.read_text())
    document["attributes"]["dkdist"]["alphabet"] = alphabet
    file.write_text(json.dumps(document))
    with pytest.raises(StoreFormatError, match=r"checksum|alphabet"):
        open_sets(tmp_path / "s").load()
    del document["attributes"]["dkdist"]["checksum"]
    file.write_text(json.dumps(document))
    with pytest.raises(StoreFormatError, match="alphabet"):
        open_sets(tmp_path / "s").load()
