"""What points add to predictions: the sum law, weights as an oracle of derivatives, and planted points found."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pytest
from base.test_embedding_laws import EMBEDDINGS
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import Ridge
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import dkdist as dk
from dkdist._base.influence import point_influences

N = 25  # points of a set whose weights are moved

UNWEIGHTED = ("dtw-3", "hausdorff-2", "own-distance-2")
FAST = (
    "total-variation-2",
    "histogram-marginal-4",
)  # frequencies of log p so high that only tiny steps are small
SMOOTH = [
    *(
        "jensen-shannon-1",
        "hellinger-2",
        "total-variation-2",
        "marginal-5",
        "joint-4",
        "scales-2",
        "projected-3",
    ),
    *("mean-fourier-2", "mean-sobol-8", "l2-3", "l2-marginal-5", "histogram-2", "histogram-marginal-4"),
    *("mean-3", "covariance-5", "invariant-2", "invariant-mean-3"),
]


def collection(d, seed=0, n=30, weighted=False):
    rng = np.random.default_rng(seed)
    arrays = [rng.uniform(0, 1, (N + i % 3, d)).astype("f4") ** (1 + i % 2) for i in range(n)]
    weights = [rng.uniform(0.5, 2, len(x)) for x in arrays] if weighted else None
    return dk.SampleSets.from_arrays(arrays, weights)


def values(embedding, features, coef, intercept, sets):
    rows = embedding.transform(sets)
    for step in features:
        rows = step.transform(rows)
    return rows.astype(np.float64) @ np.asarray(coef).T + intercept


def model_of(embedding, features, coef, intercept=0.0):
    """A fitted pipeline with given coefficients."""
    ridge = dk.IncrementalRidge()
    ridge.coef_, ridge.intercept_ = np.asarray(coef), intercept
    return make_pipeline(embedding, *features, ridge)


def explained(embedding, features, coef, intercept, sets, reference=None, at=None):
    return dk.explain(model_of(embedding, features, coef, intercept), sets, reference=reference, at=at)


def fitted(name, scaled=False, n_components=64):
    d, embedding = EMBEDDINGS[name]
    sets = collection(d, weighted=name not in UNWEIGHTED)
    rows = embedding.fit_transform(sets)
    features = [StandardScaler().fit(rows)] if scaled else []
    for step in features:
        rows = step.transform(rows).astype("f4")
    features.append(dk.RandomFourierFeatures(n_components, random_state=0).fit(rows))
    return sets, embedding, features


def derivatives(embedding, features, coef, sets, i):
    """Central differences of f((1 - t) P + t delta), t the tenth part of each point's share, extrapolated to zero."""
    return (
        4 * differences(embedding, features, coef, sets, i, 0.05)
        - differences(embedding, features, coef, sets, i, 0.1)
    ) / 3


def differences(embedding, features, coef, sets, i, part):
    x, w = sets[i], sets.weights_of(i).astype(np.float64)
    u, n = w / w.sum(), len(x)
    t = part * u
    moved = [(1 - s * t[:, None]) * u + s * t[:, None] * np.eye(n) for s in (1, -1)]
    above, below = (
        values(embedding, features, coef, 0, dk.SampleSets.from_arrays([x] * n, list(v))) for v in moved
    )
    return ((above - below).T / (2 * t)).T


@pytest.mark.parametrize("name", SMOOTH)
@pytest.mark.parametrize("with_features", [False, True])
def test_influences_are_derivatives_by_weights(name, with_features):
    sets, embedding, features = fitted(name)
    features = features if with_features else []
    m = features[-1].spec_.n_features if features else embedding.spec_.n_features
    coef = np.random.default_rng(1).normal(size=(2, m))
    contributions = explained(embedding, features, coef, 0.0, sets[4:5])[0]
    u = sets.weights_of(4).astype(np.float64)
    u /= u.sum()
    influence = contributions / u[:, None] - values(embedding, features, coef, 0.0, sets[4:5])
    value = embedding, features, coef, sets, 4
    # rows are float32, so that differences by t = 1 / 500 have an error of some 1e-7 / t
    expected, tolerance = (differences(*value, 0.005), 2e-2) if name in FAST else (derivatives(*value), 1e-3)
    np.testing.assert_allclose(influence, expected, atol=tolerance * np.abs(expected).max())


