"""JSON from strangers: bounded in depth and kind before anything walks through it.

Columns with one entry a set (targets, ids, sizes) in a few words.

Small tables in HTML, for notebooks and reports: whatever text comes in is escaped here.
"""

from __future__ import annotations

import html
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

MOST_CLASSES = 20


def column_text(values: NDArray[Any]) -> str:
    """Its dtype, and its range or its classes.

    Examples
    --------
    >>> column_text(np.array([2, 1, 2])), column_text(np.array([0.5, 2.0]))
    ('int64, 2 classes: 1 (1), 2 (2)', 'float64, 0.5 to 2')
    """
    kind = kind_text(values.dtype)
    if values.ndim > 1:
        return f"{kind}, {values.shape[1]} columns"
    if len(values) == 0:
        return f"{kind}, none"
    if values.dtype.kind not in "biufU":
        return f"{kind}, {len(values):,} values"
    if values.dtype.kind == "f":
        return f"{kind}, {values.min():.6g} to {values.max():.6g}"
    classes, counts = np.unique(values, return_counts=True)
    if len(classes) > MOST_CLASSES:
        return f"{kind}, {len(classes):,} different values, {classes[0]} to {classes[-1]}"
    named = ", ".join(f"{c} ({n:,})" for c, n in zip(classes, counts, strict=True))
    return f"{kind}, {len(classes)} classes: {named}"


def kind_text(dtype: np.dtype[Any]) -> str:
    """What a column holds: text, or numbers of a dtype."""
    return "text" if dtype.kind == "U" else str(dtype)


def sizes_text(sizes: NDArray[Any]) -> str:
    """The least, the largest and the median number of points a set.

    Examples
    --------
    >>> sizes_text(np.array([3, 1200, 40]))
    '3 to 1,200 (median 40)'
    """
    if len(sizes) == 0:
        return "none"
    return f"{sizes.min():,} to {sizes.max():,} (median {np.median(sizes):,.0f})"


def numbers_text(values: NDArray[Any], most: int = 6) -> str:
    """The first few numbers of a vector, to six digits.

    Examples
    --------
    >>> numbers_text(np.array([1.5, 2e9, 0.25]), most=2)
    '1.5, 2e+09, ...'
    """
    shown = ", ".join(f"{v:.6g}" for v in values[:most].tolist())
    return f"{shown}, ..." if len(values) > most else shown


MOST_CHARACTERS = 300  # of one cell: names come from files, and may be as long as these
LEFT, RIGHT = "text-align:left;vertical-align:top", "text-align:right"


def escaped(value: object) -> str:
    """The text of anything, as HTML that shows it: no tag, no quote of an attribute, no half of a character."""
    return html.escape(str(value).encode("utf-8", "replace").decode("utf-8"), quote=True)


def shortened(value: object) -> str:
    """The text of anything, without its end where that would fill the page."""
    text = str(value)
    return text if len(text) <= MOST_CHARACTERS else f"{text[:MOST_CHARACTERS]}..."


def pairs_table(title: object, pairs: Iterable[tuple[object, object]]) -> str:
    """A title, and under it names with their values, one a line.

    Examples
    --------
    >>> print(pairs_table("sets", [("points", 12), ("names", "<b>")]))
    <div><strong>sets</strong><table><tbody>
    <tr><th style="text-align:left;vertical-align:top">points</th><td style="text-align:left;...">12</td></tr>
    <tr><th style="text-align:left;vertical-align:top">names</th><td style="text-align:left;...">&lt;b&gt;</td></tr>
    </tbody></table></div>
    """
    lines = [
        f'<tr><th style="{LEFT}">{_cell(name)}</th><td style="{LEFT}">{_cell(value)}</td></tr>'
        for name, value in pairs
    ]
    return _table(title, ["<tbody>", *lines, "</tbody>"])


def grid_table(
    title: object, columns: Sequence[object], rows: Iterable[Sequence[object]], n_text: int = 1
) -> str:
    """A title, and under it rows with the names of their columns; after the first ``n_text`` they are numbers.

    Examples
    --------
    >>> print(grid_table("", ["name", "size"], [("a", 3)]))
    <div><table><thead><tr><th style="text-align:left;...">name</th><th style="text-align:right">size</th></tr></thead>
    <tbody>
    <tr><td style="text-align:left;vertical-align:top">a</td><td style="text-align:right">3</td></tr>
    </tbody></table></div>
    """

    def line(tag: str, cells: Sequence[object]) -> str:
        styles = [LEFT if j < n_text else RIGHT for j in range(len(cells))]
        inner = [f'<{tag} style="{s}">{_cell(c)}</{tag}>' for s, c in zip(styles, cells, strict=True)]
        return f"<tr>{''.join(inner)}</tr>"

    head = f"<thead>{line('th', columns)}</thead>"
    return _table(title, [head, "<tbody>", *(line("td", row) for row in rows), "</tbody>"])


def _table(title: object, lines: Sequence[str]) -> str:
    head = f"<strong>{_cell(title)}</strong>" if str(title) else ""
    first, *others, last = lines
    return "\n".join([f"<div>{head}<table>{first}", *others, f"{last}</table></div>"])


def _cell(value: object) -> str:
    return escaped(shortened(value))


MOST_BYTES = 2**26
MOST_DEPTH = 64


def read_json(text: bytes, keys: Mapping[str, type]) -> dict[str, Any]:
    """The object that a text is, whose values under ``keys`` are of these types; ValueError if it is anything else."""
    if len(text) > MOST_BYTES:
        raise ValueError(f"its text has {len(text)} bytes, expected at most {MOST_BYTES}")
    try:
        value = json.loads(text.decode())
    except RecursionError:
        raise ValueError(f"its text is nested deeper than {MOST_DEPTH} levels") from None
    _require_shallow(value)
    if not isinstance(value, dict):
        raise ValueError(f"its text is a {type(value).__name__}, expected an object")
    for key, kind in keys.items():
        if type(value.get(key)) is not kind:
            raise ValueError(f"its text has {value.get(key)!r:.80} under {key!r}, expected a {kind.__name__}")
    return value


def _require_shallow(value: Any) -> None:
    level = [value]
    for _ in range(MOST_DEPTH):
        level = [
            item
            for outer in level
            if isinstance(outer, (dict, list))
            for item in (outer.values() if isinstance(outer, dict) else outer)
        ]
        if not level:
            return
    raise ValueError(f"its text is nested deeper than {MOST_DEPTH} levels")
