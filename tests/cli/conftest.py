"""A store of sets, wide or narrow, and two models of it: what the commands are tried on."""

from __future__ import annotations

import numpy as np
import pytest

import dkdist as dk
from dkdist.cli import main


@pytest.fixture(scope="session")
def bags(tmp_path_factory):
    """The path of a store of 60 sets in the plane: targets "wide" (text), "spread" (a number); with ids."""
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
    """Options of features that are made at once."""
    return ["--features", "60", "--bandwidth", "0.1", "--domain=-5,5"]


@pytest.fixture(scope="session")
def bag_models(bags, small, tmp_path_factory):
    """The folder of the models wide.npz and spread.npz."""
    folder = tmp_path_factory.mktemp("models")
    for target in ("wide", "spread"):
        command = ["fit", bags, "--target", target, "--model", str(folder / f"{target}.npz"), *small]
        assert main(command) == 0
    return folder
