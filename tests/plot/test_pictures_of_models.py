"""Plots of models: lines, intervals, order and counts, compared with scikit-learn and closed forms."""

from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, learning_curve
from sklearn.pipeline import make_pipeline

import dkdist as dk
from dkdist.plot._canvas import MUTED_COLOUR

RNG = np.random.default_rng(0)
X = RNG.normal(size=(120, 3)).astype("f4")
Y = (X[:, 0] + RNG.normal(size=120) > 0).astype(int)


def error_bars(ax, k=0):
    """Return (positions, low, high) of the error bars of container k."""
    points, _, (bars,) = ax.containers[k]
    ends = np.array([segment[:, 1] for segment in bars.get_segments()])
    return points.get_xdata(), ends.min(axis=1), ends.max(axis=1)


def test_learning_curve_shows_mean_over_splits():
    result = learning_curve(LogisticRegression(), X, Y, train_sizes=[0.2, 0.6, 1.0], cv=4)
    ax = dk.plot.learning_curve(result)
    for line, scores in zip(ax.lines, result[1:3], strict=True):
        np.testing.assert_array_equal(line.get_xdata(), result[0])
        np.testing.assert_allclose(line.get_ydata(), scores.mean(axis=1))
    band = ax.collections[1].get_paths()[0].vertices[:, 1]
    assert band.max() == pytest.approx((result[2].mean(axis=1) + result[2].std(axis=1)).max())


@pytest.mark.parametrize("fraction", [0.0, 0.25])
def test_learning_curve_of_sgd_shows_losses_by_epoch(fraction):
    learner = dk.IncrementalSGDClassifier(n_epochs=4, validation_fraction=fraction, random_state=0)
    ax = dk.plot.learning_curve(make_pipeline(learner).fit(X, Y))
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), learner.loss_curve_)
    assert len(ax.lines) == (2 if fraction else 1)
    if fraction:
        np.testing.assert_array_equal(ax.lines[1].get_ydata(), learner.validation_loss_curve_)
    assert ax.get_ylabel() == "mean loss (log loss)"


@pytest.mark.parametrize(
    "result", [None, "no", (1, 2), ([1, 2], [[1]], [[1], [2]]), ([0], [[1]], [[1]]), ([1], [[np.nan]], [[1]])]
)
def test_invalid_learning_curve_raises(result):
    with pytest.raises(ValueError, match=r"result must|scores must|sizes must"):
        dk.plot.learning_curve(result)


def test_validation_curve_of_a_search_shows_best_scores():
    grid = {"C": [0.01, 1.0, 100.0], "fit_intercept": [True, False]}
    search = GridSearchCV(LogisticRegression(), grid, cv=3).fit(X, Y)
    ax = dk.plot.validation_curve(search, "C")
    results = search.cv_results_
    best = [results["mean_test_score"][results["param_C"] == c].max() for c in grid["C"]]
    np.testing.assert_allclose(ax.containers[0][0].get_ydata(), best)
    assert ax.get_xscale() == "log"
    assert len(ax.lines[-2].get_xdata()) == 6  # all candidates
    assert ax.lines[-1].get_ydata() == [search.best_score_]
    with pytest.raises(ValueError, match=r"name must be given .* they differ in C, fit_intercept"):
        dk.plot.validation_curve(search)
    with pytest.raises(ValueError, match="name must be one of C, fit_intercept; got 'D'"):
        dk.plot.validation_curve(search, "D")


def test_validation_curve_of_categorical_values():
    scores = np.array([[0.5, 0.7], [0.8, 0.8]])
    ax = dk.plot.validation_curve((["auto", None], scores, scores), "how")
    assert [t.get_text() for t in ax.get_xticklabels()] == ["auto", "None"]
    np.testing.assert_allclose(ax.lines[0].get_ydata(), [0.6, 0.8])
    assert ax.get_xlabel() == "how"


@pytest.mark.parametrize("result", [None, ([], [], []), ([1, 2], [[1]], [[1]]), 5])
def test_invalid_validation_curve_raises(result):
    with pytest.raises(ValueError, match=r"result|scores must"):
        dk.plot.validation_curve(result)


def test_error_against_features_shows_intervals():
    result = [
        dk.KernelError(0.1, 0.08, 0.12, 0, 0.2, 0.1, 0.01, 50),
        dk.KernelError(0.05, 0.04, 0.07, 0, 0.1, 0.05, 0.01, 50),
    ]
    ax = dk.plot.error_against_features([400, 100], result[::-1])
    D, low, high = error_bars(ax)
    assert D.tolist() == [100, 400]
    np.testing.assert_allclose([low, high], [[0.08, 0.04], [0.12, 0.07]])
    np.testing.assert_allclose(ax.lines[0].get_ydata(), [0.1, 0.05])  # slope -1/2 through the first point
    assert [t.get_text() for t in ax.get_legend().get_texts()][-1].startswith("error (95 %")


@pytest.mark.parametrize("arguments", [([10], [0.1, 0.2]), ([0], [0.1]), ([10], [-1]), ([], []), ([10], "x")])
def test_invalid_errors_raise(arguments):
    with pytest.raises(ValueError, match=r"errors must|n_features must"):
        dk.plot.error_against_features(*arguments)


