"""Bagged trees: predictions compared with scikit-learn, out-of-bag predictions, completeness of path gradients."""

import pickle

import numpy as np
import pytest
from sklearn.tree import ExtraTreeRegressor

from dkdist.auto.bagged_trees import BaggedTrees, fit_bagged_trees


def problem(n=60, m=6, t=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, m)).astype(np.float32)
    X[:, 1] = X[:, 1].round()  # with ties
    y = np.stack([np.sign(X[:, 0] + X[:, 1]), X[:, 2]], axis=1)[:, :t] + 0.1 * rng.normal(size=(n, t))
    return X, y


@pytest.fixture
def grown(monkeypatch):
    """Return a list of the fitted scikit-learn models, with their rows and weights."""
    result = []
    fit = ExtraTreeRegressor.fit

    def recording_fit(self, X, y, sample_weight=None, **kwargs):
        result.append((self, X, sample_weight))
        return fit(self, X, y, sample_weight, **kwargs)

    monkeypatch.setattr(ExtraTreeRegressor, "fit", recording_fit)
    return result


@pytest.mark.parametrize("t", [1, 2])
def test_values_match_scikit_learn(grown, t):
    X, y = problem(t=t)
    trees, _ = fit_bagged_trees(X, y, np.ones(60), None, 0, n_trees=20)
    new = np.random.default_rng(1).normal(size=(200, 6)).astype(np.float32)
    for rows in (X, new, new[:1], np.asfortranarray(new)):
        expected = np.mean([model.predict(rows).reshape(-1, t) for model, _, _ in grown], axis=0)
        np.testing.assert_allclose(trees.values(rows), expected, rtol=0, atol=1e-12)
    assert trees.values(X[:0]).shape == (0, t)


