"""Choices that embeddings by densities share: structure, index set, frequencies, bandwidths, and nodes for them.

Bandwidths and n_basis, the nodes or functions of a dimension, are those that a user asked for, or those that the sets
ask for. q midpoint nodes take the cosine of degree 2q for a constant: with h >= 1 / (2 q) the Gaussian has damped it to
exp(-(2 pi q h)^2 / 2) <= .7 %, and d^2 of Jensen-Shannon, Hellinger and total variation is integrated to 1 % (root mean
square over pairs). Series of q functions leave out degree q, which h >= .683 / q damps to a tenth: a hundredth of its
part of a squared distance.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from dkdist._base.domains import DomainEmbedding
from dkdist._base.inputs import Sets, sample_moments
from dkdist._base.parameter_checks import (
    LEAST,
    MOST,
    draw_seed,
    is_word,
    one_of,
    positive,
    round_to_float32,
    whole,
)
from dkdist._base.params import Domain
from dkdist._base.random_streams import RngStream
from dkdist._base.sampling import scott_bandwidth
from dkdist._numba.arrays import F64, I64
from dkdist._utils.validation import find_stacklevel
from dkdist.embeddings.cross_validation import cross_validated
from dkdist.embeddings.divergence_params import finest_bandwidth, lattice_size
from dkdist.embeddings.divergences import Divergence
from dkdist.embeddings.frequencies import DEFAULT_RULE, RULES, frequency_count, frequency_rule
from dkdist.embeddings.pair_selection import MOST_DIMS, MOST_PAIRED, paired
from dkdist.embeddings.structure import (
    MOST_TENSOR_DIMS,
    STRUCTURES,
    Columns,
    Dims,
    StructureSpec,
    listed_structure,
    parts_of,
)

Numbers = tuple[float, ...]

MOST_JOINT_DIMS = 6
LEAST_ORDER = 0.02  # of an index set: below it there are the axes alone, as there
RESOLVED = 0.5  # bandwidth over node spacing from which d^2 is integrated to a percent
SCOTT_RESOLVED = 0.8  # of Scott's rule at a given n_basis
SEEN = 0.3  # below it points between nodes are hardly seen by any
RESOLVED_SERIES = float(np.sqrt(2 * np.log(10)) / np.pi)
MOST_NODES = 11**3  # of a set: 36 in each of two dimensions, 11 in each of three
LEAST_NODES, USUAL_NODES = 4, 10  # of a dimension


def asked_structure(structure: Any, d: int) -> StructureSpec:
    """The parameter ``structure`` of points of d dimensions, checked. "auto" looks for pairs from 4 dimensions on."""
    every = tuple(range(d))
    if not isinstance(structure, str):
        return listed_structure(structure, d)
    word = one_of("structure", structure, STRUCTURES)
    if word == "auto":
        word = "joint" if d <= MOST_TENSOR_DIMS else "pairs" if d <= MOST_DIMS else "marginal"
    elif word == "pairs" and not 1 < d <= MOST_DIMS:
        raise ValueError(
            f"structure='pairs' looks for pairs among 2 to {MOST_DIMS} dimensions, found {d}: "
            + ("use structure='marginal'" if d == 1 else "name the pairs, or take fewer dimensions (SetPCA)")
        )
    return StructureSpec(word, every, None if word == "pairs" else ())


def density_kind(kind: str, d: int) -> str:
    """How d dimensions are estimated: "tensor", "ball" (joint, four dimensions or more) or "marginal"."""
    if kind != "joint":
        return "marginal"
    if d > MOST_JOINT_DIMS:
        raise ValueError(
            f"structure='joint' estimates a density in {d} dimensions; up to {MOST_JOINT_DIMS} are supported. "
            "Use structure='marginal' or 'pairs', or reduce the dimension of the points first (SetPCA)"
        )
    return "tensor" if d <= MOST_TENSOR_DIMS else "ball"


class StructuredEmbedding(DomainEmbedding):
    """Base of embeddings by densities that have a parameter ``structure``."""

    structure: Any
    spec_: Any
    pairs_: tuple[Dims, ...]

    def _arrange(
        self,
        asked: StructureSpec,
        sets: Sets,
        kind: str,
        make: Callable[[Columns], Any],
        nodes: int | None,
    ) -> list[Any]:
        """Set ``spec_``, ``structure_`` and the pairs, after one pass over the sets; return the results of ``make``.

        ``make`` gives the specification of some columns, ``kind`` is that of all columns together, and ``nodes`` are
        those of a pair, where their number is given.
        """
        summary, domain = self._look_in_domain(sets)
        looked = Columns(sets, summary.bad, domain, tuple(range(sets.n_dims)), kind)
        if asked.kind != "pairs":
            self.spec_, self.structure_, self.pairs_, self.n_pairs_found_ = make(looked), asked.kind, (), 0
            return [self.spec_]
        self.spec_, self.pairs_, self.n_pairs_found_ = paired(asked, looked, make, nodes)
        self.structure_ = "pairs" if self.pairs_ else "marginal"
        return [part.spec for part in parts_of(self.spec_)]


def index_order(index_set: Any, more: dict[str, float]) -> float:
    """The order r of an index set {a: |a|_r < n_basis}; ``more`` are words of the embedding's own."""
    known = more | {"tensor": np.inf, "total-degree": 1.0}
    match index_set:
        case str() if index_set in known:
            return known[index_set]
        case ("sobolev", s) if positive("s of index_set=('sobolev', s)", s) >= LEAST_ORDER / 2:
            return 2 * float(s)
    raise ValueError(
        f"index_set must be one of {', '.join(map(repr, known))}, or ('sobolev', s) with s >= {LEAST_ORDER / 2:g}; "
        f"found {index_set!r}"
    )


