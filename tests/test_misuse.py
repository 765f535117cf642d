"""Mistakes between tables and sets, for frames, stores and the command line: a correct result, or an error.

Donors 0 to 11 have five cells each, with two markers; donors with an odd number are ill and have a higher first marker.
"""

import numpy as np
import pandas as pd
import pytest
from sklearn.pipeline import make_pipeline

import dkdist as dk
from dkdist.cli import main

dd = pytest.importorskip("dask.dataframe")

IDS = [f"{i:03d}" for i in range(12)]
RNG = np.random.default_rng(0)
ILL = pd.Series(np.arange(12) % 2, index=IDS, name="ill")
CELLS = pd.DataFrame(
    {
        "donor": np.repeat(IDS, 5),
        "cd3": RNG.normal(3 * np.repeat(ILL.to_numpy(), 5), 1),
        "cd4": RNG.normal(size=60),
    }
)
LABELLED = CELLS.assign(ill=np.repeat(ILL.to_numpy(), 5))
SHUFFLED = ILL.sample(frac=1, random_state=1)
SWAPPED = CELLS[["donor", "cd4", "cd3"]]
RENAMED = CELLS.rename(columns={"cd4": "CD4"})
IMPORT_PATHS = ("frame", "partitions", "table", "command line")


@pytest.fixture(autouse=True)
def one_thread():
    import dask

    with dask.config.set(scheduler="synchronous"):
        yield


@pytest.fixture
def load_sets(request, tmp_path, capsys):
    """Return a function ``load_sets(*frames, target=...)`` that reads sets from frames or from files of them."""
    name = request.param
    store = str(tmp_path / "made.zarr")

    def files(frames):
        folder = tmp_path / "tables"
        folder.mkdir()
        for k, frame in enumerate(frames):
            frame.to_csv(folder / f"{k}.csv", index=False)
        return folder

    def import_sets(*frames, target=None, joined_targets=None, folder=False):
        if name == "frame":
            return dk.SampleSets.from_frame(
                pd.concat(frames), "donor", targets=joined_targets if target is None else target
            )
        if name == "partitions":
            lazy = dd.from_pandas(pd.concat(frames), npartitions=3, sort=False)
            return dk.import_frame(store, lazy, "donor", targets=joined_targets if target is None else target)
        path = files(frames)
        sources = [path] if folder else sorted(path.iterdir())
        if name == "table":
            reader = dk.TableReader("donor", targets=[] if target is None else [target], text=["donor"])
            return dk.import_sets(store, sources, reader)
        labels = [] if target is None else ["--target", target]
        command = ["import", *map(str, sources), store, "--set-id", "donor", "--text", "donor", *labels]
        if main(command) == 2:
            raise dk.SourceError(capsys.readouterr().err)
        return dk.open_sets(store)

    import_sets.name = name
    return import_sets


def for_each_path(*paths):
    return pytest.mark.parametrize("load_sets", paths or IMPORT_PATHS, indirect=True)


def by_donor(sets):
    return pd.Series(np.asarray(sets.targets["ill"][:]), index=sets.ids).sort_index()


def error_of(call, *arguments, **options):
    with pytest.raises(ValueError) as caught:
        call(*arguments, **options)
    return str(caught.value)


def model():
    return make_pipeline(dk.MomentEmbedding(1), dk.IncrementalRidgeClassifier())


@for_each_path()
def test_labels_are_aligned_with_donors_for_any_order_of_rows(load_sets):
    is_eager = load_sets.name != "partitions"
    rows = LABELLED.sample(frac=1, random_state=0) if is_eager else LABELLED
    sets = load_sets(rows, target="ill")
    assert by_donor(sets).tolist() == ILL.tolist()
    in_order = ILL[list(sets.ids)]
    result = model().fit(sets, SHUFFLED)
    np.testing.assert_array_equal(result[-1].coef_, model().fit(sets, in_order.to_numpy())[-1].coef_)
    assert result.score(sets, SHUFFLED) == result.score(sets, in_order.to_numpy())
    assert "lacks the id" in error_of(model().fit, sets, SHUFFLED.drop("003"))


