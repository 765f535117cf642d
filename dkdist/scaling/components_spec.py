"""What gives points as principal components, in plain numbers: a mean, axes, and deviations to divide by.

    x' = (x - mean) axes^T / deviations

A `ComponentsSpec` is a map of views (`store.set_map`): it travels with them, and maps what they read.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import astuple, dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from dkdist.loops.points import not_finite
from dkdist.loops.products import Factor, steady_factor
from dkdist.plain.kept import kept
from dkdist.sets import SampleSetError, SampleSets
from dkdist.sets.labels import Names

Numbers = tuple[float, ...]
AT_ONCE = 2**16  # points


class SetMapSpec:
    """Base of maps of sets to sets, as views carry them: frozen dataclasses with the ``origin`` of their points."""

    origin: Numbers
    per_set = False  # whether a set decides its own map

    @property
    def n_dims(self) -> int:
        """The dimension d of the points."""
        return len(self.origin)

    @cached_property
    def token(self) -> str:
        """A name of what it does, the same for equal maps."""
        return hashlib.blake2b(repr(astuple(self)).encode(), digest_size=16).hexdigest()  # type: ignore[call-overload]

    def names_of(self, names: Names | None) -> Names | None:
        """Names of the dimensions that it makes, from those of the points."""
        return names

    def of_pieces(self, pieces: Iterator[SampleSets], n_points: int) -> Any:
        """The map of one set that comes in pieces."""
        return self


@kept
@dataclass(frozen=True)
class ComponentsSpec(SetMapSpec):
    """What defines `SetPCA`: ``axes`` (k, d) of points counted from ``origin``, and ``deviations`` (k,)."""

    origin: Numbers
    mean: Numbers
    axes: tuple[Numbers, ...]
    deviations: Numbers

    def __post_init__(self) -> None:
        lengths = {len(self.mean), *map(len, self.axes)}
        if lengths != {self.n_dims} or not 0 < len(self.axes) == len(self.deviations) <= self.n_dims:
            raise ValueError(
                f"mean and axes must be of {self.n_dims} columns, with a deviation for each axis"
            )
        if (
            not all(np.isfinite(values).all() for values in (self.mean, *self.axes))
            or min(self.deviations) <= 0
        ):
            raise ValueError("mean and axes must be finite, and deviations positive")

    @property
    def n_features(self) -> int:
        """The dimension k of what it makes."""
        return len(self.axes)

    @property
    def label(self) -> str:
        """Its name, for the repr of views."""
        return f"SetPCA({self.n_features})"

    def names_of(self, names: Names | None) -> Names | None:
        """Their numbers: a component is no dimension of the sets."""
        return tuple(f"component{i}" for i in range(self.n_features))

    def of_sets(self, sets: SampleSets) -> SampleSets:
        """The components, float32 from the origin 0; weights, ids and targets stay. A point's are its own."""
        points, factor = sets.rebased(np.array(self.origin)).relative, _factor(self)
        out = np.empty((len(points), self.n_features), np.float32)
        for start in range(0, len(points), AT_ONCE):
            rows = slice(start, start + AT_ONCE)
            with np.errstate(over="ignore", invalid="ignore"):  # told below
                factor.product((points[rows] - np.array(self.mean)).astype(np.float32), out[rows])
        if len(bad := not_finite(out)):
            i = int(np.searchsorted(sets.offsets, bad[0], side="right")) - 1
            raise SampleSetError(
                f"point {bad[0] - sets.offsets[i]} of set {i} is too far away for float32: clip the points (SetScaler)"
            )
        labels = replace(sets._labels, names=self.names_of(None))
        return SampleSets._trusted(out, sets.offsets, sets.weights, labels=labels)


@lru_cache(maxsize=16)
def _factor(spec: ComponentsSpec) -> Factor:
    return steady_factor((np.array(spec.axes) / np.array(spec.deviations)[:, None]).T.astype(np.float32))
