"""Merged coresets, in one step, in a tree and as streams: bounds compared with all pairs, heavy points, laws."""

import pickle
from functools import partial
from itertools import pairwise

import dask.array as da
import numpy as np
import pytest

import dkdist as dk
from dkdist.coresets import merging

RNG = np.random.default_rng(0)
P = np.array([1e4, 0]) + np.concatenate([RNG.normal(m, 0.5, (512, 2)) for m in (0, 2, 5, 5)])
HEAVY = RNG.pareto(1.5, len(P)) + 0.1


def distance(result, p=None, points=P, sigma=0.7):
    """Return the distance from all pairs, in float64."""
    w = np.full(len(points), 1 / len(points)) if p is None else p
    merged, signed = np.concatenate([points, result.points]), np.concatenate([w, -result.weights])
    square = ((merged[:, None] - merged) ** 2).sum(axis=2)
    return np.sqrt(max(0.0, signed @ np.exp(-square / (2 * sigma**2)) @ signed))


def parts_of(size, weights=None, n=8, **options):
    spans = [slice(a, b) for a, b in pairwise(np.linspace(0, len(P), n + 1).astype(int))]
    p = [None if weights is None else weights[span] for span in spans]
    coreset = partial(dk.coreset, size=size, sigma=0.7, random_state=0, **options)
    return [coreset(P[span], weights=weights_of_part) for span, weights_of_part in zip(spans, p, strict=True)]


def merge_in_tree(parts, size, **options):
    while len(parts) > 1:
        parts = [
            dk.merge_coresets(parts[i : i + 2], size, random_state=0, **options)
            for i in range(0, len(parts), 2)
        ]
    return parts[0]


@pytest.mark.parametrize("merge", [dk.merge_coresets, merge_in_tree])
@pytest.mark.parametrize("weights", [None, HEAVY])
@pytest.mark.parametrize("optimal", [False, True])
def test_distance_is_an_upper_bound(merge, weights, optimal):
    total = 1 if weights is None else weights.sum()
    coreset = merge(parts_of(100, weights, optimal_weights=optimal), 10, optimal_weights=optimal)
    assert len(coreset.indices) == len(set(coreset.indices.tolist())) == len(coreset.weights) == 10
    np.testing.assert_array_equal(P[coreset.indices], coreset.points)
    assert coreset.n_points == len(P)
    assert coreset.total == (None if weights is None else pytest.approx(total))
    assert optimal or coreset.weights.sum() == pytest.approx(total)
    assert distance(coreset, weights) <= coreset.distance < 0.2 * total


def test_tree_is_nearly_as_good_as_a_direct_coreset():
    direct = np.mean([dk.coreset(P, 16, sigma=0.7, random_state=s).distance for s in range(4)])
    parts = parts_of(128, n=4)  # 512 points, more than twice 128, so merges thin them
    merged = merge_in_tree(parts, 16)
    assert distance(merged) < 1.1 * direct
    assert merged.distance < 1.5 * direct
    assert distance(merge_in_tree(parts, 16, optimal_weights=True)) < distance(merged)


def test_merge_without_size_keeps_all_points():
    parts = parts_of(20)
    whole = dk.merge_coresets(parts)
    assert len(whole.indices) == 160
    assert whole.finer is None
    assert whole.distance == pytest.approx(np.mean([part.distance for part in parts]))
    np.testing.assert_array_equal(P[whole.indices], whole.points)
    assert distance(whole) <= whole.distance
    same = dk.merge_coresets(parts[:1])
    np.testing.assert_array_equal(same.indices, parts[0].indices)


def test_parts_are_weighted_by_points_or_weights():
    small, large = P[:100], P[512:912]
    parts = [dk.coreset(part, 10, sigma=0.7, random_state=0) for part in (small, large)]
    assert dk.merge_coresets(parts).weights.sum() == pytest.approx(1)
    assert dk.merge_coresets(parts).weights[:10].sum() == pytest.approx(0.2)
    weighted = [
        dk.coreset(p, 10, sigma=0.7, weights=np.full(len(p), w)) for p, w in ((small, 3.0), (large, 1.0))
    ]
    assert dk.merge_coresets(weighted).weights[:10].sum() == pytest.approx(300)


def test_merge_scales_with_weights():
    unscaled, scaled = (merge_in_tree(parts_of(100, scale * HEAVY), 10) for scale in (1, 1024))
    np.testing.assert_array_equal(unscaled.indices, scaled.indices)
    np.testing.assert_allclose(scaled.weights, 1024 * unscaled.weights, rtol=1e-9)
    assert scaled.distance == pytest.approx(1024 * unscaled.distance, rel=1e-5)


