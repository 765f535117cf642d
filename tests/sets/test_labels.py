"""Ids, names of dimensions and targets of collections: kept by all transformations, and validated."""

import pickle

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dkdist.embeddings.set_scaler import SetScaler
from dkdist.sets import SampleSetError, SampleSets
from dkdist.sets.indexing import align_to_ids

SIZES = (3, 1, 4, 2, 5)
IDS = np.array(["007", "b", "a", "d", "c"])


def labelled(ids=IDS):
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=(n, 2)) + 1e6 for n in SIZES]
    targets = {"age": np.arange(5.0), "site": list("uvuvu")}
    return SampleSets.from_arrays(arrays, ids=ids, names=["cd3", "cd4"], targets=targets)


KEYS = st.one_of(
    st.slices(5),
    st.lists(st.integers(-5, 4), max_size=9),
    st.lists(st.booleans(), min_size=5, max_size=5).map(np.array),
)


@settings(max_examples=50, deadline=None)
@given(KEYS)
def test_labels_are_indexed_with_the_sets(key):
    sets = labelled()
    part, chosen = sets[key], np.arange(5)[np.asarray(key, int) if isinstance(key, list) else key]
    assert part.ids.tolist() == IDS[chosen].tolist()
    assert part.targets["age"].tolist() == chosen.tolist()
    assert part.targets["site"].tolist() == [list("uvuvu")[i] for i in chosen]
    assert part.names == ("cd3", "cd4")


@pytest.mark.parametrize(
    "transform",
    [
        lambda s: pickle.loads(pickle.dumps(s)),
        lambda s: s.rebased(None),
        lambda s: SetScaler().fit_transform(s),
        lambda s: SetScaler("quantile", per_set=True).fit_transform(s),
        lambda s: SetScaler("none").fit_transform(s),
    ],
    ids=["pickle", "rebased", "scaled", "ranks", "unchanged"],
)
def test_transformations_keep_labels(transform):
    result = transform(labelled())
    assert result.ids.tolist() == IDS.tolist()
    assert result.names == ("cd3", "cd4")
    assert {name: values.tolist() for name, values in result.targets.items()} == {
        "age": [0, 1, 2, 3, 4],
        "site": list("uvuvu"),
    }


def test_sets_without_labels_have_none():
    sets = SampleSets(np.zeros((3, 2)), [0, 1, 3])
    assert (sets.ids, sets.names, dict(sets.targets)) == (None, None, {})
    assert pickle.loads(pickle.dumps(sets)).ids is None
    assert sets[1:].targets == {}


def test_labels_are_read_only_copies():
    ids, age = np.arange(5), np.arange(5.0)
    sets = labelled().labelled(ids=ids, targets={"age": age})
    ids[0], age[0] = 9, 9
    assert sets.ids[0] == 0
    assert sets.targets["age"][0] == 0
    with pytest.raises(ValueError, match="read-only"):
        sets.ids[0] = 3
    with pytest.raises(TypeError):
        sets.targets["more"] = age


def test_new_labels_replace_only_those_of_the_same_name():
    sets = labelled().labelled(targets={"age": np.arange(5) * 2})
    assert sets.targets["age"].tolist() == [0, 2, 4, 6, 8]
    assert sets.targets["site"].tolist() == list("uvuvu")
    assert sets.labelled(names=["x", "y"]).ids.tolist() == IDS.tolist()
    assert sets.labelled(targets=np.arange(5)).targets["y"].tolist() == [0, 1, 2, 3, 4]


