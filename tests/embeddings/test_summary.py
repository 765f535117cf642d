"""`SummaryEmbedding`: columns and influences against NumPy, weights as repetitions, exact derivatives."""

import numpy as np
import pytest
from scipy.stats import norm

import dkdist as dk
from dkdist._base.influence import point_influences
from dkdist.embeddings.summary import LEVELS, SummarySpec

INNER = LEVELS[1:-1]


def collection(seed, d=3, sizes=(1, 2, 3, 7, 20, 20, 40, 101)):
    rng = np.random.default_rng(seed)
    return [rng.normal(5, 2, (n, d)).round(1).astype(np.float32) for n in sizes]  # with ties


def expected_row(x, w, centre, scale):
    y = (x.astype(np.float64) - centre) / scale
    kept = w > 0
    mean = np.average(y, axis=0, weights=w)
    std = np.sqrt(np.average((y - mean) ** 2, axis=0, weights=w))
    quantiles = [
        np.quantile(y[kept, j], INNER, weights=w[kept], method="inverted_cdf") for j in range(y.shape[1])
    ]
    low, high = y[kept].min(axis=0), y[kept].max(axis=0)
    return np.concatenate([mean, std, low, np.transpose(quantiles).ravel(), high, [np.log(len(x))]])


@pytest.mark.parametrize("weighted", [False, True])
def test_rows_are_the_summaries_that_numpy_computes(weighted):
    arrays = collection(0)
    rng = np.random.default_rng(1)
    weights = [rng.integers(1, 5, len(x)).astype(np.float64) for x in arrays]
    for w in weights[3:]:
        w[1] = 0
    sets = dk.SampleSets.from_arrays(arrays, weights if weighted else None)
    embedding = dk.SummaryEmbedding().fit(sets)
    centre, scale = embedding.centre_, embedding.scale_
    for row, x, w in zip(embedding.transform(sets), arrays, weights, strict=True):
        expected = expected_row(x, w if weighted else np.ones(len(x)), centre, scale)
        np.testing.assert_allclose(row, expected, rtol=2e-6, atol=2e-6)  # float32 of numbers up to 10


def test_weights_are_repetitions_except_for_the_size():
    arrays = collection(2)
    counts = [
        np.random.default_rng(i).integers(0, 4, len(x)) + (np.arange(len(x)) == 0)
        for i, x in enumerate(arrays)
    ]
    parameters = SummarySpec((5.0,) * 3, (2.0,) * 3).materialize()
    weighted = parameters.embed(dk.SampleSets.from_arrays(arrays, counts))
    repeated = parameters.embed(
        dk.SampleSets.from_arrays([np.repeat(x, n, axis=0) for x, n in zip(arrays, counts, strict=True)])
    )
    np.testing.assert_allclose(weighted[:, :-1], repeated[:, :-1], rtol=1e-6, atol=1e-6)
    np.testing.assert_array_equal(weighted[:, -1], np.log([len(x) for x in arrays]).astype(np.float32))


