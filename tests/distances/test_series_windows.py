"""`SeriesWindowEmbedding`: rows are fractions of the outputs of filters of windows above thresholds."""

import pickle

import numpy as np
import pytest
from scipy import signal, stats
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

import dkdist as dk

SIZES = 1, 2, 5, 16, 17, 40, 700  # shorter than a window, longer than a tile of outputs


def make_series(d, sizes=SIZES, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.normal(size=(n, d)).cumsum(axis=0) + 3 for n in sizes]


def brute_force_outputs(embedding, series, j):
    """Return the outputs (n, L) of the filters of dilation j, from explicit windows of the padded series."""
    spec, a = embedding.spec_, embedding.dilations_[j]
    points = np.float64(np.float32(series - embedding.origin_))
    z = (points - np.array(spec.centre)) / np.array(spec.scale)
    filters = embedding.filters_[j]
    K = filters.shape[1]
    before = (K - 1) * a // 2
    outputs = np.zeros((len(z), len(filters)))
    for t in range(len(z)):
        for k in range(K):
            position = t - before + k * a
            if 0 <= position < len(z):
                outputs[t] += filters[:, k] @ z[position]
    return outputs


@pytest.mark.parametrize("d", [1, 3])
@pytest.mark.parametrize("length", [2, 9])
def test_rows_are_fractions_of_windows(d, length):
    series = make_series(d)
    embedding = dk.SeriesWindowEmbedding(5, 4, length, [1, 3], random_state=0).fit(series)
    rows = embedding.transform(series)
    assert rows.dtype == np.float32
    thresholds = embedding.spec_.thresholds.values.reshape(2, 5, 4).astype(float)
    for x, row in zip(series, rows, strict=True):
        expected = [
            (brute_force_outputs(embedding, x, j)[:, :, None] > thresholds[j]).mean(axis=0) for j in range(2)
        ]
        np.testing.assert_array_equal(row, np.float32(np.ravel(expected)))


def test_outputs_are_convolutions():
    """The explicit windows of this file agree with SciPy's correlation."""
    (x,) = make_series(1, [50])
    embedding = dk.SeriesWindowEmbedding(3, 4, 9, [1], random_state=0).fit([x])
    z = (x[:, 0] - embedding.origin_[0] - embedding.spec_.centre[0]) / embedding.spec_.scale[0]
    outputs = brute_force_outputs(embedding, x, 0)
    for output, u in zip(outputs.T, embedding.filters_[0, :, :, 0], strict=True):
        np.testing.assert_allclose(output, signal.correlate(z, u, mode="same"), atol=1e-5)


def test_distances_of_rows_are_cramer_von_mises_statistics():
    """With all outputs as thresholds, sum (F - G)^2 = T (n + m)^2 / (n m), T of Anderson (1962) by SciPy."""
    x, y = make_series(2, [30, 45])
    embedding = dk.SeriesWindowEmbedding(6, 75, 4, [2], random_state=0)
    rows = embedding.fit_transform([x, y]).astype(float).reshape(2, 6, 75)
    outputs = [brute_force_outputs(embedding, one, 0) for one in (x, y)]
    for filter_index in range(6):
        T = stats.cramervonmises_2samp(*(one[:, filter_index] for one in outputs), method="asymptotic")
        squared = ((rows[0] - rows[1])[filter_index] ** 2).sum()
        np.testing.assert_allclose(squared, T.statistic * 75**2 / (30 * 45), rtol=1e-5)  # float32 rows


def test_quantiles_of_fit_are_the_thresholds():
    series = make_series(1, [300] * 4)
    rows = dk.SeriesWindowEmbedding(8, 5, random_state=0).fit_transform(series)
    levels = (np.arange(5) + 0.5) / 5
    means = rows.reshape(4, -1, 5).mean(axis=(0, 1))
    np.testing.assert_allclose(means, 1 - levels, atol=1 / 1200)  # one of 1,200 windows


def test_every_other_filter_ignores_the_level():
    filters = dk.SeriesWindowEmbedding(8, random_state=0).fit(make_series(3)).filters_
    assert np.abs(filters[:, 1::2].sum(axis=2)).max() < 1e-14
    assert np.abs(filters[:, ::2].sum(axis=2)).min() > 1e-4


def test_constant_pieces_are_not_above_thresholds_of_zero():
    """Filters of sum zero give rounding errors there, which must not decide about a tie."""
    rng = np.random.default_rng(0)
    steps = [np.repeat(rng.normal(size=(8, 1)), 40, axis=0) for _ in range(30)]
    embedding = dk.SeriesWindowEmbedding(16, 3, 5, [1], random_state=0).fit(steps)
    median_fractions = embedding.transform(steps).reshape(30, 16, 3)[:, 1::2, 1]
    # 9 jumps, at the ends as well, affect 4 windows each; all other outputs are zero
    assert median_fractions.max() <= 9 * 4 / 320


def test_the_order_of_points_matters():
    rng = np.random.default_rng(0)
    series = make_series(2, [60] * 5)
    embedding = dk.SeriesWindowEmbedding(random_state=0).fit(series)
    shuffled = [rng.permutation(x) for x in series]
    assert (np.abs(embedding.transform(series) - embedding.transform(shuffled)).max(axis=1) > 0.1).all()