@for_each_path("frame", "partitions")
def test_joined_labels_need_one_entry_per_donor(load_sets):
    assert by_donor(load_sets(CELLS, joined_targets=SHUFFLED)).tolist() == ILL.tolist()
    assert "lacks the id '003'" in error_of(load_sets, CELLS, joined_targets=SHUFFLED.drop("003"))
    assert "'003' twice" in error_of(load_sets, CELLS, joined_targets=pd.concat([SHUFFLED, ILL[["003"]]]))


@for_each_path()
@pytest.mark.parametrize("columns", [SWAPPED, RENAMED], ids=["swapped", "renamed"])
def test_columns_other_than_in_fit_raise(load_sets, columns, tmp_path, capsys):
    fitted = model().fit(dk.SampleSets.from_frame(CELLS, "donor"), ILL)
    other_sets = load_sets(columns)
    text = "Pass the columns of fit in the same order"
    assert text in error_of(fitted.predict, other_sets)
    if load_sets.name == "command line":
        dk.save_model(fitted, tmp_path / "m.npz")
        path = str(tmp_path / "made.zarr")
        command = ["predict", path, "--model", str(tmp_path / "m.npz"), "--output", str(tmp_path / "p.csv")]
        assert main(command) == 2
        assert text in capsys.readouterr().err
    if load_sets.name == "partitions":
        with dk.SetWriter(tmp_path / "made.zarr", 2, mode="a") as writer:
            assert "dimensions of appended sets must be" in error_of(
                writer.append, dk.SampleSets.from_frame(CELLS, "donor")
            )


@for_each_path("table", "command line")
@pytest.mark.parametrize("columns", [SWAPPED, RENAMED], ids=["swapped", "renamed"])
def test_tables_of_one_store_need_equal_columns(load_sets, columns):
    other_table = columns.assign(donor=columns["donor"] + "b")
    assert "sources must have equal dimensions" in error_of(load_sets, CELLS, other_table)


@for_each_path("table", "command line")
def test_files_of_one_table_are_matched_by_column_names(load_sets):
    other_table = SWAPPED.assign(donor=SWAPPED["donor"] + "b")
    sets = load_sets(CELLS, other_table, folder=True)
    assert sets.names == ("cd3", "cd4")
    np.testing.assert_array_equal(sets[:12].load().points, sets[12:].load().points)


@for_each_path("table", "command line")
def test_files_of_one_table_with_missing_column_raise(load_sets):
    text = error_of(load_sets, CELLS, RENAMED.assign(donor=RENAMED["donor"] + "b"), folder=True)
    assert "column 'cd4' has no value in row 1" in text
    assert "1.csv" in text


@for_each_path("partitions", "table", "command line")
def test_repeated_id_in_later_rows_raises(load_sets):
    text = error_of(load_sets, CELLS, CELLS[:5])
    assert "'000'" in text
    assert (
        "frame.shuffle"
        if load_sets.name == "partitions"
        else "if they are files of one table, pass their folder"
    ) in text


def test_duplicate_ids_raise_in_memory_write_and_append(tmp_path):
    sets = dk.SampleSets.from_frame(CELLS, "donor", targets=ILL.to_frame())
    arrays, ids = list(sets), ["003", *IDS[1:]]
    duplicate_message = "ids must be unique; got '003' for sets 0 and 3"
    assert duplicate_message in error_of(dk.SampleSets.from_arrays, arrays, ids=ids)
    assert duplicate_message in error_of(sets.labelled, ids=ids)
    assert duplicate_message in error_of(dk.write_sets, tmp_path / "s.zarr", arrays, ids=ids)
    assert "ids must be unique; got '001' for sets 0 and 2" in error_of(
        dk.write_sets, tmp_path / "s.zarr", sets[[1, 2, 1]]
    )
    store = dk.write_sets(tmp_path / "s.zarr", sets)
    assert "got '001' for set 0 of the appended sets" in error_of(store.append, sets[1:3])
    new = sets[:2].labelled(ids=["a", "b"])
    assert "ids must be unique; got 'a'" in error_of(store.append, new, ids=["a", "a"])
    assert dk.open_sets(tmp_path / "s.zarr").ids.tolist() == IDS


