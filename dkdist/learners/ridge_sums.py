"""What a task of ridge regression sends: statistics of its rows, and those rows that are kept for a closer look."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from dkdist.learners.kept_rows import KeptRows, join_rows, joined
from dkdist.learners.ridge_statistics import Statistics, Summing, merge
from dkdist.learners.rows import Known, Rows, no_rows, usable
from dkdist.loops.array_types import F64, I64


@dataclass(frozen=True)
class Sums:
    """Statistics of all rows, or of (training, held-out) rows; the rows that were kept; those that were skipped."""

    parts: tuple[Statistics, ...]
    sample: KeptRows
    skipped: I64


def accumulate(
    dtype: np.dtype[Any], centre: bool, split: bool, codes: F64 | None, blocks: Iterator[Any], rows: Rows
) -> Sums:
    """Statistics of the rows of several blocks in one task: one part, or with ``split`` training and held-out.

    One block is alive, and of each part a Gram matrix and a tile of rows; ``centre`` is for models with an intercept.
    With ``codes`` (n_classes, n_targets) the targets of the rows are classes.
    """
    n_targets = rows.known.targets.shape[1] if codes is None else codes.shape[1]
    parts = [Summing(Statistics.empty(rows.n_features, n_targets), dtype, centre) for _ in range(1 + split)]
    samples, skipped = [KeptRows.none(rows.n_features, n_targets, dtype)], [no_rows()]
    for X, known, bad in usable(dtype, blocks, rows):
        skipped.append(bad)
        masks = [~known.held_out, known.held_out] if split else [np.ones(len(X), bool)]
        for part, mask in zip(parts, masks, strict=True):
            _add(part, X, known, mask, codes)
        if known.keys is not None:
            kept = np.isfinite(known.keys)
            samples.append(KeptRows.of(X[kept], known.part(kept), codes, no_rows()))
    return Sums(tuple(part.total() for part in parts), joined(samples), np.concatenate(skipped))


def _add(to: Summing, X: Any, known: Known, mask: Any, codes: F64 | None) -> None:
    """The rows of a mask."""
    if not mask.all():
        X, known = X[mask], known.part(mask)
    to.add(X, known.targets if codes is None else codes[known.targets], known.weights)


def merge_sums(a: Sums, b: Sums) -> Sums:
    """Each part merged with its own kind."""
    parts = tuple(merge(x, y) for x, y in zip(a.parts, b.parts, strict=True))
    return Sums(parts, join_rows(a.sample, b.sample), np.concatenate([a.skipped, b.skipped]))
