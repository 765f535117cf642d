"""Resolution of the parameters of density embeddings: structure, index set, frequencies, bandwidths, n_basis.

Bandwidths and n_basis, the number of nodes or functions per dimension, are given by the user or chosen from the data.
On q midpoint nodes, the cosine of degree 2q is aliased to a constant. With h >= 1 / (2 q) the Gaussian damps it to
exp(-(2 pi q h)^2 / 2) <= 0.7 %, and the integration error of d^2 of Jensen-Shannon, Hellinger and total variation is
1 % (root mean square over pairs). Series of q functions omit the degrees from q on. For h >= 0.683 / q, degree q is
damped to 10 %, its part of a squared distance to 1 %.
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
    MAX_SCALE,
    MIN_SCALE,
    RandomStateLike,
    check_choice,
    check_int,
    check_positive,
    draw_seed,
    is_literal,
    round_to_float32,
)
from dkdist._base.params import Domain
from dkdist._base.random_streams import RngStream
from dkdist._base.sampling import scott_bandwidth
from dkdist._numba.arrays import F64, I64
from dkdist._utils.validation import find_stacklevel
from dkdist.embeddings._tuning import (
    DEFAULT_NODES_PER_DIM,
    JOINT_SERIES_BANDWIDTH_PER_SPACING,
    MAX_AUTO_NODES,
    MAX_GRID_NODES,
    MAX_GROUP_NODES_PER_DIM,
    MAX_JOINT_DIMS,
    MAX_PAIR_SEARCH_DIMS,
    MIN_BANDWIDTH_PER_SPACING,
    MIN_NODES_PER_DIM,
    MIN_RESOLVING_GRID_NODES_PER_DIM,
    RESOLVED_BANDWIDTH_PER_SPACING,
    RESOLVED_GRID_BANDWIDTH_PER_SPACING,
    SCOTT_BANDWIDTH_PER_SPACING,
)
from dkdist.embeddings.cross_validation import cross_validate_bandwidth
from dkdist.embeddings.divergence_params import min_ball_bandwidth
from dkdist.embeddings.divergences import Divergence
from dkdist.embeddings.frequencies import DEFAULT_RULE, RULES, frequency_count, frequency_rule
from dkdist.embeddings.nodes import index_set
from dkdist.embeddings.pair_selection import build_paired_params
from dkdist.embeddings.structure import (
    MAX_TENSOR_DIMS,
    STRUCTURES,
    ColumnSubset,
    Dims,
    StructureSpec,
    feature_blocks,
    parse_structure_list,
)

Numbers = tuple[float, ...]

# Index sets of lower order all contain only the functions of one variable (tests/densities/test_l2_embedding.py).
MIN_ORDER = 0.02
# At this ratio the first omitted degree is damped to 0.1 (tests/densities/test_l2_embedding.py).
SERIES_BANDWIDTH_PER_SPACING = float(np.sqrt(2 * np.log(10)) / np.pi)


def resolve_structure(structure: Any, d: int) -> StructureSpec:
    """Check the parameter ``structure`` for d dimensions; "auto" searches pairs from 4 dimensions on."""
    if not isinstance(structure, str):
        return parse_structure_list(structure, d)
    kind = check_choice("structure", structure, STRUCTURES)
    if kind == "auto":
        kind = "joint" if d <= MAX_TENSOR_DIMS else "pairs" if d <= MAX_PAIR_SEARCH_DIMS else "marginal"
    elif kind == "pairs" and not 1 < d <= MAX_PAIR_SEARCH_DIMS:
        raise ValueError(
            f"structure='pairs' requires 2 to {MAX_PAIR_SEARCH_DIMS} dimensions; got {d}. "
            + ("Use structure='marginal'." if d == 1 else "List the pairs or reduce the dimension (SetPCA).")
        )
    return StructureSpec(kind, tuple(range(d)), None if kind == "pairs" else ())


def density_kind(kind: str, d: int) -> str:
    """Return the density estimate in d dimensions: "tensor" (joint, d <= 3), "ball" (joint, d >= 4) or "marginal"."""
    if kind != "joint":
        return "marginal"
    if d > MAX_JOINT_DIMS:
        raise ValueError(
            f"structure='joint' requires at most {MAX_JOINT_DIMS} dimensions; got {d}. Use structure='pairs' or "
            "'marginal', reduce the dimension (SetPCA), or use an embedding without densities "
            "(SlicedWassersteinEmbedding, MeanEmbedding)."
        )
    return "tensor" if d <= MAX_TENSOR_DIMS else "ball"


class StructuredEmbedding(DomainEmbedding):
    """Base class of density embeddings with the parameter ``structure``."""

    structure: Any
    spec_: Any
    pairs_: tuple[Dims, ...]

    def _fit_structure(
        self,
        structure: StructureSpec,
        sets: Sets,
        kind: str,
        make: Callable[[ColumnSubset], Any],
        n_pair_nodes: int | None,
    ) -> list[Any]:
        """Set ``spec_``, ``structure_`` and ``pairs_`` in one pass over the sets; return the parameters of each part.

        ``make`` builds the parameters for some columns. ``kind`` is the density estimate for all columns together.
        ``n_pair_nodes`` is the number of nodes of a pair, or None.
        """
        summary, domain = self._summarize_in_domain(sets)
        columns = ColumnSubset(sets, summary.bad, domain, tuple(range(sets.n_dims)), kind)
        if structure.kind != "pairs":
            self.spec_, self.structure_, self.pairs_, self.n_pairs_found_ = (
                make(columns),
                structure.kind,
                (),
                0,
            )
            return [self.spec_]
        paired = build_paired_params(structure, columns, make, n_pair_nodes)
        self.spec_, self.pairs_, self.n_pairs_found_ = paired
        self.structure_ = "pairs" if self.pairs_ else "marginal"
        return [part.spec for part in feature_blocks(self.spec_)]


def index_order(index_set: Any, extra_orders: dict[str, float]) -> float:
    """Return the order r of an index set {a: |a|_r < n_basis}; ``extra_orders`` maps additional names to orders."""
    order_by_name = extra_orders | {"tensor": np.inf, "total-degree": 1.0}
    match index_set:
        case str() if index_set in order_by_name:
            return order_by_name[index_set]
        case ("sobolev", s) if check_positive("s of index_set=('sobolev', s)", s) >= MIN_ORDER / 2:
            return 2 * float(s)
    raise ValueError(
        f"index_set must be one of {', '.join(map(repr, order_by_name))}, or ('sobolev', s) with "
        f"s >= {MIN_ORDER / 2:g}; got {index_set!r}"
    )


def resolve_frequencies(
    kappa: Divergence, rule: Any, n_frequencies: Any, random_state: RandomStateLike
) -> tuple[Numbers, Numbers]:
    """Return the frequencies and weights that ``frequencies`` and ``n_frequencies`` specify."""
    rule = check_choice("frequencies", rule, ("auto", *RULES))
    rule = DEFAULT_RULE if rule == "auto" else rule
    is_auto = is_literal(n_frequencies, "auto")
    n = frequency_count(kappa, rule) if is_auto else check_int("n_frequencies", n_frequencies)
    uniforms = None
    if rule == "random":
        uniforms = np.random.default_rng([draw_seed(random_state), RngStream.FREQUENCIES]).random(n)
    lam, w = frequency_rule(kappa, rule, n, uniforms=uniforms)
    return tuple(map(round_to_float32, lam)), tuple(map(round_to_float32, w))


@dataclass(frozen=True)
class BandwidthSpec:
    """Validated parameters: bandwidths (k, d) or the name of a rule, and ``n_basis`` (None for "auto")."""

    bandwidths: F64 | str
    n_basis: int | None

    def select(self, dims: Dims) -> BandwidthSpec:
        """Return the parameters for the dimensions ``dims``."""
        h = self.bandwidths
        return BandwidthSpec(h if isinstance(h, str) else h[:, list(dims)], self.n_basis)

    def compute(self, columns: ColumnSubset, minimum: float) -> F64:
        """Return the given bandwidths (k, d), or those computed by the rule, which are at least ``minimum``."""
        if not isinstance(self.bandwidths, str):
            return self.bandwidths
        rule = scott_bandwidths if self.bandwidths == "scott" else cross_validate_bandwidth
        return rule(columns.sets, columns.bad, columns.domain, columns.kind, minimum)


def resolve_bandwidth(bandwidth: Any, n_basis: Any, d: int, *, zero: bool) -> BandwidthSpec:
    """Check the parameters ``bandwidth`` (may be 0 with ``zero``) and ``n_basis`` for d dimensions."""
    count = None if is_literal(n_basis, "auto") else check_int("n_basis", n_basis, minimum=2)
    if isinstance(bandwidth, str):
        return BandwidthSpec(str(check_choice("bandwidth", bandwidth, ("auto", "scott"))), count)
    try:
        h = np.asarray(bandwidth, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):  # ragged or non-numeric input
        h = np.array(np.nan)
    scales = h if h.ndim == 2 else h.reshape(1, -1)
    is_valid = (((h >= MIN_SCALE) & (h <= MAX_SCALE)) | ((h == 0) & zero)).all()
    if h.ndim > 2 or len(scales) == 0 or scales.shape[1] not in (1, d) or not is_valid:
        raise ValueError(
            f"bandwidth must be a {'number >= 0' if zero else 'positive number'} or {d} of them (standard deviations "
            f"on the scaled domain, {MIN_SCALE:g} to {MAX_SCALE:g}), a nested sequence of these for several scales "
            f"([[0.05], [0.1]]), 'auto' or 'scott'; got {bandwidth!r}"
        )
    return BandwidthSpec(np.broadcast_to(scales, (len(scales), d)), count)


def scott_bandwidths(sets: Sets, bad: I64, domain: Domain, structure: str, minimum: float) -> F64:
    """Return Scott's rule (1, d) for the median set on the scaled domain; points outside are clipped."""
    _, variance, size = sample_moments(sets, bad, domain)
    scale = domain.low_and_scale[1].astype(np.float64)
    dims = 1 if structure == "marginal" else sets.n_dims
    return scott_bandwidth(np.sqrt(variance) * scale, size, dims, minimum)[None, :]


