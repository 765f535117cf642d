"""User functions as distances: their values are kept, and errors name the pair of sets."""

import re

import numpy as np
import pytest
import zarr

import dkdist as dk

SETS = [np.full((2, 1), float(i)) for i in range(10)]


def constant(value):
    return dk.pairwise(lambda a, b: 0.0 if a[0, 0] == b[0, 0] else value)


def stored(sets):
    return dk.write_sets(zarr.storage.MemoryStore(), sets)


@pytest.mark.parametrize("value", [1e39, 1e-46, 123456789.0, 1 / 3, 1e-300, 1.7e308])
def test_a_matrix_keeps_the_values(value):
    for sets in (SETS, stored(SETS)):
        D = dk.distance_matrix(sets, distance=constant(value))
        assert D.dtype == np.float64
        assert np.array_equal(D, value * (1 - np.eye(10)))


@pytest.mark.parametrize("value", [1e39, 1e-46])
def test_features_refuse_what_float32_does_not_hold(value):
    embedding = dk.DistanceEmbedding(constant(value), n_components=4, gamma=1.0, random_state=0)
    for sets in (SETS, stored(SETS)):
        with pytest.raises(
            dk.SampleSetError,
            match=rf"of set 0 to random object \d must be .* float32.*; got {re.escape(f'{value:g}')}, which rounds",
        ):
            np.asarray(embedding.fit(sets).transform(sets))
    with pytest.raises(dk.SampleSetError, match="in the range of float32"):
        dk.DistanceEmbedding(constant(value), n_components=4, random_state=0).fit(SETS)


def invalid_for(x, result=-1.0):
    """Return a function that fails for pairs with object ``x``, which the validated sample of 8 sets lacks."""

    def function(a, b):
        if x in (a[0, 0], b[0, 0]):
            if result is None:
                raise KeyError("lost")
            return result
        return abs(a[0, 0] - b[0, 0])

    return dk.pairwise(function)


def test_errors_of_a_matrix_name_the_pair():
    nan_one_way = dk.pairwise(lambda a, b: np.nan if (a[0, 0], b[0, 0]) == (8, 1) else 1.0, symmetric=False)
    for sets in (SETS, stored(SETS)):
        with pytest.raises(
            dk.SampleSetError, match=r"distance of set \d to set 9 must be a finite number >= 0; got -1\.0"
        ):
            dk.distance_matrix(sets, distance=invalid_for(9.0))
        with pytest.raises(dk.SampleSetError, match=r"of set 8 to set 1 of other must be .*; got nan"):
            dk.distance_matrix(sets, SETS[:2], distance=nan_one_way)
        with pytest.raises(
            dk.SampleSetError, match=r"of set \d to set 9 cannot be computed; .* KeyError: 'lost'"
        ) as result:
            dk.distance_matrix(sets, distance=invalid_for(9.0, None))
        assert isinstance(result.value.__cause__, KeyError)


@pytest.mark.parametrize("invalid_result", [-1.0, None])
def test_errors_of_an_embedding_name_the_set_and_on_error_skips_it(invalid_result):
    distance = invalid_for(-5.0, invalid_result)
    value = [*SETS[:7], np.full((2, 1), -5.0), *SETS[7:]]
    fitted = dk.DistanceEmbedding(distance, n_components=4, random_state=0).fit(SETS)
    for sets in (value, dk.SampleSets.from_arrays(value), stored(value)):
        with pytest.raises(dk.SampleSetError, match="the distance of set 7 to random object 0"):
            np.asarray(fitted.set_params(on_error="raise").transform(sets))
        with pytest.warns(UserWarning, match=r"1 invalid set\(s\) .* rows of NaN, .*: 7\. First error"):
            rows = np.asarray(fitted.set_params(on_error="skip").transform(sets))
        assert np.isnan(rows).all(axis=1).tolist() == [i == 7 for i in range(11)]
        assert np.array_equal(np.delete(rows, 7, axis=0), fitted.transform(SETS))


def test_a_function_invalid_on_the_sample_is_refused_with_the_sets():
    for sets in (SETS, stored(SETS)):
        with pytest.raises(
            ValueError, match=r"function must return a finite number >= 0; got -1\.0 for sets 0 and 3"
        ):
            dk.distance_matrix(sets, distance=invalid_for(3.0))
        with pytest.raises(
            ValueError, match=r"function must return a finite number >= 0; got .* for sets \d and \d"
        ):
            dk.DistanceEmbedding(invalid_for(3.0), n_components=2, random_state=0).fit(sets[:6])


def test_a_matrix_warns_of_coarse_float32_as_embeddings_do():
    coarse = [np.float32(1e9) + 64 * np.arange(5, dtype="f4")[:, None] for _ in range(3)]
    for measure in (lambda s: dk.distance_matrix(s, distance="energy"), dk.L2Embedding().fit):
        with pytest.warns(
            UserWarning, match="column 0 has only 5 float32 values between 1000000000 and 1000000256"
        ):
            measure(coarse)
