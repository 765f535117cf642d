"""Names of dimensions: learned, checked, saved in model files, and used in feature names."""

import warnings

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline

import dkdist as dk
from dkdist.sets import SampleSetError

RNG = np.random.default_rng(0)
ARRAYS = [RNG.normal(i % 2, 1, (30, 2)) for i in range(12)]
SETS = dk.SampleSets.from_arrays(ARRAYS, names=["cd3", "cd4"], ids=np.arange(12))
SWAPPED = SETS.labelled(names=["cd4", "cd3"])
OTHERS = SETS.labelled(names=["cd3", "cd8"])
Y = np.arange(12) % 2
ESTIMATORS = {
    "divergence": dk.DivergenceEmbedding(),
    "l2": dk.L2Embedding(),
    "histogram": dk.HistogramEmbedding(4),
    "codebook": dk.CodebookEmbedding(4, random_state=0),
    "mean": dk.MeanEmbedding(20, sigma=1.0, random_state=0),
    "moments": dk.MomentEmbedding(),
    "gaussian": dk.GaussianEmbedding(),
    "summary": dk.SummaryEmbedding(),
    "sliced": dk.SlicedWassersteinEmbedding(random_state=0),
    "distance": dk.DistanceEmbedding("energy", n_components=4, random_state=0),
    "invariant": dk.InvariantFeatures(dk.HistogramEmbedding(4)),
    "nystroem": dk.NystroemSets("hellinger", n_components=4, random_state=0),
    "scaler": dk.SetScaler(),
    "thinning": dk.CoresetThinning(5, sigma=1.0),
    "pipeline": make_pipeline(dk.SetScaler(), dk.MomentEmbedding()),
    "classifier": dk.SetClassifier(["means"], random_state=0),
}


def apply(model, sets):
    return (model.transform if hasattr(model, "transform") else model.predict)(sets)


@pytest.mark.filterwarnings("ignore:X should have at least 20 sets")
@pytest.mark.parametrize("name", ESTIMATORS)
def test_different_names_or_order_raise(name):
    model = ESTIMATORS[name].fit(SETS, Y)
    assert model.feature_names_in_.tolist() == ["cd3", "cd4"]
    apply(model, SETS[:3])
    with pytest.raises(
        SampleSetError, match=r"dimensions cd4, cd3, but .* cd3, cd4: feature names must be in"
    ):
        apply(model, SWAPPED)
    with pytest.raises(
        SampleSetError, match=r"dimensions cd3, cd8, but .* cd3, cd4: feature names must match"
    ):
        apply(model, OTHERS)


@pytest.mark.parametrize("name", ["moments", "scaler", "distance"])
def test_missing_names_warn(name):
    model = ESTIMATORS[name].fit(SETS)
    with pytest.warns(
        UserWarning, match="X does not have valid feature names, but .* was fitted with feature names"
    ):
        apply(model, ARRAYS[:3])
    model.fit(ARRAYS)
    assert not hasattr(model, "feature_names_in_")
    with pytest.warns(UserWarning, match="X has feature names, but .* was fitted without feature names"):
        apply(model, SETS[:3])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        apply(model, ARRAYS[:3])


def test_feature_names_contain_dimensions():
    assert dk.MomentEmbedding().fit(SETS).get_feature_names_out().tolist() == ["mean_cd3", "mean_cd4"]
    second_degree = dk.MomentEmbedding(2).fit(SETS)
    expected = ["mean_cd3", "mean_cd4", "cov_cd3_cd3", "cov_cd3_cd4", "cov_cd4_cd4"]
    assert second_degree.get_feature_names_out().tolist() == expected
    assert dk.MomentEmbedding().fit(ARRAYS).get_feature_names_out().tolist() == [
        "momentembedding0",
        "momentembedding1",
    ]


@pytest.mark.parametrize(
    "model",
    [
        dk.HistogramEmbedding(3, structure="marginal"),
        dk.DivergenceEmbedding(structure="marginal"),
        dk.MomentEmbedding(2),
    ],
)
def test_named_features_depend_on_their_dimension_only(model):
    names = model.fit(SETS).get_feature_names_out()
    changed = SETS.labelled()
    for j, name in enumerate(SETS.names):
        moved = dk.SampleSets.from_arrays(
            [np.where(np.arange(2) == j, x * 0.5, x) for x in ARRAYS], names=SETS.names
        )
        differs = (model.transform(moved) != model.transform(changed)).any(axis=0)
        assert not any(differs[[name not in column for column in names]])
        assert any(differs[[name in column for column in names]])


def test_joint_features_are_numbered():
    names = dk.HistogramEmbedding(3).fit(SETS).get_feature_names_out()
    assert names[:2].tolist() == ["histogramembedding0", "histogramembedding1"]


def test_model_files_store_names(tmp_path):
    model = make_pipeline(dk.SetScaler(), dk.MomentEmbedding(), dk.IncrementalRidgeClassifier()).fit(SETS, Y)
    dk.save_model(model, tmp_path / "m.npz")
    loaded = dk.load_model(tmp_path / "m.npz")
    assert loaded[1].get_feature_names_out().tolist() == ["mean_cd3", "mean_cd4"]
    with pytest.raises(SampleSetError, match="in the same order"):
        loaded.predict(SWAPPED)


def test_distance_matrix_of_different_names_raises():
    with pytest.raises(
        SampleSetError,
        match=r"columns of other must be in the order of those of sets: expected .cd3., .cd4.; got",
    ):
        dk.distance_matrix(SETS, SWAPPED, distance="energy")
    dk.distance_matrix(SETS[:2], ARRAYS[:2], distance="energy")


def test_pandas_output_has_ids_and_names(tmp_path):
    model = dk.MomentEmbedding().set_output(transform="pandas")
    rows = model.fit_transform(SETS[3:])
    assert rows.index.tolist() == list(range(3, 12))
    assert rows.columns.tolist() == ["mean_cd3", "mean_cd4"]
    np.testing.assert_array_equal(rows.to_numpy(), dk.MomentEmbedding().fit_transform(SETS[3:]))
    features = dk.RandomFourierFeatures(4, sigma=1.0).set_output(transform="pandas").fit_transform(rows)
    assert features.columns[0] == "randomfourierfeatures0"
    with pytest.raises(ValueError, match="a store, whose rows are lazy"):
        model.transform(dk.write_sets(tmp_path / "s.zarr", SETS))


@pytest.mark.filterwarnings("ignore:X should have at least 20 sets")
def test_explain_of_named_sets_does_not_warn():
    pipeline = make_pipeline(dk.SetScaler(), dk.MomentEmbedding(), dk.IncrementalRidge()).fit(SETS, Y)
    background = SETS[6:]
    assert dk.explain(pipeline, SETS[:2], by="dimension", background=background).shape == (2, 2)
    assert dk.explain(pipeline, SETS[:2], at=[[0.0, 1.0]]).shape == (2, 1)
    model = ESTIMATORS["classifier"].fit(SETS, Y)
    assert model.explain(SETS[:2], by="dimension").shape == (2, 2)
    assert model.explain(SETS[:2], at=[[0.0, 1.0]]).shape == (2, 1)
    assert len(model.best_estimator_.predict(SETS)) == 12
    with pytest.raises(SampleSetError, match="in the same order"):
        dk.explain(pipeline, SWAPPED[:2])
