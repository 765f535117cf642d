"""What a task of ridge regression sends: statistics of its rows, and those rows that are kept for a closer look."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from dkdist.learners.kept_rows import KeptRows, join_rows, joined
from dkdist.learners.ridge_statistics import Statistics, add_rows, merge
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

    One block and one Gram matrix for each part are alive; ``centre`` is for models with an intercept. With ``codes``
    (n_classes, n_targets) the targets of the rows are classes.
    """
    n_targets = rows.known.targets.shape[1] if codes is None else codes.shape[1]
    parts = [Statistics.empty(rows.n_features, n_targets) for _ in range(1 + split)]
    samples, skipped = [KeptRows.none(rows.n_features, n_targets, dtype)], [no_rows()]
    for X, known, bad in usable(dtype, blocks, rows):
        skipped.append(bad)
        for part, mask in enumerate([~known.held_out, known.held_out] if split else [np.ones(len(X), bool)]):
            parts[part] = _with_rows(parts[part], X, known, mask, codes, centre)
        if known.keys is not None:
            kept = np.isfinite(known.keys)
            samples.append(KeptRows.of(X[kept], known.part(kept), codes, no_rows()))
    return Sums(tuple(parts), joined(samples), np.concatenate(skipped))


def _with_rows(
    to: Statistics, X: Any, known: Known, mask: Any, codes: F64 | None, centre: bool
) -> Statistics:
    """The sums with the rows of a mask more."""
    if not mask.all():
        X, known = X[mask], known.part(mask)
    y = known.targets if codes is None else codes[known.targets]
    return add_rows(to, X, y, known.weights, centre)


def merge_sums(a: Sums, b: Sums) -> Sums:
    """Each part merged with its own kind."""
    parts = tuple(merge(x, y) for x, y in zip(a.parts, b.parts, strict=True))
    return Sums(parts, join_rows(a.sample, b.sample), np.concatenate([a.skipped, b.skipped]))