@pytest.mark.parametrize("name", sorted(EMBEDDINGS))
def test_contributions_sum_to_the_prediction(name):
    sets, embedding, features = fitted(name, scaled=True, n_components=16)
    rng = np.random.default_rng(2)
    coef, intercept, reference = rng.normal(size=(3, 16)), rng.normal(size=3), rng.normal(size=3)
    result = explained(embedding, features, coef, intercept, sets[:3], reference)
    assert [len(c) for c in result] == sets.sizes[:3].tolist()
    expected = values(embedding, features, coef, intercept, sets[:3])
    np.testing.assert_allclose([c.sum(axis=0) for c in result], expected - reference, atol=1e-4)


def test_contributions_to_linear_functions_of_means_are_those_of_the_points():
    sets = collection(2, weighted=True)
    for embedding in (dk.MomentEmbedding(), dk.MeanEmbedding(100, sigma=0.2, method="sobol", random_state=0)):
        rows = embedding.fit_transform(sets)
        coef = np.random.default_rng(0).normal(size=rows.shape[1])
        w = sets.weights_of(3).astype(np.float64)
        alone = embedding.transform(list(sets[3][:, None, :])).astype(np.float64)
        result = explained(embedding, [], coef, 7.0, sets[3:4])[0]
        np.testing.assert_allclose(result, w / w.sum() * (alone @ coef), atol=1e-6)


def test_the_jackknife_is_exact_for_means():
    """An embedding of one's own without a derivative, whose rows are means, against one that has it."""

    class Plain(dk.MomentEmbedding):
        @property
        def spec_(self):
            return self._spec

        @spec_.setter
        def spec_(self, spec):
            self._spec = Hidden(spec)

    class Hidden:
        def __init__(self, spec):
            self.spec, self.n_features, self.domain = spec, spec.n_features, None

        def materialize(self):
            return Rows(self.spec)

        def require(self, sets, first):
            pass

    class Rows:
        def __init__(self, spec):
            self.spec, self.embed = spec, spec.materialize().embed

    sets = collection(3, weighted=True)
    coef = np.array([1.0, -2, 0.5])
    known, plain = (kind().fit(sets) for kind in (dk.MomentEmbedding, Plain))
    expected = explained(known, [], coef, 1.0, sets[:4])
    for a, b in zip(explained(plain, [], coef, 1.0, sets[:4]), expected, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-4)
    lone = explained(plain, [], coef, 1.0, [[[0.1, 0.2, 0.3]]])[0]
    assert lone == pytest.approx(explained(known, [], coef, 1.0, [[[0.1, 0.2, 0.3]]])[0], abs=1e-5)


@dataclass
class Count:
    """A row of the number of points 1, capped, in a sequence; ``spec`` is the table itself."""

    most: float
    ordered: bool = True

    @property
    def spec(self):
        return self

    def embed(self, sets):
        sums = np.add.reduceat(sets.relative[:, 0].astype(float), sets.offsets[:-1])
        return np.minimum(sums, self.most)[:, None]


def test_pieces_of_sequences_show_what_single_points_do_not() -> None:
    points = np.zeros(40)
    points[10:18] = 1
    one = dk.SampleSets(points[:, None], [0, 40])
    gradient = np.ones((1, 1))
    capped = point_influences(Count(5.0), one, gradient)[:, 0]
    assert capped[points == 1].min() > capped[points == 0].max()
    assert not point_influences(
        Count(5.0, ordered=False), one, gradient
    ).any()  # one point less is still above 5
    # of means over points, which are linear in the distribution, pieces say what points do: the least squares are exact
    rng = np.random.default_rng(0)
    weighted = dk.SampleSets(rng.normal(size=(12, 1)), [0, 12], rng.uniform(0.1, 2, 12))
    table = dk.MomentEmbedding().fit(weighted).spec_.materialize()
    table = SimpleNamespace(spec=SimpleNamespace(ordered=True), embed=table.embed)
    alone = SimpleNamespace(spec=SimpleNamespace(ordered=False), embed=table.embed)
    gradient = rng.normal(size=(table.embed(weighted).shape[1], 1))
    np.testing.assert_allclose(
        point_influences(table, weighted, gradient), point_influences(alone, weighted, gradient), atol=1e-4
    )


