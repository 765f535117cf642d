"""The choices of `divergence_matrix`: which divergence an estimator knows, and which options it has a use for.

An option that would change nothing is refused by name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkdist.estimators._embedding import _tell_outside, count_outside
from dkdist.estimators._inputs import Sets, Unread, block_views
from dkdist.estimators._params import draw_seed, one_of, positive, whole
from dkdist.estimators._skipping import attempt
from dkdist.estimators.divergence import DivergenceEmbedding
from dkdist.execution.blocks import source_blocks
from dkdist.execution.mapping import collect
from dkdist.numerics import integrals
from dkdist.numerics.divergences import DIVERGENCES
from dkdist.parameters.divergence import DivergenceSpec
from dkdist.parameters.held_out import HeldOutDensities
from dkdist.parameters.pairwise import (
    HalvedEntropies,
    MatchedEntropies,
    NeighbourRatios,
    PairMeasure,
    PluginDensities,
)
from dkdist.sets import SampleSetError, SampleSets
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
K, N_BASIS, ORDER = 4, 32, 0.5  # defaults


def pair_measure(
    estimator: str, divergence: Divergence, given: Given, rows: Sets, columns: Sets | None
) -> PairMeasure:
    """The estimator with all choices made; ``given`` are the options of `divergence_matrix`, None if left out."""
    one_of("estimator", estimator, tuple(KNOWN))
    _require_known(estimator, divergence)
    useful = ["symmetric", *OPTIONS[estimator]]
    if divergence == "renyi":
        useful.append("alpha")
    if given["mixture"] == "halves":
        useful += ["duplicates", "random_state"]
    _refuse_useless(estimator, divergence, given, useful)
    if given["symmetric"] is False and divergence not in DIRECTED and not callable(divergence):
        raise ValueError(
            f"symmetric=False with {divergence!r}, which is symmetric: leave it out. Two directions have "
            f"{', '.join(map(repr, DIRECTED))} and a callable"
        )
    return _MEASURES[estimator](divergence, given, rows, columns)


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


def _entropy(divergence: Divergence, given: Given, rows: Sets, columns: Sets | None) -> PairMeasure:
    mixture = one_of("mixture", _or(given["mixture"], "all"), ("all", "halves"))
    k = _neighbours("entropy", given, rows, columns)
    if mixture == "all":
        return MatchedEntropies(k)
    if rows.n_dims == 1:
        _require_sizes(rows, columns, 2 * k + 1, f"spacings of 2 x {k} points")
    return HalvedEntropies(k, draw_seed(given["random_state"]), _floors(given))


def _knn(divergence: Divergence, given: Given, rows: Sets, columns: Sets | None) -> PairMeasure:
    k, alpha = _neighbours("knn", given, rows, columns), _order(given)
    if divergence == "renyi" and abs(alpha - 1) >= k:
        raise ValueError(
            f"a Renyi divergence of order {alpha} needs more than {abs(alpha - 1):g} neighbours: found k={k}"
        )
    symmetric = bool(given["symmetric"]) or divergence not in DIRECTED
    return NeighbourRatios(str(divergence), k, alpha, symmetric, _floors(given))


def _held_out(divergence: Divergence, given: Given, rows: Sets, columns: Sets | None) -> PairMeasure:
    _require_sizes(rows, columns, 2, "two halves")
    _require_no_weights("held-out", rows, columns)
    spec = _densities(given, rows, columns)
    if spec.structure == "ball":
        raise ValueError(
            f"estimator='held-out' takes joint densities of up to 3 dimensions, found {spec.n_dims}: use "
            "structure='marginal', or estimator='plugin' or 'entropy'"
        )
    return HeldOutDensities(spec, draw_seed(given["random_state"]))


def _plugin(divergence: Divergence, given: Given, rows: Sets, columns: Sets | None) -> PairMeasure:
    spec = _densities(given, rows, columns)
    directed = callable(divergence) or divergence in DIRECTED
    mean = directed and bool(given["symmetric"])
    return PluginDensities(spec, _kappa(divergence, given), symmetric=mean or not directed, mean=mean)


def _densities(given: Given, rows: Sets, columns: Sets | None) -> DivergenceSpec:
    """Densities as chosen from the columns; the rows are looked at."""
    chosen = {name: given[name] for name in OPTIONS["plugin"] if given[name] is not None}
    # whatever the divergence: only its densities are used
    densities = DivergenceEmbedding("hellinger", **{"n_basis": N_BASIS, **chosen})
    if columns is None:
        spec = densities.fit(rows).spec_
    else:
        with about_other():
            spec = densities.fit(columns).spec_
        _look_at(rows, spec)
    return spec


def _look_at(rows: Sets, spec: DivergenceSpec) -> None:
    """One pass over rows that the domain was not chosen for: every check, and points that count at its wall."""
    if isinstance(rows, SampleSets):
        found = [_outside(spec, rows, 0)]
    else:
        views, bounds, read_bytes = block_views(rows, row_bytes=0)
        blocks = source_blocks([Unread(view) for view in views], bounds, read_bytes)
        found = collect(blocks, partial(_outside, spec), bounds[:-1].tolist(), label="survey")
    _tell_outside(np.concatenate(found), 0)


def _outside(spec: DivergenceSpec, sets: Sets, first: int) -> NDArray[np.int64]:
    none = np.zeros(1, np.int64)
    count = partial(count_outside, spec.domain)
    return np.concatenate(attempt(count, sets, range(first, first + len(sets)), none, skip=False).results)


@contextmanager
def about_other() -> Iterator[None]:
    """Say of an error which names a set that it is one of ``other``."""
    try:
        yield
    except SampleSetError as error:
        error.add_note("The set is one of other.")
        raise


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
        sizes: NDArray[np.int64] = sets.sizes
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
