"""The choices of `divergence_matrix`: which divergence an estimator knows, and which options it has a use for.

An option that would change nothing is refused by name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, cast

import numpy as np

from dkdist.base.bad_sets import attempt
from dkdist.base.embedding import count_outside, tell_outside
from dkdist.base.inputs import Sets, about, of_blocks
from dkdist.base.parameter_checks import draw_seed, is_word, one_of, positive, whole
from dkdist.densities.divergence import DivergenceEmbedding
from dkdist.densities.divergence_spec import DivergenceSpec
from dkdist.densities.measures.divergences import DIVERGENCES
from dkdist.densities.structure.asked_structure import MOST_TENSOR_DIMS
from dkdist.loops.array_types import I64
from dkdist.pairs.divergences import divergence_matrix_spec as measures
from dkdist.pairs.divergences import integrals
from dkdist.pairs.divergences.held_out_spec import HeldOutDensities
from dkdist.pairs.divergences.pair_estimators import PairEstimator
from dkdist.sets import SampleSetError
from dkdist.store import SetStore

Given = Mapping[str, Any]
Divergence = str | Callable[[Any, Any], Any]

DIRECTED = ("kullback-leibler", "renyi")
KNOWN: Mapping[str, tuple[str, ...]] = {
    "entropy": ("jensen-shannon",),
    "knn": ("kullback-leibler", "renyi", "hellinger"),
    "plugin": (*DIVERGENCES, "kullback-leibler", "renyi"),
    "held-out": ("jensen-shannon",),
}
OPTIONS: Mapping[str, tuple[str, ...]] = {
    "entropy": ("k", "mixture"),
    "knn": ("k", "duplicates"),
    "plugin": ("n_basis", "bandwidth", "domain", "structure"),
    "held-out": ("bandwidth", "domain", "structure", "random_state"),
}
OF_DIVERGENCES = ("symmetric", "alpha")  # options whatever the estimator
K, N_BASIS, ORDER = 4, 32, 0.5  # defaults


def pair_measure(
    estimator: str | PairEstimator, divergence: Divergence, given: Given, rows: Sets, columns: Sets | None
) -> measures.PairMeasure:
    """The estimator with all choices made; ``given`` are the options of `divergence_matrix`, None if left out."""
    if isinstance(estimator, PairEstimator):
        given, estimator = _with_options(estimator, given), estimator.name
    one_of("estimator", estimator, tuple(KNOWN))
    _require_known(estimator, divergence)
    useful = ["symmetric", *OPTIONS[estimator]]
    if divergence == "renyi":
        useful.append("alpha")
    if is_word(given["mixture"], "halves"):
        useful += ["duplicates", "random_state"]
    _refuse_useless(estimator, divergence, given, useful)
    if given["symmetric"] is False and divergence not in DIRECTED and not callable(divergence):
        raise ValueError(
            f"symmetric=False with {divergence!r}, which is symmetric: leave it out. Two directions have "
            f"{', '.join(map(repr, DIRECTED))} and a callable"
        )
    return _MEASURES[estimator](divergence, given, rows, columns)


def _with_options(estimator: PairEstimator, given: Given) -> Given:
    own, name = estimator.options, type(estimator).__name__
    for option, value in given.items():
        if value is not None and option not in OF_DIVERGENCES:
            hint = f"give {name}({option}=...)" if option in own else f"{name} has {', '.join(own)}"
            raise ValueError(
                f"{option}={value!r} beside estimator={estimator!r}, which holds its options: {hint}"
            )
    return {**given, **own}


def _require_known(estimator: str, divergence: Divergence) -> None:
    if not callable(divergence) and not isinstance(divergence, str):
        raise ValueError(
            f"divergence must be a name or a function, found {type(divergence).__name__}: other sets come third, "
            "divergence_matrix(sets, 'jensen-shannon', other)"
        )
    if callable(divergence) and estimator == "plugin":
        return
    word = divergence if isinstance(divergence, str) else None
    if word in KNOWN[estimator]:
        return
    who = [name for name in KNOWN if word in KNOWN[name] or (callable(divergence) and name == "plugin")]
    elsewhere = f", which is known to estimator {' and '.join(map(repr, who))}" if who else ""
    raise ValueError(
        f"estimator {estimator!r} knows the divergences {', '.join(map(repr, KNOWN[estimator]))}; "
        f"found {divergence!r}{elsewhere}"
    )


def _refuse_useless(estimator: str, divergence: Divergence, given: Given, useful: list[str]) -> None:
    for name, value in given.items():
        if value is not None and name not in useful:
            raise ValueError(
                f"{name}={value!r} would change nothing for estimator={estimator!r} and divergence={divergence!r}: "
                f"leave it out. Options there are: {', '.join(useful)}"
            )


def _entropy(divergence: Divergence, given: Given, rows: Sets, columns: Sets | None) -> measures.PairMeasure:
    mixture = one_of("mixture", _or(given["mixture"], "all"), ("all", "halves"))
    k = _neighbours("entropy", given, rows, columns)
    if mixture == "all":
        return measures.MatchedEntropies(k)
    if rows.n_dims == 1:
        _require_sizes(rows, columns, 2 * k + 1, f"spacings of 2 x {k} points")
    return measures.HalvedEntropies(k, draw_seed(given["random_state"]), _floors(given))


def _knn(divergence: Divergence, given: Given, rows: Sets, columns: Sets | None) -> measures.PairMeasure:
    k, alpha = _neighbours("knn", given, rows, columns), _order(given)
    if divergence == "renyi" and abs(alpha - 1) >= k:
        raise ValueError(
            f"a Renyi divergence of order {alpha} needs more than {abs(alpha - 1):g} neighbours: found k={k}"
        )
    symmetric = bool(given["symmetric"]) or divergence not in DIRECTED
    return measures.NeighbourRatios(str(divergence), k, alpha, symmetric, _floors(given))


def _held_out(divergence: Divergence, given: Given, rows: Sets, columns: Sets | None) -> measures.PairMeasure:
    _require_sizes(rows, columns, 2, "two halves")
    _require_no_weights("held-out", rows, columns)
    spec = _densities(given, rows, columns)
    if spec.structure == "ball":
        raise ValueError(
            f"estimator='held-out' takes joint densities of up to 3 dimensions, found {spec.n_dims}: use "
            "structure='marginal', or estimator='plugin' or 'entropy'"
        )
    return HeldOutDensities(spec, draw_seed(given["random_state"]))


def _plugin(divergence: Divergence, given: Given, rows: Sets, columns: Sets | None) -> measures.PairMeasure:
    spec = _densities(given, rows, columns)
    directed = callable(divergence) or divergence in DIRECTED
    mean = directed and bool(given["symmetric"])
    kappa = _kappa(divergence, given)
    return measures.PluginDensities(spec, kappa, symmetric=mean or not directed, mean=mean)


def _densities(given: Given, rows: Sets, columns: Sets | None) -> DivergenceSpec:
    """Densities as chosen from the columns; the rows are looked at."""
    chosen = {name: given[name] for name in OPTIONS["plugin"] if given[name] is not None}
    word = one_of("structure", chosen.get("structure", "auto"), ("auto", "joint", "marginal"))
    usual = (
        "joint" if rows.n_dims <= MOST_TENSOR_DIMS else "marginal"
    )  # one density a set, or one a dimension
    chosen["structure"] = usual if word == "auto" else word
    # whatever the divergence: only its densities are used
    densities = DivergenceEmbedding("hellinger", **{"n_basis": N_BASIS, **chosen})
    if columns is None:
        return cast(DivergenceSpec, densities.fit(rows).spec_)
    with about("one of other"):
        spec = cast(DivergenceSpec, densities.fit(columns).spec_)
    _look_at(rows, spec)
    return spec


def _look_at(rows: Sets, spec: DivergenceSpec) -> None:
    """One pass over rows that the domain was not chosen for: every check, and points that count at its wall."""
    outside = np.concatenate(of_blocks(partial(_outside, spec), rows, "survey"))
    tell_outside(outside, 0, spec.domain, rows.n_points)


def _outside(spec: DivergenceSpec, sets: Sets, first: int) -> I64:
    none = np.zeros(1, np.int64)
    count = partial(count_outside, spec.domain)
    return np.concatenate(attempt(count, sets, range(first, first + len(sets)), none, skip=False).results)


def _kappa(divergence: Divergence, given: Given) -> integrals.Integrand | float:
    if divergence == "renyi":
        return _order(given)
    if divergence == "kullback-leibler":
        return integrals.kullback_leibler
    if not callable(divergence):
        return DIVERGENCES[divergence].kappa
    p, q = np.array([1e-6, 0.5, 1.0, 30.0]), np.array([1.0, 1.0, 1.0, 1e-6])
    found = np.asarray(divergence(p, q))
    if found.shape != p.shape or found.dtype.kind != "f" or not np.isfinite(found).all():
        raise ValueError(
            f"kappa(p, q) must give one finite float for each element: for p={p.tolist()} and q={q.tolist()} "
            f"found {found!r}"
        )
    return divergence


def _neighbours(estimator: str, given: Given, rows: Sets, columns: Sets | None) -> int:
    k = whole("k", _or(given["k"], K))
    _require_sizes(rows, columns, k + 1, f"k={k} neighbours of a point")
    _require_no_weights(estimator, rows, columns)
    return k


def _require_no_weights(estimator: str, rows: Sets, columns: Sets | None) -> None:
    for sets, of in _sides(rows, columns):
        shape = sets.weights_shape if isinstance(sets, SetStore) else getattr(sets.weights, "shape", None)
        if shape is not None:
            raise SampleSetError(
                f"the sets{of} (set 0 and all others) have weights, and estimator={estimator!r} counts points: use "
                "estimator='plugin', which takes weights, or sets without them"
            )


def _require_sizes(rows: Sets, columns: Sets | None, least: int, what: str) -> None:
    for sets, of in _sides(rows, columns):
        sizes: I64 = sets.sizes
        if sizes.min() < least:
            i = int(np.argmin(sizes >= least))
            raise SampleSetError(
                f"set {i}{of} has {sizes[i]} point(s); {what} need at least {least}: drop the set, or use a smaller k"
            )


def _sides(rows: Sets, columns: Sets | None) -> list[tuple[Sets, str]]:
    return [(rows, "")] if columns is None else [(rows, ""), (columns, " of other")]


def _order(given: Given) -> float:
    alpha = positive("alpha", _or(given["alpha"], ORDER))
    if alpha == 1:
        raise ValueError("alpha must not be 1: the Renyi divergence of order 1 is 'kullback-leibler'")
    return alpha


def _floors(given: Given) -> bool:
    return bool(one_of("duplicates", _or(given["duplicates"], "raise"), ("raise", "floor")) == "floor")


def _or(value: Any, default: Any) -> Any:
    return default if value is None else value


_MEASURES = {"entropy": _entropy, "knn": _knn, "plugin": _plugin, "held-out": _held_out}