def planted(rng, n, d):
    """Sets of noise; in those of class one a tenth of the points lie in a small ball."""
    y, sets, truth = np.arange(n) % 2, [], []
    for c in y:
        x = rng.uniform(-2, 2, (100, d))
        inside = rng.permutation(100) < 10 * c
        x[inside] = rng.normal(1, 0.15, (inside.sum(), d))
        sets.append(x)
        truth.append(inside)
    return sets, y, truth


@pytest.mark.parametrize(
    "embedding",
    [
        dk.DivergenceEmbedding(bandwidth=0.1),  # as for learning: the density's own best is finer
        dk.DivergenceEmbedding("jensen-shannon", bandwidth=0.1),
        dk.L2Embedding(bandwidth=0.1),
        dk.MeanEmbedding(200, sigma=0.3, random_state=0),
        dk.HistogramEmbedding(),
    ],
    ids=lambda e: type(e).__name__,
)
@pytest.mark.parametrize("with_features", [False, True])
def test_planted_points_are_found(embedding, with_features):
    rng = np.random.default_rng(0)
    sets, y, truth = planted(rng, 200, 2)
    A = embedding.fit_transform(sets[:150])
    features = [dk.RandomFourierFeatures(500, random_state=0).fit(A)] if with_features else []
    Z = features[0].transform(A) if features else A
    model = dk.IncrementalRidge(random_state=0).fit(Z, y[:150])
    result = dk.explain(make_pipeline(embedding, *features, model), sets[150:], reference=y.mean())
    areas = [roc_auc_score(t, c) for t, c in zip(truth[150:], result, strict=True) if t.any()]
    assert np.mean(areas) >= 0.95


def test_planted_points_are_found_by_quantiles():
    """Whole sets that are not told by where a few points are dense, but by some far away."""
    rng = np.random.default_rng(0)
    y = np.arange(150) % 2
    sets = [np.concatenate([rng.normal(size=(90, 3)), rng.normal(1.5 * c, 1, (15, 3))]) for c in y]
    embedding = dk.SlicedWassersteinEmbedding(random_state=0)
    A = embedding.fit_transform(sets[:100])
    model = dk.IncrementalRidge(random_state=0).fit(A, y[:100])
    result = explained(embedding, [], model.coef_, model.intercept_, sets[100:])
    alone = [x.sum(axis=1) for x in sets[100:]]  # what tells the classes apart
    assert np.mean([np.corrcoef(a, b)[0, 1] for a, b in zip(alone, result, strict=True)]) > 0.7


def test_stores_give_the_same_bits(tmp_path):
    sets, embedding, features = fitted("hellinger-2")
    coef = np.random.default_rng(0).normal(size=64)
    dk.write_sets(tmp_path / "s.zarr", sets)
    own = explained(embedding, features, coef, 1.0, sets)
    lazily = explained(embedding, features, coef, 1.0, dk.open_sets(tmp_path / "s.zarr", block_sets=7))
    assert all(a.ndim == 1 and np.array_equal(a, b) for a, b in zip(own, lazily, strict=True))
    alone = explained(embedding, features, coef, 1.0, sets[11:12])
    assert np.array_equal(alone[0], own[11])


def test_points_far_from_zero():
    near, far = collection(2), [x.astype(np.float64) + 2.0**30 for x in collection(2)]
    result = []
    for sets in (near, far):
        embedding = dk.MomentEmbedding(degree=2).fit(sets)
        result.append(explained(embedding, [], np.ones(5), 0.0, sets[:2])[1])
    np.testing.assert_allclose(result[0], result[1], atol=2e-3)


