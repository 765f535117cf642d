"""Plots of sets: points, coordinates and contours, compared with NumPy and scikit-learn."""

from types import SimpleNamespace

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.path import Path
from sklearn.decomposition import PCA

import dkdist as dk
from dkdist.plot._sets import choose_projection, dimension_names
from dkdist.plot._tuning import MAX_DRAWN_POINTS


def positions(ax):
    return np.asarray(ax.collections[0].get_offsets())


def titles(figure):
    return [ax.get_title(loc="left") for ax in figure.axes]


def test_points_are_drawn_at_their_coordinates(bags):
    np.testing.assert_allclose(positions(dk.plot.sets(bags, 4)), bags[4], rtol=1e-6)


def test_contours_contain_50_and_90_percent():
    points = np.random.default_rng(1).normal(size=(1000, 2))
    ax = dk.plot.sets([points])
    lines = ax.collections[1]
    inside = [path.contains_points(points).mean() for path in lines.get_paths()]
    assert inside[0] == pytest.approx(0.9, abs=0.02)  # the grid of the contour has a finite resolution
    assert inside[1] == pytest.approx(0.5, abs=0.02)
    assert isinstance(lines.get_paths()[0], Path)


def test_one_dimension_is_drawn_as_histogram(bags):
    values = bags[0][:, :1]
    ax = dk.plot.sets([values])
    edges = [p.get_x() for p in ax.patches] + [ax.patches[-1].get_x() + ax.patches[-1].get_width()]
    expected = np.histogram(values.astype("f4"), edges, density=True)[0]
    np.testing.assert_allclose([p.get_height() for p in ax.patches], expected)
    x, density = ax.lines[0].get_data()
    assert np.trapezoid(density, x) == pytest.approx(1, abs=0.05)


def test_several_dimensions_are_drawn_as_principal_components():
    points = np.random.default_rng(2).normal(size=(60, 4)) * [1, 5, 2, 0.5]
    ax = dk.plot.sets([points])
    expected = PCA(2).fit(points)
    np.testing.assert_allclose(np.abs(positions(ax)), np.abs(expected.transform(points)), atol=1e-5)
    percentage = 100 * expected.explained_variance_ratio_[0]
    assert ax.get_xlabel() == f"principal direction 1 ({percentage:.0f} %)"


def test_dims_select_columns():
    points = np.random.default_rng(3).normal(size=(20, 4))
    np.testing.assert_allclose(positions(dk.plot.sets([points], dims=(3, 1))), points[:, [3, 1]], rtol=1e-6)
    assert dk.plot.sets([points], dims=2).get_xlabel() == "dimension 2"
    named = SimpleNamespace(names=("cd3", "cd$4"), n_dims=2, points=points[:, :2])
    assert dimension_names(named) == ["cd3", "cd$4"]
    assert choose_projection(named, "cd$4").labels == (r"cd\$4",)


@pytest.mark.parametrize("dims", [4, (0, 0), (0, 1, 2), "cd3", 1.5, -1, True, ()])
def test_invalid_dims_raise(dims):
    with pytest.raises(ValueError, match="dims"):
        dk.plot.sets([np.zeros((5, 3))], dims=dims)


def test_sets_are_drawn_alternating_between_classes(bags):
    y = np.array(["b", "b", "b", "b", "a", "c"])
    assert titles(dk.plot.sets(bags[:6], y=y))[:4] == [
        "set 4: y = a, 40 points",
        "set 0: y = b, 40 points",
        "set 5: y = c, 40 points",
        "set 1: y = b, 40 points",
    ]


def test_sets_are_drawn_in_order_of_numbers(bags):
    panel_titles = titles(dk.plot.sets(bags, y=np.linspace(1, 0, 30)))
    assert panel_titles[0].startswith("set 29: y = 0,")
    assert panel_titles[-1].startswith("set 0: y = 1,")


def test_panels_share_limits(bags):
    figure = dk.plot.sets(bags, [0, 1, 2])
    assert isinstance(figure, Figure)
    assert len({(ax.get_xlim(), ax.get_ylim()) for ax in figure.axes}) == 1
    assert all(
        (bags[k].min(axis=0) >= [ax.get_xlim()[0], ax.get_ylim()[0]]).all()
        for k, ax in enumerate(figure.axes)
    )


def test_marker_sizes_follow_weights():
    points = np.random.default_rng(4).normal(size=(5, 2))
    sets = dk.SampleSets.from_arrays([points], [np.arange(5.0)])
    sizes = dk.plot.sets(sets).collections[0].get_sizes()
    np.testing.assert_allclose(sizes / sizes[1], np.arange(5.0))