def test_data_frames_name_the_dimensions():
    frames = [pd.DataFrame({"a": [1.0], "b": [2.0]}), pd.DataFrame({"a": [3.0], "b": [4.0]})]
    assert SampleSets.from_arrays(frames).names == ("a", "b")
    assert SampleSets.from_arrays(frames, names=["x", "y"]).names == ("x", "y")
    assert SampleSets.from_arrays([f.set_axis([0, 1], axis=1) for f in frames]).names is None
    with pytest.raises(SampleSetError, match="columns of set 1 must equal"):
        SampleSets.from_arrays([frames[0], frames[1][["b", "a"]]])


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"ids": [1.5] * 5}, "ids must be integers or str; got float64"),
        ({"ids": list("abcd")}, "ids must have one row per set, 5; got 4"),
        ({"names": ["a"]}, "names must be 2 str"),
        ({"names": "ab"}, "names must be 2 str"),
        ({"names": ["a", "a"]}, "names must be unique; got 'a' twice"),
        ({"names": [1, 2]}, "names must be 2 str"),
        ({"targets": {"a/b": np.zeros(5)}}, "names of targets must be non-empty str .*; got 'a/b'"),
        ({"targets": np.zeros(4)}, "targets 'y' must have one row per set, 5; got 4"),
        ({"targets": [None, 1, 2, 3, "x"]}, "got dtype object"),
        ({"targets": pd.Series(range(4), index=IDS[:4])}, "lacks the id 'c' of set 4"),
    ],
)
def test_invalid_labels_are_refused(given, said):
    with pytest.raises(SampleSetError, match=said):
        labelled().labelled(**given)


@settings(max_examples=30, deadline=None)
@given(st.permutations(range(5)), st.booleans())
def test_a_series_is_reordered_to_the_ids(order, numbers):
    ids = np.arange(10, 15) if numbers else IDS
    shuffled = pd.Series(np.arange(5), index=ids).iloc[list(order)]
    assert align_to_ids(shuffled, ids).tolist() == [0, 1, 2, 3, 4]
    assert align_to_ids(shuffled.to_frame("y"), ids)["y"].tolist() == [0, 1, 2, 3, 4]
    assert labelled(ids).labelled(targets={"t": shuffled}).targets["t"].tolist() == [0, 1, 2, 3, 4]
    assert labelled(ids).labelled(targets=shuffled.to_frame("t")).targets["t"].tolist() == [0, 1, 2, 3, 4]


def test_values_without_an_index_of_ids_keep_their_order():
    for values in (np.arange(5), [4, 3, 2, 1, 0], pd.Series([4, 3, 2, 1, 0]), pd.DataFrame({"y": range(5)})):
        assert align_to_ids(values, IDS) is values
    series = pd.Series(range(5), index=IDS)
    assert align_to_ids(series, IDS) is series
    assert align_to_ids(series[::-1], None).tolist() == [4, 3, 2, 1, 0]
    again = np.array(["a", "a", "b"])  # bagging draws sets and targets with replacement
    assert align_to_ids(pd.Series([1, 1, 2], index=again), again).tolist() == [1, 1, 2]
    assert align_to_ids(pd.Series(range(5), index=IDS), IDS[[1, 1]]).tolist() == [1, 1]


def test_unjoinable_targets_are_refused_by_name():
    series = pd.Series(range(5), index=IDS)
    with pytest.raises(SampleSetError, match="index of y lacks the id '007' of set 0 \\(1 of 5"):
        align_to_ids(series.drop("007"), IDS)
    with pytest.raises(SampleSetError, match="index of y must be unique; got 'b' twice"):
        align_to_ids(pd.concat([series, series[["b"]]]), IDS)
    with pytest.raises(SampleSetError, match="lacks the id '007'"):
        align_to_ids(pd.Series(range(5), index=[7, 1, 2, 3, 4]), IDS)
    with pytest.raises(SampleSetError, match="index of y must have one level, the ids; got 2"):
        align_to_ids(pd.Series(range(5), index=pd.MultiIndex.from_arrays([IDS, IDS])), IDS)
    with pytest.raises(SampleSetError, match="default index 0 to 4 contains the ids of the sets in another"):
        align_to_ids(pd.Series(range(5)), np.array([4, 0, 1, 2, 3]))
