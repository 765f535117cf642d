"""Sets from data frames: equal to a loop over ids; invalid input is refused by column, row and set."""

import types

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import dkdist as dk
from dkdist.sets import SampleSetError, SampleSets


def as_polars(frame):
    return pytest.importorskip("polars").from_pandas(frame)


KINDS = {
    "pandas": lambda frame: frame,
    "polars": as_polars,
    "pyarrow": lambda frame: pa.Table.from_pandas(frame, preserve_index=False),
}


@pytest.fixture(params=KINDS)
def kind(request):
    return KINDS[request.param]


def cells(seed=0, n=40):
    rng = np.random.default_rng(seed)
    donors = np.array(["007", "b", "a"])[rng.permutation(np.arange(n) % 3)]
    age = pd.Series({"007": 60, "a": 50, "b": 70})
    values = {"cd3": rng.normal(size=n), "cd4": rng.integers(0, 9, n), "live": rng.random(n) < 0.5}
    return pd.DataFrame({"donor": donors, **values, "age": age[donors].to_numpy()})


def set_by_set(frame, names):
    """Return (ids, arrays) of a loop over the ids in order of first appearance."""
    ids = list(dict.fromkeys(frame["donor"].tolist()))
    return ids, [frame.loc[frame["donor"] == one, names].to_numpy(np.float32) for one in ids]


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 1000), st.integers(3, 40))
def test_rows_in_any_order_equal_a_loop_over_ids(seed, n):
    frame = cells(seed, n)
    sets = SampleSets.from_frame(frame, "donor", points=["cd4", "cd3"], targets=["age"])
    ids, arrays = set_by_set(frame, ["cd4", "cd3"])
    assert sets.ids.tolist() == ids
    assert sets.names == ("cd4", "cd3")
    assert sets.targets["age"].tolist() == [{"007": 60, "a": 50, "b": 70}[one] for one in ids]
    for result, expected in zip(sets, arrays, strict=True):
        np.testing.assert_array_equal(result, expected)


def test_every_kind_of_frame_gives_the_same_sets(kind):
    frame = cells()
    expected = SampleSets.from_frame(frame, "donor", targets="age", weights="cd4")
    result = SampleSets.from_frame(kind(frame), "donor", targets="age", weights="cd4")
    assert result.names == ("cd3", "live")  # numeric columns without another role; booleans are 0 and 1
    assert result.ids.tolist() == expected.ids.tolist()
    np.testing.assert_array_equal(result.points, expected.points)
    np.testing.assert_array_equal(result.weights, expected.weights)
    np.testing.assert_array_equal(result.targets["age"], expected.targets["age"])


def test_targets_are_joined_by_id_and_not_by_position(kind):
    table = pd.DataFrame({"outcome": [1, 0, 2], "site": pd.Categorical(list("uvu"))}, index=["b", "a", "007"])
    by_column = kind(table.reset_index(names="donor"))
    for targets in (table, by_column):
        sets = SampleSets.from_frame(kind(cells()), "donor", points=["cd3"], targets=targets)
        assert dict(zip(sets.ids.tolist(), sets.targets["outcome"].tolist(), strict=True)) == {
            "b": 1,
            "a": 0,
            "007": 2,
        }
        assert dict(zip(sets.ids.tolist(), sets.targets["site"].tolist(), strict=True))["a"] == "v"
    series = table["outcome"].rename(None)
    sets = SampleSets.from_frame(kind(cells()), "donor", points="cd3", targets=series)
    assert list(sets.targets) == ["y"]


def test_targets_are_joined_by_integer_id():
    frame = pd.DataFrame({"donor": [2, 0, 1, 2], "x": [1.0, 2, 3, 4]})
    sets = SampleSets.from_frame(frame, "donor", targets=pd.Series([10, 11, 12], name="t"))
    assert sets.targets["t"].tolist() == [12, 10, 11]


@pytest.mark.parametrize(
    ("ids", "expected"),
    [
        (pd.Categorical(["5", "7", "5"]), ["5", "7"]),
        (pd.Categorical([5, 7, 5]), [5, 7]),
        (pd.array([5, 7, 5], dtype="Int64"), [5, 7]),
        (np.array(["007", "7", "007"], object), ["007", "7"]),
    ],
)
def test_ids_keep_their_values(ids, expected):
    assert SampleSets.from_frame(pd.DataFrame({"id": ids, "x": [1.0, 2, 3]}), "id").ids.tolist() == expected


