"""Every entry point expands a leading ~ to the home folder."""

from __future__ import annotations

import os

import numpy as np
import pytest

import dkdist as dk
from dkdist._numba import compilation as compile
from dkdist.cli import main

SETS = [np.random.default_rng(i).normal(size=(5 + i, 2)) for i in range(8)]


@pytest.fixture
def home(tmp_path, monkeypatch):
    home, work = tmp_path / "home", tmp_path / "work"
    home.mkdir()
    work.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("USERPROFILE", str(home))
    code = compile.code_cache()
    monkeypatch.setattr(compile, "code_cache", lambda: code)  # stays where it was
    monkeypatch.chdir(work)
    yield home
    assert os.listdir(work) == []


def test_functions_expand_the_home_folder(home):
    assert len(dk.write_sets("~/s.zarr", SETS, targets=np.arange(8) % 2)) == 8
    assert len(dk.open_sets("~/s.zarr")) == 8
    model = dk.MomentEmbedding().fit(SETS)
    dk.save_model(model, "~/m.npz")
    assert (home / "m.npz").is_file()
    np.testing.assert_array_equal(dk.load_model("~/m.npz").transform(SETS), model.transform(SETS))
    dk.write_features("~/f.zarr", model.transform(dk.open_sets("~/s.zarr")))
    X, y = dk.open_features("~/f.zarr"), np.arange(8) % 2
    dk.IncrementalSGDClassifier(n_epochs=1, checkpoint="~/ck", cache="~", random_state=0).fit(X, y)
    (home / "tables").mkdir()
    (home / "tables" / "t.csv").write_text("set,x\na,1\na,2\nb,3\n")
    for i, source in enumerate(("~/tables/t.csv", "~/tables")):
        assert len(dk.import_sets(f"~/t{i}.zarr", [source], dk.TableReader("set"))) == 2


def test_commands_expand_the_home_folder(home):
    dk.write_sets("~/s.zarr", SETS, targets=np.arange(8) % 2)
    small = ["--features", "0", "--domain=-5,5", "--bandwidth", "0.2"]
    assert main(["fit", "~/s.zarr", "--target", "y", "--model=~/m.npz", *small]) == 0
    assert main(["predict", "~/s.zarr", "--model=~/m.npz", "--output=~/p.csv"]) == 0
    assert sorted(os.listdir(home)) == ["m.npz", "p.csv", "s.zarr"]
