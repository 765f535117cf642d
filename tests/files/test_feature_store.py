"""Features on disk: round trip, resume, and refusal of other or damaged blocks."""

from __future__ import annotations

import json
import os
from pathlib import Path

import dask
import dask.array as da
import numpy as np
import pytest

import dkdist as dk
from dkdist.io.feature_writer import FeatureStore, create_features


def features(seed: int = 0, rows: int = 100, chunk: int = 30) -> da.Array:
    values = np.random.default_rng(seed).standard_normal((rows, 6)).astype(np.float32)
    return da.from_array(values, chunks=(chunk, 6))


def test_round_trip_of_lazy_and_numpy_features(tmp_path: Path) -> None:
    X = features()
    restored = dk.write_features(tmp_path / "x.zarr", X)
    np.testing.assert_array_equal(restored.compute(), X.compute())
    np.testing.assert_array_equal(dk.open_features(tmp_path / "x.zarr").compute(), X.compute())
    again = dk.write_features(tmp_path / "y.zarr", X.compute())
    np.testing.assert_array_equal(again.compute(), X.compute())


def test_uneven_blocks_are_written(tmp_path: Path) -> None:
    X = features().rechunk({0: (10, 40, 25, 25)})
    np.testing.assert_array_equal(dk.write_features(tmp_path / "x.zarr", X).compute(), X.compute())


def test_an_interrupted_run_resumes(tmp_path: Path) -> None:
    output: list[int] = []
    fail = [True]

    def block(values: np.ndarray, block_id: tuple[int, int]) -> np.ndarray:
        output.append(block_id[0])
        if fail[0] and block_id[0] == 3:
            raise RuntimeError("power cut")
        return values

    values = np.random.default_rng(0).standard_normal((50, 4)).astype(np.float32)

    def lazy() -> da.Array:
        source = da.from_array(values, chunks=(10, 4))
        return da.Array(
            {("same", i, 0): (lambda b, i=i: block(b, (i, 0)), (source.name, i, 0)) for i in range(5)}
            | dict(source.__dask_graph__()),
            "same",
            source.chunks,
            dtype=np.float32,
        )

    with dask.config.set(scheduler="synchronous"), pytest.raises(RuntimeError, match="power cut"):
        dk.write_features(tmp_path / "x.zarr", lazy())
    done = {int(p.parent.name) for p in (tmp_path / "x.zarr/features/c").glob("*/0")}
    with pytest.raises(dk.StoreFormatError, match=r"not complete: .* call write_features again"):
        dk.open_features(tmp_path / "x.zarr")
    assert 0 < len(done) < 5
    output.clear()
    fail[0] = False
    restored = dk.write_features(tmp_path / "x.zarr", lazy())
    assert set(output) == set(range(5)) - done
    np.testing.assert_array_equal(restored.compute(), values)


def test_existing_features_are_replaced_only_with_overwrite(tmp_path: Path) -> None:
    dk.write_features(tmp_path / "x.zarr", features(0))
    with pytest.raises(FileExistsError, match="already holds these features"):
        dk.write_features(tmp_path / "x.zarr", features(0))
    with pytest.raises(ValueError, match=r"other features.*overwrite=True"):
        dk.write_features(tmp_path / "x.zarr", features(1))
    restored = dk.write_features(tmp_path / "x.zarr", features(1), overwrite=True)
    np.testing.assert_array_equal(restored.compute(), features(1).compute())


def test_other_stores_and_folders_are_never_overwritten(tmp_path: Path) -> None:
    dk.write_sets(tmp_path / "sets.zarr", [np.zeros((3, 2))])
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos/me.png").write_bytes(b"png")
    with pytest.raises(dk.StoreFormatError, match="must have format"):
        dk.write_features(tmp_path / "sets.zarr", features(), overwrite=True)
    with pytest.raises(FileExistsError, match="not empty"):
        dk.write_features(tmp_path / "photos", features(), overwrite=True)
    assert dk.open_sets(tmp_path / "sets.zarr").n_points == 3