def test_nullable_columns_equal_plain_ones():
    frame = cells().assign(cd4=lambda f: f["cd4"].astype("Int32"), live=lambda f: f["live"].astype("boolean"))
    np.testing.assert_array_equal(
        SampleSets.from_frame(frame, "donor").points, SampleSets.from_frame(cells(), "donor").points
    )


def test_missing_nullable_targets_become_nan():
    table = pd.DataFrame({"t": pd.array([1, None, 3], dtype="Int64")}, index=["a", "b", "007"])
    sets = SampleSets.from_frame(cells(), "donor", points="cd3", targets=table)
    assert np.isnan(sets.targets["t"][sets.ids.tolist().index("b")])


def test_row_counters_and_text_are_omitted_with_a_warning():
    frame = cells().drop(columns="age").assign(index=range(40), kind="T")
    frame["Unnamed: 0"] = range(40)
    with pytest.warns(UserWarning, match="'index' \\(a row counter\\), 'kind'.*'Unnamed: 0'"):
        assert SampleSets.from_frame(frame, "donor").names == ("cd3", "cd4", "live")
    assert SampleSets.from_frame(frame, "donor", points=["Unnamed: 0"]).names == ("Unnamed: 0",)


INVALID_ARGUMENTS = [
    ({"points": ["cd9"]}, "no column 'cd9'"),
    ({"points": ["donor"]}, "points must not contain 'donor', which has another role"),
    ({"points": []}, "points must name at least one column"),
    ({"points": ["cd3", "cd3"]}, "each once"),
    ({"set_id": "patient"}, "no column 'patient'; its columns are donor, cd3"),
    (
        {"targets": ["cd4"], "points": ["cd3"]},
        "target 'cd4' must have one value per set; got .* and .* in row \\d+ \\(set ",
    ),
    ({"targets": pd.Series([1, 2], index=["a", "b"])}, "lacks the id '007'"),
    ({"targets": pd.Series([1, 2, 3, 4], index=["a", "b", "007", "a"])}, "must be unique; got 'a' twice"),
    ({"targets": pd.DataFrame({"t": [1, 2, 3]}).to_numpy()}, "ndarray"),
    ({"targets": [1, 2, 3]}, "must be column names"),
]


@pytest.mark.parametrize(("more", "said"), INVALID_ARGUMENTS, ids=[said for _, said in INVALID_ARGUMENTS])
def test_invalid_arguments_are_refused_by_name(more, said):
    with pytest.raises((SampleSetError, TypeError), match=said):
        SampleSets.from_frame(cells(), **{"set_id": "donor", **more})


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"cd3": lambda f: f["cd3"].where(f.index != 5)}, "'cd3' has no value in row 5 \\(set '"),
        (
            {"cd3": lambda f: f["cd3"].where(f.index != 5, np.inf)},
            "'cd3' must be finite; got inf in row 5 \\(set '",
        ),
        ({"cd4": lambda f: f["cd4"].astype("Int64").where(f.index != 5)}, "'cd4' has no value in row 5"),
        ({"cd4": "T"}, "'cd4' must be numeric; got String"),
        ({"cd4": lambda f: pd.Categorical(f["cd4"])}, "'cd4' must be numeric; got Categorical.*get_dummies"),
        ({"donor": lambda f: f["donor"].where(f.index != 5)}, "'donor' has no value in row 5"),
        ({"donor": lambda f: np.arange(40) % 3 + 0.5}, "ids must be integers or str; got float64"),
        (
            {"donor": lambda f: pd.Series([1, "1"] * 20, dtype=object)},
            "must contain numbers, booleans or str; got Object",
        ),
    ],
)
def test_invalid_values_are_refused_by_row(change, said):
    with pytest.raises(SampleSetError, match=said):
        SampleSets.from_frame(cells().assign(**change), "donor", points=["cd3", "cd4"])


def test_other_types_are_refused():
    frame = cells()
    with pytest.raises(SampleSetError, match=r"'donor' is an index of frame. Pass frame.reset_index\(\)"):
        SampleSets.from_frame(frame.set_index("donor"), "donor")
    with pytest.raises(SampleSetError, match="column names of frame must be unique; got 'cd3' twice"):
        SampleSets.from_frame(pd.concat([frame, frame[["cd3"]]], axis=1), "donor")
    with pytest.raises(SampleSetError, match="column names of frame must be str; got 3"):
        SampleSets.from_frame(frame.rename(columns={"cd3": 3}), "donor")
    with pytest.raises(SampleSetError, match="frame must have at least one row"):
        SampleSets.from_frame(frame[:0], "donor")
    with pytest.raises(TypeError, match=r"frame must be a pandas .*; got ndarray"):
        SampleSets.from_frame(frame.to_numpy(), "donor")
    lazy = pytest.importorskip("polars").from_pandas(frame).lazy()
    with pytest.raises(TypeError, match=r"LazyFrame.*collect\(\)"):
        SampleSets.from_frame(lazy, "donor")


