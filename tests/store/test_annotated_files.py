"""Import of AnnData: values equal those that anndata reads and pandas groups, for any order of the cells."""

import pickle
import types

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import dkdist as dk
from dkdist.cli import main
from dkdist.io import import_anndata
from dkdist.io.readers import annotated_files, gathered_rows
from dkdist.io.readers.annotated_files import AnnotatedReader, IndexedAnnotated

pytestmark = pytest.mark.filterwarnings("ignore")  # warnings of anndata itself

N_CELLS, GENES = 300, [f"g{j}" for j in range(8)]


def observations(seed=0, *, adjacent=False):
    rng = np.random.default_rng(seed)
    donor = rng.integers(0, 5, N_CELLS)
    donor = np.sort(donor)[::-1] if adjacent else donor
    age = np.array([50.5, 60.0, np.nan, 70.0, 40.0])[donor]
    site = pd.Categorical(np.array(["north", "south"])[donor % 2])
    obs = {"donor": pd.Categorical([f"d{i}" for i in donor]), "age": age, "site": site, "cell_type": "B"}
    return pd.DataFrame(obs, index=[f"cell{i}" for i in range(N_CELLS)])


def matrices(seed=0):
    rng = np.random.default_rng(seed)
    X = sp.random(N_CELLS, 8, 0.3, "csr", np.float32, rng=rng)
    layers = {
        "csc": sp.random(N_CELLS, 8, 0.4, "csc", np.float32, rng=rng),
        "dense": rng.normal(size=(N_CELLS, 8)),
        "integers": rng.integers(0, 9, (N_CELLS, 8)),
    }
    return {"X": X, "layers": layers, "obsm": {"X_pca": rng.normal(size=(N_CELLS, 3)).astype(np.float32)}}


@pytest.fixture(scope="module", params=["scattered", "adjacent"])
def paths(request, tmp_path_factory):
    anndata = pytest.importorskip("anndata")
    anndata.settings.allow_write_nullable_strings = True
    parts = matrices()
    obs = observations(adjacent=request.param == "adjacent")
    positions = pd.DataFrame(np.random.default_rng(1).random((N_CELLS, 2)), obs.index, columns=["u", "v"])
    adata = anndata.AnnData(
        parts["X"], obs=obs, layers=parts["layers"], obsm={**parts["obsm"], "positions": positions}
    )
    adata.var_names = GENES
    folder = tmp_path_factory.mktemp("annotated")
    adata.write_h5ad(folder / "cells.h5ad", compression="gzip")
    adata.write_zarr(folder / "cells.zarr")
    return {"h5ad": folder / "cells.h5ad", "zarr": folder / "cells.zarr"}


@pytest.fixture
def small_blocks(monkeypatch):
    """Read blocks of a few rows, write batches of one or two sets, and sort in many temporary files."""
    monkeypatch.setattr(annotated_files, "BLOCK_BYTES", 2000)
    monkeypatch.setattr(annotated_files, "MAX_BATCH_BYTES", 120 * 32)
    monkeypatch.setattr(gathered_rows, "BUCKET_BYTES", 1000)


SELECTIONS = [
    {},
    {"columns": ["g6", "g2"]},
    {"layer": "csc"},
    {"layer": "csc", "columns": ["g5", "g1"]},
    {"layer": "dense", "columns": "g3"},
    {"layer": "integers"},
    {"obsm": "X_pca"},
    {"obsm": "positions", "columns": ["v"]},
]


def frame_by_anndata(path, obsm=None, layer=None, columns=None):
    """Return the selected matrix as a frame of cells, read whole by anndata."""
    import anndata

    adata = anndata.read_h5ad(path)
    if obsm is None:
        frame = adata.to_df(layer)
    else:
        values = adata.obsm[obsm]
        is_frame = isinstance(values, pd.DataFrame)
        frame = values if is_frame else pd.DataFrame(values, adata.obs_names)
        frame.columns = list(frame.columns) if is_frame else [f"{obsm}_{j}" for j in range(values.shape[1])]
    selected = [columns] if isinstance(columns, str) else columns
    return (frame if selected is None else frame[selected]), adata.obs


