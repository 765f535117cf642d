"""What a notebook shows of sets in memory: how many, how large, where they lie."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dkdist.plain.column_text import column_text, numbers_text, sizes_text
from dkdist.plain.html_text import pairs_table

if TYPE_CHECKING:
    from dkdist.sets.sample_sets import SampleSets

MOST_NUMBERS = 10**8  # of the points, whose bounds are looked for: a tenth of a second
MOST_SYMBOLS = 60  # of an alphabet that is shown


def sets_card(sets: SampleSets) -> str:
    """An HTML table of a collection in memory; one pass over its points, if they are not very many."""
    weights, names, ids = sets.weights, sets.names, sets.ids
    pairs: list[tuple[object, object]] = [
        ("sets", f"{len(sets):,}"),
        ("points", f"{sets.n_points:,}"),
        ("points a set", sizes_text(sets.sizes)),
        ("dimensions", sets.n_dims if names is None else f"{sets.n_dims}: {', '.join(names)}"),
        ("dtype", sets.points_dtype),
    ]
    if sets.alphabet is not None:
        more = "..." if len(sets.alphabet) > MOST_SYMBOLS else ""
        pairs.append(("alphabet", f"{len(sets.alphabet)}: {sets.alphabet[:MOST_SYMBOLS]}{more}"))
    elif 0 < sets.relative.size <= MOST_NUMBERS:
        low, high = sets.bounds
        pairs += [("lowest", numbers_text(low)), ("highest", numbers_text(high))]
    if sets.origin.any():
        pairs.append(("origin", numbers_text(sets.origin)))
    if weights is not None:
        pairs.append(("weights", weights_text(weights.shape[1:])))
    if ids is not None:
        pairs.append(("ids", column_text(ids)))
    pairs += [(f"target {name!r}", column_text(values)) for name, values in sets.targets.items()]
    return pairs_table("SampleSets", pairs)


def weights_text(shape: tuple[int, ...] | None) -> str:
    """What the weight of a point is, from its shape; None for none."""
    if shape is None:
        return "none"
    return f"{shape[0]} a point" if shape else "one a point"
