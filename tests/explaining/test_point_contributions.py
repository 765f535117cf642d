"""Contributions of points: sums, derivatives by weights, and planted points."""

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

N = 25  # points of a set whose weights are changed

UNWEIGHTED = ("dtw-3", "hausdorff-2", "nystroem-dtw-3", "own-distance-2", "windows-1", "windows-3")
# high frequencies of log p need tiny steps
FAST = (
    "total-variation-2",
    "histogram-marginal-4",
)
SMOOTH = [
    *(
        "jensen-shannon-1",
        "hellinger-2",
        "total-variation-2",
        "marginal-5",
        "joint-4",
        "joint-total-degree-4",
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


def make_model(embedding, features, coef, intercept=0.0):
    """Return a fitted pipeline with these coefficients."""
    ridge = dk.IncrementalRidge()
    ridge.coef_, ridge.intercept_ = np.asarray(coef), intercept
    return make_pipeline(embedding, *features, ridge)


def contributions_of(embedding, features, coef, intercept, sets, reference=None, at=None):
    return dk.explain(make_model(embedding, features, coef, intercept), sets, reference=reference, at=at)


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
    """Return central differences of f((1 - t) P + t delta), extrapolated to t = 0."""
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
def test_influences_match_derivatives_by_weights(name, with_features):
    sets, embedding, features = fitted(name)
    features = features if with_features else []
    m = features[-1].spec_.n_features if features else embedding.spec_.n_features
    coef = np.random.default_rng(1).normal(size=(2, m))
    contributions = contributions_of(embedding, features, coef, 0.0, sets[4:5])[0]
    u = sets.weights_of(4).astype(np.float64)
    u /= u.sum()
    influence = contributions / u[:, None] - values(embedding, features, coef, 0.0, sets[4:5])
    value = embedding, features, coef, sets, 4
    # rows are float32, so differences with t = 1 / 500 have errors of about 1e-7 / t
    expected, tolerance = (differences(*value, 0.005), 2e-2) if name in FAST else (derivatives(*value), 1e-3)
    np.testing.assert_allclose(influence, expected, atol=tolerance * np.abs(expected).max())


@pytest.mark.parametrize("name", sorted(EMBEDDINGS))
def test_contributions_sum_to_the_prediction(name):
    sets, embedding, features = fitted(name, scaled=True, n_components=16)
    rng = np.random.default_rng(2)
    coef, intercept, reference = rng.normal(size=(3, 16)), rng.normal(size=3), rng.normal(size=3)
    result = contributions_of(embedding, features, coef, intercept, sets[:3], reference)
    assert [len(c) for c in result] == sets.sizes[:3].tolist()
    expected = values(embedding, features, coef, intercept, sets[:3])
    np.testing.assert_allclose([c.sum(axis=0) for c in result], expected - reference, atol=1e-4)


def test_contributions_to_linear_functions_of_means():
    sets = collection(2, weighted=True)
    for embedding in (dk.MomentEmbedding(), dk.MeanEmbedding(100, sigma=0.2, method="sobol", random_state=0)):
        rows = embedding.fit_transform(sets)
        coef = np.random.default_rng(0).normal(size=rows.shape[1])
        w = sets.weights_of(3).astype(np.float64)
        single_point_rows = embedding.transform(list(sets[3][:, None, :])).astype(np.float64)
        result = contributions_of(embedding, [], coef, 7.0, sets[3:4])[0]
        np.testing.assert_allclose(result, w / w.sum() * (single_point_rows @ coef), atol=1e-6)


def test_jackknife_is_exact_for_means():
    """Compare a custom embedding of means without derivatives with `MomentEmbedding`."""

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
    expected = contributions_of(known, [], coef, 1.0, sets[:4])
    for a, b in zip(contributions_of(plain, [], coef, 1.0, sets[:4]), expected, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-4)
    single_point = contributions_of(plain, [], coef, 1.0, [[[0.1, 0.2, 0.3]]])[0]
    assert single_point == pytest.approx(
        contributions_of(known, [], coef, 1.0, [[[0.1, 0.2, 0.3]]])[0], abs=1e-5
    )


@dataclass
class Count:
    """Rows with the number of ones in a sequence, up to a maximum."""

    maximum: float
    ordered: bool = True

    @property
    def spec(self):
        return self

    def embed(self, sets):
        sums = np.add.reduceat(sets.relative[:, 0].astype(float), sets.offsets[:-1])
        return np.minimum(sums, self.maximum)[:, None]


def test_influences_of_sequences_use_pieces() -> None:
    points = np.zeros(40)
    points[10:18] = 1
    one = dk.SampleSets(points[:, None], [0, 40])
    gradient = np.ones((1, 1))
    capped = point_influences(Count(5.0), one, gradient)[:, 0]
    assert capped[points == 1].min() > capped[points == 0].max()
    assert not point_influences(
        Count(5.0, ordered=False), one, gradient
    ).any()  # without one point the count is still above 5
    # means are linear in the distribution, so pieces and points give the same influences
    rng = np.random.default_rng(0)
    weighted = dk.SampleSets(rng.normal(size=(12, 1)), [0, 12], rng.uniform(0.1, 2, 12))
    ordered = dk.MomentEmbedding().fit(weighted).spec_.materialize()
    ordered = SimpleNamespace(spec=SimpleNamespace(ordered=True), embed=ordered.embed)
    unordered = SimpleNamespace(spec=SimpleNamespace(ordered=False), embed=ordered.embed)
    gradient = rng.normal(size=(ordered.embed(weighted).shape[1], 1))
    np.testing.assert_allclose(
        point_influences(ordered, weighted, gradient),
        point_influences(unordered, weighted, gradient),
        atol=1e-4,
    )


def planted(rng, n, d):
    """Return sets of noise; in class 1, 10 % of the points are in a small ball."""
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
        dk.DivergenceEmbedding(bandwidth=0.1),  # a good bandwidth for learning; the automatic one is smaller
        dk.DivergenceEmbedding("jensen-shannon", bandwidth=0.1),
        dk.L2Embedding(bandwidth=0.1),
        dk.MeanEmbedding(200, sigma=0.3, random_state=0),
        dk.HistogramEmbedding(),
        dk.CodebookEmbedding(random_state=0),
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
    """The classes differ by some distant points."""
    rng = np.random.default_rng(0)
    y = np.arange(150) % 2
    sets = [np.concatenate([rng.normal(size=(90, 3)), rng.normal(1.5 * c, 1, (15, 3))]) for c in y]
    embedding = dk.SlicedWassersteinEmbedding(random_state=0)
    A = embedding.fit_transform(sets[:100])
    model = dk.IncrementalRidge(random_state=0).fit(A, y[:100])
    result = contributions_of(embedding, [], model.coef_, model.intercept_, sets[100:])
    sums = [x.sum(axis=1) for x in sets[100:]]  # determines the class
    assert np.mean([np.corrcoef(a, b)[0, 1] for a, b in zip(sums, result, strict=True)]) > 0.7


def test_contributions_do_not_depend_on_stores_and_other_sets(tmp_path):
    sets, embedding, features = fitted("hellinger-2")
    coef = np.random.default_rng(0).normal(size=64)
    dk.write_sets(tmp_path / "s.zarr", sets)
    expected = contributions_of(embedding, features, coef, 1.0, sets)
    from_store = contributions_of(
        embedding, features, coef, 1.0, dk.open_sets(tmp_path / "s.zarr", block_sets=7)
    )
    assert all(a.ndim == 1 and np.array_equal(a, b) for a, b in zip(expected, from_store, strict=True))
    single = contributions_of(embedding, features, coef, 1.0, sets[11:12])
    assert np.array_equal(single[0], expected[11])


def test_contributions_of_points_far_from_zero():
    near, far = collection(2), [x.astype(np.float64) + 2.0**30 for x in collection(2)]
    result = []
    for sets in (near, far):
        embedding = dk.MomentEmbedding(degree=2).fit(sets)
        result.append(contributions_of(embedding, [], np.ones(5), 0.0, sets[:2])[1])
    np.testing.assert_allclose(result[0], result[1], atol=2e-3)


def test_influence_at_points_of_a_set_matches_contributions():
    sets, embedding, features = fitted("jensen-shannon-1")
    coef = np.random.default_rng(0).normal(size=64)
    w = sets.weights_of(2).astype(np.float64)
    influence = contributions_of(embedding, features, coef, 0.0, sets[2:3], at=sets[2])[0]
    contributions = contributions_of(embedding, features, coef, 0.0, sets[2:3])[0]
    value = values(embedding, features, coef, 0.0, sets[2:3])[0]
    np.testing.assert_allclose(w / w.sum() * (influence + value), contributions, atol=1e-6)
    two_outputs = contributions_of(
        embedding, features, np.stack([coef, -coef]), np.zeros(2), sets[:5], at=[[0.5], [0.2], [0.3]]
    )
    assert two_outputs.shape == (5, 3, 2)


def test_scaler_before_the_embedding_changes_units_only():
    sets = collection(2, weighted=True)
    scaler = dk.SetScaler(clip=None).fit(sets)
    embedding, coef = dk.MomentEmbedding(degree=2).fit(scaler.transform(sets)), [1.0, -2, 0.5, 1, 3]
    ridge = make_model(embedding, [], coef, 0.25)[-1]
    model = make_pipeline(scaler, embedding, ridge)
    expected = contributions_of(embedding, [], coef, 0.25, scaler.transform(sets)[:4])
    for a, b in zip(dk.explain(model, sets[:4]), expected, strict=True):
        np.testing.assert_array_equal(a, b)
    points = sets[1]
    influence = dk.explain(model, sets[:4], at=points)
    np.testing.assert_array_equal(
        influence,
        contributions_of(
            embedding, [], coef, 0.25, scaler.transform(sets)[:4], at=scaler.transform([points])[0]
        ),
    )


def test_contributions_include_changes_of_per_set_scaling():
    """The mean of a centred set is 0 for all weights, so all contributions are 0."""
    sets = collection(2)
    scaler = dk.SetScaler("standard", per_set=True, clip=None).fit(sets)
    embedding = dk.MomentEmbedding(degree=1).fit(scaler.transform(sets))
    model = make_pipeline(scaler, embedding, make_model(embedding, [], [3.0, 4.0])[-1])
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


def test_contributions_of_symbols_of_strings():
    strings = ["ACGT" * 5 + "GATTACA" * (k % 2) for k in range(40)]
    embedding = dk.DistanceEmbedding(
        "levenshtein", n_components=16, gamma=0, standardize=True, random_state=0
    )
    model = make_pipeline(embedding, dk.IncrementalRidge(random_state=0)).fit(strings, np.arange(40) % 2)
    result = dk.explain(model, strings[:2])
    assert [len(c) for c in result] == [20, 27]
    with pytest.raises(ValueError, match="by must be 'point' for strings"):
        dk.explain(model, strings, by="dimension", background=strings)


def test_explain_a_search_uses_the_best_pipeline():
    sets, y = collection(2), np.arange(30) % 2
    pipeline = make_pipeline(dk.MomentEmbedding(), dk.IncrementalRidge())
    search = dk.OnePassSearch(pipeline, {"incrementalridge__alphas": [0.1, 1.0]}, random_state=0).fit(sets, y)
    expected = dk.explain(search.best_estimator_, sets[:2])
    np.testing.assert_array_equal(np.concatenate(dk.explain(search, sets[:2])), np.concatenate(expected))


MOMENTS, RIDGE, OTHER = dk.MomentEmbedding(), dk.IncrementalRidge(random_state=0), Ridge()


@pytest.fixture(scope="module")
def fitted_steps():
    """Fit the shared steps in place, because parametrized pipelines refer to them."""
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
        ({"background": collection(2), "at": [[0.0, 1]]}, "background= has no effect with at="),
    ],
)
def test_invalid_input_raises(arguments, message):
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
def test_unfitted_models_raise(model):
    with pytest.raises(NotFittedError, match="not fitted"):
        dk.explain(model, collection(2))


def test_points_outside_and_unknown_derivatives_raise():
    embedding = dk.DivergenceEmbedding(domain="unit").fit(collection(2))
    coef = np.zeros(embedding.spec_.n_features)
    with pytest.raises(dk.SampleSetError, match="point 0 of set 1"):
        contributions_of(embedding, [], coef, 0.0, [np.zeros((3, 2)), np.full((2, 2), 1.5)])
    distances = dk.DistanceEmbedding("energy", n_components=4, random_state=0).fit(collection(2))
    with pytest.raises(ValueError, match="no known derivative"):
        contributions_of(distances, [], np.zeros(4), 0.0, collection(2)[:1], at=[[0.0, 0]])
