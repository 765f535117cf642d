"""Every command under a memory limit that is too small: refused in one line, or completed in pieces."""

from __future__ import annotations

import dask
import numpy as np
import pytest

import dkdist as dk
from dkdist.cli import main

N_POINTS = 9_000_000  # 72 MB: smaller requests pass unchecked


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """Return a folder with a store whose second set has 9,000,000 points, and a model of small sets."""
    folder = tmp_path_factory.mktemp("large")
    sets = [np.linspace(0, 1, n, dtype=np.float32)[:, None] * [1, 2] for n in (50, N_POINTS, 50, 50)]
    small = [x[:50] for x in sets]
    dk.write_sets(
        folder / "large.zarr", [x.astype("f4") for x in sets], targets={"y": [0, 1, 0, 1]}, ids=list("abcd")
    )
    dk.write_sets(folder / "small.zarr", small * 5, targets={"y": [0, 1, 0, 1] * 5})
    model = ["--target", "y", "--model", str(folder / "m.npz"), "--features", "32"]
    assert main(["fit", str(folder / "small.zarr"), *model]) == 0
    return folder


REFUSED = {
    "embed": ["embed", "large.zarr", "out.zarr", "--features", "32"],
    "plan": ["plan", "large.zarr", "--target", "y"],
    "fit": ["fit", "large.zarr", "--target", "y", "--model", "out.npz"],
    "compact": ["compact", "large.zarr", "--to", "out.zarr"],
}
READ_IN_PIECES = {
    "info": ["info", "large.zarr"],
    "verify": ["verify", "large.zarr"],
    "predict": ["predict", "large.zarr", "--model", "m.npz", "--output", "out.csv"],
    "score": ["score", "large.zarr", "--model", "m.npz", "--target", "y"],
}


@pytest.mark.parametrize("command", REFUSED)
def test_commands_beyond_the_limit_are_refused_in_one_line(command, large, monkeypatch, capsys):
    monkeypatch.chdir(large)
    before = sorted(path.name for path in large.iterdir())
    with dask.config.set({"dkdist.memory-limit": "1 MB"}):
        assert main(REFUSED[command]) == 2
    *_, line = capsys.readouterr().err.splitlines()
    assert line.startswith("dkdist: error:")
    assert "DASK_DKDIST__MEMORY_LIMIT" in line
    assert not any(name in line for name in ("open_sets(", "dask.config", "block_sets"))
    assert ("--features" in line) == (command != "compact")
    assert sorted(path.name for path in large.iterdir()) == before


@pytest.mark.parametrize("command", READ_IN_PIECES)
def test_commands_that_read_in_pieces_succeed(command, large, monkeypatch):
    monkeypatch.chdir(large)
    with dask.config.set({"dkdist.memory-limit": "1 MB"}):
        assert main(READ_IN_PIECES[command]) == 0


def test_features_beyond_the_limit_replace_nothing(tmp_path):
    sets = dk.write_sets(tmp_path / "s.zarr", np.random.default_rng(0).random((6, 20, 2)))
    rows = dk.MomentEmbedding().fit_transform(sets)
    dk.write_features(tmp_path / "f.zarr", rows)
    with dask.config.set({"dkdist.memory-limit": "1 kB"}):
        for place, overwrite in (("f.zarr", True), ("other.zarr", False)):
            with pytest.raises(MemoryError, match=r"write features: .* does not fit"):
                dk.write_features(tmp_path / place, 2 * rows, overwrite=overwrite)
    np.testing.assert_array_equal(dk.open_features(tmp_path / "f.zarr").compute(), rows.compute())
    assert not (tmp_path / "other.zarr").exists()
