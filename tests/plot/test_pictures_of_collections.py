"""Plots of collections, matrices and witness functions show the given values in the documented order."""

import numpy as np
import pytest
from matplotlib.colors import to_hex
from scipy.spatial.distance import pdist, squareform
from sklearn.decomposition import PCA

import dkdist as dk
from dkdist.plot._canvas import PALETTE
from dkdist.plot._tuning import MAX_MAP_SETS

RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(40, 6)) * [3, 2, 1, 1, 1, 1]
Y = np.arange(40) % 3


def positions(ax):
    return np.concatenate([np.asarray(c.get_offsets()) for c in ax.collections])


def test_collection_of_rows_shows_principal_components():
    ax = dk.plot.collection(ROWS)
    result = PCA(2).fit(ROWS)
    np.testing.assert_allclose(np.abs(positions(ax)), np.abs(result.transform(ROWS)), atol=1e-9)
    assert ax.get_xlabel() == f"component 1 ({100 * result.explained_variance_ratio_[0]:.0f} %)"
    assert ax.get_aspect() == 1


def test_collection_of_distances_keeps_distances():
    points = RNG.normal(size=(25, 2))
    ax = dk.plot.collection(squareform(pdist(points)), distances=True)
    np.testing.assert_allclose(pdist(positions(ax)), pdist(points), atol=1e-9)
    assert ax.get_ylabel().startswith("axis 2")


def test_collection_of_sets_uses_quantiles(bags, tmp_path):
    rows = dk.SlicedWassersteinEmbedding(random_state=0).fit_transform(bags)
    expected = positions(dk.plot.collection(rows))
    store = dk.write_sets(tmp_path / "s", bags)
    for sets in (bags, dk.SampleSets.from_arrays(bags), np.array(bags), store):
        np.testing.assert_allclose(positions(dk.plot.collection(sets)), expected, atol=1e-6)


def test_classes_have_colours_and_a_legend():
    names = np.array(["a", "b", "c"])[Y]
    ax = dk.plot.collection(ROWS, names)
    colours = [to_hex(c) for c in ax.collections[0].get_facecolors()]
    assert colours == [PALETTE[k].lower() for k in Y]
    assert [t.get_text() for t in ax.get_legend().get_texts()] == ["a", "b", "c"]


def test_names_of_series_are_labels():
    pandas = pytest.importorskip("pandas")
    ax = dk.plot.collection(ROWS, pandas.Series(Y.astype(str), name="stage"))
    assert ax.get_legend().get_title().get_text() == "stage"
    (bar,) = dk.plot.collection(ROWS, pandas.Series(Y / 2, name="age")).figure.axes[1:]
    assert bar.get_ylabel() == "age"


def test_numbers_have_a_colour_bar():
    ax = dk.plot.collection(ROWS, np.linspace(2, 9, 40))
    (bar,) = [other for other in ax.figure.axes if other is not ax]
    assert bar.get_ylim() == (2, 9)
    # many distinct integers are numbers, not classes
    assert len(dk.plot.collection(ROWS, np.arange(40)).figure.axes) == 2


def test_many_classes_use_several_markers():
    ax = dk.plot.collection(ROWS, np.array(list("abcdefghijkl"))[np.arange(40) % 12])
    assert len(ax.collections) == 2
    assert len(ax.get_legend().get_texts()) == 12
    with pytest.raises(ValueError, match="y must have at most 48 classes"):
        dk.plot.collection(np.zeros((60, 2)), np.arange(60).astype(str))


def test_large_collections_are_sampled():
    ax = dk.plot.collection(RNG.normal(size=(MAX_MAP_SETS + 5, 3)))
    assert len(positions(ax)) == MAX_MAP_SETS
    assert ax.get_title(loc="left") == "3,000 sets of 3,005"


def test_equal_rows_are_drawn_at_one_position():
    assert not positions(dk.plot.collection(np.ones((5, 3)))).any()
    assert not positions(dk.plot.collection(np.zeros((5, 5)), distances=True)).any()
    assert len(positions(dk.plot.collection(np.arange(5.0)[:, None]))) == 5


