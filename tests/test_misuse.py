"""What goes wrong between tables and sets: by frames, stores and the command line the right result, or a refusal.

Donors 0 to 11 have five cells each, of two markers; those with an odd number are ill and have more of the first.
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
ROADS = ("frame", "partitions", "table", "command line")


@pytest.fixture(autouse=True)
def one_thread():
    import dask

    with dask.config.set(scheduler="synchronous"):
        yield


@pytest.fixture
def road(request, tmp_path, capsys):
    """``road(*frames, target=...)``: the sets of some frames, or of files that hold them; raises what is refused."""
    name = request.param
    store = str(tmp_path / "made.zarr")

    def files(frames):
        folder = tmp_path / "tables"
        folder.mkdir()
        for k, frame in enumerate(frames):
            frame.to_csv(folder / f"{k}.csv", index=False)
        return folder

    def made(*frames, target=None, joined=None, folder=False):
        if name == "frame":
            return dk.SampleSets.from_frame(
                pd.concat(frames), "donor", targets=joined if target is None else target
            )
        if name == "partitions":
            lazy = dd.from_pandas(pd.concat(frames), npartitions=3, sort=False)
            return dk.import_frame(store, lazy, "donor", targets=joined if target is None else target)
        place = files(frames)
        sources = [place] if folder else sorted(place.iterdir())
        if name == "table":
            reader = dk.TableReader("donor", targets=[] if target is None else [target], text=["donor"])
            return dk.import_sets(store, sources, reader)
        requested = [] if target is None else ["--target", target]
        command = ["import", *map(str, sources), store, "--set-id", "donor", "--text", "donor", *requested]
        if main(command) == 2:
            raise dk.SourceError(capsys.readouterr().err)
        return dk.open_sets(store)

    made.name = name
    return made


def every(*roads):
    return pytest.mark.parametrize("road", roads or ROADS, indirect=True)


def by_donor(sets):
    return pd.Series(np.asarray(sets.targets["ill"][:]), index=sets.ids).sort_index()


def refusal(call, *arguments, **options):
    with pytest.raises(ValueError) as caught:
        call(*arguments, **options)
    return str(caught.value)


def model():
    return make_pipeline(dk.MomentEmbedding(1), dk.IncrementalRidgeClassifier())


@every()
def test_labels_go_with_their_donor_whatever_the_order_of_rows(road):
    many = road.name != "partitions"
    rows = LABELLED.sample(frac=1, random_state=0) if many else LABELLED
    sets = road(rows, target="ill")
    assert by_donor(sets).tolist() == ILL.tolist()
    in_order = ILL[list(sets.ids)]
    result = model().fit(sets, SHUFFLED)
    np.testing.assert_array_equal(result[-1].coef_, model().fit(sets, in_order.to_numpy())[-1].coef_)
    assert result.score(sets, SHUFFLED) == result.score(sets, in_order.to_numpy())
    assert "lacks the id" in refusal(model().fit, sets, SHUFFLED.drop("003"))


@every("frame", "partitions")
def test_labels_that_are_joined_have_one_entry_for_each_donor(road):
    assert by_donor(road(CELLS, joined=SHUFFLED)).tolist() == ILL.tolist()
    assert "lacks the id '003'" in refusal(road, CELLS, joined=SHUFFLED.drop("003"))
    assert "'003' twice" in refusal(road, CELLS, joined=pd.concat([SHUFFLED, ILL[["003"]]]))


@every()
@pytest.mark.parametrize("columns", [SWAPPED, RENAMED], ids=["swapped", "renamed"])
def test_other_columns_than_those_of_fit_are_refused(road, columns, tmp_path, capsys):
    fitted = model().fit(dk.SampleSets.from_frame(CELLS, "donor"), ILL)
    other = road(columns)
    text = "Pass the columns of fit in the same order"
    assert text in refusal(fitted.predict, other)
    if road.name == "command line":
        dk.save_model(fitted, tmp_path / "m.npz")
        place = str(tmp_path / "made.zarr")
        command = ["predict", place, "--model", str(tmp_path / "m.npz"), "--output", str(tmp_path / "p.csv")]
        assert main(command) == 2
        assert text in capsys.readouterr().err
    if road.name == "partitions":
        with dk.SetWriter(tmp_path / "made.zarr", 2, mode="a") as writer:
            assert "dimensions of appended sets must be" in refusal(
                writer.append, dk.SampleSets.from_frame(CELLS, "donor")
            )


@every("table", "command line")
@pytest.mark.parametrize("columns", [SWAPPED, RENAMED], ids=["swapped", "renamed"])
def test_tables_of_one_store_have_the_same_columns(road, columns):
    other = columns.assign(donor=columns["donor"] + "b")
    assert "sources must have equal dimensions" in refusal(road, CELLS, other)


@every("table", "command line")
def test_files_of_one_table_are_read_by_the_names_of_columns(road):
    other = SWAPPED.assign(donor=SWAPPED["donor"] + "b")
    sets = road(CELLS, other, folder=True)
    assert sets.names == ("cd3", "cd4")
    np.testing.assert_array_equal(sets[:12].load().points, sets[12:].load().points)


@every("table", "command line")
def test_files_of_one_table_that_lack_a_column_are_refused(road):
    text = refusal(road, CELLS, RENAMED.assign(donor=RENAMED["donor"] + "b"), folder=True)
    assert "column 'cd4' has no value in row 1" in text
    assert "1.csv" in text


@every("partitions", "table", "command line")
def test_an_id_that_comes_back_is_refused(road):
    text = refusal(road, CELLS, CELLS[:5])
    assert "'000'" in text
    assert (
        "frame.shuffle" if road.name == "partitions" else "pass the files of one table as their folder"
    ) in text


def test_an_id_of_two_sets_is_refused_where_it_is_given_written_or_appended(tmp_path):
    sets = dk.SampleSets.from_frame(CELLS, "donor", targets=ILL.to_frame())
    arrays, ids = list(sets), ["003", *IDS[1:]]
    both = "ids must be unique; got '003' for sets 0 and 3"
    assert both in refusal(dk.SampleSets.from_arrays, arrays, ids=ids)
    assert both in refusal(sets.labelled, ids=ids)
    assert both in refusal(dk.write_sets, tmp_path / "s.zarr", arrays, ids=ids)
    assert "ids must be unique; got '001' for sets 0 and 2" in refusal(
        dk.write_sets, tmp_path / "s.zarr", sets[[1, 2, 1]]
    )
    store = dk.write_sets(tmp_path / "s.zarr", sets)
    assert "got '001' for set 0 of the appended sets" in refusal(store.append, sets[1:3])
    new = sets[:2].labelled(ids=["a", "b"])
    assert "ids must be unique; got 'a'" in refusal(store.append, new, ids=["a", "a"])
    assert dk.open_sets(tmp_path / "s.zarr").ids.tolist() == IDS


def test_a_table_that_is_appended_twice_is_refused(tmp_path, capsys):
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


@every()
def test_a_mask_goes_with_its_donor(road):
    sets = road(LABELLED, target="ill")
    ill = (SHUFFLED == 1) & (SHUFFLED.index != "011")
    chosen = sets[ill]
    assert chosen.ids.tolist() == ["001", "003", "005", "007", "009"]
    assert sets[ill.astype("boolean")].ids.tolist() == sets[ill[list(sets.ids)].to_numpy()].ids.tolist()
    assert chosen[SHUFFLED.index.to_series() > "004"].ids.tolist() == ["005", "007", "009"]
    assert "the index of the mask lacks the id '003'" in refusal(sets.__getitem__, ill.drop("003"))
    with pytest.raises(IndexError, match=r"no missing values; got one for '003'.*mask.fillna\(False\)"):
        sets[ill.astype("boolean").where(ill.index != "003")]
    assert sets[pd.Series([True] + [False] * 11)].ids.tolist() == ["000"]  # the order of the sets


def test_pictures_join_labels(tmp_path):
    plt = pytest.importorskip("matplotlib.pyplot")
    sets = dk.SampleSets.from_frame(CELLS, "donor")
    y = ILL.map({0: "well", 1: "ill"})
    shuffled = y[SHUFFLED.index]
    titles = [ax.get_title(loc="left") for ax in dk.plot.sets(sets, [0, 1, 2], shuffled).axes]
    assert [title.split(",")[0] for title in titles] == [f"set {i}: ill = {y.iloc[i]}" for i in range(3)]
    frame = dk.distance_matrix(sets, distance="energy", as_frame=True)
    rows = dk.MomentEmbedding(1).fit_transform(sets)
    for draw, of in (
        (dk.plot.collection, sets),
        (dk.plot.collection, rows),
        (dk.plot.distances, frame),
        (dk.plot.distances, frame.to_numpy(copy=True)),
        (dk.plot.distances, dk.distance_matrix(sets, distance="energy")),
    ):
        requested = shuffled if not isinstance(of, np.ndarray) or of is rows else y
        result, expected = draw(of, requested), draw(of, y.to_numpy())
        for one, other in zip(result.collections, expected.collections, strict=True):
            np.testing.assert_array_equal(one.get_offsets(), other.get_offsets())
        for one, other in zip(result.images, expected.images, strict=True):
            np.testing.assert_array_equal(one.get_array(), other.get_array())
    plt.close("all")


@every()
def test_a_set_over_two_files_is_one_set(road):
    sets = road(LABELLED[:28], LABELLED[28:], target="ill", folder=True)
    assert sets.sizes.tolist() == [5] * 12
    assert by_donor(sets).tolist() == ILL.tolist()


@every("table", "command line")
def test_two_files_that_are_no_table_together_hold_whole_sets(road):
    assert "pass the files of one table as their folder" in refusal(road, CELLS[:28], CELLS[28:])


@every()
def test_a_missing_target_is_refused_by_name(road):
    unknown = LABELLED.assign(ill=LABELLED["ill"].astype(float).where(LABELLED["donor"] != "003"))
    if road.name in ("table", "command line"):
        text = refusal(road, unknown, target="ill")
        assert "missing for 1 of 12 sets" in text
        assert "missing_targets='drop', --missing-targets drop" in text
    else:
        sets = road(unknown, target="ill")
        text = refusal(model().fit, sets, np.asarray(sets.targets["ill"][:]))
        assert "target 3 of 12" in text
        assert "Drop these sets, X[valid] and y[valid]" in text


@pytest.mark.parametrize("missing", [None, np.nan, pd.NA], ids=["None", "nan", "NA"])
@pytest.mark.parametrize("learner", [model, lambda: dk.SetClassifier(["means"], random_state=0)])
def test_a_class_that_is_missing_is_named_whatever_stands_for_it(learner, missing):
    sets = dk.SampleSets.from_frame(CELLS, "donor")
    y = ILL.map({0: "well", 1: "ill"}).astype(object)
    y.iloc[3] = missing
    for value in (y, y.to_numpy(), y.astype("string")):
        assert "target 3 of 12" in refusal(learner().fit, sets, value)


def test_a_target_that_is_missing_in_a_store_is_named_by_every_command(tmp_path, capsys):
    sets = dk.SampleSets.from_frame(CELLS, "donor")
    model_file, place = str(tmp_path / "m.npz"), str(tmp_path / "s.zarr")
    dk.save_model(model().fit(sets, ILL), model_file)
    dk.write_sets(place, sets, targets={"ill": ILL.astype(float).where(ILL.index != "003")})
    requested = ["--target", "ill"]
    for command in (
        ["fit", place, *requested, "--model", str(tmp_path / "n.npz")],
        ["plan", place, *requested],
        ["score", place, *requested, "--model", model_file],
        ["report", model_file, place, *requested, "--output", str(tmp_path / "r.html")],
    ):
        assert main(command) == 2
        text = capsys.readouterr().err
        assert (
            "target 'ill' is missing for 1 of 12 sets (first: '003'). Import the sets with --missing-targets drop"
            in text
        )


def test_frames_without_an_index_are_joined_or_refused(tmp_path):
    polars = pytest.importorskip("polars")
    donors = polars.DataFrame({"donor": SHUFFLED.index.tolist(), "ill": SHUFFLED.tolist()})
    sets = dk.SampleSets.from_frame(polars.from_pandas(CELLS), "donor", targets=donors)
    assert by_donor(sets).tolist() == ILL.tolist()
    for text in (
        refusal(sets.labelled, targets=donors),
        refusal(dk.write_sets, tmp_path / "s.zarr", sets, targets=donors.to_arrow()),
    ):
        assert "a pandas frame with an index of ids; got" in text
        assert "set_index(NAME OF THE IDS)" in text


@every()
@pytest.mark.filterwarnings("ignore:columns omitted from the coordinates")
@pytest.mark.parametrize("index", ["index", "Unnamed: 0"])
def test_an_index_is_no_coordinate(road, index):
    frame = CELLS.copy()
    frame.insert(0, index, np.arange(60))
    assert road(frame).names == ("cd3", "cd4")


@pytest.mark.filterwarnings("ignore:The inplace keyword")  # of pandas, which Dask does not heed yet
def test_ids_that_are_the_index_are_asked_for_as_a_column(tmp_path):
    indexed = CELLS.set_index("donor")
    indexed.to_parquet(tmp_path / "cells.parquet")
    lazy = dd.read_parquet(tmp_path / "cells.parquet")
    for text in (
        refusal(dk.SampleSets.from_frame, indexed, "donor"),
        refusal(dk.import_frame, tmp_path / "s.zarr", lazy, "donor"),
        refusal(dk.import_frame, tmp_path / "s.zarr", dd.from_pandas(indexed, npartitions=2), "donor"),
    ):
        assert "Pass frame.reset_index()" in text