def require_equal_groups(sets, frame, obs):
    """Compare sets with groups of pandas: ids in the order of first cells, cells in the order of the file."""
    groups = dict(list(frame.groupby(obs["donor"].astype(str), sort=False)))
    assert sets.ids.tolist() == list(groups)
    assert list(sets.names) == list(frame.columns)
    for points, rows in zip(sets, groups.values(), strict=True):
        np.testing.assert_array_equal(points.astype(np.float32), rows.to_numpy().astype(np.float32))
    ages = obs.groupby(obs["donor"].astype(str), sort=False)["age"].first()
    sites = obs["site"].astype(str).groupby(obs["donor"].astype(str), sort=False).first()
    np.testing.assert_array_equal(sets.targets["age"], ages.to_numpy())
    assert sets.targets["site"].tolist() == sites.tolist()


@pytest.mark.parametrize("how", SELECTIONS, ids=str)
@pytest.mark.parametrize("kind", ["h5ad", "zarr", "backed", "in memory", "lazy"])
def test_sets_of_every_matrix_equal_groups_of_pandas(kind, how, paths, tmp_path, small_blocks):
    import anndata

    source = {
        "h5ad": lambda: paths["h5ad"],
        "zarr": lambda: str(paths["zarr"]),
        "backed": lambda: anndata.read_h5ad(paths["h5ad"], backed="r"),
        "in memory": lambda: anndata.read_h5ad(paths["h5ad"]),
        "lazy": lambda: anndata.experimental.read_lazy(paths["h5ad"]),
    }[kind]()
    sets = dk.import_anndata(tmp_path / "s.zarr", source, "donor", targets=["age", "site"], **how).load()
    require_equal_groups(sets, *frame_by_anndata(paths["h5ad"], **how))


@pytest.mark.parametrize("kind", ["h5ad", "zarr", "backed", "lazy"])
def test_lazy_sets_read_blocks_and_equal_groups_of_pandas(kind, paths, small_blocks, monkeypatch):
    import anndata

    source = {
        "h5ad": lambda: paths["h5ad"],
        "zarr": lambda: str(paths["zarr"]),
        "backed": lambda: anndata.read_h5ad(paths["h5ad"], backed="r"),
        "lazy": lambda: anndata.experimental.read_lazy(paths["h5ad"]),
    }[kind]()
    monkeypatch.setattr(import_anndata, "CHUNK_BYTES", 500)
    for how in ({"columns": ["g6", "g2"]}, {"layer": "dense"}, {"obsm": "X_pca"}):
        sets = dk.open_anndata(source, "donor", targets=["age", "site"], **how)
        assert isinstance(sets, dk.LazySets)
        frame, obs = frame_by_anndata(paths["h5ad"], **how)
        loaded = sets.load()
        require_equal_groups(loaded, frame, obs)
    rows = dk.MomentEmbedding(degree=2).fit(sets).transform(sets)
    np.testing.assert_array_equal(rows.compute(), dk.MomentEmbedding(degree=2).fit_transform(loaded))
    order = np.array([3, 0, 4])
    np.testing.assert_array_equal(sets[order].load().points, loaded[order].points)


def test_lazy_sets_of_a_view_hold_its_cells(paths):
    import anndata

    backed = anndata.read_h5ad(paths["h5ad"], backed="r")
    chosen = np.arange(N_CELLS) % 3 > 0
    sets = dk.open_anndata(backed[chosen], "donor", targets=["age", "site"]).load()
    frame, obs = frame_by_anndata(paths["h5ad"])
    require_equal_groups(sets, frame[chosen], obs[chosen])


def test_lazy_values_that_are_not_finite_are_refused_when_read():
    sets = dk.open_anndata(in_place_of_anndata(X=with_value(np.nan)), "donor")
    with pytest.raises(ValueError, match="finite"):
        sets.load()
    with pytest.raises(ValueError, match="has no column 'patient'"):
        dk.open_anndata(in_place_of_anndata(), "patient")


