"""Fixtures: a store of sets with two targets, and two models fitted to it."""

from __future__ import annotations

import numpy as np
import pytest

import dkdist as dk
from dkdist.cli import main


@pytest.fixture(scope="session")
def bags(tmp_path_factory):
    """Return the path of a store of 60 sets in the plane with ids and targets "wide" (text) and "spread" (number)."""
    rng = np.random.default_rng(0)
    spread = rng.uniform(0.3, 1, 60)
    wide = np.where(np.median(spread) < spread, "wide", "narrow")
    path = tmp_path_factory.mktemp("stores") / "bags.zarr"
    sets = [rng.normal(0, s, (40, 2)) for s in spread]
    targets = {"wide": wide, "spread": spread}
    dk.write_sets(path, sets, targets=targets, ids=[f"bag {i}" for i in range(60)])
    return str(path)


@pytest.fixture(scope="session")
def small():
    """Return options for features that are fast to compute."""
    return ["--features", "60", "--bandwidth", "0.1", "--domain=-5,5"]


@pytest.fixture(scope="session")
def bag_models(bags, small, tmp_path_factory):
    """Return the folder of the models wide.npz and spread.npz."""
    folder = tmp_path_factory.mktemp("models")
    for target in ("wide", "spread"):
        command = ["fit", bags, "--target", target, "--model", str(folder / f"{target}.npz"), *small]
        assert main(command) == 0
    return folder
