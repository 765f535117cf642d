"""What text stands for: the values of CSV files and of the names of partitions, which have no types of their own.

One rule for a whole column: whole numbers if every value is one as it would be printed (``7``, never ``007`` or
``+7``), else numbers if each reads as one without leading zeros, else booleans if each is true or false, else text.
So ids like ``007`` stay what they are, and a column has one type, however the table is cut into files.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

NO_VALUE = pa.array(sorted(pyarrow.csv.ConvertOptions().null_values))
WHOLE = r"^(0|-?[1-9][0-9]{0,18})$"
PADDED = r"^[+-]?0[0-9]"
TRUTH = pa.array(["true", "false"])


def ids_of(text: Any) -> Any:
    """Ids: int64 if all are whole numbers as they are printed, else the text as it is."""
    return _whole(text) if _every(pc.match_substring_regex(text, WHOLE)) else text


def values_of(text: Any, *, padded: bool = False, decimal: str = ".") -> Any:
    """Numbers, booleans or text by the rule; what is empty (for numbers also NA, NaN, null, ...) is missing.

    ``padded`` numbers may begin with zeros; ``decimal`` is the mark of numbers that are not whole.
    """
    text = _without(text, pa.array([""]))
    known = _without(text, NO_VALUE)
    if known.null_count == len(known):
        return text
    if _every(pc.match_substring_regex(known, WHOLE)):
        return _whole(known)
    if padded or not pc.any(pc.match_substring_regex(known, PADDED)).as_py():
        try:
            return _dotted(known, decimal).cast(pa.float64())
        except pa.ArrowInvalid:
            pass
    lower = pc.utf8_lower(known)
    if _every(pc.is_in(lower, value_set=TRUTH, skip_nulls=True), lower):
        return pc.equal(lower, "true")
    return text


def _dotted(text: Any, decimal: str) -> Any:
    """Numbers with a decimal point; those that have one in place of another mark are no numbers."""
    if decimal == ".":
        return text
    marked = pc.replace_substring(text, ".", "no number")
    return pc.replace_substring(marked, decimal, ".")


def _every(fits: Any, known: Any = None) -> bool:
    """Whether all values that are there fit."""
    if known is not None:
        fits = pc.or_(fits, pc.is_null(known))
    return bool(len(fits) and pc.all(fits).as_py())


def _whole(text: Any) -> Any:
    """Whole numbers of 64 bits; the text, if one is larger."""
    try:
        return text.cast(pa.int64())
    except pa.ArrowInvalid:
        return text


def _without(text: Any, missing: pa.Array) -> Any:
    """The same, in which some words are nulls."""
    return pc.if_else(pc.is_in(text, value_set=missing), pa.scalar(None, pa.string()), text)