@pytest.mark.parametrize("damage", ["missing", "flipped"])
def test_a_missing_or_damaged_block_is_refused(tmp_path: Path, damage: str) -> None:
    restored = dk.write_features(tmp_path / "x.zarr", features())
    chunk = tmp_path / "x.zarr/features/c/2/0"
    if damage == "missing":
        os.remove(chunk)
    else:
        raw = bytearray(chunk.read_bytes())
        raw[len(raw) // 2] ^= 4
        chunk.write_bytes(raw)
    with pytest.raises(dk.StoreFormatError, match="block 2 of"):
        restored.compute()


def test_the_fingerprint_of_an_embedding_is_the_same_in_another_process(tmp_path: Path) -> None:
    """Otherwise a run could not resume in a new process."""
    import subprocess
    import sys

    rng = np.random.default_rng(0)
    dk.write_sets(tmp_path / "sets.zarr", [rng.random((9, 2)) for _ in range(20)])
    script = (
        "import sys, dkdist as dk\n"
        "s = dk.open_sets(sys.argv[1])\n"
        "A = dk.DivergenceEmbedding('jensen-shannon', domain='unit').fit(s).transform(s)\n"
        "Z = dk.RandomFourierFeatures(20, random_state=0).fit(A).transform(A)\n"
        "print(Z.name)\n"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "sets.zarr")]
    names = {subprocess.run(command, check=True, capture_output=True, text=True).stdout for _ in range(2)}
    assert len(names) == 1


def test_nan_rows_of_skipped_sets_are_kept(tmp_path: Path) -> None:
    X = np.arange(12, dtype="f4").reshape(6, 2)
    X[[1, 4]] = np.nan
    X[2:4] = np.nan  # a block of its own
    stored = dk.write_features(tmp_path / "z.zarr", da.from_array(X, chunks=(2, -1)))
    np.testing.assert_array_equal(stored.compute(), X)
    (tmp_path / "z.zarr" / "features" / "c" / "1" / "0").unlink()
    with pytest.raises(dk.StoreFormatError, match=r"block 1 of .* is missing"):
        dk.open_features(tmp_path / "z.zarr").compute()


def write_some_blocks(place: Path, values: np.ndarray, blocks: int) -> FeatureStore:
    """Write some blocks of ten rows, like a run that was killed."""
    target = create_features(place, len(values), values.shape[1], 10, "same")
    for i in range(blocks):
        target.write_block(i, values[10 * i : 10 * i + 10])
    return target


def test_existing_blocks_are_verified_before_a_run_resumes(tmp_path: Path) -> None:
    """Four of five blocks exist; some of them are truncated, exchanged, or belong to other features."""
    rng = np.random.default_rng(0)
    values, others = rng.standard_normal((2, 50, 4)).astype(np.float32)
    lazy = da.from_array(values, chunks=(10, 4), name="same")
    write_some_blocks(tmp_path / "other.zarr", others, 4)
    for seed in range(4):
        place = tmp_path / f"x{seed}.zarr"
        write_some_blocks(place, values, 4)
        chunk = [place / f"features/c/{i}/0" for i in range(4)]
        data = chunk[1].read_bytes()
        if seed == 0:
            chunk[1].write_bytes(data[: len(data) // 2])
        elif seed == 1:
            chunk[1].write_bytes(chunk[2].read_bytes())
            chunk[2].write_bytes(data)
        elif seed == 2:
            chunk[1].write_bytes((tmp_path / "other.zarr/features/c/1/0").read_bytes())
        else:
            for name in ("features/c/1/0", "receipts/c/1/0"):
                (place / name).write_bytes((tmp_path / "other.zarr" / name).read_bytes())
        np.testing.assert_array_equal(dk.write_features(place, lazy).compute(), values)


@pytest.mark.parametrize("origin_of_block", ["exchanged", "foreign"])
def test_an_exchanged_or_foreign_block_is_refused(tmp_path: Path, origin_of_block: str) -> None:
    dk.write_features(tmp_path / "x.zarr", features(0))
    dk.write_features(tmp_path / "y.zarr", features(1))
    chunk = tmp_path / "x.zarr/features/c/1/0"
    wrong = tmp_path / (
        "x.zarr/features/c/2/0" if origin_of_block == "exchanged" else "y.zarr/features/c/1/0"
    )
    chunk.write_bytes(wrong.read_bytes())
    stored = dk.open_features(tmp_path / "x.zarr")
    np.testing.assert_array_equal(stored[:30].compute(), features(0)[:30].compute())
    with pytest.raises(
        dk.StoreFormatError, match=r"block 1 of .*rows 30 to 59.*differs from the committed object"
    ):
        stored.compute()


def test_features_without_a_checksum_table_are_read(tmp_path: Path) -> None:
    """Earlier versions wrote no table."""
    dk.write_features(tmp_path / "x.zarr", features())
    document = json.loads((tmp_path / "x.zarr/zarr.json").read_text())
    del document["attributes"]["dkdist"]["table"]
    (tmp_path / "x.zarr/zarr.json").write_text(json.dumps(document))
    np.testing.assert_array_equal(dk.open_features(tmp_path / "x.zarr").compute(), features().compute())