def test_rows_do_not_depend_on_units_and_origins():
    series = make_series(2, [50] * 4)
    rows = dk.SeriesWindowEmbedding(20, random_state=0).fit_transform(series)
    changed = [2.0**20 * x + [2.0**30, -(2.0**25)] for x in series]
    moved = dk.SeriesWindowEmbedding(20, random_state=0).fit_transform(changed)
    # points are rounded relative to another origin, so one of 50 windows may change sides of a threshold
    assert np.abs(rows - moved).max() < 1.5 / 50
    assert np.mean(rows != moved) < 0.01


@pytest.mark.parametrize(
    ("sizes", "length", "expected"),
    [([200] * 3, 9, [1, 2, 4, 8, 16]), ([3] * 3, 9, [1]), ([4, 10**5, 9], 5, [1, 2]), ([10**4], 9, 10)],
)
def test_dilations_follow_the_median_length(sizes, length, expected):
    embedding = dk.SeriesWindowEmbedding(1, 1, length, random_state=0).fit(make_series(1, sizes))
    dilations = embedding.dilations_
    assert dilations == expected or len(dilations) == expected


def test_stores_and_memory_give_equal_bits(tmp_path):
    series = make_series(2, [3, 80, 41, 200] * 20)
    store = dk.write_sets(tmp_path / "series.zarr", series)
    embedding = dk.SeriesWindowEmbedding(10, random_state=0).fit(series)
    lazily = dk.SeriesWindowEmbedding(10, random_state=0).fit(store)
    assert embedding.spec_ == lazily.spec_
    rows = embedding.transform(series)
    np.testing.assert_array_equal(lazily.transform(store).compute(), rows)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(embedding)).transform(series), rows)
    np.testing.assert_array_equal(embedding.transform(series[7:9]), rows[7:9])


def test_a_model_file_predicts_equally(tmp_path):
    series, y = make_series(1, [40] * 20), np.arange(20) % 2
    learner = dk.IncrementalRidgeClassifier(random_state=0)
    model = make_pipeline(dk.SeriesWindowEmbedding(10, random_state=0), learner).fit(series, y)
    dk.save_model(model, tmp_path / "model.npz")
    loaded = dk.load_model(tmp_path / "model.npz")
    np.testing.assert_array_equal(loaded.decision_function(series), model.decision_function(series))


def test_random_state_sets_the_filters():
    series = make_series(1)
    first, second, third = (
        dk.SeriesWindowEmbedding(10, random_state=seed).fit(series).filters_ for seed in (0, 0, 1)
    )
    assert (first == second).all()
    assert (first != third).any()
    names = clone(dk.SeriesWindowEmbedding(2, 2, 9, [1])).fit(series).get_feature_names_out()
    assert names.tolist() == [f"serieswindowembedding{i}" for i in range(4)]


@pytest.mark.parametrize(
    ("params", "text"),
    [
        ({"n_filters": 0}, "n_filters must be an integer >= 1"),
        ({"n_levels": 1.5}, "n_levels must be an integer >= 1"),
        ({"window_length": 1}, "window_length must be an integer >= 2"),
        ({"dilations": []}, "dilations must be 'auto' or a list"),
        ({"dilations": "all"}, "dilations must be 'auto' or a list"),
        ({"dilations": 2}, "dilations must be 'auto' or a list"),
        ({"dilations": [1, 0]}, "dilations must be an integer >= 1; got 0"),
    ],
)
def test_invalid_parameters_are_refused_by_name(params, text):
    with pytest.raises(ValueError, match=text):
        dk.SeriesWindowEmbedding(**params).fit(make_series(1))


def test_missing_values_strings_and_weights_are_refused():
    series = make_series(1)
    spoiled = [*series[:3], np.where(np.arange(16)[:, None] == 5, np.nan, series[3])]
    with pytest.raises(dk.SampleSetError, match="set 3"):
        dk.SeriesWindowEmbedding().fit(spoiled)
    with pytest.raises(dk.SampleSetError, match="strings"):
        dk.SeriesWindowEmbedding().fit(["abc", "abd"])
    weighted = dk.SampleSets.from_arrays(series, [np.ones(len(x)) for x in series])
    with pytest.raises(dk.SampleSetError, match="SeriesWindowEmbedding takes no weights"):
        dk.SeriesWindowEmbedding().fit(weighted)
    embedding = dk.SeriesWindowEmbedding().fit(series)
    with pytest.raises(dk.SampleSetError, match="SeriesWindowEmbedding takes no weights"):
        embedding.transform(weighted)
    with pytest.raises(dk.SampleSetError, match="set 3"):
        embedding.transform(spoiled)


@pytest.mark.parametrize("params", [{"n_filters": 10**9}, {"dilations": [10**11]}, {"window_length": 10**9}])
def test_filters_that_do_not_fit_into_memory_raise(params):
    with pytest.raises(MemoryError, match=r"filters and windows need .* To fix: use fewer filters"):
        dk.SeriesWindowEmbedding(**params).fit([np.ones((5, 1))] * 3)
