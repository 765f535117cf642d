"""Collections in memory: accepted input, refused input with messages, and indexing."""

import pickle

import dask.array as da
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dkdist as dk
from dkdist._base.invalid_sets import require_nonnegative_weights
from dkdist.sets import SampleSetError, SampleSets, as_sample_sets


def bags(sizes=(3, 1, 4, 2), d=2, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.random((n, d)).astype("f4") for n in sizes]


def test_a_list_of_arrays_is_returned_set_by_set():
    arrays = bags()
    sets = SampleSets.from_arrays(arrays)
    assert len(sets) == 4
    assert sets.shape == (4,)
    assert sets.n_dims == 2
    assert sets.n_points == 10
    assert sets.sizes.tolist() == [3, 1, 4, 2]
    assert sets.offsets.tolist() == [0, 3, 4, 8, 10]
    assert sets.points.dtype == np.float32
    assert sets.points.flags.c_contiguous
    for result, expected in zip(sets, arrays, strict=True):
        np.testing.assert_array_equal(result, expected)
    np.testing.assert_array_equal(sets[-1], arrays[3])
    np.testing.assert_array_equal(sets[np.int64(2)], arrays[2])


def test_contiguous_slices_are_views_and_nothing_is_writable():
    sets = SampleSets.from_arrays(bags(), weights=[np.ones(n) for n in (3, 1, 4, 2)])
    part = sets[1:3]
    assert np.shares_memory(part.points, sets.points)
    assert np.shares_memory(part.weights, sets.weights)
    assert part.offsets.tolist() == [0, 1, 5]
    assert np.shares_memory(sets[np.array([False, True, True, False])].points, sets.points)
    for array in (sets.points, sets.offsets, sets.weights, part.points, sets[0]):
        assert not array.flags.writeable


def test_float32_input_is_not_copied():
    points = np.zeros((4, 2), "f4")
    assert np.shares_memory(SampleSets(points, [0, 4]).points, points)
    assert np.shares_memory(as_sample_sets(np.zeros((2, 3, 1), "f4").copy()).points, points) is False


def test_one_dimensional_arrays_are_one_column():
    arrays = [np.array([1e9 + 0.25, 1e9 + 2.5]), np.array([[1e9 - 1.5]]), [1e9, 1e9 + 0.5]]
    columns = [np.reshape(a, (-1, 1)) for a in arrays]
    sets, expected = SampleSets.from_arrays(arrays), SampleSets.from_arrays(columns)
    np.testing.assert_array_equal(sets.points, expected.points)
    np.testing.assert_array_equal(SampleSets(sets.points[:, 0], sets.offsets).points, expected.points)
    origin = np.array([1e9 + 1])
    np.testing.assert_array_equal(
        as_sample_sets(arrays, origin).relative, as_sample_sets(columns, origin).relative
    )
    with pytest.raises(SampleSetError, match=r"set 0 must have shape .* got \(\)\. Pass \[x\] for one set"):
        as_sample_sets([1.0, 2.0])


def test_one_dimensional_points_of_functions_are_one_column():
    x, y, z = np.random.default_rng(0).random((3, 20))
    columns = x[:, None], y[:, None], z[:, None]
    lazy = da.from_array(x, chunks=7), da.from_array(columns[0], chunks=(7, 1))
    for function in (
        lambda x, y, z: dk.kernel_distance(x, y),
        lambda x, y, z: dk.witness(x, y, z),
        lambda x, y, z: dk.coreset(x, 5, random_state=0).points,
        lambda x, y, z: dk.two_sample_test(x, y, random_state=0).p_value,
        lambda x, y, z: dk.distance_matrix([x, y, z]),
    ):
        np.testing.assert_array_equal(function(x, y, z), function(*columns))
    for function in (
        lambda p: dk.kernel_distance(p, y, sigma=0.1, eps=1e-3),
        lambda p: dk.two_sample_test(p, y, random_state=0).p_value,
    ):
        np.testing.assert_array_equal(function(lazy[0]), function(lazy[1]))


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(1, 6), min_size=1, max_size=12), st.integers(1, 4), st.data())
def test_indexing_equals_indexing_of_a_list(sizes, d, data):
    arrays = bags(sizes, d)
    weights = [np.arange(n, dtype="f4") + i for i, n in enumerate(sizes)]
    sets = SampleSets.from_arrays(arrays, weights)
    n = len(sizes)
    key = data.draw(
        st.slices(n)
        | st.lists(st.booleans(), min_size=n, max_size=n).map(lambda v: np.array(v, bool))
        | st.lists(st.integers(-n, n - 1), max_size=9).map(lambda v: np.array(v, dtype=int))
    )
    expected = np.arange(n)[key]
    for chosen in (sets[key], sets[key, ...]):
        assert len(chosen) == len(expected)
        for j, i in enumerate(expected):
            np.testing.assert_array_equal(chosen[j], arrays[i])
            np.testing.assert_array_equal(chosen.weights_of(j), weights[i])