def divergence_bandwidths(param: BandwidthSpec, columns: ColumnSubset, order: float) -> tuple[F64, int]:
    """Return bandwidths (k, d) and n_basis of a divergence embedding of some columns with an index set."""
    param, d = param.select(columns.dims), len(columns.dims)
    max_nodes = param.n_basis or columns.max_nodes or max_nodes_per_dim(columns.kind, d, order)
    if columns.kind == "ball":
        minimum = max(RESOLVED_GRID_BANDWIDTH_PER_SPACING / max_nodes, min_ball_bandwidth(d))
        return param.compute(columns, minimum), max_nodes
    min_per_spacing = MIN_BANDWIDTH_PER_SPACING
    if is_literal(param.bandwidths, "scott") and param.n_basis is not None:
        min_per_spacing = SCOTT_BANDWIDTH_PER_SPACING
    h = param.compute(columns, min_per_spacing / max_nodes)
    return h, param.n_basis or n_nodes_to_resolve(float(h.min()), RESOLVED_BANDWIDTH_PER_SPACING, max_nodes)


def series_bandwidths(
    param: BandwidthSpec, columns: ColumnSubset, max_functions: int, order: float
) -> tuple[F64, int]:
    """Return bandwidths (k, d) and n_basis of an L2 embedding of some columns with an index set."""
    param, d = param.select(columns.dims), len(columns.dims)
    h = param.compute(columns, 0.0)
    if param.n_basis is not None:
        return h, param.n_basis
    max_nodes = columns.max_nodes or max_functions
    resolved = SERIES_BANDWIDTH_PER_SPACING
    if columns.kind == "ball" and order < np.inf:
        # the smallest norm of omitted degrees is n_basis d^(1/2 - 1/order) for an order below 2
        resolved = JOINT_SERIES_BANDWIDTH_PER_SPACING * d ** max(0.0, 1 / max(order, 1.0) - 0.5)
    return h, n_nodes_to_resolve(max(float(h.min()), MIN_SCALE), resolved, max_nodes)