def test_a_view_of_a_backed_object_imports_its_cells_and_its_obs(paths, tmp_path, small_blocks):
    import anndata

    backed = anndata.read_h5ad(paths["h5ad"], backed="r")
    backed.obs["age"] = 2 * backed.obs["age"].to_numpy()
    chosen = (backed.obs["donor"] != "d1").to_numpy() & (np.arange(N_CELLS) % 3 > 0)
    sets = dk.import_anndata(
        tmp_path / "s.zarr", backed[chosen], "donor", targets=["age", "site"], columns=["g4", "g0"]
    ).load()
    frame, obs = frame_by_anndata(paths["h5ad"], columns=["g4", "g0"])
    obs["age"] *= 2
    require_equal_groups(sets, frame[chosen], obs[chosen])


def test_backed_objects_can_be_sent_to_workers(paths):
    import anndata

    backed = anndata.read_h5ad(paths["h5ad"], backed="r")
    for how in ({}, {"layer": "dense"}, {"obsm": "X_pca"}):
        indexed = pickle.loads(pickle.dumps(IndexedAnnotated.of(backed, AnnotatedReader("donor", **how))))
        points = np.concatenate([sets.points for sets, _, _ in indexed.batches()])
        frame, obs = frame_by_anndata(paths["h5ad"], **how)
        groups = [rows for _, rows in frame.groupby(obs["donor"].astype(str), sort=False)]
        np.testing.assert_allclose(points, np.concatenate(groups), rtol=1e-6)


def test_several_files_are_one_store(paths, tmp_path):
    import anndata

    whole = anndata.read_h5ad(paths["h5ad"])
    files = []
    is_first = whole.obs["donor"].isin(["d0", "d3"]).to_numpy()
    for name, chosen in (("a", is_first), ("b", ~is_first)):
        whole[chosen].write_h5ad(tmp_path / f"{name}.h5ad")
        files.append(tmp_path / f"{name}.h5ad")
    sets = dk.import_anndata(tmp_path / "s.zarr", files, "donor", obsm="X_pca")
    assert sorted(sets.ids) == ["d0", "d1", "d2", "d3", "d4"]
    assert sets.n_points == N_CELLS
    with pytest.raises(dk.SourceError, match="a set must lie within one source"):
        dk.import_anndata(tmp_path / "t.zarr", [*files, paths["h5ad"]], "donor", obsm="X_pca")


def test_a_file_written_by_hand_is_read(tmp_path):
    """An h5ad file by its specification: https://anndata.readthedocs.io/en/latest/fileformat-prose.html."""
    h5py = pytest.importorskip("h5py")
    pytest.importorskip("anndata")

    def tag(item, kind, version="0.2.0", **more):
        for key, value in {"encoding-type": kind, "encoding-version": version, **more}.items():
            item.attrs[key] = value
        return item

    with h5py.File(tmp_path / "hand.h5ad", "w") as file:
        tag(file, "anndata", "0.1.0")
        text = h5py.string_dtype()
        obs = tag(file.create_group("obs"), "dataframe", _index="cell")
        obs.attrs["column-order"] = np.array(["donor", "dose"], dtype=text)
        tag(obs.create_dataset("cell", data=["c0", "c1", "c2", "c3"], dtype=text), "string-array")
        tag(obs.create_dataset("dose", data=[2, 5, 2, 5]), "array")
        donor = tag(obs.create_group("donor"), "categorical", ordered=False)
        tag(donor.create_dataset("codes", data=np.array([1, 0, 1, 0], np.int8)), "array")
        tag(donor.create_dataset("categories", data=["p", "q"], dtype=text), "string-array")
        var = tag(file.create_group("var"), "dataframe", _index="gene")
        var.attrs["column-order"] = np.empty(0, dtype=text)
        tag(var.create_dataset("gene", data=["A", "B", "C"], dtype=text), "string-array")
        X = tag(file.create_group("X"), "csr_matrix", "0.1.0", shape=[4, 3])
        X["data"] = np.array([1, 2, 3, 4], np.float32)
        X["indices"] = np.array([2, 0, 1, 2], np.int32)
        X["indptr"] = np.array([0, 1, 2, 2, 4], np.int32)
    sets = dk.import_anndata(tmp_path / "s.zarr", tmp_path / "hand.h5ad", "donor", targets="dose")
    assert sets.ids.tolist() == ["q", "p"]
    assert sets.names == ("A", "B", "C")
    assert sets.targets["dose"].tolist() == [2, 5]
    assert sets.load().points.tolist() == [[0, 0, 1], [0, 0, 0], [2, 0, 0], [0, 3, 4]]