@pytest.mark.parametrize("weighted", [False, True])
def test_levels_that_fall_on_a_point_take_that_point(weighted):
    """Level k / 20 of n points is point ceil(k n / 20), no rounding of products or sums moves it."""
    for n in (20, 60, 140, 1240, 1260):
        x = np.arange(1.0, n + 1)[:, None]
        sets = dk.SampleSets.from_arrays([x], [np.full(n, 0.1)] if weighted else None)
        row = SummarySpec((0.0,), (1.0,)).materialize().embed(sets)[0]
        np.testing.assert_array_equal(row[3:8], [-(-k * n // 20) for k in (1, 5, 10, 15, 19)])


def test_extremes_are_found_however_small_their_weights_are():
    sets = dk.SampleSets.from_arrays([[[3.0], [1.0], [2.0], [9.0]]], [[1e-14, 1e-14, 1.0, 0.0]])
    row = SummarySpec((0.0,), (1.0,)).materialize().embed(sets)[0]
    np.testing.assert_array_equal(row[2:9], [1, 2, 2, 2, 2, 2, 3])


def test_units_and_constant_dimensions():
    arrays = collection(3)
    for x in arrays:
        x[:, 1] = 16_777_215.0
    rows = dk.SummaryEmbedding().fit_transform(arrays)
    columns = rows[:, :-1].reshape(len(rows), 9, 3)
    assert (columns[:, 1, 1] == 0).all()
    assert np.ptp(columns[:, :, 1]) < 1e-6
    moved = [x.astype(np.float64) * [1e-3, 1, 1e4] + [0, 0, 1e7] for x in arrays]
    np.testing.assert_allclose(
        dk.SummaryEmbedding().fit_transform(moved), rows, atol=2e-3
    )  # the centre has 3 digits


def test_blocks_of_columns_and_of_sets_change_no_bit(monkeypatch):
    sets = dk.SampleSets.from_arrays(collection(4) * 3)
    parameters = SummarySpec((5.0,) * 3, (2.0,) * 3).materialize()
    rows = parameters.embed(sets)
    monkeypatch.setattr("dkdist.embeddings.summary.BATCH_VALUES", 50)
    monkeypatch.setattr("dkdist.embeddings.summary.MAX_COLUMN_VALUES", 30)
    np.testing.assert_array_equal(parameters.embed(sets), rows)


def test_columns_are_named_by_statistic_and_dimension():
    sets = dk.SampleSets.from_arrays(collection(5), names=["a", "b", "c"])
    names = dk.SummaryEmbedding().fit(sets).get_feature_names_out().tolist()
    assert names[:3] + names[-4:] == ["mean_a", "mean_b", "mean_c", "max_a", "max_b", "max_c", "log_size"]
    assert names[3::3] == [f"{s}_a" for s in ("std", "min", "q05", "q25", "q50", "q75", "q95", "max")] + [
        "log_size"
    ]


def one_set(seed, n, weighted, d=2):
    rng = np.random.default_rng(seed)
    x = rng.normal(3, 2, (n, d))
    return dk.SampleSets.from_arrays([x], [rng.uniform(0.5, 2, n)] if weighted else None)


def gradient_of(statistic, d):
    """Derivatives of each dimension's column of a statistic, (m, d)."""
    g = np.zeros((9 * d + 1, d))
    g[statistic * d : (statistic + 1) * d] = np.eye(d)
    return g


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("statistic", [0, 1])
def test_influences_on_means_and_spreads_are_derivatives(weighted, statistic):
    sets, d = one_set(0, 30, weighted), 2
    parameters = SummarySpec((1.0, 2.0), (0.5, 3.0)).materialize()
    x = (sets.relative.astype(np.float64) - [1, 2]) / [0.5, 3]
    u = np.ones(30) / 30 if sets.weights is None else sets.weights.ravel().astype(np.float64)
    u = u / u.sum()
    result = point_influences(parameters, sets, gradient_of(statistic, d))

    def value(v):
        mean = v @ x
        return mean if statistic == 0 else np.sqrt(v @ (x - mean) ** 2)

    t = 1e-5
    for i in range(30):
        moved = [(1 - s * t) * u + s * t * (np.arange(30) == i) for s in (1, -1)]
        np.testing.assert_allclose(
            result[i], (value(moved[0]) - value(moved[1])) / (2 * t), rtol=1e-6, atol=1e-6
        )


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("statistic", "best"), [(2, np.min), (8, np.max)])
def test_influences_on_extremes_are_those_of_leaving_points_out(weighted, statistic, best):
    sets, n = one_set(1, 25, weighted), 25
    x = sets.relative.astype(np.float64)
    u = np.ones(n) / n if sets.weights is None else sets.weights.ravel().astype(np.float64)
    u = u / u.sum()
    without = np.array([best(np.delete(x, i, axis=0), axis=0) for i in range(n)])
    expected = (best(x, axis=0) - without) * ((1 - u) / u)[:, None]
    result = point_influences(
        SummarySpec((0.0, 0.0), (1.0, 1.0)).materialize(), sets, gradient_of(statistic, 2)
    )
    np.testing.assert_allclose(result, expected - u @ expected, rtol=1e-9, atol=1e-9)


def test_influences_on_quantiles_are_those_of_the_density():
    """IF(s) = (t - 1{s <= q}) / f(q), Hampel 1974.

    n = 40,000, so levels t +- min(t, 1 - t) n^(-1/5) are 0.06 apart from 0.5, and 0.006 from 0.05. Their distance in
    quantiles has a relative standard error of 1 / sqrt(2 h n), 4.5 % at 0.05, and a bias of (h / f)^2 f''... below 2 %.
    """
    n = 40_000
    sets = one_set(2, n, False, d=1)
    at = np.array([[-50.0], [50.0]], np.float32)
    parameters = SummarySpec((0.0,), (1.0,)).materialize()
    for k, t in enumerate(INNER):
        low, high = point_influences(parameters, sets, gradient_of(3 + k, 1), at)[:, 0]
        density = norm.pdf(norm.ppf(t)) / 2
        h = min(t, 1 - t) * n**-0.2
        assert high - low == pytest.approx(1 / density, rel=4 / np.sqrt(2 * h * n) + 0.02)
        assert high / (high - low) == pytest.approx(t, abs=0.005)


@pytest.mark.parametrize("n", [1, 2, 6, 60])
def test_influences_on_quantiles_are_like_leaving_points_out(n):
    """Summed over the points on one side of the quantile, where the two have the same sign; none for a single point."""
    sets = one_set(3, n, False, d=1)
    result = point_influences(SummarySpec((0.0,), (1.0,)).materialize(), sets, gradient_of(5, 1))[:, 0]
    x = sets.relative[:, 0]
    if n == 1:
        assert result[0] == 0
        return
    assert (np.diff(result[np.argsort(x)]) >= 0).all()
    assert result[x.argmin()] < 0 < result[x.argmax()]


@pytest.mark.parametrize(("statistic", "i"), [(3, 0), (7, -1)])
def test_outer_quantiles_of_few_points_are_moved_by_the_outermost_points(statistic, i):
    """Of 10 points the level 0.05 is the minimum: leaving it out moves the quantile, so its influence is not 0."""
    sets = one_set(4, 10, False, d=1)
    result = point_influences(SummarySpec((0.0,), (1.0,)).materialize(), sets, gradient_of(statistic, 1))[
        :, 0
    ]
    assert np.abs(result).argmax() == np.argsort(sets.relative[:, 0])[i]
    assert np.abs(result).max() > 0


def test_constant_sets_have_no_influences():
    sets = dk.SampleSets.from_arrays([np.full((9, 2), 4.0)])
    result = point_influences(SummarySpec((0.0, 0.0), (1.0, 1.0)).materialize(), sets, np.ones((19, 1)))
    np.testing.assert_array_equal(result, 0)