def test_invalid_indices_are_refused():
    sets = SampleSets.from_arrays(bags())
    for key, message in (
        (4, "set 4 is out of range for 4 sets"),
        ([0, -5], "set -5 is out of range"),
        (np.array([True, False]), "mask must have one entry per set, 4; got 2"),
        (np.array([0.5]), "float64"),
        (np.zeros((2, 2), int), "shape"),
    ):
        with pytest.raises(IndexError, match=message):
            sets[key]


@pytest.mark.parametrize("n", [1, 3, 1000, 5000])
@pytest.mark.parametrize("d", [1, 3, 2000])
def test_bounds_are_the_minimum_and_maximum_of_columns(n, d):
    points = np.random.default_rng(n + d).standard_normal((n, d)).astype("f4")
    low, high = SampleSets(points, [0, n]).bounds
    np.testing.assert_array_equal(low, points.min(axis=0))
    np.testing.assert_array_equal(high, points.max(axis=0))


def test_no_sets_have_no_bounds():
    with pytest.raises(SampleSetError, match="0 sets"):
        _ = SampleSets.from_arrays(bags())[:0].bounds


def test_codes_of_strings_are_kept_and_other_integers_become_float32():
    assert SampleSets.from_arrays([np.array([[65], [66]], "u1")]).points.dtype == np.uint8
    assert SampleSets(np.array([[65000]], "u2"), [0, 1]).points.dtype == np.uint16
    assert SampleSets(np.zeros((3, 2), "u1"), [0, 3]).points.dtype == np.float32
    assert SampleSets.from_arrays([np.zeros((1, 1), "u1"), np.zeros((1, 1))]).points.dtype == np.float32
    assert SampleSets.from_arrays([np.array([[7]], "i8")])[0].dtype == np.float32


def test_pickle_keeps_points_offsets_and_weights():
    sets = SampleSets.from_arrays(bags(), weights=[np.ones((n, 2)) for n in (3, 1, 4, 2)])[1:]
    copy = pickle.loads(pickle.dumps(sets))
    np.testing.assert_array_equal(copy.points, sets.points)
    np.testing.assert_array_equal(copy.offsets, sets.offsets)
    np.testing.assert_array_equal(copy.weights, sets.weights)
    assert not copy.points.flags.writeable


def test_as_sample_sets_accepts_sets_cubes_and_tuples():
    sets = SampleSets.from_arrays(bags())
    assert as_sample_sets(sets) is sets
    cube = np.arange(24.0).reshape(4, 3, 2)
    np.testing.assert_array_equal(as_sample_sets(cube)[2], cube[2])
    np.testing.assert_array_equal(as_sample_sets(tuple(bags()))[0], bags()[0])
    with pytest.raises(SampleSetError, match=r"shape \(4, 2\).*\[X\] for one set"):
        as_sample_sets(np.zeros((4, 2)))
    with pytest.raises(SampleSetError, match="got str"):
        as_sample_sets("abc")


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ([np.zeros((2, 2)), np.zeros((0, 2))], "set 1 is empty"),
        ([np.zeros((2, 2)), np.array([[0, 1], [2, np.nan]])], "point 1 of set 1 is nan in column 1"),
        ([np.array([[-np.inf]])], "point 0 of set 0 is -inf"),
        ([np.zeros((1, 1)), np.array([[1e39]])], "point 0 of set 1 is inf.*float32"),
        ([np.zeros((2, 5)), np.zeros((2, 2))], "set 1 must have 5 dimensions, as set 0; got 2"),
        ([np.zeros((2, 2)), np.zeros(2)], r"set 1 must have 2 dimensions, as set 0; got 1"),
        ([np.zeros((2, 0))], r"got 0 dimensions \(set 0\)"),
        ([np.array([["a"]])], "set 0 must contain real numbers"),
        ([[[1, 2], [3]]], "set 0 cannot be converted to an array"),
        ([], "an empty list"),
    ],
)
def test_bad_sets_are_named(arrays, message):
    with pytest.raises(SampleSetError, match=message):
        SampleSets.from_arrays(arrays)