def in_place_of_anndata(**changes):
    """Return an object with the attributes of AnnData, which needs no package."""
    parts = {"obs": observations(), "var_names": GENES, **matrices()}
    return types.SimpleNamespace(**{**parts, **changes})


@pytest.mark.parametrize("how", SELECTIONS[:-1], ids=str)
def test_objects_give_the_sets_of_from_anndata(how, tmp_path, small_blocks):
    adata = in_place_of_anndata()
    expected = dk.SampleSets.from_anndata(adata, "donor", targets=["age", "site"], **how)
    sets = dk.import_anndata(tmp_path / "s.zarr", adata, "donor", targets=["age", "site"], **how).load()
    np.testing.assert_array_equal(sets.points.astype(np.float32), expected.points.astype(np.float32))
    assert sets.sizes.tolist() == expected.sizes.tolist()
    assert sets.ids.tolist() == expected.ids.tolist()
    assert sets.names == expected.names
    np.testing.assert_array_equal(sets.targets["age"], expected.targets["age"])


def test_float64_far_from_zero_keeps_its_differences(tmp_path, small_blocks):
    times = 1.7e9 + np.random.default_rng(0).random((N_CELLS, 1))
    adata = in_place_of_anndata(obsm={"time": times})
    sets = dk.import_anndata(tmp_path / "s.zarr", adata, "donor", obsm="time").load()
    grouped = [times[adata.obs["donor"] == key] for key in sets.ids]
    np.testing.assert_allclose(sets.points, np.concatenate(grouped), rtol=0, atol=1e-6)


def test_one_column_of_small_integers_is_no_text(tmp_path):
    counts = np.random.default_rng(0).integers(0, 9, (N_CELLS, 8)).astype("u2")
    adata = in_place_of_anndata(X=sp.csr_matrix(counts))
    for sets in (
        dk.import_anndata(tmp_path / "s.zarr", adata, "donor", columns="g2"),
        dk.open_anndata(adata, "donor", columns="g2"),
    ):
        groups = [counts[adata.obs["donor"] == key, 2] for key in sets.ids]
        np.testing.assert_array_equal(sets.load().points.ravel(), np.concatenate(groups))
        assert sets.points_dtype == np.float32


def test_targets_of_a_frame_are_joined_by_id(tmp_path):
    outcome = pd.Series([4, 3, 2, 1, 0], index=["d4", "d3", "d2", "d1", "d0"], name="outcome")
    sets = dk.import_anndata(tmp_path / "s.zarr", in_place_of_anndata(), "donor", targets=outcome)
    assert [f"d{i}" for i in sets.targets["outcome"]] == sets.ids.tolist()


def with_value(value, row=7):
    dense = matrices()["X"].toarray()
    dense[row, 2] = value
    return dense


