"""Remedies for CSV files in another encoding, or with another delimiter, than they are read with."""

from __future__ import annotations

import codecs

SAMPLE_BYTES = 2**16
NAME_BY_DELIMITER = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "vertical bars"}
LATIN_1 = "It is not UTF-8 text, perhaps Latin-1: set encoding='latin-1' (--encoding latin-1)"
UTF_16 = "It is UTF-16 text: set encoding='utf-16' (--encoding utf-16)"


def csv_advice(path: str, delimiter: str | None, error: Exception | None = None) -> str:
    """What to do about a file that could not be read or lacks a column, behind a full stop; "" if that is unknown."""
    if is_encoding_error(error):
        advice = LATIN_1
    elif path.lower().endswith((".csv", ".tsv")):
        advice = _advice_of_sample(path, delimiter)
    else:
        advice = ""
    return advice and f". {advice}"


def is_encoding_error(error: Exception | None) -> bool:
    """Whether bytes were no UTF-8 text."""
    return isinstance(error, UnicodeDecodeError) or "UTF8" in str(error)


def _advice_of_sample(path: str, given: str | None) -> str:
    with open(path, "rb") as file:
        sample = file.read(SAMPLE_BYTES)
    if sample.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) or b"\0" in sample:
        return UTF_16
    header = sample.partition(b"\n")[0].decode("latin-1")
    expected = given or ("\t" if path.lower().endswith(".tsv") else ",")
    delimiter = max(NAME_BY_DELIMITER, key=header.count)
    if header.count(delimiter) <= header.count(expected):
        return ""
    return (
        f"Its columns are separated by {NAME_BY_DELIMITER[delimiter]}, expected "
        f"{NAME_BY_DELIMITER.get(expected, repr(expected))}: set delimiter={delimiter!r} (--delimiter), and "
        "decimal=',' (--decimal) for decimal commas"
    )