def test_appending_a_table_twice_fails(tmp_path, capsys):
    LABELLED.to_csv(tmp_path / "cells.csv", index=False)
    command = [
        "import",
        str(tmp_path / "cells.csv"),
        str(tmp_path / "s"),
        "--set-id",
        "donor",
        "--text",
        "donor",
    ]
    assert main(command) == 0
    assert main([*command, "--append"]) == 2
    assert "'000' of" in (text := capsys.readouterr().err)
    assert "Remove or rename it, or pass --overwrite instead of --append" in text
    assert len(dk.open_sets(tmp_path / "s")) == 12


@for_each_path()
def test_masks_are_aligned_with_donors(load_sets):
    sets = load_sets(LABELLED, target="ill")
    ill = (SHUFFLED == 1) & (SHUFFLED.index != "011")
    chosen = sets[ill]
    assert chosen.ids.tolist() == ["001", "003", "005", "007", "009"]
    assert sets[ill.astype("boolean")].ids.tolist() == sets[ill[list(sets.ids)].to_numpy()].ids.tolist()
    assert chosen[SHUFFLED.index.to_series() > "004"].ids.tolist() == ["005", "007", "009"]
    assert "the index of the mask lacks the id '003'" in error_of(sets.__getitem__, ill.drop("003"))
    with pytest.raises(IndexError, match=r"no missing values; got one for '003'.*mask.fillna\(False\)"):
        sets[ill.astype("boolean").where(ill.index != "003")]
    assert sets[pd.Series([True] + [False] * 11)].ids.tolist() == ["000"]  # in the order of the sets


def test_plots_align_labels(tmp_path):
    plt = pytest.importorskip("matplotlib.pyplot")
    sets = dk.SampleSets.from_frame(CELLS, "donor")
    y = ILL.map({0: "well", 1: "ill"})
    shuffled = y[SHUFFLED.index]
    titles = [ax.get_title(loc="left") for ax in dk.plot.sets(sets, [0, 1, 2], shuffled).axes]
    assert [title.split(",")[0] for title in titles] == [f"set {i}: ill = {y.iloc[i]}" for i in range(3)]
    frame = dk.distance_matrix(sets, distance="energy", as_frame=True)
    rows = dk.MomentEmbedding(1).fit_transform(sets)
    for draw, source in (
        (dk.plot.collection, sets),
        (dk.plot.collection, rows),
        (dk.plot.distances, frame),
        (dk.plot.distances, frame.to_numpy(copy=True)),
        (dk.plot.distances, dk.distance_matrix(sets, distance="energy")),
    ):
        labels = shuffled if not isinstance(source, np.ndarray) or source is rows else y
        result, expected = draw(source, labels), draw(source, y.to_numpy())
        for first, second in zip(result.collections, expected.collections, strict=True):
            np.testing.assert_array_equal(first.get_offsets(), second.get_offsets())
        for first, second in zip(result.images, expected.images, strict=True):
            np.testing.assert_array_equal(first.get_array(), second.get_array())
    plt.close("all")


@for_each_path()
def test_set_in_two_files_is_one_set(load_sets):
    sets = load_sets(LABELLED[:28], LABELLED[28:], target="ill", folder=True)
    assert sets.sizes.tolist() == [5] * 12
    assert by_donor(sets).tolist() == ILL.tolist()


@for_each_path("table", "command line")
def test_set_in_two_separate_tables_raises(load_sets):
    assert "if they are files of one table, pass their folder" in error_of(load_sets, CELLS[:28], CELLS[28:])