@pytest.mark.parametrize("grouped", [False, True])
def test_out_of_bag_predictions_use_trees_without_the_group(grown, grouped):
    X, y = problem()
    groups = np.random.default_rng(2).integers(100, 112, 60) if grouped else np.arange(60)
    weights = np.random.default_rng(3).uniform(0.5, 2, 60)
    weights[[5, 17]] = 0
    _, oob = fit_bagged_trees(X, y, weights, groups if grouped else None, 0, n_trees=25)
    assert len(grown) == 25
    sums, counts = np.zeros((60, 2)), np.zeros(60)
    for model, bag, w in grown:
        seen = [next(i for i in range(60) if (X[i] == row).all()) for row in bag]
        draws = w / weights[seen]
        np.testing.assert_allclose(draws, draws.round(), atol=1e-9)
        assert not {5, 17} & set(seen)
        for group in set(groups[seen]):  # all rows of a group, equally often
            members = np.flatnonzero((groups == group) & (weights > 0))
            assert set(members) <= set(seen)
            assert len({draws[seen.index(i)].round() for i in members}) == 1
        by_group = {g: draws[i].round() for i, g in enumerate(groups[seen])}
        assert sum(by_group.values()) == len(set(groups[weights > 0]))
        for i in range(60):
            if groups[i] not in by_group:
                sums[i] += model.predict(X[i : i + 1]).reshape(-1)
                counts[i] += 1
    assert (counts[weights > 0] > 0).all()
    np.testing.assert_allclose(oob, sums / counts[:, None], rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", ["numbers", "classes"])
def test_leaves_of_many_targets_predict_weighted_means(grown, kind):
    """Trees are grown on random projections; values of leaves follow from the rows in each leaf by brute force."""
    rng = np.random.default_rng(0)
    X, y = problem()[0], rng.normal(size=(60, 50))
    X[20:30] = X[20]  # a leaf with several targets
    if kind == "classes":
        y = np.where(rng.integers(50, size=60)[:, None] == np.arange(50), 1.0, -1.0)
    weights = rng.uniform(0.5, 2, 60)
    trees, oob = fit_bagged_trees(X, y, weights, None, 0, n_trees=20)
    trees.check_loaded()
    total, oob_total, count = np.zeros((60, 50)), np.zeros((60, 50)), np.zeros(60)
    draw_rng = np.random.default_rng(0)
    draw_rng.integers(2**31, size=20)
    for model, rows, w in grown:
        draws = np.bincount(draw_rng.choice(60, 60), minlength=60)
        bag = np.flatnonzero(draws)
        np.testing.assert_array_equal(X[bag], rows)
        leaf = model.apply(rows)
        values = np.array(
            [np.average(y[bag][leaf == i], axis=0, weights=w[leaf == i]) for i in model.apply(X)]
        )
        total += values
        oob_total[draws == 0] += values[draws == 0]
        count += draws == 0
    np.testing.assert_allclose(trees.values(X), total / 20, rtol=0, atol=1e-12)
    np.testing.assert_allclose(
        oob[count > 0], (oob_total / np.maximum(count, 1)[:, None])[count > 0], atol=1e-12
    )
    step = X[1].astype(np.float64) - X[0]
    difference = (trees.values(X[1:2]) - trees.values(X[:1]))[0]
    np.testing.assert_allclose(step @ trees.path_gradient(X[0], X[1]), difference, rtol=0, atol=1e-12)


def test_rows_in_every_bag_get_the_weighted_mean():
    X, y = problem()
    weights = np.arange(60.0)
    _, oob = fit_bagged_trees(X, y, weights, np.zeros(60, int), 0, n_trees=3)
    np.testing.assert_allclose(oob, np.broadcast_to(np.average(y, axis=0, weights=weights), y.shape))


def test_out_of_bag_predictions_are_independent_of_the_row():
    """Noise targets: the correlation of out-of-bag predictions with the target is not positive.

    It is at most 0, as for every prediction by other rows' means, plus three standard errors of 1 / sqrt(20 * 60).
    Repeated rows of one group would give 1 if they were seen.
    """
    correlations = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        X = np.repeat(rng.normal(size=(30, 4)), 2, axis=0)
        y = np.repeat(rng.normal(size=(30, 1)), 2, axis=0)
        _, oob = fit_bagged_trees(X, y, np.ones(60), np.repeat(np.arange(30), 2), seed, n_trees=30)
        correlations.append(np.corrcoef(oob[:, 0], y[:, 0])[0, 1])
    assert np.mean(correlations) < 3 / np.sqrt(20 * 30)


def test_results_depend_on_the_seed():
    X, y = problem()
    first, same_seed, other_seed = (
        fit_bagged_trees(X, y, np.ones(60), None, seed, n_trees=5)[1] for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(first, same_seed)
    assert (first != other_seed).any()


def test_leaf_values_are_weighted_means():
    """A row of weight 2 changes a leaf as two rows do."""
    X, y = problem(t=1)
    weights = np.where(y[:, 0] > 0, 3.0, 1.0)
    trees, _ = fit_bagged_trees(X, y, weights, None, 0, n_trees=200)
    plain, _ = fit_bagged_trees(X, y, np.ones(60), None, 0, n_trees=200)
    roots = [float(t.value[t.roots, 0].mean()) for t in (trees, plain)]
    assert roots[0] == pytest.approx(np.average(y[:, 0], weights=weights), abs=0.05)
    assert roots[1] == pytest.approx(y.mean(), abs=0.05)
    assert roots[0] - roots[1] > 0.2


def test_pickled_trees_predict_the_same():
    X, y = problem()
    trees, _ = fit_bagged_trees(X, y, np.ones(60), None, 0, n_trees=5)
    same_seed = pickle.loads(pickle.dumps(trees))
    np.testing.assert_array_equal(same_seed.values(X), trees.values(X))
    assert same_seed != trees
    assert trees in [trees, same_seed]


def jumps_on_a_fine_path(trees, start, row, steps):
    """Return jumps (m, t) by feature, of steps in which one feature crosses, and the sum of all others."""
    s = np.linspace(0, 1, steps + 1)[:, None]
    path = start.astype(np.float64) + s * (row.astype(np.float64) - start)
    result, rest = np.zeros((len(row), trees.value.shape[1])), 0.0
    for root in trees.roots:
        previous = None
        for x in path:
            node, tests = root, {}
            while trees.feature[node] >= 0:
                j = trees.feature[node]
                node_left = x[j] <= trees.threshold[node]
                tests[int(node)] = (int(j), bool(node_left))
                node = trees.left[node] if node_left else trees.right[node]
            if previous is not None and node != previous[0]:
                jump = trees.value[node] - trees.value[previous[0]]
                changed = [n for n in tests if n in previous[1] and tests[n] != previous[1][n]]
                crossed = {tests[n][0] for n in changed}
                if len(crossed) == 1:
                    result[crossed.pop()] += jump
                else:
                    rest += np.abs(jump).max()
            previous = node, tests
    return result / len(trees.roots), rest


@pytest.mark.parametrize("pair", [(0, 1), (2, 3), (5, 40)])
def test_path_gradients_match_jumps_along_a_fine_path(pair):
    X, y = problem(n=40, m=4)
    trees, _ = fit_bagged_trees(X, y, np.ones(40), None, 0, n_trees=5)
    start, row = X[pair[0]], X[pair[1] - 1]
    result = trees.path_gradient(start, row) * (row.astype(np.float64) - start)[:, None]
    expected, rest = jumps_on_a_fine_path(trees, start, row, 10_000)
    assert rest == 0
    np.testing.assert_allclose(result, expected, atol=1e-12)


def test_path_gradients_sum_to_the_difference():
    rng = np.random.default_rng(4)
    X, y = problem(n=200)
    trees, _ = fit_bagged_trees(X, y, np.ones(200), None, 0, n_trees=50)
    new = rng.normal(size=(50, 6)).round(1).astype(np.float32)  # with equal coordinates
    for start, row in [*zip(new, new[::-1], strict=True), (X[0], X[0]), (new[0], 1e20 * new[1])]:
        step = row.astype(np.float64) - start
        g = trees.path_gradient(start, row)
        difference = (trees.values(row[None]) - trees.values(start[None]))[0]
        np.testing.assert_allclose(step @ g, difference, rtol=0, atol=1e-12)
        assert (g[step == 0] == 0).all()


def stumps(*nodes):
    """Return trees with one test each: (feature, threshold, left value, right value)."""
    n = len(nodes)
    roots = np.arange(n, dtype=np.int32) * 3
    feature, threshold, value = np.full(3 * n, -1, np.int32), np.zeros(3 * n), np.zeros((3 * n, 1))
    left, right = np.full(3 * n, -1, np.int32), np.full(3 * n, -1, np.int32)
    for i, (j, at, low, high) in enumerate(nodes):
        feature[3 * i], threshold[3 * i], value[3 * i + 1 : 3 * i + 3, 0] = j, at, (low, high)
        left[3 * i], right[3 * i] = 3 * i + 1, 3 * i + 2
    return BaggedTrees(roots, feature, threshold, left, right, value)


@pytest.mark.parametrize(
    ("start", "row", "expected"),
    [
        ((0, 0), (2, 4), (1.5, 0.5)),
        ((2, 4), (0, 0), (1.5, 0.5)),
        ((0, 0), (0, 4), (0, 0.5)),
        ((1, 1), (2, 1), (3, 0)),
        ((2, 4), (1, 4), (3, 0)),
        ((0.5, 0), (1, 0), (0, 0)),
    ],
)
def test_path_gradients_of_stumps(start, row, expected):
    """Feature 0 jumps by 6 above 1, feature 1 by 4 above 3; values at a threshold belong to its left side."""
    trees = stumps((0, 1.0, 0.0, 6.0), (1, 3.0, 0.0, 4.0))
    result = trees.path_gradient(np.array(start, np.float32), np.array(row, np.float32))
    np.testing.assert_allclose(result[:, 0], expected)


def test_path_gradients_with_ends_on_thresholds():
    """Tests of one or two features change at the start or the end of the path, or at the same position."""
    value = np.array([[0], [0], [1.0], [2], [4], [8], [16]])
    for thresholds in [(0.0, 0.0, 0.0), (1.0, 1.0, 1.0), (0.5, 0.5, 0.5), (0.0, 1.0, 0.5)]:
        feature = np.array([0, 1, -1, -1, 1, -1, -1], np.int32)
        threshold = np.array([thresholds[0], thresholds[1], 0, 0, thresholds[2], 0, 0])
        left = np.array([1, 2, -1, -1, 5, -1, -1], np.int32)
        right = np.array([4, 3, -1, -1, 6, -1, -1], np.int32)
        trees = BaggedTrees(np.zeros(1, np.int32), feature, threshold, left, right, value)
        for start, row in (((0, 0), (1, 1)), ((1, 1), (0, 0)), ((0, 1), (1, 0)), ((1, 0), (0, 1))):
            a, b = np.array(start, np.float32), np.array(row, np.float32)
            g = trees.path_gradient(a, b)
            difference = (trees.values(b[None]) - trees.values(a[None]))[0]
            np.testing.assert_allclose((b - a).astype(np.float64) @ g, difference, atol=1e-12)


TWO_LEAVES = {
    "roots": np.array([0]), "feature": np.array([0, -1, -1]), "threshold": np.array([0.5, 0, 0]),
    "left": np.array([1, 0, 0]), "right": np.array([2, 0, 0]), "value": np.array([[0.0], [1.0], [2.0]]),
}  # fmt: skip


def test_invalid_loaded_trees_raise():
    BaggedTrees(**TWO_LEAVES).check_loaded()
    invalid_arrays = {
        "roots": [np.array([]), np.array([3]), np.array([-1]), np.array([[0]])],
        "threshold": [np.zeros(2)],
        "left": [np.array([0, 0, 0]), np.array([3, 0, 0])],
        "right": [np.array([0, 0, 0]), np.array([2, 0])],
        "value": [np.zeros(3), np.zeros((2, 1))],
        "value_rows": [np.array([0, 1, 3]), np.array([0, -1, 1]), np.array([0, 1])],
    }
    for name, arrays in invalid_arrays.items():
        for array in arrays:
            with pytest.raises(ValueError, match="tree"):
                BaggedTrees(**{**TWO_LEAVES, name: array}).check_loaded()