def test_leaderboard_keeps_the_order():
    y = np.arange(24) % 2
    sets = [np.random.default_rng(i).normal(2 * c, 1, (10, 1)) for i, c in enumerate(y)]
    model = dk.SetClassifier(["moments"], random_state=0).fit(sets, y)
    ax = dk.plot.leaderboard(model)
    names = [t.get_text() for t in ax.get_yticklabels()]
    assert names == [entry["name"] for entry in model.leaderboard_]
    for position, (entry, bars) in enumerate(zip(model.leaderboard_, ax.containers, strict=True)):
        point, _, (line,) = bars
        assert (point.get_xdata()[0], point.get_ydata()[0]) == (entry["score"], position)
        ends = line.get_segments()[0][:, 0]
        np.testing.assert_allclose(ends, entry["score"] + np.array([-1, 1]) * entry["std_error"])
        assert (point.get_color() == MUTED_COLOUR) == entry["baseline"]
    assert ax.get_xlabel().startswith("accuracy")
    assert ax.yaxis_inverted()
    assert "this model" in model.leaderboard_._repr_html_()


def test_model_without_leaderboard_raises():
    with pytest.raises(ValueError, match="got IncrementalRidge, which has no"):
        dk.plot.leaderboard(dk.IncrementalRidge())


def model_with_probabilities(P, classes):
    return SimpleNamespace(predict_proba=lambda X: P, classes_=np.array(classes))


def wilson_interval(k, n, z=1.959963984540054):
    middle, half = (k + z * z / 2) / (n + z * z), z / (n + z * z) * np.sqrt(k * (n - k) / n + z * z / 4)
    return middle - half, middle + half


def test_calibration_of_two_classes():
    p = np.repeat([0.1, 0.8], 10)
    y = np.array(["no"] * 9 + ["yes"] + ["yes"] * 6 + ["no"] * 4)
    ax = dk.plot.calibration(
        model_with_probabilities(np.stack([1 - p, p], axis=1), ["no", "yes"]), np.zeros(20), y, n_bins=2
    )
    x, low, high = error_bars(ax)
    np.testing.assert_allclose(x, [0.1, 0.8])
    np.testing.assert_allclose(ax.containers[0][0].get_ydata(), [0.1, 0.6])
    np.testing.assert_allclose(
        np.stack([low, high], axis=1), [wilson_interval(1, 10), wilson_interval(6, 10)]
    )
    assert ax.get_xlabel() == "probability of yes"
    assert ax.get_title(loc="left") == "20 sets, mean calibration error 0.100"


def test_calibration_of_several_classes_uses_the_predicted_class():
    P = np.array([[0.5, 0.3, 0.2]] * 4 + [[0.1, 0.0, 0.9]] * 4)
    y = np.array([0, 0, 1, 2, 2, 2, 2, 2])
    ax = dk.plot.calibration(model_with_probabilities(P, [0, 1, 2]), np.zeros(8), y, n_bins=2)
    np.testing.assert_allclose(ax.containers[0][0].get_xydata(), [[0.5, 0.5], [0.9, 1.0]])


def test_invalid_calibration_arguments_raise():
    with pytest.raises(ValueError, match="predict_proba; got IncrementalRidge"):
        dk.plot.calibration(dk.IncrementalRidge(), X, Y)
    with pytest.raises(ValueError, match=r"y must contain only classes of the model, .*; got 7"):
        dk.plot.calibration(model_with_probabilities(np.full((2, 2), 0.5), [0, 1]), [0, 0], [0, 7])
    with pytest.raises(ValueError, match=r"y must contain only classes of the model, .*; got \(0.0,\)"):
        dk.plot.calibration(
            model_with_probabilities(np.full((2, 2), 0.5), [0, 1]), [0, 0], np.zeros(2, [("a", "f4")])
        )
    with pytest.raises(ValueError, match="y must have one class for each of the 3 sets"):
        dk.plot.calibration(model_with_probabilities(np.full((3, 2), 0.5), [0, 1]), [0, 0, 0], [0, 1])


def test_intervals_count_covered_targets():
    truth = np.arange(10.0)
    result = truth + np.where(np.arange(10) < 7, 0.5, 3)
    model = SimpleNamespace(predict=lambda X: result, predict_interval=lambda X, c: result[:, None] + [-1, 1])
    ax = dk.plot.intervals(model, np.zeros(10), truth, coverage=0.8)
    assert ax.get_title(loc="left") == "coverage 70 % (7 of 10), nominal 80 %"
    x, low, high = error_bars(ax, 1)
    np.testing.assert_array_equal(x, [7, 8, 9])
    np.testing.assert_allclose([low, high], [result[7:] - 1, result[7:] + 1])
    with pytest.raises(ValueError, match="y must have one finite number for each of the 10 sets"):
        dk.plot.intervals(model, np.zeros(10), truth[:9])
    with pytest.raises(ValueError, match="with predict_interval; got IncrementalRidge"):
        dk.plot.intervals(dk.IncrementalRidge(), X, Y)