def test_witnesses_at_a_set_s_own_points_are_their_influence():
    sets, embedding, features = fitted("jensen-shannon-1")
    coef = np.random.default_rng(0).normal(size=64)
    w = sets.weights_of(2).astype(np.float64)
    there = explained(embedding, features, coef, 0.0, sets[2:3], at=sets[2])[0]
    contributions = explained(embedding, features, coef, 0.0, sets[2:3])[0]
    value = values(embedding, features, coef, 0.0, sets[2:3])[0]
    np.testing.assert_allclose(w / w.sum() * (there + value), contributions, atol=1e-6)
    both = explained(
        embedding, features, np.stack([coef, -coef]), np.zeros(2), sets[:5], at=[[0.5], [0.2], [0.3]]
    )
    assert both.shape == (5, 3, 2)


def test_a_scaler_before_the_embedding_changes_units_alone():
    sets = collection(2, weighted=True)
    scaler = dk.SetScaler(clip=None).fit(sets)
    embedding, coef = dk.MomentEmbedding(degree=2).fit(scaler.transform(sets)), [1.0, -2, 0.5, 1, 3]
    ridge = model_of(embedding, [], coef, 0.25)[-1]
    model = make_pipeline(scaler, embedding, ridge)
    expected = explained(embedding, [], coef, 0.25, scaler.transform(sets)[:4])
    for a, b in zip(dk.explain(model, sets[:4]), expected, strict=True):
        np.testing.assert_array_equal(a, b)
    places = sets[1]
    there = dk.explain(model, sets[:4], at=places)
    np.testing.assert_array_equal(
        there,
        explained(embedding, [], coef, 0.25, scaler.transform(sets)[:4], at=scaler.transform([places])[0]),
    )


def test_how_its_own_scale_moves_is_part_of_what_a_point_adds():
    """After centring each set by its mean, that mean is zero whatever its points weigh: nothing adds anything."""
    sets = collection(2)
    scaler = dk.SetScaler("standard", per_set=True, clip=None).fit(sets)
    embedding = dk.MomentEmbedding(degree=1).fit(scaler.transform(sets))
    model = make_pipeline(scaler, embedding, model_of(embedding, [], [3.0, 4.0])[-1])
    for c in dk.explain(model, sets[:3]):
        np.testing.assert_allclose(c, 0, atol=1e-5)
    with pytest.raises(ValueError, match="per_set=True"):
        dk.explain(model, sets, at=[[0.0, 0]])


@pytest.mark.parametrize("learner", [dk.IncrementalRidgeClassifier, dk.IncrementalSGDClassifier])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_contributions_sum_to_decision_values(learner, n_classes):
    sets, y = collection(2), np.array(["one", "two", "three"])[np.arange(30) % n_classes]
    model = make_pipeline(
        dk.DivergenceEmbedding(n_basis=6, bandwidth=0.1),
        dk.RandomFourierFeatures(64, random_state=0),
        learner(random_state=0),
    ).fit(sets, y)
    result = dk.explain(model, sets[:6], reference=0.0)
    assert result[0].shape == ((N,) if n_classes == 2 else (N, 3))
    np.testing.assert_allclose([c.sum(axis=0) for c in result], model.decision_function(sets[:6]), atol=1e-4)


def test_strings_are_explained_by_symbols():
    strings = ["ACGT" * 5 + "GATTACA" * (k % 2) for k in range(40)]
    embedding = dk.DistanceEmbedding(
        "levenshtein", n_components=16, gamma=0, standardize=True, random_state=0
    )
    model = make_pipeline(embedding, dk.IncrementalRidge(random_state=0)).fit(strings, np.arange(40) % 2)
    result = dk.explain(model, strings[:2])
    assert [len(c) for c in result] == [20, 27]
    with pytest.raises(ValueError, match="by must be 'point' for strings"):
        dk.explain(model, strings, by="dimension", background=strings)


