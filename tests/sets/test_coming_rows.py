"""Rows streamed in pieces equal rows converted at once; unusual data is left to the full conversion."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dkdist._utils.validation import Columns
from dkdist.sets.point_checks import convert_points
from dkdist.sets.streams import StreamedRows

RNG = np.random.default_rng(0)
N = 3000
KINDS = {
    "float64": [RNG.normal(size=N), RNG.normal(size=N)],
    "float32": [RNG.normal(size=N).astype("f4"), RNG.normal(size=N).astype("f4")],
    "one": [RNG.normal(size=N)],
    "mixed": [RNG.normal(size=N), RNG.normal(size=N).astype("f4"), RNG.integers(-9, 9, N).astype("i4")],
    "far": [1.7e9 + RNG.uniform(0, 9, N), RNG.normal(size=N)],
}


def stream_rows(columns, cuts, origin):
    coming = StreamedRows(N, len(columns), origin)
    for a, b in itertools.pairwise([0, *sorted(cuts), N]):
        coming.add([column[a:b] for column in columns])
    return coming.result(), coming.origin


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=15, deadline=None)
@given(cuts=st.lists(st.integers(0, N), max_size=6))
def test_pieces_give_bit_identical_rows(kind, cuts):
    expected, origin = convert_points([Columns(KINDS[kind])], None)
    result, start = stream_rows(KINDS[kind], cuts, origin)
    np.testing.assert_array_equal(result.view(np.uint32), expected.view(np.uint32))
    assert (start is None and origin is None) or np.array_equal(start, origin)


def _with(value, row=N // 2):
    column = RNG.normal(size=N)
    column[row] = value
    return column


UNUSUAL = {
    "not a number": [_with(np.nan)],
    "infinite": [_with(-np.inf, 0)],
    "beyond float32": [_with(1e39, N - 1)],
    "far from where it is counted from": [1.7e9 + RNG.uniform(0, 9, N)],
    "nothing but zeros in float32": [np.full(N, 1e-60)],
    "integers of 64 bits": [RNG.integers(0, 9, N)],
    "codes of symbols": [RNG.integers(0, 4, N).astype("u1")],
    "booleans": [RNG.integers(0, 2, N).astype(bool)],
}


@pytest.mark.parametrize("kind", UNUSUAL)
def test_unusual_columns_are_not_streamed(kind):
    for cuts in ([], [7, N - 7]):
        assert stream_rows(UNUSUAL[kind], cuts, None)[0] is None


def test_missing_extra_or_retyped_rows_are_not_streamed():
    x = RNG.normal(size=N)
    short = StreamedRows(N, 1, None)
    assert short.add([x[:-1]])
    assert short.result() is None
    assert not short.add([x[:2]])
    other = StreamedRows(N, 1, None)
    assert other.add([x[:5]])
    assert not other.add([x[5:].astype("f4")])