def annotated(seed=0):
    frame = cells(seed)
    rng = np.random.default_rng(seed)
    X = sp.random(40, 1200, 0.1, format="csr", random_state=seed)
    more = {"obsm": {"X_pca": rng.normal(size=(40, 3))}, "layers": {"raw": X.toarray() * 2}}
    return types.SimpleNamespace(
        obs=frame[["donor", "age"]], X=X, var_names=[f"g{j}" for j in range(1200)], **more
    )


def test_anndata_rows_are_grouped_into_sets():
    adata = annotated()
    every = {
        "X": ({"columns": ["g7", "g3"]}, adata.X.toarray()[:, [7, 3]], ("g7", "g3")),
        "obsm": ({"obsm": "X_pca"}, adata.obsm["X_pca"], ("X_pca_0", "X_pca_1", "X_pca_2")),
        "layer": ({"layer": "raw", "columns": "g5"}, adata.layers["raw"][:, [5]], ("g5",)),
    }
    for how, matrix, names in every.values():
        sets = SampleSets.from_anndata(adata, "donor", targets="age", **how)
        expected = adata.obs.assign(**{str(j): column for j, column in enumerate(matrix.T)})
        ids, arrays = set_by_set(expected, [str(j) for j in range(matrix.shape[1])])
        assert sets.ids.tolist() == ids
        assert sets.names == names
        np.testing.assert_array_equal(sets.points, np.concatenate(arrays))
        assert sets.targets["age"].tolist() == [{"007": 60, "a": 50, "b": 70}[one] for one in ids]


def test_invalid_anndata_arguments_are_refused():
    adata = annotated()
    for how, text in (
        ({}, "at most 1000 columns to become dense; got 1200"),
        ({"columns": ["g7", "h"]}, "must have one column 'h'; got 0"),
        ({"obsm": "X_umap"}, "adata.obsm has no 'X_umap'; its entries are X_pca"),
        ({"obsm": "X_pca", "layer": "raw"}, "obsm and layer must not both be set"),
        ({"columns": "g7", "targets": "sex"}, "adata.obs has no column 'sex'"),
    ):
        with pytest.raises(ValueError, match=text):
            SampleSets.from_anndata(adata, "donor", **how)
    with pytest.raises(TypeError, match="without obs"):
        SampleSets.from_anndata(adata.obs, "donor")


@pytest.mark.filterwarnings("ignore")  # warnings of anndata itself
def test_real_anndata_objects_are_accepted():
    anndata = pytest.importorskip("anndata")
    output = annotated()
    obs = output.obs.set_axis([f"c{i}" for i in range(40)])
    adata = anndata.AnnData(output.X, obs=obs, obsm=output.obsm)
    adata.var_names = output.var_names
    for how in ({"columns": ["g7", "g3"]}, {"obsm": "X_pca"}):
        result, expected = (dk.SampleSets.from_anndata(a, "donor", **how) for a in (adata, output))
        np.testing.assert_array_equal(result.points, expected.points)
        assert result.ids.tolist() == expected.ids.tolist()


def test_automatically_selected_columns_are_logged(caplog):
    frame = pd.DataFrame({"donor": ["a", "b"], "cd3": [1.0, 2.0], "age": [30, 40]})
    with caplog.at_level("INFO", "dkdist.importing"):
        SampleSets.from_frame(frame, "donor")
        assert [record.message for record in caplog.records] == ["points: cd3, age"]
        caplog.clear()
        SampleSets.from_frame(frame, "donor", ["cd3"])
        assert not caplog.records


@pytest.mark.parametrize("as_category", [True, False])
def test_numpy_strings_are_text(as_category):
    values = np.array([np.str_(c) for c in "aabb"], object)
    column = pd.Series(pd.Categorical.from_codes([0, 0, 1, 1], pd.Index(values[1:3], dtype=object)))
    frame = pd.DataFrame({"set": [0, 0, 1, 1], "x": np.arange(4.0), "y": column if as_category else values})
    sets = SampleSets.from_frame(frame, "set", points=["x"], targets=["y"])
    assert sets.targets["y"].tolist() == ["a", "b"]
    assert {type(value) for value in sets.targets["y"].tolist()} == {str}