def chosen_frequencies(
    kappa: Divergence, rule: Any, n_frequencies: Any, random_state: Any
) -> tuple[Numbers, Numbers]:
    """Frequencies and their weights, as the parameters ``frequencies`` and ``n_frequencies`` ask for them."""
    rule = one_of("frequencies", rule, ("auto", *RULES))
    rule = DEFAULT_RULE if rule == "auto" else rule
    n = (
        frequency_count(kappa, rule)
        if is_word(n_frequencies, "auto")
        else whole("n_frequencies", n_frequencies)
    )
    uniforms = None
    if rule == "random":
        uniforms = np.random.default_rng([draw_seed(random_state), RngStream.FREQUENCIES]).random(n)
    lam, w = frequency_rule(kappa, rule, n, uniforms=uniforms)
    return tuple(map(round_to_float32, lam)), tuple(map(round_to_float32, w))


@dataclass(frozen=True)
class BandwidthSpec:
    """What a user asked for: bandwidths (k, d) or a rule for them, and ``n_basis``, which is None for "auto"."""

    bandwidths: F64 | str
    n_basis: int | None

    def of(self, dims: Dims) -> BandwidthSpec:
        """What was asked for of some dimensions."""
        given = self.bandwidths
        return BandwidthSpec(given if isinstance(given, str) else given[:, list(dims)], self.n_basis)

    def by_rule(self, looked: Columns, least: float) -> F64:
        """The bandwidths (k, d) that were given, or those of the rule, none of them below ``least``."""
        if not isinstance(self.bandwidths, str):
            return self.bandwidths
        rule = scott if self.bandwidths == "scott" else cross_validated
        return rule(looked.sets, looked.bad, looked.domain, looked.kind, least)


def resolve_bandwidth(bandwidth: Any, n_basis: Any, d: int, *, zero: bool) -> BandwidthSpec:
    """The parameters ``bandwidth`` (0 too, with ``zero``) and ``n_basis`` of points of d dimensions, checked."""
    count = None if is_word(n_basis, "auto") else whole("n_basis", n_basis, least=2)
    if isinstance(bandwidth, str):
        return BandwidthSpec(str(one_of("bandwidth", bandwidth, ("auto", "scott"))), count)
    try:
        h = np.asarray(bandwidth, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):  # of unequal lengths, or no numbers
        h = np.array(np.nan)
    scales = h if h.ndim == 2 else h.reshape(1, -1)
    known = (((h >= LEAST) & (h <= MOST)) | ((h == 0) & zero)).all()
    if h.ndim > 2 or len(scales) == 0 or scales.shape[1] not in (1, d) or not known:
        raise ValueError(
            f"bandwidth must be a {'number >= 0' if zero else 'positive number'} or {d} of them (standard deviations "
            f"on the scaled domain, {LEAST:g} to {MOST:g}), a nested sequence of these for several scales ([[0.05], "
            "[0.1]]), 'auto' or 'scott'; "
            f"found {bandwidth!r}"
        )
    return BandwidthSpec(np.broadcast_to(scales, (len(scales), d)), count)


