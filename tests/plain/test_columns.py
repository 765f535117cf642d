"""Points passed as columns give the same sets as points passed as rows."""

import itertools

import numpy as np
import pytest

import dkdist as dk
from dkdist._utils.validation import Columns
from dkdist.sets.conversion import sets_from_parts
from dkdist.sets.origins import TILE_ROWS

RNG = np.random.default_rng(0)
N = 2 * TILE_ROWS + 5
KINDS = {
    "near": lambda: [RNG.normal(size=N), RNG.normal(size=N).astype("f4"), RNG.integers(0, 99, N)],
    "far": lambda: [1.7e9 + RNG.uniform(0, 9, N), RNG.normal(size=N)],
    "large integers": lambda: [2**60 + RNG.integers(0, 1000, N)],
    "codes": lambda: [RNG.integers(0, 4, N).astype("u1")],
    "booleans": lambda: [RNG.integers(0, 2, N).astype(bool), RNG.normal(size=N)],
}


@pytest.mark.parametrize("kind", KINDS)
def test_columns_match_rows_in_one_or_several_parts(kind):
    columns, offsets = KINDS[kind](), [0, 7, N]
    whole = dk.SampleSets(np.stack(columns, axis=1), offsets)
    cuts = [0, 3, TILE_ROWS, N]
    parts = [Columns([c[a:b] for c in columns]) for a, b in itertools.pairwise(cuts)]
    for result in (dk.SampleSets(Columns(columns), offsets), sets_from_parts(parts, offsets, None, None)):
        np.testing.assert_array_equal(result.offsets, whole.offsets)
        assert result.relative.flags.c_contiguous
        assert result.points_dtype == whole.points_dtype
    rebuilt = sets_from_parts(parts, offsets, np.ones(N), whole.origin)
    np.testing.assert_array_equal(rebuilt.relative, whole.relative)
    assert rebuilt.weights.tolist() == [1.0] * N


def test_columns_index_as_rows():
    columns = Columns([np.arange(3), np.arange(3.0) / 2])
    assert (columns.shape, columns.dtype, len(columns)) == ((3, 2), np.float64, 3)
    assert columns[1].tolist() == [1, 0.5]
    assert np.asarray(columns).tolist() == [[0, 0], [1, 0.5], [2, 1]]


def test_nonfinite_columns_raise_and_far_columns_get_an_origin():
    x = np.ones(8)
    x[5] = np.inf
    with pytest.raises(dk.SampleSetError, match=r"point 1 of set 1 is inf in column 0"):
        sets_from_parts([Columns([x])], [0, 4, 8], None, None)
    far = Columns([1e12 + RNG.uniform(0, 1, 64)])
    assert sets_from_parts([far], [0, 64], None, np.zeros(1)).origin[0] == pytest.approx(1e12)  # not 0
