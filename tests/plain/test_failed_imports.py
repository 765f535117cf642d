"""A lazy import that fails leaves nothing that breaks the next one."""

from __future__ import annotations

import importlib

import pytest

import dkdist


def test_a_package_that_failed_is_imported_whole_the_next_time(tmp_path, monkeypatch):
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