def scott(sets: Sets, bad: I64, domain: Domain, structure: str, least: float) -> F64:
    """Scott's rule for the typical set, whose points outside count at the wall, on the scaled domain: (1, d)."""
    _, variance, size = sample_moments(sets, bad, domain)
    scale = domain.low_and_scale[1].astype(np.float64)
    dims = 1 if structure == "marginal" else sets.n_dims
    return scott_bandwidth(np.sqrt(variance) * scale, size, dims, least)[None, :]


def of_divergence(wanted: BandwidthSpec, looked: Columns) -> tuple[F64, int]:
    """Bandwidths (k, d) and n_basis of a divergence embedding of some columns."""
    wanted, d = wanted.of(looked.dims), len(looked.dims)
    most = wanted.n_basis or looked.most or most_nodes(looked.kind, d)
    if looked.kind == "ball":
        return wanted.by_rule(looked, finest_on_lattice(most, d)), most
    scott_of_given = is_word(wanted.bandwidths, "scott") and wanted.n_basis is not None
    h = wanted.by_rule(looked, (SCOTT_RESOLVED if scott_of_given else SEEN) / most)
    return h, wanted.n_basis or nodes_for(float(h.min()), RESOLVED, most)


def of_series(wanted: BandwidthSpec, looked: Columns, most: int) -> tuple[F64, int]:
    """Bandwidths (k, d) and n_basis of an L2 embedding of some columns, of up to ``most`` functions of a dimension."""
    wanted = wanted.of(looked.dims)
    h = wanted.by_rule(looked, 0.0)
    return h, wanted.n_basis or nodes_for(max(float(h.min()), LEAST), RESOLVED_SERIES, looked.most or most)


def most_nodes(structure: str, d: int) -> int:
    """The most nodes of a dimension, or functions, that leave rows useful: 1,331 for a set, but 10 in any case.

    From four joint dimensions on, 10: it stands for 1,024 nodes.
    """
    most = {"marginal": MOST_NODES / d, "tensor": MOST_NODES ** (1 / d), "ball": USUAL_NODES}[structure]
    return max(USUAL_NODES, int(most + 1e-9))


def nodes_of_pair(wanted: BandwidthSpec, resolved: float) -> int | None:
    """How many nodes, or functions, a pair of dimensions has; None where the data choose its bandwidth."""
    if wanted.n_basis is not None:
        return wanted.n_basis**2
    if isinstance(wanted.bandwidths, str):
        return None
    return nodes_for(max(float(wanted.bandwidths.min()), LEAST), resolved, MOST_PAIRED[2]) ** 2


def nodes_for(h: float, resolved: float, most: int) -> int:
    """The number that resolves the bandwidth h, no more than ``most``."""
    return int(np.clip(np.ceil(resolved / h - 1e-9), LEAST_NODES, most))


def finest_on_lattice(n_basis: int, d: int) -> float:
    """The least bandwidth that the nodes and the terms of a joint density in d >= 4 dimensions resolve."""
    return max(float(lattice_size(n_basis) ** (-1 / d)), finest_bandwidth(d))


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
            stacklevel=find_stacklevel(),
        )
    elif structure != "ball" and not is_resolved(h, structure, d, n_basis):
        warnings.warn(
            f"bandwidth {h:.3g} is much finer than {n_basis} nodes a dimension can integrate (errors of several "
            f"percent of d^2): use n_basis >= {int(np.ceil(RESOLVED / h))}, or a bandwidth of {RESOLVED / n_basis:.3g}",
            stacklevel=find_stacklevel(),
        )


def flatten_bandwidths(bandwidths: F64) -> Numbers:
    """Bandwidths as a specification holds them: one scale after the other."""
    return tuple(map(round_to_float32, bandwidths.ravel()))


def public_bandwidth(bandwidths: F64) -> F64:
    """Bandwidths as ``bandwidth_`` shows them: (d,) for one scale, (k, d) for several."""
    settled_ = np.array(flatten_bandwidths(bandwidths)).reshape(bandwidths.shape)
    return settled_[0] if len(settled_) == 1 else settled_
