"""The box that densities live on, scaled to the unit cube."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dkdist.numerics.domain import count_outside
from dkdist.sets import SampleSets

F32 = NDArray[np.float32]
I64 = NDArray[np.int64]

LEAST_WIDTH, MOST_WIDTH = 1e-37, 1e37  # of a dimension: 1 / width is a float32, unless it is flat


@dataclass(frozen=True)
class Domain:
    """A box; ``fixed`` ones refuse points outside, others (the bounds seen in fit) clip them to the wall."""

    low: tuple[float, ...]
    high: tuple[float, ...]
    fixed: bool

    @property
    def n_dims(self) -> int:
        """The dimension d of the box."""
        return len(self.low)

    @property
    def arrays(self) -> tuple[F32, F32]:
        """(low, high), each (d,) float32."""
        return np.array(self.low, np.float32), np.array(self.high, np.float32)

    @property
    def low_and_scale(self) -> tuple[F32, F32]:
        """low and 1 / (high - low), each (d,) float32; a flat dimension has scale 0 and sits at the lower wall."""
        low, _ = self.arrays
        width = np.array(self.high) - np.array(self.low)
        wide = width > LEAST_WIDTH
        return low, np.divide(1, width, out=np.zeros_like(width), where=wide).astype(np.float32)

    def outside(self, sets: SampleSets) -> I64:
        """Number of points of each set that lie outside the box: (n_sets,)."""
        low, high = self.arrays
        return count_outside(sets.relative, sets.offsets, low, high)  # type: ignore[no-any-return]
