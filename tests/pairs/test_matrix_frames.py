"""Matrices of all pairs as data frames: the same numbers, with ids of the sets as labels."""

import numpy as np
import pytest

import dkdist as dk

RNG = np.random.default_rng(0)
SETS = dk.SampleSets.from_arrays([RNG.normal(size=(12, 2)) for _ in range(4)], ids=list("dbca"))
CALLS = {
    "distance": lambda *a, **k: dk.distance_matrix(*a, distance="energy", **k),
    "divergence": lambda sets, other=None, **k: dk.divergence_matrix(sets, "jensen-shannon", other, **k),
}


@pytest.mark.parametrize("name", CALLS)
def test_as_frame_has_ids(name, tmp_path):
    call = CALLS[name]
    for sets in (SETS, dk.write_sets(tmp_path / "s.zarr", SETS)):
        result = call(sets, as_frame=True)
        assert result.index.tolist() == result.columns.tolist() == list("dbca")
        np.testing.assert_array_equal(result.to_numpy(), call(sets))
    cross = call(SETS, list(SETS)[:2], as_frame=True)
    assert cross.shape == (4, 2)
    assert (cross.index.tolist(), cross.columns.tolist()) == (list("dbca"), [0, 1])
