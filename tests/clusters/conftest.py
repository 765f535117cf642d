"""The fit of the recipes in docs/clusters.md, and its result without a cluster."""

from __future__ import annotations

import itertools
import shlex
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import dkdist as dk

from .programs import Programs
from .recipes import ROOT, Block, blocks


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a store of 3,000 sets, ``train.py`` of the document and ``slurm.sh``."""
    folder = tmp_path_factory.mktemp("shared")
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 3000)
    sets = [0.5 + (0.05 + 0.05 * label) * rng.standard_normal((30, 2)) for label in y]
    dk.write_sets(folder / "bags.zarr", sets, targets={"y": y})
    (work,) = blocks("The training script")
    (folder / "train.py").write_text(work.text)
    (folder / "slurm.sh").write_text((ROOT / "deploy" / "slurm.sh").read_text())
    return folder


@pytest.fixture(scope="session")
def alone(shared: Path) -> bytes:
    """Return the coefficients of ``train.py`` without a cluster."""
    with Programs(shared) as run:
        run.finish([sys.executable, "train.py"])
    return coefficients(shared)


def coefficients(folder: Path) -> bytes:
    """Return the coefficients of the model file in a folder, and delete the file."""
    coef = dk.load_model(folder / "model.npz")[-1].coef_
    (folder / "model.npz").unlink()
    return bytes(coef.tobytes())


def fit_alone(folder: Path, block: Block) -> bytes:
    """Return the coefficients of a block's ``dkdist fit`` without its cluster options."""
    arguments = shlex.split(block.text.replace("\\\n", " "), comments=True)
    fit_arguments = itertools.takewhile(
        lambda word: word != "--scheduler", arguments[arguments.index("bags.zarr") :]
    )
    return _fit(folder, tuple(fit_arguments))


@cache
def _fit(folder: Path, fit_arguments: tuple[str, ...]) -> bytes:
    with Programs(folder) as run:
        run.finish(["dkdist", "fit", *fit_arguments])
    return coefficients(folder)