@pytest.mark.parametrize(
    ("changes", "how", "message"),
    [
        ({}, {"set_key": "patient"}, "adata.obs has no column 'patient'; its columns are donor, age"),
        ({}, {"targets": ["stage"]}, "adata.obs has no column 'stage'"),
        ({}, {"columns": ["CD3"]}, "must have one column 'CD3'; got 0. Its columns are g0, g1"),
        ({}, {"columns": []}, "columns must name at least one column; got none"),
        ({}, {"columns": 5}, "columns must be column names; got 5"),
        ({}, {"layer": "raw"}, "adata.layers has no 'raw'; its entries are csc, dense, integers"),
        ({}, {"layer": "dense", "obsm": "X_pca"}, "obsm and layer must not both be set"),
        ({"X": None}, {}, "adata.X is None. Select a matrix"),
        (
            {"X": with_value(np.nan)},
            {},
            r"column 'g2' of adata.X must be finite; got nan in row 7 \(set 'd",
        ),
        ({"X": with_value(np.inf, 299)}, {}, "got inf in row 299"),
        ({"obs": observations().assign(age=np.arange(N_CELLS))}, {"targets": ["age"]}, "one value per set"),
        (
            {"obs": observations().assign(donor=pd.Categorical([*["a"] * 299, None]))},
            {},
            r"'donor' has no value in row 299 \(1 such rows\)",
        ),
    ],
)
def test_invalid_data_are_refused_by_name(changes, how, message, tmp_path):
    arguments = {"set_key": "donor", **how}
    with pytest.raises(dk.SourceError, match=message):
        dk.import_anndata(tmp_path / "s.zarr", in_place_of_anndata(**changes), **arguments)
    assert not (tmp_path / "s.zarr").exists()


def test_other_objects_and_files_are_refused(tmp_path):
    with pytest.raises(dk.SourceError, match="must be AnnData or have its attributes; got DataFrame"):
        dk.import_anndata(tmp_path / "s.zarr", observations(), "donor")
    pytest.importorskip("anndata")
    with pytest.raises(dk.SourceError, match="there is no file or folder"):
        dk.import_anndata(tmp_path / "s.zarr", tmp_path / "lost.h5ad", "donor")
    (tmp_path / "text.h5ad").write_text("no HDF5")
    with pytest.raises(dk.SourceError, match="cannot be opened as HDF5"):
        dk.import_anndata(tmp_path / "s.zarr", tmp_path / "text.h5ad", "donor")
    dk.write_sets(tmp_path / "sets.zarr", [np.zeros((2, 2))])
    with pytest.raises(dk.SourceError, match="must be written by AnnData; it has no 'obs'"):
        dk.import_anndata(tmp_path / "s.zarr", tmp_path / "sets.zarr", "donor")


def test_blocks_hold_the_stated_bytes():
    class Wide:
        shape, dtype, chunks = (10**6, 30), np.dtype(np.float32), None

    reader = AnnotatedReader("donor")
    adata = in_place_of_anndata(var_names=[f"g{j}" for j in range(30)], X=Wide())
    matrix = annotated_files._Matrix.of(adata, reader, 10**6)
    assert matrix.block_rows * 30 * (8 + 4) <= annotated_files.BLOCK_BYTES < (matrix.block_rows + 1) * 30 * 12
    Wide.chunks = (10_000, 30)
    assert matrix.block_rows % 10_000 == 0


def test_the_command_line_imports_h5ad_files(paths, tmp_path, capsys):
    command = ["import", str(paths["h5ad"]), str(tmp_path / "s.zarr"), "--target", "age,site"]
    assert main([*command, "--set-id", "donor", "--layer", "dense", "--points", "g6,g2"]) == 0
    sets = dk.open_sets(tmp_path / "s.zarr").load()
    require_equal_groups(sets, *frame_by_anndata(paths["h5ad"], layer="dense", columns=["g6", "g2"]))
    assert main([*command, "--overwrite"]) == 2
    assert "an h5ad file requires --set-id COLUMN" in capsys.readouterr().err
    assert main([*command, "--overwrite", "--set-id", "donor", "--sort"]) == 2
    assert "--sort applies to tables only" in capsys.readouterr().err
    with pytest.raises(ValueError, match="for h5ad files use import_anndata"):
        dk.import_sets(tmp_path / "t.zarr", paths["h5ad"])
