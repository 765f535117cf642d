"""Rows that are kept and travel: all of a few, or a sample of many, with what is known of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkdist.learners.rows import F, Known, Rows, no_rows, usable
from dkdist.loops.array_types import F64, I64


@dataclass(frozen=True)
class KeptRows:
    """Rows X (n, D), their targets y (n, k), which are held out (n,), weights and keys (n,), and rows that are skipped.

    Where rows are a sample of many, their keys are the smallest of all.
    """

    X: F
    y: F64
    held_out: NDArray[np.bool_]
    weights: F64
    keys: F64
    skipped: I64

    @classmethod
    def of(cls, X: F, known: Known, codes: F64 | None, skipped: I64) -> KeptRows:
        """Rows as `usable` gives them; with ``codes`` (n_classes, k) their targets are classes."""
        y = known.targets if codes is None else codes[known.targets]
        weights = np.ones(len(X)) if known.weights is None else known.weights
        keys = np.zeros(len(X)) if known.keys is None else known.keys
        return cls(X, y, known.held_out, weights, keys, skipped)

    @classmethod
    def none(cls, n_features: int, n_targets: int, dtype: np.dtype[Any]) -> KeptRows:
        """No rows."""
        X, y = np.empty((0, n_features), dtype), np.empty((0, n_targets))
        return cls(X, y, np.zeros(0, np.bool_), np.zeros(0), np.zeros(0), no_rows())

    @property
    def n(self) -> int:
        """The number of rows."""
        return len(self.X)

    def part(self, mask: NDArray[Any]) -> KeptRows:
        """Some of the rows: a mask or indices."""
        arrays = (self.X, self.y, self.held_out, self.weights, self.keys)
        X, y, held_out, weights, keys = (array[mask] for array in arrays)
        return KeptRows(X, y, held_out, weights, keys, self.skipped)

    def with_smallest_keys(self, n: int) -> KeptRows:
        """At most n of the rows, in their order."""
        return self.part(np.sort(np.argsort(self.keys, kind="stable")[:n]))


def keep_rows(dtype: np.dtype[Any], codes: F64 | None, blocks: Iterator[Any], rows: Rows) -> KeptRows:
    """The usable rows of several blocks in one task."""
    return joined([KeptRows.of(X, known, codes, bad) for X, known, bad in usable(dtype, blocks, rows)])


def join_rows(a: KeptRows, b: KeptRows) -> KeptRows:
    """The rows of both, those of ``a`` first."""
    return joined([a, b])


def joined(parts: list[KeptRows]) -> KeptRows:
    """The rows of all, in order."""
    each = zip(*((p.X, p.y, p.held_out, p.weights, p.keys, p.skipped) for p in parts), strict=True)
    return KeptRows(*(np.concatenate(arrays) for arrays in each))