def test_merge_keeps_heavy_points():
    p = np.ones(len(P))
    p[[7, 600, 2000]] = 3000, 2000, 1000
    coreset = merge_in_tree(parts_of(64, p), 8)
    result = dict(zip(coreset.indices.tolist(), coreset.weights.tolist(), strict=True))
    assert [result.get(i) for i in (7, 600, 2000)] == pytest.approx([3000, 2000, 1000])
    assert distance(coreset, p) < distance(dk.coreset(P, 8, sigma=0.7, weights=p, method="stratified"), p)


def test_merge_of_lazy_points(tmp_path):
    store = dk.write_sets(tmp_path / "a.zarr", [P[512:].astype("f4")])
    lazy = [da.from_array(P[:512], chunks=(100, 2)), store]
    parts = [dk.coreset(part, 64, sigma=0.7, random_state=0) for part in lazy]
    coreset = dk.merge_coresets(parts, 16, random_state=0)
    np.testing.assert_allclose(P[coreset.indices], coreset.points, atol=1e-3)
    assert distance(coreset) <= coreset.distance < 0.1


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(merging, "BLOCK_POINTS", 256)


def running_coreset(cuts, weights=None, size=8):
    running = dk.RunningCoreset(size, sigma=0.7, random_state=0)
    for a, b in pairwise(cuts):
        running.add(P[a:b], None if weights is None else weights[a:b])
    return running


@pytest.mark.parametrize("weights", [None, HEAVY * (RNG.random(len(P)) < 0.7)])
def test_stream_does_not_depend_on_calls_of_add(small_blocks, weights):
    running = running_coreset([0, 1, 1000, 1003, 1500, 2048], weights)
    coreset, other = running.coreset(), running_coreset([0, 700, 2048], weights).coreset()
    assert running.n_points == len(P)
    assert len(coreset.indices) == 8
    np.testing.assert_array_equal(coreset.points, other.points)  # independent of the calls of add
    np.testing.assert_array_equal(coreset.weights, other.weights)
    np.testing.assert_array_equal(P[coreset.indices], coreset.points)
    assert distance(coreset, weights) <= coreset.distance == other.distance
    direct = dk.coreset(P, 8, sigma=0.7, weights=weights, random_state=0)
    assert distance(coreset, weights) < 1.25 * direct.distance
    assert distance(running.coreset(optimal_weights=True), weights) < distance(coreset, weights)


def test_pickled_stream_continues(small_blocks):
    first = running_coreset([0, 1000])
    continued = pickle.loads(pickle.dumps(first)).add(P[1000:]).coreset()
    np.testing.assert_array_equal(continued.points, running_coreset([0, 2048]).coreset().points)
    coreset = running_coreset([0, 5]).coreset()
    np.testing.assert_array_equal(coreset.indices, np.arange(5))
    assert coreset.distance < 1e-6
    merged = dk.merge_coresets(
        [running_coreset([0, 1024]).coreset(), running_coreset([1024, 2048]).coreset()], 8, random_state=0
    )
    np.testing.assert_array_equal(P[merged.indices], merged.points)
    assert distance(merged) <= merged.distance


def test_invalid_input_raises():
    a, b = (dk.coreset(P[:50], 5, sigma=s) for s in (0.7, 0.8))
    for coresets, text in (
        ([], "coresets must contain at least one Coreset"),
        ([a, 3], "got int at position 1"),
        ([a, b], "got sigma=0.7 and 2 dimensions for coreset 0, sigma=0.8 and 2 for coreset 1"),
        ([a, dk.coreset(P[:50], 5, sigma=0.7, weights=HEAVY[:50])], "got one of each, coresets 0 and 1"),
        ([dk.Coreset(a.indices, a.weights, 0.1)], "coreset 0 has no points"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=text):
            dk.merge_coresets(coresets, 3)
    with pytest.raises(ValueError, match="size must be an integer"):
        dk.merge_coresets([a], 0)
    running = dk.RunningCoreset(5, sigma=0.7)
    with pytest.raises(dk.SampleSetError, match="has no points yet"):
        running.coreset()
    running.add(P[:10])
    with pytest.raises(
        dk.SampleSetError,
        match="must have 2 dimensions without weights like earlier points; got 3 dimensions without",
    ):
        running.add(np.zeros((4, 3)))
    with pytest.raises(dk.SampleSetError, match="got 2 dimensions with weights"):
        running.add(P[:3], HEAVY[:3])
    with pytest.raises(ValueError, match="P must be finite"):
        running.add([[0, np.nan]])