def max_nodes_per_dim(structure: str, d: int, order: float = 0.0) -> int:
    """Return the largest number of nodes or functions per dimension for n_basis="auto".

    It is at least 10, except for d >= 4 joint dimensions: 6, 4 or 3 for d = 4, 5 or 6 without an index set. An index
    set of the given order has as many functions on a larger grid.
    """
    n = int((MAX_AUTO_NODES / d if structure == "marginal" else MAX_AUTO_NODES ** (1 / d)) + 1e-9)
    if structure != "ball":
        return max(DEFAULT_NODES_PER_DIM, n)
    while order and (n + 1) ** d <= MAX_GRID_NODES and len(index_set(d, n + 1, order)) <= MAX_AUTO_NODES:
        n += 1
    return n


def requested_pair_nodes(param: BandwidthSpec, resolved: float) -> int | None:
    """Return the number of nodes or functions of a pair; None if its bandwidth depends on the data."""
    if param.n_basis is not None:
        return param.n_basis**2
    if isinstance(param.bandwidths, str):
        return None
    h = max(float(param.bandwidths.min()), MIN_SCALE)
    return n_nodes_to_resolve(h, resolved, MAX_GROUP_NODES_PER_DIM[2]) ** 2


def n_nodes_to_resolve(h: float, resolved: float, maximum: int) -> int:
    """Return the number of nodes per dimension at which h is ``resolved`` node spacings, clipped to the limits."""
    return int(np.clip(np.ceil(resolved / h - 1e-9), MIN_NODES_PER_DIM, maximum))