def test_a_search_is_explained_by_its_best_pipeline():
    sets, y = collection(2), np.arange(30) % 2
    pipeline = make_pipeline(dk.MomentEmbedding(), dk.IncrementalRidge())
    search = dk.OnePassSearch(pipeline, {"incrementalridge__alphas": [0.1, 1.0]}, random_state=0).fit(sets, y)
    expected = dk.explain(search.best_estimator_, sets[:2])
    np.testing.assert_array_equal(np.concatenate(dk.explain(search, sets[:2])), np.concatenate(expected))


MOMENTS, RIDGE, OTHER = dk.MomentEmbedding(), dk.IncrementalRidge(random_state=0), Ridge()


@pytest.fixture(scope="module")
def fitted_steps():
    """The three, in place: what pipelines name when tests are collected is fitted when they run."""
    rows = MOMENTS.fit(collection(2)).transform(collection(2))
    RIDGE.fit(rows, np.arange(30.0))
    OTHER.fit(rows, np.arange(30))


@pytest.mark.usefixtures("fitted_steps")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"reference": np.inf}, "reference must be a finite number"),
        ({"reference": [1.0, 2]}, "reference must be a finite number"),
        ({"sets": [np.zeros((2, 2)), np.full((2, 2), np.nan)]}, "set 1"),
        ({"sets": [np.zeros((2, 3))]}, "must have 2 dimension.*as in fit; got 3"),
        ({"model": MOMENTS}, "fitted pipeline of SetScaler.*got MomentEmbedding"),
        ({"model": make_pipeline(dk.RandomFourierFeatures(4), RIDGE)}, "one embedding of sets; got 0"),
        ({"model": make_pipeline(MOMENTS, PCA(), RIDGE)}, "got step 'pca'"),
        ({"model": make_pipeline(dk.CoresetThinning(3), MOMENTS, RIDGE)}, "got step 'coresetthinning'"),
        ({"model": make_pipeline(MOMENTS, OTHER)}, "got step 'ridge'"),
        ({"by": "set"}, "by must be one of 'point', 'dimension'"),
        ({"at": [0.0, 1]}, "at must have shape"),
        (
            {"at": [[0.0, 1, 2]]},
            "must have 2 dimension.*as in fit; got 3.*its places are the points of set 0",
        ),
        ({"at": [[0.0, np.nan]]}, "at: its places"),
        ({"at": [[0.0, 1]], "by": "dimension"}, "at requires by='point'"),
        ({"at": [[0.0, 1]], "reference": 1.0}, "reference requires contributions of points"),
        ({"background": collection(2), "at": [[0.0, 1]]}, "background has no effect"),
    ],
)
def test_bad_input_is_refused_by_name(arguments, message):
    options = {"model": make_pipeline(MOMENTS, RIDGE), "sets": collection(2)[:2], **arguments}
    with pytest.raises(ValueError, match=message):
        dk.explain(options.pop("model"), options.pop("sets"), **options)


@pytest.mark.usefixtures("fitted_steps")
@pytest.mark.parametrize(
    "model",
    [
        make_pipeline(dk.MomentEmbedding(), RIDGE),
        make_pipeline(MOMENTS, dk.RandomFourierFeatures(4), RIDGE),
        make_pipeline(MOMENTS, dk.IncrementalRidge()),
        dk.SetClassifier(),
    ],
    ids=["embedding", "features", "learner", "classifier"],
)
def test_models_that_are_not_fitted_are_refused_by_name(model):
    with pytest.raises(NotFittedError, match="not fitted"):
        dk.explain(model, collection(2))


def test_points_outside_a_given_domain_and_unknown_derivatives_are_refused():
    embedding = dk.DivergenceEmbedding(domain="unit").fit(collection(2))
    coef = np.zeros(embedding.spec_.n_features)
    with pytest.raises(dk.SampleSetError, match="point 0 of set 1"):
        explained(embedding, [], coef, 0.0, [np.zeros((3, 2)), np.full((2, 2), 1.5)])
    distances = dk.DistanceEmbedding("energy", n_components=4, random_state=0).fit(collection(2))
    with pytest.raises(ValueError, match="no known derivative"):
        explained(distances, [], np.zeros(4), 0.0, collection(2)[:1], at=[[0.0, 0]])
