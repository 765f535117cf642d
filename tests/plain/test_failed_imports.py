"""A failed lazy import does not break the next import."""

from __future__ import annotations

import importlib

import pytest

import dkdist


def test_failed_package_can_be_imported_again(tmp_path, monkeypatch):
    package = tmp_path / "orphaning"
    package.mkdir()
    (package / "__init__.py").write_text(
        "import os\nimport orphaning.part\nif 'ORPHANED' in os.environ: 1 / 0\n"
    )
    (package / "part.py").write_text("value = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(dkdist, "_lazy_getattr", lambda name: importlib.import_module(name).part.value)
    monkeypatch.setenv("ORPHANED", "1")
    with pytest.raises(ZeroDivisionError):
        dkdist.orphaning  # noqa: B018
    monkeypatch.delenv("ORPHANED")
    assert dkdist.orphaning == 1
