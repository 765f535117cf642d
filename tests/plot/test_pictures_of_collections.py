"""Maps, matrices and witness functions: what is drawn is what was given, in the order it should be."""

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


def places(ax):
    return np.concatenate([np.asarray(c.get_offsets()) for c in ax.collections])


def test_a_map_of_rows_is_their_principal_components():
    ax = dk.plot.collection(ROWS)
    result = PCA(2).fit(ROWS)
    np.testing.assert_allclose(np.abs(places(ax)), np.abs(result.transform(ROWS)), atol=1e-9)
    assert ax.get_xlabel() == f"component 1 ({100 * result.explained_variance_ratio_[0]:.0f} %)"
    assert ax.get_aspect() == 1


def test_a_map_of_distances_keeps_them():
    points = RNG.normal(size=(25, 2))
    ax = dk.plot.collection(squareform(pdist(points)), distances=True)
    np.testing.assert_allclose(pdist(places(ax)), pdist(points), atol=1e-9)
    assert ax.get_ylabel().startswith("axis 2")


def test_a_map_of_sets_is_that_of_their_quantiles(bags, tmp_path):
    rows = dk.SlicedWassersteinEmbedding(random_state=0).fit_transform(bags)
    expected = places(dk.plot.collection(rows))
    store = dk.write_sets(tmp_path / "s", bags)
    for sets in (bags, dk.SampleSets.from_arrays(bags), np.array(bags), store):
        np.testing.assert_allclose(places(dk.plot.collection(sets)), expected, atol=1e-6)


def test_classes_have_colours_and_a_key():
    names = np.array(["a", "b", "c"])[Y]
    ax = dk.plot.collection(ROWS, names)
    colours = [to_hex(c) for c in ax.collections[0].get_facecolors()]
    assert colours == [PALETTE[k].lower() for k in Y]
    assert [t.get_text() for t in ax.get_legend().get_texts()] == ["a", "b", "c"]


def test_a_column_of_a_frame_gives_its_name():
    pandas = pytest.importorskip("pandas")
    ax = dk.plot.collection(ROWS, pandas.Series(Y.astype(str), name="stage"))
    assert ax.get_legend().get_title().get_text() == "stage"
    (bar,) = dk.plot.collection(ROWS, pandas.Series(Y / 2, name="age")).figure.axes[1:]
    assert bar.get_ylabel() == "age"


def test_numbers_have_a_scale():
    ax = dk.plot.collection(ROWS, np.linspace(2, 9, 40))
    (bar,) = [other for other in ax.figure.axes if other is not ax]
    assert bar.get_ylim() == (2, 9)
    assert len(dk.plot.collection(ROWS, np.arange(40)).figure.axes) == 2  # many whole numbers are numbers


def test_more_classes_than_colours_differ_in_their_markers():
    ax = dk.plot.collection(ROWS, np.array(list("abcdefghijkl"))[np.arange(40) % 12])
    assert len(ax.collections) == 2
    assert len(ax.get_legend().get_texts()) == 12
    with pytest.raises(ValueError, match="y must have at most 48 classes"):
        dk.plot.collection(np.zeros((60, 2)), np.arange(60).astype(str))


def test_of_very_many_sets_some_are_on_the_map():
    ax = dk.plot.collection(RNG.normal(size=(MAX_MAP_SETS + 5, 3)))
    assert len(places(ax)) == MAX_MAP_SETS
    assert ax.get_title(loc="left") == "3,000 sets of 3,005"


def test_rows_that_are_all_the_same_are_one_point():
    assert not places(dk.plot.collection(np.ones((5, 3)))).any()
    assert not places(dk.plot.collection(np.zeros((5, 5)), distances=True)).any()
    assert len(places(dk.plot.collection(np.arange(5.0)[:, None]))) == 5


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
def test_rows_that_make_no_map_are_refused(rows, options, message):
    with pytest.raises(ValueError, match=message):
        dk.plot.collection(rows, **options)


