"""Base classes of embeddings of standardised points (x - centre) / scale, in units common to all sets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dkdist._base.embedding import SetEmbedding
from dkdist._base.inputs import DataSummary, Sets, common_units
from dkdist._base.params import Params

Units = tuple[tuple[float, ...], tuple[float, ...]]


@dataclass(frozen=True)
class StandardizedParams(Params[Any]):
    """Parameters of an embedding of points (x - centre) / scale."""

    centre: tuple[float, ...]
    scale: tuple[float, ...]

    @property
    def n_dims(self) -> int:
        """Dimension d of the points."""
        return len(self.centre)

    @property
    def domain(self) -> None:
        """None: the domain is unbounded."""


class StandardizedEmbedding(SetEmbedding):
    """Base class of embeddings with fitted attributes ``centre_`` and ``scale_``, (d,) arrays."""

    def _fit_units(self, sets: Sets, summary: DataSummary) -> Units:
        """Set centre and scale; return them relative to the origin of ``fit``."""
        centre, self.scale_ = common_units(sets, summary.bad)
        self.centre_ = centre + self.origin_
        return tuple(centre.tolist()), tuple(self.scale_.tolist())
