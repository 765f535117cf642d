"""Bandwidths and numbers of nodes or functions, those that were asked for or those that the sets ask for."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from dkdist.base.embedding_spec import Domain
from dkdist.base.inputs import Sets
from dkdist.base.parameter_checks import LEAST, is_word, whole
from dkdist.densities.density_choices import given_bandwidths, scott
from dkdist.densities.divergence_spec import finest_bandwidth
from dkdist.densities.resolution.bandwidth_search import cross_validated
from dkdist.densities.resolution.node_count import (
    RESOLVED,
    RESOLVED_SERIES,
    SEEN,
    finest_on_lattice,
    most_nodes,
    nodes_for,
)
from dkdist.loops.array_types import F64, I64

SCOTT_RESOLVED = 0.8  # bandwidth over node spacing, of Scott's rule at a given n_basis


@dataclass(frozen=True)
class Resolution:
    """What a user asked for: bandwidths (k, d) or a rule for them, and ``n_basis``, which is None for "auto"."""

    bandwidths: F64 | str
    n_basis: int | None

    @property
    def n_scales(self) -> int:
        """The number k of bandwidths."""
        return 1 if isinstance(self.bandwidths, str) else len(self.bandwidths)

    def by_rule(self, sets: Sets, bad: I64, domain: Domain, structure: str, least: float) -> F64:
        """The bandwidths (k, d) that were given, or those of the rule, none of them below ``least``."""
        if not isinstance(self.bandwidths, str):
            return self.bandwidths
        rule = scott if self.bandwidths == "scott" else cross_validated
        return rule(sets, bad, domain, structure, least)


def asked(bandwidth: Any, n_basis: Any, d: int, *, zero: bool) -> Resolution:
    """The parameters ``bandwidth`` and ``n_basis`` of points of d dimensions, checked."""
    count = None if is_word(n_basis, "auto") else whole("n_basis", n_basis, least=2)
    return Resolution(given_bandwidths(bandwidth, d, zero=zero), count)


def of_divergence(
    wanted: Resolution, sets: Sets, bad: I64, domain: Domain, structure: str
) -> tuple[F64, int]:
    """Bandwidths (k, d) and n_basis of a divergence embedding."""
    most = wanted.n_basis or most_nodes(structure, domain.n_dims)
    if structure == "ball":
        return wanted.by_rule(sets, bad, domain, structure, finest_on_lattice(most, domain.n_dims)), most
    scott_of_given = is_word(wanted.bandwidths, "scott") and wanted.n_basis is not None
    h = wanted.by_rule(sets, bad, domain, structure, (SCOTT_RESOLVED if scott_of_given else SEEN) / most)
    return h, wanted.n_basis or nodes_for(float(h.min()), RESOLVED, most)


def of_series(
    wanted: Resolution, sets: Sets, bad: I64, domain: Domain, structure: str, most: int
) -> tuple[F64, int]:
    """Bandwidths (k, d) and n_basis of an L2 embedding, of up to ``most`` functions of a dimension."""
    h = wanted.by_rule(sets, bad, domain, structure, 0.0)
    return h, wanted.n_basis or nodes_for(max(float(h.min()), LEAST), RESOLVED_SERIES, most)


def is_resolved(h: float, structure: str, d: int, n_basis: int) -> bool:
    """Whether so many nodes integrate densities of bandwidth h."""
    least = finest_on_lattice(n_basis, d) if structure == "ball" else RESOLVED / n_basis
    return h >= least * (1 - 1e-6)


def warn_if_fine(h: float, structure: str, d: int, n_basis: int) -> None:
    """Tell of a bandwidth that was given and that the nodes do not resolve."""
    if structure == "ball" and h < finest_bandwidth(d):
        warnings.warn(
            f"bandwidth {h:.3g} is finer than a joint density in {d} dimensions can be resolved: use at least "
            f"{finest_bandwidth(d):.2g}, or structure='marginal'",
            stacklevel=3,
        )
    elif structure != "ball" and not is_resolved(h, structure, d, n_basis):
        warnings.warn(
            f"bandwidth {h:.3g} is much finer than {n_basis} nodes a dimension can integrate (errors of several "
            f"percent of d^2): use n_basis >= {int(np.ceil(RESOLVED / h))}, or a bandwidth of {RESOLVED / n_basis:.3g}",
            stacklevel=3,
        )