def test_distances_are_a_switch():
    with pytest.raises(TypeError, match="distances"):
        dk.plot.collection(ROWS, distances="no")


def matrix(n=12):
    points = RNG.permutation(np.repeat([0.0, 10], n // 2))[:, None] + RNG.normal(size=(n, 1))
    return points[:, 0] > 5, squareform(pdist(points))


def order(ax):
    return [int(t.get_text()) for t in ax.get_yticklabels()]


def test_a_clustering_brings_together_what_is_near():
    far, D = matrix()
    ax = dk.plot.distances(D)
    shown = order(ax)
    assert sorted(shown) == list(range(12))
    assert np.abs(np.diff(far[shown].astype(int))).sum() == 1
    np.testing.assert_array_equal(ax.images[0].get_array(), D[np.ix_(shown, shown)])


def test_a_matrix_is_ordered_by_classes_and_named():
    far, D = matrix()
    ax = dk.plot.distances(D, np.where(far, "far", "near"))
    own = np.asarray(ax.images[0].get_array())
    assert own[:6, :6].max() < own[:6, 6:].min()
    assert [t.get_text() for t in ax.get_yticklabels()] == ["far", "near"]
    assert ax.get_yticks().tolist() == [2.5, 8.5]
    assert [line.get_ydata()[0] for line in ax.lines] == [5.5, 0]


def test_a_matrix_is_ordered_by_numbers():
    _, D = matrix()
    y = RNG.permutation(12) / 2.0
    ax = dk.plot.distances(D, y)
    assert order(ax) == np.argsort(y).tolist()


@pytest.mark.parametrize("n", [2, 3, 60])
def test_divergences_that_are_not_symmetric_are_drawn_as_they_are(n):
    D = RNG.random((n, n))
    pixels = np.asarray(dk.plot.distances(D).images[0].get_array())
    np.testing.assert_array_equal(np.sort(pixels.ravel()), np.sort(D.ravel()))


@pytest.mark.parametrize(
    "wrong", [np.zeros((2, 3)), np.zeros(4), np.zeros((1, 1)), [[0, np.nan], [np.nan, 0]]]
)
def test_what_is_no_matrix_is_refused(wrong):
    with pytest.raises(ValueError, match="matrix must be"):
        dk.plot.distances(wrong)


def test_the_witness_of_a_line_is_its_values():
    P, Q = RNG.normal(-1, 1, (80, 1)), RNG.normal(1, 1, (60, 1))
    x, f = dk.plot.witness(P, Q, sigma=0.4).lines[0].get_data()
    np.testing.assert_allclose(f, dk.witness(P, Q, x[:, None], sigma=0.4))


def test_the_witness_of_a_plane_has_both_sets_and_both_signs():
    P, Q = RNG.normal(-1, 1, (80, 2)), RNG.normal(1, 1, (60, 2))
    ax = dk.plot.witness(P, Q, kernel="gaussian")
    field, p, q = ax.collections
    np.testing.assert_allclose(p.get_offsets(), P)
    np.testing.assert_allclose(q.get_offsets(), Q)
    assert field.levels.min() == -field.levels.max() < 0
    assert [t.get_text() for t in ax.get_legend().get_texts()] == ["P", "Q"]


def test_equal_sets_have_a_witness_that_is_zero():
    P = RNG.normal(size=(20, 2))
    dk.plot.witness(P, P).figure.canvas.draw()
    ax = dk.plot.witness(P[:, :1], P[:, :1])
    assert np.abs(ax.lines[0].get_ydata()).max() < 1e-3 * ax.get_ylim()[1]  # rounding is no picture


def test_a_witness_in_space_is_refused():
    with pytest.raises(ValueError, match="P must have at most 2 dimensions; got 3"):
        dk.plot.witness(np.zeros((4, 3)), np.ones((4, 3)))
