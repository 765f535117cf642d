"""`SummaryEmbedding`: columns compared with NumPy, weights as repetitions, and derivatives."""

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
    is_positive = w > 0
    mean = np.average(y, axis=0, weights=w)
    std = np.sqrt(np.average((y - mean) ** 2, axis=0, weights=w))
    quantiles = [
        np.quantile(y[is_positive, j], INNER, weights=w[is_positive], method="inverted_cdf")
        for j in range(y.shape[1])
    ]
    low, high = y[is_positive].min(axis=0), y[is_positive].max(axis=0)
    return np.concatenate([mean, std, low, np.transpose(quantiles).ravel(), high, [np.log(len(x))]])


@pytest.mark.parametrize("weighted", [False, True])
def test_rows_match_numpy(weighted):
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
        np.testing.assert_allclose(row, expected, rtol=2e-6, atol=2e-6)  # float32 values up to 10


def test_weights_match_repetitions_except_for_the_size():
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
def test_quantiles_at_exact_levels(weighted):
    """The quantile at level k / 20 of n points is point ceil(k n / 20), without rounding errors."""
    for n in (20, 60, 140, 1240, 1260):
        x = np.arange(1.0, n + 1)[:, None]
        sets = dk.SampleSets.from_arrays([x], [np.full(n, 0.1)] if weighted else None)
        row = SummarySpec((0.0,), (1.0,)).materialize().embed(sets)[0]
        np.testing.assert_array_equal(row[3:8], [-(-k * n // 20) for k in (1, 5, 10, 15, 19)])


def test_extremes_include_points_of_tiny_weights():
    sets = dk.SampleSets.from_arrays([[[3.0], [1.0], [2.0], [9.0]]], [[1e-14, 1e-14, 1.0, 0.0]])
    row = SummarySpec((0.0,), (1.0,)).materialize().embed(sets)[0]
    np.testing.assert_array_equal(row[2:9], [1, 2, 2, 2, 2, 2, 3])


def test_rows_do_not_depend_on_units():
    arrays = collection(3)
    for x in arrays:
        x[:, 1] = 16_777_215.0
    rows = dk.SummaryEmbedding().fit_transform(arrays)
    columns = rows[:, :-1].reshape(len(rows), 9, 3)
    assert (columns[:, 1, 1] == 0).all()
    assert np.ptp(columns[:, :, 1]) < 1e-6
    moved = [x.astype(np.float64) * [1e-3, 1, 1e4] + [0, 0, 1e7] for x in arrays]
    # the centre is rounded to 3 digits
    np.testing.assert_allclose(dk.SummaryEmbedding().fit_transform(moved), rows, atol=2e-3)


def test_batches_do_not_change_rows(monkeypatch):
    sets = dk.SampleSets.from_arrays(collection(4) * 3)
    parameters = SummarySpec((5.0,) * 3, (2.0,) * 3).materialize()
    rows = parameters.embed(sets)
    monkeypatch.setattr("dkdist.embeddings.summary.BATCH_VALUES", 50)
    monkeypatch.setattr("dkdist.embeddings.summary.MAX_COLUMN_VALUES", 30)
    np.testing.assert_array_equal(parameters.embed(sets), rows)


def test_feature_names_contain_statistic_and_dimension():
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
    """Return the derivatives of the columns of a statistic, (m, d)."""
    g = np.zeros((9 * d + 1, d))
    g[statistic * d : (statistic + 1) * d] = np.eye(d)
    return g


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("statistic", [0, 1])
def test_influences_on_means_and_deviations_are_derivatives(weighted, statistic):
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
@pytest.mark.parametrize(("statistic", "extreme"), [(2, np.min), (8, np.max)])
def test_influences_on_extremes_match_leave_one_out(weighted, statistic, extreme):
    sets, n = one_set(1, 25, weighted), 25
    x = sets.relative.astype(np.float64)
    u = np.ones(n) / n if sets.weights is None else sets.weights.ravel().astype(np.float64)
    u = u / u.sum()
    without = np.array([extreme(np.delete(x, i, axis=0), axis=0) for i in range(n)])
    expected = (extreme(x, axis=0) - without) * ((1 - u) / u)[:, None]
    result = point_influences(
        SummarySpec((0.0, 0.0), (1.0, 1.0)).materialize(), sets, gradient_of(statistic, 2)
    )
    np.testing.assert_allclose(result, expected - u @ expected, rtol=1e-9, atol=1e-9)


def test_influences_on_quantiles_match_the_density():
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
def test_influences_on_quantiles_have_the_sign_of_leave_one_out(n):
    """Influences increase with the coordinate and change sign; a single point has none."""
    sets = one_set(3, n, False, d=1)
    result = point_influences(SummarySpec((0.0,), (1.0,)).materialize(), sets, gradient_of(5, 1))[:, 0]
    x = sets.relative[:, 0]
    if n == 1:
        assert result[0] == 0
        return
    assert (np.diff(result[np.argsort(x)]) >= 0).all()
    assert result[x.argmin()] < 0 < result[x.argmax()]


@pytest.mark.parametrize(("statistic", "i"), [(3, 0), (7, -1)])
def test_outermost_points_influence_outer_quantiles_of_few_points(statistic, i):
    """The quantile at level 0.05 of 10 points is the minimum, so the influence of the minimum is not 0."""
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
