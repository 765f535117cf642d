"""Choices that embeddings by densities share: structure, bandwidths, and the frequencies of a divergence."""

from __future__ import annotations

from typing import Any

import numpy as np

from dkdist.base.bandwidth import scott_bandwidth
from dkdist.base.embedding_spec import Domain
from dkdist.base.inputs import Sets, sample_moments
from dkdist.base.parameter_checks import LEAST, MOST, draw_seed, is_word, one_of, positive, settled, whole
from dkdist.base.roles import Role
from dkdist.densities.measures.divergences import Divergence
from dkdist.densities.measures.frequencies import DEFAULT_RULE, RULES, frequency_count, frequency_rule
from dkdist.loops.array_types import F64, I64

Numbers = tuple[float, ...]

STRUCTURES = ("auto", "joint", "marginal")
MOST_TENSOR_DIMS = 3
MOST_JOINT_DIMS = 6
BANDWIDTH_RULES = ("auto", "scott")
LEAST_ORDER = 0.02  # of an index set: below it there are the axes alone, as there


def density_structure(structure: Any, d: int) -> str:
    """ "tensor", "ball" (joint, four dimensions or more) or "marginal"."""
    structure = one_of("structure", structure, STRUCTURES)
    if structure == "auto":
        structure = "joint" if d <= MOST_TENSOR_DIMS else "marginal"
    if structure == "marginal":
        return "marginal"
    if d > MOST_JOINT_DIMS:
        raise ValueError(
            f"structure='joint' estimates a density in {d} dimensions; up to {MOST_JOINT_DIMS} are supported. "
            "Use structure='marginal', or reduce the dimension of the points first"
        )
    return "tensor" if d <= MOST_TENSOR_DIMS else "ball"


def given_bandwidths(bandwidth: Any, d: int, *, zero: bool) -> F64 | str:
    """The bandwidths that were asked for, (k, d), or the rule. With ``zero``, none at all may be asked for."""
    if isinstance(bandwidth, str):
        return str(one_of("bandwidth", bandwidth, BANDWIDTH_RULES))
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
    return np.broadcast_to(scales, (len(scales), d))


def scott(sets: Sets, bad: I64, domain: Domain, structure: str, least: float) -> F64:
    """Scott's rule for the typical set, whose points outside count at the wall, on the scaled domain: (1, d)."""
    _, variance, size = sample_moments(sets, bad, domain)
    scale = domain.low_and_scale[1].astype(np.float64)
    dims = 1 if structure == "marginal" else sets.n_dims
    return scott_bandwidth(np.sqrt(variance) * scale, size, dims, least)[None, :]


def flat(bandwidths: F64) -> Numbers:
    """Bandwidths as a specification holds them: one scale after the other."""
    return tuple(map(settled, bandwidths.ravel()))


def shown(bandwidths: F64) -> F64:
    """Bandwidths as ``bandwidth_`` shows them: (d,) for one scale, (k, d) for several."""
    settled_ = np.array(flat(bandwidths)).reshape(bandwidths.shape)
    return settled_[0] if len(settled_) == 1 else settled_


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
        uniforms = np.random.default_rng([draw_seed(random_state), Role.FREQUENCIES]).random(n)
    lam, w = frequency_rule(kappa, rule, n, uniforms=uniforms)
    return tuple(map(settled, lam)), tuple(map(settled, w))