@pytest.mark.parametrize(
    ("rows", "options", "message"),
    [
        (np.zeros((2, 2)), {}, "three sets or more"),
        (np.zeros(5), {}, "rows must be"),
        (np.full((5, 2), np.nan), {}, "rows must be finite; row 0 is not"),
        (np.zeros((5, 4)), {"distances": True}, r"distances must be \(n, n\)"),
        (np.arange(9.0).reshape(3, 3), {"distances": True}, "symmetric"),
        (-np.ones((3, 3)), {"distances": True}, "distances must be >= 0"),
    ],
)
def test_invalid_rows_raise(rows, options, message):
    with pytest.raises(ValueError, match=message):
        dk.plot.collection(rows, **options)


def test_distances_must_be_boolean():
    with pytest.raises(TypeError, match="distances"):
        dk.plot.collection(ROWS, distances="no")


def matrix(n=12):
    points = RNG.permutation(np.repeat([0.0, 10], n // 2))[:, None] + RNG.normal(size=(n, 1))
    return points[:, 0] > 5, squareform(pdist(points))


def label_order(ax):
    return [int(t.get_text()) for t in ax.get_yticklabels()]


def test_distances_are_ordered_by_clustering():
    far, D = matrix()
    ax = dk.plot.distances(D)
    positions_in_order = label_order(ax)
    assert sorted(positions_in_order) == list(range(12))
    assert np.abs(np.diff(far[positions_in_order].astype(int))).sum() == 1
    np.testing.assert_array_equal(ax.images[0].get_array(), D[np.ix_(positions_in_order, positions_in_order)])


def test_distances_are_ordered_by_classes_with_labels():
    far, D = matrix()
    ax = dk.plot.distances(D, np.where(far, "far", "near"))
    pixels = np.asarray(ax.images[0].get_array())
    assert pixels[:6, :6].max() < pixels[:6, 6:].min()
    assert [t.get_text() for t in ax.get_yticklabels()] == ["far", "near"]
    assert ax.get_yticks().tolist() == [2.5, 8.5]
    assert [line.get_ydata()[0] for line in ax.lines] == [5.5, 0]


def test_distances_are_ordered_by_numbers():
    _, D = matrix()
    y = RNG.permutation(12) / 2.0
    ax = dk.plot.distances(D, y)
    assert label_order(ax) == np.argsort(y).tolist()


@pytest.mark.parametrize("n", [2, 3, 60])
def test_asymmetric_matrices_are_not_changed(n):
    D = RNG.random((n, n))
    pixels = np.asarray(dk.plot.distances(D).images[0].get_array())
    np.testing.assert_array_equal(np.sort(pixels.ravel()), np.sort(D.ravel()))


@pytest.mark.parametrize(
    "matrix", [np.zeros((2, 3)), np.zeros(4), np.zeros((1, 1)), [[0, np.nan], [np.nan, 0]]]
)
def test_invalid_matrices_raise(matrix):
    with pytest.raises(ValueError, match="matrix must be"):
        dk.plot.distances(matrix)


def test_witness_in_one_dimension_shows_its_values():
    P, Q = RNG.normal(-1, 1, (80, 1)), RNG.normal(1, 1, (60, 1))
    x, f = dk.plot.witness(P, Q, sigma=0.4).lines[0].get_data()
    np.testing.assert_allclose(f, dk.witness(P, Q, x[:, None], sigma=0.4))


def test_witness_in_two_dimensions_shows_both_sets():
    P, Q = RNG.normal(-1, 1, (80, 2)), RNG.normal(1, 1, (60, 2))
    ax = dk.plot.witness(P, Q, kernel="gaussian")
    field, p, q = ax.collections
    np.testing.assert_allclose(p.get_offsets(), P)
    np.testing.assert_allclose(q.get_offsets(), Q)
    assert field.levels.min() == -field.levels.max() < 0
    assert [t.get_text() for t in ax.get_legend().get_texts()] == ["P", "Q"]


def test_witness_of_equal_sets_is_zero():
    P = RNG.normal(size=(20, 2))
    dk.plot.witness(P, P).figure.canvas.draw()
    ax = dk.plot.witness(P[:, :1], P[:, :1])
    assert np.abs(ax.lines[0].get_ydata()).max() < 1e-3 * ax.get_ylim()[1]  # rounding errors are invisible


def test_witness_in_three_dimensions_raises():
    with pytest.raises(ValueError, match="P must have at most 2 dimensions; got 3"):
        dk.plot.witness(np.zeros((4, 3)), np.ones((4, 3)))