def test_negative_weight_raises():
    sets = dk.SampleSets.from_arrays([np.ones((2, 2))] * 3, [[1, 1], [1, 1], [1, -1]])
    with pytest.raises(dk.SampleSetError, match="set 2"):
        dk.plot.sets(sets, [0, 2])


def test_strings_are_drawn_as_symbol_counts():
    figure = dk.plot.sets(["GATTACA", "CC"])
    heights = [[p.get_height() for p in ax.patches] for ax in figure.axes]
    np.testing.assert_allclose(heights, [[3 / 7, 1 / 7, 1 / 7, 2 / 7], [0, 1, 0, 0]])
    assert [t.get_text() for t in figure.axes[0].get_xticklabels()] == list("ACGT")


def test_store_and_memory_give_the_same_plot(bags, tmp_path):
    store = dk.write_sets(tmp_path / "s", bags)
    np.testing.assert_array_equal(positions(dk.plot.sets(store, 7)), positions(dk.plot.sets(bags, 7)))


def test_large_sets_are_sampled_and_labelled():
    ax = dk.plot.sets([np.random.default_rng(0).normal(size=(MAX_DRAWN_POINTS + 1, 2))])
    assert len(positions(ax)) == MAX_DRAWN_POINTS
    assert ax.get_title(loc="left") == "set 0: 3,000 of 3,001 points"


@pytest.mark.parametrize("shape", [(1, 1), (1, 2), (30, 1), (30, 2), (30, 5)])
def test_equal_points_are_drawn(shape):
    ax = dk.plot.sets([np.full(shape, 3.0)])
    ax.figure.canvas.draw()
    assert ax.get_xlim()[0] < ax.get_xlim()[1]


@pytest.mark.parametrize("which", [30, -1, [0, 99], "all", [], 1.5])
def test_invalid_which_raises(which, bags):
    with pytest.raises(ValueError, match="which"):
        dk.plot.sets(bags, which)


@pytest.mark.parametrize(
    "y", [[0, 1], np.zeros((30, 2)), np.full(30, np.nan), np.arange(30).astype(str).repeat(1)[:0]]
)
def test_invalid_targets_raise(y, bags):
    with pytest.raises(ValueError, match="y"):
        dk.plot.sets(bags, y=y)


def test_ax_needs_one_axes_per_set(bags):
    panels = Figure().subplots(1, 2)
    dk.plot.sets(bags, [3, 5], ax=panels)
    assert [ax.get_title(loc="left") for ax in panels] == ["set 3: 40 points", "set 5: 40 points"]
    with pytest.raises(ValueError, match="ax must have one Axes for each of the 3 sets; got 2"):
        dk.plot.sets(bags, [3, 5, 6], ax=panels)


def test_contributions_colour_points(bags):
    values = np.random.default_rng(5).normal(size=40)
    ax = dk.plot.contributions(bags[:2], [np.zeros(40), values], 1)
    markers = ax.collections[0]
    order = np.argsort(np.abs(values))  # the largest contributions are on top
    np.testing.assert_allclose(markers.get_array(), values[order])
    np.testing.assert_allclose(markers.get_offsets(), bags[1][order], rtol=1e-6)
    assert markers.get_clim() == (-np.abs(values).max(), np.abs(values).max())
    assert ax.get_title(loc="left") == f"set 1: 40 points contribute {values.sum():+.4g}"


def test_contributions_need_an_output(bags):
    values = np.random.default_rng(6).normal(size=(40, 3))
    with pytest.raises(ValueError, match="output must be given for contributions to 3 outputs"):
        dk.plot.contributions(bags[:1], [values])
    ax = dk.plot.contributions(bags[:1], [values], output=2)
    np.testing.assert_allclose(np.sort(ax.collections[0].get_array()), np.sort(values[:, 2]))


def test_contributions_in_one_dimension_and_of_strings(bags):
    values = np.linspace(-1, 1, 40)
    positions_on_line = positions(dk.plot.contributions([bags[0][:, :1]], [values]))
    np.testing.assert_allclose(
        positions_on_line[np.argsort(positions_on_line[:, 1]), 0], bags[0][:, 0], rtol=1e-6
    )
    ax = dk.plot.contributions(["CAB"], [[0.5, -1, 0]])
    assert [p.get_height() for p in ax.patches] == [0.5, -1, 0]
    assert [t.get_text() for t in ax.get_xticklabels()] == list("CAB")


@pytest.mark.parametrize(
    "contributions", [[], [np.zeros(39)], np.zeros((1, 40)), [np.full(40, np.nan)], "no", [np.zeros(40)] * 2]
)
def test_invalid_contributions_raise(contributions, bags):
    with pytest.raises(ValueError, match="contributions"):
        dk.plot.contributions(bags[:1], contributions)
