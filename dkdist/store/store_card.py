"""What a notebook shows of a store: what its commit, metadata, offsets and targets say. No point is read."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from dkdist.plain.column_text import column_text, kind_text, numbers_text, sizes_text
from dkdist.plain.html_text import pairs_table
from dkdist.sets.sets_card import weights_text
from dkdist.store.format.layout import Commit
from dkdist.store.places.address import Address
from dkdist.store.reading.committed import Committed, open_committed
from dkdist.store.refusals import StoreFormatError

if TYPE_CHECKING:
    from dkdist.store.set_store import SetStore

MOST_READ = 10**6  # sets whose sizes and targets are read for it: 8 MB of each

Pairs = list[tuple[object, object]]


def store_card(sets: SetStore, address: Address, commit: Commit) -> str:
    """An HTML table of a store, or of the part of it that was chosen; damage that is met is said in its place."""
    of = "" if len(sets) == commit.n_sets else f" of {commit.n_sets:,}"
    names = getattr(sets, "names", None)
    pairs: Pairs = [
        ("place", address.label),
        ("sets", f"{len(sets):,}{of}"),
        ("dimensions", sets.n_dims if names is None else f"{sets.n_dims}: {', '.join(map(str, names))}"),
    ]
    if sets.origin.any():
        pairs.append(("origin", numbers_text(sets.origin)))
    try:
        pairs += _content(sets, open_committed(address, commit))
        health = "good, as far as was read: .verify() reads all"
    except (StoreFormatError, OSError) as error:
        health = f"{type(error).__name__}: {error}"
    pairs += [("commit", f"generation {commit.generation}"), ("health", health)]
    return pairs_table("SetStore", pairs)


def _content(sets: SetStore, committed: Committed) -> Pairs:
    """Sizes, ids and targets in a few words, or their dtypes where they are many; and how points are kept."""
    few = len(sets) <= MOST_READ
    pairs: Pairs = [("points", f"{sets.n_points:,}"), ("points a set", sizes_text(sets.sizes))] if few else []
    pairs.append(("dtype", sets.points_dtype))
    if committed.weighted:
        pairs.append(("weights", weights_text(sets.weights_shape)))
    if "ids" in committed.arrays:
        ids = sets.ids if few else None
        pairs.append(("ids", kind_text(committed.arrays["ids"].dtype) if ids is None else column_text(ids)))
    for name in committed.target_names:
        dtype = committed.arrays[f"targets/{name}"].dtype
        pairs.append((f"target {name!r}", column_text(sets.targets[name]) if few else kind_text(dtype)))
    return [*pairs, ("chunks of points", _chunks(committed))]


def _chunks(committed: Committed) -> str:
    points, rows = committed.arrays["points"], committed.chunk_rows
    n_chunks, size = (
        math.ceil(committed.commit.n_points / rows),
        rows * points.shape[1] * points.dtype.itemsize,
    )
    shards = "" if points.shards is None else f", in shards of {int(points.shards[0]):,}"
    sums = "with checksums" if committed.table else "without a table of checksums"
    return f"{n_chunks:,} of {rows:,} points ({size / 2**20:.3g} MiB){shards}, {sums}"
