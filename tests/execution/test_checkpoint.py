"""A checkpoint is complete or absent, and belongs to one run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dkdist._runtime.checkpoint import Checkpoint, digest

ARRAYS = {"coef": np.arange(6.0).reshape(2, 3), "n": np.asarray(4)}


def test_saved_state_is_loaded_with_dtypes(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path / "new" / "ck", {"seed": 1, "shape": (3, 4)})
    assert checkpoint.load() is None
    checkpoint.save(ARRAYS, {"epoch": 2, "losses": (0.1, float("nan"))})
    loaded = Checkpoint(str(tmp_path / "new" / "ck"), {"shape": [3, 4], "seed": 1}).load()
    assert loaded is not None
    arrays, notes = loaded
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(arrays[name], array)
        assert arrays[name].dtype == array.dtype
    assert notes["epoch"] == 2
    assert notes["losses"][0] == 0.1
    assert [p.name for p in (tmp_path / "new" / "ck").iterdir()] == ["state.npz"]


def test_checkpoint_of_another_run_raises(tmp_path: Path) -> None:
    Checkpoint(tmp_path, {"seed": 1, "alpha": 0.5, "loss": "log"}).save(ARRAYS, {})
    with pytest.raises(ValueError, match="another path") as caught:
        Checkpoint(tmp_path, {"seed": 2, "alpha": 0.5, "n": 3, "loss": "log"}).load()
    assert "seed: expected 2, got 1" in str(caught.value)
    assert "n: expected 3, got None" in str(caught.value)
    assert "alpha" not in str(caught.value)


@settings(max_examples=60)
@given(st.data())
def test_flipped_bits_are_detected(tmp_path_factory: Any, data: st.DataObject) -> None:
    folder = tmp_path_factory.mktemp("ck")
    Checkpoint(folder, {"seed": 1}).save(ARRAYS, {"epoch": 2})
    file = folder / "state.npz"
    content = bytearray(file.read_bytes())
    position = data.draw(st.integers(0, len(content) - 1))
    content[position] ^= 1 << data.draw(st.integers(0, 7))
    file.write_bytes(content)
    message, loaded = "", None
    try:
        loaded = Checkpoint(folder, {"seed": 1}).load()
    except ValueError as error:
        message = str(error)
    if loaded is None:
        assert "damaged" in message
    else:  # the bit has no effect, such as a time stamp of the archive
        assert loaded[1] == {"epoch": 2}
        for name, array in ARRAYS.items():
            np.testing.assert_array_equal(loaded[0][name], array)


@pytest.mark.parametrize("keep", [0, 1, 100, -1])
def test_truncated_file_raises(tmp_path: Path, keep: int) -> None:
    Checkpoint(tmp_path, {}).save(ARRAYS, {})
    file = tmp_path / "state.npz"
    file.write_bytes(file.read_bytes()[:keep])
    with pytest.raises(ValueError, match=r"damaged .*Delete it"):
        Checkpoint(tmp_path, {}).load()


def test_failed_save_keeps_the_previous_state(tmp_path: Path, monkeypatch: Any) -> None:
    checkpoint = Checkpoint(tmp_path, {})
    checkpoint.save(ARRAYS, {"epoch": 1})

    def fail(*arguments: Any) -> None:
        raise OSError("no space left")

    monkeypatch.setattr("os.replace", fail)
    with pytest.raises(OSError, match="no space"):
        checkpoint.save({"coef": np.zeros(9)}, {"epoch": 2})
    loaded = checkpoint.load()
    assert loaded is not None
    assert loaded[1] == {"epoch": 1}


def test_digest_depends_on_content_only() -> None:
    a = np.arange(12.0).reshape(3, 4)
    assert digest(a) == digest(a.copy()) == digest(np.asfortranarray(a))
    assert digest(a) != digest(a + 1e-15 * np.eye(3, 4) * 8)
    assert digest(a, b"x") != digest(a)
    assert digest(np.zeros((0, 3))) == digest()