@for_each_path()
def test_missing_target_raises(load_sets):
    unknown = LABELLED.assign(ill=LABELLED["ill"].astype(float).where(LABELLED["donor"] != "003"))
    if load_sets.name in ("table", "command line"):
        text = error_of(load_sets, unknown, target="ill")
        assert "missing for 1 of 12 sets" in text
        assert "missing_targets='drop', --missing-targets drop" in text
    else:
        sets = load_sets(unknown, target="ill")
        text = error_of(model().fit, sets, np.asarray(sets.targets["ill"][:]))
        assert "target 3 of 12" in text
        assert "Pass X[valid] and y[valid]" in text


@pytest.mark.parametrize("missing", [None, np.nan, pd.NA], ids=["None", "nan", "NA"])
@pytest.mark.parametrize("learner", [model, lambda: dk.SetClassifier(["means"], random_state=0)])
def test_missing_class_raises_for_all_missing_values(learner, missing):
    sets = dk.SampleSets.from_frame(CELLS, "donor")
    y = ILL.map({0: "well", 1: "ill"}).astype(object)
    y.iloc[3] = missing
    for value in (y, y.to_numpy(), y.astype("string")):
        assert "target 3 of 12" in error_of(learner().fit, sets, value)


def test_missing_target_of_a_store_fails_in_all_commands(tmp_path, capsys):
    sets = dk.SampleSets.from_frame(CELLS, "donor")
    model_file, path = str(tmp_path / "m.npz"), str(tmp_path / "s.zarr")
    dk.save_model(model().fit(sets, ILL), model_file)
    dk.write_sets(path, sets, targets={"ill": ILL.astype(float).where(ILL.index != "003")})
    target_options = ["--target", "ill"]
    for command in (
        ["fit", path, *target_options, "--model", str(tmp_path / "n.npz")],
        ["plan", path, *target_options],
        ["score", path, *target_options, "--model", model_file],
        ["report", model_file, path, *target_options, "--output", str(tmp_path / "r.html")],
    ):
        assert main(command) == 2
        text = capsys.readouterr().err
        assert (
            "target 'ill' is missing for 1 of 12 sets (first: '003'). Import the sets with --missing-targets drop"
            in text
        )


def test_frames_without_index_are_joined_or_raise(tmp_path):
    polars = pytest.importorskip("polars")
    donors = polars.DataFrame({"donor": SHUFFLED.index.tolist(), "ill": SHUFFLED.tolist()})
    sets = dk.SampleSets.from_frame(polars.from_pandas(CELLS), "donor", targets=donors)
    assert by_donor(sets).tolist() == ILL.tolist()
    for text in (
        error_of(sets.labelled, targets=donors),
        error_of(dk.write_sets, tmp_path / "s.zarr", sets, targets=donors.to_arrow()),
    ):
        assert "a pandas frame with an index of ids; got" in text
        assert "set_index(NAME OF THE IDS)" in text


@for_each_path()
@pytest.mark.filterwarnings("ignore:columns omitted from the coordinates")
@pytest.mark.parametrize("index", ["index", "Unnamed: 0"])
def test_index_is_not_a_coordinate(load_sets, index):
    frame = CELLS.copy()
    frame.insert(0, index, np.arange(60))
    assert load_sets(frame).names == ("cd3", "cd4")


@pytest.mark.filterwarnings("ignore:The inplace keyword")  # pandas warns about a call of Dask
def test_ids_in_the_index_raise(tmp_path):
    indexed = CELLS.set_index("donor")
    indexed.to_parquet(tmp_path / "cells.parquet")
    lazy = dd.read_parquet(tmp_path / "cells.parquet")
    for text in (
        error_of(dk.SampleSets.from_frame, indexed, "donor"),
        error_of(dk.import_frame, tmp_path / "s.zarr", lazy, "donor"),
        error_of(dk.import_frame, tmp_path / "s.zarr", dd.from_pandas(indexed, npartitions=2), "donor"),
    ):
        assert "Pass frame.reset_index()" in text