def is_resolved(h: float, structure: str, d: int, n_basis: int) -> bool:
    """Return whether d^2 of densities of bandwidth h has an error of about 1 % or less; 2 % for d >= 4."""
    if structure == "ball":
        return h >= min_ball_bandwidth(d) * (1 - 1e-6)
    if structure == "grid" and n_basis < MIN_RESOLVING_GRID_NODES_PER_DIM:
        return False
    return h >= _resolved_bandwidth_per_spacing(structure) / n_basis * (1 - 1e-6)


def warn_unresolved_bandwidth(h: float, structure: str, d: int, n_basis: int) -> None:
    """Warn if the user's bandwidth is too small for the nodes."""
    if not is_resolved(h, structure, d, n_basis):
        resolved, minimum = _resolved_bandwidth_per_spacing(structure), 1
        if structure == "grid":
            minimum = MIN_RESOLVING_GRID_NODES_PER_DIM
        n_needed = max(minimum, int(np.ceil(resolved / h)))
        remedy = f"n_basis >= {n_needed}"
        if n_basis >= minimum:
            remedy += f" or bandwidth >= {resolved / n_basis:.3g}"
        warnings.warn(
            f"bandwidth {h:.3g} is too small for {n_basis} nodes per dimension (d^2 has errors of several %). Use "
            f"{remedy}.",
            stacklevel=find_stacklevel(),
        )


def _resolved_bandwidth_per_spacing(structure: str) -> float:
    return RESOLVED_GRID_BANDWIDTH_PER_SPACING if structure == "grid" else RESOLVED_BANDWIDTH_PER_SPACING


def flatten_bandwidths(bandwidths: F64) -> Numbers:
    """Return bandwidths (k, d) as a flat tuple, one scale after the other."""
    return tuple(map(round_to_float32, bandwidths.ravel()))


def public_bandwidth(bandwidths: F64) -> F64:
    """Return the attribute ``bandwidth_``: (d,) for one scale, (k, d) for several."""
    rounded = np.array(flatten_bandwidths(bandwidths)).reshape(bandwidths.shape)
    return rounded[0] if len(rounded) == 1 else rounded
