"""A store with three kinds of invalid sets, and the same sets without them."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

import dkdist as dk

NEGATIVE, OUTSIDE, FLIPPED = 5, 17, 9  # positions of two sets, and of a chunk of points
CHUNK_ROWS = 64


class Spoilt(NamedTuple):
    path: Path
    clean: dk.SampleSets
    bad: NDArray[np.int64]
    damaged: NDArray[np.int64]
    good: NDArray[np.int64]


def spoilt_store(path: Path, n_sets: int = 60) -> Spoilt:
    """Set 5 has a negative weight, a point of set 17 lies outside the unit square, chunk 9 of the points is damaged."""
    rng = np.random.default_rng(0)
    sizes = rng.integers(5, 40, n_sets)
    arrays, weights = [rng.random((n, 2)) for n in sizes], [rng.random(n) + 0.1 for n in sizes]
    clean = dk.SampleSets.from_arrays(arrays, weights)
    arrays[OUTSIDE] = arrays[OUTSIDE].copy()
    arrays[OUTSIDE][2] = 1.5, 0.5
    weights[NEGATIVE] = weights[NEGATIVE].copy()
    weights[NEGATIVE][1] = -0.5
    dk.write_sets(path, dk.SampleSets.from_arrays(arrays, weights), chunk_rows=CHUNK_ROWS)
    flip_a_byte(path / "points" / "c" / str(FLIPPED) / "0")
    first, stop = FLIPPED * CHUNK_ROWS, (FLIPPED + 1) * CHUNK_ROWS
    damaged = np.flatnonzero((clean.offsets[1:] > first) & (clean.offsets[:-1] < stop))
    assert len(damaged) > 2
    bad = np.sort(np.concatenate([[NEGATIVE, OUTSIDE], damaged]))
    return Spoilt(path, clean, bad, damaged, np.setdiff1d(np.arange(n_sets), bad))


def flip_a_byte(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(bytes(content))
