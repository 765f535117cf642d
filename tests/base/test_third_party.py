"""A third-party embedding needs at most 25 lines; the base class provides the rest."""

from __future__ import annotations

import inspect
import pickle
from dataclasses import dataclass

import numpy as np
import pytest
from sklearn.base import clone

import dkdist as dk
from dkdist._base.embedding import SetEmbedding
from dkdist._base.params import Params

MAX_LINES = 25


@dataclass(frozen=True)
class RangeParams(Params):
    n_dims: int
    n_features: int
    widths: tuple[float, ...]
    domain: None = None

    def embed(self, sets):
        return np.array([np.ptp(x, axis=0) / self.widths for x in sets], np.float32)


class RangeEmbedding(SetEmbedding):
    _label = "range_embedding"

    def __init__(self, on_error="raise"):
        self.on_error = on_error

    def _fit(self, sets, summary):
        return RangeParams(sets.n_dims, sets.n_dims, tuple((summary.high - summary.low).tolist()))


@pytest.fixture
def sets():
    rng = np.random.default_rng(0)
    return dk.SampleSets.from_arrays([rng.random((5 + i, 2)) for i in range(6)], names=["height", "width"])


def test_embedding_has_at_most_25_lines():
    lines = [line for kind in (RangeParams, RangeEmbedding) for line in inspect.getsource(kind).splitlines()]
    assert len(list(filter(None, lines))) <= MAX_LINES


def test_rows_match_the_formula(sets):
    low, high = sets.bounds
    expected = [np.ptp(x, axis=0) / (high - low) for x in sets]
    np.testing.assert_allclose(RangeEmbedding().fit_transform(sets), expected, rtol=1e-6)


def test_stores_give_lazy_rows(sets, tmp_path):
    with dk.SetWriter(tmp_path / "sets", n_dims=2) as writer:
        writer.append(sets)
    embedding = RangeEmbedding().fit(sets)
    rows = embedding.transform(dk.open_sets(tmp_path / "sets"))
    assert hasattr(rows, "dask")
    np.testing.assert_array_equal(rows.compute(), embedding.transform(sets))


def test_invalid_sets_raise_or_are_skipped(sets):
    weights = [np.ones(len(x)) for x in sets]
    weights[3][0] = -1
    weighted = dk.SampleSets.from_arrays(list(sets), weights=weights)
    with pytest.raises(dk.SampleSetError, match="set 3"):
        RangeEmbedding().fit(weighted)
    with pytest.warns(UserWarning, match="1 invalid set"):
        rows = RangeEmbedding(on_error="skip").fit_transform(weighted)
    assert np.isnan(rows).any(axis=1).tolist() == [False, False, False, True, False, False]


def test_different_dimensions_and_names_raise(sets):
    embedding = RangeEmbedding().fit(sets)
    with pytest.raises(dk.SampleSetError, match="dimension"):
        embedding.transform([np.zeros((2, 3))])
    with pytest.raises(dk.SampleSetError, match="width, height"):
        embedding.transform(dk.SampleSets.from_arrays(list(sets), names=["width", "height"]))


def test_embedding_can_be_cloned_and_pickled(sets):
    embedding = clone(RangeEmbedding(on_error="skip")).fit(sets)
    assert embedding.get_feature_names_out().tolist() == ["rangeembedding0", "rangeembedding1"]
    restored = pickle.loads(pickle.dumps(embedding))
    np.testing.assert_array_equal(restored.transform(sets), embedding.transform(sets))
