"""The robust domain: its bounds, identical for memory, stores and pieces, and points outside it."""

import warnings

import numpy as np
import pytest
from scipy import stats
from sklearn.pipeline import make_pipeline

import dkdist as dk
from dkdist._base.sampling import quantiles
from dkdist._numba.points import sample_points
from dkdist.models.model_text import make

EMBEDDINGS = (dk.DivergenceEmbedding, dk.L2Embedding, dk.HistogramEmbedding)


def split(x, n=100):
    return np.split(np.asarray(x).reshape(len(x), -1), len(x) // n)


def quantile_grid(distribution, n=20_000):
    """Return n quantiles of the distribution at equally spaced levels."""
    return distribution.ppf((np.arange(n) + 0.5) / n)


# ---- bounds


@pytest.mark.parametrize(
    ("distribution", "low", "high"),
    [
        (stats.norm(3, 2), 3 - 8, 3 + 8),  # four standard deviations
        (stats.uniform(), 0, 1),
        (stats.beta(2, 5), 0, 1),
        (stats.cauchy(), -6.3138, 6.3138),  # the 95 % quantile, which is beyond 5.93 quartiles
        (stats.lognorm(1), 0, 1 + 5.9304 * (np.exp(0.67449) - 1)),
        (stats.laplace(), -5.9304 * np.log(2), 5.9304 * np.log(2)),
    ],
)
def test_domain_of_known_distributions(distribution, low, high):
    x = quantile_grid(distribution)
    domain = dk.HistogramEmbedding().fit(split(x)).spec_.domain
    expected = max(low, x.min()), min(high, x.max())
    np.testing.assert_allclose([*domain.low, *domain.high], expected, rtol=2e-3, atol=2e-3)


def test_domain_of_mostly_equal_values():
    x = np.zeros(2000)
    x[::20] = quantile_grid(stats.expon(), 100)
    domain = dk.HistogramEmbedding().fit(split(x)).spec_.domain
    assert domain.low == (0.0,)
    assert domain.high[0] == pytest.approx(min(x.max(), 5.9304 * np.log(2)), rel=0.02)
    constant = dk.HistogramEmbedding().fit(split(np.full(200, 7.0))).spec_.domain
    assert (constant.low, constant.high) == ((7.0,), (7.0,))


def test_domain_is_robust_to_an_outlier():
    sets = [np.random.default_rng(i).normal(i % 2, 1, (100, 1)) for i in range(60)]
    clean = dk.HistogramEmbedding().fit(sets).spec_.domain
    sets[0][0] = 1e4
    with_outlier = dk.HistogramEmbedding().fit(sets).spec_.domain
    assert with_outlier.low == pytest.approx(clean.low, abs=0.01)
    assert clean.high[0] <= with_outlier.high[0] < 1.3 * clean.high[0]  # extended to four standard deviations


def test_domain_ignores_zero_weights_and_scale_of_weights():
    rng = np.random.default_rng(0)
    sets = [rng.standard_cauchy((50, 2)) for _ in range(20)]
    weights = [rng.integers(0, 3, 50) + (np.arange(50) == 0) for _ in sets]
    scaled = [w * 2.0**i for i, w in enumerate(weights)]
    a, b = (
        dk.HistogramEmbedding().fit(dk.SampleSets.from_arrays(sets, w)).spec_.domain
        for w in (weights, scaled)
    )
    assert a == b


@pytest.mark.parametrize("weighted", [False, True])
def test_quantiles_match_numpy(weighted):
    rng = np.random.default_rng(0)
    levels = np.linspace(0, 1, 33)  # products with integers are exact
    for n in (1, 2, 7, 40, 200):
        x, w = rng.integers(0, 30, n).astype(float), rng.integers(1, 4, n)
        expected = np.quantile(np.repeat(x, w if weighted else 1), levels, method="averaged_inverted_cdf")
        result = quantiles(x, w * 0.1 if weighted else None, levels)
        np.testing.assert_allclose(result, expected, rtol=1e-12)


# ---- the sample


def test_sample_points_depends_on_positions_only():
    offsets = np.arange(0, 1_000_001, 1000)
    rows = sample_points(offsets, 0, 0, 0.1, 5)
    assert abs(len(rows) - 1e5) < 5 * np.sqrt(1e6 * 0.09)
    parts = [sample_points(offsets[a : a + 101], a, 0, 0.1, 5) for a in range(0, 1000, 100)]
    assert np.array_equal(np.concatenate(parts), rows)
    first = rows[rows < 1000]
    assert np.array_equal(sample_points(np.array([0, 600]), 0, 400, 0.1, 5) + 400, first[first >= 400])
    counts = np.bincount(rows // 1000, minlength=1000)
    assert stats.kstest((counts - 100) / np.sqrt(90), "norm").pvalue > 1e-3
    assert not np.array_equal(sample_points(offsets, 0, 0, 0.1, 6), rows)


@pytest.mark.parametrize("weighted", [False, True])
def test_memory_stores_and_pieces_give_the_same_domain(weighted, tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    arrays = [rng.standard_cauchy((n, 2)).astype("f4") for n in (30, 60_000, 500, 40_000)]
    weights = [rng.random(len(x)).astype("f4") for x in arrays] if weighted else None
    sets = dk.SampleSets.from_arrays(arrays, weights)
    with dk.SetWriter(tmp_path / "s.zarr", 2, chunk_rows=512) as writer:
        writer.append(sets)
    embedding = dk.HistogramEmbedding().fit(sets)
    for block_sets in (1, 3):
        store = dk.open_sets(tmp_path / "s.zarr", block_sets=block_sets)
        fitted = dk.HistogramEmbedding().fit(store)
        assert fitted.spec_ == embedding.spec_
        assert fitted.outside_share_ == embedding.outside_share_
    monkeypatch.setattr("dkdist.io.set_pieces.PIECE_BYTES", 2**13)
    monkeypatch.setattr("dkdist.io.set_pieces.MAX_WHOLE_SET_BYTES", 2**15)
    assert dk.HistogramEmbedding().fit(store).spec_ == embedding.spec_
    low, high = np.array(embedding.spec_.domain.low), np.array(embedding.spec_.domain.high)
    share = ((sets.points < low) | (sets.points > high)).any(axis=1).mean()
    assert embedding.outside_share_ == pytest.approx(share, abs=4 / 256 / 2)


# ---- points outside


def test_only_new_points_outside_the_domain_warn():
    sets = split(np.random.default_rng(0).standard_cauchy(4000))
    embedding = dk.DivergenceEmbedding().fit(sets)
    assert 0.05 < embedding.outside_share_ < 0.2
    embedding.transform(sets)
    far = [x + 100 for x in sets]
    with pytest.warns(UserWarning, match=r"points in 40 sets .* are outside"):
        embedding.transform(far)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        mostly_inside = [*sets[1:], far[0]]  # 1/40 of the points are outside
        embedding.transform(mostly_inside)


@pytest.mark.parametrize("embedding", EMBEDDINGS)
@pytest.mark.parametrize("domain", ["unit", (0, 1)])
def test_points_outside_a_given_domain_are_clipped_on_request(embedding, domain, tmp_path):
    sets = [np.random.default_rng(i).normal(0.5, 0.4, (50, 2)) for i in range(9)]
    clipped = [x.clip(0, 1) for x in sets]
    with pytest.raises(dk.SampleSetError, match="Pass a larger domain, outside='clip'"):
        embedding(domain=domain).fit(sets)
    # automatic bandwidths ignore points outside, but not points at the boundary
    options = {} if embedding is dk.HistogramEmbedding else {"bandwidth": 0.1}
    clipping = embedding(domain=domain, outside="clip", **options).fit(sets)
    plain = embedding(domain=domain, **options).fit(clipped)
    assert (clipping.spec_.domain.low, clipping.spec_.domain.high) == ((0, 0), (1, 1))
    x = np.concatenate(sets).astype("f4")
    assert clipping.outside_share_ == ((x < 0) | (x > 1)).any(axis=1).mean()
    assert plain.outside_share_ == 0
    np.testing.assert_array_equal(clipping.transform(sets), plain.transform(clipped))
    store = dk.write_sets(tmp_path / "s.zarr", sets)
    np.testing.assert_array_equal(clipping.fit(store).transform(store).compute(), plain.transform(clipped))
    with pytest.raises(ValueError, match="outside must be one of 'raise', 'clip'"):
        embedding(outside="wall").fit(sets)


def test_old_models_keep_their_domain():
    saved = {"low": {"tuple": [0.0]}, "high": {"tuple": [2.0]}, "fixed": False}
    domain = make({"record": "Domain", "fields": saved}, {})
    assert (domain.low, domain.high, domain.fixed, domain.ordinary) == ((0.0,), (2.0,), False, 0.0)


# ---- accuracy of models


def accuracy(sets, y, domain):
    pipeline = make_pipeline(
        dk.DivergenceEmbedding(domain=domain),
        dk.RandomFourierFeatures(500, random_state=0),
        dk.IncrementalRidgeClassifier(random_state=0),
    )
    return pipeline.fit(sets[:300], y[:300]).score(sets[300:], y[300:])


@pytest.mark.parametrize(
    ("name", "draw", "loss"),
    [
        ("Cauchy", lambda rng, c: rng.standard_cauchy(100) * (1, 1.35)[c], 0.02),
        ("t2", lambda rng, c: rng.standard_t(2, 100) * (1, 1.25)[c], 0.02),
        ("lognormal", lambda rng, c: np.exp(rng.normal(size=100) + (0, 0.25)[c]), 0.02),
    ],
)
def test_robust_domain_of_heavy_tails_is_as_accurate_as_ranks(name, draw, loss):
    rng = np.random.default_rng(0)
    y = np.arange(1300) % 2
    sets = [draw(rng, c)[:, None] for c in y]
    ranked = np.split(stats.rankdata(np.concatenate(sets))[:, None] / 130_000, 1300)
    # two standard errors of the difference, for pipelines that disagree on 10 % of the sets
    noise = 2 * np.sqrt(0.13 * 0.1 / 1000)
    assert accuracy(sets, y, "robust") > accuracy(ranked, y, "unit") - loss - noise


@pytest.mark.filterwarnings("ignore:.* are outside")
def test_robust_domain_keeps_accuracy_with_an_outlier():
    rng = np.random.default_rng(0)
    y = np.arange(500) % 2
    sets = [rng.beta(2, (2, 3)[c], (100, 1)) for c in y]
    clean = accuracy(sets, y, "data")
    sets[0][0] = 1e4
    assert accuracy(sets, y, "robust") > clean - 0.02
    assert accuracy(sets, y, "data") < clean - 0.2
