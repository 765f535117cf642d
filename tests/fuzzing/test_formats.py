"""Damaged FCS, LAS, LAZ and Parquet files: correct values or an error that names the file, in 1 GB and 5 seconds."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from . import formats
from .children import Child

pytest.importorskip("resource", reason="needs limits of memory and of time")
pytest.importorskip("laspy", reason="laspy is not installed: pip install 'dkdist[lidar]'")
pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install 'dkdist[frames]'")


def check(seeds: range, folder: Path) -> None:
    counts, failures = {name: Counter[str]() for name in formats.FILES}, []
    with Child(formats.prepare, folder) as child:
        for name, result in counts.items():
            for seed in seeds:
                answer = child.ask((name, seed))
                result[answer.split()[0]] += 1
                if answer not in ("same", "another", "refused"):
                    failures.append(f"{name}, seed {seed}: {answer}")
    print({name: dict(result) for name, result in counts.items()})
    assert not failures, f"{len(failures)} files: " + "\n".join(failures[:10])
    assert all(result["refused"] for result in counts.values())


def test_damaged_files_raise_or_are_read_correctly(tmp_path: Path) -> None:
    check(range(12), tmp_path)


@pytest.mark.slow
def test_ten_thousand_damaged_files(tmp_path: Path) -> None:
    check(range(1000, 2250), tmp_path)


def test_oracle_of_formats_detects_wrong_results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def raising(error: Exception) -> str:
        def imported(path: Path) -> list[object]:
            raise error

        monkeypatch.setattr(formats, "imported", imported)
        return formats.outcome(tmp_path / "a.fcs", [], is_summed=False)

    remedy = formats.REMEDIES[0]
    assert raising(formats.dk.SourceError(f"a.fcs is cut short: {remedy}")) == "refused"
    assert raising(formats.dk.SourceError(f"it is cut short: {remedy}")).startswith("BUG")
    assert raising(formats.dk.SourceError(f"a.fcs: 'x' has no attribute 'y': {remedy}")).startswith("BUG")
    monkeypatch.setattr(formats, "imported", lambda path: [np.ones(2)])
    outcomes = [formats.outcome(tmp_path, [np.zeros(2)], is_summed=summed) for summed in (False, True)]
    assert outcomes == ["another", "WRONG values in spite of a checksum"]
