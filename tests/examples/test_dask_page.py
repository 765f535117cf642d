"""The examples of docs/dask.md run and give the described results."""

from pathlib import Path

import dask.array as da
import numpy as np
import pytest
from sklearn.metrics import accuracy_score

import dkdist as dk

from .test_pages import run


@pytest.mark.filterwarnings("ignore::UserWarning:xgboost")
def test_dask_page(tmp_path, monkeypatch):
    pytest.importorskip("xgboost")
    monkeypatch.chdir(tmp_path)
    names = run("dask.md", {})
    X, y = names["X"], names["y"]
    assert (type(X), X.dtype, len(X.chunks[0])) == (da.Array, np.float32, 7)
    assert names["accuracy"] == accuracy_score(y, names["predictions"].compute())
    assert names["accuracy"] > 0.6
    assert names["labels"].shape == (400,)
    stored = da.from_zarr("probabilities.zarr").compute()
    np.testing.assert_array_equal(stored, names["forest"].predict_proba(X.compute()))
    rows = X.compute()
    np.testing.assert_allclose(names["total"], rows.sum(axis=0), rtol=1e-4)
    assert names["state"]["n"] == 400
    np.testing.assert_allclose(names["state"]["gram"], rows.T.astype("f8") @ rows)
    assert Path("gram-run").exists()
    assert names["first"]["n"] == 0
    assert isinstance(names["predicted"], da.Array)
    assert len(dk.open_sets("cells.zarr")) == 400
