"""The codes of strings in the alphabet of a store, which grows at its end and never beyond the dtype of the points."""

from __future__ import annotations

import numpy as np

from dkdist.sets import SampleSets
from dkdist.sets.point_checks import Points
from dkdist.sets.strings import as_alphabet, translation
from dkdist.store.refusals import StoreFormatError


def recoded(
    sets: SampleSets, alphabet: str | None, dtype: str | None, label: str
) -> tuple[Points, str | None]:
    """(codes, alphabet) of some sets to append: the store's alphabet, with what they have beside it at its end.

    ``dtype`` is that of the points that the store has, if it has any. Raises `StoreFormatError` for text in a store of
    numbers, for the reverse, and for more symbols than the dtype has codes.
    """
    if dtype is not None and (alphabet is None) != (sets.alphabet is None):
        kinds = "strings of characters", "points or codes without an alphabet"
        here, given = kinds if alphabet is not None else kinds[::-1]
        raise StoreFormatError(f"{label} holds {here}; the sets to append are {given}: give the same kind")
    if sets.alphabet is None or sets.alphabet == alphabet:
        return sets.relative, sets.alphabet
    if alphabet is None:
        return sets.relative, sets.alphabet
    grown = as_alphabet(alphabet + "".join(symbol for symbol in sets.alphabet if symbol not in set(alphabet)))
    if len(grown) > np.iinfo(str(dtype)).max + 1:
        raise StoreFormatError(
            f"{label} has {len(alphabet)} symbols and {len(grown)} with those to append, more than {dtype} codes can "
            "count: write all strings to a new store, or first a batch that has more than 256 symbols"
        )
    return translation(sets.alphabet, grown)[sets.relative].astype(str(dtype)), grown
