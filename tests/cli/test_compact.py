"""``dkdist compact``: in place or into another store, with the requested layout."""

from __future__ import annotations

import numpy as np

import dkdist as dk
from dkdist.cli import main


def test_compacts_in_place_and_into_another_store(tmp_path, capsys):
    sets = dk.write_sets(tmp_path / "s.zarr", np.arange(80.0).reshape(10, 4, 2), np.arange(10), chunk_rows=2)
    points, store, other = sets.load().points, str(tmp_path / "s.zarr"), str(tmp_path / "o.zarr")
    assert main(["compact", store, "--to", other, "--chunk-rows", "8", "--shards", "16", "--progress"]) == 0
    captured = capsys.readouterr()
    assert captured.out.startswith(f"wrote 10 sets of 40 points to {other} in ")
    assert "compact: 10 sets, 40 points in 1 parts" in captured.err
    assert len(list((tmp_path / "s.zarr/points/c").iterdir())) == 20
    assert len(list((tmp_path / "o.zarr/points/c").iterdir())) == 3
    assert main(["compact", store, "--to", other]) == 2
    assert "overwrite=True" in capsys.readouterr().err
    assert main(["compact", store, "--to", other, "--overwrite"]) == 0
    assert main(["compact", store]) == 0
    for place in (store, other):
        assert len(list((tmp_path / place / "points/c").iterdir())) == 1
        assert np.array_equal(dk.open_sets(place).load().points, points)
    assert main(["compact", store, "--overwrite"]) == 2
    assert "--overwrite applies to the store of --to" in capsys.readouterr().err