@pytest.mark.parametrize(
    ("offsets", "message"),
    [
        ([0, 3, 2, 6], r"offsets must increase; got 3 before 2 \(set 1\)"),
        ([0, 3, 3, 6], "set 1 is empty"),
        ([1, 3, 6], "must start at 0; got 1"),
        ([0, 3, 5], "end at the number of points, 6; got 5 .set 1."),
        ([0, 3, 7], "end at the number of points, 6; got 7"),
        ([0.0, 6.0], "integers"),
        ([], "integers"),
        ([[0, 6]], "shape"),
    ],
)
def test_bad_offsets_are_named(offsets, message):
    with pytest.raises(SampleSetError, match=message):
        SampleSets(np.zeros((6, 2)), offsets)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.ones(5), "weights must have one row per point, 6; got 5"),
        (np.array([1, 1, 1, np.inf, 1, 1]), "weight 1 of set 1 is inf"),
        (np.ones((6, 1, 1)), "shape"),
        (np.ones((6, 0)), "shape"),
    ],
)
def test_bad_weights_are_named(weights, message):
    with pytest.raises(SampleSetError, match=message):
        SampleSets(np.zeros((6, 2)), [0, 2, 6], weights)


def test_bad_weight_lists_are_named():
    with pytest.raises(SampleSetError, match="weights must contain one array per set, 2; got 1"):
        SampleSets.from_arrays(bags((2, 3)), [np.ones(2)])
    with pytest.raises(SampleSetError, match=r"weights of set 1 must have shape \(3,\) .*; got \(2,\)"):
        SampleSets.from_arrays(bags((2, 3)), [np.ones(2), np.ones(2)])


def test_points_need_one_or_two_axes():
    with pytest.raises(SampleSetError, match=r"got \(6, 1, 1\)"):
        SampleSets(np.zeros((6, 1, 1)), [0, 6])


def test_signed_weights_are_kept_but_refused_as_a_distribution():
    def weighted(*weights):
        return SampleSets.from_arrays(
            [np.zeros((len(w), 1)) for w in weights], list(map(np.asarray, weights))
        )

    require_nonnegative_weights(SampleSets.from_arrays(bags()))
    require_nonnegative_weights(weighted([0, 2.0], [1.0]))
    require_nonnegative_weights(weighted([0, 2.0], [1.0])[:0])
    with pytest.raises(SampleSetError, match="weight of point 1 of set 2 is -1"):
        require_nonnegative_weights(weighted([1.0], [1.0], [3.0, -1.0]))
    with pytest.raises(SampleSetError, match="weights of set 1 must have a positive sum"):
        require_nonnegative_weights(weighted([1.0], [0.0, 0.0]))
    with pytest.raises(SampleSetError, match="1 channel per point; got 2"):
        require_nonnegative_weights(weighted([[1.0, 2.0]]))


def test_scikit_learn_can_split_and_index():
    sklearn_utils = pytest.importorskip("sklearn.utils")
    model_selection = pytest.importorskip("sklearn.model_selection")
    sets = SampleSets.from_arrays(bags((1, 2, 3, 4, 5, 6)))
    train, test = model_selection.train_test_split(sets, test_size=2, random_state=0)
    assert isinstance(train, SampleSets)
    assert sorted([*train.sizes, *test.sizes]) == [1, 2, 3, 4, 5, 6]
    assert sklearn_utils._safe_indexing(sets, [4, 0]).sizes.tolist() == [5, 1]


def test_data_frames_must_have_the_same_columns_in_the_same_order():
    pd = pytest.importorskip("pandas")
    frames = [pd.DataFrame({"x": [1.0, 2.0], "y": [3.0, 4.0]}) for _ in range(3)]
    assert SampleSets.from_arrays(frames).n_points == 6
    with pytest.raises(
        SampleSetError, match=r"columns of set 2 must equal .*, \['x', 'y'\]; got \['y', 'x'\]"
    ):
        SampleSets.from_arrays([*frames[:2], frames[2][["y", "x"]]])
