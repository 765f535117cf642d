"""Strings as sets of codes: character k of an alphabet is code k, and points are in the order of the text.

An alphabet is a str of distinct characters. It belongs to one collection and may grow at its end, so the codes of one
text differ between collections; `translate_codes` converts them for comparisons. Bytes and sequences of integers below
65,536 are codes already and have no alphabet.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dkdist._numba.arrays import I64
from dkdist.sets.point_checks import CODE_DTYPES, Points, SampleSetError, locate

MAX_ALPHABET_SIZE = 2**16  # codes are at most uint16; tests/sets/test_strings.py
U4 = NDArray[np.uint32]
EMPTY_STRING_HINT = (
    "Drop it and its target, or prefix every string with the same character, which changes no edit distance."
)


def is_list_of_strings(arrays: Sequence[Any]) -> bool:
    """Whether a list contains strings: text, bytes, or flat sequences of integers."""
    first = arrays[0] if len(arrays) else None
    if isinstance(first, np.ndarray):
        return bool(first.ndim == 1 and first.dtype.kind in "iu")
    if isinstance(first, (list, tuple)):
        return len(first) > 0 and all(type(v) is int or isinstance(v, np.integer) for v in first)
    return isinstance(first, (str, bytes))


def encode(strings: Iterable[Any], alphabet: str | None = None) -> tuple[Points, I64, str | None]:
    """Return (codes, offsets, alphabet) of a list of str, of bytes, or of integer sequences.

    Characters that the alphabet lacks are appended in the order of their code points. Codes are uint8 for at most 256
    symbols, else uint16.
    """
    if isinstance(strings, (str, bytes, Mapping, Set)) or not isinstance(strings, Iterable):
        raise SampleSetError(
            f"strings must be a list of str, bytes or integer sequences; got {type(strings).__name__}. Pass [text] for "
            "one string."
        )
    strings = list(strings)
    if len(strings) == 0:
        raise SampleSetError("strings must contain at least one string; got an empty list.")
    alphabet = None if alphabet is None else as_alphabet(alphabet)
    kind = _type_name(strings[0])
    for i, string in enumerate(strings):
        if _type_name(string) != kind:
            raise SampleSetError(
                f"strings must have one type; got {kind} (set 0) and {_type_name(string)} (set {i})."
            )
    edges = np.concatenate([[0], np.cumsum([len(string) for string in strings])]).astype(np.int64)
    if np.diff(edges).min() == 0:
        i = int(np.argmin(np.diff(edges)))
        raise SampleSetError(
            f"string {i} (set {i}) is empty. Every set needs at least one symbol. {EMPTY_STRING_HINT}"
        )
    if kind == "str":
        codes, alphabet = _with_alphabet(code_points("".join(strings)), alphabet or "")
        return codes, edges, alphabet
    if kind == "bytes":
        return np.frombuffer(b"".join(strings), np.uint8)[:, None], edges, None
    return _numbers(strings, edges), edges, None


def _type_name(string: Any) -> str:
    return (
        "str" if isinstance(string, str) else "bytes" if isinstance(string, bytes) else "sequence of integers"
    )


def code_points(text: str) -> U4:
    """Return the code points of a text."""
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)


def _with_alphabet(text: U4, alphabet: str) -> tuple[Points, str]:
    new = np.setdiff1d(np.unique(text), code_points(alphabet))
    alphabet += new.tobytes().decode("utf-32-le", "surrogatepass")
    if len(alphabet) > MAX_ALPHABET_SIZE:
        raise SampleSetError(
            f"strings must have at most {MAX_ALPHABET_SIZE} distinct characters; got {len(alphabet)}."
        )
    symbols = code_points(alphabet)
    order = np.argsort(symbols)
    codes = order[np.searchsorted(symbols, text, sorter=order)]
    return codes.astype(np.uint8 if len(alphabet) <= 256 else np.uint16)[:, None], alphabet


def _numbers(strings: Sequence[Any], edges: I64) -> Points:
    parts = [np.asarray(string) for string in strings]
    for i, part in enumerate(parts):
        if part.ndim != 1 or part.dtype.kind not in "iu":
            raise SampleSetError(
                f"strings must have one type; got a sequence of integers (set 0) and an array of dtype {part.dtype} "
                f"and shape {part.shape} (set {i})."
            )
    if {part.dtype for part in parts} <= set(CODE_DTYPES):
        return np.concatenate(parts)[:, None]
    codes = np.concatenate([part.astype(np.int64) for part in parts])
    if codes.min() < 0 or codes.max() >= MAX_ALPHABET_SIZE:
        row = int(np.argmax((codes < 0) | (codes >= MAX_ALPHABET_SIZE)))
        i, r = locate(edges, row)
        raise SampleSetError(
            f"codes must be integers from 0 to {MAX_ALPHABET_SIZE - 1}; got {codes[row]} (symbol {r} of set {i}). "
            "Number the distinct symbols, as numpy.unique(symbols, return_inverse=True) does."
        )
    return codes.astype(np.uint8 if codes.max() < 256 else np.uint16)[:, None]


def decode(codes: Points, offsets: I64, alphabet: str) -> list[str]:
    """Convert codes to strings."""
    text = code_points(alphabet)[codes.reshape(-1)].tobytes().decode("utf-32-le", "surrogatepass")
    edges = offsets.tolist()
    return [text[a:b] for a, b in itertools.pairwise(edges)]


def translate_codes(source: str, target: str) -> I64:
    """Return, for each code of one alphabet, the code of its symbol in another; -1 if absent."""
    code_by_symbol = {symbol: code for code, symbol in enumerate(target)}
    return np.array([code_by_symbol.get(symbol, -1) for symbol in source], np.int64)


def as_alphabet(alphabet: Any) -> str:
    """Return the alphabet; raises unless it is a str of distinct characters."""
    valid = isinstance(alphabet, str) and 0 < len(alphabet) <= MAX_ALPHABET_SIZE
    if not valid or len(set(alphabet)) < len(alphabet):
        raise SampleSetError(
            f"alphabet must be a str of 1 to {MAX_ALPHABET_SIZE} distinct characters; got {alphabet!r:.60}."
        )
    return str(alphabet)
