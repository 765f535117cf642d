"""Files of instruments and tables, and outcomes of importing damaged copies."""

from __future__ import annotations

import io
import random
import shutil
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from store.fcs_bytes import fcs_bytes
from store.las_bytes import las_bytes
from store.parquet_bytes import parquet_bytes

import dkdist as dk

from .mutations import duplicate_span, flip, remove_span, replace_bytes, replace_number, truncate, zero_span

RNG = np.random.default_rng(0)
POINTS = RNG.uniform(0, 100, (60, 3)).round(3)
COUNTS = {f"FL{i}": RNG.integers(0, 1000, 60).astype("u2") for i in range(3)}
FLOATS = {**{f"FL{i}": RNG.normal(size=60).astype("f4") for i in range(2)}, "Time": np.arange(60, dtype="f4")}
TABLE = {"donor": ["a"] * 30 + ["b"] * 30, "x": POINTS[:, 0], "y": np.arange(60), "z": [*POINTS[:59, 1], 1.0]}
REMEDIES = ("Correct or omit it",)
MUTATIONS = [
    flip,
    flip,
    truncate,
    duplicate_span,
    zero_span,
    remove_span,
    replace_number,
    replace_number,
    replace_bytes,
    replace_bytes,
]


def laz_bytes() -> bytes:
    """Return a compressed file written by laspy."""
    import laspy

    las = laspy.LasData(laspy.LasHeader(point_format=3, version="1.2"))
    las.header.scales = np.full(3, 0.001)
    las.x, las.y, las.z = POINTS.T
    output = io.BytesIO()
    las.write(output, do_compress=True)
    return output.getvalue()


FILES: dict[str, Callable[[], bytes]] = {
    "counts.fcs": lambda: fcs_bytes(COUNTS, order=">"),
    "floats.fcs": lambda: fcs_bytes(FLOATS, keywords={"$TIMESTEP": "0.1", "$P1S": "CD3", "$P2G": "2"}),
    "two.lmd": lambda: fcs_bytes(COUNTS, is_last=False) + fcs_bytes(COUNTS),
    "old.las": lambda: las_bytes(POINTS),
    "new.las": lambda: las_bytes(POINTS, minor=4),
    "packed.laz": laz_bytes,
    "summed.parquet": lambda: parquet_bytes(TABLE),
    "bare.parquet": lambda: parquet_bytes(TABLE, has_checksums=False, page_rows=7),
}


def imported(path: Path) -> list[Any]:
    """Return the ids, sizes and points of a file."""
    from zarr.storage import MemoryStore

    reader = dk.TableReader("donor") if path.suffix == ".parquet" else None
    sets = dk.import_sets(MemoryStore(), [path], reader).load()
    assert np.isfinite(sets.points).all()
    return [sets.ids, sets.sizes, sets.points]


def prepare(folder: Path) -> Callable[[tuple[str, int]], str]:
    """Return a function that maps a kind and a seed to the outcome: "same", "another", "refused", or a bug."""
    import dask

    dask.config.set(scheduler="synchronous")
    warnings.simplefilter("ignore")
    place = Path(tempfile.mkdtemp(dir=folder))
    contents, expected = {}, {}
    for name, make in FILES.items():
        contents[name] = make()
        (place / name).write_bytes(contents[name])
        expected[name] = imported(place / name)

    def read_damaged(kind_and_seed: tuple[str, int]) -> str:
        name, seed = kind_and_seed
        rng = random.Random(f"{name} {seed}")
        copy = place / str(seed)
        copy.mkdir()
        try:
            content, is_summed = damaged(rng, name, contents[name])
            (copy / name).write_bytes(content)
            return outcome(copy / name, expected[name], is_summed=is_summed)
        finally:
            shutil.rmtree(copy)

    return read_damaged


def damaged(rng: random.Random, name: str, content: bytes) -> tuple[bytes, bool]:
    """Return a damaged copy, and whether a checksum covers the damage."""
    if name == "summed.parquet" and rng.random() < 0.5:
        begin = content.find(POINTS[:, 0].tobytes())
        page = content[begin : begin + 8 * len(POINTS)]
        return content[:begin] + flip(rng, page) + content[begin + len(page) :], True
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        content = rng.choice(MUTATIONS)(rng, content)
    return content, False


def outcome(path: Path, expected: list[Any], *, is_summed: bool) -> str:
    """Return the outcome of importing a file."""
    try:
        values = imported(path)
    except dk.SourceError as error:
        text = str(error)
        is_clear = path.name in text and any(remedy in text for remedy in REMEDIES)
        is_raw = "has no attribute" in text or "object is not" in text or "NoneType" in text
        return "refused" if is_clear and not is_raw else f"BUG message too short: {text}"
    if all(np.array_equal(a, b) for a, b in zip(values, expected, strict=True)):
        return "same"
    return "WRONG values in spite of a checksum" if is_summed else "another"
